//! `sync()`: everything acknowledged so far, on the disk of every replica of the set (design §5).
//!
//! The primary syncs its own replica and asks each secondary. One that fails is left out of the
//! set, as for any mutation (R14); a set that changes meanwhile makes the round fail, and the
//! client asks again.

use crate::outbox::{Purpose, lane_of};
use crate::primary::Stage;
use crate::primary_forward::replica_deadline;
use crate::replica::{Context, Replica};
use cairn_env::{Caller, ChunkJob};
use cairn_protocol::{ErrorCode, Failure, Response, SyncChunk, SyncChunkAnswer};
use cairn_types::ServerId;
use std::collections::BTreeMap;

/// Syncs that wait for the replicas of a set.
#[derive(Debug, Default)]
pub(crate) struct SyncRounds {
    next: u64,
    open: BTreeMap<u64, Round>,
}

#[derive(Debug)]
struct Round {
    from: Caller,
    length: u64,
    missing: usize,
}

impl Replica {
    pub(crate) fn on_sync(&mut self, cx: &mut Context<'_>, from: Caller, sync: &SyncChunk) {
        if let Err(failure) = self.check_version(sync.version) {
            cx.out.refuse(from, failure);
            return;
        }
        let handle = self.handle;
        if sync.from_primary {
            let purpose = Purpose::SyncedForPrimary { handle, to: from };
            cx.out.disk(purpose, lane_of(handle), ChunkJob::Sync { handle });
            return;
        }
        let live = self
            .primary
            .as_mut()
            .filter(|primary| primary.lease == sync.lease && primary.is_live(cx.now));
        let Some(primary) = live else {
            let why = format!("chunk {}: this server does not hold that lease", handle.short());
            cx.out.refuse(from, Failure::not_done(ErrorCode::NotPrimary, why));
            return;
        };
        primary.used = true;
        self.syncs.next += 1;
        let round = self.syncs.next;
        let missing = primary.secondaries.len() + 1;
        self.syncs.open.insert(round, Round { from, length: self.acknowledged, missing });
        let purpose = Purpose::SyncedHere { handle, round };
        cx.out.disk(purpose, lane_of(handle), ChunkJob::Sync { handle });
        let deadline = replica_deadline(cx);
        for secondary in &primary.secondaries {
            let (to, server) = (secondary.at.address.clone(), secondary.at.server);
            let ask = SyncChunk { from_primary: true, ..sync.clone() };
            let purpose = Purpose::SyncedThere { handle, round, secondary: server };
            cx.out.call(purpose, to, server, ask, deadline);
        }
    }

    /// A secondary has its part of the round on disk, or has not.
    pub(crate) fn on_synced_there(
        &mut self,
        cx: &mut Context<'_>,
        round: u64,
        secondary: ServerId,
        failure: Option<Failure>,
    ) {
        // Who stands at another version was asked too late, and is not at fault.
        let at_fault = failure.as_ref().is_some_and(|it| it.code != ErrorCode::StaleVersion);
        let serves = self.primary.as_ref().is_some_and(|it| it.stage == Stage::Serving);
        if at_fault && serves && self.syncs.open.contains_key(&round) {
            self.secondary_failed(cx, secondary);
        }
        self.on_synced(cx, round, failure);
    }

    /// One replica of the round is on disk, or is not.
    pub(crate) fn on_synced(&mut self, cx: &mut Context<'_>, round: u64, failure: Option<Failure>) {
        let Some(open) = self.syncs.open.get_mut(&round) else { return };
        if let Some(failure) = failure {
            let from = open.from;
            self.syncs.open.remove(&round);
            let why = format!("a replica could not sync: {}", failure.message);
            cx.out.refuse(from, Failure::not_done(ErrorCode::ReplicaFailed, why));
            return;
        }
        open.missing -= 1;
        if open.missing == 0
            && let Some(done) = self.syncs.open.remove(&round)
        {
            let answer = SyncChunkAnswer { length: done.length, server: cx.me };
            cx.out.reply(done.from, Response::SyncChunk(answer));
        }
    }
}
