//! What a master is told of all that this server holds, slice by slice (GFS §2.3).
//!
//! ```text
//!   joined ──► slice 0: what is urgent, leases ──► slices in handle order ──► last: leases
//!                   ▲                                  │ answered: wanted, pause
//!                   └──────────────────────────────────┘ wanted comes first in the next slice
//! ```
//! - I1: one slice is on its way at a time, and of a bounded size: the master sets the pace.
//! - I2: what is in use, was changed lately or may have lost bytes is told first, and what somebody
//!   waits for. The last slice is sent when all that was held at the join and still is was told.
//! - I3: an answer counts for the slice that it belongs to, of the present join.
//!
//! A replica that changes after it was told of is told of by heartbeats, as ever.

use crate::replica::Replica;
use crate::replica_table::ReplicaTable;
use cairn_protocol::{InventoryAnswer, ReplicaReport, SLICE_COUNT_MAX};
use cairn_types::{CellConfig, ChunkHandle, JoinId};
use std::collections::VecDeque;

/// Replicas in one slice: a fraction of a millisecond of the master's time.
const SLICE: usize = 1024;
/// Replicas in the slices of a cell of tiny chunks, where tests want what is rare to be common.
const SLICE_MIN: usize = 3;

const _: () = assert!(SLICE_MIN <= SLICE && SLICE <= SLICE_COUNT_MAX);

/// How far the inventory is.
#[derive(Debug)]
pub(crate) struct InventoryProgress {
    join: JoinId,
    /// Of the slice that is on its way, or comes next.
    number: u64,
    /// To be told before the rest.
    urgent: VecDeque<ChunkHandle>,
    /// The rest is told up to here.
    told: ChunkHandle,
}

/// The next slice.
#[derive(Debug)]
pub(crate) struct InventorySlice {
    pub(crate) replicas: Vec<ReplicaReport>,
    pub(crate) last: bool,
}

/// Replicas that one slice may have.
fn slice_count_max(config: &CellConfig) -> usize {
    let size = usize::try_from(config.chunk_size / 1024).unwrap_or(SLICE);
    size.clamp(SLICE_MIN, SLICE)
}

impl InventoryProgress {
    /// A master has taken this server in, by this join.
    pub(crate) fn of(join: JoinId, table: &ReplicaTable) -> Self {
        let is_urgent = |replica: &&Replica| {
            let stored = replica.stored();
            let doubtful = stored.is_suspect() || stored.is_damaged();
            !replica.role().is_idle() || doubtful || table.is_untold(stored.handle())
        };
        let urgent = table.all().filter(is_urgent).map(|it| it.stored().handle()).collect();
        Self { join, number: 0, urgent, told: ChunkHandle::default() }
    }

    pub(crate) fn join(&self) -> JoinId {
        self.join
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// What the next slice tells.
    pub(crate) fn next_slice(
        &mut self,
        table: &ReplicaTable,
        config: &CellConfig,
    ) -> InventorySlice {
        let count_max = slice_count_max(config);
        let mut replicas: Vec<ReplicaReport> = Vec::new();
        while replicas.len() < count_max
            && let Some(handle) = self.urgent.pop_front()
        {
            // What is gone since need not be told.
            replicas.extend(table.get(handle).map(|replica| replica.stored().report()));
        }
        let mut rest = table.behind(self.told);
        while replicas.len() < count_max
            && let Some(replica) = rest.next()
        {
            self.told = replica.stored().handle();
            replicas.push(replica.stored().report());
        }
        assert!(replicas.len() <= SLICE_COUNT_MAX, "a slice of {} (I1)", replicas.len());
        let last = self.urgent.is_empty() && rest.next().is_none();
        assert!(last || !replicas.is_empty(), "only the last slice may tell nothing (I2)");
        InventorySlice { replicas, last }
    }

    /// The master has taken the slice in; somebody waits for some of the replicas.
    pub(crate) fn slice_answered(&mut self, answer: &InventoryAnswer) {
        self.number += 1;
        // What lies behind has been told.
        let ahead = answer.wanted.iter().filter(|handle| **handle > self.told);
        self.urgent.extend(ahead);
    }
}
