//! Which master is asked, and when another one is looked for: one search for all that a client
//! asks, however much that is (A25).
//!
//! ```text
//!   a question ──► trusted? ──► asked there ──► answered, or the search is told why not
//!                     └ none ──► held ◄── found: all that is held, or waits elsewhere, is asked
//! ```
//! - PF1: however many questions there are, the masters are asked who is in charge once a round.
//! - PF2: one that is silent while something is asked of it is noticed, whatever may be waiting
//!   there with good reason: it is asked whether it is there, and so are the others.
//! - PF3: nobody is looked for once nothing is to be asked.

use crate::outbox::{Alarm, Outbox};
use crate::retry::is_silence;
use crate::timers::TimerKey;
use cairn_env::Answer;
use cairn_protocol::{
    ChoiceNumber, ErrorCode, Failure, FindPrimary, PrimarySearch, Rpc, SEARCH_ROUND_TIME_MAX,
    SearchStep,
};
use cairn_types::{Address, Random, Time};
use std::time::Duration;

/// A master that has answered before is noticed to be silent after so long, or twice that.
const IMPATIENCE: Duration = Duration::from_millis(400);
/// The same of one that has never answered: it may be an address where nobody is.
const IMPATIENCE_AT_FIRST: Duration = Duration::from_millis(100);

/// How often the one in charge is asked who the others are.
const LEARN_EVERY: Duration = Duration::from_secs(5);

/// What the watch may use.
#[derive(Debug)]
pub(crate) struct WatchContext<'a> {
    pub(crate) now: Time,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) random: &'a mut Random,
}

/// A question to the master that was trusted then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedMaster {
    pub(crate) choice: ChoiceNumber,
    pub(crate) sent: Time,
}

/// The masters, and how far they are trusted.
#[derive(Debug)]
pub(crate) struct PrimaryWatch {
    search: PrimarySearch,
    /// Questions under way at the one that was chosen so.
    asked_count: u64,
    counted: ChoiceNumber,
    /// When it was heard of last.
    heard: Time,
    /// When it is asked for the others again.
    learns_at: Time,
    /// Rings when it is time to look again, and was set then.
    alarm: Option<(TimerKey, Time)>,
    /// Since when nobody is known to be in charge, or there.
    gone_since: Option<Time>,
    /// Another one is trusted, or the same again, since this was looked at.
    is_found: bool,
}

impl PrimaryWatch {
    /// # Panics
    /// Without an address: a client of no cell can do nothing.
    pub(crate) fn new(masters: Vec<Address>) -> Self {
        let search = PrimarySearch::new(masters);
        let (heard, learns_at, alarm) = (Time::default(), Time::default(), None);
        let counted = search.choice();
        let gone_since = None;
        Self {
            search,
            asked_count: 0,
            counted,
            heard,
            learns_at,
            alarm,
            gone_since,
            is_found: false,
        }
    }

    /// Whom to ask; none while nobody is known to be in charge.
    pub(crate) fn trusted(&self) -> Option<&Address> {
        self.search.trusted()
    }

    /// Whom to tell what nobody needs to hear.
    pub(crate) fn latest(&self) -> &Address {
        self.search.latest()
    }

    /// Which choice that is: a question asked of an earlier one is asked anew.
    pub(crate) fn choice(&self) -> ChoiceNumber {
        self.search.choice()
    }

    /// Why nobody is asked, if that is so.
    pub(crate) fn why_held(&self) -> Option<&Failure> {
        self.search.why().filter(|_| self.search.is_searching())
    }

    /// Since when nobody is known to be in charge, or there.
    pub(crate) fn gone_since(&self) -> Option<Time> {
        self.gone_since
    }

    /// All but the one that answers as the one in charge.
    pub(crate) fn others(&self) -> Vec<Address> {
        self.search.others().cloned().collect()
    }

    /// Who asked wants no answer any more.
    pub(crate) fn gives_up(&mut self, asked: AskedMaster) {
        if asked.choice == self.choice() {
            assert!(self.asked_count > 0, "it was asked, and counted");
            self.asked_count -= 1;
        }
    }

    fn note_gone(&mut self, now: Time) {
        let since = self.gone_since.unwrap_or(now);
        self.gone_since = self.search.is_searching().then_some(since);
    }

    /// More masters are known, from the next round on. Whoever asked one while it was the only one
    /// has been waiting without a look at the others.
    pub(crate) fn learn(&mut self, cx: &mut WatchContext<'_>, masters: &[Address]) {
        self.search.learn(masters);
        if self.alarm.is_none() && self.asked_count > 0 && !self.search.is_searching() {
            self.watch(cx);
        }
    }

    /// Whether what is held, or waits at one that is trusted no more, is to be asked now.
    pub(crate) fn take_found(&mut self) -> bool {
        std::mem::take(&mut self.is_found)
    }

    /// A question goes to the one that is trusted.
    pub(crate) fn asks(&mut self, cx: &mut WatchContext<'_>) -> AskedMaster {
        assert!(self.trusted().is_some(), "PF1: what nobody can answer is held");
        self.asked_count += 1;
        if self.alarm.is_none() {
            self.watch(cx);
        }
        AskedMaster { choice: self.choice(), sent: cx.now }
    }

    /// A question is held until somebody is found.
    pub(crate) fn holds(&mut self, cx: &mut WatchContext<'_>) {
        if self.alarm.is_none() {
            self.search_now(cx);
        }
    }

    /// What came of a question, be it wanted or not.
    pub(crate) fn answered(
        &mut self,
        cx: &mut WatchContext<'_>,
        asked: AskedMaster,
        result: &Result<Answer, Failure>,
    ) {
        if asked.choice != self.choice() {
            // Of one that is trusted no more.
            return;
        }
        assert!(self.asked_count > 0, "an answer more than was asked");
        self.asked_count -= 1;
        let was_trusted = self.trusted().is_some();
        self.take_answer(cx, asked, (result, was_trusted));
        self.note_gone(cx.now);
    }

    fn take_answer(
        &mut self,
        cx: &mut WatchContext<'_>,
        asked: AskedMaster,
        (result, was_trusted): (&Result<Answer, Failure>, bool),
    ) {
        match result {
            Err(failure) if failure.code == ErrorCode::DeadlineExceeded => {
                // It may have had little time.
                let span = cx.now.since(asked.sent);
                if self.heard < asked.sent && span >= IMPATIENCE && !self.search.is_searching() {
                    self.search.silent();
                    self.search_now(cx);
                }
            }
            Err(failure) if is_silence(failure) => {
                self.search.unreachable(failure);
                if was_trusted {
                    self.search_now(cx);
                }
            }
            Err(failure) if failure.code == ErrorCode::NotPrimaryMaster => {
                if self.search.refused(failure) {
                    self.found(cx);
                } else if was_trusted {
                    self.search_now(cx);
                }
            }
            Ok(_) | Err(_) => {
                self.heard = cx.now;
                let asks = !self.search.is_heard() || cx.now >= self.learns_at;
                self.search.heard();
                if asks {
                    // The others are learnt while there is one to tell of them; they may change.
                    self.learns_at = cx.now + LEARN_EVERY;
                    self.ask_who(cx, self.search.latest().clone());
                }
            }
        }
    }

    /// A master says what it is, or does not.
    pub(crate) fn told(
        &mut self,
        cx: &mut WatchContext<'_>,
        from: &Address,
        result: Result<Answer, Failure>,
    ) {
        let answer = FindPrimary::answer(result.map(|answer| answer.response));
        if answer.is_ok() && from == self.search.latest() {
            self.heard = cx.now;
        }
        match self.search.answered(from, answer) {
            SearchStep::GoesOn => {
                if self.alarm.is_none() && self.asked_count > 0 && !self.search.is_searching() {
                    self.watch(cx);
                }
            }
            SearchStep::Found => self.found(cx),
            SearchStep::RoundOver => self.pause(cx),
        }
        self.note_gone(cx.now);
    }

    /// The alarm rings; `is_wanted` where something is to be asked (PF3).
    pub(crate) fn ring(&mut self, cx: &mut WatchContext<'_>, is_wanted: bool) {
        let (_, set) = self.alarm.take().expect("it was set, and is cancelled when it is replaced");
        if !is_wanted {
            return;
        }
        let is_silent = self.asked_count > 0 && self.heard < set;
        if !self.search.is_searching() && is_silent {
            self.search.silent();
            self.note_gone(cx.now);
        }
        if self.search.is_searching() {
            self.begin_round(cx);
        } else if self.asked_count > 0 {
            self.watch(cx);
        }
    }

    fn found(&mut self, cx: &mut WatchContext<'_>) {
        if self.counted != self.choice() {
            // What waits elsewhere is asked anew, and counted then.
            (self.counted, self.asked_count) = (self.choice(), 0);
        }
        (self.heard, self.is_found) = (cx.now, true);
        self.drop_alarm(cx);
        if self.asked_count > 0 {
            self.watch(cx);
        }
    }

    /// Looks after a while whether it has been heard of (PF2).
    fn watch(&mut self, cx: &mut WatchContext<'_>) {
        if self.search.is_alone() {
            return;
        }
        let is_known = self.search.is_heard();
        self.set_alarm(cx, if is_known { IMPATIENCE } else { IMPATIENCE_AT_FIRST });
    }

    /// Begins a round, at once or after a pause.
    fn search_now(&mut self, cx: &mut WatchContext<'_>) {
        if self.search.is_to_pause() {
            self.pause(cx);
        } else {
            self.drop_alarm(cx);
            self.begin_round(cx);
        }
    }

    fn pause(&mut self, cx: &mut WatchContext<'_>) {
        let pause = self.search.pause(cx.random);
        self.set_alarm(cx, pause);
    }

    fn begin_round(&mut self, cx: &mut WatchContext<'_>) {
        for master in self.search.begin_round() {
            self.ask_who(cx, master);
        }
    }

    fn ask_who(&self, cx: &mut WatchContext<'_>, master: Address) {
        cx.outbox.find_primary(master, cx.now + SEARCH_ROUND_TIME_MAX);
    }

    fn set_alarm(&mut self, cx: &mut WatchContext<'_>, after: Duration) {
        self.drop_alarm(cx);
        self.alarm = Some((cx.outbox.set_alarm(cx.now + after, Alarm::Masters), cx.now));
    }

    fn drop_alarm(&mut self, cx: &mut WatchContext<'_>) {
        if let Some((alarm, _)) = self.alarm.take() {
            cx.outbox.cancel_alarm(alarm);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::{Operation, Output};
    use crate::test_client::{FILE, TestClient, client, client_of, grant, is_done, result};
    use cairn_protocol::{
        Delete, DeleteAnswer, ErrorCode, Failure, Lease, Outcome, Request, Response, Stat,
        StatAnswer,
    };
    use cairn_types::Address;
    use std::time::Duration;

    const MILLI: Duration = Duration::from_millis(1);

    fn ask(request: impl Into<Request>) -> Operation {
        Operation::Ask(request.into())
    }

    fn deleted() -> Response {
        Response::Delete(DeleteAnswer { hidden: "h".to_owned() })
    }

    fn shadow(primary: Option<&str>) -> Failure {
        Failure::not_primary_master("a shadow", primary.map(Address::new))
    }

    /// A client whose first master has answered, and all that came of that.
    fn heard() -> TestClient {
        let mut client = client();
        client.start(ask(Stat::default()));
        client.answer(Response::Stat(StatAnswer::default()));
        assert_eq!(client.searched(), ["m1:1"], "it may know of masters that this client does not");
        client.find("m1:1", 1);
        client
    }

    #[test]
    fn what_waits_at_a_master_that_is_silent_is_asked_again_at_the_one_that_took_its_place() {
        let mut client = heard();
        let deleted_soon = client.start(ask(Delete::default()));
        client.pass(300 * MILLI);
        let looked_at = client.start(ask(Stat::default()));
        assert!(client.searched().is_empty());
        client.pass(600 * MILLI);
        assert_eq!(client.searched(), ["m1:1", "m2:1"], "PF2");
        let (first, look) = (client.call(), client.call());
        client.assert_asks_nobody();
        client.find("m2:1", 2);
        let (again, looks_again) = (client.call(), client.call());
        assert_eq!(again.to.as_str(), "m2:1");
        assert_eq!(
            (again.request.clone(), looks_again.request),
            (first.request.clone(), look.request)
        );
        client.tell(&first, Err(Failure::not_done(ErrorCode::NotFound, "too late")));
        assert!(!is_done(&deleted_soon) && !is_done(&looked_at));
        client.tell(&again, Ok(deleted()));
        assert_eq!(result(&deleted_soon), Ok(Output::Answered(deleted())));
    }

    #[test]
    fn a_first_master_that_is_silent_costs_a_fraction_of_a_second() {
        let mut client = client();
        client.start(ask(Stat::default()));
        client.pass(150 * MILLI);
        assert_eq!(client.searched(), ["m1:1", "m2:1"]);
        client.call();
        client.find("m2:1", 1);
        assert_eq!(client.call().to.as_str(), "m2:1");
    }

    #[test]
    fn who_waits_long_at_a_master_that_is_there_is_not_repeated() {
        let mut client = heard();
        let leased = client.start(ask(Lease { file: FILE, ..Lease::default() }));
        for _ in 0..8 {
            client.pass(500 * MILLI);
            client.find("m1:1", 1);
        }
        let lease = client.call();
        client.assert_asks_nobody();
        client.tell(&lease, Ok(grant(0, 1, 1, &[1])));
        assert!(is_done(&leased), "PF2");
    }

    #[test]
    fn a_thousand_questions_that_nobody_can_answer_are_one_question_who_is_in_charge() {
        let mut client = heard();
        client.start_all(vec![ask(Stat::default()); 500]);
        while client.has_calls() {
            client.fail(shadow(None));
        }
        client.start_all(vec![ask(Stat::default()); 500]);
        client.assert_asks_nobody();
        let mut rounds = 0;
        for _ in 0..100 {
            if !client.searched().is_empty() {
                assert_eq!(client.searched(), ["m1:1", "m2:1"], "PF1");
                client.find("nobody", 1);
                rounds += 1;
            }
            client.pass(10 * MILLI);
        }
        assert!((6..=21).contains(&rounds), "{rounds} rounds in a second");
        client.pass(200 * MILLI);
        client.find("m2:1", 2);
        for _ in 0..1000 {
            let call = client.call();
            assert_eq!(call.to.as_str(), "m2:1");
        }
        client.assert_asks_nobody();
    }

    #[test]
    fn a_master_that_names_another_costs_no_round_and_two_that_name_each_other_make_no_loop() {
        let mut client = client();
        client.start(ask(Stat::default()));
        client.fail(shadow(Some("m2:1")));
        let call = client.fail(shadow(Some("m1:1")));
        assert_eq!(call.to.as_str(), "m2:1");
        client.assert_asks_nobody();
        assert!(client.searched().is_empty(), "not before a pause");
        client.pass(200 * MILLI);
        client.find("m2:1", 1);
        client.pass(20 * MILLI);
        assert_eq!(client.call().to.as_str(), "m2:1");
    }

    #[test]
    fn masters_that_come_later_are_learnt_of_while_all_is_well() {
        let mut client = heard();
        let mut ask_once = |after: Duration| {
            client.pass(after);
            client.start(ask(Stat::default()));
            client.answer(Response::Stat(StatAnswer::default()));
            let searched = client.searched();
            client.find("m1:1", 1);
            searched
        };
        assert!(ask_once(Duration::from_secs(1)).is_empty(), "not with every word");
        assert_eq!(ask_once(Duration::from_secs(5)), ["m1:1"]);
        assert!(ask_once(Duration::from_secs(1)).is_empty());
    }

    #[test]
    fn a_master_that_a_name_leads_to_is_asked_who_is_in_charge_with_the_others() {
        let mut client = heard();
        let masters = ["m3:1", "m2:1"].map(Address::new).to_vec();
        assert!(is_done(&client.start(Operation::LearnMasters { masters })));
        client.start(ask(Stat::default()));
        client.fail(shadow(None));
        assert_eq!(client.searched(), ["m1:1", "m2:1", "m3:1"]);
        client.find("m3:1", 2);
        assert_eq!(client.call().to.as_str(), "m3:1");
        let told = client.start(Operation::TellMaster);
        assert_eq!(result(&told), Ok(Output::Master(Address::new("m3:1"))));
    }

    #[test]
    fn who_asked_a_silent_master_before_a_name_led_to_others_does_not_wait_for_it() {
        let mut client = client_of(&["m1:1"]);
        client.start(ask(Stat::default()));
        let masters = ["m1:1", "m2:1"].map(Address::new).to_vec();
        assert!(is_done(&client.start(Operation::LearnMasters { masters })));
        client.pass(150 * MILLI);
        assert_eq!(client.searched(), ["m1:1", "m2:1"], "PF2");
        client.call();
        client.find("m2:1", 1);
        assert_eq!(client.call().to.as_str(), "m2:1");
    }

    #[test]
    fn nobody_is_looked_for_once_nothing_is_asked() {
        let mut client = heard();
        let soon = (ask(Stat::default()), 500 * MILLI);
        let asked = client.start_all_within(&[soon]);
        client.fail(shadow(None));
        client.find("nobody", 1);
        client.pass(600 * MILLI);
        assert!(is_done(&asked[0]));
        client.find("nobody", 1);
        client.pass(Duration::from_secs(10));
        assert!(client.searched().is_empty(), "PF3");
        client.start(ask(Stat::default()));
        client.pass(200 * MILLI);
        client.find("m1:1", 1);
        assert_eq!(client.call().to.as_str(), "m1:1");
    }

    #[test]
    fn what_was_asked_of_a_silent_master_is_unknown_and_what_was_held_was_not_done() {
        let mut client = heard();
        let (asked, span) = (ask(Delete::default()), Duration::from_secs(2));
        let unknown = client.start_all_within(&[(asked.clone(), span)]);
        client.pass(900 * MILLI);
        client.find("m2:1", 2);
        let silent = client.call();
        assert_eq!((silent.to.as_str(), client.call().to.as_str()), ("m1:1", "m2:1"));
        client.pass(900 * MILLI);
        client.find("nobody", 2);
        client.pass(300 * MILLI);
        let failure = result(&unknown[0]).expect_err("nobody answered");
        assert_eq!(failure.outcome, Outcome::Unknown);
        let mut client = heard();
        client.start(ask(Stat::default()));
        client.fail(shadow(None));
        let held = client.start_all_within(&[(asked, span)]);
        client.find("nobody", 2);
        client.pass(Duration::from_secs(3));
        let failure = result(&held[0]).expect_err("nobody was asked");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::Unreachable, Outcome::NotDone));
    }
}
