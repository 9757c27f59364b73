//! Telling a master what this server holds, slice by slice (GFS §2.3).
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

use crate::core::ChunkCore;
use crate::outbox::Purpose;
use crate::replica::Replica;
use cairn_env::Now;
use cairn_protocol::{
    Failure, Inventory, InventoryAnswer, ReplicaReport, ReportSlice, SLICE_COUNT_MAX,
};
use cairn_types::{CellConfig, ChunkHandle, JoinId};
use std::collections::VecDeque;
use std::time::Duration;

/// Replicas in one slice: a fraction of a millisecond of the master's time.
const SLICE: usize = 1024;
/// Replicas in the slices of a cell of tiny chunks, where tests want what is rare to be common.
const SLICE_MIN: usize = 3;

const _: () = assert!(SLICE_MIN <= SLICE && SLICE <= SLICE_COUNT_MAX);

/// How far the inventory is.
#[derive(Debug)]
pub(crate) struct Telling {
    join: JoinId,
    /// Of the slice that is on its way, or comes next.
    number: u64,
    /// To be told before the rest.
    urgent: VecDeque<ChunkHandle>,
    /// The rest is told up to here.
    told: ChunkHandle,
}

/// A slice that is on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceSent {
    join: JoinId,
    number: u64,
    last: bool,
}

/// Replicas that one slice may have.
fn slice_count_max(config: &CellConfig) -> usize {
    let size = usize::try_from(config.chunk_size / 1024).unwrap_or(SLICE);
    size.clamp(SLICE_MIN, SLICE)
}

impl ChunkCore {
    /// A master has taken this server in, by this join.
    pub(crate) fn begin_inventory(&mut self, now: Now, join: JoinId) {
        let is_urgent = |replica: &&Replica| {
            let in_use = replica.primary.is_some() || replica.followed.is_some();
            let doubtful = replica.suspect || replica.damaged;
            in_use || doubtful || self.link.changed.contains(&replica.handle)
        };
        let urgent = self.replicas.values().filter(is_urgent).map(|it| it.handle).collect();
        let told = ChunkHandle::default();
        self.link.inventory = Some(Telling { join, number: 0, urgent, told });
        self.link.held_after = ChunkHandle::default();
        self.tell_slice(now);
    }

    /// Sends the next slice.
    fn tell_slice(&mut self, now: Now) {
        let count_max = slice_count_max(&self.config);
        let Some(telling) = self.link.inventory.as_mut() else { return };
        let mut replicas: Vec<ReplicaReport> = Vec::new();
        while replicas.len() < count_max
            && let Some(handle) = telling.urgent.pop_front()
        {
            replicas.extend(self.replicas.get(&handle).map(Replica::report));
        }
        let mut rest = self.replicas.range(telling.told.next()..);
        while replicas.len() < count_max
            && let Some((handle, replica)) = rest.next()
        {
            telling.told = *handle;
            replicas.push(replica.report());
        }
        let last = telling.urgent.is_empty() && rest.next().is_none();
        let sent = SliceSent { join: telling.join, number: telling.number, last };
        // At first, so that a lease goes on under this master (R22); at last, so that it knows
        // which do not.
        let leases =
            if last || sent.number == 0 { self.held_leases(now.time, false) } else { vec![] };
        let request = Inventory {
            server: self.settings.at.server,
            incarnation: self.settings.incarnation,
            replicas: ReportSlice(replicas),
            last,
            leases,
            join: sent.join,
            number: sent.number,
        };
        self.call_master(now, Purpose::Inventoried(sent), request);
    }

    /// A slice is answered, or its fate is not known.
    pub(crate) fn on_slice_answered(
        &mut self,
        now: Now,
        sent: SliceSent,
        result: Result<InventoryAnswer, Failure>,
    ) {
        let Some(telling) = self.link.inventory.as_mut() else { return };
        if (telling.join, telling.number) != (sent.join, sent.number) {
            return;
        }
        let answer = match result {
            Ok(answer) => answer,
            Err(failure) => return self.retry_join(now, &failure),
        };
        self.link.heard = now.time;
        if sent.last {
            self.link.inventory = None;
            return self.say_joined();
        }
        telling.number += 1;
        // What lies behind has been told.
        let ahead = answer.wanted.into_iter().filter(|handle| *handle > telling.told);
        telling.urgent.extend(ahead);
        let join = telling.join;
        if answer.pause_ms == 0 {
            self.tell_slice(now);
        } else {
            let at = now.time + Duration::from_millis(answer.pause_ms);
            self.out.wake(Purpose::NextSlice(join), at);
        }
    }

    /// The pause between two slices is over.
    pub(crate) fn on_pause_over(&mut self, now: Now, join: JoinId) {
        if self.link.inventory.as_ref().is_some_and(|telling| telling.join == join) {
            self.tell_slice(now);
        }
    }
}
