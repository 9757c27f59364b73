//! Forwarding to the secondaries, and what their answers allow (GFS §3.1, steps 5 to 7).
//!
//! - F1: one batch at a time to each secondary; what gathers meanwhile goes as the next.
//! - F2: the acknowledged length never passes a mutation that one replica of the set lacks (R14).

use crate::duplicate_filter::Served;
use crate::outbox::Purpose;
use crate::primary::{BATCH_COUNT_MAX, Closing, FORWARD_SUM_COUNT_MAX, Stage};
use crate::replica::{Context, Replica};
use cairn_env::Caller;
use cairn_protocol::{
    Acknowledged, AppendAnswer, ErrorCode, Failure, Forward, Response, SecondaryFailed,
    SecondaryFailedAnswer, WriteAnswer,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkVersion, LeaseId, SerialNumber, ServerId, Time};
use std::time::Duration;

use crate::mutation_queue::{Kind, Logged};

/// How long a replica may take before it counts as failed.
pub(crate) fn replica_deadline(cx: &Context<'_>) -> Time {
    cx.now + Duration::from_millis(cx.config.silent_ms)
}

/// As many of `lacking` as one message takes; the first in any case.
fn of_one_message<'l>(lacking: impl Iterator<Item = &'l Logged>) -> Vec<&'l Logged> {
    let mut sum_count = 0;
    lacking
        .take(BATCH_COUNT_MAX)
        .take_while(|logged| {
            let first = sum_count == 0;
            sum_count += logged.forwarded.checksums.0.len();
            first || sum_count <= FORWARD_SUM_COUNT_MAX
        })
        .collect()
}

impl Replica {
    /// Acknowledges what no replica lacks, and sends each secondary what it lacks, so that a
    /// batch carries the newest mark.
    pub(crate) fn forward_all(&mut self, cx: &mut Context<'_>) {
        self.acknowledge(cx);
        let Some(primary) = self.primary.as_mut() else { return };
        let level = matches!(primary.stage, Stage::Levelling(_));
        for secondary in &mut primary.secondaries {
            // The bug: whatever comes meanwhile goes out at once, by itself (F1).
            let hasty = secondary.outstanding && broken(Rule::R13);
            let busy = secondary.outstanding && !hasty;
            if busy || secondary.failed || primary.stage == Stage::Shrinking {
                continue;
            }
            let sent = if hasty { primary.log.len().saturating_sub(1) } else { 0 };
            let lacking = primary.log.iter().skip(sent);
            let lacking = lacking.filter(|l| l.forwarded.serial > secondary.applied);
            let batch = of_one_message(lacking);
            if batch.is_empty() {
                continue;
            }
            let forward = Forward {
                handle: self.handle,
                version: self.version,
                lease: primary.lease,
                sync: batch.iter().any(|logged| logged.sync),
                mutations: batch.into_iter().map(|logged| logged.forwarded.clone()).collect(),
                acknowledged: self.acknowledged,
                acknowledged_serial: self.acknowledged_serial,
                level,
            };
            secondary.outstanding = true;
            let purpose = Purpose::Forwarded {
                handle: self.handle,
                version: self.version,
                lease: primary.lease,
                secondary: secondary.at.server,
            };
            let (to, server) = (secondary.at.address.clone(), secondary.at.server);
            let deadline = cx.now + Duration::from_millis(cx.config.silent_ms);
            cx.out.call(purpose, to, server, forward, deadline);
        }
    }

    /// Answers every mutation, in order, that all replicas have applied.
    fn acknowledge(&mut self, cx: &mut Context<'_>) {
        let Some(primary) = self.primary.as_mut() else { return };
        if !primary.is_live(cx.now) {
            self.drop_lease(cx, "the lease has run out");
            return;
        }
        let lowest = primary
            .secondaries
            .iter()
            .filter(|secondary| !(secondary.failed && broken(Rule::R14)))
            .map(|secondary| secondary.applied)
            .min();
        let mut closed = false;
        while let Some(first) = primary.log.front() {
            if lowest.is_some_and(|lowest| lowest < first.forwarded.serial) {
                break;
            }
            let Some(done) = primary.log.pop_front() else { break };
            closed |= done.forwarded.close;
            self.acknowledged = self.acknowledged.max(done.end().min(self.length));
            if !done.forwarded.close {
                self.acknowledged_serial = done.forwarded.serial;
            }
            if let Some(push) = done.forwarded.push {
                let served =
                    Served { serial: done.forwarded.serial, offset: done.forwarded.offset };
                self.repeats.remember(push, served);
                for from in done.from {
                    answer_mutation(cx, from, done.kind, served);
                }
            }
        }
        if closed {
            self.report_closed(cx);
        }
        self.finish_levelling(cx);
        self.finish_draining(cx);
    }

    /// A secondary has, or has not, applied its batch.
    pub(crate) fn on_forwarded(
        &mut self,
        cx: &mut Context<'_>,
        (lease, sent_under): (LeaseId, ChunkVersion),
        server: ServerId,
        result: Result<SerialNumber, Failure>,
    ) {
        let version = self.version;
        let Some(primary) = self.primary.as_mut().filter(|primary| primary.lease == lease) else {
            return;
        };
        let stage = primary.stage;
        let Some(secondary) = primary.secondaries.iter_mut().find(|s| s.at.server == server) else {
            return;
        };
        // An answer to what an older version sent frees no place: the set was asked anew since.
        if sent_under == version {
            secondary.outstanding = false;
        }
        match (result, stage) {
            (Ok(serial), _) => secondary.applied = secondary.applied.max(serial),
            // The set is being changed, or was: the old version is refused for a good reason.
            (Err(failure), Stage::Shrinking) if failure.code == ErrorCode::StaleVersion => {}
            (Err(_), Stage::Serving) if sent_under < version => {}
            (Err(failure), Stage::Levelling(from)) => {
                primary.stage = Stage::Serving;
                let mut told = Failure::not_done(ErrorCode::ReplicaFailed, failure.message);
                told.server = server;
                cx.out.refuse(from, told);
                self.drop_lease(cx, "a replica could not be levelled");
                return;
            }
            (Err(_), _) => self.secondary_failed(cx, server),
        }
        self.forward_all(cx);
        self.pump(cx);
    }

    /// A secondary cannot apply, or cannot sync: the set has to go on without it (R14).
    pub(crate) fn secondary_failed(&mut self, cx: &mut Context<'_>, server: ServerId) {
        let version = self.version;
        let Some(primary) = self.primary.as_mut() else { return };
        let Some(secondary) = primary.secondaries.iter_mut().find(|s| s.at.server == server) else {
            return;
        };
        secondary.failed = true;
        if primary.stage == Stage::Serving {
            primary.stage = Stage::Shrinking;
            let lease = primary.lease;
            let request = shrink_request(self, lease, version);
            self.ask_to_shrink(cx, request);
        }
    }

    /// Asks the master for a set without those that failed (R14).
    fn ask_to_shrink(&self, cx: &mut Context<'_>, request: SecondaryFailed) {
        let purpose = Purpose::Shrunk { handle: self.handle, lease: request.lease };
        let deadline = replica_deadline(cx) + Duration::from_millis(cx.config.silent_ms);
        cx.out.call(purpose, cx.master.clone(), ServerId::default(), request, deadline);
    }

    /// The master's word on the smaller set. Without it the lease ends: whoever waits asks again.
    pub(crate) fn on_shrunk(
        &mut self,
        cx: &mut Context<'_>,
        lease: LeaseId,
        result: Result<SecondaryFailedAnswer, Failure>,
    ) {
        let Some(primary) = self.primary.as_mut().filter(|primary| primary.lease == lease) else {
            return;
        };
        match result {
            Ok(answer) if answer.version == self.version => {
                let left = |at: ServerId| answer.secondaries.iter().any(|left| left.server == at);
                primary.secondaries.retain(|secondary| left(secondary.at.server));
                for secondary in &mut primary.secondaries {
                    secondary.failed = false;
                    secondary.outstanding = false;
                }
                primary.stage = Stage::Serving;
                self.forward_all(cx);
                self.pump(cx);
            }
            Ok(_) => self.drop_lease(cx, "the set was changed by another raise"),
            Err(failure) => self.drop_lease(cx, &failure.message),
        }
    }

    /// Tells secondaries that have heard nothing since how far readers may go (R17).
    pub(crate) fn tell_acknowledged(&mut self, cx: &mut Context<'_>) {
        let (handle, version, mark) = (self.handle, self.version, self.mark());
        let Some(primary) = self.primary.as_mut() else { return };
        let idle = primary.stage == Stage::Serving && primary.log.is_empty();
        if !idle || primary.told == mark {
            return;
        }
        primary.told = mark;
        let notice = Acknowledged {
            handle,
            version,
            lease: primary.lease,
            acknowledged: mark.length,
            acknowledged_serial: mark.serial,
        };
        let deadline = replica_deadline(cx);
        for secondary in &primary.secondaries {
            let (to, server) = (secondary.at.address.clone(), secondary.at.server);
            cx.out.call(Purpose::Nobody, to, server, notice.clone(), deadline);
        }
        self.settle(cx);
    }

    /// Whether the close mark is everywhere, so that the master may be told.
    fn report_closed(&mut self, cx: &mut Context<'_>) {
        if let Some(primary) = self.primary.as_mut()
            && primary.closing == Some(Closing::Marking)
        {
            primary.closing = Some(Closing::Reported);
            self.tell_closed(cx);
        }
    }
}

fn shrink_request(replica: &Replica, lease: LeaseId, version: ChunkVersion) -> SecondaryFailed {
    let secondaries = replica.primary.iter().flat_map(|primary| &primary.secondaries);
    let failed = secondaries.filter(|s| s.failed).map(|s| s.at.server).collect();
    SecondaryFailed { handle: replica.handle, version, lease, failed }
}

pub(crate) fn answer_mutation(cx: &mut Context<'_>, to: Caller, kind: Kind, served: Served) {
    let Served { serial, offset } = served;
    cx.out.reply(
        to,
        match kind {
            Kind::Write { .. } => Response::Write(WriteAnswer { serial }),
            Kind::Append => Response::Append(AppendAnswer { offset, serial }),
        },
    );
}

#[cfg(test)]
mod tests {
    use super::of_one_message;
    use crate::mutation_queue::{Kind, Logged};
    use crate::primary::FORWARD_SUM_COUNT_MAX;
    use cairn_protocol::Forwarded;
    use cairn_types::BlockChecksums;

    #[test]
    fn a_forward_takes_what_fits_into_a_message_and_at_least_one_mutation() {
        let of = |sum_count: usize| Logged {
            forwarded: Forwarded {
                checksums: BlockChecksums(vec![0; sum_count]),
                ..Forwarded::default()
            },
            from: vec![],
            kind: Kind::Append,
            sync: false,
        };
        let counts = |all: &[Logged]| of_one_message(all.iter()).len();
        assert_eq!(counts(&[]), 0);
        assert_eq!(counts(&[of(FORWARD_SUM_COUNT_MAX + 1), of(1)]), 1);
        assert_eq!(counts(&[of(1), of(FORWARD_SUM_COUNT_MAX), of(1)]), 1);
        assert_eq!(counts(&[of(1), of(FORWARD_SUM_COUNT_MAX - 2), of(1), of(1)]), 3);
    }
}
