//! The state as pages in a file, to be mapped at the next start (design §4, §2.6.3;
//! docs/formats/state-image.md).
//!
//! ```text
//!   State ──write_image──► pages (those that the file lacks) + root bytes
//!   pages + root bytes ──open_image──► State
//!
//!   root bytes:  magic │ version │ size │ head and root records of all trees │ CRC32C
//! ```
//! - I1: the pages are the caller's to make durable before the root bytes, which name them.
//! - I2: opening reads the trees' roots and nothing else; all counts are in the root bytes. But of
//!   an image of record level 0, which has no totals, all entries are counted.
//! - I3: a tree that an older image does not have was empty. What is written at an older record
//!   level is of its version, so that a member of the build before can take it over.

use super::State;
use super::accounts::Accounts;
use super::attribute_table::AttributeTable;
use super::chunk_table::ChunkTable;
use super::duties::{BalanceOrder, DrainOrder, Duties};
use super::growing_snapshots::{GrowingSnapshot, GrowingSnapshots};
use super::hidden::HiddenTable;
use super::history::{History, TermReign};
use super::known_servers::{KnownServer, KnownServers};
use super::lost_tails::LostTails;
use super::map::{DamageMark, Map};
use super::names::NameTree;
use super::outcomes::Outcomes;
use super::policies::PolicyTable;
use super::policy_job::PolicyJob;
use super::purged::PurgedChunks;
use super::shared_chunks::SharedChunks;
use super::streams::StreamTables;
use super::totals::PendingTotals;
use bytes::Bytes;
use cairn_pagetree::{
    Backing, CheckpointError, Damaged, FileId, PageSink, RecordError, RootRecord, Tree, TreeUsage,
    checkpoint,
};
use cairn_types::wire::Message;
use cairn_types::{CellConfig, CellId, LogIndex, Term, WallTime, crc32c};
use std::sync::Arc;
use std::time::Duration;

const MAGIC: [u8; 8] = *b"CAIRNSTA";
const VERSION: u32 = 13;
/// Of record level 3.
const VERSION_OF_RANGES: u32 = 12;
/// Of record level 2.
const VERSION_OF_STREAMS: u32 = 11;
/// Of record level 1.
const VERSION_BEFORE: u32 = 10;
/// Of record level 0.
const VERSION_OLDEST: u32 = 9;
/// Magic, version, size of the body.
const HEAD_SIZE: usize = 8 + 4 + 4;
/// The trees of a state, in the order in which an image has them.
const TREE_NAMES: [&str; 26] = [
    "names",
    "entries",
    "hidden",
    "hidden by place",
    "hidden by time",
    "places",
    "chunks",
    "purged",
    "kept",
    "by time",
    "floors",
    "floors by time",
    "policies",
    "totals",
    "quotas",
    "charged",
    "shared",
    "attributes",
    "producers",
    "producer names",
    "extents",
    "cursors and outcomes",
    "open stream chunks",
    "settled streams",
    "lost tails",
    "holes",
];
const TREE_COUNT: usize = TREE_NAMES.len();
/// An image of record level 3 has the first so many.
const TREE_COUNT_OF_RANGES: usize = 24;
/// One of record level 2 has the first so many.
const TREE_COUNT_OF_STREAMS: usize = 23;
/// One of record level 1.
const TREE_COUNT_BEFORE: usize = 18;
/// And one of the oldest that is read.
const TREE_COUNT_OLDEST: usize = 13;

cairn_types::message! {
    /// What there is one of.
    pub struct ImageHead {
        1 => cell: CellId,
        2 => config: CellConfig,
        3 => term: Term,
        4 => term_began: WallTime,
        5 => log_time_ms: u64,
        6 => last_record: WallTime,
        7 => applied: LogIndex,
        8 => applied_term: Term,
        9 => file_count: u64,
        11 => outcome_count: u64,
        /// Whose the last terms were.
        12 => reigns: Vec<TermReign>,
        /// Those that have joined and were not forgotten.
        13 => servers: Vec<KnownServer>,
        /// The first term of this history.
        14 => history_began: Term,
        /// What is being brought to what a policy says.
        15 => policy_jobs: Vec<PolicyJob>,
        /// The level of the records that the log may have.
        16 => level: u32,
        45 => drains: Vec<DrainOrder>,
        46 => balance: Option<BalanceOrder>,
        /// There are totals, but for what waits to be added to them.
        60 => counted: bool,
        61 => pending_totals: Vec<PendingTotals>,
        /// Quotas whose rows in the tree are older.
        62 => hot_quotas: Vec<PendingTotals>,
        /// Snapshots that are being made.
        40 => snapshots: Vec<GrowingSnapshot>,
    }
}
cairn_types::message! {
    /// A tree's root record.
    pub struct ImageTree { 1 => record: Bytes }
}
cairn_types::message! {
    /// An image's root: all trees in the order of `State::maps`.
    pub struct ImageRoot { 1 => head: ImageHead, 2 => trees: Vec<ImageTree> }
}

/// A state that was written into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What opens it (I1).
    pub root: Vec<u8>,
    /// Bytes of all pages that it reaches; the rest of its file is garbage, or other images'.
    pub live_bytes: u64,
}

/// Why a file and a root give no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The root bytes are not what was written.
    #[error("the image's root: {0}")]
    Root(#[from] RecordError),
    /// Of another build.
    #[error("an image of version {0}; this build reads {VERSION_OLDEST} to {VERSION}")]
    Version(u32),
    /// A page is not what was written.
    #[error("{0}")]
    Damaged(#[from] Damaged),
    /// The root bytes are whole and make no sense.
    #[error("the image's root does not decode")]
    Malformed,
}

impl State {
    /// Writes those of the state's pages that `file` lacks to `sink`, which appends to it.
    ///
    /// # Errors
    /// When the sink fails: then `file` is given up, and the next image goes into a fresh one.
    /// When a page that must be copied from another file is damaged.
    pub fn write_image<S: PageSink>(
        &self,
        file: FileId,
        sink: &mut S,
    ) -> Result<Image, CheckpointError<S::Error>> {
        let (mut trees, mut live_bytes) = (Vec::with_capacity(TREE_COUNT), 0);
        // I3
        let (_, count) = form(self.level);
        for map in maps(self).take(count) {
            let made = checkpoint(map.tree(), file, sink, self.applied.get(), &[])?;
            live_bytes += made.record.live_bytes;
            trees.push(ImageTree { record: made.record.encode().into() });
        }
        assert_eq!(trees.len(), count, "an image has all trees");
        let head = with_waiting(image_head(self), self.names.accounts());
        Ok(Image { root: encode(&ImageRoot { head, trees }), live_bytes })
    }

    /// The state whose image is in `backing`, which is `file`.
    ///
    /// # Errors
    /// [`ImageError`] where the root is not what was written. A page may show itself damaged later.
    pub fn open_image(
        backing: Arc<dyn Backing>,
        file: FileId,
        root: &[u8],
    ) -> Result<Self, ImageError> {
        let ImageRoot { head, trees } = decode(root)?;
        let mark = DamageMark::default();
        let maps = open_maps((&backing, file), &trees, &mark)?;
        state_of(head, maps, mark)
    }

    /// Reads from `file`, which has these bytes now, whatever it has of this state; gives the state
    /// as it was, with the memory and the file used so far. None where it cannot: nothing has
    /// changed then.
    pub fn adopt_image(&mut self, backing: &Arc<dyn Backing>, file: FileId) -> Option<Self> {
        let mut adopted = self.clone();
        for map in maps_mut(&mut adopted) {
            map.tree_mut().adopt(Arc::clone(backing), file).ok()?;
        }
        Some(std::mem::replace(self, adopted))
    }

    /// What was wrong with a page that was touched since the state was opened: from then on
    /// nothing that it answers may be believed. Told to all clones of a state alike.
    #[must_use]
    pub fn damage(&self) -> Option<Damaged> {
        self.mark.get()
    }

    /// What each tree is called, how many entries it has, and what it is made of.
    #[must_use]
    pub fn usage(&self) -> Vec<(&'static str, u64, TreeUsage)> {
        let maps = TREE_NAMES.into_iter().zip(maps(self));
        maps.map(|(name, map)| (name, map.len(), map.tree().usage())).collect()
    }
}

/// The trees of an image.
fn open_maps(
    (backing, file): (&Arc<dyn Backing>, FileId),
    trees: &[ImageTree],
    mark: &DamageMark,
) -> Result<[Map; TREE_COUNT], ImageError> {
    let mut maps = Vec::with_capacity(TREE_COUNT);
    for tree in trees {
        let record = RootRecord::decode(&tree.record)?;
        let tree = Tree::open(Arc::clone(backing), file, &record)?;
        maps.push(Map::of(tree, mark));
    }
    if maps.len() < TREE_COUNT_OLDEST {
        return Err(ImageError::Malformed);
    }
    // I3
    maps.resize_with(maps.len().max(TREE_COUNT), || Map::new(mark));
    maps.try_into().map_err(|_| ImageError::Malformed)
}

/// The state of these trees.
fn state_of(
    head: ImageHead,
    maps: [Map; TREE_COUNT],
    mark: DamageMark,
) -> Result<State, ImageError> {
    let [names, entries, hidden, by_place, until, places, chunks, purged, rest @ ..] = maps;
    let [kept, by_time, floors, floors_by_time, said, rest @ ..] = rest;
    let [totals, quotas, charged, shared, attributes, rest @ ..] = rest;
    let [producers, producer_names, extents, kept_of_streams, open, settled, lost @ ..] = rest;
    let streams = [producers, producer_names, extents, kept_of_streams, open, settled];
    let tables = (HiddenTable::of([hidden, by_place, until]), AttributeTable::of(attributes));
    let names = names_of([names, entries], tables, [totals, quotas, charged], &head)?;
    Ok(State {
        cell: head.cell,
        config: head.config.completed(),
        term: head.term,
        term_began: head.term_began,
        log_time: Duration::from_millis(head.log_time_ms),
        last_record: head.last_record,
        applied: head.applied,
        applied_term: head.applied_term,
        level: head.level,
        servers: KnownServers::of(head.servers, Duties::of(head.drains, head.balance)),
        history: History::of(head.reigns, head.history_began),
        names,
        chunks: ChunkTable::of([places, chunks], LostTails::of(lost)),
        purged: PurgedChunks::of(purged),
        policies: PolicyTable::of(said, head.policy_jobs),
        shared: SharedChunks::of(shared),
        snapshots: GrowingSnapshots::of(head.snapshots),
        outcomes: Outcomes::of([kept, by_time, floors, floors_by_time], head.outcome_count),
        streams: StreamTables::of(streams),
        mark,
    })
}

/// What there is one of.
pub(super) fn image_head(state: &State) -> ImageHead {
    ImageHead {
        cell: state.cell,
        config: state.config.clone(),
        term: state.term,
        term_began: state.term_began,
        log_time_ms: u64::try_from(state.log_time.as_millis()).unwrap_or(u64::MAX),
        last_record: state.last_record,
        applied: state.applied,
        applied_term: state.applied_term,
        file_count: state.names.file_count(),
        outcome_count: state.outcomes.count(),
        reigns: state.history.reigns(),
        history_began: state.history.began(),
        servers: state.servers.iter().cloned().collect(),
        policy_jobs: state.policies.jobs().values().cloned().collect(),
        level: state.level,
        drains: state.servers.duties().drains().copied().collect(),
        balance: state.servers.duties().balance(),
        snapshots: state.snapshots.iter().cloned().collect(),
        // I3
        counted: state.level > 0,
        ..ImageHead::default()
    }
}

/// All trees, in the order in which an image has them.
fn maps(state: &State) -> impl Iterator<Item = &Map> {
    let (names, chunks) = (state.names.maps(), state.chunks.maps());
    let rest = [state.purged.map()].into_iter().chain(state.outcomes.maps());
    let accounts = state.names.accounts().maps();
    let rest = rest.chain([state.policies.map()]).chain(accounts);
    let last = [state.shared.map(), state.names.attribute_table().map()];
    let lost = state.chunks.lost().maps();
    names.chain(chunks).chain(rest).chain(last).chain(state.streams.maps()).chain(lost)
}

fn maps_mut(state: &mut State) -> impl Iterator<Item = &mut Map> {
    let (names, accounts, attributes) = state.names.maps_mut();
    let (chunks, lost) = state.chunks.maps_mut();
    let rest = [state.purged.map_mut()].into_iter().chain(state.outcomes.maps_mut());
    let rest = rest.chain([state.policies.map_mut()]).chain(accounts);
    let last = [state.shared.map_mut(), attributes];
    names.chain(chunks).chain(rest).chain(last).chain(state.streams.maps_mut()).chain(lost)
}

/// The head with what waits beside the trees: that is the image's, and not the state's.
fn with_waiting(mut head: ImageHead, accounts: &Accounts) -> ImageHead {
    if head.counted {
        head.pending_totals = accounts.pending();
        head.hot_quotas = accounts.quotas().hot();
    }
    head
}

/// The names, and what lies below each directory: all is counted where the image has no totals.
fn names_of(
    names: [Map; 2],
    tables: (HiddenTable, AttributeTable),
    accounts: [Map; 3],
    head: &ImageHead,
) -> Result<NameTree, ImageError> {
    let mut accounts = Accounts::of(accounts);
    if !accounts.take_up_pending(&head.pending_totals, &head.hot_quotas) {
        return Err(ImageError::Malformed);
    }
    let mut names = NameTree::of(names, tables, head.file_count, accounts);
    if !head.counted {
        let (accounts, ways) = names.accounts_mut();
        accounts.count_all(ways);
    }
    Ok(names)
}

/// The version of an image that is written at a record level, and how many trees it has (I3).
fn form(level: u32) -> (u32, usize) {
    match level {
        0 => (VERSION_OLDEST, TREE_COUNT_OLDEST),
        1 => (VERSION_BEFORE, TREE_COUNT_BEFORE),
        2 => (VERSION_OF_STREAMS, TREE_COUNT_OF_STREAMS),
        3 => (VERSION_OF_RANGES, TREE_COUNT_OF_RANGES),
        _ => (VERSION, TREE_COUNT),
    }
}

fn encode(root: &ImageRoot) -> Vec<u8> {
    let body = root.to_bytes();
    let mut out = MAGIC.to_vec();
    // I3
    let (version, _) = form(root.head.level);
    out.extend_from_slice(&version.to_le_bytes());
    let size =
        u32::try_from(body.len()).expect("settings, servers and a few jobs are far below 4 GiB");
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&body);
    let checksum = crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// The root in bytes that nobody vouches for.
fn decode(bytes: &[u8]) -> Result<ImageRoot, ImageError> {
    let (magic, rest) = bytes.split_first_chunk().ok_or(RecordError::Size)?;
    if *magic != MAGIC {
        return Err(RecordError::Magic.into());
    }
    let (version, rest) = rest.split_first_chunk().ok_or(RecordError::Size)?;
    let version = u32::from_le_bytes(*version);
    if !(VERSION_OLDEST..=VERSION).contains(&version) {
        return Err(ImageError::Version(version));
    }
    let size = u32::from_le_bytes(*rest.first_chunk().ok_or(RecordError::Size)?) as usize;
    let (checked, checksum) = bytes.split_last_chunk().ok_or(RecordError::Size)?;
    let body = checked.get(HEAD_SIZE..).filter(|body| body.len() == size);
    let body = body.ok_or(RecordError::Size)?;
    if crc32c(checked) != u32::from_le_bytes(*checksum) {
        return Err(RecordError::Checksum.into());
    }
    ImageRoot::decode(body).map_err(|_| ImageError::Malformed)
}
