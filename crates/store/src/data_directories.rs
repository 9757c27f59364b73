//! The data directories of a server: each by itself, so that one that fails is dropped alone, and
//! an empty one that is put in its place is taken in (design §5).
//!
//! ```text
//!   at work ──fails, vanishes──► failed ──its chunks are told as lost──► awaited
//!      ▲                                                                  ▲ │ another directory is
//!      │                        passed over by the start ─────────────────┘ │ there, and empty
//!      └────────────────────────────────────────────────────────────────────┘
//! ```
//! - DD1: a directory counts as vanished when its journal has; as failed when a sync fails, or
//!   when it refuses a few small writes one after the other. A bad sector is damage of one chunk.
//! - DD2: only an empty directory is taken in while a server runs. One that has a past is recovered
//!   by a start, where all that is known of its chunks is compared with what the others hold. One
//!   that was emptied under a running server is empty, though that server has noted its failure
//!   there since; but not where a chunk was begun in it before anybody noticed.

use crate::chunk_files::CHUNKS_DIRECTORY;
use crate::chunk_store::{ChunkStore, PROBE_PATH, told_path};
use crate::chunk_store_open::{LOCK_PATH, StoreOpenError};
use crate::clone_files::CLONES_DIRECTORY;
use crate::failure_note::FAILED_PATH;
use crate::journal_scrub::JournalLook;
use crate::opened_directories::OpenedDirectory;
use crate::trash::TRASH_DIRECTORY;
use cairn_env::{ChunkDone, ChunkResult, Disk, IoFailure, JournalEntry, JournalPart};
use cairn_format::RPC_LOG_DIRECTORY;
use cairn_protocol::DiskStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What may be in an empty directory: what file systems make by themselves.
const NOBODYS: &str = "lost+found";
/// What a store puts into a directory that was emptied under it, or finds to be there; and the
/// diagnostic log, which may be deleted at any time (GFS §5.3).
const NOTES: [&str; 5] = [
    FAILED_PATH,
    PROBE_PATH,
    RPC_LOG_DIRECTORY,
    // Of an opening that came to nothing.
    LOCK_PATH,
    "journal.draft",
];
/// Directories of a store, which may be there with nothing in them.
const STORES: [&str; 3] = [CHUNKS_DIRECTORY, CLONES_DIRECTORY, TRASH_DIRECTORY];

/// How a data directory is, for whoever tells a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryState {
    /// Where it is.
    pub directory: String,
    /// Why it was given up, or never opened; none: it is at work.
    pub failure: Option<String>,
}

/// The place of one directory.
#[derive(Debug)]
struct DirectorySlot {
    disk: Arc<dyn Disk>,
    /// Or why the start went on without it. What has a store keeps it, or gets another.
    store: RwLock<Result<Arc<ChunkStore>, StoreOpenError>>,
    /// What the failed one held was told as lost, so that nothing of it is looked for here.
    awaits: AtomicBool,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct DataDirectories {
    slots: Vec<DirectorySlot>,
}

impl DataDirectories {
    pub(crate) fn new(opened: Vec<OpenedDirectory>) -> Self {
        let slot = |(disk, store): OpenedDirectory| DirectorySlot {
            disk,
            // Of what was never opened there is nothing to be told as lost.
            awaits: AtomicBool::new(store.is_err()),
            store: RwLock::new(store.map(Arc::new)),
        };
        Self { slots: opened.into_iter().map(slot).collect() }
    }

    /// The store of a place in which something is.
    pub(crate) fn at(&self, place: usize) -> Arc<ChunkStore> {
        self.slots[place].store().expect("nothing is where no store is")
    }

    /// All places that have stores, with these.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, Arc<ChunkStore>)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(place, slot)| Some((place, slot.store().ok()?)))
    }

    /// Those that work.
    pub(crate) fn working(&self) -> Vec<(usize, Arc<ChunkStore>)> {
        self.all().filter(|(_, store)| !store.has_failed()).collect()
    }

    /// Verifies a part of a journal, of the first directory from that one on that works.
    pub(crate) fn scrub_journal(&self, part: JournalPart) -> ChunkResult {
        let mut working = self.working().into_iter();
        let Some((directory, store)) = working.find(|(place, _)| *place >= part.directory) else {
            return Ok(ChunkDone::JournalScrubbed { size: 0, next: None, told: None });
        };
        let is_same = directory == part.directory;
        let from = if is_same { (part.generation, part.offset) } else { (0, 0) };
        let JournalLook { size, next, told } = store.scrub_journal(from)?;
        let here = JournalPart { directory, ..JournalPart::default() };
        let next = next.map(|(generation, offset)| JournalPart { generation, offset, ..here });
        let next = Some(next.unwrap_or(here.of_next_directory()));
        Ok(ChunkDone::JournalScrubbed { size, next, told })
    }

    /// How each is.
    pub(crate) fn states(&self) -> Vec<DirectoryState> {
        let state = |slot: &DirectorySlot| DirectoryState {
            directory: slot.disk.describe(),
            failure: match slot.store() {
                Ok(store) => store.failure().map(|why| why.to_string()),
                Err(why) => Some(why.to_string()),
            },
        };
        self.slots.iter().map(state).collect()
    }

    /// For people: how full each is, and whether it is of any use.
    pub(crate) fn statuses(&self) -> Vec<DiskStatus> {
        let status = |slot: &DirectorySlot| match slot.store() {
            Ok(store) => store.status(),
            Err(_) => {
                let path = told_path(slot.disk.as_ref());
                DiskStatus { path, failed: true, ..DiskStatus::default() }
            }
        };
        self.slots.iter().map(status).collect()
    }

    /// What a failed directory held was told: another one may take its place.
    pub(crate) fn await_another(&self, place: usize) {
        self.slots[place].awaits.store(true, Ordering::Release);
    }

    /// Looks for directories in the places of those that failed; each that is there and empty is
    /// at work from here on, knowing what the whole server knows.
    pub(crate) fn take_in(&self, block_size: u32, known: &[JournalEntry]) {
        for slot in &self.slots {
            if slot.awaits.load(Ordering::Acquire)
                && let Some(store) = slot.look_again()
            {
                store.configure(block_size);
                if store.journal(known).is_ok() {
                    let mut place = slot.store.write().unwrap_or_else(PoisonError::into_inner);
                    *place = Ok(Arc::new(store));
                    slot.awaits.store(false, Ordering::Release);
                }
            }
        }
    }
}

impl DirectorySlot {
    fn store(&self) -> Result<Arc<ChunkStore>, StoreOpenError> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The directory that is there now, if it is an empty one (DD2).
    fn look_again(&self) -> Option<ChunkStore> {
        let disk = self.disk.look_again().ok()?;
        if !is_empty(disk.as_ref()).ok()? {
            return None;
        }
        // The lock may be what the failed one has on what is there now.
        if let Ok(failed) = self.store() {
            failed.unlock();
        }
        // What cannot be used now may be later.
        ChunkStore::open(disk).ok().map(|(store, _)| store)
    }
}

/// Whether nothing is in a directory that anybody may want.
fn is_empty(disk: &dyn Disk) -> Result<bool, IoFailure> {
    for name in disk.list("")? {
        let name = name.as_str();
        if name == NOBODYS || NOTES.contains(&name) {
            continue;
        }
        if !STORES.contains(&name) {
            return Ok(false);
        }
        for within in disk.list(name)? {
            // A file is no directory with nothing in it.
            let names = disk.list(&format!("{name}/{within}"));
            if names.map_or(true, |names| !names.is_empty()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
