//! One data directory of a chunkserver: replicas, their versions, their trash (design §5).
//!
//! ```text
//!   lock   identity   journal        chunks/<aa>/<handle>.chunk .meta .redo        trash/
//! ```
//! - S1: one process at a time holds the directory.
//! - S2: a chunk's jobs come one after the other (its mutex); different chunks' run side by side.
//!   Locks are taken in this order: chunk, journal; the map of chunks for a moment only. Nothing
//!   but the move to the trash has more than one chunk.
//! - S3: after a failed sync, one of a start too, the whole directory is of no more use, and has a
//!   note for the next start: what has the dirty mark is suspect then, as after a power loss, and
//!   what was on its way to disk without one is written anew (R27).
//! - S4: the block size is the cell's and comes by [`configure`](ChunkStore::configure), before the
//!   first mutation; a chunk keeps the one that it began with.

use crate::chunk::Chunk;
use crate::chunk_files::{ChunkDirectory, KINDS, path};
use crate::clone_files::CloneDirectory;
use crate::failure_note::note_failure;
use crate::identity_file::{read_identity, write_identity};
use crate::reading::{ReadMode, all_checksums, is_good, read, read_differing};
use crate::recovery::{LastLife, recover};
use crate::redo_journal::RedoJournal;
use crate::trash::{Trash, remove_bytes, throw_away};
use crate::version_journal::{JOURNAL_PATH, VersionJournal, sound_lines};
use crate::whole_files::{disk_error, sync_failure};
use cairn_env::buffer_pool::BufferPool;
use cairn_env::{
    ChunkDone, ChunkError, ChunkResult, CloneWork, Disk, DiskError, DiskLock, IoFailure,
    JournalEntry, OpenMode, ReadDone, Space,
};
use cairn_format::{Identity, IdentityKind, JournalLine, ScrubPosition};
use cairn_protocol::{DISK_PATH_SIZE_MAX, DiskStatus};
use cairn_types::planted::{self, Rule};
use cairn_types::{BlockChecksums, ChunkHandle, ChunkVersion};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Written now and then, to see whether the disk still takes what it is given.
pub(crate) const PROBE_PATH: &str = "probe";
/// Looks at a directory from one such write to the next.
const PROBES_PER_WRITE: u32 = 10;
/// Such writes refused one after the other, after which the directory is given up.
const REFUSED_MAX: u32 = 3;

/// Where a disk is, as far as a message has room for it.
pub(crate) fn told_path(disk: &dyn Disk) -> String {
    let path = disk.describe();
    let cut = path.len().saturating_sub(DISK_PATH_SIZE_MAX);
    let from = (cut..=path.len()).find(|at| path.is_char_boundary(*at)).unwrap_or(0);
    path[from..].to_owned()
}

/// One data directory.
#[derive(Debug)]
pub struct ChunkStore {
    pub(crate) directory: ChunkDirectory,
    pub(crate) chunks: Mutex<BTreeMap<ChunkHandle, Arc<Mutex<Chunk>>>>,
    pub(crate) journal: Mutex<VersionJournal>,
    pub(crate) clones: CloneDirectory,
    pub(crate) trash: Mutex<Trash>,
    pub(crate) block_size: AtomicU32,
    /// What readers are sent.
    pub(crate) pool: BufferPool,
    /// Why the directory is of no more use (S3).
    pub(crate) failed: OnceLock<IoFailure>,
    pub(crate) probes: AtomicU32,
    pub(crate) refused_probes: AtomicU32,
    pub(crate) lock: Mutex<Option<Box<dyn DiskLock>>>,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic is a broken invariant; the worlds stop the process for it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChunkStore {
    /// Takes over the cell's block size (S4).
    pub fn configure(&self, block_size: u32) {
        self.block_size.store(block_size, Ordering::Relaxed);
    }

    /// Whether a sync failed: every job fails from then on.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Why every job fails, if a sync failed or the directory is gone.
    #[must_use]
    pub fn failure(&self) -> Option<IoFailure> {
        self.failed.get().cloned()
    }

    /// The directory is of no more use (S3).
    fn give_up(&self, reason: &IoFailure) {
        if self.failed.set(reason.clone()).is_ok() {
            note_failure(self.disk());
        }
    }

    /// It was given up, and what it held told as lost: another store may open the directory.
    pub(crate) fn unlock(&self) {
        assert!(self.has_failed(), "a directory in use is locked");
        locked(&self.lock).take();
    }

    /// Looks whether the directory is still there and takes what is written; otherwise it is given
    /// up. What there is no room or no descriptor for says nothing.
    pub fn probe(&self) {
        if self.has_failed() {
            return;
        }
        match self.disk().open(JOURNAL_PATH, OpenMode::Read) {
            Err(reason @ IoFailure::NotFound) => return self.give_up(&reason),
            Err(IoFailure::NoDescriptors) => return,
            Ok(_) | Err(_) => {}
        }
        let refused = self.refused_probes.load(Ordering::Relaxed);
        let number = self.probes.fetch_add(1, Ordering::Relaxed);
        if refused == 0 && !number.is_multiple_of(PROBES_PER_WRITE) {
            return;
        }
        match self.guarded(|| self.write_probe()) {
            Ok(()) => self.refused_probes.store(0, Ordering::Relaxed),
            Err(ChunkError::Disk(DiskError::Io(reason)))
                if reason != IoFailure::NoDescriptors && refused + 1 == REFUSED_MAX =>
            {
                self.give_up(&reason);
            }
            Err(ChunkError::Disk(DiskError::Io(IoFailure::NoDescriptors | IoFailure::Ended))) => {}
            Err(ChunkError::Disk(DiskError::Io(_))) => {
                self.refused_probes.store(refused + 1, Ordering::Relaxed);
            }
            // No room, or it is given up already.
            Err(_) => {}
        }
    }

    fn write_probe(&self) -> Result<(), ChunkError> {
        let file = self.disk().open(PROBE_PATH, OpenMode::Create).map_err(disk_error)?;
        file.write_at(b"written now and then, to see whether this disk works", 0)
            .map_err(disk_error)?;
        Ok(file.sync().map_err(sync_failure)?)
    }

    /// The chunks here.
    #[must_use]
    pub fn handles(&self) -> Vec<ChunkHandle> {
        locked(&self.chunks).keys().copied().collect()
    }

    /// Whether the directory belongs to a server already.
    pub(crate) fn has_joined(&self) -> bool {
        read_identity(self.disk()).is_ok_and(|identity| identity.is_some())
    }

    fn disk(&self) -> &dyn Disk {
        self.directory.disk.as_ref()
    }

    /// Whether the chunk is here.
    pub(crate) fn holds(&self, handle: ChunkHandle) -> bool {
        locked(&self.chunks).contains_key(&handle)
    }

    pub(crate) fn configured_block_size(&self) -> u32 {
        self.block_size.load(Ordering::Relaxed)
    }

    /// The size of a chunk's blocks (S4).
    pub(crate) fn block_size(&self, handle: ChunkHandle) -> Result<u32, ChunkError> {
        self.with_chunk(handle, |chunk| {
            let begun = chunk.head.length > 0;
            Ok(if begun { chunk.head.block_size } else { self.configured_block_size() })
        })
    }

    /// Does work unless a sync has failed; notes it if one fails now (S3).
    pub(crate) fn guarded<T>(
        &self,
        work: impl FnOnce() -> Result<T, ChunkError>,
    ) -> Result<T, ChunkError> {
        if let Some(reason) = self.failed.get() {
            return Err(DiskError::SyncFailed(reason.clone()).into());
        }
        let result = work();
        if let Err(ChunkError::Disk(DiskError::SyncFailed(reason))) = &result {
            self.give_up(reason);
        }
        result
    }

    /// Does work on a chunk, recovered first where a write to it failed half-way.
    pub(crate) fn with_chunk<T>(
        &self,
        handle: ChunkHandle,
        work: impl FnOnce(&mut Chunk) -> Result<T, ChunkError>,
    ) -> Result<T, ChunkError> {
        let shared = locked(&self.chunks).get(&handle).cloned().ok_or(ChunkError::NoSuchChunk)?;
        let mut chunk = locked(&shared);
        if chunk.gone {
            return Err(ChunkError::NoSuchChunk);
        }
        self.guarded(|| {
            if chunk.torn {
                let line = locked(&self.journal).replica(handle).ok_or(ChunkError::NoSuchChunk)?;
                let block_size = self.configured_block_size();
                let this_life = LastLife {
                    page_cache_lost: false,
                    sync_failed: false,
                    heads_from_creation: true,
                };
                let recovered = recover(&self.directory, &line, block_size, this_life)?;
                if recovered.damaged {
                    return Err(ChunkError::Corrupt { offset: 0 });
                }
                let Chunk { changed_in_place, unsaved, .. } = *chunk;
                *chunk = Chunk { changed_in_place, unsaved, ..recovered.chunk };
            }
            if chunk.head_lost {
                return Err(ChunkError::Corrupt { offset: 0 });
            }
            match work(&mut chunk) {
                Err(ChunkError::Disk(DiskError::Io(IoFailure::NotFound))) => {
                    // Somebody has removed its files: what it held is lost, and that is told.
                    chunk.head_lost = true;
                    Err(ChunkError::Corrupt { offset: 0 })
                }
                done => done,
            }
        })
    }

    /// Appends to the journal, one flush for all (R7, R18, R27).
    ///
    /// # Errors
    /// [`ChunkError::NoSuchChunk`] where a raise names an unknown chunk; then nothing was written.
    pub fn journal(&self, entries: &[JournalEntry]) -> Result<(), ChunkError> {
        self.guarded(|| {
            let made = self.make_chunks(entries)?;
            if let Err(error) = self.append_to_journal(entries) {
                made.iter().for_each(|chunk| self.unmake(chunk.head.handle));
                return Err(error);
            }
            let shared = |chunk: Chunk| (chunk.head.handle, Arc::new(Mutex::new(chunk)));
            locked(&self.chunks).extend(made.into_iter().map(shared));
            Ok(())
        })
    }

    /// Makes the files of the chunks that these entries create, before a line says that they are
    /// here. Files without a line are thrown away at the next start.
    fn make_chunks(&self, entries: &[JournalEntry]) -> Result<Vec<Chunk>, ChunkError> {
        let created = entries.iter().filter_map(|entry| match entry {
            JournalEntry::Raise { handle, create: true, .. } => Some((*handle, false)),
            JournalEntry::Adopt { handle, .. } => Some((*handle, true)),
            _ => None,
        });
        let mut made: BTreeMap<ChunkHandle, Chunk> = BTreeMap::new();
        for (handle, is_clone) in created {
            if self.holds(handle) || made.contains_key(&handle) {
                assert!(!is_clone, "the bytes of {handle:?} here are not the clone's");
                continue;
            }
            let chunk = if is_clone {
                self.clones.adopt(handle, &self.directory)
            } else {
                let block_size = self.configured_block_size();
                Chunk::create(&self.directory, handle, block_size).map_err(ChunkError::from)
            };
            match chunk {
                Ok(chunk) => drop(made.insert(handle, chunk)),
                Err(error) => {
                    made.keys().chain([&handle]).for_each(|handle| self.unmake(*handle));
                    return Err(error);
                }
            }
        }
        Ok(made.into_values().collect())
    }

    /// Removes the files of a chunk that was not to be. What stays behind does no harm.
    fn unmake(&self, handle: ChunkHandle) {
        self.directory.close(handle);
        for kind in KINDS {
            let _ = self.disk().remove(&path(handle, kind));
        }
    }

    fn append_to_journal(&self, entries: &[JournalEntry]) -> Result<(), ChunkError> {
        let mut journal = locked(&self.journal);
        let mut lines = sound_lines(&journal, entries);
        let mut created = BTreeSet::new();
        for entry in entries {
            match *entry {
                JournalEntry::Raise { handle, version, create, close } => {
                    if create {
                        created.insert(handle);
                    } else if journal.replica(handle).is_none() && !created.contains(&handle) {
                        return Err(ChunkError::NoSuchChunk);
                    }
                    lines.push(JournalLine::Raise { handle, version, create, close });
                }
                JournalEntry::Adopt { handle, version, close } => {
                    lines.push(JournalLine::Raise { handle, version, create: true, close });
                }
                JournalEntry::Term(term) => lines.push(JournalLine::Term(term)),
                JournalEntry::Reign(term, reign) => lines.push(JournalLine::Reign(term, reign)),
                JournalEntry::Cleared(handle) => lines.push(JournalLine::Cleared(handle)),
                JournalEntry::Damaged(handle) => lines.push(JournalLine::Damaged(handle)),
                JournalEntry::Sound(_) => {}
                JournalEntry::Scrubbed { began_ms, handle } => {
                    lines.push(JournalLine::Scrubbed(ScrubPosition { began_ms, handle }));
                }
                JournalEntry::Joined(cell, server) => {
                    let kind = IdentityKind::Chunkserver;
                    let identity = Identity { kind, cell, id: server.get(), begun: false };
                    write_identity(self.disk(), &identity)?;
                }
            }
        }
        // Nothing to write where a server does no more than join.
        if !lines.is_empty() {
            journal.append(&lines)?;
        }
        Ok(())
    }

    /// Reads bytes with their checksums; fewer than asked where the replica ends.
    ///
    /// # Errors
    /// [`ChunkError::Corrupt`] where a block that must be cut does not match its checksum.
    pub fn read(
        &self,
        handle: ChunkHandle,
        offset: u64,
        size: u64,
    ) -> Result<ReadDone, ChunkError> {
        self.with_chunk(handle, |chunk| {
            if offset >= chunk.head.length {
                return Ok(ReadDone { offset, ..ReadDone::default() });
            }
            let files = self.directory.files(handle, false)?;
            let how = if chunk.changed_in_place { ReadMode::Copy } else { ReadMode::Hold };
            read(&files, &chunk.head, offset, size, how, &self.pool)
        })
    }

    /// Stored bytes, and the checksums of all their blocks.
    ///
    /// # Errors
    /// [`ChunkError`].
    pub fn checksums(&self, handle: ChunkHandle) -> Result<(u64, BlockChecksums), ChunkError> {
        self.with_chunk(handle, |chunk| {
            if chunk.head.length == 0 {
                return Ok((0, BlockChecksums::default()));
            }
            let files = self.directory.files(handle, false)?;
            Ok((chunk.head.length, all_checksums(&files, &chunk.head)?))
        })
    }

    /// The first run of blocks from `offset` on that another replica, of so many bytes with these
    /// checksums from `offset` on, does not have; each is verified. For `size_max` see `Fetch`.
    /// # Errors
    /// [`ChunkError::Corrupt`] where one of them does not match its checksum.
    pub fn fetch(
        &self,
        handle: ChunkHandle,
        offset: u64,
        theirs: (u64, &BlockChecksums),
        size_max: u64,
    ) -> Result<ReadDone, ChunkError> {
        self.with_chunk(handle, |chunk| {
            let files = self.directory.files(handle, false)?;
            read_differing(&files, &chunk.head, offset, theirs, (size_max, &self.pool))
        })
    }

    /// Whether the block at `offset` matches its checksum (R31).
    ///
    /// # Errors
    /// [`ChunkError`] where it cannot be read at all.
    pub fn verify(&self, handle: ChunkHandle, offset: u64) -> Result<bool, ChunkError> {
        self.with_chunk(handle, |chunk| {
            if offset >= chunk.head.length {
                return Ok(true);
            }
            let files = self.directory.files(handle, false)?;
            let block = offset / u64::from(chunk.head.block_size);
            is_good(&files, &chunk.head, block, &mut Vec::new())
        })
    }

    /// Moves replicas to the trash, but for those that are newer than named (R33), and says which
    /// those are. One flush takes all others out of the journal. On a full disk their bytes may go
    /// at once, before and without that (T3).
    ///
    /// # Errors
    /// [`ChunkError`]; some may be gone then.
    pub fn trash(
        &self,
        named: &BTreeMap<ChunkHandle, ChunkVersion>,
    ) -> Result<BTreeSet<ChunkHandle>, ChunkError> {
        let known = locked(&self.chunks);
        let here = |(handle, version): (&ChunkHandle, &ChunkVersion)| {
            Some((*handle, *version, known.get(handle).cloned()?))
        };
        let here: Vec<_> = named.iter().filter_map(here).collect();
        drop(known);
        // S2: nobody else waits for a chunk while it has another.
        let mut chunks: Vec<_> = here.iter().map(|(_, _, chunk)| locked(chunk)).collect();
        self.guarded(|| {
            let mut journal = locked(&self.journal);
            let (mut newer, mut going) = (BTreeSet::new(), Vec::new());
            for ((handle, version, _), chunk) in here.iter().zip(&mut chunks) {
                match journal.replica(*handle) {
                    // Gone meanwhile.
                    None => {}
                    Some(it) if it.version > *version && !planted::broken(Rule::R33) => {
                        newer.insert(*handle);
                    }
                    Some(it) => going.push((*handle, it.version, chunk)),
                }
            }
            if !going.is_empty() {
                self.take_out(&mut journal, &mut going)?;
            }
            drop(journal);
            let mut known = locked(&self.chunks);
            for (handle, _, chunk) in &mut going {
                chunk.gone = true;
                known.remove(handle);
                self.directory.close(*handle);
            }
            drop(known);
            // Files that cannot be moved are moved by the next start, if nothing has their names.
            let moved: Vec<Result<(), IoFailure>> = going
                .iter()
                .map(|(handle, version, _)| throw_away(self.disk(), *handle, *version))
                .collect();
            moved.into_iter().collect::<Result<(), _>>().map_err(disk_error)?;
            Ok(newer)
        })
    }

    /// Takes replicas out of the journal. Where that has no room, their bytes make it (T3).
    fn take_out(
        &self,
        journal: &mut VersionJournal,
        going: &mut [(ChunkHandle, ChunkVersion, &mut MutexGuard<'_, Chunk>)],
    ) -> Result<(), ChunkError> {
        let lines: Vec<_> = going.iter().map(|(it, ..)| JournalLine::Gone(*it)).collect();
        match journal.append(&lines) {
            Err(DiskError::NoSpace) => {}
            done => return Ok(done?),
        }
        for (handle, _, chunk) in going {
            // No read of it passes any more, here or after a restart.
            chunk.head_lost = true;
            chunk.redo = RedoJournal::empty(*handle);
            self.directory.close(*handle);
            remove_bytes(self.disk(), *handle).map_err(disk_error)?;
        }
        Ok(journal.append(&lines)?)
    }

    /// Removes a slice of what was thrown away before `before_ms`, or of all where space is short:
    /// where less than a twentieth is free, or less than `free_min` bytes. Says whether more waits.
    ///
    /// # Errors
    /// [`ChunkError`].
    pub fn empty_trash(
        &self,
        before_ms: u64,
        now_ms: u64,
        free_min: u64,
    ) -> Result<bool, ChunkError> {
        let mut trash = locked(&self.trash);
        let times = (before_ms, now_ms);
        self.guarded(|| Ok(trash.empty_some(self.disk(), times, free_min).map_err(disk_error)?))
    }

    /// Works on a clone (R30).
    ///
    /// # Errors
    /// [`ChunkError`]; the clone is of no more use, but for what was already in it.
    pub fn clone_work(&self, handle: ChunkHandle, work: &CloneWork) -> ChunkResult {
        self.guarded(|| {
            match work {
                CloneWork::Begin { anew } => {
                    let block_size = self.configured_block_size();
                    let (length, checksums) = self.clones.begin(handle, block_size, *anew)?;
                    return Ok(ChunkDone::Checksums { length, checksums });
                }
                CloneWork::Install { offset, checksums, bytes } => {
                    self.clones.install(handle, *offset, checksums, bytes)?;
                }
                CloneWork::Copy { of, offset } => {
                    let next = self.copy_blocks(*of, handle, *offset)?;
                    return Ok(ChunkDone::Copied { next });
                }
                CloneWork::Gather { ranges } => {
                    for range in ranges {
                        self.read_range(*range, |bytes| self.clones.add(handle, bytes))?;
                    }
                }
                CloneWork::Add { offset, checksums, bytes, from, size } => {
                    let part = (*offset, checksums, bytes);
                    self.clones.add_part(handle, part, (*from, *size))?;
                }
                CloneWork::Finish { stands } => self.clones.finish(handle, stands)?,
                CloneWork::Drop => self.clones.remove(handle)?,
            }
            Ok(ChunkDone::Cloned)
        })
    }

    /// How full the disk is.
    ///
    /// # Errors
    /// [`ChunkError`].
    pub fn space(&self) -> Result<Space, ChunkError> {
        self.guarded(|| Ok(self.disk().space().map_err(disk_error)?))
    }

    /// For people: how full it is, and whether it is of any use.
    pub(crate) fn status(&self) -> DiskStatus {
        let (path, chunk_count) = (told_path(self.disk()), locked(&self.chunks).len() as u64);
        match self.space() {
            Ok(Space { file_system, capacity, used }) => {
                DiskStatus { path, file_system, capacity, used, chunk_count, failed: false }
            }
            Err(_) => DiskStatus { path, chunk_count, failed: true, ..DiskStatus::default() },
        }
    }
}
