//! What a step wants done, and what each completion will mean when it comes.
//!
//! - OB1: each effect completes once, with a completion of its own kind (E1). The worlds keep this
//!   contract, so a breach of it is a defect of this program and not the word of a peer.

use bytes::Bytes;
use cairn_env::{
    Answer, Caller, ChunkError, ChunkJob, ChunkResult, Completion, DiskError, Effect, EffectId,
    JournalEntry, JournalPart, Lane, LogEvent, Payload,
};
use cairn_protocol::{
    ChoiceNumber, ErrorCode, Failure, FindPrimary, Request, Response, SEARCH_ROUND_TIME_MAX,
};
use cairn_types::{Address, ChunkHandle, ChunkVersion, JoinId, LeaseId, ServerId, Term, Time};
use std::collections::BTreeMap;

/// The lane of a server's journal; a chunk's jobs have the lane of its handle.
const JOURNAL_LANE: Lane = Lane(0);

/// The lane of what may take long and can wait: worlds that can give it a thread of its own.
pub const TRASH_LANE: Lane = Lane(u64::MAX);

/// What the end of a disk job means.
#[derive(Clone, Debug)]
pub(crate) enum DiskPurpose {
    /// Something of one replica.
    Replica(ChunkHandle, ReplicaJob),
    /// A replica went to the trash.
    Trashed(ChunkHandle),
    /// This higher term becomes durable.
    TermKept(Term),
    /// That a replica is bad becomes durable.
    DamageNoted(ChunkHandle),
    /// How full the disks are.
    Space,
    /// Something of a clone.
    Clone { handle: ChunkHandle, number: u64 },
    /// A slice of the trash was looked through.
    TrashEmptied,
    /// A part of what is stored, or of a journal, is verified.
    Scrub,
    /// A part of a replica that was found bad is verified again.
    SecondLook,
    /// A replica is looked at for somebody.
    Check { to: Caller, handle: ChunkHandle },
    /// A clone is gone, as a master ordered.
    CloneDropped(Caller),
    /// Nobody waits for it.
    Nobody,
}

/// What a reader asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedRange {
    /// Up to here the disk is believed to have the bytes.
    pub(crate) stored: u64,
    /// Where it ends.
    pub(crate) end: u64,
    pub(crate) known: KnownEnd,
}

/// What a reader was told by a master of where the chunk ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KnownEnd {
    /// It is open.
    Open,
    /// It is closed (R19).
    Closed,
    /// Of a stream's chunk, so much is committed (R44).
    Committed(u64),
}

/// What was asked of the disk for one replica.
#[derive(Clone, Debug)]
pub(crate) enum ReplicaJob {
    /// Its bytes change, as primary or as secondary.
    Apply,
    /// Its bytes come to disk, for a raise that leaves another one out.
    SyncToRaise,
    /// Its version, or its close mark at that version, becomes durable.
    Journal(ChunkVersion),
    /// The disk says how it stands, after a change that failed half-way.
    Stand,
    /// Bytes for a reader.
    Read { to: Caller, range: AskedRange },
    /// Its own checksums, to catch up with another replica.
    Checksums,
    /// Blocks for another server, which catches up with this one.
    Fetch { to: Caller },
    /// A doubted block is looked at again (R31).
    Verify,
    /// The primary's own part of a sync.
    SyncHere { lease: LeaseId, round: u64 },
    /// A secondary's part of a sync.
    SyncForPrimary { to: Caller },
}

/// What the answer to a call means.
#[derive(Clone, Debug)]
pub(crate) enum CallPurpose {
    /// Something of one replica.
    Replica(ChunkHandle, ReplicaCall),
    /// The source of a clone gives its blocks.
    Clone { handle: ChunkHandle, number: u64 },
    /// A master takes this server in.
    Join { asked: ChoiceNumber },
    /// The master takes in a slice of that join's inventory.
    Inventory { asked: ChoiceNumber, slice: AskedSlice },
    /// A master answers a heartbeat that was sent then.
    Heartbeat { asked: ChoiceNumber, sent: Time },
    /// That master, which is not in charge, is told what is held.
    TellShadow(Address),
    /// That master says whether it is in charge.
    FindPrimary(Address),
}

/// Which slice of an inventory was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedSlice {
    pub(crate) join: JoinId,
    pub(crate) number: u64,
    pub(crate) last: bool,
}

/// What was asked of another server for one replica.
#[derive(Clone, Debug)]
pub(crate) enum ReplicaCall {
    /// A secondary applies a batch.
    Forward { version: ChunkVersion, lease: LeaseId, secondary: ServerId },
    /// Another replica gives the blocks that this one lacks.
    Fetch { version: ChunkVersion },
    /// A secondary hears how far the chunk is acknowledged.
    Tell { lease: LeaseId, secondary: ServerId },
    /// The master shrinks the set.
    Shrink { lease: LeaseId },
    /// The master logs that the chunk is closed.
    LogClose { lease: LeaseId },
    /// A secondary brings its part to disk.
    SyncThere { lease: LeaseId, round: u64, secondary: ServerId },
}

/// What a wake is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WakePurpose {
    /// Time to look around.
    Tick,
    /// The pause before the next slice of that join's inventory is over.
    NextSlice(JoinId),
}

#[derive(Debug)]
enum Purpose {
    Disk(DiskPurpose),
    Call(CallPurpose),
    Wake(WakePurpose),
}

/// A completion and what it means.
#[derive(Debug)]
pub(crate) enum Finished {
    Disk(DiskPurpose, ChunkResult),
    Call(CallPurpose, Result<Answer, Failure>),
    Wake(WakePurpose),
}

/// Effects of one step, and the purposes of all that are under way.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect<ChunkJob>>,
    purposes: BTreeMap<EffectId, Purpose>,
    last: u64,
    /// This server, whose changes of state are told; none: nobody looks for them.
    tells_debug_of: Option<ServerId>,
}

impl Outbox {
    /// Somebody looks for changes of state: they are told from now on, each with the server's id.
    pub(crate) fn tell_debug(&mut self, of: ServerId) {
        self.tells_debug_of = Some(of);
    }

    /// Tells of a change of state. Where nobody looks for it, nothing is built.
    pub(crate) fn debug(&mut self, event: impl FnOnce() -> LogEvent) {
        if let Some(server) = self.tells_debug_of {
            self.effects.push(Effect::Log(event().with("server", server)));
        }
    }

    fn id(&mut self, purpose: Purpose) -> EffectId {
        self.last += 1;
        let id = EffectId(self.last);
        let before = self.purposes.insert(id, purpose);
        assert!(before.is_none(), "two effects of one id");
        id
    }

    pub(crate) fn call(
        &mut self,
        purpose: CallPurpose,
        to: Address,
        server: ServerId,
        request: impl Into<Request>,
        deadline: Time,
    ) {
        let id = self.id(Purpose::Call(purpose));
        let (request, payload) = (request.into(), Bytes::new());
        self.effects.push(Effect::Call { id, to, server, request, payload, deadline });
    }

    /// Asks a master who is in charge.
    pub(crate) fn find_primary(&mut self, master: Address, now: Time) {
        let (purpose, deadline) =
            (CallPurpose::FindPrimary(master.clone()), now + SEARCH_ROUND_TIME_MAX);
        self.call(purpose, master, ServerId::default(), FindPrimary {}, deadline);
    }

    fn disk(&mut self, purpose: DiskPurpose, lane: Lane, job: ChunkJob) {
        let id = self.id(Purpose::Disk(purpose));
        self.effects.push(Effect::Disk { id, lane, job });
    }

    /// Asks for a job of one chunk, behind those that it was asked for before.
    pub(crate) fn chunk_job(&mut self, handle: ChunkHandle, purpose: DiskPurpose, job: ChunkJob) {
        self.disk(purpose, lane_of(handle), job);
    }

    /// The same, for one replica that waits for it.
    pub(crate) fn replica_job(&mut self, handle: ChunkHandle, what: ReplicaJob, job: ChunkJob) {
        self.chunk_job(handle, DiskPurpose::Replica(handle, what), job);
    }

    /// Asks for a job of the whole server, behind what its journal was asked for before.
    pub(crate) fn server_job(&mut self, purpose: DiskPurpose, job: ChunkJob) {
        self.disk(purpose, JOURNAL_LANE, job);
    }

    /// Asks for a replica to go to the trash, or for a slice of that to be emptied: nobody waits
    /// for either, and after a large deletion there are very many.
    pub(crate) fn trash_job(&mut self, purpose: DiskPurpose, job: ChunkJob) {
        self.disk(purpose, TRASH_LANE, job);
    }

    /// Asks for a part of a journal to be verified: that can wait, and no line waits for it.
    pub(crate) fn scrub_journal(&mut self, part: JournalPart) {
        self.disk(DiskPurpose::Scrub, TRASH_LANE, ChunkJob::ScrubJournal(part));
    }

    /// Asks for an entry of the journal to become durable.
    pub(crate) fn journal(&mut self, purpose: DiskPurpose, entry: JournalEntry) {
        self.server_job(purpose, ChunkJob::Journal(vec![entry]));
    }

    pub(crate) fn wake(&mut self, purpose: WakePurpose, at: Time) {
        let id = self.id(Purpose::Wake(purpose));
        self.effects.push(Effect::Wake { id, at });
    }

    pub(crate) fn reply(&mut self, to: Caller, response: Response) {
        self.reply_with(to, response, Payload::default());
    }

    pub(crate) fn reply_with(&mut self, to: Caller, response: Response, payload: Payload) {
        self.effects.push(Effect::Reply { to, answer: Ok(response), payload });
    }

    pub(crate) fn refuse(&mut self, to: Caller, failure: Failure) {
        self.effects.push(Effect::Reply { to, answer: Err(failure), payload: Payload::default() });
    }

    pub(crate) fn push(&mut self, effect: Effect<ChunkJob>) {
        self.effects.push(effect);
    }

    /// What the completion of `id` means (OB1).
    pub(crate) fn finish(&mut self, id: EffectId, result: Completion<ChunkResult>) -> Finished {
        let purpose = self.purposes.remove(&id).expect("an effect completes once (OB1)");
        match (purpose, result) {
            (Purpose::Disk(purpose), Completion::Disk(result)) => Finished::Disk(purpose, result),
            (Purpose::Call(purpose), Completion::Answered(result)) => {
                Finished::Call(purpose, result)
            }
            (Purpose::Wake(purpose), Completion::Woken) => Finished::Wake(purpose),
            (purpose, result) => panic!("{purpose:?} came to {result:?} (OB1)"),
        }
    }

    pub(crate) fn drain(&mut self, into: &mut Vec<Effect<ChunkJob>>) {
        into.append(&mut self.effects);
    }
}

/// The lane of a chunk's jobs. The journal's lane is nobody's: a handle is never zero.
fn lane_of(handle: ChunkHandle) -> Lane {
    Lane(handle.get())
}

/// What a caller is told of a disk error.
pub(crate) fn failure_of(error: &ChunkError) -> Failure {
    let line = error.to_string();
    match error {
        ChunkError::Disk(DiskError::NoSpace) => Failure::not_done(ErrorCode::DiskFull, line),
        ChunkError::Corrupt { .. } => Failure::not_done(ErrorCode::ChecksumMismatch, line),
        ChunkError::FetchedDiffers { .. } => Failure::not_done(ErrorCode::ReplicaFailed, line),
        ChunkError::PushMissing { .. } => Failure::not_done(ErrorCode::PushMissing, line),
        ChunkError::PushDiffers { .. } => Failure::refused(ErrorCode::Invalid, line),
        ChunkError::OutOfOrder { .. } => Failure::not_done(ErrorCode::OutOfOrder, line),
        ChunkError::BytesDiffer { .. } => Failure::refused(ErrorCode::BytesDiffer, line),
        ChunkError::NoSuchChunk => Failure::not_done(ErrorCode::NoSuchChunk, line),
        ChunkError::NoDirectoryLeft | ChunkError::Disk(_) => Failure::unknown(ErrorCode::Io, line),
    }
}
