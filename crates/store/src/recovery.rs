//! What a chunk's files hold after a crash (R26, R27).
//!
//! ```text
//!   redo entries done again ──► candidates: both slots, the last redo entry's head
//!        newest that fits its data ──► file cut to its length ──► head written anew if need be
//! ```
//! - V1: after a kill the page cache holds every write in its order: the newest head's data is
//!   there, and only its last block is looked at. Where it does not fit, that is damage.
//! - V2: after a power loss each unsynced page may be lost. What was on disk at the older slot's
//!   head is sound, or was done again; what was added since is verified block by block.
//! - V3: a head whose number is the journal's clean one was all on disk, and is believed.
//! - V4: a chunk has a readable head from its creation on, and one as new as the journal's clean
//!   one. Where there is none, or a slot holds what is no head, bytes are lost that somebody may
//!   have been promised: that is told, for a slot that rots may have been the newer one. What was
//!   found is left as it lies, so that the next start finds it damaged too.
//! - V5: what a crash left behind the head is off the disk before anything is put there: it has
//!   its checksums, and where a power loss takes what came in its place, and leaves the head of
//!   that, it would pass for it. Of a chunk whose head is the clean one that is looked at when it
//!   is first written to: a start opens no file of those.

use crate::chunk::{Chunk, truncate};
use crate::chunk_files::{ChunkDirectory, ChunkFiles, path};
use crate::overwrite::write_in_place;
use crate::reading::verify_from;
use crate::redo_journal::{empty_file, read_entries};
use crate::whole_files::{disk_error, read_file, sync_failure};
use cairn_env::{DiskError, IoFailure, OpenMode};
use cairn_format::{ChunkHead, HEAD_SLOT_SIZE, RedoEntry, ReplicaLine};
use cairn_types::ChunkHandle;

/// What is known of a data directory's last life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastLife {
    /// What was not synced may be gone: the machine was booted, or the file system mounted anew,
    /// since it was last written to.
    pub(crate) page_cache_lost: bool,
    /// A sync failed, and what that was to save looks clean in the page cache.
    pub(crate) sync_failed: bool,
    /// A chunk's first head was written when it was made (V4); before journals of version 2 it
    /// came with the first mutation.
    pub(crate) heads_from_creation: bool,
}

/// A chunk as its files tell.
#[derive(Debug)]
pub(crate) struct RecoveredChunk {
    pub(crate) chunk: Chunk,
    /// Bytes that were on disk are missing or wrong.
    pub(crate) damaged: bool,
}

/// What a slot of a sidecar holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeadSlot {
    /// Zeros, or the file ends before it.
    Unwritten,
    Written(ChunkHead),
    /// Neither zeros nor a head of this chunk. A slot lies in one sector: it is not torn.
    Rotten,
}

type HeadSlots = [HeadSlot; 2];

impl HeadSlot {
    fn head(self) -> Option<ChunkHead> {
        match self {
            Self::Written(head) => Some(head),
            Self::Unwritten | Self::Rotten => None,
        }
    }
}

/// A head, and the slot it stands in; none: a redo entry's.
#[derive(Clone, Copy, Debug)]
struct HeadCandidate {
    head: ChunkHead,
    slot: Option<usize>,
}

/// Recovers the chunk of this line of the journal. `block_size`: for a chunk without bytes.
pub(crate) fn recover(
    chunks: &ChunkDirectory,
    line: &ReplicaLine,
    block_size: u32,
    last_life: LastLife,
) -> Result<RecoveredChunk, DiskError> {
    let disk = chunks.disk.as_ref();
    let meta = read_file(disk, &path(line.handle, "meta")).map_err(disk_error)?;
    let slots = read_slots(&meta.unwrap_or_default(), line.handle);
    let rotten = slots.iter().position(|slot| matches!(slot, HeadSlot::Rotten));
    let entries = read_entries(disk, line.handle)?;
    let candidates = candidates(&slots, entries.last());
    let Some(newest) = candidates.first().copied() else {
        return without_head(chunks, line, block_size, last_life, rotten.is_some());
    };
    if entries.is_empty() && newest.head.sequence == line.clean_sequence {
        let is_missing = data_size(chunks, line.handle)?.is_none() && newest.head.length > 0;
        let damaged = rotten.is_some() || is_missing;
        let chunk = Chunk { uncut: !damaged, ..stands(newest, last_life) };
        return Ok(RecoveredChunk { chunk, damaged });
    }
    let files = chunks.files(line.handle, true)?;
    for entry in &entries {
        write_in_place(&files, entry)?;
    }
    let (chosen, fits) = choose(&files, &candidates, &slots, line, last_life)?;
    // V4
    let damaged = !fits || rotten.is_some() || chosen.head.sequence < line.clean_sequence;
    // V5
    if !damaged {
        truncate(&files, chosen.head.length)?;
    }
    let chunk = if entries.is_empty() && chosen.head.sequence == newest.head.sequence {
        stands(chosen, last_life)
    } else {
        let keep = rotten.or_else(|| slot_to_keep(&chosen, &slots));
        write_anew(chunks, &files, chosen, newest.head.sequence + 1, keep)?
    };
    if !entries.is_empty() {
        empty_file(disk, line.handle)?;
    }
    Ok(RecoveredChunk { chunk, damaged })
}

/// A chunk of which no head can be read: never written to, as far as the disk goes, or lost (V4).
fn without_head(
    chunks: &ChunkDirectory,
    line: &ReplicaLine,
    block_size: u32,
    last_life: LastLife,
    is_rotten: bool,
) -> Result<RecoveredChunk, DiskError> {
    // After a power loss the dirty mark says that it may have lost bytes.
    let may_lack = last_life.page_cache_lost || !last_life.heads_from_creation;
    if is_rotten || line.clean_sequence > 0 || !may_lack {
        let chunk = Chunk { head_lost: true, ..Chunk::empty(line.handle, block_size) };
        return Ok(RecoveredChunk { chunk, damaged: true });
    }
    let chunk = Chunk::create(chunks, line.handle, block_size)?;
    Ok(RecoveredChunk { chunk, damaged: false })
}

/// Bytes of a chunk's file; none where there is no file.
fn data_size(chunks: &ChunkDirectory, handle: ChunkHandle) -> Result<Option<u64>, DiskError> {
    match chunks.disk.open(&path(handle, "chunk"), OpenMode::Read) {
        Ok(file) => Ok(Some(file.size()?)),
        Err(IoFailure::NotFound) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// The newest candidate that fits its data, or else the newest; and whether it fits. After a kill
/// only the newest will do (V1).
fn choose(
    files: &ChunkFiles,
    candidates: &[HeadCandidate],
    slots: &HeadSlots,
    line: &ReplicaLine,
    last_life: LastLife,
) -> Result<(HeadCandidate, bool), DiskError> {
    let written = slots.iter().filter_map(|slot| slot.head());
    let oldest = written.clone().map(|head| head.length).min().unwrap_or(0);
    let base = if written.count() == 2 { oldest } else { 0 };
    let base = last_life.page_cache_lost.then_some(base);
    let plausible = if last_life.page_cache_lost { candidates } else { &candidates[..1] };
    for candidate in plausible {
        if fits(files, candidate, line, base)? {
            return Ok((*candidate, true));
        }
    }
    Ok((candidates[0], false))
}

fn read_slots(meta: &[u8], handle: ChunkHandle) -> HeadSlots {
    [0, 1].map(|slot| {
        let raw = meta.get(slot * HEAD_SLOT_SIZE..).unwrap_or_default();
        read_slot(&raw[..raw.len().min(HEAD_SLOT_SIZE)], handle)
    })
}

/// What a slot of this chunk's sidecar holds, of which these are the bytes.
pub(crate) fn read_slot(raw: &[u8], handle: ChunkHandle) -> HeadSlot {
    match ChunkHead::decode(raw) {
        Ok(head) if head.handle == handle => HeadSlot::Written(head),
        Err(_) if raw.iter().all(|byte| *byte == 0) => HeadSlot::Unwritten,
        _ => HeadSlot::Rotten,
    }
}

/// Newest first; a slot before a redo entry of the same number.
fn candidates(slots: &HeadSlots, last: Option<&RedoEntry>) -> Vec<HeadCandidate> {
    let in_slots = slots
        .iter()
        .enumerate()
        .filter_map(|(slot, it)| it.head().map(|head| HeadCandidate { head, slot: Some(slot) }));
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
fn stands(chosen: HeadCandidate, last_life: LastLife) -> Chunk {
    let slot = chosen.slot.unwrap_or(0);
    Chunk {
        head: chosen.head,
        slot,
        // What was read after a boot was read from the disk; after a kill, who knows.
        synced_slot: last_life.page_cache_lost.then_some(slot),
        ..Chunk::empty(chosen.head.handle, chosen.head.block_size)
    }
}

/// The slot that the head to be written anew must leave alone: the best one that there is.
fn slot_to_keep(chosen: &HeadCandidate, slots: &HeadSlots) -> Option<usize> {
    let sequence = |slot: &usize| slots[*slot].head().map(|head| head.sequence);
    let is_older = |slot: &usize| sequence(slot).is_some_and(|it| it <= chosen.head.sequence);
    chosen.slot.or_else(|| [0, 1].into_iter().filter(is_older).max_by_key(sequence))
}

/// Writes the chosen head with the highest number, over one that it is better than, and syncs.
fn write_anew(
    chunks: &ChunkDirectory,
    files: &ChunkFiles,
    chosen: HeadCandidate,
    sequence: u64,
    keep: Option<usize>,
) -> Result<Chunk, DiskError> {
    files.data.sync().map_err(sync_failure)?;
    let mut chunk = Chunk {
        synced_slot: Some(keep.unwrap_or(1)),
        ..Chunk::empty(chosen.head.handle, chosen.head.block_size)
    };
    chunk.write_head(files, ChunkHead { sequence, ..chosen.head })?;
    chunk.sync(chunks)?;
    Ok(chunk)
}
