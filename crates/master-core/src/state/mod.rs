//! The master's durable state: what the operation log has made of it, and nothing else (§2.6).
//!
//! ```text
//!   names      (directory id, name) → entry id;  entry id → record
//!   hidden     where each deleted entry was, and until when it is kept
//!   chunks     (file id, index) → handle, but for index 0, which stands in the file's record;
//!              handle → record
//!   shared     (chunk handle, file id) → index, for each file beyond a chunk's first (snapshots)
//!   policies   entry id → what it says of how files are kept
//!   purged     handles that had a record, as far as no floor tells of them
//!   streams    producers, extents and what is being written (`streams.rs`)
//!   totals     directory id → what lies below it;  quotas: what may (R36)
//!   outcomes   (session, number) → outcome, for retry_window_ms of log time (R24)
//! ```
//! - S1: it changes by [`State::apply`] alone, in log order, deterministically; checkpoint plus
//!   later log is the state.
//! - S2: log time is the time that has passed within terms: it never goes back, and neither a
//!   master that was down nor a clock that was set makes it leap (R4).
//! - S3: an entry is hidden if and only if the way up from it ends at the hidden root (R20).
//! - S4: everything that grows is in trees (`cairn_pagetree`): a clone is cheap and a snapshot, an
//!   image shares the pages of the last one, and a start reads no page but the roots.
//! - S5: a page that cannot be believed is answered as if empty and noted: whoever acts on what
//!   the state answers looks at [`State::damage`] before it lets anything out.
//!
//! Knows no server, location, lease or lock: those are soft.

mod accounts;
#[cfg(test)]
mod any_record_test;
mod apply;
mod apply_chunks;
mod apply_names;
mod apply_policy;
mod apply_purge;
mod apply_quota;
mod apply_ranges;
mod apply_servers;
mod apply_settings;
mod apply_snapshot;
mod apply_streams;
mod attribute_table;
mod chunk_table;
mod duties;
mod entry_record;
mod growing_snapshots;
mod hidden;
mod history;
mod image;
#[cfg(test)]
mod image_test;
mod known_servers;
mod lost_tails;
mod map;
mod name_failures;
mod names;
mod open_ways;
mod outcomes;
mod packing;
mod path_cache;
mod policies;
mod policy_cache;
mod policy_job;
mod purged;
mod quota_cache;
mod quotas;
mod replaced_extents;
#[cfg(test)]
mod replaced_extents_test;
#[cfg(test)]
mod replay_test;
mod settled_streams;
mod shared_chunks;
mod sharing;
#[cfg(test)]
mod size_test;
#[cfg(test)]
mod snapshot_test;
mod streams;
#[cfg(test)]
mod streams_test;
mod subtrees;
mod totals;
#[cfg(test)]
mod totals_test;

pub(crate) use apply_policy::SLICE_COUNT_MAX;
pub(crate) use apply_snapshot::COPIED_MAX;

pub(crate) use apply_streams::{locked, records_stand};
pub use attribute_table::AttributesNumber;
pub use chunk_table::ChunkRecord;
pub use duties::{BalanceOrder, DrainOrder};
pub use entry_record::EntryRecord;
pub(crate) use hidden::{DeletedFrom, HIDDEN_NAME, HiddenRecord, HiddenTable};
use image::image_head;
pub use image::{Image, ImageError};
pub use names::{Children, HIDDEN_ROOT, ROOT};
pub(crate) use open_ways::KnownWays;
pub use outcomes::Remembered;
pub use policies::Policies;
pub use policy_job::{PolicyJob, PolicyStep};
pub use quotas::{Quota, QuotaLimits};
pub use sharing::Sharing;
use streams::StreamTables;
pub use streams::{Extent, OpenStreamChunkRow, ProducerRecord};
pub use subtrees::Subtrees;
pub use totals::{SubtreeSum, Totals};

use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{
    Attributes, CellConfig, CellId, CellPath, ChunkHandle, ChunkIndex, Entry, EntryId, EntryKind,
    LogIndex, MutationName, ReignId, ReplicaAt, ServerId, Term, WallTime,
};
use chunk_table::ChunkTable;
use growing_snapshots::GrowingSnapshots;
use history::History;
pub(crate) use known_servers::KnownServers;
pub(crate) use lost_tails::LostTails;
use map::DamageMark;
use names::NameTree;
use outcomes::Outcomes;
use policies::PolicyTable;
pub use purged::KeptAbove;
use purged::PurgedChunks;
use shared_chunks::SharedChunks;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

/// The durable state.
#[derive(Clone, Debug)]
pub struct State {
    cell: CellId,
    config: CellConfig,
    /// The term that the last `Begin` began, and when.
    term: Term,
    term_began: WallTime,
    log_time: Duration,
    /// The time of the term's last record.
    last_record: WallTime,
    /// The last applied record's place in the log and the term that it was proposed in.
    applied: LogIndex,
    applied_term: Term,
    /// What records the log may have (`record::RECORD_LEVEL`).
    level: u32,
    servers: KnownServers,
    history: History,
    names: NameTree,
    chunks: ChunkTable,
    shared: SharedChunks,
    snapshots: GrowingSnapshots,
    policies: PolicyTable,
    purged: PurgedChunks,
    outcomes: Outcomes,
    streams: StreamTables,
    /// Of all trees (S5).
    mark: DamageMark,
}

impl Default for State {
    fn default() -> Self {
        let mark = DamageMark::default();
        Self {
            cell: CellId::default(),
            config: CellConfig::default(),
            term: Term::default(),
            term_began: WallTime::default(),
            log_time: Duration::default(),
            last_record: WallTime::default(),
            applied: LogIndex::default(),
            applied_term: Term::default(),
            level: 0,
            servers: KnownServers::default(),
            history: History::default(),
            names: NameTree::new(&mark),
            chunks: ChunkTable::new(&mark),
            shared: SharedChunks::new(&mark),
            snapshots: GrowingSnapshots::default(),
            policies: PolicyTable::new(&mark),
            purged: PurgedChunks::new(&mark),
            outcomes: Outcomes::new(&mark),
            streams: StreamTables::new(&mark),
            mark,
        }
    }
}

impl PartialEq for State {
    /// Compares all that there is: for checkers and tests.
    fn eq(&self, other: &Self) -> bool {
        image_head(self) == image_head(other)
            && self.names == other.names
            && self.chunks == other.chunks
            && self.shared == other.shared
            && self.policies == other.policies
            && self.purged == other.purged
            && self.outcomes == other.outcomes
            && self.streams == other.streams
    }
}

impl State {
    /// The cell; none until it is founded.
    #[must_use]
    pub fn cell(&self) -> CellId {
        self.cell
    }

    /// The cell's settings.
    #[must_use]
    pub fn config(&self) -> &CellConfig {
        &self.config
    }

    /// The term that the last applied `Begin` began.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// Whether the log may have had that term under that reign (R1, R3).
    #[must_use]
    pub fn may_have_had(&self, term: Term, reign: ReignId) -> bool {
        self.history.may_have_had(term, reign)
    }

    /// The first term of this history: what was logged before it may lack here (R3).
    #[must_use]
    pub fn history_began(&self) -> Term {
        self.history.began()
    }

    /// Where that term ended in this log; none where it has not, or nobody knows.
    pub(crate) fn end_of_term(&self, term: Term) -> Option<LogIndex> {
        self.history.end_of(term)
    }

    /// Whether the log had that term under that reign, and no other.
    #[must_use]
    pub fn had(&self, term: Term, reign: ReignId) -> bool {
        self.history.had(term, reign)
    }

    /// When that term began.
    #[must_use]
    pub fn term_began(&self) -> WallTime {
        self.term_began
    }

    /// The time that has passed within terms (S2).
    #[must_use]
    pub fn log_time(&self) -> Duration {
        self.log_time
    }

    /// Log time as it will be where the next record of this term is proposed then (S2).
    #[must_use]
    pub fn log_time_at(&self, wall: WallTime) -> Duration {
        let passed = wall.as_millis().saturating_sub(self.last_record.as_millis());
        self.log_time.saturating_add(Duration::from_millis(passed)).min(apply::LOG_TIME_MAX)
    }

    /// The last applied record.
    #[must_use]
    pub fn applied(&self) -> LogIndex {
        self.applied
    }

    /// The term of the last applied record.
    #[must_use]
    pub fn applied_term(&self) -> Term {
        self.applied_term
    }

    /// The level of the records that the log may have: all members can apply these.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Refuses what records of a level are for that not all members can apply.
    ///
    /// # Errors
    /// `Busy`: it is done once they can.
    pub fn check_level(&self, level: u32, what: &str) -> Result<(), Failure> {
        if self.level >= level {
            return Ok(());
        }
        let line = format!(
            "{what}: not before all masters of the cell have been upgraded and are running"
        );
        Err(Failure::not_done(ErrorCode::Busy, line))
    }

    /// The chunkservers that have joined the cell and were not forgotten, by id.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = &ReplicaAt> {
        self.servers.iter().map(|known| &known.at)
    }

    /// Where a chunkserver was that joined last.
    #[must_use]
    pub fn server(&self, server: ServerId) -> Option<&ReplicaAt> {
        self.servers.get(server).map(|known| &known.at)
    }

    /// The servers of [`Self::servers`], and what a person has told the cell to do with them.
    pub(crate) fn known_servers(&self) -> &KnownServers {
        &self.servers
    }

    /// An entry by id.
    #[must_use]
    pub fn entry(&self, id: EntryId) -> Option<EntryRecord> {
        self.names.entry(id)
    }

    /// What is in streams, and who writes them.
    pub(crate) fn streams(&self) -> &StreamTables {
        &self.streams
    }

    /// What chunks of streams have lost of what was committed (R41).
    pub(crate) fn lost(&self) -> &LostTails {
        self.chunks.lost()
    }

    /// Whether an entry is there, hidden or not.
    pub(crate) fn has(&self, id: EntryId) -> bool {
        self.names.has_entry(id)
    }

    /// Entries by id, looked up together.
    #[must_use]
    pub fn entry_each(&self, ids: &[EntryId]) -> Vec<Option<EntryRecord>> {
        self.names.entry_each(ids)
    }

    /// An entry by id as clients see it, under the name by which it was found.
    #[must_use]
    pub fn describe(&self, id: EntryId, name: &str) -> Option<Entry> {
        self.names.entry(id).map(|entry| self.names.describe((id, &entry), name.to_owned()))
    }

    /// The same of an entry whose record is at hand.
    pub(crate) fn described(&self, entry: (EntryId, &EntryRecord), name: &str) -> Entry {
        self.names.describe(entry, name.to_owned())
    }

    /// Whose an entry is, and who may do what with it.
    #[must_use]
    pub fn attributes(&self, entry: &EntryRecord) -> Attributes {
        self.names.attributes(entry)
    }

    /// Entries from this one up to a root, which is the last, with the names of directories.
    pub(crate) fn way_up(
        &self,
        id: EntryId,
    ) -> impl Iterator<Item = (EntryId, EntryRecord, &str)> + use<'_> {
        self.names.way_up(id)
    }

    /// What is remembered of who may go where, until a directory leaves its place or has other
    /// attributes.
    pub(crate) fn known_ways(&self) -> KnownWays<'_> {
        self.names.known_ways()
    }

    /// An entry's name. That of a file is searched in its directory: only where nothing hurries.
    #[must_use]
    pub fn name_of(&self, id: EntryId) -> Option<String> {
        self.names.name_of(id)
    }

    /// What a path stands for.
    ///
    /// # Errors
    /// `NotFound`, or `NotADirectory` where a file stands in the way.
    pub fn resolve(&self, path: &CellPath) -> Result<EntryId, Failure> {
        self.names.resolve(path).map(|(id, _)| id)
    }

    /// The directory that a path's last name is in, or would be, if there is one.
    pub(crate) fn directory_of(&self, path: &CellPath) -> Option<EntryId> {
        self.names.directory_of(path)
    }

    /// What paths stand for, looked up together.
    ///
    /// # Errors
    /// Of each, the same.
    pub fn resolve_each<'a>(
        &self,
        paths: impl Iterator<Item = &'a CellPath>,
    ) -> Vec<Result<EntryId, Failure>> {
        self.names.resolve_each(paths)
    }

    /// What a path stands for, and whether that is a file or a directory.
    ///
    /// # Errors
    /// The same.
    pub fn resolve_kind(&self, path: &CellPath) -> Result<(EntryId, EntryKind), Failure> {
        self.names.resolve(path)
    }

    /// The entry called `name` in a directory.
    #[must_use]
    pub fn child(&self, directory: EntryId, name: &str) -> Option<EntryId> {
        self.names.child(directory, name)
    }

    /// Names of a directory after `after`, in order.
    #[must_use]
    pub fn children(&self, directory: EntryId, after: &str) -> Children<'_> {
        self.names.children(directory, after)
    }

    /// The entries of a directory whose names come after `after`, in order.
    pub fn list(&self, directory: EntryId, after: &str) -> impl Iterator<Item = Entry> + use<'_> {
        self.names.list(directory, after)
    }

    /// The path of an entry, hidden or not; none where there is no such entry. A file's name is
    /// searched in its directory: only where nothing hurries.
    #[must_use]
    pub fn path_of(&self, id: EntryId) -> Option<String> {
        self.names.path_of(id)
    }

    /// Whether an entry is deleted, or gone altogether (R20).
    #[must_use]
    pub fn is_hidden(&self, id: EntryId) -> bool {
        self.names.is_hidden(id)
    }

    /// What is deleted and not purged.
    pub(crate) fn deleted(&self) -> &HiddenTable {
        self.names.hidden()
    }

    /// How files are kept, as directories and files say it.
    #[must_use]
    pub fn policies(&self) -> Policies<'_> {
        Policies { table: &self.policies, names: &self.names, config: &self.config }
    }

    /// What lies below directories, and what may (R36).
    #[must_use]
    pub fn subtrees(&self) -> Subtrees<'_> {
        Subtrees { names: &self.names }
    }

    /// Whether the log had this chunk and purged it, or will never have it (R3).
    #[must_use]
    pub fn is_purged(&self, handle: ChunkHandle) -> bool {
        let below = handle < self.history.floor(handle.term());
        (below || self.purged.contains(handle)) && !self.chunks.contains(handle)
    }

    /// Whether a person let go of a chunk that the log has not had.
    #[must_use]
    pub fn is_let_go(&self, handle: ChunkHandle) -> bool {
        self.purged.is_let_go(handle) && !self.chunks.contains(handle)
    }

    /// How far the chunk's set had come when the master decided on it while a member was away, and
    /// the version of the decision: what stood below that and has more is kept for a person (R28).
    #[must_use]
    pub fn kept_above(&self, handle: ChunkHandle) -> Option<KeptAbove> {
        self.purged.kept_above(handle)
    }

    /// The chunk at an index of a file; none: a hole, or past the end.
    #[must_use]
    pub fn chunk_at(&self, file: EntryId, index: ChunkIndex) -> Option<ChunkHandle> {
        if index == ChunkIndex::default() {
            return self.names.entry(file)?.first;
        }
        // No need for the record.
        self.chunks.at(file, index)
    }

    /// Indexes of a file, from this one on and behind 0, that are no holes.
    pub(crate) fn places(
        &self,
        file: EntryId,
        from: ChunkIndex,
    ) -> impl Iterator<Item = (ChunkIndex, ChunkHandle)> + use<'_> {
        self.chunks.of_file(file, from)
    }

    /// The last chunk of a file.
    #[must_use]
    pub fn last_chunk(&self, file: EntryId) -> Option<(ChunkIndex, ChunkHandle)> {
        self.last_chunk_of(file, &self.names.entry(file)?)
    }

    /// The same of a file whose record is at hand.
    #[must_use]
    pub fn last_chunk_of(
        &self,
        file: EntryId,
        record: &EntryRecord,
    ) -> Option<(ChunkIndex, ChunkHandle)> {
        // A file's chunks go with it, so the count tells where the last one is.
        let index = ChunkIndex::new(record.chunk_count.checked_sub(1)?);
        Some((index, self.chunks.of_record(file, record, index)?))
    }

    /// Chunks of a file from `first` on, in order; holes are left out.
    pub fn chunks_of(
        &self,
        file: EntryId,
        first: ChunkIndex,
    ) -> impl Iterator<Item = (ChunkIndex, ChunkHandle)> + use<'_> {
        let zero = ChunkIndex::default();
        let at_zero = if first == zero { self.chunk_at(file, zero) } else { None };
        let behind = self.chunks.of_file(file, first.max(zero.next()));
        at_zero.map(|handle| (zero, handle)).into_iter().chain(behind)
    }

    /// Those of some indexes, of a file whose record is at hand. A file has no chunk at its
    /// `chunk_count` or behind it.
    pub fn chunks_between(
        &self,
        id: EntryId,
        file: &EntryRecord,
        indexes: Range<u64>,
    ) -> impl Iterator<Item = ChunkHandle> + use<> {
        let at_zero = file.first_within(&indexes);
        let end = indexes.end.min(file.chunk_count);
        at_zero.into_iter().chain(self.chunks.between(id, indexes.start.max(1)..end))
    }

    /// A chunk by handle.
    #[must_use]
    pub fn chunk(&self, handle: ChunkHandle) -> Option<ChunkRecord> {
        self.chunks.get(handle)
    }

    /// Chunks by handle, looked up together.
    #[must_use]
    pub fn chunk_each(&self, handles: &[ChunkHandle]) -> Vec<Option<ChunkRecord>> {
        self.chunks.get_each(handles)
    }

    /// Which files have a chunk.
    #[must_use]
    pub fn sharing(&self) -> Sharing<'_> {
        Sharing { names: &self.names, shared: &self.shared }
    }

    /// Every chunk, by handle.
    pub fn chunks(&self) -> impl Iterator<Item = (ChunkHandle, ChunkRecord)> + use<'_> {
        self.chunks.iter()
    }

    /// Every chunk behind a handle, by handle.
    pub fn chunks_after(
        &self,
        handle: ChunkHandle,
    ) -> impl Iterator<Item = (ChunkHandle, ChunkRecord)> + use<'_> {
        self.chunks.from(handle).skip_while(move |(found, _)| *found <= handle)
    }

    /// The chunks of a range of handles, in order.
    pub fn chunks_among(
        &self,
        handles: RangeInclusive<ChunkHandle>,
    ) -> impl Iterator<Item = ChunkHandle> + use<'_> {
        self.chunks.among(handles)
    }

    /// What is remembered of a client's mutation (R24).
    #[must_use]
    pub fn remembered(&self, mutation: MutationName) -> Remembered {
        self.outcomes.get(mutation)
    }

    /// How many chunks there are.
    #[must_use]
    pub fn chunk_count(&self) -> u64 {
        self.chunks.count()
    }

    /// How many files there are, hidden ones too.
    #[must_use]
    pub fn file_count(&self) -> u64 {
        self.names.file_count()
    }

    /// How many directories there are, the root and hidden ones too.
    #[must_use]
    pub fn directory_count(&self) -> u64 {
        self.names.directory_count()
    }

    /// How many hidden names there are, a directory with all below it as one.
    #[must_use]
    pub fn hidden_count(&self) -> u64 {
        self.names.hidden_count()
    }
}
