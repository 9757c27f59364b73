//! The room of the operation log's next segment, taken before it is needed.
//!
//! ```text
//!   take ──► log/spare, allocated, zeros ──► header ──► flush ──► renamed to log/<number>.log
//! ```
//! - H1: nothing but a header is ever written to it before it has its name durably: records go to
//!   segments alone. A spare that was left by another life is taken over if it holds nothing else.
//! - H2: room that cannot be had whole is given back. Room whose file, or directory, cannot be
//!   opened because the process has no descriptors left is room that cannot be had now.

use crate::operation_log::{LOG_DIRECTORY, segment_path};
use crate::whole_files::{disk_error, read_all, sync_failure};
use cairn_env::{Disk, DiskError, DiskFile, IoFailure, OpenMode};
use cairn_format::{SEGMENT_HEADER_SIZE, SegmentHeader};

const PATH: &str = "log/spare";

/// What keeps room from being had, or from becoming a segment: for want of descriptors it is none
/// now (H2).
pub(crate) fn no_room(error: DiskError) -> DiskError {
    if error == DiskError::Io(IoFailure::NoDescriptors) { DiskError::NoSpace } else { error }
}

/// A file with the room for a segment.
#[derive(Debug)]
pub(crate) struct SpareSegment {
    file: Box<dyn DiskFile>,
    size: u64,
}

impl SpareSegment {
    /// Takes so much room; what another life had taken counts.
    pub(crate) fn take(disk: &dyn Disk, size: u64) -> Result<Self, DiskError> {
        if let Some(left) = Self::left_over(disk, size)? {
            return Ok(left);
        }
        let file = disk.open(PATH, OpenMode::Create).map_err(|it| no_room(disk_error(it)))?;
        let taken = file.set_size(0).and_then(|()| file.allocate(size));
        if let Err(failure) = taken {
            drop(file);
            // H2. Where it stays, the next try gives it back.
            let _ = disk.remove(PATH);
            return Err(disk_error(failure));
        }
        Ok(Self { file, size })
    }

    /// What another life left, if it is large enough and as it should be (H1).
    fn left_over(disk: &dyn Disk, size: u64) -> Result<Option<Self>, DiskError> {
        let file = match disk.open(PATH, OpenMode::Write) {
            Ok(file) => file,
            Err(IoFailure::NotFound) => return Ok(None),
            Err(failure) => return Err(no_room(disk_error(failure))),
        };
        let found = file.size().map_err(disk_error)?;
        // One that is larger holds room for a record of that size, and is no standard one.
        if found != size {
            return Ok(None);
        }
        // What cannot be read is made anew.
        let Ok(bytes) = read_all(file.as_ref()) else { return Ok(None) };
        let is_empty = bytes.iter().skip(SEGMENT_HEADER_SIZE).all(|byte| *byte == 0);
        // Its size may have outlived its blocks; there is no harm in asking for them again.
        if !is_empty || file.allocate(size).is_err() {
            return Ok(None);
        }
        Ok(Some(Self { file, size }))
    }

    /// How much room it is.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Makes it the segment of this header, durably; its file, and how much room that has.
    pub(crate) fn become_segment(
        self,
        disk: &dyn Disk,
        header: &SegmentHeader,
    ) -> Result<(Box<dyn DiskFile>, u64), DiskError> {
        self.file.write_at(&header.encode(), 0).map_err(disk_error)?;
        self.file.sync().map_err(sync_failure)?;
        disk.rename(PATH, &segment_path(header.number)).map_err(disk_error)?;
        disk.sync_dir(LOG_DIRECTORY).map_err(sync_failure)?;
        Ok((self.file, self.size))
    }
}
