//! A backup on its way here: the files of a checkpoint, piece by piece, until all are there.
//!
//! - IB1: where the checkpoint is gone before all of it has come, the next one of the same page
//!   file goes on with what has come, for pages are only added to it; any other begins anew.

use crate::master_disk::PIECE_SIZE;
use crate::remains::{Remains, RemainsError};
use bytes::Bytes;
use cairn_env::Disk;
use cairn_format::CheckpointRoot;
use cairn_store::{Checkpoints, PageFileLimits, keep_piece};
use std::sync::Arc;

/// What has come.
#[derive(Debug)]
pub struct IncomingBackup {
    disk: Arc<dyn Disk>,
    checkpoints: Checkpoints,
    root: CheckpointRoot,
    /// Bytes of the pages.
    come: u64,
}

impl IncomingBackup {
    /// Begins with this root file, in an empty directory; none where it is no root.
    ///
    /// # Errors
    /// The disk's.
    pub fn begin(disk: Arc<dyn Disk>, root: &Bytes) -> Result<Option<Self>, RemainsError> {
        let Ok(root) = CheckpointRoot::decode(root) else { return Ok(None) };
        let limits = PageFileLimits::standard();
        let checkpoints = Checkpoints::open(Arc::clone(&disk), root.cell, limits)?;
        Ok(Some(Self { disk, checkpoints, root, come: 0 }))
    }

    /// Goes on with another checkpoint of the same master (IB1); whether it is one.
    pub fn go_on(&mut self, root: &Bytes) -> bool {
        let Ok(root) = CheckpointRoot::decode(root) else { return false };
        let is_longer = root.page_file == self.root.page_file && root.page_file_size >= self.come;
        if root.cell != self.root.cell || !is_longer {
            self.come = 0;
        }
        self.root = root;
        true
    }

    /// Which piece comes next: from where, and how much; none: all is there.
    #[must_use]
    pub fn next(&self) -> Option<(u64, u64)> {
        let left = self.root.page_file_size - self.come;
        (left > 0).then_some((self.come, left.min(PIECE_SIZE as u64)))
    }

    /// Keeps the piece that comes next, or a part of it.
    ///
    /// # Errors
    /// The disk's; [`RemainsError::TooMuch`].
    pub fn keep(&mut self, bytes: &Bytes) -> Result<(), RemainsError> {
        let Some((offset, _)) = self.next().filter(|(_, size)| bytes.len() as u64 <= *size) else {
            return Err(RemainsError::TooMuch);
        };
        keep_piece(self.disk.as_ref(), offset, bytes)?;
        self.come += bytes.len() as u64;
        Ok(())
    }

    /// Makes an empty directory a backup of what has come, every page of it verified; what that
    /// has.
    ///
    /// # Errors
    /// [`RemainsError`].
    pub fn finish(mut self, into: &Arc<dyn Disk>) -> Result<Remains, RemainsError> {
        if self.checkpoints.take_over(&self.root)?.is_none() {
            return Err(RemainsError::NoState(self.disk.describe()));
        }
        let remains = Remains::of(&self.disk, false)?;
        remains.back_up(into)?;
        Ok(remains)
    }
}
