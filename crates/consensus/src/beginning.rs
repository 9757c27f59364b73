//! What a member is started from: its disk's mark, state and log.

use crate::entries::to_entry;
use crate::member_log::{LogPlace, MemberLog, conf_state};
use crate::stored::StoredRecord;
use cairn_format::GroupMark;
use cairn_types::{LogIndex, Members, ServerId, Term};
use raft::prelude::{Entry, HardState};

/// What a member is started from.
#[derive(Clone, Debug, Default)]
pub struct Beginning {
    /// The member.
    pub me: ServerId,
    /// Feeds what it draws.
    pub seed: u64,
    /// What its disk remembers of terms and members; none where it has always been alone.
    pub mark: Option<GroupMark>,
    /// What the state holds: applied, and so committed.
    pub applied: (LogIndex, Term),
    /// The record before `records`; at or before what is applied.
    pub base: (LogIndex, Term),
    /// What the log holds after it.
    pub records: Vec<(LogIndex, StoredRecord)>,
    /// The first term of its own is later than this (R3).
    pub past: Term,
}

impl Beginning {
    /// Term and vote of the mark.
    pub(crate) fn votes(&self) -> Option<(Term, ServerId)> {
        self.mark.as_ref().map(|mark| (mark.term, mark.vote))
    }

    /// The log as the library starts with it.
    pub(crate) fn log(&self, members: &Members) -> MemberLog {
        let base = LogPlace { index: self.base.0.get(), term: self.base.1.get() };
        let mut log = MemberLog::new(base, HardState::default(), conf_state(members));
        let entries = self.records.iter().map(|(index, stored)| {
            let StoredRecord { term, data, change } = stored;
            to_entry(*index, *term, data.clone(), change.as_ref())
        });
        log.append(&entries.collect::<Vec<Entry>>());
        let last = log.last();
        let mark = self.mark.clone().unwrap_or_default();
        let term = mark.term.get().max(last.term).max(self.past.get());
        let vote = if term == mark.term.get() { mark.vote.get() } else { 0 };
        let commit = mark.committed.max(self.applied.0).get();
        assert!(commit <= last.index, "what is committed is in the log");
        log.set_hard_state(HardState { term, vote, commit, ..HardState::default() });
        log
    }
}
