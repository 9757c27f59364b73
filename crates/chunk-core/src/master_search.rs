//! Which master this server talks to, and when it looks for another one (A25).
//!
//! ```text
//!   asked ──► answered: kept to
//!     ├─────► refused, unreachable: all masters are asked who is in charge, until one is
//!     └─────► silent: the same, while what was asked is waited for
//! ```
//! - MS1: a master that is not in charge, or is gone, is left at once; one that is silent after
//!   `SILENCE_MAX`, and only for one that says that it is in charge.
//! - MS2: what comes of a question counts only while the master that was asked is talked to.

use cairn_protocol::{
    ChoiceNumber, ErrorCode, Failure, FindPrimaryAnswer, PrimarySearch, SearchStep,
};
use cairn_types::{Address, Random, Time};
use std::time::Duration;

/// A master that has said nothing for so long, though it was asked, may be gone.
const SILENCE_MAX: Duration = Duration::from_millis(500);

/// How often the master is asked who the others are.
const LEARN_EVERY: Duration = Duration::from_secs(5);

/// The masters, as this server knows them.
#[derive(Debug)]
pub(crate) struct MasterSearch {
    search: PrimarySearch,
    /// Pauses are drawn from it, so that not all servers of a cell ask at once.
    random: Random,
    /// No round begins before.
    next_round: Time,
    /// Since when the master has been asked without a word from it.
    asked_since: Option<Time>,
    /// When it is asked for the others again.
    learns_at: Time,
}

impl MasterSearch {
    /// # Panics
    /// Without the address of a master.
    pub(crate) fn new(masters: Vec<Address>, seed: u64) -> Self {
        Self {
            search: PrimarySearch::new(masters),
            random: Random::new(seed),
            next_round: Time::default(),
            asked_since: None,
            learns_at: Time::default(),
        }
    }

    /// The one that is talked to, or was last.
    pub(crate) fn master(&self) -> &Address {
        self.search.latest()
    }

    /// All but the one that answers as the one in charge.
    pub(crate) fn others(&self) -> Vec<Address> {
        self.search.others().cloned().collect()
    }

    /// Whether there is one to talk to.
    pub(crate) fn is_known(&self) -> bool {
        self.search.trusted().is_some()
    }

    pub(crate) fn choice(&self) -> ChoiceNumber {
        self.search.choice()
    }

    /// Why there is none, as far as known.
    pub(crate) fn why(&self) -> Option<&Failure> {
        self.search.why()
    }

    /// The master is asked something.
    pub(crate) fn asks(&mut self, now: Time) -> ChoiceNumber {
        self.asked_since.get_or_insert(now);
        self.choice()
    }

    /// The master has answered as one in charge. True for the first time, and now and then: it is
    /// to be asked for the others, which it may know better, and which change.
    pub(crate) fn heard(&mut self, now: Time) -> bool {
        self.asked_since = None;
        let asks = !self.search.is_heard() || now >= self.learns_at;
        self.search.heard();
        if asks {
            self.learns_at = now + LEARN_EVERY;
        }
        asks
    }

    /// The master did not do what it was asked. True where it names another one.
    pub(crate) fn failed(&mut self, failure: &Failure) -> bool {
        match failure.code {
            ErrorCode::NotPrimaryMaster => {
                self.asked_since = None;
                self.search.refused(failure)
            }
            ErrorCode::Unreachable => {
                self.asked_since = None;
                self.search.unreachable(failure);
                false
            }
            ErrorCode::DeadlineExceeded => {
                self.search.silent();
                false
            }
            // It is there, and will do it later, or never.
            _ => {
                self.asked_since = None;
                false
            }
        }
    }

    /// Whom to ask now who is in charge.
    pub(crate) fn tick(&mut self, now: Time) -> Vec<Address> {
        if self.asked_since.is_some_and(|since| now.since(since) >= SILENCE_MAX) {
            self.search.silent();
        }
        if self.search.is_to_pause() && now < self.next_round {
            return Vec::new();
        }
        self.search.begin_round()
    }

    /// What one of them says. True where another master is to be talked to, or the same again.
    pub(crate) fn told(
        &mut self,
        now: Time,
        from: &Address,
        result: Result<FindPrimaryAnswer, Failure>,
    ) -> bool {
        match self.search.answered(from, result) {
            SearchStep::GoesOn => false,
            SearchStep::RoundOver => {
                self.next_round = now + self.search.pause(&mut self.random);
                false
            }
            SearchStep::Found => {
                self.asked_since = None;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LEARN_EVERY, MasterSearch};
    use cairn_protocol::{FindPrimaryAnswer, MasterRole};
    use cairn_types::{Address, Time};

    #[test]
    fn masters_that_come_later_are_learnt_of_while_all_is_well() {
        let mut search = MasterSearch::new(vec![Address::new("m1")], 1);
        let began = Time::default() + LEARN_EVERY;
        assert!(search.heard(began), "the first time");
        assert!(!search.heard(began), "not with every word");
        assert!(search.heard(began + LEARN_EVERY));
        let masters = ["m1", "m2", "m3"].map(Address::new).to_vec();
        let answer = FindPrimaryAnswer { role: MasterRole::Primary, masters, ..Default::default() };
        assert!(!search.told(began, &Address::new("m1"), Ok(answer)), "it is talked to already");
        assert_eq!(search.others().len(), 2);
    }
}
