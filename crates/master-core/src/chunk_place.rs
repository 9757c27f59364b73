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
    /// No place is before this one.
    pub(crate) const FIRST: Self = Self { file: EntryId::new(0), index: ChunkIndex::new(0) };
    /// No place is behind this one.
    pub(crate) const LAST: Self =
        Self { file: EntryId::new(u64::MAX), index: ChunkIndex::new(u64::MAX) };

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

/// The offset in its file at which a chunk ends. Clients choose indexes: none of them makes it too
/// large for a number.
pub(crate) fn end_of_chunk(index: ChunkIndex, chunk_size: u64) -> u64 {
    index.get().saturating_add(1).saturating_mul(chunk_size)
}

impl fmt::Display for ChunkPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {} of file {}", self.index, self.file.short())
    }
}
