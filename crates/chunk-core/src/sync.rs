//! `sync()`: everything acknowledged so far, on the disk of every replica of the set (design §5).
//!
//! The primary syncs its own replica and asks each secondary. One that fails is left out of the
//! set, as for any mutation (R14); a set that changes meanwhile, and a lease that ends, make the
//! round fail, and the client asks again.
//!
//! - Y1: a secondary vouches for what it has only while it follows the lease: one that was away may
//!   have lost bytes, and stands at the same version nevertheless.

use crate::outbox::{CallPurpose, Outbox, ReplicaCall, ReplicaJob};
use crate::replica_context::ReplicaContext;
use crate::secondaries::Secondaries;
use crate::stored_replica::{AcknowledgedMark, StoredReplica};
use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, Response, SyncChunk, SyncChunkAnswer};
use cairn_types::ServerId;
use std::collections::BTreeMap;

/// A secondary's own part of a sync is done.
pub(crate) fn answer_primary(stored: &StoredReplica, cx: &mut ReplicaContext<'_>, to: Caller) {
    let AcknowledgedMark { length, serial } = stored.acknowledged();
    let answer = SyncChunkAnswer { length, server: cx.me.server, serial };
    cx.out.reply(to, Response::SyncChunk(answer));
}

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
    acknowledged: AcknowledgedMark,
    /// Replicas that have not answered.
    missing: usize,
}

impl SyncRounds {
    /// Asks every replica of the primary's set to bring what it has to disk.
    pub(crate) fn start(
        &mut self,
        stored: &StoredReplica,
        secondaries: &Secondaries,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        sync: &SyncChunk,
    ) {
        self.last += 1;
        let (round, acknowledged) = (self.last, stored.acknowledged());
        stored.sync(cx.out, ReplicaJob::SyncHere { lease: sync.lease, round });
        let mut missing = 1;
        let deadline = cx.replica_deadline();
        for at in secondaries.each() {
            missing += 1;
            let ask = SyncChunk { from_primary: true, ..sync.clone() };
            let what = ReplicaCall::SyncThere { lease: sync.lease, round, secondary: at.server };
            let purpose = CallPurpose::Replica(stored.handle(), what);
            cx.out.call(purpose, at.address.clone(), at.server, ask, deadline);
        }
        let before = self.open.insert(round, SyncRound { from, acknowledged, missing });
        assert!(before.is_none(), "two rounds of one number");
    }

    /// Who waits, once the lease is over.
    pub(crate) fn into_waiting(self) -> Vec<Caller> {
        self.open.into_values().map(|round| round.from).collect()
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
        let (from, missing) = (open.from, open.missing);
        let AcknowledgedMark { length, serial } = open.acknowledged;
        match result {
            Ok(()) if missing > 0 => return,
            Ok(()) => {
                let answer = SyncChunkAnswer { length, server: me, serial };
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
