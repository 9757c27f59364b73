//! The note that a failed sync leaves for the next start of this boot (S3 of the chunk store).

use crate::whole_files::disk_error;
use cairn_env::{Disk, DiskError, IoFailure, OpenMode};

/// Where it lies.
pub(crate) const FAILED_PATH: &str = "failed";

/// Notes that a sync failed, as well as it goes: this disk is failing. Only this boot needs the
/// note; after the next one what has the dirty mark is suspect in any case.
pub(crate) fn note_failure(disk: &dyn Disk) {
    drop(disk.open(FAILED_PATH, OpenMode::Create));
}

/// Whether a sync has failed, in an earlier life or in a start. Where that cannot be looked up the
/// directory is not opened: bytes would be taken for durable.
pub(crate) fn is_failure_noted(disk: &dyn Disk) -> Result<bool, DiskError> {
    match disk.open(FAILED_PATH, OpenMode::Read) {
        Ok(_) => Ok(true),
        Err(IoFailure::NotFound) => Ok(false),
        Err(failure) => Err(disk_error(failure)),
    }
}

/// The failure is in the journal now, as suspicion, and what it kept from the disk is there.
pub(crate) fn forget_failure(disk: &dyn Disk) -> Result<(), DiskError> {
    match disk.remove(FAILED_PATH) {
        Ok(()) | Err(IoFailure::NotFound) => Ok(()),
        Err(failure) => Err(disk_error(failure)),
    }
}
