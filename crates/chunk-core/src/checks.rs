//! Checks of single replicas, for people: whether one is on its disk as this server knows it, and
//! whether its bytes are as they were written. Not within the scrub's rate: who asks waits for it.
//!
//! - CK1: what is found counts as what the scrub finds does: the replica is damaged, and the master
//!   hears of it.
//! - CK2: of one that is not here the master hears, too: it is what sends people here.

use crate::outbox::{DiskPurpose, Outbox, failure_of};
use crate::replica_table::ReplicaTable;
use crate::stored_replica::StoredReplica;
use cairn_env::{Caller, ChunkDone, ChunkError, ChunkJob, ChunkResult};
use cairn_protocol::{
    CheckReplica, CheckReplicaAnswer, ErrorCode, Failure, ListHeld, ListHeldAnswer, ReplicaFault,
    ReplicaReport, ReportSlice, Response,
};
use cairn_types::ChunkHandle;

/// Replicas that one answer tells of.
const HELD_MAX: u32 = 1000;

const _: () = assert!(HELD_MAX as usize <= cairn_protocol::SLICE_COUNT_MAX);

/// What this server holds, a page of it.
pub(crate) fn list_held(table: &ReplicaTable, wish: &ListHeld) -> ListHeldAnswer {
    let limit = wish.limit.clamp(1, HELD_MAX) as usize;
    let behind = table.behind(wish.after).take(limit + 1);
    let mut held: Vec<ReplicaReport> = behind.map(|it| it.stored().report()).collect();
    let more = held.len() > limit;
    held.truncate(limit);
    let resume = held.last().filter(|_| more).map(|last| last.handle);
    ListHeldAnswer { replicas: ReportSlice(held), resume }
}

/// Has the disk look at a replica. The offset is a peer's word.
pub(crate) fn start(
    stored: &StoredReplica,
    out: &mut Outbox,
    to: Caller,
    check: &CheckReplica,
) -> Result<(), Failure> {
    let CheckReplica { handle, offset, data } = *check;
    if offset > stored.length() {
        let (chunk, length) = (handle.short(), stored.length());
        let why = format!("chunk {chunk} has {length} bytes here, {offset} was asked for");
        return Err(Failure::refused(ErrorCode::Invalid, why));
    }
    let job = if data { ChunkJob::Scrub { handle, offset } } else { ChunkJob::Look { handle } };
    out.chunk_job(handle, DiskPurpose::Check { to, handle }, job);
    Ok(())
}

/// The disk has looked: whoever asked is told.
pub(crate) fn finish(
    table: &mut ReplicaTable,
    out: &mut Outbox,
    (to, handle): (Caller, ChunkHandle),
    result: ChunkResult,
) {
    let mut answer = CheckReplicaAnswer::default();
    match result {
        Ok(ChunkDone::Looked { fault, reflinked }) => {
            (answer.fault, answer.reflinked) = (fault, reflinked);
        }
        Ok(ChunkDone::Scrubbed { size, next, bad }) => {
            (answer.size, answer.next) = (size, next);
            answer.bad_offset = bad.unwrap_or_default();
            if bad.is_some() {
                answer.fault = ReplicaFault::BadBlock;
            }
        }
        Err(ChunkError::Corrupt { .. }) => answer.fault = ReplicaFault::Lost,
        Err(error) => return out.refuse(to, failure_of(&error)),
        Ok(done) => panic!("a replica was to be looked at, and came to {done:?}"),
    }
    let Some(replica) = table.touch(handle) else {
        let why = format!("chunk {} is gone from this server", handle.short());
        return out.refuse(to, Failure::not_done(ErrorCode::NoSuchChunk, why));
    };
    answer.damaged = replica.stored().is_damaged();
    if answer.fault != ReplicaFault::Sound {
        // CK1
        replica.stored_mut().find_bad_block(out);
    }
    answer.replica = replica.stored().report();
    assert_eq!(answer.replica.handle, handle, "what was asked for is told");
    out.reply(to, Response::CheckReplica(answer));
}
