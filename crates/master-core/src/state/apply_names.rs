//! Applying records about names, which change the tree of names alone. Each checks again what its
//! proposer saw (R23).

use super::apply::LOG_TIME_MAX;
use super::apply_purge::is_purging;
use super::apply_quota::QuotaCheck;
use super::attribute_table::AttributesNumber;
use super::entry_record::EntryRecord;
use super::hidden::{HIDDEN_NAME, HiddenRecord};
use super::names::{HIDDEN_ROOT, NameTree, ROOT, path_in, taken};
use crate::applied::{
    Applied, AttributesChanged, DirectoryMade, EntryHidden, EntryMoved, FileMade,
};
use crate::record::{AddDirectories, AddFile, ChangeAttributes, HideEntry, MoveEntry};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{Attributes, CellPath, EntryId, EntryKind, MODE_BITS, PATH_SIZE_MAX};
use std::collections::BTreeSet;
use std::time::Duration;

impl NameTree {
    pub(super) fn add_directories(
        &mut self,
        record: &AddDirectories,
        attributes: Option<Attributes>,
    ) -> Result<Applied, Failure> {
        check_directories(self, record)?;
        let mut parent = record.parent;
        for new in &record.directories {
            parent = match self.child(parent, &new.name) {
                Some(there) => there,
                None => {
                    let attributes = self.number_of(EntryKind::Directory, attributes);
                    let entry = EntryRecord::directory(parent, record.time);
                    let entry = EntryRecord { attributes, ..entry };
                    self.insert(new.id, &new.name, &entry);
                    new.id
                }
            };
        }
        Ok(Applied::DirectoryMade(DirectoryMade { id: parent }))
    }

    pub(super) fn add_file(
        &mut self,
        record: &AddFile,
        attributes: Option<Attributes>,
    ) -> Result<Applied, Failure> {
        self.live_directory(record.parent)?;
        check_name(&record.name)?;
        if let Some(there) = self.child(record.parent, &record.name) {
            let is_file = self.entry(there).is_some_and(|e| e.kind == EntryKind::File);
            return match (is_file, record.or_open) {
                (true, true) => Ok(Applied::FileMade(FileMade { id: there, created: false })),
                (true, false) => Err(taken(self, record.parent, &record.name)),
                (false, _) => Err(is_a_directory(self, there)),
            };
        }
        check_fresh(self, record.id)?;
        QuotaCheck(self).names(record.parent, 1)?;
        let attributes = self.number_of(EntryKind::File, attributes);
        let entry = EntryRecord {
            parent: record.parent,
            kind: EntryKind::File,
            content: record.content,
            replication: record.replication,
            length: 0,
            chunk_count: 0,
            first: None,
            modified: record.time,
            synced: record.synced,
            attributes,
            layout: record.layout,
            commit_replicas: record.commit_replicas,
        };
        self.insert(record.id, &record.name, &entry);
        Ok(Applied::FileMade(FileMade { id: record.id, created: true }))
    }

    pub(super) fn change_attributes(
        &mut self,
        record: &ChangeAttributes,
    ) -> Result<Applied, Failure> {
        let id = record.entry;
        let entry = self.entry(id).filter(|_| id != HIDDEN_ROOT && !self.is_hidden(id));
        let Some(mut entry) = entry else {
            let line = format!("entry {}: no such file or directory, or deleted", id.short());
            return Err(Failure::refused(ErrorCode::NotFound, line));
        };
        if record.attributes.is_some() {
            entry.attributes = self.number_of(entry.kind, record.attributes);
        }
        if record.attributes.is_some() && entry.kind == EntryKind::Directory {
            self.forget_open_ways();
        }
        entry.modified = record.modified.unwrap_or(entry.modified);
        self.set(id, &entry);
        Ok(Applied::AttributesChanged(AttributesChanged { id }))
    }

    /// Attributes as an entry has them.
    pub(super) fn number_of(
        &mut self,
        kind: EntryKind,
        attributes: Option<Attributes>,
    ) -> AttributesNumber {
        let attributes = attributes.unwrap_or_else(|| Attributes::usual(kind));
        // Other bits are none of a mode.
        let mode = attributes.mode & MODE_BITS;
        self.attribute_table_mut().number(kind, Attributes { mode, ..attributes })
    }

    pub(super) fn move_entry(
        &mut self,
        record: &MoveEntry,
        log_time: Duration,
    ) -> Result<Applied, Failure> {
        let entry = check_place(self, record.entry, record.from_parent, &record.from_name)?;
        // PU1
        if self.is_hidden(record.from_parent) && is_purging(self, record.entry) {
            let line = format!("{}: it is being purged", record.from_name);
            return Err(Failure::refused(ErrorCode::NotFound, line));
        }
        self.live_directory(record.to_parent)?;
        check_name(&record.to_name)?;
        // R35: a directory inside itself would be cut off from the root. Nothing is in a file.
        let inside =
            entry.kind == EntryKind::Directory && is_within(self, record.to_parent, record.entry);
        if inside && !broken(Rule::R35) {
            let from = self.path_of(record.entry).unwrap_or_default();
            let line = format!("{from}: a directory cannot be moved into itself");
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        check_paths_below(self, record)?;
        QuotaCheck(self).moved((record.entry, &entry), record.to_parent)?;
        let there = self.child(record.to_parent, &record.to_name);
        // Onto itself: nothing to do, as in rename(2).
        let replaced = there.filter(|there| *there != record.entry);
        if let Some(there) = replaced {
            let gives_way = check_replaceable(self, there, entry.kind, record)?;
            let until = kept_until(log_time, record.keeps_ms);
            let from = (record.to_parent, record.to_name.as_str());
            let hidden = HiddenRecord::new(from, record.time, until);
            self.hide((there, &gives_way), &hidden);
        }
        if there != Some(record.entry) {
            let to = (record.to_parent, record.to_name.as_str());
            self.rename((record.entry, &entry), &record.from_name, to);
        }
        let restored = record.from_parent == HIDDEN_ROOT;
        let restored = restored.then(|| path_in(self, record.to_parent, &record.to_name));
        let restored = restored.unwrap_or_default();
        Ok(Applied::EntryMoved(EntryMoved { replaced, restored }))
    }

    pub(super) fn hide_entry(
        &mut self,
        record: &HideEntry,
        log_time: Duration,
    ) -> Result<Applied, Failure> {
        let entry = check_place(self, record.entry, record.parent, &record.name)?;
        if self.is_hidden(record.parent) {
            let path = path_in(self, record.parent, &record.name);
            return Err(Failure::refused(ErrorCode::Invalid, format!("{path}: deleted already")));
        }
        let may_hold_names = entry.kind == EntryKind::Directory;
        if may_hold_names && !record.recursive && self.has_children(record.entry) {
            let path = self.path_of(record.entry).unwrap_or_default();
            let line = format!("{path}: the directory has entries; delete it recursively");
            return Err(Failure::refused(ErrorCode::DirectoryNotEmpty, line));
        }
        let until = kept_until(log_time, record.keeps_ms);
        let hidden = HiddenRecord::new((record.parent, &record.name), record.time, until);
        let hidden = self.hide((record.entry, &entry), &hidden);
        let hidden = format!("/{HIDDEN_NAME}/{hidden}");
        Ok(Applied::EntryHidden(EntryHidden { id: record.entry, hidden }))
    }

    /// A directory that is there and not deleted, so that nothing is made where none will look.
    pub(super) fn live_directory(&self, id: EntryId) -> Result<(), Failure> {
        if self.is_live_directory(id) {
            return Ok(());
        }
        if self.entry(id).is_some_and(|entry| entry.kind == EntryKind::File) {
            let path = self.path_of(id).unwrap_or_default();
            let line = format!("{path}: a file where a directory is meant");
            return Err(Failure::refused(ErrorCode::NotADirectory, line));
        }
        let line = format!("directory {}: no such directory, or deleted", id.short());
        Err(Failure::refused(ErrorCode::NotFound, line))
    }
}

/// Everything is checked before anything is made.
fn check_directories(names: &NameTree, record: &AddDirectories) -> Result<(), Failure> {
    names.live_directory(record.parent)?;
    let (mut parent, mut last) = (Some(record.parent), record.parent);
    let mut fresh = BTreeSet::new();
    let mut found = 0;
    for new in &record.directories {
        check_name(&new.name)?;
        check_fresh(names, new.id)?;
        if !fresh.insert(new.id) {
            return Err(id_taken(new.id));
        }
        let there = |parent| Some((parent, names.child(parent, &new.name)?));
        let Some((above, there)) = parent.and_then(there) else {
            parent = None;
            continue;
        };
        if !record.existing_is_fine {
            return Err(taken(names, above, &new.name));
        }
        names.live_directory(there)?;
        (parent, last) = (Some(there), there);
        found += 1;
    }
    QuotaCheck(names).names(last, record.directories.len() - found)
}

/// Only a file gives way, and only to a file; gives the one that does.
fn check_replaceable(
    names: &NameTree,
    there: EntryId,
    by: EntryKind,
    record: &MoveEntry,
) -> Result<EntryRecord, Failure> {
    let entry = names.entry(there).filter(|entry| entry.kind == EntryKind::File);
    if !record.replace {
        return Err(taken(names, record.to_parent, &record.to_name));
    }
    let entry = entry.ok_or_else(|| is_a_directory(names, there))?;
    if by == EntryKind::Directory {
        let path = path_in(names, record.to_parent, &record.to_name);
        let line = format!("{path}: a directory does not replace a file");
        return Err(Failure::refused(ErrorCode::NotADirectory, line));
    }
    Ok(entry)
}

/// The entry, which stands where the proposer saw it.
fn check_place(
    names: &NameTree,
    id: EntryId,
    parent: EntryId,
    name: &str,
) -> Result<EntryRecord, Failure> {
    let entry = names.entry(id).filter(|_| id != ROOT && id != HIDDEN_ROOT);
    if let Some(entry) = entry.filter(|entry| entry.parent == parent)
        && names.child(parent, name) == Some(id)
    {
        return Ok(entry);
    }
    let line = format!("{name}: no such file or directory (any more)");
    Err(Failure::refused(ErrorCode::NotFound, line))
}

fn check_fresh(names: &NameTree, id: EntryId) -> Result<(), Failure> {
    if names.has_entry(id) { Err(id_taken(id)) } else { Ok(()) }
}

fn is_a_directory(names: &NameTree, there: EntryId) -> Failure {
    let path = names.path_of(there).unwrap_or_default();
    let line = format!("{path}: a directory where a file is meant");
    Failure::refused(ErrorCode::IsADirectory, line)
}

/// What a move would give a path that no request can name stays where it is.
///
/// Looks at all that is moved, but only where its paths become longer.
fn check_paths_below(names: &NameTree, record: &MoveEntry) -> Result<(), Failure> {
    let grows = record.to_name.len() > record.from_name.len();
    // Within a live directory, which needs no way up to be walked.
    if record.to_parent == record.from_parent && !grows {
        return Ok(());
    }
    let size = |parent, name: &str| {
        let above = names.path_of(parent).unwrap_or_default().len();
        above + usize::from(parent != ROOT) + name.len()
    };
    let old = size(record.from_parent, &record.from_name);
    let new = size(record.to_parent, &record.to_name);
    // A hidden path is longer than any other by its hidden name.
    if new <= old && !names.is_hidden(record.entry) {
        return Ok(());
    }
    let longest = new + longest_below(names, record.entry);
    if longest <= PATH_SIZE_MAX {
        return Ok(());
    }
    let line = format!(
        "{}: a path below it would have {longest} bytes; the limit is {PATH_SIZE_MAX}",
        record.to_name
    );
    Err(Failure::refused(ErrorCode::Invalid, line))
}

/// Bytes of the longest way down from an entry, with the slash before each name.
fn longest_below(names: &NameTree, id: EntryId) -> usize {
    let mut longest = 0;
    let mut left = vec![(id, 0)];
    while let Some((directory, above)) = left.pop() {
        for (name, child, kind) in names.children(directory, "") {
            let size = above + 1 + name.len();
            longest = longest.max(size);
            if kind == EntryKind::Directory {
                left.push((child, size));
            }
        }
    }
    longest
}

fn is_within(names: &NameTree, id: EntryId, directory: EntryId) -> bool {
    names.way_up(id).any(|(above, ..)| above == directory)
}

/// The log time up to which what is deleted now is kept.
fn kept_until(log_time: Duration, keeps_ms: u64) -> Duration {
    log_time.saturating_add(Duration::from_millis(keeps_ms)).min(LOG_TIME_MAX)
}

/// A name that no path can have would hide its entry from everyone.
fn check_name(name: &str) -> Result<(), Failure> {
    if CellPath::is_name(name) {
        return Ok(());
    }
    Err(Failure::refused(ErrorCode::Invalid, format!("{name:?} is no name")))
}

fn id_taken(id: EntryId) -> Failure {
    Failure::refused(ErrorCode::Internal, format!("entry {}: the id is taken", id.short()))
}
