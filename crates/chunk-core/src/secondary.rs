//! A secondary's part: apply what the primary forwards, in its order, once (GFS §3.1).
//!
//! - S1: serial number n is applied only after n − 1; what was applied before is not applied
//!   again, so a primary may send a batch twice (R13).
//! - S2: the levelling that opens a lease sets the order anew (R16).

use crate::outbox::{JOURNAL_LANE, Purpose, lane_of};
use crate::replica::{Busy, Context, Mark, Replica};
use cairn_env::{ApplyMutation, Caller, ChunkJob, JournalEntry};
use cairn_protocol::{
    Acknowledged, AcknowledgedAnswer, ErrorCode, Failure, Forward, ForwardAnswer, Forwarded,
    Response,
};
use cairn_types::SerialNumber;
use cairn_types::planted::{Rule, broken};

impl Replica {
    pub(crate) fn start_forward(&mut self, cx: &mut Context<'_>, from: Caller, forward: Forward) {
        if let Err(failure) = self.check_forward(&forward) {
            cx.out.refuse(from, failure);
            return;
        }
        if forward.level {
            self.drop_lease(cx, "another replica is the primary now");
            self.followed = Some(forward.lease);
            self.become_current(cx);
        }
        let serial = self.serial;
        let fresh = forward.mutations.iter().filter(|m| forward.level || m.serial > serial);
        let (marks, bytes): (Vec<&Forwarded>, Vec<&Forwarded>) = fresh.partition(|m| m.close);
        let close = marks.first().map(|mark| mark.serial);
        let mutations: Vec<ApplyMutation> = bytes.into_iter().map(to_apply).collect();
        let acknowledged =
            Mark { length: forward.acknowledged, serial: forward.acknowledged_serial };
        match (mutations.is_empty(), close) {
            (true, None) => {
                self.learn_acknowledged(acknowledged);
                answer(cx, from, self.serial);
            }
            (true, Some(_)) => {
                self.busy = Some(Busy::Secondary { from, close, acknowledged });
                self.journal_close_mark(cx);
            }
            (false, _) => {
                self.busy = Some(Busy::Secondary { from, close, acknowledged });
                self.learn_acknowledged(acknowledged);
                let job = ChunkJob::Apply {
                    handle: self.handle,
                    version: self.version,
                    mutations,
                    acknowledged: self.acknowledged,
                    acknowledged_serial: self.acknowledged_serial,
                    sync: forward.sync,
                };
                cx.out.disk(Purpose::Applied(self.handle), lane_of(self.handle), job);
            }
        }
    }

    fn check_forward(&self, forward: &Forward) -> Result<(), Failure> {
        self.check_version(forward.version)?;
        if !forward.level && self.followed != Some(forward.lease) && !broken(Rule::R12) {
            return Err(Failure::not_done(
                ErrorCode::NotPrimary,
                format!("chunk {}: another lease is followed here", self.handle.short()),
            ));
        }
        let mut next = self.serial;
        for mutation in &forward.mutations {
            if mutation.serial > next {
                if mutation.serial != next.next() && !forward.level && !broken(Rule::R13) {
                    return Err(Failure::not_done(
                        ErrorCode::OutOfOrder,
                        format!("serial number {} does not follow {next}", mutation.serial),
                    ));
                }
                next = mutation.serial;
            }
        }
        Ok(())
    }

    /// The bytes of the batch are stored; the close mark, if any, comes after them (R18).
    pub(crate) fn on_secondary_applied(
        &mut self,
        cx: &mut Context<'_>,
        from: Caller,
        close: Option<SerialNumber>,
        acknowledged: Mark,
    ) {
        if close.is_some() {
            self.busy = Some(Busy::Secondary { from, close, acknowledged });
            self.journal_close_mark(cx);
            return;
        }
        self.learn_acknowledged(acknowledged);
        answer(cx, from, self.serial);
    }

    pub(crate) fn on_close_mark_of_secondary(
        &mut self,
        cx: &mut Context<'_>,
        from: Caller,
        close: Option<SerialNumber>,
        acknowledged: Mark,
    ) {
        self.closed = true;
        self.learn_acknowledged(acknowledged);
        // The mark stands in the journal and not in the head, so it moves no serial number there:
        // what a restart would forget must not be reported before it.
        answer(cx, from, close.unwrap_or(self.serial));
    }

    /// Makes the close mark durable under the present version.
    pub(crate) fn journal_close_mark(&mut self, cx: &mut Context<'_>) {
        let entry = JournalEntry::Raise {
            handle: self.handle,
            version: self.version,
            create: false,
            close: true,
        };
        let job = ChunkJob::Journal(vec![entry]);
        cx.out.disk(Purpose::Journaled(self.handle), JOURNAL_LANE, job);
    }

    /// The primary's word, when it has nothing else to say (R17).
    pub(crate) fn on_acknowledged(
        &mut self,
        cx: &mut Context<'_>,
        from: Caller,
        notice: &Acknowledged,
    ) {
        let known =
            self.check_version(notice.version).is_ok() && self.followed == Some(notice.lease);
        let mark = Mark { length: notice.acknowledged, serial: notice.acknowledged_serial };
        if known && self.learn_acknowledged(mark) {
            self.settle(cx);
        }
        cx.out.reply(from, Response::Acknowledged(AcknowledgedAnswer {}));
    }
}

fn answer(cx: &mut Context<'_>, to: Caller, serial: SerialNumber) {
    cx.out.reply(to, Response::Forward(ForwardAnswer { serial }));
}

/// The disk's form of a forwarded mutation.
pub(crate) fn to_apply(forwarded: &Forwarded) -> ApplyMutation {
    ApplyMutation {
        serial: forwarded.serial,
        offset: forwarded.offset,
        size: forwarded.size,
        push: forwarded.push,
        checksums: forwarded.checksums.clone(),
    }
}
