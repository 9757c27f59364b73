//! A file of pages, and pages on their way into it.
//!
//! ```text
//!   header │ pages of checkpoint 1 │ … 2 │ torn tail of one cut short │ … 3 │
//!                                  ▲ each checkpoint begins on a block of its own
//! ```
//! - F1: bytes that a root names are never written again, nor shared a block with by a later
//!   write, so that a torn write cannot touch them. A torn tail is left behind and skipped.
//! - F2: pages reach the disk in steps, each flushed before more are written: the operation log's
//!   flush waits behind one step and not behind a whole checkpoint.

use crate::whole_files::{disk_error, sync_failure};
use cairn_env::{Disk, DiskError, DiskFile, IoFailure, Mapping, OpenMode};
use cairn_format::{CheckpointRoot, PAGE_FILE_HEADER_SIZE, PageFileHeader};
use cairn_pagetree::{Backing, FileId, PageSink};
use cairn_types::{CellId, LogIndex};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes gathered before they are written.
const BUFFER_SIZE: usize = 1 << 20;
/// Bytes written before they are flushed (F2).
const STEP_SIZE: u64 = 4 << 20;
/// What a disk tears at the most (F1).
const BLOCK_SIZE: u64 = 4096;

/// A page file, open for the next checkpoint.
#[derive(Debug)]
pub(crate) struct PageFile {
    pub(crate) number: u64,
    /// The last record contained in its first checkpoint; none before that is made.
    pub(crate) begun: Option<LogIndex>,
    pub(crate) id: FileId,
    pub(crate) file: Box<dyn DiskFile>,
    /// Where its bytes end, a torn tail included.
    pub(crate) end: u64,
    /// Where it was cut to, were a checkpoint to fail; none where no checkpoint stands in it.
    pub(crate) durable_end: Option<u64>,
    /// What the last root reaches of it.
    pub(crate) live: u64,
    /// How far the state's mapping reaches; nowhere where it has none of this file.
    pub(crate) mapped: Option<u64>,
}

/// A page file as trees read it.
#[derive(Clone)]
pub struct MappedPages {
    /// Names the file.
    pub file: FileId,
    /// Its bytes.
    pub backing: Arc<dyn Backing>,
}

impl fmt::Debug for MappedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedPages").field("file", &self.file).finish_non_exhaustive()
    }
}

struct MappedBytes(Arc<dyn Mapping>);

impl Backing for MappedBytes {
    fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.0.bytes(range)
    }
}

/// Takes the pages of a checkpoint, in the order in which they are to lie in the file.
#[derive(Debug)]
pub struct PageWriter<'a> {
    file: &'a dyn DiskFile,
    /// Where the file's bytes end.
    file_end: u64,
    /// Where the gathered bytes go.
    end: u64,
    buffer: Vec<u8>,
    unsynced: u64,
}

impl PageSink for PageWriter<'_> {
    type Error = DiskError;

    fn append(&mut self, page: &[u8]) -> Result<u64, DiskError> {
        let offset = self.end + self.buffer.len() as u64;
        self.buffer.extend_from_slice(page);
        if self.buffer.len() >= BUFFER_SIZE {
            self.flush()?;
        }
        Ok(offset)
    }
}

impl<'a> PageWriter<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, file_end: u64) -> Self {
        let end = file_end.next_multiple_of(BLOCK_SIZE);
        Self { file, file_end, end, buffer: Vec::new(), unsynced: 0 }
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.file.write_at(&self.buffer, self.end).map_err(disk_error)?;
        self.end += self.buffer.len() as u64;
        self.file_end = self.end;
        self.unsynced += self.buffer.len() as u64;
        self.buffer.clear();
        if self.unsynced >= STEP_SIZE {
            self.unsynced = 0;
            self.file.sync().map_err(sync_failure)?;
        }
        Ok(())
    }

    /// Makes all that was taken durable; gives where it ends.
    pub(crate) fn finish(mut self) -> Result<u64, DiskError> {
        if !self.buffer.is_empty() {
            self.flush()?;
        }
        self.file.sync().map_err(sync_failure)?;
        Ok(self.file_end)
    }
}

/// Where a page file lies.
pub(crate) fn page_file_path(directory: &str, number: u64) -> String {
    format!("{directory}/{number:016x}.pages")
}

impl PageFile {
    /// Makes page file `number`; its name is durable, its header goes with the first pages.
    pub(crate) fn create(
        disk: &dyn Disk,
        directory: &str,
        header: &PageFileHeader,
    ) -> Result<Self, DiskError> {
        let path = page_file_path(directory, header.number);
        let file = disk.open(&path, OpenMode::CreateNew).map_err(disk_error)?;
        file.write_at(&header.encode(), 0).map_err(disk_error)?;
        disk.sync_dir(directory).map_err(sync_failure)?;
        let (id, end) = (FileId::fresh(), PAGE_FILE_HEADER_SIZE as u64);
        let number = header.number;
        Ok(Self { number, begun: None, id, file, end, durable_end: None, live: 0, mapped: None })
    }

    /// Maps the first `size` bytes.
    pub(crate) fn map(&mut self, size: u64) -> Result<MappedPages, DiskError> {
        let mapping = self.file.map(size).map_err(disk_error)?;
        self.mapped = Some(size);
        Ok(MappedPages { file: self.id, backing: Arc::new(MappedBytes(mapping)) })
    }
}

/// The page file that a root names, with its pages mapped and to be gone on with; none where it
/// is not there, too short, or another.
pub(crate) fn open_page_file(
    disk: &dyn Disk,
    (directory, mode): (&str, OpenMode),
    cell: CellId,
    root: &CheckpointRoot,
) -> Result<Option<(PageFile, MappedPages)>, DiskError> {
    let path = page_file_path(directory, root.page_file);
    let file = match disk.open(&path, mode) {
        Ok(file) => file,
        Err(IoFailure::NotFound) => return Ok(None),
        Err(failure) => return Err(disk_error(failure)),
    };
    let end = file.size().map_err(disk_error)?;
    // Looked at before it is mapped: beyond the end of a file a mapping has nothing to read.
    if end < root.page_file_size || root.page_file_size < PAGE_FILE_HEADER_SIZE as u64 {
        return Ok(None);
    }
    let (number, live) = (root.page_file, root.live_bytes);
    let (id, durable_end, begun) = (FileId::fresh(), Some(end), Some(root.page_file_begun));
    let mut pages = PageFile { number, begun, id, file, end, durable_end, live, mapped: None };
    let mapped = pages.map(root.page_file_size)?;
    let expected = Ok(PageFileHeader { cell, number });
    let header = mapped.backing.bytes(0..PAGE_FILE_HEADER_SIZE);
    let found = PageFileHeader::decode(header.expect("compared above"));
    Ok((found == expected).then_some((pages, mapped)))
}
