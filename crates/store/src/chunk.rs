//! One replica in memory: its head, which slot holds it, and what of it is on disk (R26).
//!
//! ```text
//!   slot A  the last head known to be on disk: not touched until a newer one is
//!   slot B  the newest head; written again and again until a sync makes it the one on disk
//! ```
//! - CH1: a system may forget that it could not write a file's bytes back, once the file is closed
//!   and out of its memory; a sync through another opening then succeeds. It vouches for nothing
//!   before all blocks have been read back: what was forgotten is not in memory either.

use crate::chunk_files::{ChunkDirectory, ChunkFiles};
use crate::reading::is_good;
use crate::redo_journal::RedoJournal;
use crate::whole_files::{disk_error, sync_failure, write_anew};
use cairn_env::{ChunkError, DiskError, IoFailure};
use cairn_format::{ChunkHead, HEAD_SLOT_SIZE};
use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber};

/// A replica as its server knows it.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The newest head.
    pub(crate) head: ChunkHead,
    /// Where it stands.
    pub(crate) slot: usize,
    /// The slot of the last head known to be on disk; none after a restart, until a sync.
    pub(crate) synced_slot: Option<usize>,
    /// Its file may be longer than the head says, by what a crash left there: nothing is written
    /// before that is cut off (recovery.rs, V5).
    pub(crate) uncut: bool,
    /// The names of its files are on disk.
    pub(crate) names_synced: bool,
    /// Something was written since the last sync.
    pub(crate) unsynced: bool,
    /// Through which opening of its files the first of that was (CH1).
    pub(crate) written_through: u64,
    /// Something was appended since the last sync, if only a serial number; only a sync brings it
    /// to disk.
    pub(crate) unsynced_appends: bool,
    /// The dirty mark is known to be durable.
    pub(crate) marked: bool,
    /// Overwrites that are durable here and perhaps nowhere else.
    pub(crate) redo: RedoJournal,
    /// Bytes that were there have been changed, in this process's life.
    pub(crate) changed_in_place: bool,
    /// A write failed half-way: to be recovered before it is used again.
    pub(crate) torn: bool,
    /// The start could not read it, or bring it to disk: the page cache may have what the disk has
    /// not, and take it for clean. It is written once more before a sync vouches for it.
    pub(crate) unsaved: bool,
    /// In the trash.
    pub(crate) gone: bool,
    /// No head of it can be read: what it holds is not known, and nothing is done with it.
    pub(crate) head_lost: bool,
}

impl Chunk {
    /// A replica without bytes or files.
    pub(crate) fn empty(handle: ChunkHandle, block_size: u32) -> Self {
        Self {
            head: ChunkHead::empty(handle, block_size),
            slot: 1,
            // Slot 1 holds the head of an empty chunk: none.
            synced_slot: Some(1),
            uncut: false,
            names_synced: false,
            unsynced: false,
            written_through: 0,
            unsynced_appends: false,
            marked: false,
            redo: RedoJournal::empty(handle),
            changed_in_place: false,
            torn: false,
            unsaved: false,
            gone: false,
            head_lost: false,
        }
    }

    /// A replica without bytes, its files made and a first head written: whoever finds the chunk
    /// in the journal and no head of it knows that something is lost.
    pub(crate) fn create(
        chunks: &ChunkDirectory,
        handle: ChunkHandle,
        block_size: u32,
    ) -> Result<Self, DiskError> {
        let mut chunk = Self::empty(handle, block_size);
        let files = chunks.files(handle, true)?;
        // Nothing of an earlier chunk of this name may be left.
        files.data.set_size(0)?;
        files.meta.set_size(0)?;
        chunk.write_head(&files, ChunkHead { sequence: 1, ..chunk.head })?;
        Ok(chunk)
    }

    /// The head after mutations up to `serial` under `version`, before their bytes are counted.
    pub(crate) fn next_head(&self, version: ChunkVersion, serial: SerialNumber) -> ChunkHead {
        ChunkHead {
            sequence: self.head.sequence + 1,
            mutated_version: version,
            serial,
            ..self.head
        }
    }

    /// Makes it known which head is on disk, so that the other slot can be written (R26), and that
    /// nothing lies behind it.
    pub(crate) fn settle_slots(&mut self, directory: &ChunkDirectory) -> Result<(), DiskError> {
        if self.uncut {
            truncate(directory.files(self.head.handle, false)?.as_ref(), self.head.length)?;
            self.uncut = false;
        }
        if self.synced_slot.is_none() { self.sync(directory) } else { Ok(()) }
    }

    /// Writes a head into the slot that is not the last one known to be on disk (R26).
    pub(crate) fn write_head(
        &mut self,
        files: &ChunkFiles,
        head: ChunkHead,
    ) -> Result<(), DiskError> {
        let synced = self.synced_slot.expect("settle_slots was called before anything was written");
        assert!(!self.uncut, "nothing is written before what lies behind the head is gone (V5)");
        let slot = 1 - synced;
        let offset = (slot * HEAD_SLOT_SIZE) as u64;
        files.meta.write_at(&head.encode(), offset).map_err(disk_error)?;
        self.head = head;
        self.slot = slot;
        if !self.unsynced {
            self.written_through = files.opening;
        }
        self.unsynced = true;
        Ok(())
    }

    /// Brings everything of the chunk to disk: bytes, checksums, head, names.
    pub(crate) fn sync(&mut self, chunks: &ChunkDirectory) -> Result<(), DiskError> {
        assert!(self.head.sequence > 0, "a chunk has a head from its creation on");
        if self.unsaved {
            return self.write_anew(chunks);
        }
        if !self.unsynced && self.synced_slot == Some(self.slot) {
            return Ok(());
        }
        let files = chunks.files(self.head.handle, false)?;
        files.data.sync().map_err(sync_failure)?;
        files.meta.sync().map_err(sync_failure)?;
        if self.unsynced && self.written_through != files.opening {
            self.check_stored(&files)?;
        }
        if !self.names_synced {
            chunks.sync_names(self.head.handle)?;
            self.names_synced = true;
        }
        self.synced_slot = Some(self.slot);
        self.unsynced = false;
        self.unsynced_appends = false;
        self.redo.clear(chunks.disk.as_ref())
    }

    /// Writes what the page cache has of the chunk once more, and syncs it. Where a sync has
    /// failed, what it was to save looks clean, and another sync would save nothing of it.
    pub(crate) fn write_anew(&mut self, chunks: &ChunkDirectory) -> Result<(), DiskError> {
        let files = chunks.files(self.head.handle, false)?;
        for file in [&files.data, &files.meta] {
            write_anew(file.as_ref()).map_err(disk_error)?;
        }
        (self.unsynced, self.unsaved) = (true, false);
        self.sync(chunks)
    }

    /// Whether what was written through files that have been closed since is there (CH1).
    fn check_stored(&self, files: &ChunkFiles) -> Result<(), DiskError> {
        let block_size = u64::from(self.head.block_size);
        let mut memory = Vec::new();
        for block in 0..self.head.length.div_ceil(block_size) {
            match is_good(files, &self.head, block, &mut memory) {
                Ok(true) => {}
                Ok(false) => return Err(DiskError::Io(IoFailure::Device)),
                Err(ChunkError::Disk(error)) => return Err(error),
                Err(_) => return Err(DiskError::Io(IoFailure::Device)),
            }
        }
        Ok(())
    }
}

/// Cuts off what a crash left behind the head, durably: it has its checksums, and would pass for
/// what comes in its place if the next crash took that and the cut.
pub(crate) fn truncate(files: &ChunkFiles, length: u64) -> Result<(), DiskError> {
    if files.data.size().map_err(disk_error)? > length {
        files.data.set_size(length).map_err(disk_error)?;
        files.data.sync().map_err(sync_failure)?;
    }
    Ok(())
}
