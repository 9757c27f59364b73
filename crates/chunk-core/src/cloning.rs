//! Clones that are being made on this server: chunks that it is to have replicas of (R30).
//!
//! ```text
//!   CloneChunk ─► begin ─► Fetch ─► install ─► rest, as clone_pace.rs has it ─┐
//!                            ▲  └─► none differs: answered, finished          │
//!                            └────────────────────────────────────────────────┘
//!   Raise{adopt} ─► what is finished is a replica
//!   DropClone, or long left alone ─► gone
//! ```
//! - CL1: until it is adopted a clone is in no table of replicas: nobody reads it, no heartbeat
//!   tells of it as held.
//! - CL2: one thing of a clone is under way at a time. An order that comes meanwhile takes the
//!   place of the one before, and goes on with what is there.
//! - CL3: where this server's disk refuses, the clone goes; where the source does, what was fetched
//!   stays for the next order, until nobody has asked for it for long.

use crate::assembling::Assemblies;
use crate::clone_order::{AfterPass, CloneOrder};
use crate::clone_pace::{AskedPiece, ClonePace};
use crate::fetched_blocks::FetchedBlocks;
use crate::local_copies::LocalCopies;
use crate::outbox::{CallPurpose, DiskPurpose, Outbox, failure_of};
use crate::replica_context::ReplicaContext;
use crate::replica_table::ReplicaTable;
use crate::stored_replica::StoredReplica;
use crate::told::told_of;
use bytes::Bytes;
use cairn_env::{Caller, ChunkDone, ChunkJob, ChunkResult, CloneWork, LogEvent};
use cairn_protocol::{
    AssembleChunk, CloneChunk, CloneProgress, CopyChunk, DropCloneAnswer, ErrorCode, Failure,
    Fetch, FetchAnswer, Raise, ReplicaReport, Response,
};
use cairn_types::{BlockChecksums, CLONES_OF_SERVER_MAX, ChunkHandle, Crc32c, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Clones that a server makes at once.
const CLONES_MAX: usize = CLONES_OF_SERVER_MAX as usize;
/// Times `silent_ms` that a source may take for one answer: its link may be shared by many.
const PATIENCE: u32 = 3;

/// What is under way.
#[derive(Debug)]
enum ClonePhase {
    /// Nothing.
    Idle,
    /// Its files are made, or looked at.
    Beginning,
    /// The source was asked, from there on.
    Asking { offset: u64, piece: AskedPiece },
    /// It is to be asked from there on, then, when it is this clone's turn.
    Resting { offset: u64, until: Time },
    /// Blocks that came are stored.
    Installing { offset: u64, end: u64, checksums: BlockChecksums },
    /// It is brought to disk as one that stands so.
    Finishing(ReplicaReport),
    /// It is on disk as one that stands so.
    Finished(ReplicaReport),
}

/// One clone.
#[derive(Debug)]
struct ChunkClone {
    handle: ChunkHandle,
    /// Tells the completions of this one from those of an earlier one of the same chunk.
    number: u64,
    phase: ClonePhase,
    order: Option<CloneOrder>,
    /// Came while something was under way (CL2).
    next: Option<CloneOrder>,
    length: u64,
    checksums: Vec<Crc32c>,
    /// Bytes that the source stores.
    total: u64,
    /// Its source is not asked before.
    rests_until: Time,
    /// When it was last worked on.
    touched: Time,
}

/// The pace of all clones, and whether a piece of another one is on its way.
type Turn<'a> = (&'a mut ClonePace, bool);

/// Whether a clone lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloneFate {
    Kept,
    Gone,
}

/// The clones of a server.
#[derive(Debug, Default)]
pub(crate) struct Clones {
    by_handle: BTreeMap<ChunkHandle, ChunkClone>,
    last: u64,
    pace: ClonePace,
    /// Of replicas of this server.
    copies: LocalCopies,
    /// Of ranges of several.
    assemblies: Assemblies,
}

impl Clones {
    /// What the master lets all of them together take.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.pace.set_rate(rate);
    }

    /// Whether that chunk is being made here, as a clone, a copy or of ranges.
    pub(crate) fn is_making(&self, handle: ChunkHandle) -> bool {
        self.by_handle.contains_key(&handle)
            || self.copies.is_making(handle)
            || self.assemblies.is_making(handle)
    }

    /// A master's order to make a chunk of ranges of others, of which these are here.
    pub(crate) fn assemble(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        order: (AssembleChunk, Vec<bool>),
    ) -> Result<(), Failure> {
        self.last += 1;
        self.assemblies.order(cx, (from, self.last), order)
    }

    /// A master's order to copy a replica of this server, which stands so.
    pub(crate) fn copy(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        (order, source): (CopyChunk, &ReplicaReport),
    ) -> Result<(), Failure> {
        self.last += 1;
        self.copies.order(cx, (from, self.last), order, source)
    }

    /// A master's order.
    pub(crate) fn order(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        clone: CloneChunk,
    ) -> Result<(), Failure> {
        let handle = clone.handle;
        if handle == ChunkHandle::default() {
            return Err(Failure::refused(ErrorCode::Invalid, "a chunk's handle is never zero"));
        }
        if !self.by_handle.contains_key(&handle) {
            if self.by_handle.len() == CLONES_MAX {
                let why = format!("{CLONES_MAX} clones are being made here already");
                return Err(Failure::not_done(ErrorCode::Busy, why));
            }
            self.last += 1;
            self.by_handle.insert(handle, ChunkClone::new(handle, self.last, cx.now));
        }
        // Clients wait for one that is finished: it alone keeps to no rate.
        if !clone.finish {
            self.pace.set_rate(clone.rate);
        }
        let known = self.by_handle.get_mut(&handle).expect("it was there, or was made just now");
        known.take_order(cx, CloneOrder::new(from, clone));
        Ok(())
    }

    /// A clone is given up; whoever waits for it is told.
    pub(crate) fn give_up(
        &mut self,
        out: &mut Outbox,
        handle: ChunkHandle,
        purpose: DiskPurpose,
        why: &str,
    ) {
        if let Some(mut clone) = self.by_handle.remove(&handle) {
            clone.refuse_all(out, &Failure::not_done(ErrorCode::NoSuchChunk, why));
        }
        self.assemblies.give_up(out, handle, why);
        out.chunk_job(handle, purpose, ChunkJob::Clone { handle, work: CloneWork::Drop });
    }

    /// Where a raise adopts a clone, it is among the replicas from here on; the raise then gives it
    /// its version (R10).
    pub(crate) fn adopt(
        &mut self,
        table: &mut ReplicaTable,
        raise: Raise,
    ) -> Result<Raise, Failure> {
        if !raise.adopt {
            return Ok(raise);
        }
        table.check_absent(raise.handle)?;
        let copy = self.copies.take_finished(table, raise.handle);
        let stands = match copy.or_else(|| self.assemblies.take_finished(raise.handle)) {
            Some(stands) => stands,
            None => self.take_finished(raise.handle)?,
        };
        table.insert(StoredReplica::of_clone(&stands));
        // A closed chunk's clone is closed: the mark is taken with the version.
        Ok(Raise { close: raise.close || stands.closed, ..raise })
    }

    /// The finished clone of a chunk, which is none of these any more.
    fn take_finished(&mut self, handle: ChunkHandle) -> Result<ReplicaReport, Failure> {
        let clone = self.by_handle.get(&handle);
        match clone.map(|clone| (&clone.phase, &clone.next)) {
            Some((ClonePhase::Finished(stands), None)) => {
                let stands = stands.clone();
                self.by_handle.remove(&handle);
                Ok(stands)
            }
            _ => {
                let why = format!("no finished clone of chunk {} is here", handle.short());
                Err(Failure::not_done(ErrorCode::NoSuchChunk, why))
            }
        }
    }

    /// What comes due.
    pub(crate) fn tick(&mut self, cx: &mut ReplicaContext<'_>) {
        let patience = Duration::from_millis(cx.config.dead_ms);
        self.copies.tick(cx, patience);
        self.assemblies.tick(cx);
        assert!(self.by_handle.len() <= CLONES_MAX, "{} clones", self.by_handle.len());
        let left = |clone: &&ChunkClone| clone.is_left_alone(cx.now, patience);
        let left: Vec<ChunkHandle> =
            self.by_handle.values().filter(left).map(|it| it.handle).collect();
        for handle in left {
            self.give_up(cx.out, handle, DiskPurpose::Nobody, "nobody has asked for it for long");
        }
        for handle in self.in_turn(cx.now) {
            let others = self.others_ask(handle);
            let clone = self.by_handle.get_mut(&handle).expect("it rests");
            if let ClonePhase::Resting { offset, .. } = clone.phase {
                clone.go_on(cx, (&mut self.pace, others), offset);
            }
        }
    }

    /// The clones that have rested, those first that have waited longest for their turn.
    fn in_turn(&self, now: Time) -> Vec<ChunkHandle> {
        let waits = |clone: &ChunkClone| match clone.phase {
            ClonePhase::Resting { until, .. } if now >= until => Some((until, clone.handle)),
            _ => None,
        };
        let mut all: Vec<(Time, ChunkHandle)> = self.by_handle.values().filter_map(waits).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, handle)| handle).collect()
    }

    /// Whether another clone's piece is on its way.
    fn others_ask(&self, handle: ChunkHandle) -> bool {
        let asks = |clone: &ChunkClone| matches!(clone.phase, ClonePhase::Asking { .. });
        self.by_handle.values().any(|clone| clone.handle != handle && asks(clone))
    }

    /// How far each is.
    pub(crate) fn progress(&self) -> Vec<CloneProgress> {
        let progress = |clone: &ChunkClone| CloneProgress {
            handle: clone.handle,
            copied: clone.length,
            total: clone.total.max(clone.length),
            waits: matches!(clone.phase, ClonePhase::Resting { .. }),
        };
        self.by_handle.values().map(progress).collect()
    }

    /// One of them, if it is the one meant.
    fn with(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (handle, number): (ChunkHandle, u64),
        act: impl FnOnce(&mut ChunkClone, &mut ReplicaContext<'_>, Turn<'_>) -> CloneFate,
    ) {
        let others = self.others_ask(handle);
        let Some(clone) = self.by_handle.get_mut(&handle).filter(|it| it.number == number) else {
            // It was given up; whoever waited for it was told.
            return;
        };
        assert_eq!(clone.handle, handle, "another chunk's clone");
        clone.touched = cx.now;
        if act(clone, cx, (&mut self.pace, others)) == CloneFate::Gone {
            self.by_handle.remove(&handle);
            let job = ChunkJob::Clone { handle, work: CloneWork::Drop };
            cx.out.chunk_job(handle, DiskPurpose::Nobody, job);
        }
    }

    /// The disk has done what it was asked for.
    pub(crate) fn on_disk(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        clone: (ChunkHandle, u64),
        result: ChunkResult,
    ) {
        let is_theirs =
            self.copies.on_disk(cx, clone, &result) || self.assemblies.on_disk(cx, clone, &result);
        if !is_theirs {
            self.with(cx, clone, |clone, cx, pace| clone.on_disk(cx, pace, result));
        }
    }

    /// The source has answered, or has not.
    pub(crate) fn on_fetched(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        clone: (ChunkHandle, u64),
        result: Result<(FetchAnswer, Bytes), Failure>,
    ) {
        if self.assemblies.on_fetched(cx, clone, &result) {
            return;
        }
        self.with(cx, clone, |clone, cx, pace| {
            clone.on_fetched(cx, pace, result);
            CloneFate::Kept
        });
    }
}

impl ChunkClone {
    fn new(handle: ChunkHandle, number: u64, now: Time) -> Self {
        Self {
            handle,
            number,
            phase: ClonePhase::Idle,
            order: None,
            next: None,
            length: 0,
            checksums: Vec::new(),
            total: 0,
            rests_until: now,
            touched: now,
        }
    }

    fn refuse_all(&mut self, out: &mut Outbox, failure: &Failure) {
        for order in self.order.take().into_iter().chain(self.next.take()) {
            out.refuse(order.from, failure.clone());
        }
    }

    /// The order under way is over; the clone stays as it is (CL3).
    fn refuse(&mut self, out: &mut Outbox, failure: Failure) {
        if let Some(order) = self.order.take() {
            out.debug(|| order.told_failed(&failure));
            out.refuse(order.from, failure);
        }
    }

    fn is_left_alone(&self, now: Time, patience: Duration) -> bool {
        self.order.is_none() && self.next.is_none() && now.since(self.touched) > patience
    }

    fn disk(&self, out: &mut Outbox, work: CloneWork) {
        let (handle, number) = (self.handle, self.number);
        let purpose = DiskPurpose::Clone { handle, number };
        out.chunk_job(handle, purpose, ChunkJob::Clone { handle, work });
    }

    fn take_order(&mut self, cx: &mut ReplicaContext<'_>, order: CloneOrder) {
        self.touched = cx.now;
        if let Some(waiting) = self.next.replace(order) {
            cx.out.refuse(waiting.from, displaced());
        }
        match self.phase {
            ClonePhase::Idle | ClonePhase::Resting { .. } | ClonePhase::Finished(_) => {
                self.start_next(cx.out);
            }
            ClonePhase::Beginning
            | ClonePhase::Asking { .. }
            | ClonePhase::Installing { .. }
            | ClonePhase::Finishing(_) => {}
        }
    }

    /// Starts the order that came meanwhile, if one did (CL2).
    fn start_next(&mut self, out: &mut Outbox) -> bool {
        let Some(next) = self.next.take() else { return false };
        self.refuse(out, displaced());
        assert_eq!(next.clone.handle, self.handle, "an order for another chunk");
        self.order = Some(next);
        self.begin(out, false);
        true
    }

    fn begin(&mut self, out: &mut Outbox, anew: bool) {
        self.phase = ClonePhase::Beginning;
        self.disk(out, CloneWork::Begin { anew });
    }

    fn begin_pass(&mut self, cx: &mut ReplicaContext<'_>, pace: Turn<'_>) {
        self.phase = ClonePhase::Idle;
        match self.order.as_mut().map(CloneOrder::begin_pass) {
            Some(Ok(())) => self.go_on(cx, pace, 0),
            Some(Err(failure)) => self.refuse(cx.out, failure),
            None => {}
        }
    }

    /// Asks the source for more, or waits for its turn.
    fn go_on(&mut self, cx: &mut ReplicaContext<'_>, (pace, others): Turn<'_>, offset: u64) {
        let order = self.order.as_ref().expect("a source is asked for an order");
        // A lease is paused meanwhile.
        if order.clone.finish {
            return self.ask(cx, offset, AskedPiece::unpaced(cx.now));
        }
        if cx.now < self.rests_until || !pace.may_ask(cx.now, cx.clients_busy, others) {
            let since = match self.phase {
                ClonePhase::Resting { until, .. } => until,
                _ => cx.now,
            };
            self.phase = ClonePhase::Resting { offset, until: since.max(self.rests_until) };
            return;
        }
        // Before its first answer nobody knows how much there is.
        let left = if self.total == 0 { u64::MAX } else { self.total.saturating_sub(offset) };
        let piece = pace.ask(cx.now, cx.clients_busy, left);
        self.ask(cx, offset, piece);
    }

    fn ask(&mut self, cx: &mut ReplicaContext<'_>, offset: u64, piece: AskedPiece) {
        let order = self.order.as_ref().expect("a source is asked for an order");
        let block_size = u64::from(cx.config.block_size);
        assert!(offset.is_multiple_of(block_size), "asked from within a block: {offset}");
        let first = usize::try_from(offset / block_size).expect("a block of a chunk");
        let known = BlockChecksums(self.checksums.get(first..).unwrap_or_default().to_vec());
        let (handle, version, length) = (self.handle, order.clone.version, self.length);
        let size_max = piece.size_max;
        let fetch = Fetch { handle, version, offset, length, known, size_max };
        let purpose = CallPurpose::Clone { handle, number: self.number };
        let source = &order.clone.source;
        let deadline = cx.now + PATIENCE * Duration::from_millis(cx.config.silent_ms);
        cx.out.call(purpose, source.address.clone(), source.server, fetch, deadline);
        self.phase = ClonePhase::Asking { offset, piece };
    }

    fn on_disk(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        pace: Turn<'_>,
        result: ChunkResult,
    ) -> CloneFate {
        let done = match result {
            Ok(done) => done,
            Err(error) => {
                self.refuse_all(cx.out, &failure_of(&error));
                return CloneFate::Gone;
            }
        };
        match (std::mem::replace(&mut self.phase, ClonePhase::Idle), done) {
            (ClonePhase::Beginning, ChunkDone::Checksums { length, checksums }) => {
                (self.length, self.checksums) = (length, checksums.0);
                if !self.start_next(cx.out) {
                    self.begin_pass(cx, pace);
                }
            }
            (ClonePhase::Installing { offset, end, checksums }, ChunkDone::Cloned) => {
                self.installed(cx, pace, (offset, end), &checksums);
            }
            (ClonePhase::Finishing(stands), ChunkDone::Cloned) => {
                if let Some(order) = self.order.take() {
                    let source = order.clone.source.server;
                    let event = || told_of(LogEvent::debug("clone done"), &stands);
                    cx.out.debug(|| event().with("source", source));
                    let answer = order.answer(&stands);
                    cx.out.reply(order.from, Response::CloneChunk(answer));
                }
                self.phase = ClonePhase::Finished(stands);
                self.start_next(cx.out);
            }
            (phase, done) => panic!("a clone in {phase:?} came to {done:?}"),
        }
        CloneFate::Kept
    }

    /// Blocks are stored.
    fn installed(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        pace: Turn<'_>,
        (offset, end): (u64, u64),
        checksums: &BlockChecksums,
    ) {
        let block_size = u64::from(cx.config.block_size);
        let first = usize::try_from(offset / block_size).expect("a block of a chunk");
        let count = self.checksums.len().max(first + checksums.0.len());
        self.checksums.resize(count, 0);
        self.checksums[first..first + checksums.0.len()].copy_from_slice(&checksums.0);
        self.length = self.length.max(end);
        if self.start_next(cx.out) {
            return;
        }
        // A partial block, which is the last, is asked for once more: it may have grown.
        self.go_on(cx, pace, end - end % block_size);
    }

    fn on_fetched(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (pace, others): Turn<'_>,
        result: Result<(FetchAnswer, Bytes), Failure>,
    ) {
        let phase = std::mem::replace(&mut self.phase, ClonePhase::Idle);
        let ClonePhase::Asking { offset, piece } = phase else {
            panic!("a source answered a clone in {phase:?}");
        };
        let (size, busy_there) = match &result {
            Ok((answer, bytes)) => (bytes.len() as u64, answer.busy),
            Err(_) => (0, false),
        };
        self.rests_until = pace.answered(cx.now, piece, size, (cx.clients_busy, busy_there));
        if self.start_next(cx.out) {
            return;
        }
        let order = self.order.as_mut().expect("a source is asked for an order");
        let heard = result.and_then(|(answer, bytes)| {
            let FetchAnswer { offset: at, checksums, replica, .. } = answer;
            order.hear(&replica)?;
            let blocks = FetchedBlocks::of(offset, (at, checksums), bytes, cx.config)?;
            Ok((replica, blocks))
        });
        match heard {
            Err(failure) => {
                let failure = order.failed_at_source(&failure);
                self.refuse(cx.out, failure);
            }
            Ok((stands, blocks)) => {
                self.total = stands.length;
                if stands.length < self.length {
                    // What is here is of one that had gone further, and of no use.
                    self.begin(cx.out, true);
                } else if let Some(blocks) = blocks {
                    order.copied += size;
                    self.install(cx.out, blocks);
                } else {
                    self.end_pass(cx, (pace, others), &stands);
                }
            }
        }
    }

    fn install(&mut self, out: &mut Outbox, blocks: FetchedBlocks) {
        let end = blocks.end();
        let FetchedBlocks { offset, checksums, bytes } = blocks;
        self.phase = ClonePhase::Installing { offset, end, checksums: checksums.clone() };
        self.disk(out, CloneWork::Install { offset, checksums, bytes });
    }

    fn end_pass(&mut self, cx: &mut ReplicaContext<'_>, pace: Turn<'_>, stands: &ReplicaReport) {
        let order = self.order.as_ref().expect("a pass is of an order");
        match order.end_pass(stands) {
            AfterPass::Answered(answer) => {
                cx.out.reply(order.from, Response::CloneChunk(answer));
                self.order = None;
            }
            AfterPass::Equal(stands) => {
                let work = CloneWork::Finish { stands: stands.clone() };
                self.phase = ClonePhase::Finishing(stands);
                self.disk(cx.out, work);
            }
            AfterPass::Again => self.begin_pass(cx, pace),
        }
    }
}

/// What an order is told in whose place another one comes.
fn displaced() -> Failure {
    Failure::not_done(ErrorCode::Busy, "another order for this clone has come since")
}

/// Nothing is left of a clone that was given up.
pub(crate) fn answer_dropped(out: &mut Outbox, to: Caller, result: ChunkResult) {
    match result {
        Ok(_) => out.reply(to, Response::DropClone(DropCloneAnswer {})),
        Err(error) => out.refuse(to, failure_of(&error)),
    }
}
