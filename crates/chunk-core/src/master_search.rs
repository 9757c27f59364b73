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

    /// The master has answered as one in charge. True for the first time: it is to be asked for
    /// the others, which it may know better.
    pub(crate) fn heard(&mut self) -> bool {
        self.asked_since = None;
        let is_news = !self.search.is_heard();
        self.search.heard();
        is_news
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
