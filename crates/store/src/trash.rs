//! Where deleted replicas lie for a while, so that a person can copy their files from there (R33).
//! The server takes none back: its journal has no line for them any more.
//!
//! ```text
//!   trash/new-<handle>-<version>.chunk …      thrown away since the trash was last looked through
//!   trash/<wall ms>-<handle>-<version>.chunk …
//! ```
//! - T1: a replica is out of the journal, durably, before its files move; so one that moved
//!   half-way is never taken for a chunk.
//! - T2: one look at it takes a few names, however many lie there: an unlink of a large file costs
//!   milliseconds, and after a large deletion the trash is as large as the server was.
//! - T3: where the disk has no room to take a replica out of the journal, its bytes go at once,
//!   past the trash, and make it: on a full disk nothing else would ever become less. Its sidecar
//!   stays until it is out of the journal: a start between the two finds a replica that is damaged
//!   or in doubt, which the master has collected once more.

use crate::chunk_files::{KINDS, path};
use cairn_env::{Disk, IoFailure};
use cairn_types::{ChunkHandle, ChunkVersion};

/// The directory.
pub(crate) const TRASH_DIRECTORY: &str = "trash";

const UNDATED: &str = "new";
/// Names that one look takes (T2).
const SLICE_NAMES_MAX: usize = 64;
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
        let thrown = match disk.rename(&path(handle, kind), &format!("{TRASH_DIRECTORY}/{name}")) {
            // A name takes room, too (T3).
            Err(IoFailure::NoSpace) => disk.remove(&path(handle, kind)),
            renamed => renamed,
        };
        match thrown {
            Ok(()) | Err(IoFailure::NotFound) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Removes what takes room of a replica that is still in the journal, and leaves what says that it
/// had that (T3). Overwrites go first: done again by a start, they would make a file anew.
pub(crate) fn remove_bytes(disk: &dyn Disk, handle: ChunkHandle) -> Result<(), IoFailure> {
    for kind in ["redo", "chunk"] {
        match disk.remove(&path(handle, kind)) {
            Ok(()) | Err(IoFailure::NotFound) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// The trash as it was listed, for as long as it takes to go through the list.
#[derive(Debug, Default)]
pub(crate) struct Trash {
    listed: Vec<String>,
}

impl Trash {
    /// Removes of a few names those that were thrown away before `before_ms`, or all where space is
    /// short (`free_min` bytes at least are to be free), and dates the rest; says whether there are
    /// more to be looked at (T2).
    pub(crate) fn empty_some(
        &mut self,
        disk: &dyn Disk,
        (before_ms, now_ms): (u64, u64),
        free_min: u64,
    ) -> Result<bool, IoFailure> {
        let space = disk.space()?;
        let free = space.capacity.saturating_sub(space.used);
        let is_short = free < free_min.max(space.capacity / 100 * FREE_PERCENT_MIN);
        if self.listed.is_empty() {
            self.listed = disk.list(TRASH_DIRECTORY)?;
        }
        let left = self.listed.len().saturating_sub(SLICE_NAMES_MAX);
        for name in self.listed.drain(left..) {
            let Some((date, rest)) = name.split_once('-') else { continue };
            let path = format!("{TRASH_DIRECTORY}/{name}");
            let is_old = date.parse().is_ok_and(|thrown_ms: u64| thrown_ms < before_ms);
            let done = if is_old || is_short {
                disk.remove(&path)
            } else if date == UNDATED {
                disk.rename(&path, &format!("{TRASH_DIRECTORY}/{now_ms}-{rest}"))
            } else {
                Ok(())
            };
            match done {
                // Somebody has taken it out since it was listed.
                Ok(()) | Err(IoFailure::NotFound) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(!self.listed.is_empty())
    }
}
