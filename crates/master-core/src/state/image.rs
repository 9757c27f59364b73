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
//! - I2: opening reads the trees' roots and nothing else; all counts are in the root bytes.

use super::State;
use super::chunk_table::ChunkTable;
use super::duties::{BalanceOrder, DrainOrder, Duties};
use super::hidden::HiddenTable;
use super::history::{History, TermReign};
use super::known_servers::{KnownServer, KnownServers};
use super::map::{DamageMark, Map};
use super::names::NameTree;
use super::outcomes::Outcomes;
use super::policies::PolicyTable;
use super::policy_job::PolicyJob;
use super::purged::PurgedChunks;
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
const VERSION: u32 = 9;
/// Magic, version, size of the body.
const HEAD_SIZE: usize = 8 + 4 + 4;
/// The trees of a state, in the order in which an image has them.
const TREE_NAMES: [&str; 13] = [
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
];
const TREE_COUNT: usize = TREE_NAMES.len();

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
        45 => drains: Vec<DrainOrder>,
        46 => balance: Option<BalanceOrder>,
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
    #[error("an image of version {0}; this build reads version {VERSION}")]
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
        for map in self.maps() {
            let made = checkpoint(map.tree(), file, sink, self.applied.get(), &[])?;
            live_bytes += made.record.live_bytes;
            trees.push(ImageTree { record: made.record.encode().into() });
        }
        assert_eq!(trees.len(), TREE_COUNT, "an image has all trees");
        Ok(Image { root: encode(&ImageRoot { head: self.image_head(), trees }), live_bytes })
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
        let mut maps = Vec::with_capacity(TREE_COUNT);
        for tree in &trees {
            let record = RootRecord::decode(&tree.record)?;
            let tree = Tree::open(Arc::clone(&backing), file, &record)?;
            maps.push(Map::of(tree, &mark));
        }
        let maps: [Map; TREE_COUNT] = maps.try_into().map_err(|_| ImageError::Malformed)?;
        let [names, entries, hidden, by_place, until, places, chunks, purged, rest @ .., said] =
            maps;
        Ok(Self {
            cell: head.cell,
            config: head.config.completed(),
            term: head.term,
            term_began: head.term_began,
            log_time: Duration::from_millis(head.log_time_ms),
            last_record: head.last_record,
            applied: head.applied,
            applied_term: head.applied_term,
            servers: KnownServers::of(head.servers, Duties::of(head.drains, head.balance)),
            history: History::of(head.reigns, head.history_began),
            names: NameTree::of(
                [names, entries],
                HiddenTable::of([hidden, by_place, until]),
                head.file_count,
            ),
            chunks: ChunkTable::of([places, chunks]),
            purged: PurgedChunks::of(purged),
            policies: PolicyTable::of(said, head.policy_jobs),
            outcomes: Outcomes::of(rest, head.outcome_count),
            mark,
        })
    }

    /// Reads from `file`, which has these bytes now, whatever it has of this state; gives the state
    /// as it was, with the memory and the file used so far. None where it cannot: nothing has
    /// changed then.
    pub fn adopt_image(&mut self, backing: &Arc<dyn Backing>, file: FileId) -> Option<Self> {
        let mut adopted = self.clone();
        for map in adopted.maps_mut() {
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
        let maps = TREE_NAMES.into_iter().zip(self.maps());
        maps.map(|(name, map)| (name, map.len(), map.tree().usage())).collect()
    }

    pub(super) fn image_head(&self) -> ImageHead {
        ImageHead {
            cell: self.cell,
            config: self.config.clone(),
            term: self.term,
            term_began: self.term_began,
            log_time_ms: u64::try_from(self.log_time.as_millis()).unwrap_or(u64::MAX),
            last_record: self.last_record,
            applied: self.applied,
            applied_term: self.applied_term,
            file_count: self.names.file_count(),
            outcome_count: self.outcomes.count(),
            reigns: self.history.reigns(),
            history_began: self.history.began(),
            servers: self.servers.iter().cloned().collect(),
            policy_jobs: self.policies.jobs().values().cloned().collect(),
            drains: self.servers.duties().drains().copied().collect(),
            balance: self.servers.duties().balance(),
        }
    }

    /// All trees, in the order in which an image has them.
    fn maps(&self) -> impl Iterator<Item = &Map> {
        let (names, chunks) = (self.names.maps(), self.chunks.maps());
        let rest = [self.purged.map()].into_iter().chain(self.outcomes.maps());
        names.chain(chunks).chain(rest).chain([self.policies.map()])
    }

    fn maps_mut(&mut self) -> impl Iterator<Item = &mut Map> {
        let (names, chunks) = (self.names.maps_mut(), self.chunks.maps_mut());
        let rest = [self.purged.map_mut()].into_iter().chain(self.outcomes.maps_mut());
        names.chain(chunks).chain(rest).chain([self.policies.map_mut()])
    }
}

fn encode(root: &ImageRoot) -> Vec<u8> {
    let body = root.to_bytes();
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
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
    if version != VERSION {
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
