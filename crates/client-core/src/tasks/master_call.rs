//! One question to the masters, asked until one answers (A25, R24).
//!
//! ```text
//!   Resting ──► Calling ──► over        Held: no master is known to be in charge
//!    ▲ ▲           │ │ a failure that may pass, silence, another master is found
//!    │ └───────────┘ ▼
//!    └──── found ─ Held
//! ```
//! - Q1: a retry is the same message: a namespace mutation keeps its number, so that it happens
//!   once (R24).
//! - Q2: an answer, good or bad, to a mutation is believed even after tries whose end is unknown,
//!   because the master knows the number again; but not that the number is too old, nor that it
//!   was not done: this try was not.
//! - Q3: who waits at a master that is trusted no more asks the next one; what comes of the first
//!   try is unknown, and the number tells that master of both (Q1).
//! - Q4: what has no number is taken anew each time: a refusal may come of the try before, as where
//!   that one has forgotten a server already, or where a stream of which it committed is gone.

use crate::masters::primary_watch::AskedMaster;
use crate::masters::shadow_choice::{SHADOW_AFTER, SHADOW_PATIENCE, SHADOW_PAUSE};
use crate::retry::{at_deadline, is_final, is_silence};
use crate::settings::MASTER_PATIENCE;
use crate::tasks::task_context::{Progress, TaskContext, TaskInput};
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_protocol::{
    AskShadow, Balance, BatchAnswer, BatchEntry, BatchResult, Drain, ErrorCode, Failure, Lease,
    Outcome, Request, Response, Rpc, WaitLength,
};
use cairn_types::{Address, ServerId, Time};
use std::task::Poll;
use std::time::Duration;

/// Which question was answered, and by whom.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnsweredBy {
    /// Its number.
    pub(crate) asked: u64,
    pub(crate) sent: Time,
    /// A master that is not in charge: the answer may be behind.
    pub(crate) is_shadow: bool,
    /// An earlier try may have been carried out, or may yet be.
    pub(crate) is_repeated: bool,
}

/// An answer of the kind that was asked for.
#[derive(Debug)]
pub(crate) struct MasterAnswer {
    pub(crate) response: Response,
    pub(crate) by: AnsweredBy,
}

/// How a master takes a change that it is asked for once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeated {
    /// It knows the number, and what came of it (R24).
    Known,
    /// As if nobody had asked before (Q4).
    Anew,
}

#[derive(Clone, Copy, Debug)]
enum MasterCallState {
    /// It has not begun, or rests after a failure.
    Resting,
    /// Nobody is known who could be asked.
    Held,
    Calling {
        call: EffectId,
        asked: AskedMaster,
    },
    /// One that is not in charge is asked.
    AskingShadow {
        call: EffectId,
        sent: Time,
    },
}

/// What a person is told of a question that nobody answered, out of what was met last and why no
/// master is found: what a master said goes before that one cannot be reached.
pub(crate) fn told_first<'a>(
    met: Option<&'a Failure>,
    why_held: Option<&'a Failure>,
) -> Option<&'a Failure> {
    let said = met.filter(|failure| failure.code == ErrorCode::NotPrimaryMaster);
    said.or(why_held).or(met)
}

/// The question.
#[derive(Debug)]
pub(crate) struct MasterCall {
    request: Request,
    state: MasterCallState,
    attempts: u32,
    /// Some try may have been carried out.
    unknown: bool,
    last_failure: Option<Failure>,
    /// Masters that are not in charge, yet to be asked in this try; none where no try was begun.
    shadows: Option<Vec<Address>>,
    /// The one that is asked.
    shadow: Address,
    /// It waits while somebody has the stream exclusively (R46).
    waits_for_lock: bool,
}

impl MasterCall {
    pub(crate) fn new(request: impl Into<Request>) -> Self {
        let (request, state) = (request.into(), MasterCallState::Resting);
        let (shadows, shadow) = (None, Address::default());
        Self {
            request,
            state,
            attempts: 0,
            unknown: false,
            last_failure: None,
            shadows,
            shadow,
            waits_for_lock: false,
        }
    }

    /// Whether it waits while somebody has the stream exclusively.
    pub(crate) fn waits_for_lock(self, waits_for_lock: bool) -> Self {
        Self { waits_for_lock, ..self }
    }

    /// The number of the question under way; none while it rests, or is held.
    pub(crate) fn asked(&self) -> Option<u64> {
        match self.state {
            MasterCallState::Resting | MasterCallState::Held => None,
            MasterCallState::Calling { call, .. } | MasterCallState::AskingShadow { call, .. } => {
                Some(call.0)
            }
        }
    }

    /// Whether it changes something, and how a master takes it when it is asked once more.
    fn change(&self) -> Option<Repeated> {
        match &self.request {
            Request::Drain(Drain { dry_run: true, .. })
            | Request::Balance(Balance { dry_run: true, .. }) => None,
            Request::MakeDirectory(_)
            | Request::Create(_)
            | Request::Rename(_)
            | Request::Delete(_)
            | Request::Undelete(_)
            | Request::SetPolicy(_)
            | Request::SetQuota(_)
            | Request::Snapshot(_)
            | Request::SetAttributes(_)
            | Request::OpenProducer(_)
            | Request::CloseProducer(_)
            | Request::ForgetProducer(_) => Some(Repeated::Known),
            Request::CommitBundles(_)
            | Request::SkipLost(_)
            | Request::Drain(_)
            | Request::Undrain(_)
            | Request::Balance(_)
            | Request::CancelJob(_)
            | Request::ChangeSettings(_)
            | Request::ForgetServer(_)
            | Request::LetGoOfLost(_)
            | Request::Recover(_)
            | Request::ChangeMasters(_) => Some(Repeated::Anew),
            Request::Batch(batch) if batch.entries.iter().any(BatchEntry::is_mutation) => {
                Some(Repeated::Known)
            }
            _ => None,
        }
    }

    /// Whether a change may come of requests already sent (K1).
    pub(crate) fn may_have_happened(&self) -> bool {
        self.change().is_some() && (self.unknown || self.asked().is_some())
    }

    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        // Whoever is asked to tell of more bytes does so when there are some: it is no trouble.
        let waits = matches!(self.request, Request::WaitLength(_)) && self.asked().is_some();
        self.last_failure.as_ref().filter(|_| !waits)
    }

    /// A lease may have to wait for an older one to end, and who waits for bytes is in no hurry.
    fn patience(&self, cx: &TaskContext<'_>) -> Duration {
        let lease_ms = cx.client.config.as_ref().map_or(0, |config| config.lease_ms);
        match self.request {
            Request::Lease(Lease { .. }) => MASTER_PATIENCE + Duration::from_millis(lease_ms),
            Request::WaitLength(WaitLength { patience_ms, .. }) => {
                MASTER_PATIENCE + Duration::from_millis(patience_ms)
            }
            _ => MASTER_PATIENCE,
        }
    }

    pub(crate) fn on(
        &mut self,
        cx: &mut TaskContext<'_>,
        input: TaskInput,
    ) -> Progress<MasterAnswer> {
        match (self.state, input) {
            (MasterCallState::Resting, TaskInput::Begin | TaskInput::Alarm)
            // Held until its deadline.
            | (MasterCallState::Held, TaskInput::Alarm) => self.call(cx),
            (MasterCallState::Held, TaskInput::MasterFound) => self.try_again(cx),
            (MasterCallState::Calling { call, asked }, TaskInput::MasterFound) => {
                if asked.choice == cx.client.masters.choice() {
                    return Poll::Pending;
                }
                // Q3.
                cx.client.outbox.give_up(call);
                self.unknown |= self.change().is_some();
                self.state = MasterCallState::Resting;
                self.attempts += 1;
                self.try_again(cx)
            }
            (MasterCallState::Calling { call, asked }, TaskInput::Alarm) => {
                self.waits_long(cx, call, asked)
            }
            (MasterCallState::AskingShadow { call, sent }, TaskInput::Answered(id, result)) => {
                assert_eq!(call, id, "a question has one call under way");
                self.state = MasterCallState::Resting;
                self.shadow_answered(cx, (id, sent), result)
            }
            // It asks when its rest is over; and who waits for a shadow's word gets that.
            (
                MasterCallState::Resting | MasterCallState::AskingShadow { .. },
                TaskInput::MasterFound,
            ) => Poll::Pending,
            (MasterCallState::Calling { call, asked }, TaskInput::Answered(id, result)) => {
                assert_eq!(call, id, "a question has one call under way");
                self.state = MasterCallState::Resting;
                match result {
                    Ok(answer) => {
                        let response = self.checked(answer.response)?;
                        let (asked, sent) = (id.0, asked.sent);
                        let is_repeated = self.unknown;
                        let by = AnsweredBy { asked, sent, is_shadow: false, is_repeated };
                        Poll::Ready(Ok(MasterAnswer { response, by }))
                    }
                    Err(failure) => self.failed(cx, failure),
                }
            }
            (state, input) => unreachable!("{state:?} is not moved by {input:?}"),
        }
    }

    fn call(&mut self, cx: &mut TaskContext<'_>) -> Progress<MasterAnswer> {
        assert!(!self.unknown || self.attempts > 0, "only a try can leave the end unknown");
        if cx.now() >= cx.deadline {
            let maybe = self.may_have_happened();
            let own = self.last_failure.take();
            let why = told_first(own.as_ref(), cx.client.masters.why_held()).cloned();
            return Poll::Ready(Err(at_deadline(why, maybe)));
        }
        if self.ask_a_shadow(cx) {
            return Poll::Pending;
        }
        let patience = self.patience(cx);
        self.state = match cx.call_master(&self.request, patience) {
            Some((call, asked)) => {
                self.watch_for_shadows(cx);
                MasterCallState::Calling { call, asked }
            }
            None => self.hold(cx),
        };
        Poll::Pending
    }

    /// Is moved when a master is found, when it is time to ask a shadow, or by the deadline.
    fn hold(&mut self, cx: &mut TaskContext<'_>) -> MasterCallState {
        cx.set_alarm(cx.deadline.since(cx.now()));
        self.watch_for_shadows(cx);
        MasterCallState::Held
    }

    /// Sets an alarm for when shadows may be asked.
    fn watch_for_shadows(&mut self, cx: &mut TaskContext<'_>) {
        if cx.client.shadows.question(&self.request).is_none() {
            return;
        }
        let was_tried = self.shadows.take().is_some();
        let gone = cx.client.masters.gone_since().map_or(Duration::ZERO, |it| cx.now().since(it));
        let pause = if was_tried { SHADOW_PAUSE } else { Duration::from_millis(10) };
        let after = SHADOW_AFTER.saturating_sub(gone).max(pause);
        cx.set_alarm(after.min(cx.deadline.since(cx.now())));
    }

    /// Asks the next master that is not in charge, if it is time for that and one is left.
    fn ask_a_shadow(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let Some(question) = cx.client.shadows.question(&self.request) else { return false };
        if !cx.client.shadows.is_time(cx.now(), cx.client.masters.gone_since()) {
            return false;
        }
        let left = self.shadows.get_or_insert_with(|| cx.client.shadows_to_ask());
        let Some(next) = left.pop() else { return false };
        let mut question = question;
        question.has_seen(cx.client.log_seen);
        let patience = match self.request {
            Request::WaitLength(WaitLength { patience_ms, .. }) => {
                SHADOW_PATIENCE + Duration::from_millis(patience_ms)
            }
            _ => cx.client.shadows.patience(&next, left.len()),
        };
        cx.drop_alarm();
        cx.seek_master();
        self.shadow = next;
        let server = (self.shadow.clone(), ServerId::default());
        let call = cx.call(server, AskShadow { question }, Bytes::new(), patience);
        self.state = MasterCallState::AskingShadow { call, sent: cx.now() };
        true
    }

    /// The word of a shadow, or why it gives none.
    fn shadow_answered(
        &mut self,
        cx: &mut TaskContext<'_>,
        (id, sent): (EffectId, Time),
        result: Result<Answer, Failure>,
    ) -> Progress<MasterAnswer> {
        let answer = match AskShadow::answer(result.map(|answer| answer.response)) {
            Ok(answer) => answer,
            Err(failure) => {
                if is_silence(&failure) {
                    let now = cx.now();
                    cx.client.shadows.was_silent(now, &self.shadow);
                }
                self.last_failure.get_or_insert(failure);
                return self.call(cx);
            }
        };
        cx.client.shadows.answered(&self.shadow, &answer);
        match Result::from(*answer.word) {
            Ok(response) => {
                let response = self.checked(response)?;
                let (asked, is_repeated) = (id.0, self.unknown);
                let by = AnsweredBy { asked, sent, is_shadow: true, is_repeated };
                Poll::Ready(Ok(MasterAnswer { response, by }))
            }
            Err(failure) if is_final(&failure) => Poll::Ready(Err(failure)),
            Err(failure) => {
                self.last_failure.get_or_insert(failure);
                self.call(cx)
            }
        }
    }

    /// The master that is asked says nothing yet. Where it is doubted for long enough, a shadow is
    /// asked instead.
    fn waits_long(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: EffectId,
        asked: AskedMaster,
    ) -> Progress<MasterAnswer> {
        if cx.client.shadows.is_time(cx.now(), cx.client.masters.gone_since()) {
            self.shadows = None;
            if self.ask_a_shadow(cx) {
                cx.client.outbox.give_up(call);
                cx.client.masters.gives_up(asked);
                return Poll::Pending;
            }
        }
        self.watch_for_shadows(cx);
        Poll::Pending
    }

    /// Asks who is found: at once, unless others were before.
    fn try_again(&mut self, cx: &mut TaskContext<'_>) -> Progress<MasterAnswer> {
        cx.drop_alarm();
        self.state = MasterCallState::Resting;
        if self.attempts <= 1 {
            return self.call(cx);
        }
        self.rest(cx, self.attempts - 1);
        Poll::Pending
    }

    fn rest(&self, cx: &mut TaskContext<'_>, attempts: u32) {
        let rest = cx.client.backoff(attempts);
        cx.set_alarm(rest.min(cx.deadline.since(cx.now())));
    }

    /// The answer, if it is one to this question: who answers otherwise is broken, and may have
    /// done anything.
    fn checked(&self, response: Response) -> Result<Response, Failure> {
        if response.kind() == self.request.kind() {
            return Ok(match response {
                Response::Batch(answer) => Response::Batch(self.with_outcomes(answer)),
                response => response,
            });
        }
        let (asked, answered) = (self.request.name(), response.name());
        let line = format!("a master answered {asked} as if it had been {answered}");
        Err(Failure::unknown(ErrorCode::Internal, line))
    }

    /// The same of the entries of a batch.
    fn with_outcomes(&self, mut answer: BatchAnswer) -> BatchAnswer {
        for result in &mut answer.results {
            if let BatchResult::Failed(failure) = result {
                failure.outcome = self.outcome_of(failure);
            }
        }
        answer
    }

    /// What a final failure says of the change. A refusal that the log remembers is the answer to
    /// all tries; that this one was not done says nothing of an earlier one (Q2, Q4).
    fn outcome_of(&self, failure: &Failure) -> Outcome {
        let Some(repeated) = self.change().filter(|_| self.unknown) else { return failure.outcome };
        let forgotten = failure.code == ErrorCode::TooOld || repeated == Repeated::Anew;
        let of_this_try = forgotten || failure.outcome == Outcome::NotDone;
        if of_this_try { Outcome::Unknown } else { failure.outcome }
    }

    fn failed(&mut self, cx: &mut TaskContext<'_>, failure: Failure) -> Progress<MasterAnswer> {
        let is_waited_for = failure.code == ErrorCode::StreamLocked && self.waits_for_lock;
        if is_final(&failure) && !is_waited_for {
            let outcome = self.outcome_of(&failure);
            return Poll::Ready(Err(Failure { outcome, ..failure }));
        }
        self.unknown |= failure.outcome == Outcome::Unknown;
        self.attempts += 1;
        let another = is_silence(&failure) || failure.code == ErrorCode::NotPrimaryMaster;
        self.last_failure = Some(failure);
        if !another {
            self.rest(cx, self.attempts);
        } else if cx.client.masters.trusted().is_some() {
            return self.try_again(cx);
        } else {
            self.state = self.hold(cx);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::{Operation, Output};
    use crate::test_client::{client, result};
    use cairn_protocol::{
        BATCH_COUNT_MAX, Balance, Batch, BatchAnswer, BatchEntry, BatchResult, CancelJob,
        ChangeMasters, ChangeSettings, Delete, DeleteAnswer, Drain, ErrorCode, Failure,
        ForgetServer, LetGoOfLost, Outcome, Recover, Request, Response, SkipLost, Stat, Undrain,
    };
    use std::time::Duration;

    fn unreachable(outcome: Outcome) -> Failure {
        Failure { outcome, ..Failure::not_done(ErrorCode::Unreachable, "connection refused") }
    }

    #[test]
    fn a_mutation_is_retried_at_the_next_master_with_the_number_it_had() {
        let mut client = client();
        let done = client.start(Operation::Ask(Delete::default().into()));
        let first = client.fail(unreachable(Outcome::Unknown));
        client.assert_asks_nobody();
        client.find("m2:1", 1);
        let second = client.call();
        assert_eq!((first.to.as_str(), second.to.as_str()), ("m1:1", "m2:1"));
        assert_eq!(first.request, second.request, "R24");
        let Request::Delete(delete) = &second.request else { panic!("{second:?}") };
        assert_eq!(delete.mutation.number.get(), 1);
        let answer = Response::Delete(DeleteAnswer { hidden: "h".to_owned() });
        client.tell(&second, Ok(answer.clone()));
        assert_eq!(result(&done), Ok(Output::Answered(answer)));
    }

    #[test]
    fn that_a_retry_was_not_done_says_nothing_of_an_earlier_try() {
        let full = || Failure::not_done(ErrorCode::DiskFull, "no room");
        for (first, outcome) in
            [(Outcome::Unknown, Outcome::Unknown), (Outcome::NotDone, Outcome::NotDone)]
        {
            let mut client = client();
            let done = client.start(Operation::Ask(Delete::default().into()));
            client.fail(unreachable(first));
            client.find("m2:1", 1);
            let second = client.call();
            client.tell(&second, Err(full()));
            let failure = result(&done).expect_err("refused");
            assert_eq!((failure.code, failure.outcome), (ErrorCode::DiskFull, outcome));
        }
    }

    /// What a person asks that has no number.
    fn unnumbered() -> [Request; 10] {
        [
            Drain::default().into(),
            Undrain::default().into(),
            Balance::default().into(),
            CancelJob::default().into(),
            ChangeSettings::default().into(),
            ForgetServer::default().into(),
            LetGoOfLost::default().into(),
            Recover::default().into(),
            SkipLost::default().into(),
            ChangeMasters::default().into(),
        ]
    }

    #[test]
    fn what_has_no_number_may_be_done_though_the_repeated_question_is_refused() {
        let gone = || Failure::refused(ErrorCode::NotFound, "there is none");
        for request in unnumbered() {
            for (first, outcome) in
                [(Outcome::Unknown, Outcome::Unknown), (Outcome::NotDone, Outcome::Refused)]
            {
                let mut client = client();
                let done = client.start(Operation::Ask(request.clone()));
                client.fail(unreachable(first));
                client.find("m2:1", 1);
                let second = client.call();
                client.tell(&second, Err(gone()));
                let failure = result(&done).expect_err("refused");
                assert_eq!(failure.outcome, outcome, "{}", request.name());
            }
            let mut client = client();
            let done = client.start(Operation::Ask(request.clone()));
            client.pass(Duration::from_secs(61));
            let failure = result(&done).expect_err("nobody answered");
            assert_eq!(failure.outcome, Outcome::Unknown, "{}", request.name());
        }
    }

    #[test]
    fn who_only_asks_what_would_be_done_has_changed_nothing() {
        let drain = Drain { dry_run: true, ..Drain::default() };
        let balance = Balance { dry_run: true, ..Balance::default() };
        for request in [Request::from(drain), balance.into()] {
            let mut client = client();
            let done = client.start(Operation::Ask(request));
            client.pass(Duration::from_secs(61));
            let failure = result(&done).expect_err("nobody answered");
            assert_eq!(failure.outcome, Outcome::NotDone);
        }
    }

    #[test]
    fn two_mutations_never_have_one_number() {
        let mut client = client();
        client.start(Operation::Ask(Delete::default().into()));
        client.start(Operation::Ask(Delete::default().into()));
        assert_ne!(client.call().request, client.call().request);
    }

    #[test]
    fn at_the_deadline_a_mutation_that_may_have_arrived_is_unknown() {
        let mut client = client();
        let done = client.start(Operation::Ask(Delete::default().into()));
        client.pass(Duration::from_secs(61));
        let failure = result(&done).expect_err("nobody answered");
        assert_eq!(
            (failure.code, failure.outcome),
            (ErrorCode::DeadlineExceeded, Outcome::Unknown)
        );
    }

    #[test]
    fn at_the_deadline_what_never_left_is_not_done_and_the_reason_is_told() {
        let mut client = client();
        let done = client.start(Operation::Ask(Delete::default().into()));
        let asked = client.start(Operation::Ask(Stat::default().into()));
        for _ in 0..6_100 {
            while client.has_calls() {
                client.fail(unreachable(Outcome::NotDone));
            }
            client.pass(Duration::from_millis(10));
        }
        for done in [done, asked] {
            let failure = result(&done).expect_err("no master");
            assert_eq!((failure.code, failure.outcome), (ErrorCode::Unreachable, Outcome::NotDone));
            assert!(failure.message.contains("connection refused"));
        }
    }

    #[test]
    fn an_answer_that_no_retry_can_better_is_told_at_once() {
        let mut client = client();
        let done = client.start(Operation::Ask(Stat::default().into()));
        client.fail(Failure::not_done(ErrorCode::NotFound, "/a: no such file"));
        assert_eq!(result(&done).map_err(|failure| failure.code), Err(ErrorCode::NotFound));
    }

    fn deletes(count: usize) -> Batch {
        Batch { entries: vec![BatchEntry::Delete(Delete::default()); count] }
    }

    #[test]
    fn each_entry_of_a_batch_has_a_number_of_its_own_and_keeps_it_when_the_batch_is_repeated() {
        let mut client = client();
        let mut batch = deletes(2);
        batch.entries.insert(1, BatchEntry::Stat(Stat::default()));
        let done = client.start(Operation::Ask(batch.into()));
        let first = client.fail(unreachable(Outcome::Unknown));
        client.find("m2:1", 1);
        let second = client.call();
        assert_eq!(first.request, second.request, "R24");
        let Request::Batch(batch) = second.request.clone() else { panic!("{second:?}") };
        let numbers: Vec<u64> = (batch.entries.into_iter())
            .filter_map(|mut entry| entry.mutation_mut().map(|name| name.number.get()))
            .collect();
        assert_eq!(numbers, [1, 2]);
        // What became of each entry is the caller's to look at; the batch itself was answered.
        let late = Failure::unknown(ErrorCode::TooOld, "older than what is remembered");
        let results = vec![BatchResult::Failed(late), BatchResult::default()];
        let answer = Response::Batch(BatchAnswer { results });
        client.tell(&second, Ok(answer.clone()));
        assert_eq!(result(&done), Ok(Output::Answered(answer)));
    }

    #[test]
    fn a_batch_without_an_answer_is_unknown_if_it_changes_a_name() {
        let mut client = client();
        let changes = client.start(Operation::Ask(deletes(1).into()));
        let looks = Batch { entries: vec![BatchEntry::Stat(Stat::default())] };
        let looks = client.start(Operation::Ask(looks.into()));
        client.pass(Duration::from_secs(61));
        let outcome = |done| result(done).map_err(|failure| failure.outcome);
        assert_eq!(outcome(&changes), Err(Outcome::Unknown));
        assert_eq!(outcome(&looks), Err(Outcome::NotDone));
    }

    #[test]
    fn an_oversized_batch_asks_nobody() {
        let mut client = client();
        let done = client.start(Operation::Ask(deletes(BATCH_COUNT_MAX + 1).into()));
        client.assert_asks_nobody();
        let failure = result(&done).expect_err("too large");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::Invalid, Outcome::Refused));
    }
}
