//! Changes of a chunk's bytes and of what its head says: marked as dirty before, on disk where that
//! is asked for (R26, R27).
//!
//! - BC1: what is not on disk when it is answered has the dirty mark before it is changed (R27).

use crate::apply::{apply, settle};
use crate::chunk::Chunk;
use crate::chunk_store::{ChunkStore, locked};
use crate::mutation::{AcknowledgedMark, ReadyMutation};
use bytes::Bytes;
use cairn_env::{ChunkError, DiskError, PushedData};
use cairn_format::JournalLine;
use cairn_types::planted::{self, Rule};
use cairn_types::{BlockChecksums, ChunkHandle, ChunkVersion, SerialNumber};

impl ChunkStore {
    /// Applies mutations in serial order; gives the stored length and the last serial number.
    /// With `sync`, once all of it is on disk.
    ///
    /// # Errors
    /// [`ChunkError`]: some of the mutations may have been applied; nothing else was changed.
    pub fn apply(
        &self,
        handle: ChunkHandle,
        version: ChunkVersion,
        mutations: &[ReadyMutation],
        acknowledged: AcknowledgedMark,
        sync: bool,
    ) -> Result<(u64, SerialNumber), ChunkError> {
        self.with_chunk(handle, |chunk| {
            self.apply_to(chunk, version, mutations, acknowledged, sync)
        })
    }

    /// The same, to a chunk whose mutex is held.
    pub(crate) fn apply_to(
        &self,
        chunk: &mut Chunk,
        version: ChunkVersion,
        mutations: &[ReadyMutation],
        acknowledged: AcknowledgedMark,
        sync: bool,
    ) -> Result<(u64, SerialNumber), ChunkError> {
        if chunk.head.length == 0 {
            chunk.head.block_size = self.configured_block_size();
        }
        if !sync {
            self.mark_dirty(chunk)?;
        }
        let before = chunk.head.serial;
        apply(chunk, &self.directory, version, mutations, acknowledged)
            .map_err(|error| error_after(error, chunk.head.serial != before))?;
        if sync {
            // Overwrites are on disk already, in the redo journal.
            if chunk.unsynced_appends {
                chunk.sync(&self.directory).map_err(|error| error_after(error.into(), true))?;
            }
            self.clear_mark(chunk).map_err(|error| error_after(error.into(), true))?;
        }
        Ok((chunk.head.length, chunk.head.serial))
    }

    /// R27: before the first change that may be acknowledged without being on disk.
    fn mark_dirty(&self, chunk: &mut Chunk) -> Result<(), DiskError> {
        if chunk.marked || planted::broken(Rule::R27) {
            return Ok(());
        }
        let mut journal = locked(&self.journal);
        let handle = chunk.head.handle;
        if journal.replica(handle).is_some_and(|replica| !replica.dirty) {
            journal.append(&[JournalLine::Dirty(handle)])?;
        }
        chunk.marked = true;
        Ok(())
    }

    /// R27: all of the chunk is on disk, and nothing can have changed since: its mutex is held.
    fn clear_mark(&self, chunk: &mut Chunk) -> Result<(), DiskError> {
        let mut journal = locked(&self.journal);
        let (handle, sequence) = (chunk.head.handle, chunk.head.sequence);
        if journal.replica(handle).is_some_and(|replica| replica.dirty) {
            // Durably, or the next power loss makes it suspect in spite of the sync.
            match journal.append(&[JournalLine::Clean { handle, sequence }]) {
                // The mark stays: it says too much, never too little.
                Err(DiskError::NoSpace) => return Ok(()),
                other => other?,
            }
        }
        chunk.marked = false;
        Ok(())
    }

    /// Brings everything applied to a chunk to disk, and clears its dirty mark (R27).
    ///
    /// # Errors
    /// [`ChunkError`].
    pub fn sync(&self, handle: ChunkHandle) -> Result<(), ChunkError> {
        self.with_chunk(handle, |chunk| self.sync_all_of(chunk))
    }

    /// The same, of a chunk whose mutex is held.
    pub(crate) fn sync_all_of(&self, chunk: &mut Chunk) -> Result<(), ChunkError> {
        chunk.sync(&self.directory)?;
        Ok(self.clear_mark(chunk)?)
    }

    /// Keeps in the head what was acknowledged (R17, R29).
    ///
    /// # Errors
    /// [`ChunkError`].
    pub fn settle(
        &self,
        handle: ChunkHandle,
        acknowledged: AcknowledgedMark,
    ) -> Result<(), ChunkError> {
        self.with_chunk(handle, |chunk| {
            chunk.settle_slots(&self.directory)?;
            let files = self.directory.files(handle, false)?;
            Ok(settle(chunk, &files, acknowledged)?)
        })
    }

    /// Puts whole blocks of another replica in their place, verified, under `version` and the
    /// serial number that this one has; gives the stored length and that serial number.
    ///
    /// # Errors
    /// [`ChunkError::FetchedDiffers`] where they do not match their checksums; nothing was changed.
    pub fn install(
        &self,
        handle: ChunkHandle,
        version: ChunkVersion,
        offset: u64,
        checksums: BlockChecksums,
        bytes: Bytes,
    ) -> Result<(u64, SerialNumber), ChunkError> {
        let block_size = self.block_size(handle)?;
        let differs = checksums.first_mismatch(offset, &bytes, block_size);
        if !offset.is_multiple_of(u64::from(block_size)) || differs.is_some() {
            return Err(ChunkError::FetchedDiffers { offset: differs.unwrap_or(offset) });
        }
        let serial = self.with_chunk(handle, |chunk| Ok(chunk.head.serial))?;
        let size = bytes.len() as u64;
        let data = PushedData { block_offset: 0, block_size, checksums, segments: vec![bytes] };
        let blocks = ReadyMutation { serial, offset, size, data: Some(data) };
        self.apply(handle, version, &[blocks], AcknowledgedMark::default(), false)
    }
}

/// "No space" promises that nothing was changed; once something was, it is another error.
fn error_after(error: ChunkError, changed: bool) -> ChunkError {
    match error {
        ChunkError::Disk(DiskError::NoSpace) if changed => DiskError::NoSpaceMidway.into(),
        other => other,
    }
}
