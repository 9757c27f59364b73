//! Names that a failed sync left in memory alone, made anew (R27).
//!
//! What such a sync was to save looks saved, and no later one saves it: of names as of bytes. So
//! each gets another name, and its own again, and that is synced.
//!
//! ```text
//!   chunks ─► chunks.anew ─► chunks      and so chunks/07, chunks/07/<handle>.meta
//! ```
//! The name of a log's directory, too, while it is empty: whoever made it may have ended there.
//!
//! - NA1: where this ended half-way, the next start gives back the names before it looks at them.

use crate::chunk_files::{CHUNKS_DIRECTORY, is_directory_name};
use crate::whole_files::{disk_error, sync_failure};
use cairn_env::{Disk, DiskError, IoFailure};

/// What a name that is not its owner's own ends with.
const OTHER: &str = ".anew";

fn other(path: &str) -> String {
    format!("{path}{OTHER}")
}

/// Gives back the names that another start had taken away (NA1).
pub(crate) fn give_back_names(disk: &dyn Disk) -> Result<(), DiskError> {
    give_back_name(disk, CHUNKS_DIRECTORY)?;
    for directory in chunk_directories(disk)? {
        let directory = give_back(disk, directory)?;
        for path in paths_in(disk, &directory)? {
            give_back(disk, path)?;
        }
    }
    Ok(())
}

/// Makes the names of all chunks' files anew, and those of their directories.
pub(crate) fn make_names_anew(disk: &dyn Disk) -> Result<(), DiskError> {
    make_name_anew(disk, CHUNKS_DIRECTORY)?;
    for directory in chunk_directories(disk)? {
        make_name_anew(disk, &directory)?;
        paths_in(disk, &directory)?.iter().try_for_each(|path| make_name_anew(disk, path))?;
        disk.sync_dir(&directory).map_err(sync_failure)?;
    }
    disk.sync_dir(CHUNKS_DIRECTORY).map_err(sync_failure)?;
    disk.sync_dir("").map_err(sync_failure)
}

/// The directories that chunks lie in, by whichever name.
fn chunk_directories(disk: &dyn Disk) -> Result<Vec<String>, DiskError> {
    let mut paths = paths_in(disk, CHUNKS_DIRECTORY)?;
    paths.retain(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        is_directory_name(name.strip_suffix(OTHER).unwrap_or(name))
    });
    Ok(paths)
}

/// What lies in a directory; nothing where there is none.
fn paths_in(disk: &dyn Disk, directory: &str) -> Result<Vec<String>, DiskError> {
    match disk.list(directory) {
        Ok(names) => Ok(names.into_iter().map(|name| format!("{directory}/{name}")).collect()),
        Err(IoFailure::NotFound) => Ok(Vec::new()),
        Err(failure) => Err(disk_error(failure)),
    }
}

/// The path that a thing has by its own name, which it has from now on.
fn give_back(disk: &dyn Disk, path: String) -> Result<String, DiskError> {
    let Some(own) = path.strip_suffix(OTHER).map(str::to_owned) else { return Ok(path) };
    disk.rename(&path, &own).map_err(disk_error)?;
    Ok(own)
}

/// Gives a thing its name back, where that was taken away (NA1).
pub(crate) fn give_back_name(disk: &dyn Disk, path: &str) -> Result<(), DiskError> {
    match disk.rename(&other(path), path) {
        Ok(()) | Err(IoFailure::NotFound) => Ok(()),
        Err(failure) => Err(disk_error(failure)),
    }
}

/// Takes a thing's name away and gives it back: the next sync of its directory saves it.
pub(crate) fn make_name_anew(disk: &dyn Disk, path: &str) -> Result<(), DiskError> {
    disk.rename(path, &other(path)).map_err(disk_error)?;
    disk.rename(&other(path), path).map_err(disk_error)
}
