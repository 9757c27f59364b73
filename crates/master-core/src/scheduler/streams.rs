//! Chunks of streams, which no client waits for here: the room of streams (`streams/`) begins their
//! jobs, and asks what came of them.

use super::Scheduler;
use crate::chunk_place::ChunkPlace;
use crate::jobs::PlaceJob;
use crate::jobs::allocate::{AllocateJob, StreamWriter};
use crate::jobs::seal::SealJob;
use crate::step::ChunkStep;
use cairn_protocol::Failure;
use cairn_types::{ChunkHandle, ChunkIndex, EntryId};

impl Scheduler {
    /// Begins to make a chunk for a producer, at the first free place behind all others of its
    /// file: there it is until [`Self::take_allocated`] tells what came of it.
    pub(crate) fn allocate(
        &mut self,
        step: &mut ChunkStep<'_>,
        (file, writer): (EntryId, &StreamWriter),
    ) -> ChunkPlace {
        let count = step.state.entry(file).map_or(0, |entry| entry.chunk_count);
        let mut place = ChunkPlace::new(file, ChunkIndex::new(count));
        while self.places.get(place).is_some() {
            place = place.next();
        }
        self.places.work_at(place, step.now.time);
        self.start(step, place, |at, acts| {
            AllocateJob::start(at, writer.clone(), acts).map(PlaceJob::Allocate)
        });
        place
    }

    /// Begins to seal a chunk, if nothing else is done with it; whether it was begun.
    pub(crate) fn seal(&mut self, step: &mut ChunkStep<'_>, handle: ChunkHandle) -> bool {
        self.change_set(step, handle, |view, chunk, acts| {
            SealJob::start(view, (handle, chunk), acts).map(PlaceJob::Seal)
        })
    }

    /// What came of chunks that were to be made.
    pub(crate) fn take_allocated(&mut self) -> Vec<(ChunkPlace, Result<ChunkHandle, Failure>)> {
        std::mem::take(&mut self.allocated)
    }

    /// What came of chunks that were to be sealed.
    pub(crate) fn take_sealed(&mut self) -> Vec<(ChunkHandle, Result<(), Failure>)> {
        std::mem::take(&mut self.sealed)
    }
}
