//! Committed records that are not applied yet: a turn of the loop applies a piece of them, and
//! between two turns requests are taken.
//!
//! ```text
//!   committed ──► [ r r r r r r r ] ──a piece──► applied ── requests ── a piece ──► applied …
//! ```
//! - BL1: they are applied in the order of the log, each once.
//! - BL2: a turn applies about [`TURN_SIZE`] bytes of records, and always one, and at most one
//!   slice of a snapshot: whoever looks something up waits for no more, however much one flush
//!   committed.
//! - BL3: while any wait, another turn is asked for: nothing waits for a request to come.

use cairn_consensus::CommittedRecord;
use cairn_env::EffectId;
use cairn_master_core::Record;
use std::collections::VecDeque;

/// Bytes of records that a turn applies: some thirty creations. More of them are a longer wait for
/// a look-up, fewer are more turns, each of which has its cost.
const TURN_SIZE: usize = 4 << 10;

/// The records, and what the turn may still apply.
#[derive(Debug)]
pub(crate) struct Backlog {
    records: VecDeque<CommittedRecord>,
    left: usize,
    /// The next turn that was asked for.
    wake: Option<EffectId>,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { records: VecDeque::new(), left: TURN_SIZE, wake: None }
    }
}

impl Backlog {
    /// More are committed.
    pub(crate) fn add(&mut self, committed: Vec<CommittedRecord>) {
        if let (Some(last), Some(first)) = (self.records.back(), committed.first()) {
            assert!(last.index < first.index, "records come out in order (BL1, Q3)");
        }
        self.records.extend(committed);
    }

    /// The next to be applied in this turn.
    pub(crate) fn take(&mut self) -> Option<CommittedRecord> {
        if self.left == 0 {
            return None;
        }
        let record = self.records.pop_front()?;
        self.left = match Record::is_slice(&record.data) {
            true => 0,
            false => self.left.saturating_sub(record.data.len().max(1)),
        };
        Some(record)
    }

    /// Another state stands for all of them.
    pub(crate) fn clear(&mut self) {
        self.records.clear();
    }

    /// Whether that is the turn that was asked for.
    pub(crate) fn is_wake(&mut self, id: EffectId) -> bool {
        self.wake.take_if(|wake| *wake == id).is_some()
    }

    /// The turn ends; whether another one is to be asked for (BL3).
    pub(crate) fn end_turn(&mut self) -> bool {
        self.left = TURN_SIZE;
        !self.records.is_empty() && self.wake.is_none()
    }

    /// That one was asked for.
    pub(crate) fn asked(&mut self, id: EffectId) {
        assert!(self.wake.is_none(), "one turn is asked for at a time");
        self.wake = Some(id);
    }
}

#[cfg(test)]
mod tests {
    use super::{Backlog, TURN_SIZE};
    use cairn_consensus::CommittedRecord;
    use cairn_env::EffectId;
    use cairn_master_core::Record;
    use cairn_types::{LogIndex, Term};

    fn records(indexes: std::ops::Range<u64>, size: usize) -> Vec<CommittedRecord> {
        let record = |index| CommittedRecord {
            index: LogIndex::new(index),
            term: Term::new(1),
            data: vec![0; size].into(),
        };
        indexes.map(record).collect()
    }

    fn slices(indexes: std::ops::Range<u64>) -> Vec<CommittedRecord> {
        let slice = Record::CopyEntries(Default::default()).to_bytes();
        assert!(slice.len() < 10, "few bytes, as of one file with many places");
        let all = records(indexes, 0).into_iter();
        all.map(|record| CommittedRecord { data: slice.clone().into(), ..record }).collect()
    }

    /// The indexes that a turn takes.
    fn turn(backlog: &mut Backlog) -> Vec<u64> {
        std::iter::from_fn(|| backlog.take()).map(|record| record.index.get()).collect()
    }

    #[test]
    fn a_turn_takes_a_piece_and_asks_for_the_next_until_all_are_applied_in_order() {
        let mut backlog = Backlog::default();
        backlog.add(records(1..6, TURN_SIZE / 4 - 1));
        assert_eq!(turn(&mut backlog), [1, 2, 3, 4, 5]);
        assert!(!backlog.end_turn(), "none is left");
        backlog.add(records(6..12, TURN_SIZE / 4 - 1));
        assert_eq!(turn(&mut backlog), [6, 7, 8, 9, 10]);
        // Whatever else comes in this turn finds nothing to apply.
        backlog.add(slices(12..14));
        assert_eq!(turn(&mut backlog), []);
        assert!(backlog.end_turn(), "another turn is needed");
        backlog.asked(EffectId(7));
        assert!(!backlog.end_turn(), "it was asked for");
        assert!(!backlog.is_wake(EffectId(6)) && backlog.is_wake(EffectId(7)));
        assert_eq!(turn(&mut backlog), [11, 12], "a slice ends it");
        assert!(backlog.end_turn());
        assert_eq!(turn(&mut backlog), [13]);
        assert!(!backlog.end_turn(), "nothing waits");
    }

    #[test]
    fn entries_without_a_record_are_passed_too() {
        let mut backlog = Backlog::default();
        backlog.add(records(1..9, 0));
        assert_eq!(turn(&mut backlog).len(), 8);
    }
}
