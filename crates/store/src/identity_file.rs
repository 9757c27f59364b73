//! The identity file of a directory: which cell, which server or group member.

use crate::whole_files::{disk_error, read_file, replace_file};
use cairn_env::{Disk, DiskError};
use cairn_format::Identity;

const PATH: &str = "identity";

/// The directory's identity; none where it has never been given one.
///
/// # Errors
/// [`DiskError::Io`] also where the file is no identity: a person must look at it.
pub fn read_identity(disk: &dyn Disk) -> Result<Option<Identity>, DiskError> {
    let Some(bytes) = read_file(disk, PATH).map_err(disk_error)? else {
        return Ok(None);
    };
    let describe = |error| DiskError::Io(format!("{}/{PATH}: {error}", disk.describe()));
    Identity::decode(&bytes).map(Some).map_err(describe)
}

/// Gives the directory its identity, durably.
///
/// # Errors
/// [`DiskError`].
pub fn write_identity(disk: &dyn Disk, identity: &Identity) -> Result<(), DiskError> {
    replace_file(disk, PATH, &identity.encode()).map(drop)
}
