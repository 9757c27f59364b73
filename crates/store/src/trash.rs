//! Where deleted replicas lie for a while, so that a person can bring them back (R33).
//!
//! ```text
//!   trash/new-<handle>-<version>.chunk …      thrown away since the trash was last looked through
//!   trash/<wall ms>-<handle>-<version>.chunk …
//! ```
//! - T1: a replica is out of the journal, durably, before its files move; so one that moved
//!   half-way is never taken for a chunk.

use crate::chunk_files::{KINDS, path};
use cairn_env::{Disk, IoFailure};
use cairn_types::{ChunkHandle, ChunkVersion};

/// The directory.
pub(crate) const TRASH_DIRECTORY: &str = "trash";

const UNDATED: &str = "new";
/// Parts in a hundred of the disk that must be free; below that the trash is no luxury to keep.
const FREE_PERCENT_MIN: u64 = 5;

/// Moves a replica's files to the trash; those that there are.
pub(crate) fn throw_away(
    disk: &dyn Disk,
    handle: ChunkHandle,
    version: ChunkVersion,
) -> Result<(), IoFailure> {
    for kind in KINDS {
        let name = format!("{UNDATED}-{:016x}-{:016x}.{kind}", handle.get(), version.get());
        match disk.rename(&path(handle, kind), &format!("{TRASH_DIRECTORY}/{name}")) {
            Ok(()) | Err(IoFailure::NotFound) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Removes what was thrown away before `before_ms`, or all where space is short; dates the rest.
pub(crate) fn empty(disk: &dyn Disk, before_ms: u64, now_ms: u64) -> Result<(), IoFailure> {
    let space = disk.space()?;
    let free = space.capacity.saturating_sub(space.used);
    let is_short = free < space.capacity / 100 * FREE_PERCENT_MIN;
    for name in disk.list(TRASH_DIRECTORY)? {
        let Some((date, rest)) = name.split_once('-') else {
            continue;
        };
        let path = format!("{TRASH_DIRECTORY}/{name}");
        let is_old = date.parse().is_ok_and(|thrown_ms: u64| thrown_ms < before_ms);
        if is_old || is_short {
            disk.remove(&path)?;
        } else if date == UNDATED {
            disk.rename(&path, &format!("{TRASH_DIRECTORY}/{now_ms}-{rest}"))?;
        }
    }
    Ok(())
}
