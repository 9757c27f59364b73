//! Applying records about names, which change the tree of names alone. Each checks again what its
//! proposer saw (R23).

use super::apply::LOG_TIME_MAX;
use super::apply_purge::is_purging;
use super::entry_record::EntryRecord;
use super::hidden::{HIDDEN_NAME, HiddenRecord};
use super::names::{HIDDEN_ROOT, NameTree, ROOT};
use crate::applied::{Applied, DirectoryMade, EntryHidden, EntryMoved, FileMade};
use crate::record::{AddDirectories, AddFile, HideEntry, MoveEntry};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellPath, EntryId, EntryKind, PATH_SIZE_MAX};
use std::collections::BTreeSet;
use std::time::Duration;

impl NameTree {
    pub(super) fn add_directories(&mut self, record: &AddDirectories) -> Result<Applied, Failure> {
        self.check_directories(record)?;
        let mut parent = record.parent;
        for new in &record.directories {
            parent = match self.child(parent, &new.name) {
                Some(there) => there,
                None => {
                    let entry = EntryRecord::directory(parent, record.time);
                    self.insert(new.id, &new.name, &entry);
                    new.id
                }
            };
        }
        Ok(Applied::DirectoryMade(DirectoryMade { id: parent }))
    }

    /// Everything is checked before anything is made.
    fn check_directories(&self, record: &AddDirectories) -> Result<(), Failure> {
        self.live_directory(record.parent)?;
        let mut parent = Some(record.parent);
        let mut fresh = BTreeSet::new();
        for new in &record.directories {
            check_name(&new.name)?;
            self.check_fresh(new.id)?;
            if !fresh.insert(new.id) {
                return Err(id_taken(new.id));
            }
            let Some(there) = parent.and_then(|parent| self.child(parent, &new.name)) else {
                parent = None;
                continue;
            };
            if !record.existing_is_fine {
                return Err(self.taken(there));
            }
            self.live_directory(there)?;
            parent = Some(there);
        }
        Ok(())
    }

    pub(super) fn add_file(&mut self, record: &AddFile) -> Result<Applied, Failure> {
        self.live_directory(record.parent)?;
        check_name(&record.name)?;
        if let Some(there) = self.child(record.parent, &record.name) {
            let is_file = self.entry(there).is_some_and(|e| e.kind == EntryKind::File);
            return match (is_file, record.or_open) {
                (true, true) => Ok(Applied::FileMade(FileMade { id: there, created: false })),
                (true, false) => Err(self.taken(there)),
                (false, _) => Err(self.is_a_directory(there)),
            };
        }
        self.check_fresh(record.id)?;
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
        };
        self.insert(record.id, &record.name, &entry);
        Ok(Applied::FileMade(FileMade { id: record.id, created: true }))
    }

    pub(super) fn move_entry(
        &mut self,
        record: &MoveEntry,
        log_time: Duration,
    ) -> Result<Applied, Failure> {
        let entry = self.check_place(record.entry, record.from_parent, &record.from_name)?;
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
        self.check_paths_below(record)?;
        let there = self.child(record.to_parent, &record.to_name);
        // Onto itself: nothing to do, as in rename(2).
        let replaced = there.filter(|there| *there != record.entry);
        if let Some(there) = replaced {
            let gives_way = self.check_replaceable(there, entry.kind, record)?;
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

    /// What a move would give a path that no request can name stays where it is.
    ///
    /// Looks at all that is moved, but only where its paths become longer.
    fn check_paths_below(&self, record: &MoveEntry) -> Result<(), Failure> {
        let grows = record.to_name.len() > record.from_name.len();
        // Within a live directory, which needs no way up to be walked.
        if record.to_parent == record.from_parent && !grows {
            return Ok(());
        }
        let size = |parent, name: &str| {
            let above = self.path_of(parent).unwrap_or_default().len();
            above + usize::from(parent != ROOT) + name.len()
        };
        let old = size(record.from_parent, &record.from_name);
        let new = size(record.to_parent, &record.to_name);
        // A hidden path is longer than any other by its hidden name.
        if new <= old && !self.is_hidden(record.entry) {
            return Ok(());
        }
        let longest = new + self.longest_below(record.entry);
        if longest <= PATH_SIZE_MAX {
            return Ok(());
        }
        let line = format!(
            "{}: a path below it would have {longest} bytes; the limit is {PATH_SIZE_MAX}",
            record.to_name
        );
        Err(Failure::refused(ErrorCode::Invalid, line))
    }

    /// Only a file gives way, and only to a file; gives the one that does.
    fn check_replaceable(
        &self,
        there: EntryId,
        by: EntryKind,
        record: &MoveEntry,
    ) -> Result<EntryRecord, Failure> {
        let entry = self.entry(there).filter(|entry| entry.kind == EntryKind::File);
        let Some(entry) = entry else {
            return Err(if record.replace {
                self.is_a_directory(there)
            } else {
                self.taken(there)
            });
        };
        if !record.replace {
            return Err(self.taken(there));
        }
        if by == EntryKind::Directory {
            let path = self.path_of(there).unwrap_or_default();
            let line = format!("{path}: a directory does not replace a file");
            return Err(Failure::refused(ErrorCode::NotADirectory, line));
        }
        Ok(entry)
    }

    pub(super) fn hide_entry(
        &mut self,
        record: &HideEntry,
        log_time: Duration,
    ) -> Result<Applied, Failure> {
        let entry = self.check_place(record.entry, record.parent, &record.name)?;
        if self.is_hidden(record.parent) {
            let path = self.path_of(record.entry).unwrap_or_default();
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
    fn live_directory(&self, id: EntryId) -> Result<(), Failure> {
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

    /// The entry, which stands where the proposer saw it.
    fn check_place(
        &self,
        id: EntryId,
        parent: EntryId,
        name: &str,
    ) -> Result<EntryRecord, Failure> {
        let entry = self.entry(id).filter(|_| id != ROOT && id != HIDDEN_ROOT);
        if let Some(entry) = entry.filter(|entry| entry.parent == parent)
            && self.child(parent, name) == Some(id)
        {
            return Ok(entry);
        }
        let line = format!("{name}: no such file or directory (any more)");
        Err(Failure::refused(ErrorCode::NotFound, line))
    }

    fn check_fresh(&self, id: EntryId) -> Result<(), Failure> {
        if self.has_entry(id) { Err(id_taken(id)) } else { Ok(()) }
    }

    fn taken(&self, there: EntryId) -> Failure {
        let path = self.path_of(there).unwrap_or_default();
        Failure::refused(ErrorCode::AlreadyExists, format!("{path}: exists already"))
    }

    fn is_a_directory(&self, there: EntryId) -> Failure {
        let path = self.path_of(there).unwrap_or_default();
        let line = format!("{path}: a directory where a file is meant");
        Failure::refused(ErrorCode::IsADirectory, line)
    }
}

fn is_within(names: &NameTree, id: EntryId, directory: EntryId) -> bool {
    names.way_up(id).any(|(above, ..)| above == directory)
}

/// The path of a name in a directory.
fn path_in(names: &NameTree, directory: EntryId, name: &str) -> String {
    let above = names.path_of(directory).filter(|_| directory != ROOT);
    format!("{}/{name}", above.unwrap_or_default())
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
