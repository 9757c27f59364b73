//! What is on its way: calls to chunkservers and records into the log, and what each is for.

use super::places::JobName;
use super::told_acts::tell_revoked;
use crate::jobs::acts::Question;
use crate::jobs::length::{LengthRequest, LengthStep, note_asked_back};
use crate::jobs::raise::RaiseAsked;
use crate::leases::Leases;
use crate::outbox::{MasterOutbox, ProposalId};
use crate::record::Record;
use cairn_env::{Caller, EffectId};
use cairn_protocol::{Failure, Raise, RecordLengthAnswer, Request, Response, RevokeLease};
use cairn_types::{ChunkHandle, LeaseId, ReplicaAt, ServerId, Time};
use std::collections::BTreeMap;

/// What a call that is on its way is for.
#[derive(Debug)]
pub(super) enum AwaitedCall {
    Raise(JobName, RaiseAsked),
    Probe(JobName),
    Grant(JobName),
    /// To learn how a replica stands that refused a raise.
    Refresh(ChunkHandle, ServerId),
    /// A lease that is not given back runs out by itself; who wants its file's length recorded.
    Revoke(ChunkHandle, LeaseId, Option<LengthRequest>),
    /// The same, for a job that waits for it.
    RevokeForJob(JobName, ChunkHandle, LeaseId),
    Clone(JobName),
    Copy(JobName, ServerId),
    Assemble(JobName, ServerId),
    /// Nobody waits for it.
    Drop,
    Length(LengthRequest),
}

/// What a record that is on its way is for.
#[derive(Debug)]
pub(super) enum AwaitedRecord {
    /// A step of a job.
    Job(JobName),
    /// Somebody waits for this length.
    Length(LengthRequest),
}

/// All that is on its way.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    calls: BTreeMap<EffectId, AwaitedCall>,
    records: BTreeMap<ProposalId, AwaitedRecord>,
}

impl InFlight {
    /// Asks a chunkserver.
    pub(super) fn call(
        &mut self,
        out: &mut MasterOutbox,
        ReplicaAt { server, address, .. }: ReplicaAt,
        request: impl Into<Request>,
        deadline: Time,
        purpose: AwaitedCall,
    ) {
        let effect = out.call(address, server, request, deadline);
        let other = self.calls.insert(effect, purpose);
        assert!(other.is_none(), "a call has one purpose");
    }

    /// Asks a chunkserver what a job wants to know.
    pub(super) fn ask(
        &mut self,
        out: &mut MasterOutbox,
        (now, job): (Time, JobName),
        at: ReplicaAt,
        question: Question,
        deadline: Time,
    ) {
        let (purpose, request): (AwaitedCall, Request) = match question {
            Question::Raise(raise, keeps_lease) => {
                let Raise { handle, to, .. } = raise;
                let asked = RaiseAsked { handle, to, server: at.server, keeps_lease, at: now };
                (AwaitedCall::Raise(job, asked), raise.into())
            }
            Question::Probe(probe) => (AwaitedCall::Probe(job), probe.into()),
            Question::Grant(grant) => (AwaitedCall::Grant(job), grant.into()),
            Question::Revoke(revoke) => {
                let RevokeLease { handle, lease, .. } = revoke;
                (AwaitedCall::RevokeForJob(job, handle, lease), revoke.into())
            }
            Question::Copy(copy) => (AwaitedCall::Copy(job, at.server), copy.into()),
            Question::Assemble(order) => (AwaitedCall::Assemble(job, at.server), order.into()),
            Question::Drop(drop) => (AwaitedCall::Drop, drop.into()),
            Question::Clone(clone) => (AwaitedCall::Clone(job), clone.into()),
        };
        self.call(out, at, request, deadline, purpose);
    }

    /// Puts a record on its way into the log.
    pub(super) fn propose(
        &mut self,
        out: &mut MasterOutbox,
        record: impl Into<Record>,
        purpose: AwaitedRecord,
    ) {
        let other = self.records.insert(out.propose(record), purpose);
        assert!(other.is_none(), "a record has one purpose");
    }

    /// Takes the first step towards a file's recorded length, or says why there is none.
    pub(super) fn begin_with_length(
        &mut self,
        (out, leases): (&mut MasterOutbox, &mut Leases),
        from: Caller,
        next: Result<LengthStep, Failure>,
    ) {
        match next {
            Ok(next) => {
                if let LengthStep::AskBack { revocation: (_, revoke), .. } = &next {
                    tell_revoked(out, leases, (revoke.handle, revoke.lease));
                }
                note_asked_back(leases, &next);
                self.go_on_with_length(out, from, next);
            }
            Err(failure) => out.reply(from, Err(failure)),
        }
    }

    /// Takes the next step towards a file's recorded length.
    pub(super) fn go_on_with_length(
        &mut self,
        out: &mut MasterOutbox,
        from: Caller,
        next: LengthStep,
    ) {
        match next {
            LengthStep::Answer(length) => {
                out.reply(from, Ok(Response::RecordLength(RecordLengthAnswer { length })));
            }
            LengthStep::Ask { holder, question, deadline, asked_by } => {
                self.call(out, holder, question, deadline, AwaitedCall::Length(asked_by));
            }
            LengthStep::AskBack { revocation: (holder, revoke), deadline, asked_by } => {
                let RevokeLease { handle, lease, .. } = revoke;
                let purpose = AwaitedCall::Revoke(handle, lease, Some(asked_by));
                self.call(out, holder, revoke, deadline, purpose);
            }
            LengthStep::Record(record, asked_by) => {
                self.propose(out, record, AwaitedRecord::Length(asked_by));
            }
        }
    }

    /// A call is answered: what it was for.
    pub(super) fn answered(&mut self, id: EffectId) -> AwaitedCall {
        let Some(call) = self.calls.remove(&id) else {
            unreachable!("each call is answered once");
        };
        call
    }

    /// A record is applied: what it was for, if it was one of these.
    pub(super) fn applied(&mut self, id: ProposalId) -> Option<AwaitedRecord> {
        self.records.remove(&id)
    }
}
