//! Bundles at the end of a stream's chunk: appended once, in their order, and compared where they
//! are there already (R40).
//!
//! ```text
//!   serial number   up to the last   ► compared, byte for byte      the one after it ► appended
//!                   any other        ► refused: a gap
//! ```
//! - EX1: a serial number stands for one content: whoever brings it again, brings the same bytes to
//!   the same place, or is refused.
//! - EX2: a replica of so many serial numbers is as long as their bundles together: a crash leaves
//!   whole bundles, for the head tells both (R26).

use crate::chunk::Chunk;
use crate::chunk_store::ChunkStore;
use crate::mutation::{AcknowledgedMark, ReadyMutation};
use crate::reading::read_block;
use cairn_env::ChunkError;
use cairn_format::ChunkHead;
use cairn_types::planted::{self, Rule};
use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber};

/// Whether a bundle is to be appended; if not, it is there already, as far as its place goes.
fn is_next(head: &ChunkHead, bundle: &ReadyMutation) -> Result<bool, ChunkError> {
    let (last, length) = (head.serial, head.length);
    if bundle.serial > last {
        let follows = bundle.serial == last.next() && bundle.offset == length;
        return if follows || planted::broken(Rule::R40) {
            Ok(true)
        } else {
            Err(ChunkError::OutOfOrder { last, length })
        };
    }
    // EX1, EX2: the last one ends the chunk, those before it do not.
    let end = bundle.end();
    let is_there = if bundle.serial == last { end == length } else { end < length };
    if is_there { Ok(false) } else { Err(ChunkError::BytesDiffer { offset: bundle.offset }) }
}

impl ChunkStore {
    /// Makes a bundle the end of a stream's chunk, or finds it there; gives the stored length and
    /// the last serial number. With `sync`, once all of it is on disk.
    ///
    /// # Errors
    /// [`ChunkError::OutOfOrder`], [`ChunkError::BytesDiffer`]: nothing was changed. Others: it may
    /// have been appended; nothing else was changed.
    pub fn extend(
        &self,
        handle: ChunkHandle,
        version: ChunkVersion,
        bundle: &ReadyMutation,
        sync: bool,
    ) -> Result<(u64, SerialNumber), ChunkError> {
        assert!(bundle.data.is_some(), "a bundle has bytes");
        self.with_chunk(handle, |chunk| {
            if is_next(&chunk.head, bundle)? {
                let (bundles, nothing) =
                    (std::slice::from_ref(bundle), AcknowledgedMark::default());
                return self.apply_to(chunk, version, bundles, nothing, sync);
            }
            self.compare(chunk, bundle)?;
            if sync {
                self.sync_all_of(chunk)?;
            }
            Ok((chunk.head.length, chunk.head.serial))
        })
    }

    /// Whether what is stored where the bundle goes is what it brings (EX1). Each block is verified
    /// on this occasion.
    fn compare(&self, chunk: &Chunk, bundle: &ReadyMutation) -> Result<(), ChunkError> {
        let files = self.directory.files(chunk.head.handle, false)?;
        let block_size = u64::from(chunk.head.block_size);
        let segments = bundle.data.iter().flat_map(|data| &data.segments);
        let (mut at, mut block) = (bundle.offset, Vec::new());
        for mut rest in segments.map(|segment| segment.as_ref()) {
            while !rest.is_empty() {
                let within = usize::try_from(at % block_size).expect("less than a block");
                if within == 0 || block.is_empty() {
                    block = read_block(&files, &chunk.head, at / block_size)?;
                }
                let size = rest.len().min(block.len() - within);
                let (here, behind) = rest.split_at(size);
                let stored = &block[within..within + size];
                if let Some(first) = here.iter().zip(stored).position(|(new, old)| new != old) {
                    return Err(ChunkError::BytesDiffer { offset: at + first as u64 });
                }
                (rest, at) = (behind, at + size as u64);
            }
        }
        Ok(())
    }
}
