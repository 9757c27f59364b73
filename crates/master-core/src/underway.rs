//! What is under way, as far as rules and other jobs may know of it: which place changes which
//! chunk.
//!
//! - K1: at most one raise of a chunk is under way: whoever starts one looks here first (R7).
//! - K2: a handle is *in the making* from before the first server hears of it until its record is
//!   applied or given up (R33).
//!
//! The scheduler writes down here what its jobs say of themselves whenever one has changed.

use crate::chunk_place::ChunkPlace;
use cairn_types::{ChunkHandle, ChunkIndex, EntryId};
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
    /// The same, of what closed chunks have, and the log is to know nothing of it yet.
    Assembling(ChunkHandle),
    /// It changes the replicas of `shared`, and makes `copy` of them.
    Copying { shared: ChunkHandle, copy: ChunkHandle },
}

impl Activity {
    /// The chunk whose replicas or lease it changes.
    pub(crate) fn handle(self) -> Option<ChunkHandle> {
        match self {
            Self::Nothing => None,
            Self::Changing(handle)
            | Self::Shrinking(handle)
            | Self::Closing(handle)
            | Self::Making(handle)
            | Self::Assembling(handle)
            | Self::Copying { shared: handle, .. } => Some(handle),
        }
    }

    /// The chunk that it makes (K2).
    fn made(self) -> Option<ChunkHandle> {
        match self {
            Self::Making(handle)
            | Self::Assembling(handle)
            | Self::Copying { copy: handle, .. } => Some(handle),
            Self::Nothing | Self::Changing(_) | Self::Shrinking(_) | Self::Closing(_) => None,
        }
    }

    /// The chunk that it raises (K1).
    fn raised(self) -> Option<ChunkHandle> {
        match self {
            Self::Changing(handle)
            | Self::Shrinking(handle)
            | Self::Copying { shared: handle, .. } => Some(handle),
            Self::Nothing | Self::Closing(_) | Self::Making(_) | Self::Assembling(_) => None,
        }
    }
}

/// What is under way at each place.
#[derive(Debug, Default)]
pub(crate) struct Underway {
    places: BTreeMap<ChunkPlace, Activity>,
    /// The chunks that jobs change: one that files share may be changed at a place of any of them.
    changed: BTreeSet<(ChunkHandle, ChunkPlace)>,
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
        if let Some(handle) = before.and_then(Activity::made) {
            let known = self.making.remove(&handle);
            assert!(known, "chunk {} was being made (K2)", handle.short());
        }
        if let Some(handle) = before.and_then(Activity::handle) {
            self.changed.remove(&(handle, place));
        }
        if let Some(handle) = doing.and_then(Activity::raised) {
            assert!(!self.is_raised(place, handle), "one raise of a chunk at a time (K1)");
        }
        if let Some(handle) = doing.and_then(Activity::handle) {
            self.changed.insert((handle, place));
        }
        if let Some(handle) = doing.and_then(Activity::made) {
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

    /// Whether anything is done at any place of the file.
    pub(crate) fn is_busy(&self, file: EntryId) -> bool {
        let mut of_file = self.places.range(ChunkPlace::all_of(file));
        of_file.any(|(_, doing)| *doing != Activity::Nothing)
    }

    /// Whether the job of another place changes this chunk right now (K1).
    pub(crate) fn is_taken(&self, place: ChunkPlace, handle: ChunkHandle) -> bool {
        self.changing(handle).any(|other| other != place)
    }

    /// Whether a job, of whichever place, makes a file a copy of its own of this chunk.
    pub(crate) fn is_copied_for(&self, file: EntryId, handle: ChunkHandle) -> bool {
        let copies = |place| matches!(self.at(place), Activity::Copying { .. });
        self.changing(handle).any(|place| place.file == file && copies(place))
    }

    /// Whether the job of another place raises this chunk.
    fn is_raised(&self, place: ChunkPlace, handle: ChunkHandle) -> bool {
        let raises = |other| self.at(other).raised() == Some(handle);
        self.changing(handle).any(|other| other != place && raises(other))
    }

    /// The places whose jobs change this chunk.
    fn changing(&self, handle: ChunkHandle) -> impl Iterator<Item = ChunkPlace> {
        let all = (handle, ChunkPlace::FIRST)..=(handle, ChunkPlace::LAST);
        self.changed.range(all).map(|(_, place)| *place)
    }

    /// The places at which something is done that is of before a snapshot, or of after it.
    pub(crate) fn busy(&self) -> impl Iterator<Item = ChunkPlace> {
        let busy = |(place, doing): (&ChunkPlace, &Activity)| {
            (!matches!(doing, Activity::Nothing | Activity::Assembling(_))).then_some(*place)
        };
        self.places.iter().filter_map(busy)
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
