//! The numbers that a master hands out, each once (R1).
//!
//! One counter for all kinds: it starts anew with each term, needs no log record, and is never
//! offered twice because a term has one master and is never used again.

use cairn_types::planted::{Rule, broken};
use cairn_types::{
    ChunkHandle, ChunkVersion, EntryId, Epoch, JobId, JoinId, LeaseId, ProducerId, Term,
};

/// Hands out the numbers of one term.
#[derive(Debug)]
pub(crate) struct TermNumbers {
    term: Term,
    counter: u64,
}

impl TermNumbers {
    /// The numbers of `term`, which must be this master's own and durable before one leaves.
    #[must_use]
    pub(crate) fn new(term: Term) -> Self {
        // R1 broken: the numbers of an earlier term are offered again.
        let term = if broken(Rule::R1) { Term::new(1) } else { term };
        Self { term, counter: 0 }
    }

    fn take(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// No handle above this one was given out so far.
    pub(crate) fn last_handle(&self) -> ChunkHandle {
        ChunkHandle::of(self.term, self.counter)
    }

    /// No handle below this one is given out any more.
    pub(crate) fn next_handle(&self) -> ChunkHandle {
        ChunkHandle::of(self.term, self.counter + 1)
    }

    /// No version above this one was given out so far.
    pub(crate) fn last_version(&self) -> ChunkVersion {
        ChunkVersion::of(self.term, self.counter)
    }

    /// That version was given out: tests make some up, and log them.
    #[cfg(test)]
    pub(crate) fn gave_out(&mut self, version: ChunkVersion) {
        if version.term() == self.term {
            self.counter = self.counter.max(version.counter());
        }
    }

    /// A fresh chunk handle.
    pub(crate) fn handle(&mut self) -> ChunkHandle {
        ChunkHandle::of(self.term, self.take())
    }

    /// A fresh chunk version, above every version of this and earlier terms.
    pub(crate) fn version(&mut self) -> ChunkVersion {
        ChunkVersion::of(self.term, self.take())
    }

    /// A fresh lease id.
    pub(crate) fn lease(&mut self) -> LeaseId {
        LeaseId::of(self.term, self.take())
    }

    /// A fresh name of a join.
    pub(crate) fn join(&mut self) -> JoinId {
        JoinId::of(self.term, self.take())
    }

    /// A fresh name of a job.
    pub(crate) fn job(&mut self) -> JobId {
        JobId::of(self.term, self.take())
    }

    /// A fresh name of a producer.
    pub(crate) fn producer(&mut self) -> ProducerId {
        ProducerId::of(self.term, self.take())
    }

    /// A fresh epoch, above every one of this and earlier terms.
    pub(crate) fn epoch(&mut self) -> Epoch {
        Epoch::of(self.term, self.take())
    }

    /// A fresh file or directory id.
    pub(crate) fn entry(&mut self) -> EntryId {
        EntryId::of(self.term, self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::TermNumbers;
    use cairn_types::Term;

    #[test]
    fn no_number_is_offered_twice_within_a_term_or_by_the_next() {
        let mut numbers = TermNumbers::new(Term::new(3));
        let first = numbers.version();
        let second = numbers.version();
        assert!(second > first);
        assert!(TermNumbers::new(Term::new(4)).version() > second);
    }
}
