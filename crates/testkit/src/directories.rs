//! What lies in a server's directories: listed, copied.

use crate::HarnessError;
use std::path::{Path, PathBuf};

/// All files below a directory, sorted; those that go while it is looked at are left out.
///
/// # Errors
/// Where it cannot be listed.
pub fn files_below(directory: &Path) -> Result<Vec<PathBuf>, HarnessError> {
    let mut found = Vec::new();
    let listing = || HarnessError::local(format!("listing {}", directory.display()));
    for entry in std::fs::read_dir(directory).map_err(listing())? {
        let entry = entry.map_err(listing())?;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())?),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort();
    Ok(found)
}

/// The chunk files of a data directory, sorted.
///
/// # Errors
/// Where they cannot be listed.
pub fn chunk_files(data: &Path) -> Result<Vec<PathBuf>, HarnessError> {
    let mut files = files_below(&data.join("chunks"))?;
    files.retain(|path| path.extension().is_some_and(|kind| kind == "chunk"));
    Ok(files)
}

/// Copies a directory and all that is in it to where nothing of it is; of servers that stand still.
///
/// # Errors
/// Where something cannot be read or made.
pub fn copy_tree(from: &Path, to: &Path) -> Result<(), HarnessError> {
    let copying = || HarnessError::local(format!("copying {}", from.display()));
    std::fs::create_dir_all(to).map_err(copying())?;
    for entry in std::fs::read_dir(from).map_err(copying())? {
        let entry = entry.map_err(copying())?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).map_err(copying())?;
        }
    }
    Ok(())
}
