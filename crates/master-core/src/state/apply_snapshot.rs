//! Applying records about snapshots (GFS §3.4): a tree is copied in slices, each chunk of it with
//! one more file that refers to it; later a file gets a chunk of its own where it writes.
//!
//! ```text
//!   CopyEntries ─► hidden copies of names, (handle, copy) in `shared` … SnapshotTree ─► visible
//!   CopyOnWrite ─► (file, index) has another handle; the others keep the one they had
//! ```
//! - CE1: what is copied stands under a top that is being made, and nowhere else: a record that is
//!   odd changes nothing that anybody sees.
//! - CE2: a record is checked whole before anything of it is done (R23).

use super::apply_chunks::{charge, handle_taken};
use super::apply_quota::QuotaCheck;
use super::chunk_table::{ChunkRecord, ChunkTable};
use super::entry_record::EntryRecord;
use super::growing_snapshots::GrowingSnapshots;
use super::hidden::HiddenRecord;
use super::names::{HIDDEN_ROOT, NameTree};
use super::policies::PolicyTable;
use super::shared_chunks::{Left, SharedChunks};
use super::streams::{CopiedSlice, StreamTables};
use crate::applied::{Applied, Changed, ChunkOpened, SnapshotMade};
use crate::chunk_place::end_of_chunk;
use crate::record::{CopiedEntry, CopyEntries, CopyOnWrite, DiscardSnapshot, SnapshotTree};
use crate::stream_records::CopyStream;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellPath, ChunkIndex, EntryId, EntryKind, Layout, WallTime};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

/// Names and places that one record may copy: a few milliseconds.
pub(crate) const COPIED_MAX: u64 = 1024;
/// Log time never comes so far.
const KEPT_WHILE_IT_GROWS: Duration = Duration::from_millis(u64::MAX);
/// What a copy is called while it is made; nobody reads that.
const GROWING_NAME: &str = "snapshot";

/// What a record about snapshots may change.
pub(super) struct SnapshotChanges<'a> {
    pub(super) names: &'a mut NameTree,
    pub(super) chunks: &'a mut ChunkTable,
    pub(super) shared: &'a mut SharedChunks,
    pub(super) snapshots: &'a mut GrowingSnapshots,
    pub(super) policies: &'a mut PolicyTable,
    pub(super) streams: &'a mut StreamTables,
    pub(super) chunk_size: u64,
    /// How far streams are settled is kept.
    pub(super) settles: bool,
}

fn refused(line: String) -> Failure {
    Failure::refused(ErrorCode::Invalid, line)
}

fn check_name(name: &str) -> Result<(), Failure> {
    if CellPath::is_name(name) { Ok(()) } else { Err(refused(format!("{name:?} is no name"))) }
}

fn no_snapshot(top: EntryId) -> Failure {
    let line = format!("snapshot {}: it is not being made (any more)", top.short());
    Failure::refused(ErrorCode::NotFound, line)
}

/// What is known of a slice while it is checked: what it makes, of which kind.
#[derive(Debug, Default)]
struct Checked<'a> {
    made: BTreeMap<EntryId, EntryKind>,
    /// Names that it takes, by directory.
    names: BTreeSet<(EntryId, &'a str)>,
    /// Copies of files, of which it gives places.
    placed: BTreeSet<EntryId>,
    /// The last directory of the copy that entries were found to fit into.
    into: Option<EntryId>,
    /// The last directory that was found to be outside the copy.
    outside: Option<EntryId>,
}

/// Places that an entry of a slice gets.
fn places(entry: &CopiedEntry) -> Range<u64> {
    let first = entry.first.get();
    first..first.saturating_add(entry.count)
}

impl SnapshotChanges<'_> {
    /// A slice of a snapshot.
    pub(super) fn copy_entries(&mut self, record: &CopyEntries) -> Result<Applied, Failure> {
        let sources = self.check_slice(record)?;
        assert_eq!(sources.len(), record.entries.len(), "each source was looked at");
        for (entry, source) in record.entries.iter().zip(&sources) {
            if entry.first == ChunkIndex::default() {
                self.make(record, entry, source);
            }
            if source.kind == EntryKind::File {
                self.share_places(entry, source);
            }
        }
        self.snapshots.grow(record.top, record.entries.len() as u64);
        Ok(Applied::Changed(Changed::default()))
    }

    /// Looks at all of a slice before any of it is done (CE2); the entries that are copied.
    fn check_slice(&self, record: &CopyEntries) -> Result<Vec<EntryRecord>, Failure> {
        let size: u64 = record
            .entries
            .iter()
            .fold(0, |size, entry| size.saturating_add(1).saturating_add(entry.count));
        if record.entries.is_empty() || size > 2 * COPIED_MAX {
            return Err(refused(format!("a slice of a snapshot of {size} names and places")));
        }
        let mut checked = Checked::default();
        let begins = self.snapshots.get(record.top).is_none();
        let mut sources = Vec::with_capacity(record.entries.len());
        for (at, entry) in record.entries.iter().enumerate() {
            let is_top = entry.id == record.top && begins;
            if (at == 0) != is_top && begins {
                return Err(no_snapshot(record.top));
            }
            sources.push(self.check_entry((record.top, is_top), entry, &mut checked)?);
        }
        Ok(sources)
    }

    fn check_entry<'a>(
        &self,
        (top, is_top): (EntryId, bool),
        entry: &'a CopiedEntry,
        checked: &mut Checked<'a>,
    ) -> Result<EntryRecord, Failure> {
        let gone = || refused(format!("entry {}: it cannot be copied", entry.source.short()));
        let source = self.names.entry(entry.source).ok_or_else(gone)?;
        let goes_on = entry.first != ChunkIndex::default();
        if goes_on {
            let kind = self.names.entry(entry.id).map(|copy| copy.kind);
            let is_copy = kind == Some(EntryKind::File) && self.is_within(entry.id, top);
            let once = checked.placed.insert(entry.id);
            if !is_copy || !once || source.kind != EntryKind::File || entry.id == entry.source {
                return Err(gone());
            }
            let taken =
                places(entry).any(|at| self.chunks.at(entry.id, ChunkIndex::new(at)).is_some());
            return if taken { Err(gone()) } else { Ok(source) };
        }
        check_name(&entry.name)?;
        let is_fresh = !self.names.has_entry(entry.id)
            && !entry.id.is_none()
            && checked.made.insert(entry.id, source.kind).is_none();
        let has_parent = is_top
            || match checked.made.get(&entry.parent) {
                Some(kind) => *kind == EntryKind::Directory && entry.parent != entry.id,
                None => {
                    self.may_hold(entry.parent, top, checked)
                        && self.names.child(entry.parent, &entry.name).is_none()
                }
            };
        let is_free = checked.names.insert((entry.parent, entry.name.as_str()));
        // The copy would be of itself, and without an end.
        let outside = self.is_outside((entry.source, source.parent), top, checked);
        checked.placed.insert(entry.id);
        if is_fresh && has_parent && is_free && outside { Ok(source) } else { Err(gone()) }
    }

    /// Whether it is a directory of the copy. Most entries of a slice are of one.
    fn may_hold(&self, directory: EntryId, top: EntryId, checked: &mut Checked<'_>) -> bool {
        if checked.into == Some(directory) {
            return true;
        }
        let there = self.names.entry(directory);
        let may = there.is_some_and(|there| there.kind == EntryKind::Directory)
            && self.is_within(directory, top);
        checked.into = may.then_some(directory);
        may
    }

    /// Whether an entry of `parent` stands nowhere in the copy.
    fn is_outside(
        &self,
        (id, parent): (EntryId, EntryId),
        top: EntryId,
        checked: &mut Checked<'_>,
    ) -> bool {
        if checked.outside != Some(parent) {
            checked.outside = (!self.is_within(parent, top)).then_some(parent);
        }
        id != top && checked.outside == Some(parent)
    }

    fn is_within(&self, id: EntryId, top: EntryId) -> bool {
        self.names.way_up(id).any(|(above, ..)| above == top)
    }

    /// Makes the copy of an entry, whose places come after.
    fn make(&mut self, record: &CopyEntries, entry: &CopiedEntry, source: &EntryRecord) {
        let is_top = entry.id == record.top;
        let parent = if is_top { HIDDEN_ROOT } else { entry.parent };
        let first = source.first.filter(|_| places(entry).contains(&0));
        let mut copy = EntryRecord { parent, first, ..*source };
        if let Some(anew) = &entry.anew {
            copy.attributes = self.names.number_of(source.kind, anew.attributes);
            copy.modified = record.time;
        }
        if is_top {
            let hidden = growing(record.time);
            self.names.insert(entry.id, &hidden.hidden_name(entry.id), &copy);
            self.names.keep_hidden(entry.id, &hidden);
        } else {
            self.names.insert(entry.id, &entry.name, &copy);
        }
        let said = self.policies.said(entry.source);
        if said.names().any() && entry.anew.is_none() {
            self.policies.say(entry.id, said);
        }
    }

    /// Chunks of a file become the copy's, too.
    fn share_places(&mut self, entry: &CopiedEntry, source: &EntryRecord) {
        let range = places(entry);
        if let Some(handle) = source.first.filter(|_| range.contains(&0)) {
            self.shared.add(handle, entry.id, ChunkIndex::default());
        }
        if range.end <= 1 {
            return;
        }
        let first = ChunkIndex::new(range.start.max(1));
        let behind = self.chunks.of_file(entry.source, first);
        let behind: Vec<_> = behind.take_while(|(index, _)| range.contains(&index.get())).collect();
        for (index, handle) in behind {
            self.chunks.set_place((entry.id, index), handle);
            self.shared.add(handle, entry.id, index);
        }
    }

    /// A slice of what a stream is becomes the copy's, too: committed bytes never change, so that
    /// they are shared as they are. Its producers' epochs are over in the copy.
    pub(super) fn copy_stream(&mut self, record: &CopyStream) -> Result<Applied, Failure> {
        let CopyStream { top, source, id, from, .. } = *record;
        let gone = || refused(format!("stream {}: it cannot be copied", source.short()));
        let copy = self.names.entry(id).filter(|copy| copy.layout == Layout::Stream);
        let copy = copy.filter(|_| id != source && self.is_within(id, top)).ok_or_else(gone)?;
        if self.snapshots.get(top).is_none() || !self.names.has_entry(source) {
            return Err(gone());
        }
        let (after, count, settles) = (&*record.after, record.count as usize, self.settles);
        let slice = CopiedSlice { from, after, count, settles };
        let next = self.streams.copy((source, id), copy.length, slice);
        Ok(Applied::StreamCopied(next))
    }

    /// The copy is whole: it gets its name.
    pub(super) fn finish(&mut self, record: &SnapshotTree) -> Result<Applied, Failure> {
        let top = record.top;
        let growing = self.snapshots.get(top).filter(|it| it.entries == record.entries);
        growing.ok_or_else(|| no_snapshot(top))?;
        let entry = self.names.entry(top).ok_or_else(|| no_snapshot(top))?;
        let hidden = self.names.hidden().get(top).ok_or_else(|| no_snapshot(top))?;
        self.names.live_directory(record.to_parent)?;
        check_name(&record.to_name)?;
        if let Some(there) = self.names.child(record.to_parent, &record.to_name) {
            return Err(self.names.taken(there));
        }
        assert_eq!(entry.parent, HIDDEN_ROOT, "what grows is hidden (CE1)");
        // While it grew it counted nowhere.
        QuotaCheck(self.names).moved((top, &entry), record.to_parent)?;
        let to = (record.to_parent, record.to_name.as_str());
        self.names.rename((top, &entry), &hidden.hidden_name(top), to);
        self.snapshots.remove(top);
        Ok(Applied::SnapshotMade(SnapshotMade { id: top, entries: record.entries }))
    }

    /// What was copied so far goes.
    pub(super) fn discard(&mut self, record: &DiscardSnapshot) -> Result<Applied, Failure> {
        if !self.snapshots.remove(record.top) {
            return Err(no_snapshot(record.top));
        }
        self.let_purge(record.top);
        Ok(Applied::Changed(Changed::default()))
    }

    /// The same of all (GS2).
    pub(super) fn discard_all(&mut self) {
        for growing in self.snapshots.take_all() {
            self.let_purge(growing.top);
        }
    }

    fn let_purge(&mut self, top: EntryId) {
        if let Some(hidden) = self.names.hidden().get(top) {
            self.names.keep_hidden(top, &HiddenRecord { until: Duration::ZERO, ..hidden });
        }
    }

    /// The file gets a chunk of its own.
    pub(super) fn copy_on_write(&mut self, record: &CopyOnWrite) -> Result<Applied, Failure> {
        let CopyOnWrite { file: id, index, shared, handle, .. } = *record;
        let file = self.names.entry(id).filter(|file| file.kind == EntryKind::File);
        let hidden = self.names.is_hidden(id) && !broken(Rule::R20);
        let file = file.filter(|_| !hidden).ok_or_else(|| {
            let line = format!("file {}: no such file, or deleted", id.short());
            Failure::refused(ErrorCode::NotFound, line)
        })?;
        let there = self.chunks.of_record(id, &file, index);
        if there != Some(shared) || !self.shared.is_shared(shared) {
            let line = format!("chunk {}: the file shares it no more", shared.short());
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        let gone = || Failure::refused(ErrorCode::NoSuchChunk, "the chunk's record is gone");
        let former = self.chunks.get(shared).ok_or_else(gone)?;
        if self.chunks.contains(handle) {
            return Err(handle_taken(handle));
        }
        if record.shared_version <= former.version || former.index != index {
            let line = format!("chunk {}: it was raised meanwhile", shared.short());
            return Err(Failure::not_done(ErrorCode::StaleVersion, line));
        }
        if record.charges {
            let end = end_of_chunk(index, self.chunk_size);
            let up_to = QuotaCheck(self.names).charge_up_to(id, &file, end)?;
            up_to.is_some().then(|| charge(self.names, id, &file, up_to));
        }
        let (version, set_size) = (record.shared_version, record.shared_set_size);
        self.chunks.set(shared, &ChunkRecord { version, set_size, ..former });
        let left = self.shared.let_go(self.chunks, shared, (id, index));
        assert_eq!(left, Left::ToOthers, "it was shared (SD1)");
        let (version, set_size, goal) = (record.version, record.set_size, file.replication);
        let own = ChunkRecord { file: id, index, version, set_size, closed: former.closed, goal };
        self.chunks.insert(handle, &own);
        if index == ChunkIndex::default() {
            self.names.set(id, &EntryRecord { first: Some(handle), ..file });
        }
        Ok(Applied::ChunkOpened(ChunkOpened { handle }))
    }
}

/// As nobody brings it back (GS1), and as long as it grows nobody purges it.
fn growing(time: WallTime) -> HiddenRecord {
    let until = KEPT_WHILE_IT_GROWS;
    HiddenRecord {
        parent: HIDDEN_ROOT,
        name: GROWING_NAME.to_owned(),
        deleted: time,
        until,
        purging: true,
    }
}
