//! The close of a chunk by its primary: no append is ever taken by it again (GFS §3.3).
//!
//! ```text
//!        a record does not fit       nothing is being applied here      every replica has it
//!   Open ──────────────────────► Wanted ──────────────────────► Marking ──────────► Reported
//!                                               own mark, then the secondaries'        │
//!                          appends go on in the next chunk ◄──── the master has logged ┘
//! ```
//! - A1: a record that does not fit closes the chunk; the client goes on in the next (R18).
//! - A2: the master hears of the close only after every replica durably holds the mark (R18).
//! - A3: readers take the chunk for closed only once the mark is everywhere: until then it may yet
//!   come to nothing (R19).

use crate::outbox::{Outbox, ReplicaCall};
use crate::replica_context::ReplicaContext;
use crate::stored_replica::StoredReplica;
use cairn_env::Caller;
use cairn_protocol::{ChunkClosed, ErrorCode, Failure};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, LeaseId};

/// How far a chunk's close has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClosePhase {
    /// Nobody has asked for it.
    Open,
    /// A record did not fit; the mark is not set yet.
    Wanted,
    /// The mark is on its way to every replica.
    Marking,
    /// The master has been told.
    Reported,
}

#[derive(Debug)]
pub(crate) struct ChunkClose {
    phase: ClosePhase,
    /// The chunk as the master logs it.
    file: EntryId,
    index: ChunkIndex,
    /// Appends that wait for the close, to be told to go on in the next chunk.
    turned_away: Vec<Caller>,
}

impl ChunkClose {
    /// Of a chunk whose lease begins.
    pub(crate) fn open(file: EntryId, index: ChunkIndex) -> Self {
        Self { phase: ClosePhase::Open, file, index, turned_away: vec![] }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == ClosePhase::Open
    }

    /// Whether the mark is to be put on as soon as nothing is being applied here.
    pub(crate) fn is_wanted(&self) -> bool {
        self.phase == ClosePhase::Wanted
    }

    /// Whether nothing more is ordered, not even writes: the mark is the lease's last mutation.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self.phase, ClosePhase::Marking | ClosePhase::Reported)
    }

    /// Whether the mark may still come to nothing (A3).
    pub(crate) fn is_marking(&self) -> bool {
        self.phase == ClosePhase::Marking
    }

    /// An append does not fit (A1).
    pub(crate) fn want(&mut self, waiting: Vec<Caller>) {
        assert!(!self.is_last(), "an append was ordered behind the close mark");
        self.phase = ClosePhase::Wanted;
        self.turn_away(waiting);
    }

    /// An append has to go on in the next chunk, once there is one.
    pub(crate) fn turn_away(&mut self, waiting: Vec<Caller>) {
        self.turned_away.extend(waiting);
    }

    /// Puts the mark on this replica, durably, before the secondaries get it.
    pub(crate) fn start_marking(&mut self, stored: &StoredReplica, out: &mut Outbox) {
        assert!(self.is_wanted(), "{:?} is marked", self.phase);
        self.phase = ClosePhase::Marking;
        stored.journal(out, false, true);
    }

    /// Every replica of the set holds the mark: the master may open the next chunk (A2).
    pub(crate) fn report(
        &mut self,
        stored: &StoredReplica,
        lease: LeaseId,
        cx: &mut ReplicaContext<'_>,
    ) {
        assert!(self.is_marking() && stored.is_closed(), "{:?} is reported (A2)", self.phase);
        self.phase = ClosePhase::Reported;
        let (handle, version) = (stored.handle(), stored.version());
        let request = ChunkClosed { handle, version, lease, file: self.file, index: self.index };
        let deadline = cx.replica_deadline();
        cx.call_master(handle, ReplicaCall::LogClose { lease }, request, deadline);
    }

    /// Tells the appends that found the chunk full where to go.
    pub(crate) fn answer_turned_away(&mut self, handle: ChunkHandle, out: &mut Outbox) {
        for from in std::mem::take(&mut self.turned_away) {
            let why = format!("chunk {} is full; append to the next one", handle.short());
            out.refuse(from, Failure::not_done(ErrorCode::ChunkClosed, why));
        }
    }

    /// Who still waits, once the lease is over.
    pub(crate) fn into_turned_away(self) -> Vec<Caller> {
        self.turned_away
    }
}
