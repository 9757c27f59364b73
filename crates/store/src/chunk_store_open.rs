//! Opening a data directory: whose it is, what is in it, what may have been lost.

use crate::chunk::Chunk;
use crate::chunk_files::{CHUNKS_DIRECTORY, ChunkDirectory, handles_with_files};
use crate::chunk_store::{ChunkStore, locked};
use crate::clone_files::CloneDirectory;
use crate::failure_note::{forget_failure, is_failure_noted, note_failure};
use crate::identity_file::{IdentityError, read_identity, write_identity};
use crate::names_anew::{give_back_names, make_names_anew};
use crate::recovery::{LastLife, RecoveredChunk, recover};
use crate::trash::{TRASH_DIRECTORY, throw_away};
use crate::version_journal::{
    FoundJournal, JournalOpenError, JournalState, VersionJournal, read_journal,
};
use crate::whole_files::{disk_error, sync_failure};
use cairn_env::buffer_pool::BufferPool;
use cairn_env::{Disk, DiskError, IoFailure, LogEvent};
use cairn_format::{
    ChunkHead, Identity, IdentityKind, JournalHeader, JournalLine, ReplicaLine, ScrubPosition,
};
use cairn_protocol::ReplicaReport;
use cairn_types::{BLOCK_SIZE, CellId, ChunkHandle, ChunkVersion, ReignId, ServerId, Term};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

/// What a data directory, or all of them, held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredChunks {
    /// The cell and the server that it belongs to, if it ever joined.
    pub identity: Option<(CellId, ServerId)>,
    /// The highest term heard of (R2).
    pub term: Term,
    /// Whose term it was that a master last said (R1).
    pub reign: (Term, ReignId),
    /// The highest handle ever seen (R1, R3).
    pub highest_handle: ChunkHandle,
    /// The highest version ever seen (R1, R3).
    pub highest_version: ChunkVersion,
    /// In order of handle.
    pub replicas: Vec<ReplicaReport>,
    /// Those of them of which bytes that were on disk are missing or wrong: where they end is not
    /// known. All are suspect.
    pub damaged: Vec<ChunkHandle>,
    /// Those of the damaged ones that could only not be read, or not be made room for: what they
    /// hold may be found later (`ChunkStore::reopen`).
    pub unread: Vec<ChunkHandle>,
    /// Those in which an earlier life of the server has found a bad block.
    pub bad: Vec<ChunkHandle>,
    /// How far their blocks were verified.
    pub scrub: ScrubPosition,
    /// What a person should know of how the directories were found.
    pub warnings: Vec<LogEvent>,
}

/// Why a data directory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreOpenError {
    /// Another process has it.
    #[error("{directory}: another server is running on this directory; stop it first")]
    InUse {
        /// Which directory.
        directory: String,
    },
    /// The disk refused.
    #[error("{directory}: {error}")]
    Disk {
        /// Which directory.
        directory: String,
        /// Why.
        error: DiskError,
    },
    /// Whose it is cannot be told.
    #[error(transparent)]
    Identity(IdentityError),
    /// The journal cannot be believed.
    #[error(
        "{directory}: {error}. Its replicas' versions are not known: copy it away, start with an \
         empty directory, and let the cell make new copies"
    )]
    Journal {
        /// Which directory.
        directory: String,
        /// Why.
        error: JournalOpenError,
    },
    /// A directory that was in use has no journal any more.
    #[error(
        "{directory} has belonged to a server and has no journal; put the file back, or start \
        with an empty directory"
    )]
    JournalMissing {
        /// Which directory.
        directory: String,
    },
    /// A master's directory, or one of another server or cell than its neighbours.
    #[error("{directory} belongs to {owner}; was it copied here?")]
    Foreign {
        /// Which directory.
        directory: String,
        /// Whose it is.
        owner: String,
    },
}

/// Who has it locked has the directory for itself.
pub(crate) const LOCK_PATH: &str = "lock";

/// A directory that has no journal yet.
fn no_journal() -> FoundJournal {
    let header = JournalHeader { generation: 0, heads_from_creation: true };
    FoundJournal { header, state: JournalState::default(), damaged_at: None }
}

impl ChunkStore {
    /// Opens a data directory, initialised where it is empty.
    ///
    /// # Errors
    /// [`StoreOpenError`].
    pub fn open(disk: Arc<dyn Disk>) -> Result<(Self, RecoveredChunks), StoreOpenError> {
        let directory = disk.describe();
        let lock = match disk.lock(LOCK_PATH) {
            Ok(lock) => lock,
            Err(IoFailure::Locked) => return Err(StoreOpenError::InUse { directory }),
            Err(failure) => {
                return Err(StoreOpenError::Disk { directory, error: disk_error(failure) });
            }
        };
        let opened = Self::open_locked(&disk);
        if let Err(StoreOpenError::Disk { error: DiskError::SyncFailed(_), .. }) = &opened {
            note_failure(disk.as_ref());
        }
        let (store, recovered) = opened?;
        *locked(&store.lock) = Some(lock);
        Ok((store, recovered))
    }

    /// Opens a data directory that nobody else has.
    fn open_locked(disk: &Arc<dyn Disk>) -> Result<(Self, RecoveredChunks), StoreOpenError> {
        let directory = disk.describe();
        let failed = |error| StoreOpenError::Disk { directory: directory.clone(), error };
        let identity = server_identity(disk.as_ref())?;
        give_back_names(disk.as_ref()).map_err(failed)?;
        make_directories(disk.as_ref()).map_err(failed)?;
        let read = read_journal(disk.as_ref())
            .map_err(|error| StoreOpenError::Journal { directory: directory.clone(), error })?;
        if read.is_none() && identity.is_some() {
            return Err(StoreOpenError::JournalMissing { directory });
        }
        let found = read.unwrap_or_else(no_journal);
        let clones = CloneDirectory::open(Arc::clone(disk)).map_err(failed)?;
        let (generation, damaged_at) = (found.header.generation, found.damaged_at);
        let chunk_directory = ChunkDirectory::new(Arc::clone(disk));
        let RecoveredDirectory { journal, chunks, damaged, unread } =
            recover_all(&chunk_directory, found, identity).map_err(failed)?;
        let journal = begin_journal(disk, journal, generation).map_err(failed)?;
        // What could not be brought to disk may still be in the page cache alone.
        if journal.is_begun() && unread.is_empty() {
            forget_failure(disk.as_ref()).map_err(failed)?;
        }
        let mut recovered = summary(identity, journal.state(), &chunks, (damaged, unread));
        let warning = |offset| {
            LogEvent::error("a journal is damaged: all replicas beside it are suspect")
                .with("directory", &directory)
                .with_number("offset", offset as u64)
        };
        recovered.warnings.extend(damaged_at.map(warning));
        let shared = |(handle, chunk)| (handle, Arc::new(Mutex::new(chunk)));
        let store = Self {
            directory: chunk_directory,
            chunks: Mutex::new(chunks.into_iter().map(shared).collect()),
            journal: Mutex::new(journal),
            clones,
            trash: Mutex::default(),
            block_size: AtomicU32::new(BLOCK_SIZE),
            pool: BufferPool::default(),
            failed: OnceLock::new(),
            probes: AtomicU32::new(1),
            refused_probes: AtomicU32::new(0),
            lock: Mutex::default(),
        };
        Ok((store, recovered))
    }

    /// Replicas are none any more, because another directory has newer ones. Where the disk takes
    /// no word of it, it is so in this life, and found again by the next start.
    pub(crate) fn give_way(&self, handles: &[ChunkHandle]) {
        let noted = self.guarded(|| {
            let mut journal = locked(&self.journal);
            let thrown: Vec<_> = handles.iter().filter_map(|it| journal.replica(*it)).collect();
            let lines: Vec<_> = thrown.iter().map(|it| JournalLine::Gone(it.handle)).collect();
            journal.append(&lines)?;
            Ok(thrown)
        });
        for handle in handles {
            locked(&self.chunks).remove(handle);
            self.directory.close(*handle);
        }
        for replica in noted.unwrap_or_default() {
            // What does not move now is moved by the next start.
            let _ = throw_away(self.directory.disk.as_ref(), replica.handle, replica.version);
        }
    }
}

/// Begins this life's journal. On a full disk the last life's has to do, so that what is there can
/// be read (version_journal.rs, VJ3); the first life of all needs one of its own.
fn begin_journal(
    disk: &Arc<dyn Disk>,
    state: JournalState,
    generation: u64,
) -> Result<VersionJournal, DiskError> {
    match VersionJournal::begin(Arc::clone(disk), state.clone(), generation + 1) {
        Err(DiskError::NoSpace) if generation > 0 => {
            VersionJournal::of_last_life(Arc::clone(disk), state, generation)
        }
        begun => begun,
    }
}

/// The server that a directory belongs to; none where it has joined nobody yet.
pub(crate) fn server_identity(
    disk: &dyn Disk,
) -> Result<Option<(CellId, ServerId)>, StoreOpenError> {
    let directory = disk.describe();
    match read_identity(disk) {
        Ok(None) => Ok(None),
        Ok(Some(Identity { kind: IdentityKind::Chunkserver, cell, id, .. })) => {
            Ok(Some((cell, ServerId::new(id))))
        }
        Ok(Some(Identity { kind: IdentityKind::Master, cell, .. })) => {
            Err(StoreOpenError::Foreign { directory, owner: format!("a master of cell {cell}") })
        }
        Ok(Some(Identity { kind: IdentityKind::Backup, cell, .. })) => {
            Err(StoreOpenError::Foreign { directory, owner: format!("a backup of cell {cell}") })
        }
        Err(IdentityError::Disk(error)) => Err(StoreOpenError::Disk { directory, error }),
        Err(malformed) => Err(StoreOpenError::Identity(malformed)),
    }
}

fn make_directories(disk: &dyn Disk) -> Result<(), DiskError> {
    disk.make_dir(CHUNKS_DIRECTORY).map_err(disk_error)?;
    disk.make_dir(TRASH_DIRECTORY).map_err(disk_error)?;
    disk.sync_dir("").map_err(sync_failure)
}

/// A data directory's chunks, recovered.
struct RecoveredDirectory {
    journal: JournalState,
    chunks: BTreeMap<ChunkHandle, Chunk>,
    damaged: Vec<ChunkHandle>,
    unread: Vec<ChunkHandle>,
}

/// Recovers all replicas; what has files and no line in the journal was on its way to the trash,
/// if no line is missing.
fn recover_all(
    directory: &ChunkDirectory,
    found: FoundJournal,
    identity: Option<(CellId, ServerId)>,
) -> Result<RecoveredDirectory, DiskError> {
    let FoundJournal { header, state: mut journal, damaged_at } = found;
    let disk = directory.disk.as_ref();
    let page_cache = disk.page_cache_id().map_err(disk_error)?;
    let page_cache_lost = journal.page_cache != page_cache;
    let sync_failed = is_failure_noted(disk)?;
    if page_cache_lost || sync_failed {
        journal.suspect_all_dirty();
    }
    // In a directory without a journal nothing says whether the page cache was lost.
    if sync_failed {
        write_identity_anew(disk, identity)?;
        make_names_anew(disk)?;
    }
    journal.page_cache = page_cache;
    let mut unknown = handles_with_files(disk).map_err(disk_error)?;
    unknown.retain(|handle| !journal.replicas.contains_key(handle));
    for handle in unknown {
        if damaged_at.is_some() {
            journal.replicas.insert(handle, ReplicaLine { handle, ..ReplicaLine::default() });
        } else {
            throw_away(disk, handle, ChunkVersion::default()).map_err(disk_error)?;
        }
    }
    let (mut chunks, mut damaged, mut unread) = (BTreeMap::new(), Vec::new(), Vec::new());
    for line in journal.replicas.values_mut() {
        let heads_from_creation = header.heads_from_creation;
        let last_life = LastLife { page_cache_lost, sync_failed, heads_from_creation };
        let (mut recovered, mut is_unread) = recover_or_suspect(directory, line, last_life)?;
        is_unread |= bring_to_disk(directory, line, last_life, &mut recovered)?;
        if recovered.damaged {
            // What cannot be read today says nothing of what is there tomorrow.
            line.suspect |= !is_unread;
            damaged.push(line.handle);
            unread.extend(is_unread.then_some(line.handle));
            recovered.chunk.unsaved = is_unread;
        }
        if damaged_at.is_some() {
            line.version = line.version.max(recovered.chunk.head.mutated_version);
        }
        chunks.insert(line.handle, recovered.chunk);
    }
    if damaged_at.is_some() {
        journal.suspect_all();
    }
    Ok(RecoveredDirectory { journal, chunks, damaged, unread })
}

/// Names of files are made anew where chunks lie; this one is a file's of its own.
fn write_identity_anew(
    disk: &dyn Disk,
    identity: Option<(CellId, ServerId)>,
) -> Result<(), DiskError> {
    let Some((cell, server)) = identity else { return Ok(()) };
    match write_identity(
        disk,
        &Identity { kind: IdentityKind::Chunkserver, cell, id: server.get(), begun: false },
    ) {
        // There is none for a journal either then, and the note stays (VJ3).
        Err(DiskError::NoSpace) => Ok(()),
        written => written,
    }
}

/// Brings to disk, before anybody hears of the replica, what may be in the page cache alone and is
/// not told of by a dirty mark (R27). One of which that cannot be written is not taken for current:
/// whether it is one of those.
fn bring_to_disk(
    directory: &ChunkDirectory,
    line: &ReplicaLine,
    last_life: LastLife,
    recovered: &mut RecoveredChunk,
) -> Result<bool, DiskError> {
    let is_sound = !recovered.damaged && !recovered.chunk.head_lost && !recovered.chunk.torn;
    if !is_sound || last_life.page_cache_lost {
        return Ok(false);
    }
    // What was to be on disk before it was answered has no mark meanwhile.
    let is_ahead = recovered.chunk.head.sequence != line.clean_sequence;
    let is_unmarked = !line.dirty && !line.suspect && is_ahead;
    // After a failed sync the page cache has what the disk may lack, and takes it for clean: no
    // other sync of it would be true, now or once a suspect is taken for current again (R28).
    if !(line.suspect || is_unmarked && last_life.sync_failed) {
        return if is_unmarked {
            recovered.chunk.sync(directory).map(|()| false)
        } else {
            Ok(false)
        };
    }
    match recovered.chunk.write_anew(directory) {
        Err(DiskError::Io(_) | DiskError::NoSpace | DiskError::NoSpaceMidway) => {
            recovered.damaged = true;
            Ok(true)
        }
        result => result.map(|()| false),
    }
}

/// One chunk that cannot be read, or has no room for what recovery has to write, does not keep the
/// others from being served; whether it is one of those.
fn recover_or_suspect(
    directory: &ChunkDirectory,
    line: &ReplicaLine,
    last_life: LastLife,
) -> Result<(RecoveredChunk, bool), DiskError> {
    match recover(directory, line, BLOCK_SIZE, last_life) {
        Err(DiskError::Io(_) | DiskError::NoSpace | DiskError::NoSpaceMidway) => {
            let chunk = Chunk { torn: true, ..Chunk::empty(line.handle, BLOCK_SIZE) };
            Ok((RecoveredChunk { chunk, damaged: true }, true))
        }
        result => result.map(|recovered| (recovered, false)),
    }
}

/// How a replica stands, by its line in the journal and its head.
pub(crate) fn stands_at(line: &ReplicaLine, head: &ChunkHead) -> ReplicaReport {
    ReplicaReport {
        handle: line.handle,
        version: line.version,
        mutated_version: head.mutated_version,
        serial: head.serial,
        length: head.length,
        acknowledged: head.acknowledged,
        acknowledged_serial: head.acknowledged_serial,
        closed: line.closed,
        suspect: line.suspect,
    }
}

fn summary(
    identity: Option<(CellId, ServerId)>,
    state: &JournalState,
    chunks: &BTreeMap<ChunkHandle, Chunk>,
    (damaged, unread): (Vec<ChunkHandle>, Vec<ChunkHandle>),
) -> RecoveredChunks {
    let replica = |(handle, chunk): (&ChunkHandle, &Chunk)| {
        let line = state.replicas.get(handle).copied().unwrap_or_default();
        let stands = stands_at(&ReplicaLine { handle: *handle, ..line }, &chunk.head);
        ReplicaReport { suspect: line.suspect || unread.contains(handle), ..stands }
    };
    RecoveredChunks {
        identity,
        term: state.term,
        reign: state.reign,
        highest_handle: state.highest_handle,
        highest_version: state.highest_version,
        replicas: chunks.iter().map(replica).collect(),
        damaged,
        unread,
        bad: state.replicas.values().filter(|it| it.damaged).map(|it| it.handle).collect(),
        scrub: state.scrub,
        warnings: Vec::new(),
    }
}
