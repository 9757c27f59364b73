//! A chunk's place in a file: what is under way goes by it, because a chunk that is being made has
//! no handle yet.

use cairn_types::{ChunkIndex, EntryId};
use std::fmt;
use std::ops::RangeInclusive;

/// Chunk `index` of `file`, whether there is one or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChunkPlace {
    pub(crate) file: EntryId,
    pub(crate) index: ChunkIndex,
}

impl ChunkPlace {
    pub(crate) fn new(file: EntryId, index: ChunkIndex) -> Self {
        Self { file, index }
    }

    /// The place after it.
    pub(crate) fn next(self) -> Self {
        Self { index: self.index.next(), ..self }
    }

    /// All places of a file.
    pub(crate) fn all_of(file: EntryId) -> RangeInclusive<Self> {
        Self::new(file, ChunkIndex::default())..=Self::new(file, ChunkIndex::new(u64::MAX))
    }

    /// All places of its file behind it.
    pub(crate) fn behind(self) -> RangeInclusive<Self> {
        self.next()..=Self { index: ChunkIndex::new(u64::MAX), ..self }
    }
}

impl fmt::Display for ChunkPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {} of file {}", self.index, self.file.short())
    }
}
