//! Snapshots: copies of files and trees at one instant, made without copying a byte (GFS §3.4).

use crate::cell::Cell;
use crate::error::Error;
use cairn_protocol::{Snapshot, SnapshotAnswer};
use cairn_types::{CellPath, MutationName};

impl Cell {
    /// Takes a snapshot of a file, or of a directory with all below it, under a name that is free.
    /// What it holds is what was acknowledged when it began, and nothing that began when it was
    /// answered. It is a tree like any other: who writes to either of the two later has its own
    /// copy of the chunk concerned, and the other does not change.
    ///
    /// Whoever writes below `from` meanwhile waits a moment, and loses nothing.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists` where `to` is taken; `Busy` where replicas below `from` could
    /// not be made still: nothing has changed then. With an unknown outcome it may have been taken.
    pub async fn snapshot(&self, from: &CellPath, to: &CellPath) -> Result<SnapshotAnswer, Error> {
        let (mutation, from, to) = (MutationName::default(), from.clone(), to.clone());
        self.link.ask(Snapshot { mutation, from, to }).await
    }
}
