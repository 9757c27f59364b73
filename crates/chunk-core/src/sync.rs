//! `sync()`: everything acknowledged so far, on the disk of every replica of the set (design §5).
//!
//! The primary syncs its own replica and asks each secondary. One that fails is left out of the
//! set, as for any mutation (R14); a set that changes meanwhile makes the round fail, and the
//! client asks again.

use crate::outbox::{CallPurpose, Outbox, ReplicaCall, ReplicaJob};
use crate::primary::Primary;
use crate::replica_context::ReplicaContext;
use crate::stored_replica::StoredReplica;
use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, Response, SyncChunk, SyncChunkAnswer};
use cairn_types::ServerId;
use std::collections::BTreeMap;

/// Syncs that wait for the replicas of a set.
#[derive(Debug, Default)]
pub(crate) struct SyncRounds {
    last: u64,
    open: BTreeMap<u64, SyncRound>,
}

#[derive(Debug)]
struct SyncRound {
    from: Caller,
    /// What was acknowledged when it began.
    length: u64,
    /// Replicas that have not answered.
    missing: usize,
}

impl SyncRounds {
    /// Asks every replica of the primary's set to bring what it has to disk.
    pub(crate) fn start(
        &mut self,
        stored: &StoredReplica,
        primary: &Primary,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        sync: &SyncChunk,
    ) {
        self.last += 1;
        let (round, length) = (self.last, stored.acknowledged().length);
        stored.sync(cx.out, ReplicaJob::SyncHere { round });
        let mut missing = 1;
        let deadline = cx.replica_deadline();
        for at in primary.secondaries() {
            missing += 1;
            let ask = SyncChunk { from_primary: true, ..sync.clone() };
            let what = ReplicaCall::SyncThere { round, secondary: at.server };
            let purpose = CallPurpose::Replica(stored.handle(), what);
            cx.out.call(purpose, at.address.clone(), at.server, ask, deadline);
        }
        let before = self.open.insert(round, SyncRound { from, length, missing });
        assert!(before.is_none(), "two rounds of one number");
    }

    pub(crate) fn is_open(&self, round: u64) -> bool {
        self.open.contains_key(&round)
    }

    /// One replica of the round is on disk, or is not.
    pub(crate) fn on_synced(
        &mut self,
        round: u64,
        result: Result<(), Failure>,
        me: ServerId,
        out: &mut Outbox,
    ) {
        // Another replica has failed the round already.
        let Some(open) = self.open.get_mut(&round) else { return };
        assert!(open.missing > 0, "more replicas answered than were asked");
        open.missing -= 1;
        let (from, length, missing) = (open.from, open.length, open.missing);
        match result {
            Ok(()) if missing > 0 => return,
            Ok(()) => {
                let answer = SyncChunkAnswer { length, server: me };
                out.reply(from, Response::SyncChunk(answer));
            }
            Err(failure) => {
                let why = format!("a replica could not sync: {}", failure.message);
                out.refuse(from, Failure::not_done(ErrorCode::ReplicaFailed, why));
            }
        }
        self.open.remove(&round);
    }
}
