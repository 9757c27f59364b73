//! What a master tells of itself while it runs: noted by its driver after each batch of events, and
//! read by any thread.
//!
//! - GA1: nothing is decided by what stands here.

use crate::log_room::Append;
use crate::role::Role;
use cairn_consensus::Consensus;
use cairn_env::{LatencyCounts, LatencyMeter};
use cairn_types::{LogIndex, Term, Time};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Shared by the driver and whoever asks.
#[derive(Debug, Default)]
pub struct MasterGauges {
    in_charge: AtomicBool,
    term: AtomicU64,
    applied: AtomicU64,
    committed: AtomicU64,
    heard: AtomicU64,
    checkpoint: AtomicU64,
    checkpointed: AtomicU64,
    flushes: LatencyMeter,
    records: AtomicU64,
    bytes: AtomicU64,
}

/// Where a member of the group stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MasterStanding {
    /// Whether it decides.
    pub in_charge: bool,
    /// The latest term that it has heard of.
    pub term: Term,
    /// The last record that it has applied.
    pub applied: LogIndex,
    /// The last one that it knows to be committed.
    pub committed: LogIndex,
    /// When it last heard the one in charge; of itself, now. Zero: it knows of none.
    pub heard: Time,
}

/// The same with what its log and its checkpoints did since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MasterTold {
    /// Where it stands.
    pub standing: MasterStanding,
    /// The last checkpoint that there is, and when this process made it, or started.
    pub checkpoint: (LogIndex, Time),
    /// How long appends to the operation log took with their flush.
    pub flushes: LatencyCounts,
    /// Records appended.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl MasterStanding {
    /// Of this member, as it knows itself.
    pub(crate) fn of(consensus: &Consensus, role: &Role) -> Self {
        let heard = consensus.primary().and_then(|primary| consensus.heard(primary));
        Self {
            in_charge: matches!(role, Role::Primary(_)),
            term: consensus.term(),
            applied: role.state().applied(),
            committed: consensus.committed_index(),
            heard: heard.unwrap_or_default(),
        }
    }
}

impl MasterGauges {
    /// As it is now.
    #[must_use]
    pub fn told(&self) -> MasterTold {
        let load = |one: &AtomicU64| one.load(Ordering::Relaxed);
        let standing = MasterStanding {
            in_charge: self.in_charge.load(Ordering::Relaxed),
            term: Term::new(load(&self.term)),
            applied: LogIndex::new(load(&self.applied)),
            committed: LogIndex::new(load(&self.committed)),
            heard: Time::from_nanos(load(&self.heard)),
        };
        let made = Time::from_nanos(load(&self.checkpointed));
        MasterTold {
            standing,
            checkpoint: (LogIndex::new(load(&self.checkpoint)), made),
            flushes: self.flushes.told(),
            records: load(&self.records),
            bytes: load(&self.bytes),
        }
    }

    pub(crate) fn stand(&self, standing: &MasterStanding) {
        let store = |one: &AtomicU64, value: u64| one.store(value, Ordering::Relaxed);
        self.in_charge.store(standing.in_charge, Ordering::Relaxed);
        store(&self.term, standing.term.get());
        store(&self.applied, standing.applied.get());
        store(&self.committed, standing.committed.get());
        store(&self.heard, standing.heard.as_nanos());
    }

    /// An append is durable.
    pub(crate) fn flushed(&self, took: Duration, append: &Append) {
        self.flushes.note(took);
        self.records.fetch_add(append.records.len() as u64, Ordering::Relaxed);
        let bytes = append.records.iter().map(|(_, record)| record.len() as u64).sum();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// There is a checkpoint as of this record; where it was there before, since the start.
    pub(crate) fn has_checkpoint(&self, now: Time, index: LogIndex) {
        self.checkpoint.store(index.get(), Ordering::Relaxed);
        self.checkpointed.store(now.as_nanos(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{MasterGauges, MasterStanding};
    use crate::log_room::Append;
    use bytes::Bytes;
    use cairn_types::{LogIndex, Term, Time};
    use std::time::Duration;

    #[test]
    fn what_the_driver_notes_is_what_is_told() {
        let gauges = MasterGauges::default();
        let standing = MasterStanding {
            in_charge: true,
            term: Term::new(3),
            applied: LogIndex::new(7),
            committed: LogIndex::new(8),
            heard: Time::from_nanos(9),
        };
        gauges.stand(&standing);
        let record = |index| (LogIndex::new(index), Bytes::from_static(b"abc"));
        let append = Append { number: 1, records: vec![record(7), record(8)] };
        gauges.flushed(Duration::from_millis(2), &append);
        gauges.has_checkpoint(Time::from_nanos(5), LogIndex::new(6));
        let told = gauges.told();
        assert_eq!(told.standing, standing);
        assert_eq!((told.records, told.bytes, told.flushes.count()), (2, 6, 1));
        assert_eq!(told.checkpoint, (LogIndex::new(6), Time::from_nanos(5)));
    }
}
