//! The disk work of a chunkserver: several data directories and the buffer of pushed data.
//!
//! ```text
//!   jobs of a lane ──► journal jobs: one flush for all      apply jobs of a chunk: one run
//!                      trash jobs: one flush for a slice
//!   pushes ──► PushShelf ──► looked up and compared (R15) when a mutation names them
//! ```
//! - D1: a new chunk goes where most space is free, and nowhere where a whole one has no room: what
//!   is there already may grow.
//! - D2: a directory that failed answers nothing but that; the others serve on (design §5).
//! - D3: of a chunk that two directories hold (one of them failed once, and the chunk was cloned to
//!   the other) the newer replica counts, and the older is in the trash before anything is served.

use crate::chunk_store::ChunkStore;
use crate::chunk_store_open::{RecoveredChunks, StoreOpenError};
use crate::data_directories::{DataDirectories, DirectoryState};
use crate::mutation::{AcknowledgedMark, ReadyMutation};
use crate::opened_directories::{OpenedDirectories, given_up, is_of_disk, open_directories};
use crate::push_shelf::PushShelf;
use cairn_env::{
    ApplyMutation, ChunkDone, ChunkError, ChunkJob, ChunkResult, CloneWork, Disk, DiskError,
    JournalEntry, PushedData, Resources, ServerSpace, Service,
};
use cairn_protocol::{Failure, ResourceUse};
use cairn_types::{
    BLOCK_SIZE, CellConfig, CellId, ChunkHandle, ChunkVersion, PushId, ReignId, SerialNumber,
    ServerId, Term,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Replicas that go to the trash with one flush. None of them does anything else meanwhile.
const TRASHED_TOGETHER_MAX: usize = 64;

/// All disks of a chunkserver.
#[derive(Debug)]
pub struct ChunkDisk {
    directories: DataDirectories,
    /// What the whole server knows, which stands in each directory.
    known: Mutex<ServerKnowledge>,
    block_size: AtomicU32,
    /// Bytes that must be free where a new chunk goes.
    room_min: AtomicU64,
    /// Which directory has a chunk.
    places: Mutex<BTreeMap<ChunkHandle, usize>>,
    /// Which directory has a clone.
    clones: Mutex<BTreeMap<ChunkHandle, usize>>,
    pushes: Mutex<PushShelf>,
    /// Who measures what the process takes, once it is known.
    resources: OnceLock<Arc<dyn Resources>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory that was added to a server belongs to it from now on. An empty one that does not
/// take that down is passed over, like one that cannot be opened.
fn join_new_directories(
    opened: &mut OpenedDirectories,
    known: &ServerKnowledge,
) -> Result<(), StoreOpenError> {
    for (disk, store) in &mut opened.directories {
        let Ok(new) = store.as_ref() else { continue };
        if new.has_joined() {
            continue;
        }
        match new.journal(&known.entries()) {
            Ok(()) => {}
            Err(ChunkError::Disk(error)) => {
                let error = StoreOpenError::Disk { directory: disk.describe(), error };
                if !is_of_disk(&error) || !new.handles().is_empty() {
                    return Err(error);
                }
                opened.found.warnings.push(given_up(disk.as_ref(), &error));
                *store = Err(error);
            }
            Err(error) => unreachable!("joining names no chunk, and yet: {error}"),
        }
    }
    Ok(())
}

/// What concerns no chunk, but the server.
#[derive(Clone, Debug, Default)]
struct ServerKnowledge {
    identity: Option<(CellId, ServerId)>,
    term: Term,
    reign: (Term, ReignId),
}

impl ServerKnowledge {
    fn note(&mut self, entry: &JournalEntry) {
        match *entry {
            JournalEntry::Term(term) => self.term = self.term.max(term),
            JournalEntry::Reign(term, reign) => self.reign = (term, reign),
            JournalEntry::Joined(cell, server) => self.identity = Some((cell, server)),
            JournalEntry::Raise { .. }
            | JournalEntry::Adopt { .. }
            | JournalEntry::Cleared(_)
            | JournalEntry::Damaged(_)
            | JournalEntry::Sound(_)
            | JournalEntry::Scrubbed { .. } => {}
        }
    }

    /// What a directory is told that is the server's from now on; nothing where it has no cell yet.
    fn entries(&self) -> Vec<JournalEntry> {
        let Some((cell, server)) = self.identity else { return Vec::new() };
        let (term, reign) = self.reign;
        let joined = JournalEntry::Joined(cell, server);
        vec![joined, JournalEntry::Term(self.term), JournalEntry::Reign(term, reign)]
    }
}

/// Apply jobs of one chunk, version and durability, as one.
struct ApplyRun {
    handle: ChunkHandle,
    version: ChunkVersion,
    sync: bool,
    acknowledged: AcknowledgedMark,
    mutations: Vec<ReadyMutation>,
    /// What the mutations name.
    pushes: Vec<(PushId, u64)>,
    /// The last serial number of each job; none where it has no mutation.
    last_serials: Vec<Option<SerialNumber>>,
}

impl ChunkDisk {
    /// Opens all data directories of one server; it starts without those that cannot be, where
    /// another one says which server it is.
    ///
    /// # Errors
    /// [`StoreOpenError`]; also where the directories are not all one server's.
    pub fn open(
        disks: Vec<Arc<dyn Disk>>,
        push_buffer_size: u64,
    ) -> Result<(Self, RecoveredChunks), StoreOpenError> {
        let mut opened = open_directories(disks)?;
        let (identity, term, reign) =
            (opened.found.identity, opened.found.term, opened.found.reign);
        let known = ServerKnowledge { identity, term, reign };
        join_new_directories(&mut opened, &known)?;
        let OpenedDirectories { directories, found, places } = opened;
        let disk = Self {
            directories: DataDirectories::new(directories),
            known: Mutex::new(known),
            block_size: AtomicU32::new(BLOCK_SIZE),
            room_min: AtomicU64::new(0),
            places: Mutex::new(places),
            clones: Mutex::default(),
            pushes: Mutex::new(PushShelf::new(push_buffer_size)),
            resources: OnceLock::new(),
        };
        Ok((disk, found))
    }

    /// Takes over the cell's settings; before the first mutation.
    pub fn configure(&self, config: &CellConfig) {
        self.block_size.store(config.block_size, Ordering::Relaxed);
        self.room_min.store(config.chunk_size, Ordering::Relaxed);
        self.directories.all().for_each(|(_, store)| store.configure(config.block_size));
    }

    /// Lets go of what lay in directories that failed: it is lost, as far as this process goes
    /// (D2). Tells each chunk once; from then on another directory may take the place.
    #[must_use]
    pub fn take_lost(&self) -> Vec<ChunkHandle> {
        let mut lost = Vec::new();
        for (failed, _) in self.directories.all().filter(|(_, store)| store.has_failed()) {
            locked(&self.clones).retain(|_, place| *place != failed);
            let mut places = locked(&self.places);
            lost.extend(places.extract_if(.., |_, place| *place == failed).map(|(it, _)| it));
            self.directories.await_another(failed);
        }
        lost.sort_unstable();
        lost
    }

    /// How each data directory is.
    #[must_use]
    pub fn directories(&self) -> Vec<DirectoryState> {
        self.directories.states()
    }

    /// Whether no data directory is left.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.directories.all().all(|(_, store)| store.has_failed())
    }

    fn store_of(&self, handle: ChunkHandle) -> Result<Arc<ChunkStore>, ChunkError> {
        let place = locked(&self.places).get(&handle).copied();
        place.map(|place| self.directories.at(place)).ok_or(ChunkError::NoSuchChunk)
    }

    /// Where a new chunk goes (D1).
    fn roomiest(&self) -> Result<usize, ChunkError> {
        let free = |(place, store): (usize, Arc<ChunkStore>)| {
            let space = store.space().ok()?;
            Some((space.capacity.saturating_sub(space.used), Reverse(place)))
        };
        let best = self.directories.all().filter_map(free).max();
        let (free, Reverse(place)) = best.ok_or(ChunkError::NoDirectoryLeft)?;
        if free < self.room_min.load(Ordering::Relaxed) {
            return Err(DiskError::NoSpace.into());
        }
        Ok(place)
    }

    /// Does journal jobs that came together, one flush for each directory concerned.
    fn journal(&self, jobs: &[Vec<JournalEntry>]) -> Vec<ChunkResult> {
        let mut by_store: BTreeMap<usize, Vec<JournalEntry>> = BTreeMap::new();
        let mut results: Vec<Result<Vec<usize>, ChunkError>> = Vec::new();
        let mut created = BTreeMap::new();
        for entries in jobs {
            let placed = self.place(entries, &mut created);
            results.push(placed.map(|placed| {
                let mut stores = Vec::new();
                for (entry, store) in entries.iter().zip(placed) {
                    // What concerns the server stands in every directory that works.
                    let concerned = match store {
                        Some(store) => vec![store],
                        None => self.directories.working().iter().map(|(at, _)| *at).collect(),
                    };
                    locked(&self.known).note(entry);
                    for store in concerned {
                        by_store.entry(store).or_default().push(entry.clone());
                        stores.push(store);
                    }
                }
                stores
            }));
        }
        let flushed: BTreeMap<usize, Result<(), ChunkError>> = by_store
            .into_iter()
            .map(|(store, entries)| (store, self.directories.at(store).journal(&entries)))
            .collect();
        let gone = self.give_places(created);
        let is_gone = |entry: &JournalEntry| {
            use JournalEntry::{Adopt, Raise};
            matches!(entry, Raise { handle, .. } | Adopt { handle, .. } if gone.contains(handle))
        };
        let outcome = |stores: Vec<usize>| {
            let failed = stores.iter().find_map(|store| flushed[store].clone().err());
            failed.map_or(Ok(ChunkDone::Journaled), Err)
        };
        let each = jobs.iter().zip(results).map(|(entries, result)| {
            let done = result.and_then(outcome)?;
            if entries.iter().any(is_gone) { Err(ChunkError::NoSuchChunk) } else { Ok(done) }
        });
        each.collect()
    }

    /// What was made has its place from now on. Given back is what was refused, or has gone with
    /// its directory since: `take_lost` looks under the same lock, and nobody else tells of it.
    fn give_places(&self, mut created: BTreeMap<ChunkHandle, usize>) -> BTreeSet<ChunkHandle> {
        let mut places = locked(&self.places);
        let is_gone = |handle: &ChunkHandle, place: &mut usize| {
            let store = self.directories.at(*place);
            store.has_failed() || !store.holds(*handle)
        };
        let gone = created.extract_if(.., is_gone).map(|(handle, _)| handle).collect();
        locked(&self.clones).retain(|handle, _| !created.contains_key(handle));
        places.extend(created);
        gone
    }

    /// The store of each entry; none: all. Those of chunks to be made are put into `created`.
    fn place(
        &self,
        entries: &[JournalEntry],
        created: &mut BTreeMap<ChunkHandle, usize>,
    ) -> Result<Vec<Option<usize>>, ChunkError> {
        let mut placed = Vec::new();
        for entry in entries {
            placed.push(match entry {
                JournalEntry::Term(_)
                | JournalEntry::Reign(..)
                | JournalEntry::Joined(..)
                | JournalEntry::Scrubbed { .. } => None,
                JournalEntry::Raise { handle, create, .. } => {
                    let known = locked(&self.places).get(handle).copied();
                    let place = match known.or_else(|| created.get(handle).copied()) {
                        Some(place) => place,
                        None if *create => self.roomiest()?,
                        None => return Err(ChunkError::NoSuchChunk),
                    };
                    if known.is_none() {
                        created.insert(*handle, place);
                    }
                    Some(place)
                }
                JournalEntry::Adopt { handle, .. } => {
                    let place = locked(&self.clones).get(handle).copied();
                    let place = place.ok_or(ChunkError::NoSuchChunk)?;
                    created.insert(*handle, place);
                    Some(place)
                }
                JournalEntry::Cleared(handle)
                | JournalEntry::Damaged(handle)
                | JournalEntry::Sound(handle) => {
                    let place = locked(&self.places).get(handle).copied();
                    Some(place.ok_or(ChunkError::NoSuchChunk)?)
                }
            });
        }
        Ok(placed)
    }

    /// Moves replicas to the trash, all that are in one directory together; one result for each.
    fn trash(&self, named: &BTreeMap<ChunkHandle, ChunkVersion>) -> Vec<ChunkResult> {
        let mut by_store = BTreeMap::<usize, BTreeMap<ChunkHandle, ChunkVersion>>::new();
        let places = locked(&self.places);
        for (handle, version) in named {
            if let Some(place) = places.get(handle) {
                by_store.entry(*place).or_default().insert(*handle, *version);
            }
        }
        drop(places);
        let mut results = BTreeMap::<ChunkHandle, ChunkResult>::new();
        for (place, named) in by_store {
            let store = self.directories.at(place);
            let newer = store.trash(&named);
            for handle in named.into_keys() {
                // Also where its files could not be moved.
                let gone = !store.holds(handle);
                if gone {
                    locked(&self.places).remove(&handle);
                }
                let result = if gone { Ok(()) } else { newer.as_ref().map(drop) };
                let result = result.map(|()| ChunkDone::Trashed { gone });
                results.insert(handle, result.map_err(Clone::clone));
            }
        }
        // Of one that is nowhere there is certainly none.
        let nowhere = || Ok(ChunkDone::Trashed { gone: true });
        named.keys().map(|handle| results.remove(handle).unwrap_or_else(nowhere)).collect()
    }

    /// Work on a clone; a new one goes where a new chunk would (D1).
    fn clone_work(&self, handle: ChunkHandle, work: &CloneWork) -> ChunkResult {
        let known = locked(&self.clones).get(&handle).copied();
        let place = match (known, work) {
            (Some(place), _) => place,
            (None, CloneWork::Begin { .. }) => self.roomiest()?,
            // Beside what it is copied of.
            (None, CloneWork::Copy { of, offset: 0 }) => {
                locked(&self.places).get(of).copied().ok_or(ChunkError::NoSuchChunk)?
            }
            (None, CloneWork::Drop) => return Ok(ChunkDone::Cloned),
            (None, _) => return Err(ChunkError::NoSuchChunk),
        };
        match work {
            CloneWork::Drop => drop(locked(&self.clones).remove(&handle)),
            _ => drop(locked(&self.clones).insert(handle, place)),
        }
        let store = self.directories.at(place);
        if let CloneWork::Gather { ranges } = work {
            // What they are taken of may lie in other directories.
            for range in ranges {
                let source = self.store_of(range.of)?;
                source.read_range(*range, |bytes| store.add_to_clone(handle, bytes))?;
            }
            return Ok(ChunkDone::Cloned);
        }
        store.clone_work(handle, work)
    }

    /// How full the disks are; looks at each of them first.
    fn space(&self) -> ChunkResult {
        self.directories.all().for_each(|(_, store)| store.probe());
        let known = locked(&self.known).entries();
        self.directories.take_in(self.block_size.load(Ordering::Relaxed), &known);
        let working = self.directories.working();
        let told: Vec<_> = working.into_iter().map(|(_, store)| store.space()).collect();
        // One that cannot say has no room for anything, and keeps nobody from the others (D2).
        if let (Some(Err(error)), true) = (told.first(), told.iter().all(Result::is_err)) {
            return Err(error.clone());
        }
        Ok(ChunkDone::Space(self.server_space()))
    }

    /// How full the data directories are, and what the process takes.
    #[must_use]
    pub fn server_space(&self) -> ServerSpace {
        let disks = self.directories.statuses();
        let measured = self.resources.get().map(|meter| meter.told());
        let (pushes, pushes_max) = locked(&self.pushes).held();
        let resources = ResourceUse { pushes, pushes_max, ..measured.unwrap_or_default() };
        ServerSpace { disks, resources }
    }

    /// From now on the process's resources are told with its disks; once.
    pub fn measure(&self, resources: Arc<dyn Resources>) {
        let is_first = self.resources.set(resources).is_ok();
        assert!(is_first, "a process is measured by one meter");
    }

    /// A job that is neither of the journal nor an apply.
    fn single(&self, job: ChunkJob) -> ChunkResult {
        match job {
            ChunkJob::Read { handle, offset, size } => {
                self.store_of(handle)?.read(handle, offset, size).map(ChunkDone::Read)
            }
            ChunkJob::Checksums { handle } => {
                let (length, checksums) = self.store_of(handle)?.checksums(handle)?;
                Ok(ChunkDone::Checksums { length, checksums })
            }
            ChunkJob::Fetch { handle, offset, length, known, size_max } => {
                let done =
                    self.store_of(handle)?.fetch(handle, offset, (length, &known), size_max)?;
                Ok(ChunkDone::Read(done))
            }
            ChunkJob::Install { handle, version, offset, checksums, bytes } => {
                let store = self.store_of(handle)?;
                let (length, serial) = store.install(handle, version, offset, checksums, bytes)?;
                Ok(ChunkDone::Applied { length, serial })
            }
            ChunkJob::Extend { handle, version, extent, sync } => {
                self.extend(handle, version, &extent, sync)
            }
            ChunkJob::Verify { handle, offset } => {
                let good = self.store_of(handle)?.verify(handle, offset)?;
                Ok(ChunkDone::Verified { good })
            }
            ChunkJob::Scrub { handle, offset } => {
                let (size, next, bad) = self.store_of(handle)?.scrub(handle, offset)?;
                Ok(ChunkDone::Scrubbed { size, next, bad })
            }
            ChunkJob::ScrubJournal(part) => self.directories.scrub_journal(part),
            ChunkJob::Reopen { handle } => {
                self.store_of(handle)?.reopen(handle).map(ChunkDone::Reopened)
            }
            ChunkJob::Look { handle } => {
                let (fault, reflinked) = self.store_of(handle)?.look(handle)?;
                Ok(ChunkDone::Looked { fault, reflinked })
            }
            ChunkJob::Sync { handle } => {
                self.store_of(handle)?.sync(handle).map(|()| ChunkDone::Synced)
            }
            ChunkJob::Settle { handle, acknowledged, acknowledged_serial } => {
                let known = AcknowledgedMark { length: acknowledged, serial: acknowledged_serial };
                self.store_of(handle)?.settle(handle, known).map(|()| ChunkDone::Settled)
            }
            ChunkJob::EmptyTrash { before_ms, now_ms } => {
                // A full one takes no new chunk: what could be one again is no luxury to keep.
                let room = 2 * self.room_min.load(Ordering::Relaxed);
                let empty = |store: Arc<ChunkStore>| store.empty_trash(before_ms, now_ms, room);
                // All of them, whatever one says (D2).
                let working = self.directories.working().into_iter();
                let emptied: Vec<_> = working.map(|(_, store)| empty(store)).collect();
                let more = emptied.into_iter().collect::<Result<Vec<bool>, _>>()?.contains(&true);
                Ok(ChunkDone::TrashEmptied { more })
            }
            ChunkJob::Space => self.space(),
            ChunkJob::Clone { handle, work } => self.clone_work(handle, &work),
            ChunkJob::Apply { .. } | ChunkJob::Journal(_) | ChunkJob::Trash { .. } => {
                unreachable!("done in runs by `run`")
            }
        }
    }
}

impl Service for ChunkDisk {
    type Job = ChunkJob;
    type JobResult = ChunkResult;

    fn run(&self, jobs: Vec<ChunkJob>) -> Vec<ChunkResult> {
        let mut results = Vec::with_capacity(jobs.len());
        let mut jobs = jobs.into_iter().peekable();
        while let Some(job) = jobs.next() {
            match job {
                ChunkJob::Journal(entries) => {
                    let mut together = vec![entries];
                    while let Some(ChunkJob::Journal(entries)) =
                        jobs.next_if(|next| matches!(next, ChunkJob::Journal(_)))
                    {
                        together.push(entries);
                    }
                    results.extend(self.journal(&together));
                }
                ChunkJob::Apply { handle, version, sync, .. } => {
                    let same = |next: &ChunkJob| {
                        matches!(next, ChunkJob::Apply { handle: h, version: v, sync: s, .. }
                            if (*h, *v, *s) == (handle, version, sync))
                    };
                    let mut run = ApplyRun::new(handle, version, sync);
                    results.extend(self.add_to_run(&mut run, job));
                    while let Some(next) = jobs.next_if(same) {
                        results.extend(self.add_to_run(&mut run, next));
                    }
                    results.extend(self.apply(run));
                }
                ChunkJob::Trash { handle, version } => {
                    let mut named = BTreeMap::from([(handle, version)]);
                    while named.len() < TRASHED_TOGETHER_MAX
                        && let Some(ChunkJob::Trash { handle, version }) = jobs.next_if(|next| {
                            // In ascending order, so that the results are the jobs'.
                            let last = named.last_key_value().map(|(last, _)| *last);
                            matches!(next, ChunkJob::Trash { handle, .. } if last < Some(*handle))
                        })
                    {
                        named.insert(handle, version);
                    }
                    results.extend(self.trash(&named));
                }
                job => results.push(self.single(job)),
            }
        }
        results
    }

    fn keep(&self, push: PushId, data: PushedData) -> Result<(), Failure> {
        locked(&self.pushes).keep(push, data);
        Ok(())
    }
}

impl ApplyRun {
    fn new(handle: ChunkHandle, version: ChunkVersion, sync: bool) -> Self {
        let acknowledged = AcknowledgedMark::default();
        let (mutations, pushes, last_serials) = (Vec::new(), Vec::new(), Vec::new());
        Self { handle, version, sync, acknowledged, mutations, pushes, last_serials }
    }
}

impl ChunkDisk {
    /// Adds an apply job. Where it cannot be done, the run so far is applied first: the answers
    /// come in the order of the jobs.
    fn add_to_run(&self, run: &mut ApplyRun, job: ChunkJob) -> Vec<ChunkResult> {
        let ChunkJob::Apply { mutations, acknowledged, acknowledged_serial, .. } = job else {
            unreachable!("a run is of apply jobs");
        };
        match self.with_pushes(run.handle, &mutations) {
            Ok(ready) => {
                run.last_serials.push(mutations.last().map(|mutation| mutation.serial));
                run.mutations.extend(ready);
                run.pushes.extend(mutations.iter().filter_map(|it| Some((it.push?, it.size))));
                let known = &mut run.acknowledged;
                known.length = known.length.max(acknowledged);
                known.serial = known.serial.max(acknowledged_serial);
                Vec::new()
            }
            Err(error) => {
                let next = ApplyRun::new(run.handle, run.version, run.sync);
                let mut results = self.apply(std::mem::replace(run, next));
                results.push(Err(error));
                results
            }
        }
    }

    fn with_pushes(
        &self,
        handle: ChunkHandle,
        mutations: &[ApplyMutation],
    ) -> Result<Vec<ReadyMutation>, ChunkError> {
        let block_size = self.store_of(handle)?.block_size(handle)?;
        let mut pushes = locked(&self.pushes);
        mutations.iter().map(|mutation| pushes.ready(mutation, block_size)).collect()
    }

    /// Makes pushed bytes the end of a stream's chunk (R40).
    fn extend(
        &self,
        handle: ChunkHandle,
        version: ChunkVersion,
        extent: &ApplyMutation,
        sync: bool,
    ) -> ChunkResult {
        let ready = self.with_pushes(handle, std::slice::from_ref(extent))?;
        let bundle = ready.first().expect("one was asked for");
        let (length, serial) = self.store_of(handle)?.extend(handle, version, bundle, sync)?;
        locked(&self.pushes)
            .applied(extent.push.map(|push| (push, extent.size)).into_iter().collect());
        Ok(ChunkDone::Applied { length, serial })
    }

    /// Applies a run; an answer for each of its jobs.
    fn apply(&self, run: ApplyRun) -> Vec<ChunkResult> {
        let ApplyRun { handle, version, sync, acknowledged, mutations, pushes, last_serials } = run;
        if last_serials.is_empty() {
            return Vec::new();
        }
        let result = self
            .store_of(handle)
            .and_then(|store| store.apply(handle, version, &mutations, acknowledged, sync));
        if result.is_ok() {
            locked(&self.pushes).applied(pushes);
        }
        let done = |serial: Option<SerialNumber>| {
            let (length, last) = result.clone()?;
            Ok(ChunkDone::Applied { length, serial: serial.unwrap_or(last) })
        };
        last_serials.into_iter().map(done).collect()
    }
}
