//! Clones that are being made: one for each chunk, from the order to copy it until it has joined
//! the chunk's set.
//!
//! ```text
//!   Copying ─► (again, while much differs) ─► Copied ─► Joining (jobs/grow.rs) ─► gone: it joined
//!      ▲                                                  └─► not joined
//!      └──────────────────────────────────────────────────────────┘
//! ```

use crate::rules::cloning::CloneLoad;
use crate::rules::file_paths::FilePaths;
use crate::rules::replica_set::LiveMember;
use crate::scheduler::Scheduler;
use crate::step::ChunkStep;
use crate::told::of_chunk;
use crate::view::View;
use cairn_env::EffectId;
use cairn_protocol::{CloneChunk, CloneProgress, CloneStatus, Failure};
use cairn_types::{ChunkHandle, ReplicaAt, ServerId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// An order is not waited for longer, whatever happens. Who does not get on is given up before.
const ORDER_PATIENCE: Duration = Duration::from_secs(3600);

/// How far a clone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloneStage {
    /// The receiver copies, as this call has ordered.
    Copying(EffectId),
    /// It is to join, as soon as its chunk's place is free.
    Copied,
    /// It joins.
    Joining,
}

/// One clone.
#[derive(Debug)]
pub(super) struct CloneUnderWay {
    pub(super) source: ReplicaAt,
    pub(super) receiver: ReplicaAt,
    pub(super) stage: CloneStage,
    pub(super) began: Time,
    /// When it was last seen to get on, or to wait for its turn.
    pub(super) moved: Time,
    pub(super) copied: u64,
    pub(super) total: u64,
    /// Orders to copy that were given.
    pub(super) rounds: u32,
    /// What came to nothing.
    pub(super) failures: u32,
    /// Its chunk has its goal: another replica is to go for it.
    pub(super) moves: bool,
}

impl CloneUnderWay {
    /// One that is ordered by that call, from where to where; of so many bytes.
    pub(super) fn ordered(
        now: Time,
        call: EffectId,
        (source, receiver): (ReplicaAt, ReplicaAt),
        total: u64,
    ) -> Self {
        let stage = CloneStage::Copying(call);
        let (began, moved, rounds) = (now, now, 1);
        let (copied, failures, moves) = (0, 0, false);
        Self { source, receiver, stage, began, moved, copied, total, rounds, failures, moves }
    }

    /// Tells what has become of it, and why, where that was not what it was ordered for.
    pub(super) fn tell(
        &self,
        step: &mut ChunkStep<'_>,
        (name, handle): (&'static str, ChunkHandle),
        failure: Option<&Failure>,
    ) {
        let state = step.state;
        step.out.debug(|| {
            let version = state.chunk(handle).map(|chunk| chunk.version).unwrap_or_default();
            let event = of_chunk(name, handle, version).with("server", self.receiver.server);
            let event = event.with("source", self.source.server);
            failure.into_iter().fold(event, |event, it| event.with("why", &it.message))
        });
    }

    /// For a person.
    pub(super) fn line(&self) -> String {
        let (to, from) = (&self.receiver.address, &self.source.address);
        let (copied, total) = (self.copied, self.total);
        match self.stage {
            CloneStage::Copying(_) => {
                format!("  is copied from {from} to {to}: {copied} of {total} bytes")
            }
            CloneStage::Copied => format!("  its copy on {to} waits to join its replicas"),
            CloneStage::Joining => format!("  its copy on {to} joins its replicas"),
        }
    }

    /// For people, without the file's path.
    pub(super) fn status(&self, now: Time, handle: ChunkHandle) -> CloneStatus {
        CloneStatus {
            handle,
            path: String::new(),
            source: self.source.clone(),
            receiver: self.receiver.clone(),
            copied: self.copied,
            total: self.total,
            age_ms: u64::try_from(now.since(self.began).as_millis()).unwrap_or(u64::MAX),
            joins: !matches!(self.stage, CloneStage::Copying(_)),
        }
    }
}

/// All clones.
#[derive(Debug, Default)]
pub(super) struct ClonesUnderWay {
    by_handle: BTreeMap<ChunkHandle, CloneUnderWay>,
}

impl ClonesUnderWay {
    /// Some of them, for people.
    pub(super) fn told(&self, view: &View<'_>, most: usize) -> Vec<CloneStatus> {
        let (mut paths, sharing) = (FilePaths::new(view.state), view.state.sharing());
        let told = self.iter().take(most).map(|(handle, clone)| {
            let of = |chunk| paths.of(sharing.live_file_of(handle, &chunk)).text;
            let path = view.state.chunk(handle).map(of).unwrap_or_default();
            CloneStatus { path, ..clone.status(view.now.time, handle) }
        });
        told.collect()
    }

    pub(super) fn insert(&mut self, handle: ChunkHandle, clone: CloneUnderWay) {
        let other = self.by_handle.insert(handle, clone);
        assert!(other.is_none(), "one clone of a chunk at a time");
    }

    pub(super) fn remove(&mut self, handle: ChunkHandle) -> Option<CloneUnderWay> {
        self.by_handle.remove(&handle)
    }

    pub(super) fn get_mut(&mut self, handle: ChunkHandle) -> Option<&mut CloneUnderWay> {
        self.by_handle.get_mut(&handle)
    }

    pub(super) fn get(&self, handle: ChunkHandle) -> Option<&CloneUnderWay> {
        self.by_handle.get(&handle)
    }

    pub(super) fn count(&self) -> usize {
        self.by_handle.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChunkHandle, &CloneUnderWay)> {
        self.by_handle.iter().map(|(handle, clone)| (*handle, clone))
    }

    /// How many each server receives and gives.
    pub(super) fn load(&self) -> CloneLoad {
        let mut load = CloneLoad::default();
        for clone in self.by_handle.values() {
            load.add(clone.source.server, clone.receiver.server);
        }
        load
    }

    /// What a receiver's heartbeat tells.
    pub(super) fn note_progress(&mut self, now: Time, server: ServerId, told: &CloneProgress) {
        let clone = self.by_handle.get_mut(&told.handle);
        // It may have been given up since, or moved elsewhere.
        let Some(clone) = clone.filter(|clone| clone.receiver.server == server) else { return };
        // Where many take turns beside busy clients, each waits for long.
        if told.waits || (clone.copied, clone.total) != (told.copied, told.total) {
            (clone.copied, clone.total, clone.moved) = (told.copied, told.total, now);
        }
    }
}

/// Orders a copy; mutations go on meanwhile.
pub(super) fn order(
    step: &mut ChunkStep<'_>,
    scheduler: &Scheduler,
    handle: ChunkHandle,
    ((source, version), receiver): (LiveMember, &ReplicaAt),
) -> EffectId {
    let (term, server) = (scheduler.term().number, receiver.server);
    let rate = step.state.config().clone_rate;
    let event = || of_chunk("clone ordered", handle, version);
    step.out.debug(|| event().with("server", server).with("source", source.server));
    let clone = CloneChunk { term, handle, version, server, source, rate, finish: false };
    let deadline = step.now.time + ORDER_PATIENCE;
    step.out.call(receiver.address.clone(), server, clone, deadline)
}
