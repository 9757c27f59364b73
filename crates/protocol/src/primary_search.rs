//! Which of a cell's masters is asked: found by asking all of them who is in charge (A25).
//!
//! ```text
//!             refused, unreachable                 silent
//!   Lost ◄───────────────────────── Trusted ◄────────────────► Doubted
//!    │  rounds: nothing else             ▲      heard again       │ rounds, beside the requests
//!    │  is asked                         │                        │ that wait there
//!    └───────────────────────────────────┴── one says: it is I ◄──┘
//! ```
//! - PS1: whom to ask is chosen by no guess but the first: who is trusted has said that it is in
//!   charge, or is named by one that is not, which is followed once.
//! - PS2: a round asks each master that is known once; between two rounds lies a pause, which grows
//!   while nobody is found, but where one is about to be in charge. So many who look for a primary
//!   are no storm.
//! - PS3: of several that say so the one of the highest term is believed. An answer of a lower term
//!   than was ever heard of counts only where nobody says better in that round.
//!
//! Nothing is safe because of it: a master that is not in charge does nothing, and says so. Used by
//! clients and chunkservers. Knows addresses, terms and answers; never sees time or a connection.

use crate::{ErrorCode, Failure, FindPrimaryAnswer, MasterRole};
use cairn_types::{Address, Random, Term};
use std::time::Duration;

/// How long a round waits for those that do not answer.
pub const SEARCH_ROUND_TIME_MAX: Duration = Duration::from_millis(300);
/// Masters that one party remembers.
pub const MASTERS_KNOWN_MAX: usize = 16;
/// Between two rounds, more or less by half.
const PAUSE: Duration = Duration::from_millis(100);
/// From then on it grows,
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// after so many rounds: longer than an election takes.
const ROUNDS_AT_FIRST: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Trusted,
    /// It has not been heard of for a while.
    Doubted,
    /// It is not in charge, or cannot be reached.
    Lost,
}

/// How the one that is asked was chosen (PS1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    First,
    Hinted,
    Found,
}

/// A round under way.
#[derive(Clone, Debug, Default)]
struct SearchRound {
    unanswered: Vec<Address>,
    /// Who says that it is in charge, in a term that has passed.
    second_best: Option<(Term, Address)>,
    /// One of them is there, and not in charge: that says more than that others are not.
    is_one_there: bool,
    /// One of them is about to be in charge.
    is_one_starting: bool,
}

/// Counts the masters that were chosen one after the other: tells a question to one from a
/// question to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChoiceNumber(u64);

/// What an answer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep {
    /// Others are yet to answer, or nobody is looked for any more.
    GoesOn,
    /// One is in charge: [`PrimarySearch::trusted`].
    Found,
    /// All have answered, or are silent, and none is in charge: the next round comes after
    /// [`PrimarySearch::pause`].
    RoundOver,
}

/// The masters as one party knows them.
#[derive(Clone, Debug)]
pub struct PrimarySearch {
    /// As a person has named them.
    named: Vec<Address>,
    /// As masters have.
    told: Vec<Address>,
    /// Whom to ask, or who was last.
    latest: Address,
    trust: Trust,
    /// It has answered as one that is in charge.
    is_heard: bool,
    /// How it came to be asked.
    choice: Choice,
    /// The highest of any that said that it is in charge.
    term: Term,
    /// Of `latest`.
    number: ChoiceNumber,
    round: Option<SearchRound>,
    /// Rounds without success, and finds that led to nothing, since one was heard.
    fruitless: u32,
    why: Option<Failure>,
}

impl PrimarySearch {
    /// Begins with the first of the masters.
    ///
    /// # Panics
    /// Without an address: who knows no master can ask nobody.
    #[must_use]
    pub fn new(named: Vec<Address>) -> Self {
        let latest = named.first().expect("who is to find a master is told of one").clone();
        Self {
            named,
            told: Vec::new(),
            latest,
            trust: Trust::Trusted,
            is_heard: false,
            choice: Choice::First,
            term: Term::default(),
            number: ChoiceNumber::default(),
            round: None,
            fruitless: 0,
            why: None,
        }
    }

    /// Whom to ask; none while nobody is known to be in charge.
    #[must_use]
    pub fn trusted(&self) -> Option<&Address> {
        (self.trust != Trust::Lost).then_some(&self.latest)
    }

    /// Whom to ask, or who was asked last.
    #[must_use]
    pub fn latest(&self) -> &Address {
        &self.latest
    }

    /// Which choice that is.
    #[must_use]
    pub fn choice(&self) -> ChoiceNumber {
        self.number
    }

    /// Whether somebody is looked for.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.trust != Trust::Trusted
    }

    /// Whether the one that is asked has answered as one in charge.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// Whether there is no other to ask.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.known().nth(1).is_none()
    }

    /// Whether the next round is to wait for its pause.
    #[must_use]
    pub fn is_to_pause(&self) -> bool {
        self.fruitless > 0
    }

    /// Why nobody is trusted, as far as known.
    #[must_use]
    pub fn why(&self) -> Option<&Failure> {
        self.why.as_ref()
    }

    /// All masters, each once.
    fn known(&self) -> impl Iterator<Item = &Address> {
        let told = self.told.iter().filter(|told| !self.named.contains(told));
        self.named.iter().chain(told).take(MASTERS_KNOWN_MAX)
    }

    /// All but the one that answers as the one in charge.
    pub fn others(&self) -> impl Iterator<Item = &Address> {
        let primary = self.trusted().filter(|_| self.is_heard);
        self.known().filter(move |master| Some(*master) != primary)
    }

    /// The one that is asked has done something that only one in charge does.
    pub fn heard(&mut self) {
        if self.trust != Trust::Lost {
            (self.trust, self.is_heard, self.fruitless) = (Trust::Trusted, true, 0);
            self.why = None;
        }
    }

    /// The one that is asked says nothing, for longer than it should.
    pub fn silent(&mut self) {
        if self.trust == Trust::Trusted && !self.is_alone() {
            self.trust = Trust::Doubted;
        }
    }

    /// The one that is asked cannot be reached.
    pub fn unreachable(&mut self, failure: &Failure) {
        self.lose(failure.clone());
    }

    /// The one that is asked is not in charge. True where it names another, who is to be asked at
    /// once (PS1).
    pub fn refused(&mut self, failure: &Failure) -> bool {
        // Who was only named itself names nobody: two that name each other would be asked for ever.
        let is_followed =
            self.trust != Trust::Lost && (self.is_heard || self.choice != Choice::Hinted);
        self.lose(failure.clone());
        let hint = &failure.primary;
        if !is_followed || hint.size() == 0 || *hint == self.latest {
            return false;
        }
        self.learn(std::slice::from_ref(hint));
        self.trust(hint, Choice::Hinted);
        true
    }

    fn lose(&mut self, why: Failure) {
        if self.trust != Trust::Lost && !self.is_heard && self.choice != Choice::First {
            self.fruitless = self.fruitless.saturating_add(1);
        }
        (self.trust, self.why) = (Trust::Lost, Some(why));
    }

    fn trust(&mut self, who: &Address, choice: Choice) {
        if *who != self.latest {
            self.latest = who.clone();
            self.number.0 += 1;
        } else if self.trust == Trust::Doubted {
            // It has been there all the time.
            self.trust = Trust::Trusted;
            return;
        }
        (self.trust, self.is_heard, self.choice) = (Trust::Trusted, false, choice);
    }

    /// More masters are known: others have told of them, or a name leads there.
    pub fn learn(&mut self, masters: &[Address]) {
        for master in masters.iter().filter(|master| master.size() > 0) {
            if !self.told.contains(master) {
                self.told.insert(0, master.clone());
            }
        }
        self.told.truncate(MASTERS_KNOWN_MAX);
    }

    /// Whom to ask who is in charge; nobody where a round is under way, or none is needed.
    pub fn begin_round(&mut self) -> Vec<Address> {
        if self.round.is_some() || self.trust == Trust::Trusted {
            return Vec::new();
        }
        let unanswered: Vec<Address> = self.known().cloned().collect();
        self.round = Some(SearchRound { unanswered: unanswered.clone(), ..SearchRound::default() });
        unanswered
    }

    /// What a master answers to [`FindPrimary`](crate::FindPrimary), or why it does not.
    pub fn answered(
        &mut self,
        from: &Address,
        result: Result<FindPrimaryAnswer, Failure>,
    ) -> SearchStep {
        let found = match result {
            Ok(answer) => self.told(from, answer),
            // A build that does not know the question; there is no other to ask.
            Err(failure) if self.is_alone() && failure.code == ErrorCode::Invalid => {
                self.is_searching() && self.find(from, self.term)
            }
            Err(failure) => {
                if !self.round.as_ref().is_some_and(|round| round.is_one_there) {
                    self.why = self.is_searching().then_some(failure);
                }
                false
            }
        };
        let Some(round) = &mut self.round else {
            return if found { SearchStep::Found } else { SearchStep::GoesOn };
        };
        round.unanswered.retain(|master| master != from);
        let is_over = round.unanswered.is_empty();
        if found || !is_over {
            self.round.take_if(|_| is_over);
            return if found { SearchStep::Found } else { SearchStep::GoesOn };
        }
        self.end_round()
    }

    /// What one says of itself; whether that makes it the one to ask (PS3).
    fn told(&mut self, from: &Address, answer: FindPrimaryAnswer) -> bool {
        self.learn(&answer.masters);
        let newer = answer.term > self.term;
        match answer.role {
            MasterRole::Primary if newer || (answer.term == self.term && self.is_searching()) => {
                self.find(from, answer.term)
            }
            MasterRole::Primary => {
                if let Some(round) = self.round.as_mut().filter(|_| self.trust != Trust::Trusted) {
                    let said = Some((answer.term, from.clone()));
                    round.second_best = said.max(round.second_best.take());
                }
                false
            }
            MasterRole::Shadow | MasterRole::Starting => {
                self.learn(std::slice::from_ref(&answer.primary));
                if let Some(round) = &mut self.round {
                    round.is_one_there = true;
                    round.is_one_starting |= answer.role == MasterRole::Starting;
                }
                let why = not_in_charge(from, answer.role);
                if self.trust == Trust::Doubted && *from == self.latest {
                    self.lose(why);
                } else if self.is_searching() {
                    self.why = Some(why);
                }
                false
            }
        }
    }

    /// That one is in charge. Whether that is news.
    fn find(&mut self, who: &Address, term: Term) -> bool {
        self.term = self.term.max(term);
        let is_news = self.is_searching() || *who != self.latest;
        if is_news {
            self.trust(who, Choice::Found);
        }
        is_news
    }

    fn end_round(&mut self) -> SearchStep {
        let round = self.round.take().expect("its last answer ends it");
        if self.trust == Trust::Trusted {
            return SearchStep::GoesOn;
        }
        if let Some((term, who)) = round.second_best {
            self.find(&who, term);
            return SearchStep::Found;
        }
        let most = if round.is_one_starting { ROUNDS_AT_FIRST } else { u32::MAX };
        self.fruitless = self.fruitless.saturating_add(1).min(most);
        SearchStep::RoundOver
    }

    /// How long to wait before the next round (PS2).
    #[must_use]
    pub fn pause(&self, random: &mut Random) -> Duration {
        let doublings = self.fruitless.saturating_sub(ROUNDS_AT_FIRST).min(10);
        let full = PAUSE.saturating_mul(1 << doublings).min(PAUSE_MAX);
        let nanos = u64::try_from(full.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos / 2 + random.below(nanos))
    }
}

fn not_in_charge(master: &Address, role: MasterRole) -> Failure {
    let why = match role {
        MasterRole::Starting => "is starting",
        MasterRole::Shadow | MasterRole::Primary => "is a shadow master",
    };
    let line = format!("no primary master is found: the one at {master} {why}");
    Failure::not_primary_master(line, None)
}

#[cfg(test)]
mod tests {
    use super::{PAUSE, PAUSE_MAX, PrimarySearch, ROUNDS_AT_FIRST, SearchStep};
    use crate::{ErrorCode, Failure, FindPrimaryAnswer, MasterRole};
    use cairn_types::{Address, Random, Term};

    fn at(name: &str) -> Address {
        Address::new(name)
    }

    fn search(names: &[&str]) -> PrimarySearch {
        PrimarySearch::new(names.iter().map(|name| at(name)).collect())
    }

    fn says(role: MasterRole, term: u64) -> Result<FindPrimaryAnswer, Failure> {
        Ok(FindPrimaryAnswer { role, term: Term::new(term), ..FindPrimaryAnswer::default() })
    }

    fn primary(term: u64) -> Result<FindPrimaryAnswer, Failure> {
        says(MasterRole::Primary, term)
    }

    fn gone() -> Failure {
        Failure::not_done(ErrorCode::Unreachable, "connection refused")
    }

    fn shadow_of(name: &str) -> Failure {
        Failure::not_primary_master("a shadow", Some(at(name)))
    }

    fn trusted(search: &PrimarySearch) -> Option<&str> {
        search.trusted().map(Address::as_str)
    }

    #[test]
    fn the_first_is_asked_without_a_search_and_one_that_is_gone_makes_all_be_asked() {
        let mut search = search(&["a", "b", "c"]);
        assert_eq!(trusted(&search), Some("a"));
        assert_eq!(search.begin_round(), [], "nobody is looked for");
        search.unreachable(&gone());
        assert_eq!(trusted(&search), None, "nobody else is asked anything");
        assert!(!search.is_to_pause(), "the first round is not waited for");
        assert_eq!(search.begin_round(), [at("a"), at("b"), at("c")]);
        assert_eq!(search.begin_round(), [], "PS2: one round at a time");
        assert_eq!(search.answered(&at("b"), says(MasterRole::Shadow, 4)), SearchStep::GoesOn);
        assert_eq!(search.answered(&at("c"), primary(4)), SearchStep::Found);
        assert_eq!((trusted(&search), search.number.0), (Some("c"), 1));
        assert_eq!(search.answered(&at("a"), Err(gone())), SearchStep::GoesOn);
        assert_eq!(trusted(&search), Some("c"));
    }

    #[test]
    fn one_that_is_about_to_be_in_charge_is_asked_again_soon_however_long_nobody_was() {
        let mut search = search(&["a"]);
        search.unreachable(&gone());
        for _ in 0..2 * ROUNDS_AT_FIRST {
            search.begin_round();
            assert_eq!(search.answered(&at("a"), Err(gone())), SearchStep::RoundOver);
        }
        let mut random = Random::new(1);
        assert!(search.pause(&mut random) > 2 * PAUSE, "nobody is there");
        search.begin_round();
        search.answered(&at("a"), says(MasterRole::Starting, 3));
        assert!(search.pause(&mut random) <= 2 * PAUSE, "PS2");
    }

    #[test]
    fn of_two_that_say_that_they_are_in_charge_the_one_of_the_higher_term_is_believed() {
        let mut search = search(&["old", "new"]);
        search.unreachable(&gone());
        search.begin_round();
        assert_eq!(search.answered(&at("old"), primary(4)), SearchStep::Found);
        assert_eq!(search.answered(&at("new"), primary(5)), SearchStep::Found, "PS3");
        assert_eq!(trusted(&search), Some("new"));
        search.heard();
        // One that still believes in an earlier term is taken only where nobody says better.
        search.unreachable(&gone());
        search.begin_round();
        assert_eq!(search.answered(&at("old"), primary(4)), SearchStep::GoesOn, "PS3");
        assert_eq!(search.answered(&at("new"), Err(gone())), SearchStep::Found);
        assert_eq!(
            trusted(&search),
            Some("old"),
            "better than none: it refuses what it may not do"
        );
    }

    #[test]
    fn two_that_name_each_other_are_not_asked_in_turn_without_a_pause() {
        let mut search = search(&["a", "b"]);
        assert!(search.refused(&shadow_of("b")), "the first hint is followed");
        assert_eq!(trusted(&search), Some("b"));
        assert!(!search.refused(&shadow_of("a")), "PS1");
        assert_eq!(trusted(&search), None);
        assert!(search.is_to_pause(), "PS2");
        search.begin_round();
        search.answered(&at("a"), primary(1));
        search.heard();
        assert!(search.refused(&shadow_of("b")), "one that was in charge may name the next");
    }

    #[test]
    fn a_master_that_nobody_named_is_known_once_another_has_told_of_it() {
        let mut search = search(&["a"]);
        assert!(search.is_alone());
        assert!(search.refused(&shadow_of("x")));
        assert_eq!((trusted(&search), search.is_alone()), (Some("x"), false));
        search.unreachable(&gone());
        let asked = search.begin_round();
        assert_eq!(asked, [at("a"), at("x")]);
        let masters = vec![at("a"), at("y"), Address::default()];
        let told = FindPrimaryAnswer { role: MasterRole::Shadow, masters, ..Default::default() };
        assert_eq!(search.answered(&at("a"), Ok(told)), SearchStep::GoesOn);
        assert_eq!(search.answered(&at("x"), Err(gone())), SearchStep::RoundOver);
        assert!(search.begin_round().contains(&at("y")));
    }

    #[test]
    fn one_that_is_silent_is_kept_until_another_says_that_it_is_in_charge() {
        let mut search = search(&["a", "b"]);
        search.heard();
        search.silent();
        assert_eq!(trusted(&search), Some("a"), "what waits there may yet be answered");
        search.begin_round();
        assert_eq!(search.answered(&at("b"), says(MasterRole::Shadow, 1)), SearchStep::GoesOn);
        assert_eq!(search.answered(&at("a"), Err(gone())), SearchStep::RoundOver);
        search.begin_round();
        assert_eq!(search.answered(&at("a"), primary(1)), SearchStep::Found);
        assert_eq!((search.number.0, search.is_searching()), (0, false), "it was only slow");
        assert_eq!(search.answered(&at("b"), primary(2)), SearchStep::Found);
        assert_eq!((trusted(&search), search.number.0), (Some("b"), 1));
        let mut alone = PrimarySearch::new(vec![at("a")]);
        alone.silent();
        assert!(!alone.is_searching(), "whom else?");
    }

    #[test]
    fn one_that_is_in_charge_and_refuses_all_the_same_is_asked_after_a_pause_only() {
        let mut search = search(&["a"]);
        let behind = Failure::not_primary_master("started from an old copy", None);
        assert!(!search.refused(&behind) && !search.is_to_pause());
        search.begin_round();
        assert_eq!(search.answered(&at("a"), primary(1)), SearchStep::Found);
        assert!(!search.refused(&behind) && search.is_to_pause(), "PS2");
    }

    #[test]
    fn an_older_build_that_is_alone_is_asked_though_it_does_not_know_the_question() {
        let unknown = || Err(Failure::refused(ErrorCode::Invalid, "no such rpc"));
        let mut alone = search(&["a"]);
        alone.unreachable(&gone());
        alone.begin_round();
        assert_eq!(alone.answered(&at("a"), unknown()), SearchStep::Found);
        let mut two = search(&["a", "b"]);
        two.unreachable(&gone());
        two.begin_round();
        assert_eq!(two.answered(&at("a"), unknown()), SearchStep::GoesOn);
        assert_eq!(two.answered(&at("b"), Err(gone())), SearchStep::RoundOver);
    }

    #[test]
    fn pauses_stay_short_for_an_election_and_grow_to_a_second() {
        let (mut search, mut random) = (search(&["a"]), Random::new(3));
        search.unreachable(&gone());
        for round in 0..ROUNDS_AT_FIRST + 10 {
            search.begin_round();
            assert_eq!(search.answered(&at("a"), Err(gone())), SearchStep::RoundOver);
            let pause = search.pause(&mut random);
            let full = if round < ROUNDS_AT_FIRST { PAUSE } else { PAUSE_MAX };
            assert!(pause >= PAUSE / 2 && pause < full * 3 / 2, "{round}: {pause:?}");
        }
        assert!(search.pause(&mut random) >= PAUSE_MAX / 2, "PS2");
        assert!(search.why().is_some_and(|why| why.message.contains("refused")));
    }
}
