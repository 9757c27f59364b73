//! Where a chunk's files lie, and the few that are kept open.
//!
//! ```text
//!   chunks/<last byte of the handle>/<handle>.chunk   .meta   .redo        in hexadecimal
//! ```

use crate::whole_files::{disk_error, sync_failure};
use cairn_env::{Disk, DiskError, DiskFile, IoFailure, OpenMode};
use cairn_types::ChunkHandle;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Chunks whose files are kept open, where the disk grants so many.
const OPEN_MAX: usize = 192;
/// Of the files that the disk grants, half are for jobs under way, of two for each chunk.
const GRANTED_PER_CHUNK: usize = 4;
/// The directory of the chunks' directories.
pub(crate) const CHUNKS_DIRECTORY: &str = "chunks";

/// A chunk's bytes and its sidecar, open.
#[derive(Debug)]
pub(crate) struct ChunkFiles {
    pub(crate) data: Box<dyn DiskFile>,
    pub(crate) meta: Box<dyn DiskFile>,
    /// Which opening of files this was; no two of a directory have the same.
    pub(crate) opening: u64,
}

/// The directory of a chunk's files.
pub(crate) fn directory(handle: ChunkHandle) -> String {
    format!("{CHUNKS_DIRECTORY}/{:02x}", handle.get() & 0xff)
}

/// Whether a name in the chunks' directory is one of those that chunks lie in; of what somebody
/// else put there nothing is wanted.
pub(crate) fn is_directory_name(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// One of a chunk's files: `chunk`, `meta` or `redo`.
pub(crate) fn path(handle: ChunkHandle, kind: &str) -> String {
    format!("{}/{:016x}.{kind}", directory(handle), handle.get())
}

/// The kinds of files that a chunk may have.
pub(crate) const KINDS: [&str; 3] = ["chunk", "meta", "redo"];

/// Opens one of a chunk's files, made with its directory where missing if `create`.
fn open(
    disk: &dyn Disk,
    handle: ChunkHandle,
    kind: &str,
    create: bool,
) -> Result<Box<dyn DiskFile>, IoFailure> {
    let path = path(handle, kind);
    if !create {
        return disk.open(&path, OpenMode::Write);
    }
    match disk.open(&path, OpenMode::Create) {
        Err(IoFailure::NotFound) => {
            disk.make_dir(&directory(handle))?;
            disk.open(&path, OpenMode::Create)
        }
        opened => opened,
    }
}

/// The chunks that have files, whether they should or not.
pub(crate) fn handles_with_files(disk: &dyn Disk) -> Result<BTreeSet<ChunkHandle>, IoFailure> {
    let mut found = BTreeSet::new();
    let names = disk.list(CHUNKS_DIRECTORY)?;
    for low in names.into_iter().filter(|name| is_directory_name(name)) {
        for name in disk.list(&format!("{CHUNKS_DIRECTORY}/{low}"))? {
            let handle = name.split('.').next().map(|hex| u64::from_str_radix(hex, 16));
            if let Some(Ok(raw)) = handle {
                found.insert(ChunkHandle::new(raw));
            }
        }
    }
    Ok(found)
}

/// The open files: those used longest ago are closed first.
#[derive(Debug)]
struct OpenFiles {
    count_max: usize,
    clock: u64,
    openings: u64,
    by_handle: BTreeMap<ChunkHandle, (u64, Arc<ChunkFiles>)>,
    by_age: BTreeMap<u64, ChunkHandle>,
}

impl OpenFiles {
    fn within(granted: usize) -> Self {
        let count_max = (granted / GRANTED_PER_CHUNK).min(OPEN_MAX);
        let (by_handle, by_age) = (BTreeMap::new(), BTreeMap::new());
        Self { count_max, clock: 0, openings: 0, by_handle, by_age }
    }

    fn next_opening(&mut self) -> u64 {
        self.openings += 1;
        self.openings
    }

    fn get(&mut self, handle: ChunkHandle) -> Option<Arc<ChunkFiles>> {
        let (age, files) = self.by_handle.get_mut(&handle)?;
        self.by_age.remove(age);
        self.clock += 1;
        *age = self.clock;
        self.by_age.insert(self.clock, handle);
        Some(Arc::clone(files))
    }

    fn put(&mut self, handle: ChunkHandle, files: Arc<ChunkFiles>) {
        self.remove(handle);
        self.clock += 1;
        self.by_handle.insert(handle, (self.clock, files));
        self.by_age.insert(self.clock, handle);
        if self.by_handle.len() > self.count_max
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_handle.remove(&oldest);
        }
    }

    fn remove(&mut self, handle: ChunkHandle) {
        if let Some((age, _)) = self.by_handle.remove(&handle) {
            self.by_age.remove(&age);
        }
    }
}

/// The files of all chunks of one data directory.
#[derive(Debug)]
pub(crate) struct ChunkDirectory {
    pub(crate) disk: Arc<dyn Disk>,
    open: Mutex<OpenFiles>,
}

impl ChunkDirectory {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        let open = Mutex::new(OpenFiles::within(disk.open_files_max()));
        Self { disk, open }
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk's files, made where they are missing if `create`.
    pub(crate) fn files(
        &self,
        handle: ChunkHandle,
        create: bool,
    ) -> Result<Arc<ChunkFiles>, DiskError> {
        if let Some(files) = self.open_files().get(handle) {
            return Ok(files);
        }
        let disk = self.disk.as_ref();
        let data = open(disk, handle, "chunk", create).map_err(disk_error)?;
        let meta = open(disk, handle, "meta", create).map_err(disk_error)?;
        let mut open = self.open_files();
        let files = Arc::new(ChunkFiles { data, meta, opening: open.next_opening() });
        open.put(handle, Arc::clone(&files));
        Ok(files)
    }

    /// Whether one of a chunk's files has its name.
    pub(crate) fn has(&self, handle: ChunkHandle, kind: &str) -> Result<bool, DiskError> {
        match self.disk.open(&path(handle, kind), OpenMode::Read) {
            Ok(_) => Ok(true),
            Err(IoFailure::NotFound) => Ok(false),
            Err(failure) => Err(disk_error(failure)),
        }
    }

    /// Makes the names of a chunk's files durable.
    pub(crate) fn sync_names(&self, handle: ChunkHandle) -> Result<(), DiskError> {
        self.disk.sync_dir(&directory(handle)).map_err(sync_failure)?;
        self.disk.sync_dir(CHUNKS_DIRECTORY).map_err(sync_failure)
    }

    /// Closes a chunk's files, because they are going away.
    pub(crate) fn close(&self, handle: ChunkHandle) {
        self.open_files().remove(handle);
    }
}
