//! Copies of replicas on their own server, each to become a replica of another chunk (R32).
//!
//! ```text
//!   CopyChunk ─► blocks, part by part ─► finished: answered ─► Raise{adopt}: it is a replica
//!                     └─► the disk refuses: refused, gone      long left alone ─► gone
//! ```
//! - LO1: until it is adopted a copy is in no table of replicas, and it is adopted only while its
//!   source stands at the version that was named: there nobody mutates it.
//! - LO2: what may have lost bytes, or has bad ones, is copied by nobody (R28).

use crate::outbox::{DiskPurpose, Outbox, failure_of};
use crate::replica_context::ReplicaContext;
use crate::replica_table::ReplicaTable;
use crate::told::told_of;
use cairn_env::{Caller, ChunkDone, ChunkJob, ChunkResult, CloneWork, LogEvent};
use cairn_protocol::{CopyChunk, CopyChunkAnswer, ErrorCode, Failure, ReplicaReport, Response};
use cairn_types::{ChunkHandle, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Copies that a server makes at once: as many files may be written to after a snapshot.
const COPIES_MAX: usize = 1024;

/// One copy.
#[derive(Debug)]
struct LocalCopy {
    order: CopyChunk,
    /// Tells the completions of this one from those of an earlier one of that name.
    number: u64,
    /// As the source stood, under the copy's own name.
    stands: ReplicaReport,
    /// Who waits for it; nobody: it is on disk.
    waits: Option<Caller>,
    touched: Time,
}

/// The copies of a server.
#[derive(Debug, Default)]
pub(crate) struct LocalCopies(BTreeMap<ChunkHandle, LocalCopy>);

/// How what is to be copied stands; refused where it may not be (LO1, LO2).
pub(crate) fn source_of(table: &ReplicaTable, order: &CopyChunk) -> Result<ReplicaReport, Failure> {
    table.check_absent(order.copy)?;
    let short = order.handle.short();
    let source = table.get(order.handle).ok_or_else(|| {
        let why = format!("no replica of chunk {short} is here");
        Failure::not_done(ErrorCode::NoSuchChunk, why)
    })?;
    source.stored().check_version(order.version)?;
    let why = if source.stored().report().suspect || source.stored().is_damaged() {
        "it may have lost bytes, or has bad ones"
    } else if !source.can_go() {
        "it is being changed"
    } else {
        return Ok(source.stored().report());
    };
    Err(Failure::not_done(ErrorCode::ReplicaFailed, format!("chunk {short}: {why}")))
}

fn job(out: &mut Outbox, (handle, number): (ChunkHandle, u64), work: CloneWork) {
    let purpose = DiskPurpose::Clone { handle, number };
    out.chunk_job(handle, purpose, ChunkJob::Clone { handle, work });
}

impl LocalCopies {
    /// Whether that chunk is being made as a copy.
    pub(crate) fn is_making(&self, handle: ChunkHandle) -> bool {
        self.0.contains_key(&handle)
    }

    /// A master's order to copy what stands so.
    pub(crate) fn order(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (from, number): (Caller, u64),
        order: CopyChunk,
        source: &ReplicaReport,
    ) -> Result<(), Failure> {
        if order.copy == ChunkHandle::default() || order.copy == order.handle {
            return Err(Failure::refused(ErrorCode::Invalid, "a copy has a name of its own"));
        }
        if self.is_making(order.copy) || self.0.len() == COPIES_MAX {
            let why = format!("{} copies are being made here already", self.0.len());
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        let stands = ReplicaReport { handle: order.copy, ..source.clone() };
        let (waits, touched) = (Some(from), cx.now);
        let copy = LocalCopy { order, number, stands, waits, touched };
        self.0.insert(order.copy, copy);
        job(cx.out, (order.copy, number), CloneWork::Copy { of: order.handle, offset: 0 });
        Ok(())
    }

    /// The disk has done what it was asked for; whether that was one of these.
    pub(crate) fn on_disk(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (handle, number): (ChunkHandle, u64),
        result: &ChunkResult,
    ) -> bool {
        let copy = self.0.get_mut(&handle).filter(|copy| copy.number == number);
        let Some(copy) = copy else { return false };
        copy.touched = cx.now;
        assert!(copy.waits.is_some(), "a copy is finished once");
        match result {
            Ok(ChunkDone::Copied { next: Some(offset) }) => {
                let work = CloneWork::Copy { of: copy.order.handle, offset: *offset };
                job(cx.out, (handle, number), work);
            }
            Ok(ChunkDone::Copied { next: None }) => {
                let work = CloneWork::Finish { stands: copy.stands.clone() };
                job(cx.out, (handle, number), work);
            }
            Ok(_) => {
                let (stands, of) = (&copy.stands, copy.order.handle);
                let event = || told_of(LogEvent::debug("copy made"), stands);
                cx.out.debug(|| event().with("of", of.short()));
                let ReplicaReport { serial, length, mutated_version, .. } = copy.stands;
                let answer = CopyChunkAnswer { serial, length, mutated_version };
                if let Some(from) = copy.waits.take() {
                    cx.out.reply(from, Response::CopyChunk(answer));
                }
            }
            Err(error) => {
                if let Some(from) = copy.waits.take() {
                    cx.out.refuse(from, failure_of(error));
                }
                self.drop_copy(cx.out, handle);
            }
        }
        true
    }

    /// The finished copy of that name, which is none of these any more; none where there is none
    /// such, or its source stands elsewhere by now (LO1).
    pub(crate) fn take_finished(
        &mut self,
        table: &ReplicaTable,
        handle: ChunkHandle,
    ) -> Option<ReplicaReport> {
        let copy = self.0.get(&handle).filter(|copy| copy.waits.is_none())?;
        let source = table.get(copy.order.handle)?.stored();
        let is_same = source.version() == copy.order.version
            && source.serial() == copy.stands.serial
            && source.length() == copy.stands.length;
        if !is_same {
            return None;
        }
        self.0.remove(&handle).map(|copy| copy.stands)
    }

    /// Those that nobody has asked for in so long go.
    pub(crate) fn tick(&mut self, cx: &mut ReplicaContext<'_>, patience: Duration) {
        assert!(self.0.len() <= COPIES_MAX, "{} copies", self.0.len());
        let left =
            |copy: &&LocalCopy| copy.waits.is_none() && cx.now.since(copy.touched) > patience;
        let left: Vec<ChunkHandle> =
            self.0.values().filter(left).map(|copy| copy.order.copy).collect();
        for handle in left {
            self.drop_copy(cx.out, handle);
        }
    }

    fn drop_copy(&mut self, out: &mut Outbox, handle: ChunkHandle) {
        self.0.remove(&handle);
        let drop = ChunkJob::Clone { handle, work: CloneWork::Drop };
        out.chunk_job(handle, DiskPurpose::Nobody, drop);
    }
}
