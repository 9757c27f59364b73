//! Copies of chunks within a data directory: blocks of one go into the clone that another is to be
//! made of, each verified on its way (R32).
//!
//! - LC1: a block that does not match its checksum is not copied, and nothing is made of the rest.

use crate::chunk_store::ChunkStore;
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
}
