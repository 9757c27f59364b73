//! Whose the terms of this log were: what tells a server of this cell's past from one of another,
//! where a master was started from an old copy of its directory (R1, R3).
//!
//! ```text
//!   this log:      1 ─ 2 ─ 3            server: "3 of reign c took me in"
//!   the copy's:    1 ─ 2 ─ 3'           c is not the reign of 3': the log lacks what 3 logged
//! ```
//! - HI1: the last [`REIGNS_MAX`] terms are remembered; older ones are believed, and nothing is
//!   known of their floors.
//! - HI2: a new history believes every term before its first: a person has said that what they
//!   logged is lost, or is here.
//! - HI3: where each of them began in the log is remembered, too: so where the one before it ended.
//!   Of one that a build began which did not write that down nothing is concluded.

use cairn_types::{ChunkHandle, LogIndex, ReignId, Term};
use std::sync::Arc;

/// Terms whose reigns are remembered: starts of a master.
const REIGNS_MAX: usize = 1024;

cairn_types::message! {
    /// One term, which master's it was, and its floor: no handle of it below that is opened any
    /// more.
    #[derive(Copy)]
    pub struct TermReign {
        1 => term: Term,
        2 => reign: ReignId,
        3 => floor: ChunkHandle,
        /// The record that began it; zero: not written down.
        4 => began: LogIndex,
    }
}

/// In order of term; clones share them until one of them begins another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    reigns: Arc<Vec<TermReign>>,
    /// The first term of this history; zero where it goes back to the cell's founding.
    began: Term,
}

impl History {
    /// From what an image has.
    pub(super) fn of(reigns: Vec<TermReign>, began: Term) -> Self {
        Self { reigns: Arc::new(reigns), began }
    }

    pub(super) fn reigns(&self) -> Vec<TermReign> {
        self.reigns.to_vec()
    }

    /// The first term of this history.
    pub(super) fn began(&self) -> Term {
        self.began
    }

    /// A term begins, and with it perhaps a history (HI2).
    pub(super) fn begin(
        &mut self,
        (term, reign): (Term, ReignId),
        new_history: bool,
        began: LogIndex,
    ) {
        let reigns = Arc::make_mut(&mut self.reigns);
        if new_history {
            reigns.clear();
            self.began = term;
        }
        // The term of a `Begin` that was repeated is the later one's.
        reigns.retain(|known| known.term < term);
        if reigns.len() == REIGNS_MAX {
            reigns.remove(0);
        }
        reigns.push(TermReign { term, reign, floor: ChunkHandle::default(), began });
        assert!(reigns.len() <= REIGNS_MAX, "so many are remembered (HI1)");
    }

    /// No handle of its term below this one is opened any more; from where on that is new, if at
    /// all.
    pub(super) fn raise_floor(&mut self, floor: ChunkHandle) -> Option<ChunkHandle> {
        let mut known = self.reigns.iter().enumerate().rev();
        let (index, known) = known.find(|(_, known)| known.term == floor.term())?;
        if floor <= known.floor {
            return None;
        }
        let former = std::mem::replace(&mut Arc::make_mut(&mut self.reigns)[index].floor, floor);
        Some(former)
    }

    /// No handle of this term below it is opened any more; of a term that is not remembered nothing
    /// is known.
    pub(super) fn floor(&self, term: Term) -> ChunkHandle {
        let known = self.reigns.iter().rev().find(|known| known.term == term);
        known.map(|known| known.floor).unwrap_or_default()
    }

    /// Whether this log had that term, under that reign and no other.
    pub(super) fn had(&self, term: Term, reign: ReignId) -> bool {
        let told = reign != ReignId::default();
        told && self.reigns.iter().any(|known| (known.term, known.reign) == (term, reign))
    }

    /// Where that term ended in this log; none where it has not, or nobody knows (HI3).
    pub(super) fn end_of(&self, term: Term) -> Option<LogIndex> {
        let mut from = self.reigns.iter().skip_while(|known| known.term != term);
        from.next()?;
        let next = from.next().map(|next| next.began.get()).filter(|began| *began > 0)?;
        Some(LogIndex::new(next - 1))
    }

    /// Whether this log may have had that term under that reign.
    pub(super) fn may_have_had(&self, term: Term, reign: ReignId) -> bool {
        let oldest = self.reigns.first().map(|known| known.term);
        if reign == ReignId::default() || oldest.is_none_or(|oldest| term < oldest) {
            return true;
        }
        let known = self.reigns.iter().find(|known| known.term == term);
        known.is_some_and(|known| known.reign == ReignId::default() || known.reign == reign)
    }
}

#[cfg(test)]
mod tests {
    use super::{History, REIGNS_MAX};
    use cairn_types::{LogIndex, ReignId, Term};

    #[test]
    fn a_term_of_another_reign_or_one_that_the_log_lacks_is_of_another_history() {
        let mut history = History::default();
        let had = |history: &History, term, reign| {
            history.may_have_had(Term::new(term), ReignId::new(reign))
        };
        assert!(had(&history, 4, 9), "nothing is known so far");
        for (term, reign) in [(2, 20), (3, 0), (5, 50)] {
            history.begin((Term::new(term), ReignId::new(reign)), false, LogIndex::new(10 * term));
        }
        assert!(had(&history, 2, 20) && had(&history, 5, 50));
        assert!(!had(&history, 2, 21) && !had(&history, 4, 40) && !had(&history, 6, 60));
        assert!(had(&history, 3, 7), "a build that knew of no reigns began it");
        assert!(had(&history, 1, 7), "older than what is remembered");
        assert!(had(&history, 5, 0), "the server has not been told");
    }

    #[test]
    fn so_many_terms_are_remembered_and_no_more() {
        let mut history = History::default();
        let begin = |it| history.begin((Term::new(it), ReignId::new(it)), false, LogIndex::new(it));
        (1..=2 * REIGNS_MAX as u64).for_each(begin);
        assert_eq!(history.reigns().len(), REIGNS_MAX);
    }

    #[test]
    fn a_new_history_believes_all_terms_before_its_first_and_no_other_of_its_own() {
        let mut history = History::default();
        let had = |history: &History, term, reign| {
            history.may_have_had(Term::new(term), ReignId::new(reign))
        };
        history.begin((Term::new(5), ReignId::new(50)), false, LogIndex::new(50));
        assert!(!had(&history, 5, 51) && !had(&history, 8, 80));
        history.begin((Term::new(9), ReignId::new(90)), true, LogIndex::new(90));
        assert!(had(&history, 5, 51) && had(&history, 8, 80) && had(&history, 9, 90));
        assert!(!had(&history, 9, 91) && !had(&history, 10, 100));
        assert_eq!(history.began(), Term::new(9));
        history.begin((Term::new(10), ReignId::new(100)), false, LogIndex::new(100));
        assert_eq!(history.began(), Term::new(9));
    }

    #[test]
    fn a_term_ended_where_the_next_one_began_and_the_present_one_has_not_ended() {
        let mut history = History::default();
        for (term, began) in [(2, 0), (3, 70), (5, 90)] {
            history.begin((Term::new(term), ReignId::new(term)), false, LogIndex::new(began));
        }
        let end_of = |term| history.end_of(Term::new(term)).map(LogIndex::get);
        assert_eq!([1, 2, 3, 4, 5].map(end_of), [None, Some(69), Some(89), None, None]);
        let mut old = History::default();
        old.begin((Term::new(1), ReignId::new(1)), false, LogIndex::new(1));
        old.begin((Term::new(2), ReignId::new(2)), false, LogIndex::default());
        assert_eq!(old.end_of(Term::new(1)), None, "an older build began the next one");
    }
}
