//! What came of jobs that rooms of the master began: kept until they take it.

use super::Scheduler;
use crate::chunk_place::ChunkPlace;
use cairn_protocol::Failure;
use cairn_types::ChunkHandle;

/// A chunk, and whether what was to be done with it is.
pub(crate) type SetOutcome = (ChunkHandle, Result<(), Failure>);

/// What has become of chunks since somebody took it.
#[derive(Debug, Default)]
pub(crate) struct SetNews {
    /// Clones that have joined their sets, or have not.
    pub(crate) grown: Vec<SetOutcome>,
    /// Replicas that their sets do not need, and that were left out, or were not.
    pub(crate) left_out: Vec<SetOutcome>,
    /// Producers' chunks that were made, or were not, by their places.
    pub(crate) allocated: Vec<(ChunkPlace, Result<ChunkHandle, Failure>)>,
    /// Chunks that were put in the place of ranges of streams, or were not, by their places.
    pub(crate) assembled: Vec<(ChunkPlace, Result<(), Failure>)>,
    /// Streams' chunks that were sealed, or were not.
    pub(crate) sealed: Vec<SetOutcome>,
}

impl SetNews {
    /// That of a scheduler.
    pub(crate) fn of(scheduler: &mut Scheduler) -> &mut Self {
        &mut scheduler.news
    }
}
