//! Reading a replica's bytes with their checksums (GFS §5.2).
//!
//! ```text
//!   asked        ├───────────────────┤
//!   blocks   |........|........|........|     what travels is what was asked for
//!                cut     whole    cut
//! ```
//! - B1: a whole block travels with its stored checksum; whoever receives it verifies it.
//! - B2: a block that is cut is verified here first, and the piece gets a checksum of its own.
//! - B3: what is read need not pass through this process: its pages are sent. A block that is
//!   overwritten meanwhile would not match the checksum beside it, and who reads would find it bad
//!   on every replica in turn; so a chunk whose bytes have been changed in place is copied.

use crate::chunk_files::ChunkFiles;
use crate::whole_files::disk_error;
use bytes::Bytes;
use cairn_env::buffer_pool::BufferPool;
use cairn_env::{ChunkError, DiskError, IoFailure, Payload, ReadDone};
use cairn_format::{
    ChunkHead, block_checksum_offset, decode_block_checksum, decode_block_checksums,
};
use cairn_types::{BlockChecksums, Crc32c, crc32c};
use std::ops::Range;

/// Times that a block, or a part of a journal, is read before it counts as unreadable.
pub(crate) const READS_MAX: u32 = 3;

/// Blocks that are copied, however they may be read: for so few a pipe is no gain.
const BLOCKS_COPIED_MAX: u64 = 2;
/// Bytes that another server is given at once, unless a single block is larger.
const FETCH_SIZE_MAX: u64 = 4 << 20;

fn memory(size: u64) -> usize {
    usize::try_from(size).expect("a range within a chunk of at most 4 GiB")
}

/// The stored bytes of a block of this head, as a range of the chunk.
fn block_range(head: &ChunkHead, block: u64) -> Range<u64> {
    let size = u64::from(head.block_size);
    block * size..((block + 1) * size).min(head.length)
}

/// Stored blocks, the last of which may be partial.
fn block_count(head: &ChunkHead) -> u64 {
    head.length.div_ceil(u64::from(head.block_size))
}

/// The checksums that the sidecar has for blocks `blocks`; a partial last one's is the head's.
fn stored_checksums(
    files: &ChunkFiles,
    head: &ChunkHead,
    blocks: Range<u64>,
) -> Result<Vec<Crc32c>, ChunkError> {
    let whole = blocks.start..blocks.end.min(head.whole_blocks()).max(blocks.start);
    let mut raw = vec![0; memory(4 * (whole.end - whole.start))];
    if !raw.is_empty() {
        let offset = block_checksum_offset(whole.start);
        let read = files.meta.read_at(&mut raw, offset).map_err(disk_error)?;
        if read < raw.len() {
            let missing = whole.start + read as u64 / 4;
            return Err(ChunkError::Corrupt { offset: missing * u64::from(head.block_size) });
        }
    }
    let mut sums = decode_block_checksums(head.handle, whole.start, &raw);
    if blocks.end > head.whole_blocks() && head.tail_size() > 0 {
        sums.push(head.tail_checksum);
    }
    Ok(sums)
}

/// The checksum of one of these blocks, as they are stored.
fn stored_checksum(
    files: &ChunkFiles,
    head: &ChunkHead,
    block: u64,
) -> Result<Option<Crc32c>, ChunkError> {
    if block >= head.whole_blocks() {
        return Ok((head.tail_size() > 0).then_some(head.tail_checksum));
    }
    let mut raw = [0; 4];
    let read = files.meta.read_at(&mut raw, block_checksum_offset(block)).map_err(disk_error)?;
    if read < raw.len() {
        return Err(ChunkError::Corrupt { offset: block * u64::from(head.block_size) });
    }
    Ok(Some(decode_block_checksum(head.handle, block, raw)))
}

/// Whether a block matches its checksum; one that cannot be read, however often, does not. What
/// `memory` holds is for the next block.
pub(crate) fn is_good(
    files: &ChunkFiles,
    head: &ChunkHead,
    block: u64,
    memory: &mut Vec<u8>,
) -> Result<bool, ChunkError> {
    for _ in 0..READS_MAX {
        match read_block_into(files, head, block, memory) {
            Ok(()) => return Ok(true),
            Err(ChunkError::Corrupt { .. }) => return Ok(false),
            Err(ChunkError::Disk(DiskError::Io(IoFailure::Device))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Fills `bytes` with what is stored from `start` on; a file that ends too soon is corrupt.
fn fill_stored(
    files: &ChunkFiles,
    head: &ChunkHead,
    start: u64,
    bytes: &mut [u8],
) -> Result<(), ChunkError> {
    let read = files.data.read_at(bytes, start).map_err(disk_error)?;
    if read < bytes.len() {
        let end = start + read as u64;
        return Err(ChunkError::Corrupt { offset: end - end % u64::from(head.block_size) });
    }
    Ok(())
}

/// A range of what is stored, in a buffer of the pool.
fn stored_bytes(
    files: &ChunkFiles,
    head: &ChunkHead,
    start: u64,
    size: usize,
    pool: &BufferPool,
) -> Result<Bytes, ChunkError> {
    let mut buffer = pool.take(size);
    fill_stored(files, head, start, buffer.to_fill())?;
    Ok(buffer.freeze())
}

/// One block, verified.
pub(crate) fn read_block(
    files: &ChunkFiles,
    head: &ChunkHead,
    block: u64,
) -> Result<Vec<u8>, ChunkError> {
    let mut bytes = Vec::new();
    read_block_into(files, head, block, &mut bytes)?;
    Ok(bytes)
}

/// The same, in memory that is there.
fn read_block_into(
    files: &ChunkFiles,
    head: &ChunkHead,
    block: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), ChunkError> {
    let range = block_range(head, block);
    bytes.resize(memory(range.end - range.start), 0);
    fill_stored(files, head, range.start, bytes)?;
    if stored_checksum(files, head, block)? == Some(crc32c(bytes)) {
        Ok(())
    } else {
        Err(ChunkError::Corrupt { offset: range.start })
    }
}

/// Whether the blocks from `first` on match their checksums.
pub(crate) fn verify_from(
    files: &ChunkFiles,
    head: &ChunkHead,
    first: u64,
) -> Result<bool, DiskError> {
    let mut memory = Vec::new();
    for block in first..block_count(head) {
        match read_block_into(files, head, block, &mut memory) {
            Ok(()) => {}
            Err(ChunkError::Disk(error)) => return Err(error),
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// The checksums of all stored blocks.
pub(crate) fn all_checksums(
    files: &ChunkFiles,
    head: &ChunkHead,
) -> Result<BlockChecksums, ChunkError> {
    stored_checksums(files, head, 0..block_count(head)).map(BlockChecksums)
}

/// Reads the first run of whole blocks from `offset` on that differ from those of another replica,
/// which has `length` bytes and, from `offset` on, the checksums `known`. Each is verified: what is
/// damaged here must not spread. At most `size_max` bytes, where a block is not larger; zero: as
/// many as go at once.
pub(crate) fn read_differing(
    files: &ChunkFiles,
    head: &ChunkHead,
    offset: u64,
    (length, known): (u64, &BlockChecksums),
    (size_max, pool): (u64, &BufferPool),
) -> Result<ReadDone, ChunkError> {
    if offset >= head.length {
        return Ok(ReadDone { offset, ..ReadDone::default() });
    }
    let block_size = u64::from(head.block_size);
    let first = offset / block_size;
    let all = first..block_count(head).max(first);
    let stored = stored_checksums(files, head, all.clone())?;
    let differs = |block: &u64| {
        let range = block_range(head, *block);
        let theirs = range.start..((block + 1) * block_size).min(length);
        let at = memory(block - first);
        range != theirs || known.0.get(at) != stored.get(at)
    };
    let Some(start) = all.clone().find(differs) else {
        return Ok(ReadDone { offset: head.length, ..ReadDone::default() });
    };
    let size_max = if size_max == 0 { FETCH_SIZE_MAX } else { size_max.min(FETCH_SIZE_MAX) };
    let at_once = (size_max / block_size).max(1);
    let end = start + (start..all.end).take(memory(at_once)).take_while(differs).count() as u64;
    let offset = start * block_size;
    let size = memory(block_range(head, end - 1).end - offset);
    let bytes = stored_bytes(files, head, offset, size, pool)?;
    let checksums = BlockChecksums(stored[memory(start - first)..memory(end - first)].to_vec());
    match checksums.first_mismatch(offset, &bytes, head.block_size) {
        Some(offset) => Err(ChunkError::Corrupt { offset }),
        None => Ok(ReadDone { offset, payload: bytes.into(), checksums }),
    }
}

/// How more than a few blocks are read (B3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// The file's own pages are sent.
    Hold,
    /// They are copied while nothing changes the chunk.
    Copy,
}

/// Reads `size` bytes from `offset`, or fewer where the replica ends (B1, B2).
pub(crate) fn read(
    files: &ChunkFiles,
    head: &ChunkHead,
    offset: u64,
    size: u64,
    how: ReadMode,
    pool: &BufferPool,
) -> Result<ReadDone, ChunkError> {
    let end = offset.saturating_add(size).min(head.length);
    if offset >= end {
        return Ok(ReadDone { offset, ..ReadDone::default() });
    }
    let block_size = u64::from(head.block_size);
    let (first, last) = (offset / block_size, (end - 1) / block_size);
    let mut checksums = stored_checksums(files, head, first..last + 1)?;
    let (start, size) = (first * block_size, memory(end - offset));
    let cut: Vec<u64> = (first..=last)
        .step_by(memory(last - first).max(1))
        .filter(|block| {
            let range = block_range(head, *block);
            range.start < offset || end < range.end
        })
        .collect();
    // B2
    let mut cut_out = |block: u64, bytes: &[u8]| {
        let range = block_range(head, block);
        let piece = range.start.max(offset)..range.end.min(end);
        let sum = &mut checksums[memory(block - first)];
        if *sum != crc32c(bytes) {
            return Err(ChunkError::Corrupt { offset: range.start });
        }
        *sum = crc32c(&bytes[memory(piece.start - range.start)..memory(piece.end - range.start)]);
        Ok(())
    };
    let held = match how {
        ReadMode::Hold if last - first >= BLOCKS_COPIED_MAX => {
            files.data.hold(offset, size).map_err(disk_error)?
        }
        ReadMode::Hold | ReadMode::Copy => None,
    };
    let payload = if let Some(held) = held {
        for block in cut {
            let range = block_range(head, block);
            let size = memory(range.end - range.start);
            cut_out(block, &stored_bytes(files, head, range.start, size, pool)?)?;
        }
        Payload::Held(held)
    } else {
        let whole = memory(block_range(head, last).end - start);
        let bytes = stored_bytes(files, head, start, whole, pool)?;
        for block in cut {
            let range = block_range(head, block);
            cut_out(block, &bytes[memory(range.start - start)..memory(range.end - start)])?;
        }
        let skipped = memory(offset - start);
        Payload::Bytes(bytes.slice(skipped..skipped + size))
    };
    Ok(ReadDone { offset, payload, checksums: BlockChecksums(checksums) })
}
