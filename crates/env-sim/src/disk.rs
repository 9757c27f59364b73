//! A disk that forgets, tears and lies as real ones do, in memory and by the seed.
//!
//! ```text
//!   write ──► page cache ── sync ──► durable          names ── sync_dir ──► durable names
//!                │ kill: kept           │ power loss: this, and what was not synced at random
//! ```
//! - A killed process leaves the page cache; a write that the *fuse* cut is torn between pages.
//! - A power loss keeps or loses each unsynced page and each unsynced name by itself.
//! - A sync that fails leaves the page cache looking clean and the disk without the bytes (D2).
//! - What else disks do wrong is in `faults.rs`.
//! - Handles, locks and files of a session are dead after [`SimDisk::crash`] and
//!   [`SimDisk::power_loss`]; the controller's own handle lives on.

mod cloning;
mod faults;
mod file_table;
mod inode;
mod names;
mod room;

pub use faults::DiskFaults;

use bytes::Bytes;
use cairn_env::{
    Disk, DiskFile, DiskLock, HeldBytes, IoFailure, Mapping, OpenMode, Space, SyncError,
    UnreadableBytes,
};
use cairn_types::{Random, crc32c};
use faults::{FaultState, SimMapping, SyncOutcome};
use file_table::FileTable;
use inode::{Inode, InodeNumber, Kept, PAGE_SIZE, page_of};
use names::{NameTable, NameTarget};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the system says of a directory where a file is meant.
const EISDIR: i32 = 21;

/// A simulated disk; clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<DiskState>>,
    /// The process it was handed to; none for whoever controls the disk.
    session: Option<u64>,
}

/// All that a disk holds at one time: an old image, to come back later.
#[derive(Clone, Debug)]
pub struct DiskImage {
    files: FileTable,
    names: NameTable,
}

impl DiskImage {
    /// As it is once all that was written is on the disk, whatever a sync has said of it.
    pub fn write_back(&mut self) {
        self.files.write_back();
        self.names.write_back();
    }
}

#[derive(Debug)]
struct DiskState {
    name: String,
    files: FileTable,
    names: NameTable,
    next_inode: InodeNumber,
    capacity: u64,
    session: u64,
    boot: u64,
    /// How often it was mounted anew within a boot.
    mount: u64,
    /// Steps until everything fails.
    fuse: Option<u64>,
    fuse_blown: bool,
    faults: FaultState,
    steps: u64,
    locks: BTreeSet<String>,
    /// What a process ended of that looked at it under a mapping.
    unreadable: Option<UnreadableBytes>,
    /// It was pulled out.
    absent: bool,
    /// Its file system can let files share their pages.
    clones_files: bool,
}

impl DiskState {
    fn alive(&self, session: u64) -> Result<(), IoFailure> {
        if session != self.session {
            return Err(IoFailure::Ended);
        }
        if self.fuse_blown {
            return Err(IoFailure::Ended);
        }
        if self.absent { Err(IoFailure::NotFound) } else { Ok(()) }
    }

    /// One change of a page, a size or a name: a place to be killed at.
    fn change(&mut self) -> Result<(), IoFailure> {
        self.steps += 1;
        match &mut self.fuse {
            Some(0) => {
                self.fuse_blown = true;
                return Err(IoFailure::Ended);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    /// Each unsynced page and name is kept or lost at random; the page cache is empty afterwards.
    fn lose_unsynced(&mut self, random: &mut Random) {
        self.names.lose_unsynced(&mut || random.chance(500));
        let tears = self.faults.tears_pages;
        self.files.lose_unsynced(&mut || {
            let kept = random.chance(500);
            // Drawn only where it matters.
            let torn = tears && random.chance(100);
            if torn { Kept::Sectors(random.below(256) as u8) } else { Kept::whole(kept) }
        });
    }

    fn used(&self) -> u64 {
        self.files.used_pages() * PAGE_SIZE as u64
    }

    fn inode(&self, number: InodeNumber) -> Result<&Inode, IoFailure> {
        self.files.get(number).ok_or(IoFailure::NotFound)
    }

    fn change_inode<T>(
        &mut self,
        number: InodeNumber,
        change: impl FnOnce(&mut Inode) -> T,
    ) -> Result<T, IoFailure> {
        self.files.change(number, change).ok_or(IoFailure::NotFound)
    }

    fn add_inode(&mut self) -> InodeNumber {
        self.next_inode += 1;
        self.files.add(self.next_inode);
        self.next_inode
    }

    fn unlink(&mut self, number: InodeNumber) {
        self.files.change(number, |inode| inode.unlinked = true);
    }

    fn forget_unreachable(&mut self) {
        self.files.keep(&self.names.inodes(), &self.names.named());
    }

    fn begin_session(&mut self) {
        self.session += 1;
        self.fuse = None;
        self.fuse_blown = false;
        self.faults.begin_session();
        self.locks.clear();
        self.forget_unreachable();
    }
}

impl SimDisk {
    /// An empty disk; `name` is for people.
    #[must_use]
    pub fn new(name: impl Into<String>, capacity: u64) -> Self {
        let state = DiskState {
            name: name.into(),
            files: FileTable::default(),
            names: NameTable::default(),
            next_inode: 0,
            capacity,
            session: 0,
            boot: 1,
            mount: 1,
            fuse: None,
            fuse_blown: false,
            faults: FaultState::new(),
            steps: 0,
            locks: BTreeSet::new(),
            unreadable: None,
            absent: false,
            clones_files: false,
        };
        Self { state: Arc::new(Mutex::new(state)), session: None }
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        // A panic under the lock fails its test anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if this handle's process is alive.
    fn living(&self) -> Result<MutexGuard<'_, DiskState>, IoFailure> {
        let state = self.state();
        state.alive(self.session.unwrap_or(state.session))?;
        Ok(state)
    }

    /// A handle for a process that starts now; dead after the next crash or power loss.
    #[must_use]
    pub fn session(&self) -> Arc<dyn Disk> {
        let session = Some(self.state().session);
        Arc::new(Self { state: Arc::clone(&self.state), session })
    }

    /// The process is killed: the page cache stays, locks are free.
    pub fn crash(&self) {
        self.state().begin_session();
    }

    /// The power goes: each unsynced page and name is kept or lost at random; another boot.
    pub fn power_loss(&self, random: &mut Random) {
        let mut state = self.state();
        state.lose_unsynced(random);
        state.boot += 1;
        state.begin_session();
    }

    /// The power goes, and nothing that was not synced had reached the disk yet; another boot.
    pub fn power_loss_of_all_unsynced(&self) {
        let mut state = self.state();
        state.names.lose_unsynced(&mut || false);
        state.files.lose_unsynced(&mut || Kept::whole(false));
        state.boot += 1;
        state.begin_session();
    }

    /// After `steps` more changes of a page, size or name everything fails until the next crash;
    /// a write in progress is torn there, between pages.
    pub fn arm_fuse(&self, steps: u64) {
        self.state().fuse = Some(steps);
    }

    /// Whether the fuse has cut something, or something unreadable was looked at under a mapping:
    /// the process must be killed now.
    #[must_use]
    pub fn fuse_blown(&self) -> bool {
        self.state().fuse_blown
    }

    /// Changes so far, as [`SimDisk::arm_fuse`] counts them.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Whether it has room, and nothing goes wrong from now on.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let state = self.state();
        state.fuse.is_none_or(|left| left > u64::MAX / 2)
            && state.faults.is_over()
            && state.used() < state.capacity
    }

    /// Turns all bits of one stored byte; says whether there was one.
    pub fn flip_byte(&self, path: &str, offset: u64) -> bool {
        let mut state = self.state();
        let Some(NameTarget::File(number)) = state.names.get(path) else {
            return false;
        };
        state.files.change(number, |inode| inode.flip(offset)).unwrap_or(false)
    }

    /// The paths of all files, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.state().names.files()
    }

    /// The disk as it is.
    #[must_use]
    pub fn image(&self) -> DiskImage {
        let state = self.state();
        DiskImage { files: state.files.clone(), names: state.names.clone() }
    }

    /// Pulls it out, with all that it holds, while whoever has it open lives on.
    pub fn pull_out(&self) {
        let mut state = self.state();
        state.absent = true;
        state.files = FileTable::default();
        state.names = NameTable::default();
        state.locks.clear();
        state.unreadable = None;
    }

    /// Puts an empty one in its place.
    pub fn put_in(&self) {
        self.state().absent = false;
    }

    /// Puts an old image in the place of what is there; whoever had it open is dead.
    pub fn restore(&self, image: &DiskImage) {
        let mut state = self.state();
        state.absent = false;
        state.files = image.files.clone();
        state.names = image.names.clone();
        state.unreadable = None;
        state.faults.written_anew();
        state.next_inode = state.next_inode.max(state.files.last());
        state.begin_session();
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>, IoFailure> {
        let mut state = self.living()?;
        state.faults.on_open()?;
        let inode = match (state.names.get(path), mode) {
            (Some(NameTarget::File(_)), OpenMode::CreateNew) => {
                return Err(IoFailure::AlreadyExists);
            }
            (Some(NameTarget::File(inode)), _) => inode,
            (Some(NameTarget::Directory), _) => return Err(IoFailure::System(EISDIR)),
            (None, OpenMode::Read | OpenMode::Write) => return Err(IoFailure::NotFound),
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                state.names.check_parent(path)?;
                state.change()?;
                let inode = state.add_inode();
                state.names.add(path, inode);
                inode
            }
        };
        let (session, writable) = (state.session, mode != OpenMode::Read);
        Ok(Box::new(SimFile { state: Arc::clone(&self.state), session, inode, writable }))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, IoFailure> {
        self.living()?.names.list(directory)
    }

    fn make_dir(&self, directory: &str) -> Result<(), IoFailure> {
        let mut state = self.living()?;
        for end in directory.match_indices('/').map(|(at, _)| at).chain([directory.len()]) {
            let path = &directory[..end];
            match state.names.get(path) {
                Some(NameTarget::Directory) => {}
                Some(NameTarget::File(_)) => return Err(IoFailure::AlreadyExists),
                None => {
                    state.change()?;
                    state.names.make_directory(path);
                }
            }
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoFailure> {
        let mut state = self.living()?;
        let node = state.names.to_be_renamed(from, to)?;
        state.change()?;
        if let Some(NameTarget::File(replaced)) = state.names.get(to)
            && node != NameTarget::File(replaced)
        {
            state.unlink(replaced);
        }
        state.names.rename(from, to, node);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<(), IoFailure> {
        let mut state = self.living()?;
        let Some(NameTarget::File(inode)) = state.names.get(path) else {
            return Err(IoFailure::NotFound);
        };
        state.change()?;
        state.unlink(inode);
        state.names.remove(path);
        Ok(())
    }

    fn clone_file(&self, from: &str, to: &str) -> Result<bool, IoFailure> {
        self.living()?.clone_file(from, to)
    }

    fn sync_dir(&self, directory: &str) -> Result<(), SyncError> {
        let mut state = self.living().map_err(SyncError::NotTried)?;
        state.change().map_err(SyncError::NotTried)?;
        if state.names.get(directory) != Some(NameTarget::Directory) {
            return Err(SyncError::NotTried(IoFailure::NotFound));
        }
        // A directory is opened for it.
        state.faults.on_open().map_err(SyncError::NotTried)?;
        let outcome = state.faults.on_sync();
        state.names.sync(directory, outcome != SyncOutcome::Saves);
        told(outcome)
    }

    fn lock(&self, path: &str) -> Result<Box<dyn DiskLock>, IoFailure> {
        let mut state = self.living()?;
        if !state.locks.insert(path.to_owned()) {
            return Err(IoFailure::Locked);
        }
        let session = state.session;
        Ok(Box::new(SimLock { state: Arc::clone(&self.state), session, path: path.to_owned() }))
    }

    fn space(&self) -> Result<Space, IoFailure> {
        let state = self.living()?;
        let file_system = u64::from(crc32c(state.name.as_bytes()));
        Ok(Space { file_system, capacity: state.capacity, used: state.used() })
    }

    fn look_again(&self) -> Result<Arc<dyn Disk>, IoFailure> {
        drop(self.living()?);
        Ok(Arc::new(self.clone()))
    }

    fn describe(&self) -> String {
        self.state().name.clone()
    }

    fn page_cache_id(&self) -> Result<String, IoFailure> {
        let state = self.living()?;
        Ok(format!("boot {}, mount {}", state.boot, state.mount))
    }

    fn unreadable(&self) -> Result<Option<UnreadableBytes>, IoFailure> {
        Ok(self.living()?.unreadable.clone())
    }

    fn forget_unreadable(&self) -> Result<(), SyncError> {
        let mut state = self.living().map_err(SyncError::NotTried)?;
        state.change().map_err(SyncError::NotTried)?;
        state.unreadable = None;
        Ok(())
    }
}

/// What a sync says of itself.
fn told(outcome: SyncOutcome) -> Result<(), SyncError> {
    match outcome {
        SyncOutcome::Fails => Err(SyncError::Failed(IoFailure::Device)),
        SyncOutcome::Saves | SyncOutcome::Lies { .. } => Ok(()),
    }
}

#[derive(Debug)]
struct SimLock {
    state: Arc<Mutex<DiskState>>,
    session: u64,
    path: String,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.session == self.session {
            state.locks.remove(&self.path);
        }
    }
}

#[derive(Debug)]
struct SimFile {
    state: Arc<Mutex<DiskState>>,
    session: u64,
    inode: InodeNumber,
    writable: bool,
}

impl SimFile {
    fn living(&self) -> Result<MutexGuard<'_, DiskState>, IoFailure> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.alive(self.session)?;
        Ok(state)
    }

    fn to_write(&self) -> Result<MutexGuard<'_, DiskState>, IoFailure> {
        if self.writable { self.living() } else { Err(IoFailure::Denied) }
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, IoFailure> {
        let mut state = self.living()?;
        let end = offset + (buffer.len() as u64).saturating_sub(1);
        state.faults.on_read(self.inode, page_of(offset)..=page_of(end))?;
        Ok(state.inode(self.inode)?.read_at(buffer, offset))
    }

    fn hold(&self, offset: u64, size: usize) -> Result<Option<Box<dyn HeldBytes>>, IoFailure> {
        let mut bytes = vec![0; size];
        if self.read_at(&mut bytes, offset)? < size {
            return Ok(None);
        }
        let (state, inode) = (Arc::clone(&self.state), self.inode);
        Ok(Some(Box::new(SimHeld { state, inode, offset, bytes })))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), IoFailure> {
        let mut state = self.to_write()?;
        for (at, size) in inode::page_parts(offset, bytes.len()) {
            state.change()?;
            let place = offset + at as u64;
            state.faults.on_write(self.inode, page_of(place))?;
            let grows = state.inode(self.inode)?.grows_at(place);
            if grows && state.used() + PAGE_SIZE as u64 > state.capacity {
                return Err(IoFailure::NoSpace);
            }
            let part = &bytes[at..at + size];
            state.change_inode(self.inode, |inode| inode.write_in_page(part, place))?;
        }
        Ok(())
    }

    fn size(&self) -> Result<u64, IoFailure> {
        Ok(self.living()?.inode(self.inode)?.size())
    }

    fn set_size(&self, size: u64) -> Result<(), IoFailure> {
        let mut state = self.to_write()?;
        if state.inode(self.inode)?.size() != size {
            state.change()?;
            state.change_inode(self.inode, |inode| inode.set_size(size))?;
        }
        Ok(())
    }

    fn allocate(&self, size: u64) -> Result<(), IoFailure> {
        let mut state = self.to_write()?;
        state.change()?;
        let more = state.inode(self.inode)?.missing_pages(size) * PAGE_SIZE as u64;
        if more > 0 && state.used() + more > state.capacity {
            return Err(IoFailure::NoSpace);
        }
        state.change_inode(self.inode, |inode| inode.allocate(size))
    }

    fn sync(&self) -> Result<(), SyncError> {
        let mut state = self.living().map_err(SyncError::NotTried)?;
        state.change().map_err(SyncError::NotTried)?;
        let state = &mut *state;
        let outcome = state.faults.on_sync();
        let faults = &mut state.faults;
        let saved = &mut || match outcome {
            SyncOutcome::Saves => true,
            SyncOutcome::Fails => false,
            SyncOutcome::Lies { kept_permille } => faults.keeps_page(kept_permille),
        };
        let synced = state.files.change(self.inode, |inode| inode.sync(saved));
        synced.ok_or(SyncError::NotTried(IoFailure::NotFound))?;
        told(outcome)
    }

    fn map(&self, size: u64) -> Result<Arc<dyn Mapping>, IoFailure> {
        let state = self.living()?;
        let inode = state.inode(self.inode)?;
        if inode.size() < size {
            return Err(IoFailure::TooShort);
        }
        let size = usize::try_from(size).expect("a simulated disk fits into memory");
        let mut bytes = vec![0; size];
        inode.read_at(&mut bytes, 0);
        let state = Arc::clone(&self.state);
        Ok(Arc::new(SimMapping { state, session: self.session, inode: self.inode, bytes }))
    }
}

/// Pages of a file on their way: what is overwritten before they arrive arrives as it is then.
struct SimHeld {
    state: Arc<Mutex<DiskState>>,
    inode: InodeNumber,
    offset: u64,
    /// As they were, for a file that is gone or cut.
    bytes: Vec<u8>,
}

impl std::fmt::Debug for SimHeld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimHeld").field("size", &self.bytes.len()).finish()
    }
}

impl HeldBytes for SimHeld {
    fn size(&self) -> usize {
        self.bytes.len()
    }

    fn into_bytes(self: Box<Self>) -> Bytes {
        let Self { state, inode, offset, mut bytes } = *self;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(inode) = state.inode(inode) {
            inode.read_at(&mut bytes, offset);
        }
        bytes.into()
    }
}
