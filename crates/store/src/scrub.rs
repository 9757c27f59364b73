//! Verifying what is stored before anybody asks for it (GFS §5.2): some blocks at a time, and the
//! head that says what they are.
//!
//! - SC1: a block that cannot be read, however often, is as bad as one that does not match
//!   (`reading.rs`).
//! - SC2: a head is known to its server: one that rots is written anew, and nothing is lost.

use crate::chunk::Chunk;
use crate::chunk_files::{ChunkDirectory, ChunkFiles};
use crate::reading::is_good;
use crate::whole_files::disk_error;
use cairn_env::{ChunkError, IoFailure};
use cairn_format::{ChunkHead, HEAD_SLOT_SIZE};

/// Bytes verified at once: nothing else is done with the chunk meanwhile.
const SCRUB_SIZE: u64 = 1 << 20;
/// Verifies blocks from `offset` on: bytes read, where the next part begins, whether all was good.
pub(crate) fn scrub(
    chunk: &mut Chunk,
    chunks: &ChunkDirectory,
    offset: u64,
) -> Result<(u64, Option<u64>, bool), ChunkError> {
    let block_size = u64::from(chunk.head.block_size);
    let files = chunks.files(chunk.head.handle, false)?;
    let end = (offset + SCRUB_SIZE.max(block_size)).min(chunk.head.length);
    for block in offset / block_size..end.div_ceil(block_size) {
        if !is_good(&files, &chunk.head, block)? {
            return Ok((end.saturating_sub(offset), None, false));
        }
    }
    if end < chunk.head.length {
        return Ok((end - offset, Some(end - end % block_size), true));
    }
    if !is_head_stored(chunk, &files)? {
        chunk.settle_slots(chunks)?;
        let head = ChunkHead { sequence: chunk.head.sequence + 1, ..chunk.head };
        chunk.write_head(&files, head)?;
        chunk.sync(chunks)?;
    }
    Ok((end.saturating_sub(offset), None, true))
}

/// Whether the newest head stands where it should (SC2).
fn is_head_stored(chunk: &Chunk, files: &ChunkFiles) -> Result<bool, ChunkError> {
    let mut slot = vec![0; HEAD_SLOT_SIZE];
    match files.meta.read_at(&mut slot, (chunk.slot * HEAD_SLOT_SIZE) as u64) {
        Ok(_) => Ok(ChunkHead::decode(&slot).is_ok_and(|head| head == chunk.head)),
        Err(IoFailure::Device) => Ok(false),
        Err(failure) => Err(disk_error(failure).into()),
    }
}
