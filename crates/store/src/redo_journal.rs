//! A chunk's redo journal: overwrites, flushed before they are done in place (R26).
//!
//! - Its entries are needed until a sync of the chunk; then it is emptied. Emptying needs no flush:
//!   entries that come back are done again, to no effect.
//! - The first entry that does not read ends it: an overwrite that never began, or what an earlier
//!   life of the file left behind.

use crate::chunk_files::{directory, path};
use crate::whole_files::{disk_error, read_file, sync_failure};
use cairn_env::{Disk, DiskError, DiskFile, OpenMode};
use cairn_format::{RedoEntry, redo_seed, stream};
use cairn_types::ChunkHandle;

/// The redo journal of one chunk.
#[derive(Debug)]
pub(crate) struct RedoJournal {
    handle: ChunkHandle,
    file: Option<Box<dyn DiskFile>>,
    /// Bytes of entries in it.
    size: u64,
}

impl RedoJournal {
    /// One without entries, whether there is a file or not.
    pub(crate) fn empty(handle: ChunkHandle) -> Self {
        Self { handle, file: None, size: 0 }
    }

    /// Bytes of entries that a sync of the chunk would make needless.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds an entry, durably.
    pub(crate) fn append(&mut self, disk: &dyn Disk, entry: &RedoEntry) -> Result<(), DiskError> {
        let mut payload = Vec::new();
        entry.encode(&mut payload);
        let mut bytes = Vec::new();
        stream::put_record(redo_seed(self.handle), self.size, &[&payload], &mut bytes);
        let newly_opened = self.file.is_none();
        if newly_opened {
            let file =
                disk.open(&path(self.handle, "redo"), OpenMode::Create).map_err(disk_error)?;
            file.set_size(0).map_err(disk_error)?;
            self.file = Some(file);
        }
        let file = self.file.as_ref().expect("opened above");
        file.write_at(&bytes, self.size).map_err(disk_error)?;
        file.sync().map_err(sync_failure)?;
        if newly_opened {
            disk.sync_dir(&directory(self.handle)).map_err(sync_failure)?;
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Empties it: the chunk was synced.
    pub(crate) fn clear(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        if self.size > 0 {
            empty_file(disk, self.handle)?;
            self.file = None;
            self.size = 0;
        }
        Ok(())
    }
}

/// The entries of a chunk's redo journal.
pub(crate) fn read_entries(
    disk: &dyn Disk,
    handle: ChunkHandle,
) -> Result<Vec<RedoEntry>, DiskError> {
    let file = read_file(disk, &path(handle, "redo")).map_err(disk_error)?.unwrap_or_default();
    let mut entries: Vec<RedoEntry> = Vec::new();
    for payload in stream::scan_front(&file, 0, redo_seed(handle)).payloads {
        let Ok(entry) = RedoEntry::decode(&file[payload]) else {
            break;
        };
        // format::redo, O1: a lower number is of an earlier life of the file.
        let newer = entries.last().is_none_or(|last| last.head.sequence < entry.head.sequence);
        if entry.head.handle != handle || !newer {
            break;
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Removes a chunk's redo journal.
pub(crate) fn empty_file(disk: &dyn Disk, handle: ChunkHandle) -> Result<(), DiskError> {
    disk.remove(&path(handle, "redo")).map_err(disk_error)
}
