//! Answers of chunkservers and applied records: what each tells, and whom it goes to.

use super::Scheduler;
use super::in_flight::{AwaitedCall, AwaitedRecord};
use super::raised::RaiseLearner;
use super::told_acts::{doubt_revoked, tell_given_back};
use crate::applied::{Applied, EntryMoved};
use crate::jobs::events::JobEvent;
use crate::jobs::length::{self, LengthRequest};
use crate::jobs::revoke::leases_below;
use crate::outbox::ProposalId;
use crate::step::ChunkStep;
use cairn_env::EffectId;
use cairn_protocol::{
    AssembleChunk, ChunkLength, CloneChunk, CopyChunk, Failure, GrantLease, Probe, Raise,
    RecordLengthAnswer, Response, RevokeLease, RevokeLeaseAnswer, Rpc,
};
use cairn_types::{ChunkHandle, EntryId, LeaseId};

impl Scheduler {
    /// A call is answered, or its fate is known to be unknown.
    pub(crate) fn on_answer(
        &mut self,
        step: &mut ChunkStep<'_>,
        id: EffectId,
        result: Result<Response, Failure>,
    ) {
        match self.in_flight.answered(id) {
            AwaitedCall::Raise(job, asked) => {
                let result = asked.check(step.state, Raise::answer(result));
                let (leases, troubles) = (&mut self.leases, &mut self.troubles);
                let mut learner = RaiseLearner { leases, troubles, in_flight: &mut self.in_flight };
                learner.note(step, &self.term, &asked, &result);
                let event = JobEvent::RaiseAnswered(asked.server, result);
                self.tell(step, job, event);
            }
            AwaitedCall::Probe(job) => {
                let event = JobEvent::ProbeAnswered(Probe::answer(result));
                self.tell(step, job, event);
            }
            AwaitedCall::Grant(job) => {
                let event = JobEvent::GrantAnswered(GrantLease::answer(result));
                self.tell(step, job, event);
            }
            AwaitedCall::Refresh(handle, server) => {
                // No answer tells nothing; the next raise will ask again.
                if let Ok(answer) = Probe::answer(result) {
                    step.note_replica(handle, server, &answer.replica);
                }
            }
            AwaitedCall::Revoke(handle, lease, asked_by) => {
                let result = RevokeLease::answer(result);
                self.on_revoked(step, (handle, lease), &result);
                if let Some(asked_by) = asked_by {
                    self.on_length(step, asked_by, result.map(|it| it.replica.acknowledged));
                }
            }
            AwaitedCall::RevokeForJob(job, handle, lease) => {
                let result = RevokeLease::answer(result);
                self.on_revoked(step, (handle, lease), &result);
                self.tell(step, job, JobEvent::RevokeAnswered(result.map(|_| ())));
            }
            AwaitedCall::Clone(job) => {
                let event = JobEvent::CloneAnswered(CloneChunk::answer(result));
                self.tell(step, job, event);
            }
            AwaitedCall::Copy(job, server) => {
                let event = JobEvent::CopyAnswered(server, CopyChunk::answer(result));
                self.tell(step, job, event);
            }
            AwaitedCall::Assemble(job, server) => {
                let event = JobEvent::AssembleAnswered(server, AssembleChunk::answer(result));
                self.tell(step, job, event);
            }
            AwaitedCall::Drop => {}
            AwaitedCall::Length(asked_by) => {
                self.on_length(step, asked_by, ChunkLength::answer(result).map(|a| a.length));
            }
        }
    }

    fn on_revoked(
        &mut self,
        step: &mut ChunkStep<'_>,
        (handle, id): (ChunkHandle, LeaseId),
        answer: &Result<RevokeLeaseAnswer, Failure>,
    ) {
        let Ok(answer) = answer else { return };
        // It may have run out meanwhile.
        let Some(lease) = self.leases.get(handle).filter(|lease| lease.id == id) else { return };
        let server = lease.holder.server;
        tell_given_back(step.out, (handle, lease), answer.replica.serial);
        step.note_replica(handle, server, &answer.replica);
        self.leases.remove(handle);
        step.fleet.quiet_since(handle, step.now.time);
    }

    /// The primary has said how long its chunk is, or cannot be asked.
    fn on_length(
        &mut self,
        step: &mut ChunkStep<'_>,
        asked_by: LengthRequest,
        result: Result<u64, Failure>,
    ) {
        match result {
            Ok(acknowledged) => {
                let view = self.view(step.now, step.state, step.fleet);
                let next = length::heard(&view, asked_by, acknowledged);
                self.in_flight.go_on_with_length(step.out, asked_by.from, next);
            }
            Err(failure) => step.out.reply(asked_by.from, Err(failure)),
        }
    }

    /// A record is applied, of this term or an earlier one.
    pub(crate) fn on_applied(
        &mut self,
        step: &mut ChunkStep<'_>,
        proposal: ProposalId,
        applied: &Applied,
    ) {
        match applied {
            Applied::EntryHidden(hidden) => self.revoke_below(step, hidden.id),
            Applied::EntryMoved(EntryMoved { replaced: Some(file), .. }) => {
                self.revoke_below(step, *file);
            }
            _ => {}
        }
        match self.in_flight.applied(proposal) {
            Some(AwaitedRecord::Job(job)) => {
                self.tell(step, job, JobEvent::Applied(applied));
            }
            Some(AwaitedRecord::Length(asked_by)) => {
                let view = self.view(step.now, step.state, step.fleet);
                let answer = RecordLengthAnswer { length: length::recorded(&view, asked_by.file) };
                step.out.reply(asked_by.from, Ok(Response::RecordLength(answer)));
            }
            // Of another part of the master, of an earlier term, or one that nobody waits for.
            None => {}
        }
    }

    /// An entry was hidden: asks for the leases below it back. Whether the holders hear it or not,
    /// none of these leases is extended or handed out any more (R20).
    fn revoke_below(&mut self, step: &mut ChunkStep<'_>, entry: EntryId) {
        let revocations = leases_below(&self.view(step.now, step.state, step.fleet), entry);
        // The holder answers when it has drained.
        let deadline = step.now.time + self.term.config.lease();
        for (holder, revoke) in revocations {
            let RevokeLease { handle, lease, .. } = revoke;
            doubt_revoked(step.out, &mut self.leases, (handle, lease));
            self.in_flight.call(
                step.out,
                holder,
                revoke,
                deadline,
                AwaitedCall::Revoke(handle, lease, None),
            );
        }
    }
}
