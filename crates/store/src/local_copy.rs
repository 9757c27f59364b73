//! Copies of chunks within a data directory: blocks of one go into the clone that another is to be
//! made of, each verified on its way (R32); or the clone's file shares them on the disk, where the
//! file system can.
//!
//! - LC1: a block that does not match its checksum is not copied, and nothing is made of the rest.
//! - LC2: what is shared is not read: the clone takes over the checksums, and a block that is bad
//!   is bad in both and matches in neither. It is shared when all of it is in its place on the
//!   disk: synced, with nothing left in the redo journal.

use crate::chunk_files::path;
use crate::chunk_store::ChunkStore;
use crate::reading::all_checksums;
use cairn_env::ChunkError;
use cairn_types::{BlockChecksums, ChunkHandle};

impl ChunkStore {
    /// Copies blocks of `of` from `offset` on, as many as go at once, into the clone `to`, which
    /// begins anew where that is 0; gives where the next part begins, if there is one.
    pub(crate) fn copy_blocks(
        &self,
        of: ChunkHandle,
        to: ChunkHandle,
        offset: u64,
    ) -> Result<Option<u64>, ChunkError> {
        if offset == 0 {
            if self.clones.may_reflink() && self.reflink(of, to)? {
                return Ok(None);
            }
            self.clones.begin(to, self.block_size(of)?, true)?;
        }
        let nothing = BlockChecksums::default();
        let read = self.fetch(of, offset, (0, &nothing), 0)?;
        if read.payload.is_empty() {
            return Ok(None);
        }
        let bytes = read.payload.into_bytes();
        self.clones.install(to, read.offset, &read.checksums, &bytes)?;
        let block_size = u64::from(self.block_size(of)?);
        let end = read.offset + bytes.len() as u64;
        // Only the last block may be partial.
        Ok(end.is_multiple_of(block_size).then_some(end))
    }

    /// Makes the clone share the bytes of `of`; whether that can be done (LC2).
    fn reflink(&self, of: ChunkHandle, to: ChunkHandle) -> Result<bool, ChunkError> {
        self.with_chunk(of, |chunk| {
            chunk.sync(&self.directory)?;
            assert!(!chunk.unsynced, "what is synced is in its place");
            if chunk.redo.size() > 0 {
                return Ok(false);
            }
            let files = self.directory.files(of, false)?;
            let checksums = all_checksums(&files, &chunk.head)?;
            self.clones.reflink(to, &path(of, "chunk"), (&chunk.head, checksums))
        })
    }
}
