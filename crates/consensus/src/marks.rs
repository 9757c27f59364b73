//! What the disk remembers of terms, votes and members: the mark of the log (V1).
//!
//! - MK1: of one that was always alone the records tell term and vote (Q1): it writes no marks
//!   before there is somebody else.

use cairn_format::GroupMark;
use cairn_types::{LogIndex, Members, ServerId, Term};

/// Term and vote.
type Votes = (Term, ServerId);

/// The marks of one member.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Term and vote as the last mark has them; none while none is written (MK1).
    last: Option<Votes>,
    /// The same, of the last one that is durable.
    durable: Option<Votes>,
    /// The members of the last one are as of this record.
    as_of: LogIndex,
    due: bool,
}

impl Marks {
    pub(crate) fn new(votes: Option<Votes>) -> Self {
        Self { last: votes, durable: votes, as_of: LogIndex::default(), due: false }
    }

    /// Whether there was somebody else at some time (MK1).
    pub(crate) fn are_written(&self) -> bool {
        self.last.is_some()
    }

    /// Whether one has to be written although no record comes.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// One has to be written, from now on with every batch.
    pub(crate) fn set_due(&mut self) {
        self.last.get_or_insert_default();
        self.durable.get_or_insert_default();
        self.due = true;
    }

    /// Term and vote are these.
    pub(crate) fn note(&mut self, votes: Votes) {
        self.due |= self.last.is_some_and(|last| last != votes);
    }

    /// The mark of the batch that goes to the disk now, if it has one.
    pub(crate) fn begin(
        &mut self,
        votes: Votes,
        committed: LogIndex,
        members: &Members,
    ) -> Option<GroupMark> {
        self.due = false;
        *self.last.as_mut()? = votes;
        self.as_of = members.as_of;
        let (term, vote) = votes;
        Some(GroupMark { term, vote, committed, members: members.clone() })
    }

    /// That batch is durable; as of which record its members are.
    pub(crate) fn end(&mut self) -> LogIndex {
        self.durable = self.last;
        self.as_of
    }

    /// Whether the disk knows of other votes than these.
    pub(crate) fn forgets(&self, votes: Votes) -> bool {
        self.durable.is_some_and(|durable| durable != votes)
    }
}
