//! What is under way, as far as rules and other jobs may know of it: which place changes which
//! chunk.
//!
//! - K1: at most one raise of a chunk is under way: whoever starts one looks here first (R7).
//! - K2: a handle is *in the making* from before the first server hears of it until its record is
//!   applied or given up (R33).
//!
//! The scheduler writes down here what its jobs say of themselves whenever one has changed.

use crate::chunk_place::ChunkPlace;
use cairn_types::{ChunkHandle, ChunkIndex};
use std::collections::{BTreeMap, BTreeSet};

/// What the job of a place does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It changes no replica and no lease: it waits, or asks.
    #[default]
    Nothing,
    /// It changes the replicas or the lease of this chunk.
    Changing(ChunkHandle),
    /// The same, while the chunk's lease goes on.
    Shrinking(ChunkHandle),
    /// It has this chunk's close logged, and changes no replica.
    Closing(ChunkHandle),
    /// It makes this chunk.
    Making(ChunkHandle),
}

impl Activity {
    /// The chunk whose replicas or lease it changes.
    pub(crate) fn handle(self) -> Option<ChunkHandle> {
        match self {
            Self::Nothing => None,
            Self::Changing(handle)
            | Self::Shrinking(handle)
            | Self::Closing(handle)
            | Self::Making(handle) => Some(handle),
        }
    }
}

/// What is under way at each place.
#[derive(Debug, Default)]
pub(crate) struct Underway {
    places: BTreeMap<ChunkPlace, Activity>,
    making: BTreeSet<ChunkHandle>,
}

impl Underway {
    /// Writes down what is done at a place from now on; none: nothing at all.
    pub(crate) fn set(&mut self, place: ChunkPlace, doing: Option<Activity>) {
        let before = match doing {
            Some(doing) => self.places.insert(place, doing),
            None => self.places.remove(&place),
        };
        if before == doing {
            return;
        }
        if let Some(Activity::Making(handle)) = before {
            let known = self.making.remove(&handle);
            assert!(known, "chunk {} was being made (K2)", handle.short());
        }
        if let Some(Activity::Changing(handle) | Activity::Shrinking(handle)) = doing {
            assert!(!self.is_raised(place, handle), "one raise of a chunk at a time (K1)");
        }
        if let Some(Activity::Making(handle)) = doing {
            let fresh = self.making.insert(handle);
            assert!(fresh, "chunk {} is made at one place", handle.short());
        }
    }

    /// Whether there is a job at the place, waiting or not.
    pub(crate) fn has_job(&self, place: ChunkPlace) -> bool {
        self.places.contains_key(&place)
    }

    /// What is done at the place.
    pub(crate) fn at(&self, place: ChunkPlace) -> Activity {
        self.places.get(&place).copied().unwrap_or_default()
    }

    /// Whether the job of another place of the file changes this chunk right now (K1).
    pub(crate) fn is_taken(&self, place: ChunkPlace, handle: ChunkHandle) -> bool {
        let mut of_file = self.places.range(ChunkPlace::all_of(place.file));
        of_file.any(|(other, doing)| *other != place && doing.handle() == Some(handle))
    }

    /// Whether the job of another place raises this chunk.
    fn is_raised(&self, place: ChunkPlace, handle: ChunkHandle) -> bool {
        let raises = [Activity::Changing(handle), Activity::Shrinking(handle)];
        let mut of_file = self.places.range(ChunkPlace::all_of(place.file));
        of_file.any(|(other, doing)| *other != place && raises.contains(doing))
    }

    /// The next place of the file that has a job: where it makes a chunk, the present last one is
    /// about to be closed.
    pub(crate) fn later(&self, place: ChunkPlace) -> Option<ChunkIndex> {
        self.places.range(place.behind()).next().map(|(later, _)| later.index)
    }

    /// The lowest handle that is in the making (K2).
    pub(crate) fn lowest_made(&self) -> Option<ChunkHandle> {
        self.making.first().copied()
    }

    /// Whether the handle is in the making (K2).
    pub(crate) fn makes(&self, handle: ChunkHandle) -> bool {
        self.making.contains(&handle)
    }
}
