//! What a chunk's files hold after a crash (R26, R27).
//!
//! ```text
//!   redo entries done again ──► candidates: both slots, the last redo entry's head
//!        newest that fits its data ──► file cut to its length ──► head written anew if need be
//! ```
//! - After a kill the page cache holds every write in its order: the newest head's data is there,
//!   and only its last block is looked at.
//! - After a power loss each unsynced page may be lost. What was on disk at the older slot's head
//!   is sound, or was done again; what was added since is verified block by block.
//! - A head whose number is the journal's clean one was all on disk, and is believed.

use crate::chunk::Chunk;
use crate::chunk_files::{ChunkDirectory, ChunkFiles, path};
use crate::overwrite::write_in_place;
use crate::reading::verify_from;
use crate::redo_journal::{empty_file, read_entries};
use crate::whole_files::{disk_error, read_file, sync_failure};
use cairn_env::DiskError;
use cairn_format::{ChunkHead, HEAD_SLOT_SIZE, RedoEntry, ReplicaLine};

/// A chunk as its files tell.
#[derive(Debug)]
pub(crate) struct RecoveredChunk {
    pub(crate) chunk: Chunk,
    /// Bytes that were on disk are missing or wrong.
    pub(crate) damaged: bool,
}

/// A head, and the slot it stands in; none: a redo entry's.
#[derive(Clone, Copy, Debug)]
struct HeadCandidate {
    head: ChunkHead,
    slot: Option<usize>,
}

/// Recovers the chunk of this line of the journal. `page_cache_lost`: the machine was booted
/// since it was last written to.
pub(crate) fn recover(
    chunks: &ChunkDirectory,
    line: &ReplicaLine,
    block_size: u32,
    page_cache_lost: bool,
) -> Result<RecoveredChunk, DiskError> {
    let disk = chunks.disk.as_ref();
    let meta = read_file(disk, &path(line.handle, "meta")).map_err(disk_error)?;
    let slots = read_slots(&meta.unwrap_or_default(), line);
    let entries = read_entries(disk, line.handle)?;
    let candidates = candidates(&slots, entries.last());
    let Some(newest) = candidates.first().copied() else {
        let chunk = Chunk::empty(line.handle, block_size);
        return Ok(RecoveredChunk { chunk, damaged: line.clean_sequence > 0 });
    };
    if entries.is_empty() && newest.head.sequence == line.clean_sequence {
        return Ok(RecoveredChunk { chunk: stands(newest, page_cache_lost), damaged: false });
    }
    let files = chunks.files(line.handle, true)?;
    for entry in &entries {
        write_in_place(&files, entry)?;
    }
    let oldest = slots.iter().flatten().map(|head| head.length).min().unwrap_or(0);
    let base = if slots.iter().flatten().count() == 2 { oldest } else { 0 };
    let mut chosen = None;
    for candidate in &candidates {
        if fits(&files, candidate, line, page_cache_lost.then_some(base))? {
            chosen = Some(*candidate);
            break;
        }
    }
    let damaged = chosen.is_none();
    let chosen = chosen.unwrap_or(newest);
    if files.data.size().map_err(disk_error)? > chosen.head.length {
        files.data.set_size(chosen.head.length).map_err(disk_error)?;
    }
    let chunk = if entries.is_empty() && chosen.head.sequence == newest.head.sequence {
        stands(chosen, page_cache_lost)
    } else {
        write_anew(chunks, &files, chosen, newest.head.sequence + 1, &slots)?
    };
    if !entries.is_empty() {
        empty_file(disk, line.handle)?;
    }
    Ok(RecoveredChunk { chunk, damaged })
}

fn read_slots(meta: &[u8], line: &ReplicaLine) -> [Option<ChunkHead>; 2] {
    [0, 1].map(|slot| {
        let raw = meta.get(slot * HEAD_SLOT_SIZE..)?;
        ChunkHead::decode(raw).ok().filter(|head| head.handle == line.handle)
    })
}

/// Newest first; a slot before a redo entry of the same number.
fn candidates(slots: &[Option<ChunkHead>; 2], last: Option<&RedoEntry>) -> Vec<HeadCandidate> {
    let in_slots = slots
        .iter()
        .enumerate()
        .filter_map(|(slot, head)| head.map(|head| HeadCandidate { head, slot: Some(slot) }));
    let in_redo = last.map(|entry| HeadCandidate { head: entry.head, slot: None });
    let mut found: Vec<HeadCandidate> = in_slots.chain(in_redo).collect();
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.head.sequence));
    found
}

/// Whether a head fits its data. `base`: what is looked at begins here; none: the last block.
fn fits(
    files: &ChunkFiles,
    candidate: &HeadCandidate,
    line: &ReplicaLine,
    base: Option<u64>,
) -> Result<bool, DiskError> {
    let head = &candidate.head;
    if head.sequence == line.clean_sequence {
        return Ok(true);
    }
    let last_block = head.length.saturating_sub(1) / u64::from(head.block_size);
    let from = base.map_or(last_block, |base| last_block.min(base / u64::from(head.block_size)));
    verify_from(files, head, from)
}

/// The chunk whose newest head is in its slot already.
fn stands(chosen: HeadCandidate, page_cache_lost: bool) -> Chunk {
    let slot = chosen.slot.unwrap_or(0);
    Chunk {
        head: chosen.head,
        slot,
        // What was read after a boot was read from the disk; after a kill, who knows.
        synced_slot: page_cache_lost.then_some(slot),
        ..Chunk::empty(chosen.head.handle, chosen.head.block_size)
    }
}

/// Writes the chosen head with the highest number, over one that it is better than, and syncs.
fn write_anew(
    chunks: &ChunkDirectory,
    files: &ChunkFiles,
    chosen: HeadCandidate,
    sequence: u64,
    slots: &[Option<ChunkHead>; 2],
) -> Result<Chunk, DiskError> {
    let keep = chosen.slot.or_else(|| {
        let older = |slot: &usize| slots[*slot].is_some_and(|h| h.sequence <= chosen.head.sequence);
        [0, 1].into_iter().filter(older).max_by_key(|slot| slots[*slot].map(|head| head.sequence))
    });
    files.data.sync().map_err(sync_failure)?;
    let mut chunk = Chunk {
        synced_slot: Some(keep.unwrap_or(1)),
        ..Chunk::empty(chosen.head.handle, chosen.head.block_size)
    };
    chunk.write_head(files, ChunkHead { sequence, ..chosen.head })?;
    chunk.sync(chunks)?;
    Ok(chunk)
}
