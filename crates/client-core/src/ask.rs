//! One question to the masters, asked until one answers (A25, R24).
//!
//! - Q1: a retry is the same message: a namespace mutation keeps its number, so that it happens
//!   once (R24).
//! - Q2: an answer, good or bad, to a mutation is believed even after tries whose end is unknown,
//!   because the master knows the number again; but not that the number is too old.

use crate::context::Context;
use crate::retry::{is_final, is_silence};
use crate::settings::MASTER_PATIENCE;
use crate::task::{Input, Me, Progress};
use cairn_env::EffectId;
use cairn_protocol::{BatchEntry, ErrorCode, Failure, Lease, Outcome, Request, Response};
use std::time::Duration;

/// The answer, and the number of the question that it belongs to.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) response: Response,
    pub(crate) asked: u64,
    pub(crate) sent: cairn_types::Time,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Ask {
    request: Request,
    attempts: u32,
    outstanding: Option<(EffectId, cairn_types::Time)>,
    unknown: bool,
    last: Option<Failure>,
}

impl Ask {
    pub(crate) fn new(request: Request) -> Self {
        Self { request, attempts: 0, outstanding: None, unknown: false, last: None }
    }

    /// The number of the question under way; none while it rests.
    pub(crate) fn asked(&self) -> Option<u64> {
        self.outstanding.map(|(id, _)| id.0)
    }

    fn is_mutation(&self) -> bool {
        match &self.request {
            Request::MakeDirectory(_)
            | Request::Create(_)
            | Request::Rename(_)
            | Request::Delete(_) => true,
            Request::Batch(batch) => batch.entries.iter().any(BatchEntry::is_mutation),
            _ => false,
        }
    }

    pub(crate) fn may_have_happened(&self) -> bool {
        self.is_mutation() && (self.unknown || self.outstanding.is_some())
    }

    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        self.last.as_ref()
    }

    /// A lease may have to wait for an older one to end.
    fn patience(&self, cx: &Context) -> Duration {
        let lease_ms = cx.config.as_ref().map_or(0, |config| config.lease_ms);
        match self.request {
            Request::Lease(Lease { .. }) => MASTER_PATIENCE + Duration::from_millis(lease_ms),
            _ => MASTER_PATIENCE,
        }
    }

    pub(crate) fn on(&mut self, cx: &mut Context, me: Me, input: Input) -> Progress<Asked> {
        match input {
            Input::Passed => Progress::Pending,
            Input::Begin | Input::Alarm | Input::Wanted(_) => {
                if self.outstanding.is_none() {
                    if cx.now >= me.deadline {
                        let maybe = self.may_have_happened();
                        let told = crate::retry::at_deadline(self.last.take(), maybe);
                        return Progress::Over(Err(told));
                    }
                    let patience = self.patience(cx);
                    let id = cx.call_master(me, self.request.clone(), patience);
                    self.outstanding = Some((id, cx.now));
                }
                Progress::Pending
            }
            Input::Answered(id, result) => {
                let Some((_, sent)) = self.outstanding.take_if(|(under_way, _)| *under_way == id)
                else {
                    return Progress::Pending;
                };
                match result {
                    Ok(answer) => {
                        let (response, asked) = (answer.response, id.0);
                        Progress::Over(Ok(Asked { response, asked, sent }))
                    }
                    Err(failure) => self.failed(cx, me, failure),
                }
            }
        }
    }

    fn failed(&mut self, cx: &mut Context, me: Me, failure: Failure) -> Progress<Asked> {
        if is_final(&failure) {
            let forgotten = failure.code == ErrorCode::TooOld && self.unknown;
            let outcome = if forgotten { Outcome::Unknown } else { failure.outcome };
            return Progress::Over(Err(Failure { outcome, ..failure }));
        }
        self.unknown |= failure.outcome == Outcome::Unknown;
        if is_silence(&failure) || failure.code == ErrorCode::NotPrimaryMaster {
            cx.next_master();
        }
        self.last = Some(failure);
        self.attempts += 1;
        let rest = cx.rest(self.attempts);
        cx.alarm(me, rest.min(me.deadline.since(cx.now)));
        Progress::Pending
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::{Operation, Output};
    use crate::test_client::{client, result};
    use cairn_protocol::{
        BATCH_COUNT_MAX, Batch, BatchAnswer, BatchEntry, BatchResult, Delete, DeleteAnswer,
        ErrorCode, Failure, Outcome, Request, Response, Stat,
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
        client.pass(Duration::from_millis(20));
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
        client.pass(Duration::from_millis(20));
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
