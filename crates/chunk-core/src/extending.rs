//! A stream's chunk grows: what its producer pushed becomes its end, on each server by itself (R40,
//! TFS §2.4).
//!
//! ```text
//!   Extend ──► checked ──► the disk appends it, or compares what is there ──► answered
//! ```
//! - ES1: a stream's chunk is written by its producer alone: whatever has, or ever had, a part in a
//!   lease is none, and is not extended.
//! - ES2: whoever answers is not known to have lost anything of the chunk: who may have is not
//!   asked for more.
//!
//! The disk knows best what it holds after a failure: it decides what is there already.

use crate::outbox::{Outbox, ReplicaJob};
use crate::replica_context::ReplicaContext;
use crate::replica_role::ReplicaRole;
use crate::stored_replica::{AcknowledgedMark, StoredReplica};
use cairn_env::{ApplyMutation, Caller, ChunkJob};
use cairn_protocol::{ErrorCode, Extend, ExtendAnswer, Failure, Response};
use cairn_types::{CellConfig, SerialNumber};

/// Whether it has a number and bytes, and lies within a chunk.
fn check_form(extend: &Extend, config: &CellConfig) -> Result<(), Failure> {
    let end = extend.offset.checked_add(extend.size);
    let is_within = end.is_some_and(|end| end <= config.chunk_size);
    if extend.size > 0 && extend.serial > SerialNumber::default() && is_within {
        return Ok(());
    }
    let why = format!(
        "bundle {} of {} bytes at {} does not lie within a chunk of {}",
        extend.serial, extend.size, extend.offset, config.chunk_size
    );
    Err(Failure::refused(ErrorCode::Invalid, why))
}

/// Whether that replica may be extended now, as far as is known without its disk.
pub(crate) fn check_extend(
    stored: &StoredReplica,
    role: &ReplicaRole,
    config: &CellConfig,
    extend: &Extend,
) -> Result<(), Failure> {
    check_form(extend, config)?;
    stored.check_version(extend.version)?;
    let not_done = |code, why| {
        let line = format!("chunk {}: {why}", stored.handle().short());
        Err(Failure::not_done(code, line))
    };
    if !role.is_idle() || stored.acknowledged() != AcknowledgedMark::default() {
        // ES1
        let line = format!("chunk {} is written under leases", stored.handle().short());
        return Err(Failure::refused(ErrorCode::Invalid, line));
    }
    if stored.is_left_out() {
        return not_done(ErrorCode::StaleVersion, "the others have gone on without this replica");
    }
    if stored.is_closed() {
        return not_done(ErrorCode::ChunkClosed, "it is sealed");
    }
    if stored.is_damaged() {
        // ES2
        return not_done(ErrorCode::ChecksumMismatch, "it is damaged here");
    }
    if stored.is_suspect() {
        return not_done(ErrorCode::ReplicaFailed, "it may have lost bytes here");
    }
    Ok(())
}

/// A bundle on its way to the disk.
#[derive(Debug)]
pub(crate) struct ExtendUnderWay {
    from: Caller,
    /// Where it ends in the chunk.
    end: u64,
}

impl ExtendUnderWay {
    /// Has the disk append it, or compare it with what is there.
    pub(crate) fn start(
        stored: &StoredReplica,
        out: &mut Outbox,
        from: Caller,
        extend: Extend,
    ) -> Self {
        let Extend { handle, push, serial, offset, size, checksums, sync, .. } = extend;
        let version = stored.version();
        let extent = ApplyMutation { serial, offset, size, push: Some(push), checksums };
        let job = ChunkJob::Extend { handle, version, extent, sync };
        out.replica_job(handle, ReplicaJob::Apply, job);
        Self { from, end: offset + size }
    }

    /// It stands in the chunk, which has so many bytes now.
    pub(crate) fn answer(self, stored: &StoredReplica, cx: &mut ReplicaContext<'_>) {
        let length = stored.length();
        assert!(length >= self.end, "{length} bytes are stored, and {} answered (R40)", self.end);
        let (server, incarnation) = (cx.me.server, cx.incarnation);
        let answer = ExtendAnswer { server, incarnation, length };
        cx.out.reply(self.from, Response::Extend(answer));
    }

    pub(crate) fn refuse(self, out: &mut Outbox, failure: Failure) {
        out.refuse(self.from, failure);
    }
}
