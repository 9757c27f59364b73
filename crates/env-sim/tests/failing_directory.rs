//! A data directory that fails while a batch of journal lines is on its way to another: nothing of
//! what was made in it passes for a replica. The simulator's lanes take effect at one instant, so
//! this is tried here.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use cairn_env::{
    ChunkDone, ChunkError, ChunkJob, Disk, DiskFile, DiskLock, HeldBytes, IoFailure, JournalEntry,
    Mapping, OpenMode, Service, Space, SyncError, UnreadableBytes,
};
use cairn_env_sim::SimDisk;
use cairn_store::ChunkDisk;
use cairn_types::{CellConfig, ChunkHandle, Term};
use chunk_model::{new_disk, version};
use std::sync::{Arc, Mutex};

const FIRST: ChunkHandle = ChunkHandle::new(5);
const SECOND: ChunkHandle = ChunkHandle::new(6);

/// What happens, once, before the next sync of a file.
#[derive(Clone, Default)]
struct Hook(Arc<Mutex<Option<Happening>>>);
type Happening = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

/// A disk on which something happens while it is written to.
#[derive(Debug)]
struct Hooked(Arc<dyn Disk>, Hook);
#[derive(Debug)]
struct HookedFile(Box<dyn DiskFile>, Hook);

impl Disk for Hooked {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>, IoFailure> {
        Ok(Box::new(HookedFile(self.0.open(path, mode)?, self.1.clone())))
    }
    fn list(&self, directory: &str) -> Result<Vec<String>, IoFailure> {
        self.0.list(directory)
    }
    fn make_dir(&self, directory: &str) -> Result<(), IoFailure> {
        self.0.make_dir(directory)
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), IoFailure> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &str) -> Result<(), IoFailure> {
        self.0.remove(path)
    }
    fn clone_file(&self, from: &str, to: &str) -> Result<bool, IoFailure> {
        self.0.clone_file(from, to)
    }
    fn sync_dir(&self, directory: &str) -> Result<(), SyncError> {
        self.0.sync_dir(directory)
    }
    fn lock(&self, path: &str) -> Result<Box<dyn DiskLock>, IoFailure> {
        self.0.lock(path)
    }
    fn space(&self) -> Result<Space, IoFailure> {
        self.0.space()
    }
    fn look_again(&self) -> Result<Arc<dyn Disk>, IoFailure> {
        self.0.look_again()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn page_cache_id(&self) -> Result<String, IoFailure> {
        self.0.page_cache_id()
    }
    fn unreadable(&self) -> Result<Option<UnreadableBytes>, IoFailure> {
        self.0.unreadable()
    }
    fn forget_unreadable(&self) -> Result<(), SyncError> {
        self.0.forget_unreadable()
    }
}

impl DiskFile for HookedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, IoFailure> {
        self.0.read_at(buffer, offset)
    }
    fn hold(&self, offset: u64, size: usize) -> Result<Option<Box<dyn HeldBytes>>, IoFailure> {
        self.0.hold(offset, size)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), IoFailure> {
        self.0.write_at(bytes, offset)
    }
    fn size(&self) -> Result<u64, IoFailure> {
        self.0.size()
    }
    fn set_size(&self, size: u64) -> Result<(), IoFailure> {
        self.0.set_size(size)
    }
    fn allocate(&self, size: u64) -> Result<(), IoFailure> {
        self.0.allocate(size)
    }
    fn sync(&self) -> Result<(), SyncError> {
        let hook = self.1.0.lock().unwrap().take();
        hook.into_iter().for_each(|happens| happens());
        self.0.sync()
    }
    fn map(&self, size: u64) -> Result<Arc<dyn Mapping>, IoFailure> {
        self.0.map(size)
    }
}

fn raise(handle: ChunkHandle) -> JournalEntry {
    JournalEntry::Raise { handle, version: version(1), create: true, close: false }
}

/// The jobs are one of a batch: the second entry has the other directory flush after this one.
#[test]
fn what_was_made_in_a_directory_that_failed_before_the_batch_was_over_is_no_replica() {
    let disks = [new_disk(), new_disk()];
    disks[0].set_capacity(1 << 31);
    let hook = Hook::default();
    let sessions: Vec<Arc<dyn Disk>> =
        vec![disks[0].session(), Arc::new(Hooked(disks[1].session(), hook.clone()))];
    let (service, _) = ChunkDisk::open(sessions, 1 << 20).unwrap();
    let service = Arc::new(service);
    service.configure(&CellConfig { block_size: chunk_model::BLOCK, ..CellConfig::tiny() });
    let journal = |entries| ChunkJob::Journal(entries);
    assert_eq!(service.run(vec![journal(vec![raise(FIRST)])]), [Ok(ChunkDone::Journaled)]);
    let (first, other): (SimDisk, _) = (disks[0].clone(), service.clone());
    *hook.0.lock().unwrap() = Some(Box::new(move || {
        first.fail_syncs(1);
        let failed = other.run(vec![ChunkJob::Sync { handle: FIRST }]);
        assert!(failed[0].is_err(), "{failed:?}");
        // The loop has heard of it.
        assert_eq!(other.take_lost(), [FIRST]);
    }));
    let results = service
        .run(vec![journal(vec![raise(SECOND)]), journal(vec![JournalEntry::Term(Term::new(3))])]);
    assert!(hook.0.lock().unwrap().is_none(), "the other directory was flushed");
    assert_eq!(results[0], Err(ChunkError::NoSuchChunk), "it is told as made by nobody");
    assert_eq!(service.take_lost(), [], "nothing of it is counted");
    let read = ChunkJob::Read { handle: SECOND, offset: 0, size: 1 };
    assert_eq!(service.run(vec![read]), [Err(ChunkError::NoSuchChunk)]);
}
