//! What a step wants done, and what each completion will mean when it comes.

use crate::inventory::SliceSent;
use bytes::Bytes;
use cairn_env::{Caller, ChunkJob, Effect, EffectId, Lane, Payload};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::{Address, ChunkHandle, ChunkVersion, JoinId, LeaseId, ServerId, Term, Time};
use std::collections::BTreeMap;

/// The lane of a server's journal; a chunk's jobs have the lane of its handle.
pub(crate) const JOURNAL_LANE: Lane = Lane(0);

/// Why an effect was asked for.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// Bytes of this replica change, as primary or as secondary.
    Applied(ChunkHandle),
    /// This replica's bytes are on disk, for a raise that leaves another one out.
    SyncedToRaise(ChunkHandle),
    /// This replica's version or close mark becomes durable.
    Journaled(ChunkHandle),
    /// A secondary applies a batch.
    Forwarded { handle: ChunkHandle, version: ChunkVersion, lease: LeaseId, secondary: ServerId },
    /// The master shrinks a set.
    Shrunk { handle: ChunkHandle, lease: LeaseId },
    /// The master logs that a chunk is closed.
    CloseLogged { handle: ChunkHandle, lease: LeaseId },
    /// Bytes for a reader.
    Read { handle: ChunkHandle, to: Caller, end: u64 },
    /// A doubted block is looked at again (R31).
    Verified(ChunkHandle),
    /// One replica of a set is on disk.
    SyncedHere { handle: ChunkHandle, round: u64 },
    /// The same, on a secondary.
    SyncedThere { handle: ChunkHandle, round: u64, secondary: ServerId },
    /// This replica is on disk, for its primary.
    SyncedForPrimary { handle: ChunkHandle, to: Caller },
    /// A replica went to the trash.
    Trashed(ChunkHandle),
    /// The master took this server in.
    Joined,
    /// The master took in a slice of the inventory.
    Inventoried(SliceSent),
    /// The pause before the next slice of that join's inventory is over.
    NextSlice(JoinId),
    /// The master answered a heartbeat that was sent then.
    Heartbeat(Time),
    /// How full the disks are.
    Space,
    /// Time to look around.
    Tick,
    /// A higher term becomes durable; this was the one before.
    TermKept(Term),
    /// Nobody waits for it.
    Nobody,
}

/// Effects of one step, and the purposes of all that are under way.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect<ChunkJob>>,
    purposes: BTreeMap<EffectId, Purpose>,
    next: u64,
}

impl Outbox {
    fn id(&mut self, purpose: Purpose) -> EffectId {
        self.next += 1;
        let id = EffectId(self.next);
        self.purposes.insert(id, purpose);
        id
    }

    pub(crate) fn call(
        &mut self,
        purpose: Purpose,
        to: Address,
        server: ServerId,
        request: impl Into<Request>,
        deadline: Time,
    ) {
        let id = self.id(purpose);
        let (request, payload) = (request.into(), Bytes::new());
        self.effects.push(Effect::Call { id, to, server, request, payload, deadline });
    }

    pub(crate) fn disk(&mut self, purpose: Purpose, lane: Lane, job: ChunkJob) {
        let id = self.id(purpose);
        self.effects.push(Effect::Disk { id, lane, job });
    }

    pub(crate) fn wake(&mut self, purpose: Purpose, at: Time) {
        let id = self.id(purpose);
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

    /// What the completion of `id` means; each id completes once (E1).
    pub(crate) fn take(&mut self, id: EffectId) -> Option<Purpose> {
        self.purposes.remove(&id)
    }

    pub(crate) fn drain(&mut self, into: &mut Vec<Effect<ChunkJob>>) {
        into.append(&mut self.effects);
    }
}

/// The lane of a chunk's jobs. The journal's lane is nobody's: a handle is never zero.
pub(crate) fn lane_of(handle: ChunkHandle) -> Lane {
    Lane(handle.get())
}
