//! A server's data directories as a start finds them: what they hold together, and which of them
//! the server starts without (design §5).
//!
//! ```text
//!   each disk ──ChunkStore::open──► opened: its replicas, the newer one of each chunk
//!                       └─fails───► passed over, or the server does not start
//! ```
//! - DO1: a directory that cannot be opened is passed over, like one that fails while the server
//!   runs. Nothing is written to it any more: what it holds is compared with what the others have
//!   when a later start can open it.
//! - DO2: where no other directory says which server this is, none is passed over: the server would
//!   join as a new one, and could never open the directory again.
//! - DO3: what a person has to put right says nothing of a disk, and the server does not start:
//!   another process runs there, it is another server's, a later build wrote it, the process may
//!   open no more files.
//! - D3 of the chunk service is defended here.

use crate::chunk_store::ChunkStore;
use crate::chunk_store_open::{RecoveredChunks, StoreOpenError, server_identity};
use crate::identity_file::IdentityError;
use crate::version_journal::JournalOpenError;
use cairn_env::{Disk, DiskError, IoFailure, LogEvent};
use cairn_format::FormatError;
use cairn_protocol::ReplicaReport;
use cairn_types::{CellId, ChunkHandle, ServerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A directory's disk, and its store or why it has none.
pub(crate) type OpenedDirectory = (Arc<dyn Disk>, Result<ChunkStore, StoreOpenError>);

/// All of them.
#[derive(Debug)]
pub(crate) struct OpenedDirectories {
    /// In the order in which they were named.
    pub(crate) directories: Vec<OpenedDirectory>,
    /// What they hold together.
    pub(crate) found: RecoveredChunks,
    /// Which of them has a chunk.
    pub(crate) places: BTreeMap<ChunkHandle, usize>,
}

/// Opens each; those that cannot be are passed over (DO1).
///
/// # Errors
/// Of the first that keeps the server from starting (DO2, DO3); where two are not one server's.
pub(crate) fn open_directories(
    disks: Vec<Arc<dyn Disk>>,
) -> Result<OpenedDirectories, StoreOpenError> {
    let (mut directories, mut together) = (Vec::new(), FoundTogether::default());
    for disk in disks {
        let opened = match ChunkStore::open(Arc::clone(&disk)) {
            Ok((store, found)) => {
                together.add(directories.len(), &disk.describe(), found)?;
                Ok(store)
            }
            Err(error) if is_of_disk(&error) => Err(error),
            Err(error) => return Err(error),
        };
        directories.push((disk, opened));
    }
    let FoundTogether { mut all, replicas, places, give_way, bad } = together;
    for (disk, opened) in &directories {
        if let Err(error) = opened {
            may_be_passed_over(disk.as_ref(), error, all.identity)?;
            all.warnings.push(given_up(disk.as_ref(), error));
        }
    }
    for (place, [damaged, unread, bad]) in bad {
        let is_here = |handle: &ChunkHandle| places.get(handle) == Some(&place);
        all.damaged.extend(damaged.into_iter().filter(is_here));
        all.unread.extend(unread.into_iter().filter(is_here));
        all.bad.extend(bad.into_iter().filter(is_here));
    }
    for (place, handles) in give_way {
        let (disk, Ok(store)) = &directories[place] else {
            unreachable!("what was found there was found by a store");
        };
        store.give_way(&handles);
        let what = "older replicas gave way to those of another directory";
        let event = LogEvent::warn(what).with("directory", disk.describe());
        all.warnings.push(event.with_number("replicas", handles.len() as u64));
    }
    all.replicas = replicas.into_values().collect();
    Ok(OpenedDirectories { directories, found: all, places })
}

/// That a directory is passed over, in the words of one that fails while the server runs.
pub(crate) fn given_up(disk: &dyn Disk, error: &StoreOpenError) -> LogEvent {
    let event = LogEvent::error("a data directory is given up");
    event.with("directory", disk.describe()).with("why", error)
}

/// Whether it says that the directory is of no use as it is, and nothing of what a person did
/// (DO3).
pub(crate) fn is_of_disk(error: &StoreOpenError) -> bool {
    match error {
        StoreOpenError::InUse { .. } | StoreOpenError::Foreign { .. } => false,
        StoreOpenError::Disk { error, .. }
        | StoreOpenError::Journal { error: JournalOpenError::Disk(error), .. }
        | StoreOpenError::Identity(IdentityError::Disk(error)) => {
            // Of the process, or of the whole machine.
            !matches!(error, DiskError::Io(IoFailure::NoDescriptors | IoFailure::Ended))
        }
        StoreOpenError::Journal { error: JournalOpenError::Format(_), .. }
        | StoreOpenError::Identity(IdentityError::Malformed {
            error: FormatError::Version { .. },
            ..
        }) => false,
        StoreOpenError::Identity(IdentityError::Malformed { .. })
        | StoreOpenError::JournalMissing { .. } => true,
    }
}

/// Whether the server that the others say this is can start without a directory (DO2).
fn may_be_passed_over(
    disk: &dyn Disk,
    error: &StoreOpenError,
    mine: Option<(CellId, ServerId)>,
) -> Result<(), StoreOpenError> {
    let Some(mine) = mine else { return Err(error.clone()) };
    match server_identity(disk) {
        Ok(Some(owner)) if owner != mine => Err(foreign(disk.describe(), owner)),
        Err(foreign @ StoreOpenError::Foreign { .. }) => Err(foreign),
        // Ours, or nobody can tell.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn foreign(directory: String, (cell, server): (CellId, ServerId)) -> StoreOpenError {
    let owner = format!("server {server} of cell {cell}, not to this one");
    StoreOpenError::Foreign { directory, owner }
}

/// Whether the first of two replicas of a chunk is the one to keep (D3).
fn is_newer(replica: &ReplicaReport, other: &ReplicaReport) -> bool {
    let stands = |it: &ReplicaReport| (it.version, !it.suspect, it.serial, it.length);
    stands(replica) > stands(other)
}

/// What the directories that were opened so far hold.
#[derive(Debug, Default)]
struct FoundTogether {
    all: RecoveredChunks,
    replicas: BTreeMap<ChunkHandle, ReplicaReport>,
    places: BTreeMap<ChunkHandle, usize>,
    /// The older ones, by directory (D3).
    give_way: BTreeMap<usize, Vec<ChunkHandle>>,
    /// The damaged, unread and bad ones of each directory.
    bad: BTreeMap<usize, [Vec<ChunkHandle>; 3]>,
}

impl FoundTogether {
    fn add(
        &mut self,
        place: usize,
        directory: &str,
        found: RecoveredChunks,
    ) -> Result<(), StoreOpenError> {
        let all = &mut self.all;
        if let (Some(mine), Some(owner)) = (all.identity, found.identity)
            && mine != owner
        {
            return Err(foreign(directory.to_owned(), owner));
        }
        all.identity = all.identity.or(found.identity);
        all.term = all.term.max(found.term);
        all.reign = all.reign.max(found.reign);
        all.highest_handle = all.highest_handle.max(found.highest_handle);
        all.highest_version = all.highest_version.max(found.highest_version);
        all.scrub = all.scrub.max(found.scrub);
        all.warnings.extend(found.warnings);
        for replica in found.replicas {
            self.add_replica(place, replica);
        }
        self.bad.insert(place, [found.damaged, found.unread, found.bad]);
        Ok(())
    }

    fn add_replica(&mut self, place: usize, replica: ReplicaReport) {
        let handle = replica.handle;
        let Some(other) = self.replicas.get(&handle) else {
            self.places.insert(handle, place);
            self.replicas.insert(handle, replica);
            return;
        };
        // D3
        let older = if is_newer(&replica, other) {
            self.replicas.insert(handle, replica);
            self.places.insert(handle, place).expect("the other has a place")
        } else {
            place
        };
        self.give_way.entry(older).or_default().push(handle);
    }
}
