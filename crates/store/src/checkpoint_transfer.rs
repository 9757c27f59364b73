//! A checkpoint on its way from one master's directory to another's, its files as they are.
//!
//! ```text
//!   there: root, pages ──piece by piece──► here: checkpoints/incoming
//!                            all there ──► a page file of a fresh number ──► the root
//! ```
//! - CT1: what has come counts for nothing before the root has its name, which is the last step:
//!   whoever is ended before it begins again.
//! - CT2: only the page file's number is another here, in its header and in the root: no number is
//!   given twice in a directory. Every page is verified when it is first touched, as any.

use crate::checkpoint::{Checkpoints, DIRECTORY, FoundCheckpoint, ROOT, path};
use crate::page_file::page_file_path;
use crate::whole_files::{disk_error, read_file, replace_file, sync_failure};
use bytes::Bytes;
use cairn_env::{Disk, DiskError, IoFailure, OpenMode};
use cairn_format::{CheckpointRoot, PageFileHeader};
use cairn_types::LogIndex;

/// The pages that have come.
pub(crate) const INCOMING: &str = "checkpoints/incoming";

/// The root file of a checkpoint; none where there is none (any more).
///
/// # Errors
/// [`DiskError`].
pub fn read_root_file(disk: &dyn Disk, index: LogIndex) -> Result<Option<Bytes>, DiskError> {
    let read = read_file(disk, &path(index, ROOT)).map_err(disk_error)?;
    Ok(read.map(Bytes::from))
}

/// A piece of the pages of a checkpoint; none where it is not there (any more).
///
/// # Errors
/// [`DiskError`].
pub fn read_pages(
    disk: &dyn Disk,
    index: LogIndex,
    (offset, size): (u64, usize),
) -> Result<Option<Bytes>, DiskError> {
    let Some(root) = read_root_file(disk, index)? else { return Ok(None) };
    let Ok(root) = CheckpointRoot::decode(&root) else { return Ok(None) };
    let file = match disk.open(&page_file_path(DIRECTORY, root.page_file), OpenMode::Read) {
        Err(IoFailure::NotFound) => return Ok(None),
        opened => opened.map_err(disk_error)?,
    };
    let left = root.page_file_size.saturating_sub(offset);
    let mut bytes = vec![0; size.min(usize::try_from(left).unwrap_or(usize::MAX))];
    let mut read = 0;
    while read < bytes.len() {
        let more = file.read_at(&mut bytes[read..], offset + read as u64).map_err(disk_error)?;
        if more == 0 {
            return Ok(None);
        }
        read += more;
    }
    Ok(Some(bytes.into()))
}

/// Keeps a piece of the pages that come; the first one begins anew.
///
/// # Errors
/// [`DiskError`].
pub fn keep_piece(disk: &dyn Disk, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
    let file = disk.open(INCOMING, OpenMode::Create).map_err(disk_error)?;
    if offset == 0 {
        file.set_size(0).map_err(disk_error)?;
    }
    file.write_at(bytes, offset).map_err(disk_error)?;
    // In steps: the operation log's flush waits behind one and not behind all of it.
    file.sync().map_err(sync_failure)
}

impl Checkpoints {
    /// Makes what has come a checkpoint of this directory, durably (CT1, CT2).
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn take_over(
        &mut self,
        root: &CheckpointRoot,
    ) -> Result<Option<FoundCheckpoint>, DiskError> {
        let number = self.take_number();
        let root = CheckpointRoot { page_file: number, ..root.clone() };
        let header = PageFileHeader { cell: root.cell, number };
        let disk = self.disk();
        let file = disk.open(INCOMING, OpenMode::Write).map_err(disk_error)?;
        file.write_at(&header.encode(), 0).map_err(disk_error)?;
        file.sync().map_err(sync_failure)?;
        disk.rename(INCOMING, &page_file_path(DIRECTORY, number)).map_err(disk_error)?;
        disk.sync_dir(DIRECTORY).map_err(sync_failure)?;
        replace_file(disk, &path(root.index, ROOT), &root.encode())?;
        self.load(root.index)
    }
}
