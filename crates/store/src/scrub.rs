//! Verifying what is stored before anybody asks for it (GFS §5.2): some blocks at a time, and the
//! head that says what they are.
//!
//! - SC1: a block that cannot be read, however often, is as bad as one that does not match
//!   (`reading.rs`).
//! - SC2: a head is known to its server: a slot that rots, of the newest head or of the one before,
//!   is written anew, and nothing is lost. A start that finds it rotten cannot know whether it was
//!   the newer one (recovery.rs, V4).
//! - SC3: a file that is open outlives its name: whoever judges a replica looks for the name.

use crate::chunk::Chunk;
use crate::chunk_files::{ChunkDirectory, ChunkFiles};
use crate::chunk_store::{ChunkStore, locked};
use crate::chunk_store_open::stands_at;
use crate::reading::is_good;
use crate::recovery::{HeadSlot, read_slot};
use crate::whole_files::disk_error;
use cairn_env::{ChunkError, IoFailure};
use cairn_format::{ChunkHead, HEAD_SLOT_SIZE, block_checksum_offset};
use cairn_protocol::{ReplicaFault, ReplicaReport};
use cairn_types::ChunkHandle;

/// Bytes verified at once: nothing else is done with the chunk meanwhile.
const SCRUB_SIZE: u64 = 1 << 20;

impl ChunkStore {
    /// Verifies some blocks from `offset` on, and behind the last of them the head that says what
    /// they are: bytes read, where the next part begins, behind a bad block where there is one, and
    /// where that begins.
    ///
    /// # Errors
    /// [`ChunkError`] where it cannot be said.
    pub fn scrub(
        &self,
        handle: ChunkHandle,
        offset: u64,
    ) -> Result<(u64, Option<u64>, Option<u64>), ChunkError> {
        self.with_chunk(handle, |chunk| scrub(chunk, &self.directory, offset))
    }

    /// Recovers a chunk that this life's start could not read, or whose last change failed
    /// half-way; how it stands. What may be in the page cache alone is brought to disk before
    /// anybody hears of it, as a start does.
    ///
    /// # Errors
    /// [`ChunkError`] where it still cannot be read, or bytes of it are missing or wrong.
    pub fn reopen(&self, handle: ChunkHandle) -> Result<ReplicaReport, ChunkError> {
        self.with_chunk(handle, |chunk| {
            chunk.sync(&self.directory)?;
            let line = locked(&self.journal).replica(handle).ok_or(ChunkError::NoSuchChunk)?;
            Ok(stands_at(&line, &chunk.head))
        })
    }

    /// Whether a chunk's files are there, and as long as they should be; and whether its file was
    /// made as a clone of another's.
    ///
    /// # Errors
    /// [`ChunkError`] where it cannot be said, or was lost before.
    pub fn look(&self, handle: ChunkHandle) -> Result<(ReplicaFault, bool), ChunkError> {
        self.with_chunk(handle, |chunk| Ok((look(chunk, &self.directory)?, chunk.head.reflinked)))
    }
}

/// Looks for the names of a chunk's files (SC3). Where one is gone, what the chunk holds is lost,
/// and nobody is to be given what is left of it.
fn missing(chunk: &mut Chunk, chunks: &ChunkDirectory) -> Result<ReplicaFault, ChunkError> {
    for (kind, fault) in [("chunk", ReplicaFault::NoFile), ("meta", ReplicaFault::NoSidecar)] {
        if !chunks.has(chunk.head.handle, kind)? {
            chunk.head_lost = true;
            return Ok(fault);
        }
    }
    Ok(ReplicaFault::Sound)
}

fn look(chunk: &mut Chunk, chunks: &ChunkDirectory) -> Result<ReplicaFault, ChunkError> {
    let fault = missing(chunk, chunks)?;
    if fault != ReplicaFault::Sound {
        return Ok(fault);
    }
    let files = chunks.files(chunk.head.handle, false)?;
    let data = files.data.size().map_err(disk_error)?;
    let meta = files.meta.size().map_err(disk_error)?;
    // A sidecar without checksums has one head at the least.
    let checksums_end = match chunk.head.whole_blocks() {
        0 => HEAD_SLOT_SIZE as u64,
        count => block_checksum_offset(count),
    };
    let short = data < chunk.head.length || meta < checksums_end;
    Ok(if short { ReplicaFault::Short } else { ReplicaFault::Sound })
}

fn scrub(
    chunk: &mut Chunk,
    chunks: &ChunkDirectory,
    offset: u64,
) -> Result<(u64, Option<u64>, Option<u64>), ChunkError> {
    let block_size = u64::from(chunk.head.block_size);
    if offset == 0 && missing(chunk, chunks)? != ReplicaFault::Sound {
        return Err(ChunkError::Corrupt { offset: 0 });
    }
    let files = chunks.files(chunk.head.handle, false)?;
    let end = offset.saturating_add(SCRUB_SIZE.max(block_size)).min(chunk.head.length);
    let mut memory = Vec::new();
    for block in offset / block_size..end.div_ceil(block_size) {
        if !is_good(&files, &chunk.head, block, &mut memory)? {
            let (bad, next) = (block * block_size, (block + 1) * block_size);
            let next = (next < chunk.head.length).then_some(next);
            return Ok((end.saturating_sub(offset), next, Some(bad)));
        }
    }
    if end < chunk.head.length {
        return Ok((end - offset, Some(end - end % block_size), None));
    }
    mend_heads(chunk, chunks, &files)?;
    Ok((end.saturating_sub(offset), None, None))
}

/// Writes the head anew, durably, until both slots hold what a start may find there (SC2). It takes
/// the slot that an ordinary head would (R26).
fn mend_heads(
    chunk: &mut Chunk,
    chunks: &ChunkDirectory,
    files: &ChunkFiles,
) -> Result<(), ChunkError> {
    for _ in 0..2 {
        let newest = stored_slot(chunk, files, chunk.slot)?;
        if !matches!(newest, HeadSlot::Written(head) if head == chunk.head) {
            // Where this was the synced one, it goes into the other slot at first.
            chunk.settle_slots(chunks)?;
        } else if matches!(stored_slot(chunk, files, 1 - chunk.slot)?, HeadSlot::Rotten) {
            // It may be the synced one: the newest is on disk before anything is written there.
            chunk.settle_slots(chunks)?;
            chunk.sync(chunks)?;
        } else {
            return Ok(());
        }
        let head = ChunkHead { sequence: chunk.head.sequence + 1, ..chunk.head };
        chunk.write_head(files, head)?;
        chunk.sync(chunks)?;
    }
    Ok(())
}

/// What a slot holds on disk; one that cannot be read holds nothing.
fn stored_slot(chunk: &Chunk, files: &ChunkFiles, slot: usize) -> Result<HeadSlot, ChunkError> {
    let mut raw = vec![0; HEAD_SLOT_SIZE];
    match files.meta.read_at(&mut raw, (slot * HEAD_SLOT_SIZE) as u64) {
        Ok(_) => Ok(read_slot(&raw, chunk.head.handle)),
        Err(IoFailure::Device) => Ok(HeadSlot::Rotten),
        Err(failure) => Err(disk_error(failure).into()),
    }
}
