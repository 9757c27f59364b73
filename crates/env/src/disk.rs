//! Files as the stores see them: positional reads and writes, explicit syncs.
//!
//! Paths are relative to the directory that the disk was opened on, with `/` between parts.
//! - D1: a write is durable once `sync` of its file returned; a new, renamed or removed name once
//!   `sync_dir` of its directory returned. Nothing before.
//! - D2: after a failed sync nothing unsynced may be believed. So a sync that was never tried (no
//!   descriptor for the directory, say) is told apart from one that failed ([`SyncError`]).

use crate::HeldBytes;
use std::fmt;
use std::ops::Range;
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
    /// The process, or the system, has no file descriptors left.
    #[error("too many open files")]
    NoDescriptors,
    /// The device cannot read or write (`EIO`).
    #[error("input/output error")]
    Device,
    /// The file has fewer bytes than are needed.
    #[error("the file ends too soon")]
    TooShort,
    /// The process that opened this has ended; only a simulated one can be told so.
    #[error("the process has ended")]
    Ended,
    /// Anything else, as the system numbers it.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    System(i32),
}

/// Why a sync did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    /// It was never tried: what is durable is what was, and it may be tried again.
    #[error("{0}")]
    NotTried(IoFailure),
    /// The system tried and failed (D2).
    #[error("fsync failed: {0}")]
    Failed(IoFailure),
}

/// Why plain work on a disk failed, whatever it was for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// No space left; nothing was changed.
    #[error("no space left on the data directory")]
    NoSpace,
    /// No space left for all of it: a part was written.
    #[error("no space left on the data directory, with a part written")]
    NoSpaceMidway,
    /// The disk refused; what was asked may or may not have happened.
    #[error("disk: {0}")]
    Io(IoFailure),
    /// An fsync failed: nothing that was not synced before can be trusted (R27). Nothing but an
    /// fsync that was tried leads to this.
    #[error("fsync failed: {0}")]
    SyncFailed(IoFailure),
}

impl From<IoFailure> for DiskError {
    fn from(failure: IoFailure) -> Self {
        match failure {
            IoFailure::NoSpace => Self::NoSpace,
            other => Self::Io(other),
        }
    }
}

impl From<SyncError> for DiskError {
    fn from(error: SyncError) -> Self {
        match error {
            SyncError::NotTried(failure) => failure.into(),
            SyncError::Failed(failure) => Self::SyncFailed(failure),
        }
    }
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
    /// Equal for directories on one file system, whose space is there once.
    pub file_system: u64,
    /// All that it has.
    pub capacity: u64,
    /// What is taken.
    pub used: u64,
}

/// Holds a lock until dropped.
pub trait DiskLock: Send + Sync + fmt::Debug {}

/// Bytes of a file as they were when it was mapped, read from the disk when they are looked at.
///
/// Whoever maps a file neither changes nor cuts these bytes as long as the mapping lives. Where
/// the disk cannot read them, the process that looks at them ends, and [`Disk::unreadable`] tells
/// the next one where.
pub trait Mapping: Send + Sync + fmt::Debug {
    /// Some of the bytes; the same at each call. None where the mapping ends before they do.
    fn bytes(&self, range: Range<usize>) -> Option<&[u8]>;
}

/// Mapped bytes that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableBytes {
    /// Of which file.
    pub path: String,
    /// Where the page begins that was looked at.
    pub offset: u64,
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
    /// Renames a file, replacing the file that has the new name; or a directory with all that lies
    /// in it, where nothing has the new name.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&self, from: &str, to: &str) -> Result<(), IoFailure>;
    /// Removes a file.
    ///
    /// # Errors
    /// As the system says.
    fn remove(&self, path: &str) -> Result<(), IoFailure>;
    /// Makes a file that has the bytes of another and shares their place on the disk with it, until
    /// one of the two is written to; durable as anything written is (D1). False where the file
    /// system cannot: then nothing was made.
    ///
    /// # Errors
    /// [`IoFailure::AlreadyExists`]; [`IoFailure::NotFound`]; as the system says.
    fn clone_file(&self, from: &str, to: &str) -> Result<bool, IoFailure>;
    /// Makes the names in a directory durable (D1).
    ///
    /// # Errors
    /// As the system says; see D2.
    fn sync_dir(&self, directory: &str) -> Result<(), SyncError>;
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
    /// Another look at the place where this disk is, which was given up: what is there now, perhaps
    /// another disk. Nothing is made there.
    ///
    /// # Errors
    /// [`IoFailure::NotFound`] where nothing is, or not what is expected there.
    fn look_again(&self) -> Result<Arc<dyn Disk>, IoFailure>;
    /// How many of its files may be open at once, those of [`DiskFile::hold`] not counted. Who
    /// keeps files open beside those in use stays well below.
    fn open_files_max(&self) -> usize {
        usize::MAX
    }
    /// For people: where this disk is.
    fn describe(&self) -> String;
    /// Names the life of the page cache behind this directory: the same after a mere restart of the
    /// process; another one after a boot of the machine, after the file system was mounted anew,
    /// and wherever nothing proves that it was not (R27).
    ///
    /// # Errors
    /// As the system says.
    fn page_cache_id(&self) -> Result<String, IoFailure>;
    /// The bytes whose reading ended a process that had this disk open ([`Mapping`]); told until
    /// they are [forgotten](Self::forget_unreadable).
    ///
    /// # Errors
    /// As the system says.
    fn unreadable(&self) -> Result<Option<UnreadableBytes>, IoFailure>;
    /// Forgets them, durably.
    ///
    /// # Errors
    /// As the system says; they may be told again then.
    fn forget_unreadable(&self) -> Result<(), SyncError>;
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
    fn sync(&self) -> Result<(), SyncError>;
    /// Maps the first `size` bytes. The mapping outlives the handle, and the file's name.
    ///
    /// # Errors
    /// Where the file has fewer, and as the system says.
    fn map(&self, size: u64) -> Result<Arc<dyn Mapping>, IoFailure>;
}
