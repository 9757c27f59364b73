//! What came of jobs that rooms of the master began: kept until they ask.

use super::Scheduler;
use crate::chunk_place::ChunkPlace;
use cairn_protocol::Failure;
use cairn_types::ChunkHandle;

/// A chunk, and whether what was to be done with it is.
type SetOutcome = (ChunkHandle, Result<(), Failure>);

/// What has become of chunks since somebody asked.
#[derive(Debug, Default)]
pub(crate) struct SetNews {
    /// Clones that have joined their sets, or have not.
    grown: Vec<SetOutcome>,
    /// Replicas that their sets do not need, and that were left out, or were not.
    left_out: Vec<SetOutcome>,
    /// Producers' chunks that were made, or were not, by their places.
    allocated: Vec<(ChunkPlace, Result<ChunkHandle, Failure>)>,
    /// Streams' chunks that were sealed, or were not.
    sealed: Vec<SetOutcome>,
}

impl SetNews {
    /// That of a scheduler.
    pub(crate) fn of(scheduler: &mut Scheduler) -> &mut Self {
        &mut scheduler.news
    }

    pub(super) fn grown(&mut self, handle: ChunkHandle, result: Result<(), Failure>) {
        self.grown.push((handle, result));
    }

    pub(super) fn left_out(&mut self, handle: ChunkHandle, result: Result<(), Failure>) {
        self.left_out.push((handle, result));
    }

    pub(super) fn allocated(&mut self, at: ChunkPlace, result: Result<ChunkHandle, Failure>) {
        self.allocated.push((at, result));
    }

    pub(super) fn sealed(&mut self, handle: ChunkHandle, result: Result<(), Failure>) {
        self.sealed.push((handle, result));
    }

    /// What came of clones that were to join.
    pub(crate) fn take_grown(&mut self) -> Vec<SetOutcome> {
        std::mem::take(&mut self.grown)
    }

    /// What came of replicas that were to be left out.
    pub(crate) fn take_left_out(&mut self) -> Vec<SetOutcome> {
        std::mem::take(&mut self.left_out)
    }

    /// What came of chunks that were to be made for producers.
    pub(crate) fn take_allocated(&mut self) -> Vec<(ChunkPlace, Result<ChunkHandle, Failure>)> {
        std::mem::take(&mut self.allocated)
    }

    /// What came of chunks that were to be sealed.
    pub(crate) fn take_sealed(&mut self) -> Vec<SetOutcome> {
        std::mem::take(&mut self.sealed)
    }
}
