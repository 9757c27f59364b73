//! Chunks that are made of ranges of others (R45): each range is read with the blocks that it lies
//! in, which are verified, and goes to the end of a clone.
//!
//! - GA1: a block that does not match its checksum gives nothing to anybody.
//! - GA2: a range that is not there to its last byte gives nothing: what lacks is nobody's to
//!   guess.

use crate::chunk_store::ChunkStore;
use bytes::Bytes;
use cairn_env::{ChunkError, GatheredRange};
use cairn_types::{BlockChecksums, ChunkHandle};

/// The bytes of a range that lie in these blocks.
pub(crate) fn cut(
    (start, blocks): (u64, &Bytes),
    (from, size): (u64, u64),
) -> Result<Bytes, ChunkError> {
    let lacking = || ChunkError::FetchedDiffers { offset: from };
    let first = from.checked_sub(start).and_then(|it| usize::try_from(it).ok());
    let first = first.ok_or_else(lacking)?;
    let end = usize::try_from(size).ok().and_then(|size| first.checked_add(size));
    // GA2
    let end = end.filter(|end| *end <= blocks.len()).ok_or_else(lacking)?;
    Ok(blocks.slice(first..end))
}

impl ChunkStore {
    /// Reads a range, block by block verified, and hands its pieces on in their order.
    pub(crate) fn read_range(
        &self,
        range: GatheredRange,
        mut take: impl FnMut(&[u8]) -> Result<(), ChunkError>,
    ) -> Result<(), ChunkError> {
        let GatheredRange { of, offset, size } = range;
        let (block_size, nothing) = (u64::from(self.block_size(of)?), BlockChecksums::default());
        let lacking = ChunkError::FetchedDiffers { offset };
        let end = offset.checked_add(size).ok_or_else(|| lacking.clone())?;
        let mut at = offset;
        while at < end {
            let start = at - at % block_size;
            let done = self.fetch(of, start, (0, &nothing), end - start)?;
            let (start, bytes) = (done.offset, done.payload.into_bytes());
            let have = (start + bytes.len() as u64).min(end);
            if start > at || have <= at {
                return Err(lacking);
            }
            take(&cut((start, &bytes), (at, have - at))?)?;
            at = have;
        }
        Ok(())
    }

    /// Adds bytes that were verified at the end of a clone.
    pub(crate) fn add_to_clone(&self, to: ChunkHandle, bytes: &[u8]) -> Result<(), ChunkError> {
        self.guarded(|| self.clones.add(to, bytes))
    }
}
