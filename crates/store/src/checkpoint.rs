//! Checkpoint files of a master (GFS §2.6.3).
//!
//! ```text
//!   checkpoints/<index>.checkpoint      written under another name, flushed, renamed
//! ```
//! - C1: a checkpoint has its name only when all of it is durable.
//! - C2: one that does not read is passed over; the one before it, and the log since then, give the
//!   same state. So the log is kept back to the oldest checkpoint kept.

use crate::whole_files::{disk_error, read_file, sync_failure};
use bytes::Bytes;
use cairn_env::{Disk, DiskError, DiskFile, OpenMode};
use cairn_format::{CheckpointHeader, CheckpointSum, scan_checkpoint};
use cairn_types::{CellId, LogIndex, Term};
use std::sync::Arc;

/// Checkpoints that are kept.
pub const CHECKPOINTS_KEPT: usize = 2;

const DIRECTORY: &str = "checkpoints";
const DRAFT: &str = "checkpoints/draft";
/// Bytes gathered before they are written.
const BUFFER_SIZE: usize = 1 << 20;

/// The checkpoints in a master's directory.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    disk: Arc<dyn Disk>,
    cell: CellId,
}

/// A checkpoint in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The term of the last record contained.
    pub term: Term,
    /// The last record contained.
    pub index: LogIndex,
    /// The items, in the order they were written in.
    pub items: Vec<Bytes>,
}

/// Takes the items of a checkpoint that is being written.
#[derive(Debug)]
pub struct CheckpointWriter {
    file: Box<dyn DiskFile>,
    written: u64,
    buffer: Vec<u8>,
    sum: CheckpointSum,
}

impl CheckpointWriter {
    /// Adds an item.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn item(&mut self, item: &[u8]) -> Result<(), DiskError> {
        self.sum.put_item(item, &mut self.buffer);
        if self.buffer.len() >= BUFFER_SIZE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.file.write_at(&self.buffer, self.written).map_err(disk_error)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

fn path(index: LogIndex) -> String {
    format!("{DIRECTORY}/{:016x}.checkpoint", index.get())
}

impl Checkpoints {
    /// The checkpoints of `cell`'s master in this directory, whose lock the caller holds.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn open(disk: Arc<dyn Disk>, cell: CellId) -> Result<Self, DiskError> {
        disk.make_dir(DIRECTORY).map_err(disk_error)?;
        disk.sync_dir("").map_err(sync_failure)?;
        Ok(Self { disk, cell })
    }

    /// Writes a checkpoint, durably (C1); `items` hands all of it to the writer. Gives its size.
    ///
    /// # Errors
    /// [`DiskError`]; no checkpoint was added.
    pub fn write(
        &self,
        term: Term,
        index: LogIndex,
        items: impl FnOnce(&mut CheckpointWriter) -> Result<(), DiskError>,
    ) -> Result<u64, DiskError> {
        let file = self.disk.open(DRAFT, OpenMode::Create).map_err(disk_error)?;
        file.set_size(0).map_err(disk_error)?;
        let buffer = CheckpointHeader { cell: self.cell, term, index }.encode();
        let mut writer =
            CheckpointWriter { file, written: 0, buffer, sum: CheckpointSum::default() };
        items(&mut writer)?;
        writer.buffer.extend_from_slice(&writer.sum.footer());
        writer.flush()?;
        writer.file.sync().map_err(sync_failure)?;
        self.disk.rename(DRAFT, &path(index)).map_err(disk_error)?;
        self.disk.sync_dir(DIRECTORY).map_err(sync_failure)?;
        Ok(writer.written)
    }

    /// The checkpoints there are, newest first, whether they read or not.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn list(&self) -> Result<Vec<LogIndex>, DiskError> {
        let names = self.disk.list(DIRECTORY).map_err(disk_error)?;
        let index = |name: &String| {
            u64::from_str_radix(name.strip_suffix(".checkpoint")?, 16).ok().map(LogIndex::new)
        };
        let mut found: Vec<LogIndex> = names.iter().filter_map(index).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(found)
    }

    /// The newest checkpoint that reads (C2); none where there is none.
    ///
    /// # Errors
    /// [`DiskError`] of the disk, never of a checkpoint's bytes.
    pub fn load_newest(&self) -> Result<Option<Checkpoint>, DiskError> {
        for index in self.list()? {
            if let Some(checkpoint) = self.load(index)? {
                return Ok(Some(checkpoint));
            }
        }
        Ok(None)
    }

    /// The checkpoint as of `index`, if it is whole and this cell's.
    fn load(&self, index: LogIndex) -> Result<Option<Checkpoint>, DiskError> {
        let file = read_file(self.disk.as_ref(), &path(index)).map_err(disk_error)?;
        let bytes = Bytes::from(file.unwrap_or_default());
        Ok(match scan_checkpoint(&bytes) {
            Ok((header, items)) if header.cell == self.cell && header.index == index => {
                let items = items.into_iter().map(|range| bytes.slice(range)).collect();
                Some(Checkpoint { term: header.term, index, items })
            }
            _ => None,
        })
    }

    /// Removes all but the newest [`CHECKPOINTS_KEPT`] that read; gives the oldest one kept, back
    /// to which the log is needed (C2), once that many are kept.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn remove_older(&self) -> Result<Option<LogIndex>, DiskError> {
        let mut good = 0;
        let mut oldest_needed = None;
        for index in self.list()? {
            if good == CHECKPOINTS_KEPT {
                self.disk.remove(&path(index)).map_err(disk_error)?;
            } else if self.load(index)?.is_some() {
                good += 1;
                oldest_needed = (good == CHECKPOINTS_KEPT).then_some(index);
            }
        }
        Ok(oldest_needed)
    }
}
