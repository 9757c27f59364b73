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
use super::names::{HIDDEN_ROOT, NameTree, are_free, are_fresh, taken};
use super::policies::PolicyTable;
use super::shared_chunks::{Left, SharedChunks};
use super::streams::{CopiedSlice, StreamTables};
use crate::applied::{Applied, Changed, ChunkOpened, SnapshotMade};
use crate::chunk_place::end_of_chunk;
use crate::record::{CopiedEntry, CopyEntries, CopyOnWrite, DiscardSnapshot, SnapshotTree};
use crate::stream_records::CopyStream;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellPath, ChunkHandle, ChunkIndex, EntryId, EntryKind, Layout, WallTime};
use std::collections::BTreeSet;
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
    /// What is left to other files has the goal that these ask for.
    pub(super) lowers_goals: bool,
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

fn cannot_be_copied(entry: &CopiedEntry) -> Failure {
    refused(format!("entry {}: it cannot be copied", entry.source.short()))
}

/// What is known of a slice while it is checked: what it makes, of which kind.
#[derive(Debug, Default)]
struct Checked<'a> {
    /// Directories that it makes.
    made: BTreeSet<EntryId>,
    /// Names that it takes, by directory.
    names: Vec<(EntryId, &'a str)>,
    /// Copies of files, of which it gives further places.
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
        let (mut made, mut rows) = (Vec::with_capacity(sources.len()), Vec::new());
        for (entry, source) in record.entries.iter().zip(&sources) {
            if entry.first == ChunkIndex::default() {
                let copy = self.copy_of(record, entry, source);
                if entry.id == record.top {
                    self.make_top(record, &copy);
                } else {
                    made.push((entry.id, entry.name.as_str(), copy));
                }
            }
        }
        self.names.insert_all(&made);
        for (entry, source) in record.entries.iter().zip(&sources) {
            if source.kind == EntryKind::File {
                self.share_places(entry, source, &mut rows);
            }
            if entry.first == ChunkIndex::default() {
                self.say_as(entry);
            }
        }
        self.shared.add_all(&rows);
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
        let begins = self.snapshots.get(record.top).is_none();
        let is_top = |entry: &CopiedEntry| entry.id == record.top && begins;
        let (first, others) = record.entries.split_first().expect("a slice has entries");
        if begins && (!is_top(first) || others.iter().any(is_top)) {
            return Err(no_snapshot(record.top));
        }
        self.check_ids(record)?;
        let ids: Vec<EntryId> = record.entries.iter().map(|entry| entry.source).collect();
        let mut checked = Checked::default();
        let mut sources = Vec::with_capacity(ids.len());
        for (entry, source) in record.entries.iter().zip(self.names.entry_each(&ids)) {
            let source = source.ok_or_else(|| cannot_be_copied(entry))?;
            self.check_entry((record.top, is_top(entry)), (entry, &source), &mut checked)?;
            sources.push(source);
        }
        self.check_names(checked)?;
        Ok(sources)
    }

    /// Whether what is made gets ids that nothing has, in ascending order.
    fn check_ids(&self, record: &CopyEntries) -> Result<(), Failure> {
        let made = record.entries.iter().filter(|entry| entry.first == ChunkIndex::default());
        let made: Vec<&CopiedEntry> = made.collect();
        let (Some(first), Some(last)) = (made.first(), made.last()) else { return Ok(()) };
        let ascend = made.windows(2).all(|two| two[0].id < two[1].id);
        if first.id.is_none() || !ascend {
            return Err(cannot_be_copied(first));
        }
        // A slice takes its numbers one after the other: nothing else has one between.
        if are_fresh(self.names, first.id, last.id) {
            return Ok(());
        }
        match made.iter().find(|entry| self.names.has_entry(entry.id)) {
            Some(entry) => Err(cannot_be_copied(entry)),
            None => Ok(()),
        }
    }

    /// Whether no name is taken twice, nor by what is there.
    fn check_names(&self, checked: Checked<'_>) -> Result<(), Failure> {
        let Checked { mut names, made, .. } = checked;
        // Mostly they are in order already.
        names.sort_unstable();
        let twice = names.windows(2).any(|two| two[0] == two[1]);
        let is_taken = |of_one: &[(EntryId, &str)]| {
            let (directory, first) = of_one[0];
            let (_, last) = of_one[of_one.len() - 1];
            !made.contains(&directory)
                && !are_free(self.names, directory, (first, last))
                && of_one.iter().any(|(_, name)| self.names.child(directory, name).is_some())
        };
        let taken = names.chunk_by(|one, other| one.0 == other.0).any(is_taken);
        if twice || taken {
            return Err(refused("a name of a snapshot is taken in there".to_owned()));
        }
        Ok(())
    }

    fn check_entry<'a>(
        &self,
        (top, is_top): (EntryId, bool),
        (entry, source): (&'a CopiedEntry, &EntryRecord),
        checked: &mut Checked<'a>,
    ) -> Result<(), Failure> {
        let gone = || cannot_be_copied(entry);
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
            return if taken { Err(gone()) } else { Ok(()) };
        }
        check_name(&entry.name)?;
        let has_parent = is_top
            || checked.made.contains(&entry.parent)
            || self.may_hold(entry.parent, top, checked);
        if !is_top {
            checked.names.push((entry.parent, &entry.name));
        }
        // The copy would be of itself, and without an end.
        let outside = self.is_outside((entry.source, source.parent), top, checked);
        if source.kind == EntryKind::Directory {
            checked.made.insert(entry.id);
        }
        if has_parent && outside { Ok(()) } else { Err(gone()) }
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

    /// What the copy of an entry is, but for places that come after.
    fn copy_of(
        &mut self,
        record: &CopyEntries,
        entry: &CopiedEntry,
        source: &EntryRecord,
    ) -> EntryRecord {
        let parent = if entry.id == record.top { HIDDEN_ROOT } else { entry.parent };
        let first = source.first.filter(|_| places(entry).contains(&0));
        let mut copy = EntryRecord { parent, first, ..*source };
        if let Some(anew) = &entry.anew {
            copy.attributes = self.names.number_of(source.kind, anew.attributes);
            copy.modified = record.time;
        }
        copy
    }

    fn make_top(&mut self, record: &CopyEntries, copy: &EntryRecord) {
        let hidden = growing(record.time);
        self.names.insert(record.top, &hidden.hidden_name(record.top), copy);
        self.names.keep_hidden(record.top, &hidden);
    }

    /// The copy of an entry says what that says of how files are kept.
    fn say_as(&mut self, entry: &CopiedEntry) {
        let said = self.policies.said(entry.source);
        if said.names().any() && entry.anew.is_none() {
            self.policies.say(entry.id, said);
        }
    }

    /// Chunks of a file become the copy's, too: the rows that say so.
    fn share_places(
        &mut self,
        entry: &CopiedEntry,
        source: &EntryRecord,
        rows: &mut Vec<(ChunkHandle, EntryId, ChunkIndex)>,
    ) {
        let range = places(entry);
        if let Some(handle) = source.first.filter(|_| range.contains(&0)) {
            rows.push((handle, entry.id, ChunkIndex::default()));
        }
        // A file has no chunk at its count, or behind it.
        if range.end.min(source.chunk_count) <= range.start.max(1) {
            return;
        }
        let first = ChunkIndex::new(range.start.max(1));
        let behind = self.chunks.of_file(entry.source, first);
        let behind: Vec<_> = behind.take_while(|(index, _)| range.contains(&index.get())).collect();
        for (index, handle) in behind {
            self.chunks.set_place((entry.id, index), handle);
            rows.push((handle, entry.id, index));
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
        if self.names.child(record.to_parent, &record.to_name).is_some() {
            return Err(taken(self.names, record.to_parent, &record.to_name));
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
        if self.chunks.is_taken(handle) {
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
        if self.lowers_goals {
            self.shared.lower_goal((self.names, self.chunks), shared);
        }
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
