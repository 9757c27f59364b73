//! When a master that is not in charge is asked, and what came of it (GFS §5.1.3).
//!
//! ```text
//!   a question ──► a change, or needs who is in charge? ──► never
//!         └──────► shadows first · or none in charge for a second ──► one after the other, until
//!                                                                     one answers
//! ```
//! - SR1: nobody gets a shadow's word unless he said that he takes it.
//! - SR2: whoever got one can hear of it: from whom, and how far behind it may have been.
//! - SR3: one that is silent is waited for a moment only while others are left, and then comes last
//!   for a while: a machine that stands still costs one question, and not each.

use crate::settings::ShadowReads;
use cairn_protocol::{AskShadowAnswer, Request, ShadowQuestion};
use cairn_types::{Address, Random, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// For so long one is looked for that is in charge: longer than a short break takes, shorter than
/// an election that goes wrong.
pub(crate) const SHADOW_AFTER: Duration = Duration::from_secs(1);
/// Between two tries at all of them.
pub(crate) const SHADOW_PAUSE: Duration = Duration::from_millis(300);
/// How long one of them may take, where others have not been asked yet and where all have (SR3).
const SHADOW_PATIENCE_AT_FIRST: Duration = Duration::from_millis(150);
pub(crate) const SHADOW_PATIENCE: Duration = Duration::from_secs(1);
/// For so long one that was silent comes last.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// What a client was told by masters that are not in charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowNotice {
    /// The one that answered last.
    pub master: Address,
    /// The furthest that any answer may have been behind; none where one of them did not know.
    pub behind: Option<Duration>,
}

/// Whether they may be asked, and what they said so far.
#[derive(Debug)]
pub(crate) struct ShadowChoice {
    reads: ShadowReads,
    notice: Option<ShadowNotice>,
    /// Since when each that did not answer was silent: none but those that are masters (SR3).
    silent: BTreeMap<Address, Time>,
}

impl ShadowChoice {
    pub(crate) fn new(reads: ShadowReads) -> Self {
        Self { reads, notice: None, silent: BTreeMap::new() }
    }

    /// The question as one of them is asked it, if it may be (SR1).
    pub(crate) fn question(&self, request: &Request) -> Option<ShadowQuestion> {
        if self.reads == ShadowReads::Never { None } else { ShadowQuestion::of(request) }
    }

    /// Whether it is time to; `gone_since`: nobody is known since then to be in charge.
    pub(crate) fn is_time(&self, now: Time, gone_since: Option<Time>) -> bool {
        match self.reads {
            ShadowReads::Never => false,
            ShadowReads::First => true,
            ShadowReads::WhenNoPrimary => {
                gone_since.is_some_and(|since| now.since(since) >= SHADOW_AFTER)
            }
        }
    }

    /// In which order they are asked, the last one first: not all clients the same one, and whoever
    /// was silent after all others (SR3).
    pub(crate) fn order(
        &mut self,
        now: Time,
        mut masters: Vec<Address>,
        random: &mut Random,
    ) -> Vec<Address> {
        if let Some(count) = u64::try_from(masters.len()).ok().filter(|count| *count > 1) {
            let first = usize::try_from(random.below(count)).unwrap_or_default();
            masters.rotate_left(first);
        }
        self.silent.retain(|it, since| now.since(*since) < SILENT_FOR && masters.contains(it));
        masters.sort_by_key(|master| !self.silent.contains_key(master));
        masters
    }

    /// How long the next one may take, where so many are left behind it (SR3).
    pub(crate) fn patience(&self, master: &Address, left: usize) -> Duration {
        let is_last = left == 0 || self.silent.contains_key(master);
        if is_last { SHADOW_PATIENCE } else { SHADOW_PATIENCE_AT_FIRST }
    }

    /// One of them did not answer in time, or cannot be reached.
    pub(crate) fn was_silent(&mut self, now: Time, master: &Address) {
        self.silent.insert(master.clone(), now);
    }

    /// One of them has answered (SR2).
    pub(crate) fn answered(&mut self, master: &Address, answer: &AskShadowAnswer) {
        self.silent.remove(master);
        let behind = answer.behind_ms.map(Duration::from_millis);
        let before = self.notice.take().map_or(Some(Duration::ZERO), |notice| notice.behind);
        let behind = before.zip(behind).map(|(before, now)| before.max(now));
        self.notice = Some(ShadowNotice { master: master.clone(), behind });
    }

    /// What they said so far.
    pub(crate) fn notice(&self) -> Option<&ShadowNotice> {
        self.notice.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::{SHADOW_PATIENCE, SILENT_FOR, ShadowNotice};
    use crate::operation::{Operation, Output};
    use crate::settings::ShadowReads;
    use crate::test_client::{
        Call, FILE, TestClient, bytes_read, chunk, client_that_takes, is_done, located, result,
    };
    use cairn_protocol::{
        AskShadow, AskShadowAnswer, CellInfo, CellInfoAnswer, Delete, ErrorCode, Failure,
        LocateAnswer, ReadAnswer, Request, Response, ShadowQuestion, ShadowWord, Stat, StatAnswer,
    };
    use cairn_types::{CellConfig, Entry};
    use std::time::Duration;

    const MILLI: Duration = Duration::from_millis(1);

    fn gone() -> Failure {
        Failure::not_done(ErrorCode::Unreachable, "connection refused")
    }

    fn stat() -> Operation {
        Operation::Ask(Stat::default().into())
    }

    fn word(word: impl Into<ShadowWord>, behind_ms: Option<u64>) -> Response {
        let word = Box::new(word.into());
        Response::AskShadow(AskShadowAnswer { word, behind_ms, ..AskShadowAnswer::default() })
    }

    fn question(call: &Call) -> &ShadowQuestion {
        let Request::AskShadow(AskShadow { question }) = &call.request else { panic!("{call:?}") };
        question
    }

    fn notice(client: &mut TestClient) -> Option<ShadowNotice> {
        let told = client.start(Operation::TellShadows);
        let Ok(Output::Shadows(notice)) = result(&told) else { panic!("it is told at once") };
        notice
    }

    /// Whose masters are there, and none is in charge; it has asked something.
    fn without_primary(reads: ShadowReads, ask: Operation) -> TestClient {
        let mut client = client_that_takes(reads);
        client.start(ask);
        client.fail(gone());
        client
    }

    #[test]
    fn who_waited_for_a_primary_for_a_second_gets_a_shadows_word_and_hears_how_old_it_may_be() {
        let mut client = client_that_takes(ShadowReads::WhenNoPrimary);
        let done = client.start(stat());
        client.fail(gone());
        client.pass(900 * MILLI);
        client.assert_asks_nobody();
        client.pass(200 * MILLI);
        let first = client.call();
        assert!(matches!(question(&first), ShadowQuestion::Stat(_)));
        client.tell(&first, Err(gone()));
        let second = client.call();
        assert_ne!(second.to, first.to, "each of them is asked");
        client.tell(&second, Ok(word(StatAnswer::default(), Some(1_200))));
        assert_eq!(result(&done), Ok(Output::Answered(Response::Stat(StatAnswer::default()))));
        let (master, behind) = (second.to.clone(), Some(1_200 * MILLI));
        assert_eq!(notice(&mut client), Some(ShadowNotice { master, behind }));
        // The next one need not wait, and once one is in charge it is asked.
        let next = client.start(stat());
        let missing = Failure::refused(ErrorCode::NotFound, "/a: no such file");
        let call = client.call();
        client.tell(&call, Ok(word(missing.clone(), None)));
        assert_eq!(result(&next), Err(missing));
        assert_eq!(notice(&mut client).map(|notice| notice.behind), Some(None), "SR2");
        client.start(stat());
        let asked = client.call();
        client.find("m2:1", 3);
        client.tell(&asked, Err(gone()));
        while client.has_calls() {
            let call = client.call();
            if call.to.as_str() == "m2:1" && matches!(call.request, Request::Stat(_)) {
                return;
            }
            client.tell(&call, Err(gone()));
        }
        panic!("the one in charge is asked");
    }

    #[test]
    fn a_shadow_that_is_silent_costs_a_moment_and_then_nothing_while_another_answers() {
        let mut client = client_that_takes(ShadowReads::First);
        let silence = || Failure::unknown(ErrorCode::DeadlineExceeded, "no answer");
        let mut silent = None;
        for _ in 0..20 {
            let done = client.start(stat());
            let mut call = client.call();
            if silent.is_none() {
                assert!(call.deadline.since(client.now) < 200 * MILLI, "{call:?}");
                client.tell(&call, Err(silence()));
                silent = Some(call.to.clone());
                call = client.call();
                let patience = call.deadline.since(client.now);
                assert_eq!(patience, SHADOW_PATIENCE, "nobody is left behind it");
            }
            assert_ne!(Some(&call.to), silent.as_ref(), "SR3");
            client.tell(&call, Ok(word(StatAnswer::default(), Some(1))));
            assert!(is_done(&done));
        }
        client.pass(SILENT_FOR);
        let asked_again = (0..20).any(|_| {
            client.start(stat());
            let call = client.call();
            client.tell(&call, Ok(word(StatAnswer::default(), Some(1))));
            Some(&call.to) == silent.as_ref()
        });
        assert!(asked_again, "it may be back");
    }

    #[test]
    fn a_primary_that_is_silent_is_not_waited_for() {
        let mut client = client_that_takes(ShadowReads::WhenNoPrimary);
        client.start(stat());
        client.call();
        client.pass(3_000 * MILLI);
        assert!(matches!(question(&client.call()), ShadowQuestion::Stat(_)));
    }

    #[test]
    fn no_shadow_is_asked_for_a_change_or_by_who_does_not_take_its_word() {
        let changes = Operation::Ask(Delete::default().into());
        for (reads, ask) in [(ShadowReads::Never, stat()), (ShadowReads::WhenNoPrimary, changes)] {
            let mut client = without_primary(reads, ask);
            client.pass(10_000 * MILLI);
            client.assert_asks_nobody();
        }
        let mut client = client_that_takes(ShadowReads::First);
        let done = client.start(Operation::Ask(Delete::default().into()));
        assert!(matches!(client.call().request, Request::Delete(_)), "SR1");
        assert!(!is_done(&done));
    }

    #[test]
    fn who_takes_shadows_first_asks_the_primary_where_none_answers() {
        let mut client = client_that_takes(ShadowReads::First);
        let done = client.start(stat());
        for _ in 0..2 {
            let call = client.call();
            question(&call);
            client.tell(&call, Err(Failure::not_done(ErrorCode::Invalid, "it is in charge")));
        }
        client.answer(Response::Stat(StatAnswer::default()));
        assert!(result(&done).is_ok());
        assert_eq!(notice(&mut client), None);
    }

    #[test]
    fn a_reader_says_that_a_shadow_sent_it_and_takes_the_end_that_it_is_told() {
        let mut client = client_that_takes(ShadowReads::First);
        client.start(Operation::Ask(CellInfo {}.into()));
        let call = client.call();
        let info =
            CellInfoAnswer { config: CellConfig::tiny().into(), ..CellInfoAnswer::default() };
        client.tell(&call, Ok(word(info, Some(5))));
        let at = || {
            let Response::Locate(answer) = located(1, vec![chunk(0, 5, &[1], None)]) else {
                panic!("it says where")
            };
            LocateAnswer { ..answer }
        };
        let done = client.start(Operation::Read { file: FILE, offset: 0, size: 9, fresh: false });
        for _ in 0..9 {
            if is_done(&done) {
                assert_eq!(bytes_read(&done), b"four");
                return;
            }
            let call = client.call();
            if let Request::Read(read) = &call.request {
                assert!(read.takes_behind);
                let got = if read.offset == 0 { &b"four"[..] } else { b"" };
                client.send_bytes(&call, got, ReadAnswer { readable: 4, ..ReadAnswer::default() });
            } else {
                client.tell(&call, Ok(word(at(), Some(5))));
            }
        }
        panic!("it does not end");
    }

    #[test]
    fn the_length_of_an_open_file_is_asked_of_who_has_its_last_chunk() {
        let mut client = client_that_takes(ShadowReads::First);
        client.start(Operation::Ask(CellInfo {}.into()));
        let call = client.call();
        let info =
            CellInfoAnswer { config: CellConfig::tiny().into(), ..CellInfoAnswer::default() };
        client.tell(&call, Ok(word(info, Some(5))));
        let done = client.start(stat());
        let entry = Entry { id: FILE, chunk_count: 1, ..Entry::default() };
        let mut stated = Some(StatAnswer { entry, last: Some(chunk(0, 5, &[1], None).into()) });
        for _ in 0..9 {
            if is_done(&done) {
                let Ok(Output::Answered(Response::Stat(stat))) = result(&done) else { panic!() };
                assert_eq!(stat.entry.length, 70);
                return;
            }
            let call = client.call();
            if let Request::Read(_) = &call.request {
                client.send_bytes(&call, &[], ReadAnswer { readable: 70, ..ReadAnswer::default() });
            } else if let Some(stat) = stated.take() {
                client.tell(&call, Ok(word(stat, Some(5))));
            } else {
                let Response::Locate(at) = located(1, vec![chunk(0, 5, &[1], None)]) else {
                    panic!("it says where")
                };
                client.tell(&call, Ok(word(at, Some(5))));
            }
        }
        panic!("it does not end");
    }
}
