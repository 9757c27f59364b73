//! Bytes changed in place: through the redo journal, so that a torn one is done again or never
//! began, and never looks like, or hides, damage (R26, GFS §5.2).
//!
//! ```text
//!   verify the blocks that are cut ──► redo entry, flushed ──► data ──► checksums ──► head
//! ```
//! - W1: a block that is not overwritten whole is verified before it is changed: a new checksum
//!   over old damage would hide it for ever.
//! - W2: when an entry is written, all that was added before is on disk; so the entries and what is
//!   on disk make up the chunk, whatever else a power loss takes.

use crate::chunk::Chunk;
use crate::chunk_files::{ChunkDirectory, ChunkFiles};
use crate::mutation::ReadyMutation;
use crate::reading::read_block;
use crate::whole_files::disk_error;
use bytes::Bytes;
use cairn_env::{ChunkError, DiskError};
use cairn_format::{ChunkHead, RedoEntry, block_checksum_offset, encode_block_checksums};
use cairn_types::crc32c;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Bytes of redo entries after which the chunk is synced and the journal emptied.
const REDO_SIZE_MAX: u64 = 4 << 20;

/// What a run of overwrites will have changed.
#[derive(Debug)]
pub(crate) struct OverwriteRun {
    head: ChunkHead,
    writes: Vec<(u64, Vec<Bytes>)>,
    /// The blocks touched, as they will be.
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl OverwriteRun {
    /// A run on a replica that stands as `head` tells; `head` is otherwise the one to be written.
    pub(crate) fn new(head: ChunkHead) -> Self {
        Self { head, writes: Vec::new(), blocks: BTreeMap::new() }
    }

    /// Adds one mutation that begins before the end, and perhaps goes beyond it.
    pub(crate) fn add(
        &mut self,
        stored: &ChunkHead,
        files: &ChunkFiles,
        mutation: &ReadyMutation,
    ) -> Result<(), ChunkError> {
        let bytes = mutation.data.as_ref().map(|data| data.segments.concat()).unwrap_or_default();
        let block_size = u64::from(self.head.block_size);
        let mut done = 0;
        while done < bytes.len() {
            let place = mutation.offset + done as u64;
            let within = usize::try_from(place % block_size).expect("less than a block");
            let size = (self.head.block_size as usize - within).min(bytes.len() - done);
            self.change(stored, files, place / block_size, within, &bytes[done..done + size])?;
            done += size;
        }
        self.head.length = self.head.length.max(mutation.offset + bytes.len() as u64);
        self.writes.push((mutation.offset, vec![Bytes::from(bytes)]));
        Ok(())
    }

    fn change(
        &mut self,
        stored: &ChunkHead,
        files: &ChunkFiles,
        block: u64,
        within: usize,
        bytes: &[u8],
    ) -> Result<(), ChunkError> {
        let start = block * u64::from(stored.block_size);
        let stored_end = stored.length.min(start + u64::from(stored.block_size));
        let covers = within == 0 && start + bytes.len() as u64 >= stored_end;
        let content = match self.blocks.entry(block) {
            Entry::Occupied(changed) => changed.into_mut(),
            Entry::Vacant(vacant) if covers || start >= stored.length => vacant.insert(Vec::new()),
            // W1: what stays of the block must be sound.
            Entry::Vacant(vacant) => vacant.insert(read_block(files, stored, block)?),
        };
        content.resize(content.len().max(within + bytes.len()), 0);
        content[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Makes the run durable in the redo journal (W2), then writes it in place.
    pub(crate) fn write(
        self,
        chunk: &mut Chunk,
        files: &ChunkFiles,
        chunks: &ChunkDirectory,
    ) -> Result<(), DiskError> {
        if chunk.unsynced_appends {
            chunk.sync(chunks)?;
        }
        let entry = self.into_entry();
        chunk.changed_in_place = true;
        chunk.redo.append(chunks.disk.as_ref(), &entry)?;
        write_in_place(files, &entry).map_err(in_place)?;
        chunk.write_head(files, entry.head).map_err(in_place)?;
        if chunk.redo.size() > REDO_SIZE_MAX { chunk.sync(chunks) } else { Ok(()) }
    }

    fn into_entry(mut self) -> RedoEntry {
        let mut checksums = Vec::new();
        for (block, content) in &self.blocks {
            if content.len() == self.head.block_size as usize {
                checksums.push((*block, crc32c(content)));
            } else {
                self.head.tail_checksum = crc32c(content);
            }
        }
        if self.head.tail_size() == 0 {
            self.head.tail_checksum = 0;
        }
        RedoEntry { head: self.head, writes: self.writes, checksums }
    }
}

/// What fails once the entry is durable will be done again: "nothing was changed" would be wrong.
fn in_place(error: DiskError) -> DiskError {
    match error {
        DiskError::NoSpace => DiskError::NoSpaceMidway,
        other => other,
    }
}

/// Writes an entry's data and checksums where they belong; as often as one likes.
pub(crate) fn write_in_place(files: &ChunkFiles, entry: &RedoEntry) -> Result<(), DiskError> {
    for (offset, segments) in &entry.writes {
        let mut place = *offset;
        for segment in segments {
            files.data.write_at(segment, place).map_err(disk_error)?;
            place += segment.len() as u64;
        }
    }
    for (block, checksum) in &entry.checksums {
        let offset = block_checksum_offset(*block);
        let raw = encode_block_checksums(entry.head.handle, *block, &[*checksum]);
        files.meta.write_at(&raw, offset).map_err(disk_error)?;
    }
    Ok(())
}
