//! The member's log as the library sees it: what the disk has of it, or is about to have.
//!
//! ```text
//!   base │ entries …                     dropped from the front once nobody needs them
//! ```
//! - ML1: consecutive, from the record after `base`.
//! - ML2: what was not applied here is never dropped.

use crate::entries::{change_of, data_of};
use crate::stored::StoredRecord;
use cairn_types::wire::Message;
use cairn_types::{MemberStanding, Members, Term};
use raft::prelude::{ConfState, Entry, HardState, Snapshot};
use raft::storage::{GetEntriesContext, RaftState, Storage};
use raft::{Error, Result, StorageError};
use std::collections::VecDeque;

/// About what an entry takes in memory beside its bytes.
const ENTRY_OVERHEAD: u64 = 128;

/// A record's place and term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) index: u64,
    pub(crate) term: u64,
}

/// The log from some record on.
#[derive(Debug)]
pub(crate) struct MemberLog {
    hard_state: HardState,
    conf_state: ConfState,
    /// The record before the first entry.
    base: LogPlace,
    entries: VecDeque<Entry>,
    /// Bytes of them.
    size: u64,
    /// The last checkpoint, which stands for all records up to it.
    offered: LogPlace,
}

fn size_of(entry: &Entry) -> u64 {
    entry.data.len() as u64 + ENTRY_OVERHEAD
}

/// The members as the library counts them.
pub(crate) fn conf_state(members: &Members) -> ConfState {
    use MemberStanding as Standing;
    let of = |standings: &[Standing]| -> Vec<u64> {
        let such = members.all.iter().filter(|member| standings.contains(&member.standing));
        such.map(|member| member.id.get()).collect()
    };
    ConfState {
        voters: of(&[Standing::Voter, Standing::Entering]),
        learners: of(&[Standing::Learner]),
        voters_outgoing: match members.joint {
            true => of(&[Standing::Voter, Standing::Leaving]),
            false => Vec::new(),
        },
        auto_leave: members.joint,
        ..ConfState::default()
    }
}

/// How an entry is stored.
pub(crate) fn to_stored(entry: &Entry) -> Vec<u8> {
    let (term, data, change) = (Term::new(entry.term), data_of(entry), change_of(entry));
    StoredRecord { term, data, change }.to_bytes()
}

impl MemberLog {
    pub(crate) fn new(base: LogPlace, hard_state: HardState, conf_state: ConfState) -> Self {
        let (entries, offered) = (VecDeque::new(), LogPlace::default());
        Self { hard_state, conf_state, base, entries, size: 0, offered }
    }

    /// The last record.
    pub(crate) fn last(&self) -> LogPlace {
        let place = |entry: &Entry| LogPlace { index: entry.index, term: entry.term };
        self.entries.back().map_or(self.base, place)
    }

    pub(crate) fn set_hard_state(&mut self, state: HardState) {
        self.hard_state = state;
    }

    /// There is a checkpoint as of this record.
    pub(crate) fn offer(&mut self, place: LogPlace) {
        self.offered = place;
    }

    pub(crate) fn offered(&self) -> LogPlace {
        self.offered
    }

    pub(crate) fn base(&self) -> LogPlace {
        self.base
    }

    /// The members are others from now on.
    pub(crate) fn set_members(&mut self, members: &Members) {
        self.conf_state = conf_state(members);
    }

    /// A checkpoint stands for all up to `base`: the log begins behind it.
    pub(crate) fn begin_behind(&mut self, base: LogPlace, conf_state: ConfState) {
        assert!(base.index >= self.base.index, "a checkpoint that is taken over is ahead");
        (self.base, self.conf_state, self.offered) = (base, conf_state, base);
        self.entries.clear();
        self.size = 0;
        self.hard_state.commit = self.hard_state.commit.max(base.index);
    }

    /// Takes entries in, in place of those at their indices and of all after them.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.base.index, "what is dropped was applied (ML2)");
        assert!(first.index <= self.last().index + 1, "entries are consecutive (ML1)");
        while self.entries.back().is_some_and(|last| last.index >= first.index) {
            let gone = self.entries.pop_back().expect("looked at just now");
            self.size -= size_of(&gone);
        }
        self.size += entries.iter().map(size_of).sum::<u64>();
        self.entries.extend(entries.iter().cloned());
    }

    /// Drops entries up to `applied` until those that are left have `kept` bytes (ML2).
    pub(crate) fn drop_up_to(&mut self, applied: u64, kept: u64) {
        while self.size > kept && self.entries.front().is_some_and(|first| first.index <= applied) {
            let gone = self.entries.pop_front().expect("looked at just now");
            self.base = LogPlace { index: gone.index, term: gone.term };
            self.size -= size_of(&gone);
        }
    }

    fn first_index(&self) -> u64 {
        self.base.index + 1
    }
}

impl Storage for MemberLog {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.conf_state.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low < self.first_index() {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last().index + 1, "entries that are not there are not asked for");
        let position = |index: u64| usize::try_from(index - self.first_index()).expect("in memory");
        let max_size = max_size.into().unwrap_or(u64::MAX);
        let mut size = 0;
        let asked = self.entries.range(position(low)..position(high));
        // At least one, whatever its size.
        let within = asked.take_while(|entry| {
            let is_first = size == 0;
            size += size_of(entry);
            is_first || size <= max_size
        });
        Ok(within.cloned().collect())
    }

    fn term(&self, index: u64) -> Result<u64> {
        if index == self.base.index {
            return Ok(self.base.term);
        }
        let position = index.checked_sub(self.first_index());
        let position = position.ok_or(Error::Store(StorageError::Compacted))?;
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        let entry = self.entries.get(position).ok_or(Error::Store(StorageError::Unavailable))?;
        Ok(entry.term)
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.first_index())
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last().index)
    }

    fn snapshot(&self, _: u64, _: u64) -> Result<Snapshot> {
        if self.offered.index < self.base.index || self.offered.index == 0 {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (self.offered.index, self.offered.term);
        metadata.set_conf_state(self.conf_state.clone());
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY_OVERHEAD, LogPlace, MemberLog};
    use raft::prelude::{ConfState, Entry, HardState};
    use raft::storage::{GetEntriesContext, Storage};

    fn entry(index: u64, term: u64) -> Entry {
        Entry { index, term, data: vec![0; 72].into(), ..Entry::default() }
    }

    fn log(base: LogPlace, terms: &[u64]) -> MemberLog {
        let mut log = MemberLog::new(base, HardState::default(), ConfState::default());
        let entries: Vec<Entry> =
            (base.index + 1..).zip(terms).map(|(index, term)| entry(index, *term)).collect();
        log.append(&entries);
        log
    }

    fn indices(log: &MemberLog, from: u64, max_size: u64) -> Vec<u64> {
        let end = log.last_index().expect("known") + 1;
        let context = GetEntriesContext::empty(false);
        let entries = log.entries(from, end, max_size, context).expect("there");
        entries.iter().map(|entry| entry.index).collect()
    }

    #[test]
    fn entries_take_the_place_of_others_and_of_all_after_them() {
        let mut log = log(LogPlace { index: 10, term: 2 }, &[2, 2, 2, 3]);
        assert_eq!(log.term(10).ok(), Some(2), "the one before the first is known by its term");
        log.append(&[entry(12, 4)]);
        assert_eq!(log.last(), LogPlace { index: 12, term: 4 });
        assert_eq!(log.term(11).ok(), Some(2));
        assert!(log.term(13).is_err() && log.term(9).is_err());
    }

    #[test]
    fn what_was_not_applied_is_never_dropped_and_no_more_than_is_over_the_bound() {
        let mut log = log(LogPlace::default(), &[1; 10]);
        let each = 72 + ENTRY_OVERHEAD;
        log.drop_up_to(8, 5 * each);
        assert_eq!(indices(&log, 6, u64::MAX), [6, 7, 8, 9, 10]);
        log.drop_up_to(8, 0);
        assert_eq!(indices(&log, 9, u64::MAX), [9, 10]);
        assert_eq!(log.term(8).ok(), Some(1));
        assert!(log.entries(8, 9, None, GetEntriesContext::empty(false)).is_err());
    }

    #[test]
    fn a_reader_gets_what_fits_and_one_at_least() {
        let log = log(LogPlace::default(), &[1; 4]);
        let each = 72 + ENTRY_OVERHEAD;
        assert_eq!(indices(&log, 2, 2 * each), [2, 3]);
        assert_eq!(indices(&log, 2, 1), [2]);
    }
}
