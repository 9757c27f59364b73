//! Second looks: a replica that was found bad is verified again after a while, because a disk that
//! could not read a block may read it later (GFS §5.2; H1).
//!
//! ```text
//!   not read at a start ─► rests ─► is read: how it stands is known ─┐
//!                                                       ┌────────────┘
//!   found bad ─► rests ─► all of it is verified, part by part ─► every block good: sound again
//!                  ▲                          └─► a bad block ─┐
//!                  └────── twice as long, up to an hour ───────┘
//! ```
//! - SL1: one part at a time is under way, at a quarter of the scrub's rate, less beside clients.
//! - SL2: a replica is sound again only when every block that its head counts has verified in one
//!   pass, from the first on; one that may have lost bytes never is (R28).
//! - SL3: a tick costs what has changed since the last one, however many rest: where a disk fails,
//!   all that it holds may be bad.
//!
//! Knows when to look and what came of it. What a sound replica means is the core's to say.

use crate::client_load::{ClientLoad, time_at};
use crate::outbox::{DiskPurpose, Outbox};
use crate::replica_table::ReplicaTable;
use cairn_env::{ChunkDone, ChunkJob, ChunkResult, Now};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// From when a replica is found bad until it is looked at again.
const REST_MIN: Duration = Duration::from_secs(10);
/// The longest rest: what rots stays rotten, and is not read all day.
const REST_MAX: Duration = Duration::from_secs(3600);
/// What a part costs beside its bytes, in bytes: checksums, and the two slots of the head.
const PART_SIZE: u64 = 4 << 10;
/// Of the scrub's rate.
const RATE_PART: u64 = 4;

const _: () = assert!(REST_MIN.as_secs() < REST_MAX.as_secs());

/// When a bad replica is looked at, and how long it rests should it still be bad.
#[derive(Clone, Copy, Debug)]
struct Rest {
    due: Time,
    next: Duration,
}

#[derive(Debug)]
pub(crate) struct SecondLooks {
    /// Bytes a second.
    rate: u64,
    rests: BTreeMap<ChunkHandle, Rest>,
    /// The same, by when they are due.
    by_due: BTreeSet<(Time, ChunkHandle)>,
    /// The part that is verified next, or just now.
    part: Option<(ChunkHandle, u64)>,
    under_way: bool,
    /// Until then what was read lasts.
    due: Time,
}

impl SecondLooks {
    /// `scrub_rate`: bytes a second; zero: nobody looks.
    pub(crate) fn new(scrub_rate: u64) -> Self {
        let (rests, by_due) = (BTreeMap::new(), BTreeSet::new());
        let (rate, due) = (scrub_rate.div_ceil(RATE_PART), Time::default());
        Self { rate, rests, by_due, part: None, under_way: false, due }
    }

    /// Looks at a bad replica, or goes on with one, if it is time to.
    pub(crate) fn tick(&mut self, now: Now, table: &mut ReplicaTable, out: &mut Outbox) {
        self.take_changes(now, table);
        if self.under_way || now.time < self.due || self.rate == 0 {
            return;
        }
        // One that has gone meanwhile, or has lost bytes, is not gone on with.
        self.part = self.part.filter(|(handle, _)| self.rests.contains_key(handle));
        let first = || {
            let first = self.by_due.first().filter(|(due, _)| *due <= now.time);
            first.map(|(_, handle)| (*handle, 0))
        };
        let Some((handle, offset)) = self.part.or_else(first) else { return };
        assert!(!self.under_way, "two parts at once (SL1)");
        (self.part, self.under_way) = (Some((handle, offset)), true);
        let is_unread = table.get(handle).is_some_and(|replica| replica.stored().is_unread());
        let scrub = ChunkJob::Scrub { handle, offset };
        let job = if is_unread { ChunkJob::Reopen { handle } } else { scrub };
        out.chunk_job(handle, DiskPurpose::SecondLook, job);
    }

    /// What is bad from now on rests; what is no longer, or may have lost bytes, is let go (SL3).
    fn take_changes(&mut self, now: Now, table: &mut ReplicaTable) {
        for handle in table.take_doubted() {
            if !may_be(table, handle) {
                self.end_rest(handle);
            } else if !self.rests.contains_key(&handle) {
                let rest = Rest { due: now.time + REST_MIN, next: REST_MIN * 2 };
                self.rest(handle, rest);
            }
        }
    }

    fn rest(&mut self, handle: ChunkHandle, rest: Rest) {
        self.end_rest(handle);
        self.rests.insert(handle, rest);
        self.by_due.insert((rest.due, handle));
    }

    fn end_rest(&mut self, handle: ChunkHandle) {
        if let Some(rest) = self.rests.remove(&handle) {
            self.by_due.remove(&(rest.due, handle));
        }
        assert_eq!(self.rests.len(), self.by_due.len(), "each rests once");
    }

    /// A part is verified; names the replica of which all are, one after the other (SL2).
    pub(crate) fn on_done(
        &mut self,
        now: Now,
        load: &ClientLoad,
        table: &mut ReplicaTable,
        result: &ChunkResult,
    ) -> Option<ChunkHandle> {
        self.under_way = false;
        let (handle, _) = self.part.take().expect("a part was under way");
        let size = if let Ok(ChunkDone::Scrubbed { size, .. }) = result { *size } else { 0 };
        self.due = now.time + time_at(size + PART_SIZE, load.allowed(now.time, self.rate));
        match result {
            // SL2 broken: one part that is read will do, whatever is in it.
            Ok(ChunkDone::Scrubbed { .. }) if broken(Rule::SL2) => {
                self.end_rest(handle);
                Some(handle)
            }
            Ok(ChunkDone::Scrubbed { bad: None, next: Some(next), .. }) => {
                self.part = Some((handle, *next));
                None
            }
            Ok(ChunkDone::Reopened(stands)) if table.reopen(now.time, stands) => {
                self.part = Some((handle, 0));
                None
            }
            Ok(ChunkDone::Scrubbed { bad: None, next: None, .. }) => {
                self.end_rest(handle);
                Some(handle)
            }
            // It is as it was, or its disk cannot say, or its set has by now.
            Ok(ChunkDone::Scrubbed { .. } | ChunkDone::Reopened(_)) | Err(_) => {
                if let Some(Rest { next, .. }) = self.rests.get(&handle).copied() {
                    let due = now.time + next;
                    self.rest(handle, Rest { due, next: (next * 2).min(REST_MAX) });
                }
                None
            }
            Ok(done) => panic!("a part was to be verified, and came to {done:?}"),
        }
    }
}

/// Whether all that was ever promised of it may still be here (SL2).
fn may_be(table: &ReplicaTable, handle: ChunkHandle) -> bool {
    let stored = table.get(handle).map(|replica| replica.stored());
    stored.is_some_and(|it| it.may_turn_out_sound() || it.is_unread())
}
