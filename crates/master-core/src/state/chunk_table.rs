//! Chunks by file and index, and by handle.
//!
//! - C1: `by_place` and `by_handle` name each other: every chunk has one place, every place one
//!   chunk.

use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, EntryId};
use std::collections::BTreeMap;

cairn_types::message! {
    /// What is logged of a chunk.
    #[derive(Copy)]
    pub struct ChunkRecord {
        1 => file: EntryId,
        2 => index: ChunkIndex,
        /// The last logged version: what every replica of the set stands at, or above (R9).
        3 => version: ChunkVersion,
        /// How many replicas took part in that raise.
        4 => set_size: u32,
        /// No append any more (R18).
        5 => closed: bool,
        /// How many replicas it shall have.
        6 => goal: u32,
    }
}

/// All chunks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChunkTable {
    by_place: BTreeMap<(EntryId, ChunkIndex), ChunkHandle>,
    by_handle: BTreeMap<ChunkHandle, ChunkRecord>,
}

impl ChunkTable {
    pub(super) fn at(&self, file: EntryId, index: ChunkIndex) -> Option<ChunkHandle> {
        self.by_place.get(&(file, index)).copied()
    }

    pub(super) fn last(&self, file: EntryId) -> Option<(ChunkIndex, ChunkHandle)> {
        let whole = (file, ChunkIndex::default())..=(file, ChunkIndex::new(u64::MAX));
        self.by_place.range(whole).next_back().map(|((_, index), handle)| (*index, *handle))
    }

    pub(super) fn of_file(
        &self,
        file: EntryId,
        first: ChunkIndex,
    ) -> impl Iterator<Item = (ChunkIndex, ChunkHandle)> + use<'_> {
        let rest = (file, first)..=(file, ChunkIndex::new(u64::MAX));
        self.by_place.range(rest).map(|((_, index), handle)| (*index, *handle))
    }

    pub(super) fn get(&self, handle: ChunkHandle) -> Option<&ChunkRecord> {
        self.by_handle.get(&handle)
    }

    pub(super) fn get_mut(&mut self, handle: ChunkHandle) -> Option<&mut ChunkRecord> {
        self.by_handle.get_mut(&handle)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChunkHandle, &ChunkRecord)> {
        self.by_handle.iter().map(|(handle, record)| (*handle, record))
    }

    pub(super) fn iter_from(
        &self,
        first: ChunkHandle,
    ) -> impl Iterator<Item = (ChunkHandle, &ChunkRecord)> {
        self.by_handle.range(first..).map(|(handle, record)| (*handle, record))
    }

    pub(super) fn count(&self) -> u64 {
        self.by_handle.len() as u64
    }

    /// Enters a chunk whose place and handle are free (C1).
    pub(super) fn insert(&mut self, handle: ChunkHandle, record: ChunkRecord) {
        self.by_place.insert((record.file, record.index), handle);
        self.by_handle.insert(handle, record);
    }
}
