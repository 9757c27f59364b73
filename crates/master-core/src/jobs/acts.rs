//! What a job wants done; the scheduler does it, in this order.

use super::raise::RaisedReplica;
use super::wait_cause::WaitCause;
use crate::leases::{GrantedLease, LeaseStatus};
use crate::numbers::TermNumbers;
use crate::record::Record;
use crate::rules::decided_set::PlannedDecision;
use cairn_env::Caller;
use cairn_protocol::{
    AssembleChunk, CloneChunk, CopyChunk, DropClone, Failure, GrantLease, Probe,
    Raise as RaiseRequest, ReplicaReport, RevokeLease, SecondaryFailedAnswer,
};
use cairn_types::{ChunkHandle, ChunkVersion, LeaseId, Random, ReplicaAt, ServerId, Time};

/// What a chunkserver is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// To take a raise; the last field: the chunk's lease goes on meanwhile.
    Raise(RaiseRequest, bool),
    Probe(Probe),
    Grant(GrantLease),
    Revoke(RevokeLease),
    Clone(CloneChunk),
    Copy(CopyChunk),
    Assemble(AssembleChunk),
    /// To let go of what was made there; nobody waits for the answer.
    Drop(DropClone),
}

/// One thing that a job wants done.
#[derive(Debug)]
pub(crate) enum Act {
    /// Asks a chunkserver; the answer comes to this job.
    Ask { at: ReplicaAt, question: Question, deadline: Time },
    /// Puts a record into the log; this job is told when it is applied.
    Propose(Record),
    /// Puts a record into the log for which nobody waits.
    Record(Record),

    /// A lease is granted.
    InsertLease(ChunkHandle, GrantedLease),
    /// The holder serves.
    ConfirmLease(ChunkHandle, LeaseId),
    /// A lease is relied upon less.
    DoubtLease(ChunkHandle, LeaseId, LeaseStatus),
    /// A lease came to nothing; whom of the set, or itself, its primary blames for that.
    BlameFor { handle: ChunkHandle, primary: ServerId, blamed: ServerId },
    /// A lease goes on with a smaller set.
    ShrinkLease(ChunkHandle, LeaseId, ChunkVersion, Vec<ReplicaAt>),
    /// No former holder acknowledges an append in this chunk any more (R18).
    Fence(ChunkHandle),

    /// A replica is to be made here: one more of what the server was lately given to make.
    Chosen(ServerId),
    /// A replica was made here.
    Placed(ChunkHandle, ServerId, ReplicaReport),
    /// Blocks of a replica fail their checksums.
    MarkDamaged(ChunkHandle, ServerId),

    /// A clone has joined its chunk's set, or has not.
    Grown(ChunkHandle, Result<(), Failure>),
    /// A set goes on without a replica that it does not need, or does not.
    LeftOut(ChunkHandle, Result<(), Failure>),

    /// A producer's chunk is made at this place, or is not.
    Allocated(Result<ChunkHandle, Failure>),
    /// A chunk made of ranges stands in their place, or does not.
    Assembled(Result<(), Failure>),
    /// A stream's chunk is sealed, or is not.
    Sealed(ChunkHandle, Result<(), Failure>),

    /// Whoever waits for the close of the chunk before has it logged.
    AnswerClosed,
    /// A primary that lost secondaries is answered.
    AnswerShrink(Caller, Result<SecondaryFailedAnswer, Failure>),

    /// The job waits; why. It is looked at again with the next tick.
    Wait(WaitCause),
    /// The job waits, and is looked at again at once.
    LookAgain(WaitCause),
    /// The chunk stands, raised and logged: its lease is granted.
    GrantLease(ChunkHandle, Vec<RaisedReplica>),
    /// All of the chunk's set stand at this version, and not alike, or may have lost bytes: that is
    /// logged, and its lease granted, which levels them.
    LevelFirst((ChunkHandle, ChunkVersion), Vec<RaisedReplica>, PlannedDecision),
    /// Whoever wants to write there is told so, and the others are looked at anew.
    FailWriters(Failure),
    /// The close of the chunk is logged without a next one.
    CloseAlone(ChunkHandle),
    /// Appends go on at the next place.
    GoOnInNext,
    /// The job is over: every waiter's wish is looked at anew.
    Finish,
    /// The job is over and came to nothing.
    Fail(Failure),
}

/// What a job wants done, as it says so, and the fresh numbers that it needs for it.
#[derive(Debug)]
pub(crate) struct Acts<'a> {
    pub(crate) numbers: &'a mut TermNumbers,
    pub(crate) random: &'a mut Random,
    list: Vec<Act>,
}

impl<'a> Acts<'a> {
    pub(crate) fn new(numbers: &'a mut TermNumbers, random: &'a mut Random) -> Self {
        Self { numbers, random, list: Vec::new() }
    }

    pub(crate) fn push(&mut self, act: Act) {
        self.list.push(act);
    }

    pub(crate) fn ask(&mut self, at: ReplicaAt, question: Question, deadline: Time) {
        self.push(Act::Ask { at, question, deadline });
    }

    pub(crate) fn propose(&mut self, record: impl Into<Record>) {
        self.push(Act::Propose(record.into()));
    }

    pub(crate) fn wait(&mut self, why: impl Into<WaitCause>) {
        self.push(Act::Wait(why.into()));
    }

    /// All of it, in order.
    pub(crate) fn done(self) -> Vec<Act> {
        self.list
    }
}
