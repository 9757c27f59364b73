//! Chunks of streams, which no client waits for here: the room of streams (`streams/`) begins their
//! jobs, and is told what came of them (`news.rs`).

use super::Scheduler;
use crate::chunk_place::ChunkPlace;
use crate::jobs::PlaceJob;
use crate::jobs::allocate::{AllocateJob, StreamWriter};
use crate::jobs::assemble::{AssembleJob, AssemblyPlan};
use crate::jobs::seal::SealJob;
use crate::step::ChunkStep;
use cairn_types::{ChunkHandle, ChunkIndex, EntryId};

/// The scheduler, as far as producers' chunks are concerned.
#[derive(Debug)]
pub(crate) struct WrittenChunks<'a>(pub(crate) &'a mut Scheduler);

impl WrittenChunks<'_> {
    /// Begins to make a chunk for a producer, at the first free place behind all others of its
    /// file: there it is until the news tell what came of it.
    pub(crate) fn allocate(
        &mut self,
        step: &mut ChunkStep<'_>,
        (file, writer): (EntryId, &StreamWriter),
    ) -> ChunkPlace {
        let place = self.fresh_place(step, file);
        self.0.start(step, place, |at, acts| {
            AllocateJob::start(at, writer.clone(), acts).map(PlaceJob::Allocate)
        });
        place
    }

    /// The first free place behind all others of a file, taken from here on.
    fn fresh_place(&mut self, step: &mut ChunkStep<'_>, file: EntryId) -> ChunkPlace {
        let count = step.state.entry(file).map_or(0, |entry| entry.chunk_count);
        let mut place = ChunkPlace::new(file, ChunkIndex::new(count));
        while self.0.places.get(place).is_some() {
            place = place.next();
        }
        assert!(step.state.chunk_at(file, place.index).is_none(), "a fresh place");
        self.0.places.work_at(place, step.now.time);
        place
    }

    /// Begins to make a chunk of ranges of others of its file (R45): there it is until the news
    /// tell what came of it.
    pub(crate) fn assemble(
        &mut self,
        step: &mut ChunkStep<'_>,
        (file, plan): (EntryId, AssemblyPlan),
    ) -> ChunkPlace {
        let place = self.fresh_place(step, file);
        self.0.start(step, place, |at, acts| {
            Some(PlaceJob::Assemble(AssembleJob::start(at, plan, acts)))
        });
        place
    }

    /// Begins to seal a chunk, if nothing else is done with it; whether it was begun.
    pub(crate) fn seal(&mut self, step: &mut ChunkStep<'_>, handle: ChunkHandle) -> bool {
        assert!(step.state.streams().open_chunk(handle).is_some(), "a producer writes it");
        self.0.change_set(step, handle, |view, chunk, acts| {
            SealJob::start(view, (handle, chunk), acts).map(PlaceJob::Seal)
        })
    }
}
