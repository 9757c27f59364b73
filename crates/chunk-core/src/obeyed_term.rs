//! The highest term that was heard of, and how much of that is on disk (R2).
//!
//! - OY1: a term is on its way to the disk before anything of it is done; where it cannot be put
//!   there it was not heard of, unless a later one is on its way: that one decides.

use crate::outbox::{DiskPurpose, Outbox};
use cairn_env::JournalEntry;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::Term;
use cairn_types::planted::{Rule, broken};

/// The terms of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObeyedTerm {
    heard: Term,
    kept: Term,
}

impl ObeyedTerm {
    /// As the disk says.
    pub(crate) fn kept(term: Term) -> Self {
        Self { heard: term, kept: term }
    }

    /// The highest that was heard of.
    pub(crate) fn heard(self) -> Term {
        self.heard
    }

    /// Takes over a higher term, durably before anything of it is done; refuses a lower one (M1 of
    /// the link).
    pub(crate) fn obey(&mut self, term: Term, out: &mut Outbox) -> Result<(), Failure> {
        if term < self.heard && !broken(Rule::R2) {
            let why = format!("a master of term {term}; this server has heard of {}", self.heard);
            return Err(Failure::refused(ErrorCode::NotPrimaryMaster, why));
        }
        if term > self.heard {
            self.heard = term;
            // The journal keeps order: whatever this term asks for lies behind this entry.
            out.journal(DiskPurpose::TermKept(term), JournalEntry::Term(term));
        }
        Ok(())
    }

    /// A term is on disk now, or cannot be put there.
    pub(crate) fn on_written(&mut self, term: Term, is_kept: bool) {
        assert!(term <= self.heard || broken(Rule::R2), "what is written was heard of");
        if is_kept {
            self.kept = self.kept.max(term);
        } else if term == self.heard {
            self.heard = self.kept;
        }
        assert!(self.kept <= self.heard || broken(Rule::R2), "terms only rise (M1)");
    }
}

#[cfg(test)]
mod tests {
    use super::ObeyedTerm;
    use crate::outbox::Outbox;
    use cairn_types::Term;

    #[test]
    fn where_terms_cannot_be_kept_those_that_were_are_obeyed_and_no_others() {
        let term = Term::new;
        for (sixth, seventh, heard) in
            [(false, false, 5), (true, false, 6), (false, true, 7), (true, true, 7)]
        {
            let mut terms = ObeyedTerm::kept(term(5));
            for number in [6, 7] {
                terms.obey(term(number), &mut Outbox::default()).expect("higher ones");
            }
            terms.on_written(term(6), sixth);
            assert_eq!(terms.heard(), term(7), "the later one decides (OY1)");
            terms.on_written(term(7), seventh);
            assert_eq!(terms.heard(), term(heard));
            let lower = terms.obey(term(heard - 1), &mut Outbox::default());
            assert!(lower.is_err(), "R2");
        }
    }
}
