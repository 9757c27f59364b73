//! A directory of this machine as a [`Disk`]: positional reads and writes, explicit syncs.
//!
//! - D1 and D2 of the contract are the kernel's: `fdatasync` for a file, `fsync` for a directory.
//!   Nothing here retries a failed sync, because the kernel forgets what it could not write.
//!
//! Knows files. Never knows what is in them.

use crate::bus_errors::MappedName;
use crate::mapping::OsMapping;
use crate::page_cache::{file_system, page_cache_id};
use crate::pipes::Pipes;
use crate::unreadable::NoteFile;
use cairn_env::{
    Disk, DiskFile, DiskLock, HeldBytes, IoFailure, Mapping, OpenMode, Space, SyncError,
    UnreadableBytes,
};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EIO: i32 = Errno::IO.raw_os_error();
const EMFILE: i32 = Errno::MFILE.raw_os_error();
const ENFILE: i32 = Errno::NFILE.raw_os_error();

/// A directory of this machine.
#[derive(Debug)]
pub struct OsDisk {
    root: PathBuf,
    /// Files that may be open at once; pipes are others.
    files_max: usize,
    pipes: Arc<Pipes>,
    note: Arc<NoteFile>,
    /// A file system of its own was mounted here: without it, there is nothing here but a hole in
    /// another one.
    mounted: bool,
}

/// Of a directory's descriptors, one of so many is for pipes.
const PIPES_SHARE: usize = 4;

impl OsDisk {
    /// The disk in `directory`, which is made where it is missing.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, IoFailure> {
        Self::open_within(directory, usize::MAX)
    }

    /// The same, with so many descriptors at most, for files and for pipes on their way to sockets
    /// (`DescriptorShare::files_per_directory`).
    ///
    /// # Errors
    /// As the system says.
    pub fn open_within(directory: impl AsRef<Path>, descriptors: usize) -> Result<Self, IoFailure> {
        let root = directory.as_ref().to_owned();
        make_durably(&root).map_err(failure)?;
        Self::as_it_is(root, descriptors)
    }

    /// The same of a directory that has to be there already.
    pub(crate) fn as_it_is(root: PathBuf, descriptors: usize) -> Result<Self, IoFailure> {
        let pipes = Arc::new(Pipes::within(descriptors / PIPES_SHARE));
        let note = Arc::new(NoteFile::in_directory(&root));
        let files_max = descriptors - descriptors / PIPES_SHARE;
        let mounted = is_mounted(&root).map_err(failure)?;
        Ok(Self { root, files_max, pipes, note, mounted })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Makes a directory and those above it, so that a power loss leaves none of them without its
/// name; gives those whose names were synced, lowest first.
fn make_durably(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let absolute = std::path::absolute(directory)?;
    let missing = absolute.ancestors().take_while(|above| !above.exists());
    let parents: Vec<PathBuf> = missing.filter_map(Path::parent).map(Path::to_owned).collect();
    std::fs::create_dir_all(&absolute)?;
    for parent in &parents {
        File::open(parent)?.sync_all()?;
    }
    Ok(parents)
}

/// Whether the directory is on another file system than the one above it.
fn is_mounted(directory: &Path) -> Result<bool, Error> {
    let real = directory.canonicalize()?;
    let above = real.parent().unwrap_or(&real);
    Ok(std::fs::metadata(&real)?.dev() != std::fs::metadata(above)?.dev())
}

fn failure(error: Error) -> IoFailure {
    match error.kind() {
        ErrorKind::NotFound => IoFailure::NotFound,
        ErrorKind::AlreadyExists => IoFailure::AlreadyExists,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => IoFailure::NoSpace,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => IoFailure::Denied,
        ErrorKind::UnexpectedEof => IoFailure::TooShort,
        _ => match error.raw_os_error() {
            Some(EMFILE | ENFILE) => IoFailure::NoDescriptors,
            Some(number) if number != EIO => IoFailure::System(number),
            // A file that takes no more bytes without saying why is as broken.
            Some(_) | None => IoFailure::Device,
        },
    }
}

/// What came of a file's cloning (`FICLONE`): whether the file system can. Most say that they know
/// no such thing, some that they cannot do it with these files.
fn cloned(done: Result<(), Errno>) -> Result<bool, IoFailure> {
    match done {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::XDEV | Errno::INVAL) => {
            Ok(false)
        }
        Err(errno) => Err(failure(errno.into())),
    }
}

/// A sync is asked for: what fails from here on has been tried (D2).
fn sync_failed(error: Error) -> SyncError {
    SyncError::Failed(failure(error))
}

/// With fewer inodes than this a file system has no room, however many bytes are free: each chunk
/// takes two, and a journal's next one and what is overwritten take some for a moment.
const INODES_LEFT: u64 = 256;

impl Disk for OsDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>, IoFailure> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::Write => options.write(true),
            OpenMode::Create => options.write(true).create(true),
            OpenMode::CreateNew => options.write(true).create_new(true),
        };
        let file = options.open(self.at(path)).map_err(failure)?;
        let (pipes, note) = (Arc::clone(&self.pipes), Arc::clone(&self.note));
        Ok(Box::new(OsFile { file, path: path.to_owned(), pipes, note }))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, IoFailure> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.at(directory)).map_err(failure)? {
            let name = entry.map_err(failure)?.file_name();
            // A name that is not UTF-8 is not ours, and no path of this trait could reach it.
            names.extend(name.into_string());
        }
        names.sort();
        Ok(names)
    }

    fn make_dir(&self, directory: &str) -> Result<(), IoFailure> {
        std::fs::create_dir_all(self.at(directory)).map_err(failure)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoFailure> {
        std::fs::rename(self.at(from), self.at(to)).map_err(failure)
    }

    fn remove(&self, path: &str) -> Result<(), IoFailure> {
        std::fs::remove_file(self.at(path)).map_err(failure)
    }

    fn clone_file(&self, from: &str, to: &str) -> Result<bool, IoFailure> {
        let source = File::open(self.at(from)).map_err(failure)?;
        let copy = OpenOptions::new().write(true).create_new(true).open(self.at(to));
        let cloned = cloned(rustix::fs::ioctl_ficlone(copy.map_err(failure)?, source));
        if cloned != Ok(true) {
            self.remove(to)?;
        }
        cloned
    }

    fn sync_dir(&self, directory: &str) -> Result<(), SyncError> {
        let opened = File::open(self.at(directory));
        let directory = opened.map_err(|error| SyncError::NotTried(failure(error)))?;
        directory.sync_all().map_err(sync_failed)
    }

    fn lock(&self, path: &str) -> Result<Box<dyn DiskLock>, IoFailure> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.at(path))
            .map_err(failure)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(OsLock { _file: file })),
            Err(TryLockError::WouldBlock) => Err(IoFailure::Locked),
            Err(TryLockError::Error(error)) => Err(failure(error)),
        }
    }

    fn space(&self) -> Result<Space, IoFailure> {
        let told = rustix::fs::statvfs(&self.root).map_err(|errno| failure(errno.into()))?;
        // What only root may use counts as taken: a chunkserver need not be root. A file system
        // that counts no inodes tells of none.
        let has_inodes = told.f_files == 0 || told.f_favail >= INODES_LEFT;
        let free = if has_inodes { told.f_bavail } else { 0 };
        Ok(Space {
            file_system: file_system(&self.root).map_err(failure)?,
            capacity: told.f_blocks * told.f_frsize,
            used: told.f_blocks.saturating_sub(free) * told.f_frsize,
        })
    }

    fn look_again(&self) -> Result<Arc<dyn Disk>, IoFailure> {
        let mounted = is_mounted(&self.root).map_err(failure)?;
        if self.mounted && !mounted {
            return Err(IoFailure::NotFound);
        }
        let (root, pipes) = (self.root.clone(), Arc::clone(&self.pipes));
        let note = Arc::new(NoteFile::in_directory(&root));
        Ok(Arc::new(Self { root, files_max: self.files_max, pipes, note, mounted }))
    }

    fn open_files_max(&self) -> usize {
        self.files_max
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }

    fn page_cache_id(&self) -> Result<String, IoFailure> {
        page_cache_id(&self.root).map_err(failure)
    }

    fn unreadable(&self) -> Result<Option<UnreadableBytes>, IoFailure> {
        self.note.read().map_err(failure)
    }

    fn forget_unreadable(&self) -> Result<(), SyncError> {
        match self.unreadable().map_err(SyncError::NotTried)? {
            None => Ok(()),
            Some(_) => self.note.clear().map_err(sync_failed),
        }
    }
}

/// An flock, released when the file is closed, by a crash too.
#[derive(Debug)]
struct OsLock {
    _file: File,
}

impl DiskLock for OsLock {}

#[derive(Debug)]
struct OsFile {
    file: File,
    /// As it was opened.
    path: String,
    pipes: Arc<Pipes>,
    note: Arc<NoteFile>,
}

impl DiskFile for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, IoFailure> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failure(error)),
            }
        }
        Ok(filled)
    }

    fn hold(&self, offset: u64, size: usize) -> Result<Option<Box<dyn HeldBytes>>, IoFailure> {
        let held = self.pipes.hold(&self.file, offset, size);
        let held = held.map_err(|errno| failure(errno.into()))?;
        Ok(held.map(|piped| piped as Box<dyn HeldBytes>))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), IoFailure> {
        self.file.write_all_at(bytes, offset).map_err(failure)
    }

    fn size(&self) -> Result<u64, IoFailure> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(failure)
    }

    fn set_size(&self, size: u64) -> Result<(), IoFailure> {
        self.file.set_len(size).map_err(failure)
    }

    fn allocate(&self, size: u64) -> Result<(), IoFailure> {
        if size == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size) {
            // A file system that cannot reserve (some network ones) still has to extend.
            Err(Errno::OPNOTSUPP) if self.size()? < size => self.set_size(size),
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(failure(errno.into())),
        }
    }

    fn sync(&self) -> Result<(), SyncError> {
        self.file.sync_data().map_err(sync_failed)
    }

    fn map(&self, size: u64) -> Result<Arc<dyn Mapping>, IoFailure> {
        let name = MappedName { directory: self.note.directory(), path: &self.path };
        // Where there is no room for a note, it is still said what cannot be read.
        let note = self.note.ready().ok();
        Ok(Arc::new(OsMapping::new(&self.file, size, name, note).map_err(failure)?))
    }
}

#[cfg(test)]
mod tests {
    use super::{OsDisk, make_durably};
    use cairn_env::{Disk, IoFailure, OpenMode, conformance};
    use std::sync::Arc;

    #[test]
    fn a_directory_does_what_the_contract_of_a_disk_says() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        conformance::judge_disk(&OsDisk::open(directory.path()).expect("opens"));
    }

    #[test]
    fn files_are_cloned_where_the_file_system_can_and_else_nothing_is_made() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let can = conformance::judge_clones(&OsDisk::open(directory.path()).expect("opens"));
        let directory = tempfile::tempdir().expect("a scratch directory");
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(directory.path()).expect("opens"));
        let made_so = cairn_store::conformance::judge_local_copy(&disk);
        assert_eq!(made_so, can, "a chunk's copy is a clone where the file system can");
    }

    #[test]
    fn a_file_system_that_cannot_clone_is_told_apart_from_one_that_failed() {
        use rustix::io::Errno;
        let unable = [Errno::OPNOTSUPP, Errno::NOTTY, Errno::NOSYS, Errno::XDEV, Errno::INVAL];
        assert!(unable.into_iter().all(|errno| super::cloned(Err(errno)) == Ok(false)));
        assert_eq!(super::cloned(Ok(())), Ok(true));
        assert_eq!(super::cloned(Err(Errno::NOSPC)), Err(IoFailure::NoSpace));
        assert_eq!(super::cloned(Err(Errno::IO)), Err(IoFailure::Device));
    }

    #[test]
    fn a_new_directory_and_those_above_it_have_durable_names() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = |name: &str| scratch.path().join(name);
        let synced = make_durably(&at("a/b/c")).expect("makes");
        assert_eq!(synced, [at("a/b"), at("a"), scratch.path().to_owned()]);
        assert!(at("a/b/c").is_dir());
        assert_eq!(make_durably(&at("a/b")).expect("is there"), Vec::<std::path::PathBuf>::new());
    }

    #[test]
    fn another_look_finds_what_is_there_now_and_makes_nothing() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = scratch.path().join("disk");
        let disk = OsDisk::open(&at).expect("opens");
        disk.open("file", OpenMode::Create).expect("makes");
        std::fs::remove_dir_all(&at).expect("removes");
        assert_eq!(disk.look_again().map(drop), Err(IoFailure::NotFound));
        assert!(!at.exists(), "nobody made it");
        std::fs::create_dir(&at).expect("makes");
        let again = disk.look_again().expect("another one is there");
        assert_eq!(again.list(""), Ok(vec![]));
        let unmounted = OsDisk { mounted: true, ..OsDisk::open(&at).expect("opens") };
        let missed = unmounted.look_again().map(drop);
        assert_eq!(missed, Err(IoFailure::NotFound), "a hole where a disk was mounted");
    }

    #[test]
    fn a_full_device_is_told_apart_from_other_trouble() {
        let disk = OsDisk::open("/dev").expect("opens");
        let full = disk.open("full", OpenMode::Write).expect("every Linux has it");
        assert_eq!(full.write_at(b"x", 0), Err(IoFailure::NoSpace));
    }
}
