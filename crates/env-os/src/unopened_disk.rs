//! A directory that could not be opened as a [`Disk`]: whatever is asked of it fails for that
//! reason, so that whoever has several can go on with the others.
//!
//! - UD1: nothing is made or changed there, not even by another look.

use crate::disk::OsDisk;
use cairn_env::{Disk, DiskFile, DiskLock, IoFailure, OpenMode, Space, SyncError, UnreadableBytes};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that could not be opened.
#[derive(Debug)]
pub struct UnopenedDisk {
    root: PathBuf,
    /// What the disk that may be there later is to have ([`OsDisk::open_within`]).
    descriptors: usize,
    why: IoFailure,
}

impl UnopenedDisk {
    /// The one in `directory`, with the reason that [`OsDisk::open_within`] gave.
    #[must_use]
    pub fn new(directory: impl AsRef<Path>, descriptors: usize, why: IoFailure) -> Self {
        Self { root: directory.as_ref().to_owned(), descriptors, why }
    }

    fn refused<T>(&self) -> Result<T, IoFailure> {
        Err(self.why.clone())
    }
}

impl Disk for UnopenedDisk {
    fn open(&self, _: &str, _: OpenMode) -> Result<Box<dyn DiskFile>, IoFailure> {
        self.refused()
    }

    fn list(&self, _: &str) -> Result<Vec<String>, IoFailure> {
        self.refused()
    }

    fn make_dir(&self, _: &str) -> Result<(), IoFailure> {
        self.refused()
    }

    fn rename(&self, _: &str, _: &str) -> Result<(), IoFailure> {
        self.refused()
    }

    fn remove(&self, _: &str) -> Result<(), IoFailure> {
        self.refused()
    }

    fn clone_file(&self, _: &str, _: &str) -> Result<bool, IoFailure> {
        self.refused()
    }

    fn sync_dir(&self, _: &str) -> Result<(), SyncError> {
        Err(SyncError::NotTried(self.why.clone()))
    }

    fn lock(&self, _: &str) -> Result<Box<dyn DiskLock>, IoFailure> {
        self.refused()
    }

    fn space(&self) -> Result<Space, IoFailure> {
        self.refused()
    }

    fn look_again(&self) -> Result<Arc<dyn Disk>, IoFailure> {
        Ok(Arc::new(OsDisk::as_it_is(self.root.clone(), self.descriptors)?))
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }

    fn page_cache_id(&self) -> Result<String, IoFailure> {
        self.refused()
    }

    fn unreadable(&self) -> Result<Option<UnreadableBytes>, IoFailure> {
        self.refused()
    }

    fn forget_unreadable(&self) -> Result<(), SyncError> {
        Err(SyncError::NotTried(self.why.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::UnopenedDisk;
    use crate::disk::OsDisk;
    use cairn_env::{Disk, OpenMode};

    #[test]
    fn one_in_the_way_of_a_file_is_told_of_and_used_once_a_directory_is_there() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let root = scratch.path().join("data");
        std::fs::write(&root, b"in the way").expect("writes");
        let why = OsDisk::open_within(&root, 8).expect_err("a file is no directory");
        let disk = UnopenedDisk::new(&root, 8, why.clone());
        assert_eq!(disk.lock("lock").expect_err("there is none"), why);
        assert_eq!(disk.describe(), root.display().to_string());
        std::fs::remove_file(&root).expect("removes");
        assert!(disk.look_again().is_err() && !root.exists(), "nothing is made (UD1)");
        std::fs::create_dir(&root).expect("makes");
        let found = disk.look_again().expect("it is there");
        found.open("x", OpenMode::Create).expect("a disk like any other");
        assert!(disk.open("x", OpenMode::Read).is_err(), "this one stays as it was");
    }
}
