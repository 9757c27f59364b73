//! State as items for a checkpoint file, and back (§2.6.3).
//!
//! ```text
//!   Head · Entry* (by id) · Chunk* (by handle) · Kept* (by log time) · Floor* · Idle*
//! ```
//! The file frames each item with a checksum; the head says how many there are of each kind, so
//! that a checkpoint that lost its end is recognised.

use super::entry_record::EntryRecord;
use super::names::{HIDDEN_ROOT, ROOT};
use super::{ChunkRecord, Remembered, State};
use crate::outcome::Outcome;
use cairn_types::wire::{Message, WireError};
use cairn_types::{
    CellId, ChunkHandle, ClusterConfig, Content, EntryId, EntryKind, LogIndex, MutationName,
    MutationNumber, NAME_SIZE_MAX, SessionId, Term, WallTime,
};
use std::time::Duration;

cairn_types::message! {
    /// What there is one of, and how many of all else.
    pub struct Head {
        1 => cell: CellId,
        2 => config: ClusterConfig,
        3 => term: Term,
        4 => reign_began: WallTime,
        5 => log_time_ms: u64,
        6 => applied: LogIndex,
        7 => applied_term: Term,
        8 => entry_count: u64,
        9 => chunk_count: u64,
        10 => kept_count: u64,
        11 => floor_count: u64,
        12 => idle_count: u64,
        13 => last_record: WallTime,
    }
}
cairn_types::message! {
    /// One entry of the tree.
    pub struct EntryItem {
        1 => id: EntryId,
        2 => parent: EntryId,
        3 => name: String,
        4 => kind: EntryKind,
        5 => content: Content,
        6 => replication: u32,
        7 => length: u64,
        8 => chunk_count: u64,
        9 => modified: WallTime,
        10 => synced: bool,
    }
}
cairn_types::message! {
    /// One chunk.
    pub struct ChunkItem { 1 => handle: ChunkHandle, 2 => chunk: ChunkRecord }
}
cairn_types::message! {
    /// One remembered outcome; its bytes are an [`Outcome`].
    pub struct KeptItem {
        1 => time_ms: u64,
        2 => mutation: MutationName,
        3 => outcome: bytes::Bytes,
    }
}
cairn_types::message! {
    /// What a session has forgotten.
    pub struct FloorItem {
        1 => session: SessionId,
        2 => floor: MutationNumber,
    }
}
cairn_types::message! {
    /// A session without outcomes, and since when.
    pub struct IdleItem { 1 => time_ms: u64, 2 => session: SessionId }
}
cairn_types::choice! {
    /// One item of a checkpoint.
    pub enum Item {
        /// The first.
        1 => Head(Head),
        /// Of the tree.
        2 => Entry(EntryItem),
        /// Of the chunks.
        3 => Chunk(ChunkItem),
        /// Of the outcomes.
        4 => Kept(KeptItem),
        /// Of the sessions.
        5 => Floor(FloorItem),
        /// Of the idle sessions.
        6 => Idle(IdleItem),
    }
}

/// Why items are not a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// An item does not decode.
    #[error("an item of the checkpoint does not decode")]
    Malformed,
    /// The first item is not the head, or another one is.
    #[error("the checkpoint's head is not its first item, or there are two")]
    Head,
    /// An item takes the place of another one.
    #[error("the checkpoint says one thing twice")]
    Twice,
    /// Entries do not hang together (N1).
    #[error("the checkpoint's tree of names is broken")]
    Tree,
    /// Items are missing or too many.
    #[error("the checkpoint does not hold as many items as its head says")]
    Count,
}

impl From<WireError> for LoadError {
    fn from(_: WireError) -> Self {
        Self::Malformed
    }
}

impl State {
    /// The state as items, in the order in which [`Loader`] takes them.
    pub fn items(&self) -> impl Iterator<Item = Vec<u8>> + use<'_> {
        let entries = self.names.entries().filter(|(id, _)| *id != ROOT && *id != HIDDEN_ROOT);
        let entries = entries.map(|(id, entry)| {
            let name = self.names.name_of(id).unwrap_or_default();
            Item::Entry(entry_item(id, name, &entry))
        });
        let chunks =
            self.chunks.iter().map(|(handle, chunk)| Item::Chunk(ChunkItem { handle, chunk }));
        let kept = self.outcomes.kept().map(|(time, mutation, outcome)| {
            let outcome = outcome.to_bytes().into();
            Item::Kept(KeptItem { time_ms: millis(time), mutation, outcome })
        });
        let floors = self
            .outcomes
            .floors()
            .map(|(session, floor)| Item::Floor(FloorItem { session, floor }));
        let idle = self
            .outcomes
            .idle()
            .map(|(time, session)| Item::Idle(IdleItem { time_ms: millis(time), session }));
        std::iter::once(Item::Head(self.head()))
            .chain(entries)
            .chain(chunks)
            .chain(kept)
            .chain(floors)
            .chain(idle)
            .map(|item| item.to_bytes())
    }

    fn head(&self) -> Head {
        Head {
            cell: self.cell,
            config: self.config.clone(),
            term: self.term,
            reign_began: self.reign_began,
            log_time_ms: millis(self.log_time),
            last_record: self.last_record,
            applied: self.applied,
            applied_term: self.applied_term,
            // The roots are always there and are not written.
            entry_count: self.names.entries().count() as u64 - 2,
            chunk_count: self.chunks.count(),
            kept_count: self.outcomes.kept().count() as u64,
            floor_count: self.outcomes.floors().count() as u64,
            idle_count: self.outcomes.idle().count() as u64,
        }
    }
}

/// Log time as it is written; it is made of whole milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn entry_item(id: EntryId, name: String, entry: &EntryRecord) -> EntryItem {
    EntryItem {
        id,
        parent: entry.parent,
        name,
        kind: entry.kind,
        content: entry.content,
        replication: entry.replication,
        length: entry.length,
        chunk_count: entry.chunk_count,
        modified: entry.modified,
        synced: entry.synced,
    }
}

/// Takes the items of a checkpoint, in order.
#[derive(Debug, Default)]
pub struct Loader {
    head: Option<Head>,
    state: State,
}

impl Loader {
    /// Takes the next item.
    ///
    /// # Errors
    /// [`LoadError`] when it is not one, or not at its place.
    pub fn take(&mut self, item: &[u8]) -> Result<(), LoadError> {
        let state = &mut self.state;
        match (Item::decode(item)?, self.head.is_some()) {
            (Item::Head(head), false) => {
                state.cell = head.cell;
                state.config = head.config.clone();
                state.term = head.term;
                state.reign_began = head.reign_began;
                state.log_time = Duration::from_millis(head.log_time_ms);
                state.last_record = head.last_record;
                state.applied = head.applied;
                state.applied_term = head.applied_term;
                self.head = Some(head);
            }
            (Item::Head(_), true) | (_, false) => return Err(LoadError::Head),
            (Item::Entry(item), true) => {
                once(!state.names.has_entry(item.id))?;
                if item.name.len() > NAME_SIZE_MAX {
                    return Err(LoadError::Malformed);
                }
                state.names.insert(item.id, &item.name, &entry_of(&item));
            }
            (Item::Chunk(ChunkItem { handle, chunk }), true) => {
                let place = state.chunks.at(chunk.file, chunk.index);
                once(place.is_none() && !state.chunks.contains(handle))?;
                state.chunks.insert(handle, &chunk);
            }
            (Item::Kept(item), true) => {
                once(state.outcomes.get(item.mutation) == Remembered::New)?;
                let outcome = Outcome::decode(&item.outcome)?;
                let time = Duration::from_millis(item.time_ms);
                state.outcomes.keep(time, item.mutation, outcome);
            }
            (Item::Floor(item), true) => {
                state.outcomes.load_floor(item.session, item.floor);
            }
            (Item::Idle(item), true) => {
                let time = Duration::from_millis(item.time_ms);
                state.outcomes.load_idle(time, item.session);
            }
        }
        Ok(())
    }

    /// The state, once all items are taken.
    ///
    /// # Errors
    /// [`LoadError`] when some are missing.
    pub fn finish(self) -> Result<State, LoadError> {
        let head = self.head.ok_or(LoadError::Head)?;
        if self.state.head() != head {
            return Err(LoadError::Count);
        }
        if self.state.names.is_whole() { Ok(self.state) } else { Err(LoadError::Tree) }
    }
}

fn once(is_new: bool) -> Result<(), LoadError> {
    if is_new { Ok(()) } else { Err(LoadError::Twice) }
}

fn entry_of(item: &EntryItem) -> EntryRecord {
    EntryRecord {
        parent: item.parent,
        kind: item.kind,
        content: item.content,
        replication: item.replication,
        length: item.length,
        chunk_count: item.chunk_count,
        modified: item.modified,
        synced: item.synced,
    }
}
