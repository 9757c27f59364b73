//! Applying the end of what was deleted: it goes in slices, depth first, so that no record takes
//! long (§4.4).
//!
//! ```text
//!   Purge ─► the deepest first name below ─► its chunks ─► itself ─► what is next … ─► the entry
//!               └─ so many names and chunks, then the next record goes on
//! ```
//! - PU1: only what is kept no longer goes; what has begun to go is brought back no more.
//! - PU2: each chunk that goes is remembered as gone (`purged.rs`).
//! - PU3: a chunk goes with the last of its files; until then it has as many replicas as those ask
//!   for that are left (`shared_chunks.rs`).
//! - PU4: a chunk that is being written and whose stream lets go of it goes on to who has it, too:
//!   nobody writes it any more, and it is sealed there (R42). Where another file lets go of it, its
//!   producer notices nothing.

use super::chunk_table::ChunkTable;
use super::entry_record::EntryRecord;
use super::hidden::{HIDDEN_NAME, HiddenRecord};
use super::history::History;
use super::names::{HIDDEN_ROOT, NameTree};
use super::policies::PolicyTable;
use super::purged::PurgedChunks;
use super::shared_chunks::{Left, SharedChunks};
use super::streams::{OpenStreamChunkRow, StreamTables};
use crate::applied::{Applied, Changed, EntryHidden, EntryPurged};
use crate::record::{Expedite, LetGo, Purge};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, Layout, ProducerId};
use std::time::Duration;

/// Names and chunks that one record may take away: a few milliseconds.
const PURGE_COUNT_MAX: u32 = 4096;

/// What a purge takes from.
pub(super) struct Purges<'a> {
    pub(super) names: &'a mut NameTree,
    pub(super) chunks: &'a mut ChunkTable,
    pub(super) shared: &'a mut SharedChunks,
    pub(super) policies: &'a mut PolicyTable,
    pub(super) purged: &'a mut PurgedChunks,
    pub(super) streams: &'a mut StreamTables,
    pub(super) history: &'a mut History,
    pub(super) log_time: Duration,
    /// What is left to other files has the goal that these ask for.
    pub(super) lowers_goals: bool,
    /// What is being written goes on to other files (PU4).
    pub(super) has_heirs: bool,
}

/// A slice that is being taken.
struct PurgedSlice<'a> {
    names: &'a mut NameTree,
    chunks: &'a mut ChunkTable,
    shared: &'a mut SharedChunks,
    policies: &'a mut PolicyTable,
    purged: &'a mut PurgedChunks,
    streams: &'a mut StreamTables,
    history: &'a History,
    /// How much more may go.
    left: usize,
    gone: Vec<ChunkHandle>,
    lowers_goals: bool,
    has_heirs: bool,
    /// Those that others have, and that are to have fewer replicas now.
    lowered: Vec<ChunkHandle>,
    names_gone: u64,
}

impl Purges<'_> {
    /// What is deleted is kept no longer (§4.4).
    pub(super) fn expedite(&mut self, record: &Expedite) -> Result<Applied, Failure> {
        let Expedite { entry, name, .. } = record;
        let hidden = self.names.hidden().get(*entry);
        let is_there = self.names.child(HIDDEN_ROOT, name) == Some(*entry);
        // A snapshot that is being made was never deleted from anywhere (GS1).
        let hidden = hidden.filter(|it| is_there && it.parent != HIDDEN_ROOT);
        let hidden = hidden.ok_or_else(|| not_deleted(*entry))?;
        self.names.keep_hidden(*entry, &HiddenRecord { until: Duration::ZERO, ..hidden });
        let hidden = format!("/{HIDDEN_NAME}/{name}");
        Ok(Applied::EntryHidden(EntryHidden { id: *entry, hidden }))
    }

    /// Takes away a slice of what is deleted.
    pub(super) fn purge(&mut self, record: &Purge) -> Result<Applied, Failure> {
        let entry = record.entry;
        let hidden = self.names.hidden().get(entry).ok_or_else(|| not_deleted(entry))?;
        if hidden.until > self.log_time {
            let line = format!("entry {}: it is kept for a while yet", entry.short());
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        self.raise_floor(record.floor);
        if !hidden.purging {
            self.names.keep_hidden(entry, &HiddenRecord { purging: true, ..hidden.clone() });
        }
        let count = record.count.clamp(1, PURGE_COUNT_MAX) as usize;
        let mut slice = self.slice(count);
        let whole = slice.take_below(entry, hidden.hidden_name(entry));
        assert!(slice.gone.len() <= PURGE_COUNT_MAX as usize, "a slice is small");
        let (chunks, lowered, names) = (slice.gone, slice.lowered, slice.names_gone);
        Ok(Applied::EntryPurged(EntryPurged { entry, whole, chunks, names, lowered }))
    }

    /// A chunk of which nothing was committed leaves its file (R42).
    pub(super) fn take_abandoned(&mut self, (file, index): (EntryId, ChunkIndex), at: ChunkHandle) {
        self.slice(1).take_chunk(file, index, at);
        if index == ChunkIndex::default()
            && let Some(record) = self.names.entry(file)
        {
            self.names.set(file, &EntryRecord { first: None, ..record });
        }
    }

    fn slice(&mut self, left: usize) -> PurgedSlice<'_> {
        PurgedSlice {
            names: self.names,
            chunks: self.chunks,
            shared: self.shared,
            policies: self.policies,
            purged: self.purged,
            streams: self.streams,
            history: self.history,
            left,
            gone: Vec::new(),
            lowers_goals: self.lowers_goals,
            has_heirs: self.has_heirs,
            lowered: Vec::new(),
            names_gone: 0,
        }
    }

    /// A person lets go of a chunk that the log does not know: from now on it is as if purged.
    pub(super) fn let_go(&mut self, record: &LetGo) -> Result<Applied, Failure> {
        let handle = record.handle;
        // What a decision left out (R28) is from now on as any stale replica.
        if self.chunks.contains(handle) && self.purged.keep_no_more(handle) {
            return Ok(Applied::Changed(Changed::default()));
        }
        if self.chunks.contains(handle) {
            let line = format!("chunk {}: it is a file's, and not lost", handle.short());
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        self.purged.let_go(handle);
        Ok(Applied::Changed(Changed::default()))
    }

    /// No handle of its term below this one will be opened that was not opened before (GN1).
    pub(super) fn raise_floor(&mut self, floor: ChunkHandle) {
        if let Some(former) = self.history.raise_floor(floor) {
            self.purged.forget_between(former, floor);
        }
    }
}

impl PurgedSlice<'_> {
    /// Takes away what lies below an entry, and it; whether all of it is gone.
    fn take_below(&mut self, top: EntryId, name: String) -> bool {
        let mut way = vec![(top, name)];
        while let Some((id, name)) = way.last() {
            // Nothing is known of what is damaged, which was noted.
            let Some(mut record) = self.names.entry(*id) else { return false };
            if record.kind == EntryKind::Directory
                && let Some((child, id, _)) = self.names.children(*id, "").next()
            {
                way.push((id, child));
                continue;
            }
            let is_file = record.kind == EntryKind::File;
            if record.layout == Layout::Stream {
                // Who reads it by its hidden name finds it empty, and no extents that are gone.
                if record.length > 0 {
                    record.length = 0;
                    self.names.set(*id, &record);
                }
                self.left -= self.streams.take_of_file(*id, self.left);
            }
            if self.left == 0 || (is_file && !self.take_chunks(*id, record)) {
                return false;
            }
            self.names.take_out((*id, &record), name);
            self.policies.forget(*id);
            self.left -= 1;
            self.names_gone += 1;
            way.pop();
        }
        true
    }

    /// Takes away the chunks of a file; whether none is left and the file can go, too.
    fn take_chunks(&mut self, id: EntryId, file: EntryRecord) -> bool {
        let second = ChunkIndex::default().next();
        let behind = self.chunks.of_file(id, second).take(self.left);
        let behind: Vec<(ChunkIndex, ChunkHandle)> = behind.collect();
        for (index, handle) in &behind {
            self.take_chunk(id, *index, *handle);
        }
        let mut first = file.first;
        if let Some(handle) = file.first.filter(|_| self.left > 0) {
            self.take_chunk(id, ChunkIndex::default(), handle);
            first = None;
        }
        if self.left > 0 {
            return true;
        }
        // Who reads it by its hidden name finds it empty, and no holes where something was.
        self.names.set(id, &EntryRecord { length: 0, chunk_count: 0, first, ..file });
        false
    }

    fn take_chunk(&mut self, file: EntryId, index: ChunkIndex, handle: ChunkHandle) {
        self.left -= 1;
        // PU3
        let left = self.shared.let_go(self.chunks, handle, (file, index));
        if left == Left::ToOthers && self.has_heirs {
            self.leave_open(handle, file);
        } else {
            self.streams.end_open(handle);
        }
        if left == Left::ToOthers {
            if self.lowers_goals && self.shared.lower_goal((self.names, self.chunks), handle) {
                self.lowered.push(handle);
            }
            return;
        }
        self.purged.keep_no_more(handle);
        // PU2
        if self.history.floor(handle.term()) <= handle {
            self.purged.insert(handle);
        }
        self.gone.push(handle);
    }

    /// A chunk that others have, too, is let go of by a file, whose producer may write it (PU4).
    fn leave_open(&mut self, handle: ChunkHandle, file: EntryId) {
        let written = self.streams.open_chunk(handle).filter(|row| row.file == file);
        // Nothing is known of what is damaged, which was noted.
        let (Some(row), Some(chunk)) = (written, self.chunks.get(handle)) else { return };
        assert!(chunk.file != file, "it is another file's now (PU3)");
        let nobody = ProducerId::default();
        let row = OpenStreamChunkRow { file: chunk.file, producer: nobody, ..row };
        self.streams.set_open(handle, &row);
    }
}

/// Whether something hidden has begun to be purged, with all that is in it (PU1).
pub(super) fn is_purging(names: &NameTree, id: EntryId) -> bool {
    let mut way = names.way_up(id);
    let top = way.find(|(_, record, _)| record.parent == HIDDEN_ROOT);
    let hidden = top.and_then(|(id, ..)| names.hidden().get(id));
    hidden.is_some_and(|hidden| hidden.purging)
}

fn not_deleted(entry: EntryId) -> Failure {
    let line = format!("entry {}: it is not deleted (any more)", entry.short());
    Failure::refused(ErrorCode::NotFound, line)
}
