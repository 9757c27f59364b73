//! Which files have a chunk, as the rest of the master asks it: one, or several since a snapshot.

use super::chunk_table::ChunkRecord;
use super::names::NameTree;
use super::shared_chunks::SharedChunks;
use cairn_types::{ChunkHandle, EntryId};

/// What is asked about chunks and their files.
#[derive(Clone, Copy, Debug)]
pub struct Sharing<'a> {
    pub(super) names: &'a NameTree,
    pub(super) shared: &'a SharedChunks,
}

impl<'a> Sharing<'a> {
    /// Whether any chunk has several files.
    #[must_use]
    pub fn is_any_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Whether several files have a chunk.
    #[must_use]
    pub fn is_shared(&self, handle: ChunkHandle) -> bool {
        self.shared.is_shared(handle)
    }

    /// The files of a chunk, its owner first.
    pub fn files_of(
        &self,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
    ) -> impl Iterator<Item = EntryId> + use<'a> {
        std::iter::once(chunk.file).chain(self.shared.others(handle))
    }

    /// Whether all files of a chunk are deleted (R20).
    #[must_use]
    pub fn is_hidden(&self, handle: ChunkHandle, chunk: &ChunkRecord) -> bool {
        self.files_of(handle, chunk).all(|file| self.names.is_hidden(file))
    }

    /// A file of a chunk that is not deleted, where there is one, else its owner.
    #[must_use]
    pub fn live_file_of(&self, handle: ChunkHandle, chunk: &ChunkRecord) -> EntryId {
        if !self.is_shared(handle) {
            return chunk.file;
        }
        let live = self.files_of(handle, chunk).find(|file| !self.names.is_hidden(*file));
        live.unwrap_or(chunk.file)
    }

    /// A file of a chunk that stands below an entry, one that is not deleted where there is one.
    #[must_use]
    pub fn file_within(
        &self,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
        top: EntryId,
    ) -> Option<EntryId> {
        let mut hidden = None;
        for file in self.files_of(handle, chunk).filter(|file| self.is_within(*file, top)) {
            if !self.names.is_hidden(file) {
                return Some(file);
            }
            hidden = hidden.or(Some(file));
        }
        hidden
    }

    /// Whether an entry stands below another, or is it.
    #[must_use]
    pub fn is_within(&self, entry: EntryId, top: EntryId) -> bool {
        self.stands_in(entry, |id| id == top)
    }

    /// Whether an entry, or one that it stands in, is one of these.
    pub(crate) fn stands_in(&self, entry: EntryId, is_one: impl Fn(EntryId) -> bool) -> bool {
        self.names.way_up(entry).any(|(id, ..)| is_one(id))
    }
}
