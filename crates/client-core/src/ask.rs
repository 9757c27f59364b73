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
use cairn_protocol::{ErrorCode, Failure, Lease, Outcome, Request, Response};
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
        matches!(
            self.request,
            Request::MakeDirectory(_)
                | Request::Create(_)
                | Request::Rename(_)
                | Request::Delete(_)
        )
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
