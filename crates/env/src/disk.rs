//! Files as the stores see them: positional reads and writes, explicit syncs.
//!
//! Paths are relative to the directory that the disk was opened on, with `/` between parts.
//! - D1: a write is durable once `sync` of its file returned; a new, renamed or removed name once
//!   `sync_dir` of its directory returned. Nothing before.
//! - D2: after a failed sync nothing unsynced may be believed.

use crate::HeldBytes;
use std::fmt;
use std::sync::Arc;

/// Why a file operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoFailure {
    /// No such file.
    #[error("no such file")]
    NotFound,
    /// It is there already.
    #[error("it exists already")]
    AlreadyExists,
    /// No space left.
    #[error("no space left on device")]
    NoSpace,
    /// Another process holds the lock.
    #[error("in use by another process")]
    Locked,
    /// Not allowed.
    #[error("permission denied")]
    Denied,
    /// Anything else that the system says.
    #[error("{0}")]
    Other(String),
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// It must be there; read only.
    Read,
    /// It must be there; read and write.
    Write,
    /// Read and write; made where it is missing.
    Create,
    /// Read and write; it must not be there.
    CreateNew,
}

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All that it has.
    pub capacity: u64,
    /// What is taken.
    pub used: u64,
}

/// Holds a lock until dropped.
pub trait DiskLock: Send + Sync + fmt::Debug {}

/// Bytes of a file as they were when it was mapped, read from the disk when they are looked at.
///
/// Whoever maps a file neither changes nor cuts these bytes as long as the mapping lives.
pub trait Mapping: Send + Sync + fmt::Debug {
    /// The bytes; the same at each call.
    fn bytes(&self) -> &[u8];
}

/// A directory on some disk.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// As the mode says.
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>, IoFailure>;
    /// The names in a directory, sorted; `""` is the disk's own directory.
    ///
    /// # Errors
    /// [`IoFailure::NotFound`] where there is no such directory.
    fn list(&self, directory: &str) -> Result<Vec<String>, IoFailure>;
    /// Makes a directory and those above it; an existing one is no error.
    ///
    /// # Errors
    /// As the system says.
    fn make_dir(&self, directory: &str) -> Result<(), IoFailure>;
    /// Renames a file, replacing what has the new name.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&self, from: &str, to: &str) -> Result<(), IoFailure>;
    /// Removes a file.
    ///
    /// # Errors
    /// As the system says.
    fn remove(&self, path: &str) -> Result<(), IoFailure>;
    /// Makes the names in a directory durable (D1).
    ///
    /// # Errors
    /// As the system says; see D2.
    fn sync_dir(&self, directory: &str) -> Result<(), IoFailure>;
    /// Takes the lock on a file, made where it is missing; never waits.
    ///
    /// # Errors
    /// [`IoFailure::Locked`] while another process holds it.
    fn lock(&self, path: &str) -> Result<Box<dyn DiskLock>, IoFailure>;
    /// How full the file system is.
    ///
    /// # Errors
    /// As the system says.
    fn space(&self) -> Result<Space, IoFailure>;
    /// For people: where this disk is.
    fn describe(&self) -> String;
    /// Differs after every boot of the machine; the same after a mere restart of the process
    /// (R27).
    ///
    /// # Errors
    /// As the system says.
    fn boot_id(&self) -> Result<String, IoFailure>;
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads into `buffer` from `offset`; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// As the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, IoFailure>;
    /// Takes `size` bytes from `offset` towards a connection without reading them: the file's own
    /// pages, waited for here where they are not in memory. None where the system cannot, or the
    /// file ends before: they have to be read.
    ///
    /// # Errors
    /// As the system says.
    fn hold(&self, offset: u64, size: usize) -> Result<Option<Box<dyn HeldBytes>>, IoFailure>;
    /// Writes all of `bytes` at `offset`, extending the file where needed.
    ///
    /// # Errors
    /// As the system says; some of the bytes may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), IoFailure>;
    /// The file's size.
    ///
    /// # Errors
    /// As the system says.
    fn size(&self) -> Result<u64, IoFailure>;
    /// Cuts or extends (with zeros) the file.
    ///
    /// # Errors
    /// As the system says.
    fn set_size(&self, size: u64) -> Result<(), IoFailure>;
    /// Reserves space up to `size` and extends the file with zeros.
    ///
    /// # Errors
    /// As the system says.
    fn allocate(&self, size: u64) -> Result<(), IoFailure>;
    /// Makes contents and size durable (D1).
    ///
    /// # Errors
    /// As the system says; see D2.
    fn sync(&self) -> Result<(), IoFailure>;
    /// Maps the first `size` bytes. The mapping outlives the handle, and the file's name.
    ///
    /// # Errors
    /// Where the file has fewer, and as the system says.
    fn map(&self, size: u64) -> Result<Arc<dyn Mapping>, IoFailure>;
}
