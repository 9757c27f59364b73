//! The identity file of a directory: which cell, which server or group member.

use crate::whole_files::{disk_error, read_file, replace_file};
use cairn_env::{Disk, DiskError};
use cairn_format::{FormatError, Identity};

const PATH: &str = "identity";

/// Why a directory's identity is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is no identity: a person must look at it.
    #[error("{path}: {error}")]
    Malformed {
        /// Which file.
        path: String,
        /// What is wrong with it.
        error: FormatError,
    },
}

/// The directory's identity; none where it has never been given one.
///
/// # Errors
/// [`IdentityError`].
pub fn read_identity(disk: &dyn Disk) -> Result<Option<Identity>, IdentityError> {
    let Some(bytes) = read_file(disk, PATH).map_err(disk_error)? else {
        return Ok(None);
    };
    let path = || format!("{}/{PATH}", disk.describe());
    let malformed = |error| IdentityError::Malformed { path: path(), error };
    Identity::decode(&bytes).map(Some).map_err(malformed)
}

/// Gives the directory its identity, durably.
///
/// # Errors
/// [`DiskError`].
pub fn write_identity(disk: &dyn Disk, identity: &Identity) -> Result<(), DiskError> {
    replace_file(disk, PATH, &identity.encode()).map(drop)
}
