//! Who may do what with which names: owner, group and mode, as POSIX has them (design §4).
//!
//! ```text
//!   / ──search──► /a ──search──► /a/b ──read, write──► what is there
//! ```
//! - PE1: every directory of the way to a name lets the caller search it, or nothing is said of
//!   what lies beyond, not even whether anything is there.
//! - PE2: a name is made or taken away by who may write and search its directory; in a sticky one
//!   it is taken away, too, only by its owner or the directory's.
//! - PE3: what is deleted is reached as if it were where it was, and by its owner.
//! - PE4: the superuser may do everything; and everybody may while the log cannot have attributes
//!   (record level 0): nobody could have allowed anybody anything.
//!
//! Who a caller is, it says itself: this keeps people from accidents, not from each other, until
//! callers are authenticated.

use crate::record::ATTRIBUTES_LEVEL;
use crate::state::{EntryRecord, HIDDEN_ROOT, ROOT, State};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{self, Rule};
use cairn_types::{Access, Attributes, CellPath, EntryId, EntryKind, Identity, STICKY};
use std::sync::Arc;

/// What was deleted may have been in what was deleted, but not deeper than this.
const HIDDEN_DEPTH_MAX: u32 = 64;

/// Somebody who asks for something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) state: &'a State,
    pub(crate) who: &'a Arc<Identity>,
}

impl Asker<'_> {
    /// Whether nothing is refused to it (PE4).
    pub(crate) fn may_all(&self) -> bool {
        self.who.is_superuser() || self.state.level() < ATTRIBUTES_LEVEL
    }

    /// Only the superuser may.
    pub(crate) fn check_superuser(&self, what: &str) -> Result<(), Failure> {
        if self.may_all() {
            return Ok(());
        }
        let line = format!("{what}: {} is not the superuser, who alone may", self.who);
        Err(Failure::refused(ErrorCode::PermissionDenied, line))
    }

    /// May go along all directories of a path, its last name left out (PE1, PE3).
    pub(crate) fn check_way(&self, path: &CellPath) -> Result<(), Failure> {
        if self.may_all() {
            return Ok(());
        }
        let Some(directory) = path.parent() else { return Ok(()) };
        if let Some(id) = self.state.directory_of(path) {
            self.check_search(id, path)?;
            if id != HIDDEN_ROOT {
                return Ok(());
            }
            let child = self.state.child(id, path.name().unwrap_or_default());
            return child.map_or(Ok(()), |child| self.check_hidden(child, path, 0));
        }
        // As far as it leads, by which it is decided whether the end of it may be known.
        let mut at = ROOT;
        for name in directory.names() {
            let Some(child) = self.state.child(at, name) else { break };
            if self.state.entry(child).is_none_or(|entry| entry.kind == EntryKind::File) {
                break;
            }
            at = child;
        }
        self.check_search(at, path)
    }

    /// May go through a directory and all above it.
    fn check_search(&self, directory: EntryId, path: &CellPath) -> Result<(), Failure> {
        self.check_search_at(directory, path, 0)
    }

    fn check_search_at(&self, id: EntryId, path: &CellPath, depth: u32) -> Result<(), Failure> {
        if self.state.known_ways().is_open(id, self.who) {
            return Ok(());
        }
        let mut below = None;
        for (at, entry, _) in self.state.way_up(id) {
            match below {
                Some(hidden) if at == HIDDEN_ROOT => self.check_hidden(hidden, path, depth)?,
                _ if at == HIDDEN_ROOT => {}
                _ => self.check_entry((at, &entry), Access::SEARCH, path)?,
            }
            below = Some(at);
        }
        self.state.known_ways().remember(id, self.who);
        Ok(())
    }

    /// May go to where a file stands: ids can be guessed.
    pub(crate) fn check_known(&self, file: EntryId) -> Result<(), Failure> {
        match self.state.entry(file).map(|entry| entry.parent) {
            Some(HIDDEN_ROOT) => self.check_hidden(file, &CellPath::root(), 0),
            Some(parent) => self.check_search_at(parent, &CellPath::root(), 0),
            // That it is not there is said by who looks for it.
            None => Ok(()),
        }
    }

    /// May reach what is deleted (PE3).
    pub(crate) fn check_deleted(&self, id: EntryId, path: &CellPath) -> Result<(), Failure> {
        if self.may_all() { Ok(()) } else { self.check_hidden(id, path, 0) }
    }

    fn check_hidden(&self, id: EntryId, path: &CellPath, depth: u32) -> Result<(), Failure> {
        let entry = self.state.entry(id);
        if entry.is_some_and(|entry| self.owns(&entry)) {
            return Ok(());
        }
        match self.state.deleted().get(id) {
            Some(was) if self.state.entry(was.parent).is_some() && depth < HIDDEN_DEPTH_MAX => {
                self.check_search_at(was.parent, path, depth + 1)
            }
            _ => Err(self.denied("reach what was deleted there", path)),
        }
    }

    /// May do this with an entry itself.
    pub(crate) fn check_entry(
        &self,
        (id, entry): (EntryId, &EntryRecord),
        wish: Access,
        path: &CellPath,
    ) -> Result<(), Failure> {
        let attributes = self.state.attributes(entry);
        if self.may_all() || self.who.may(wish, attributes) {
            return Ok(());
        }
        Err(self.may_not(wish, (id, attributes), path))
    }

    /// Why something may not be done with an entry.
    pub(crate) fn may_not(
        &self,
        wish: Access,
        (id, attributes): (EntryId, Attributes),
        path: &CellPath,
    ) -> Failure {
        let place = self.place_of(id, path);
        self.denied(&format!("{wish} {place} ({attributes})"), path)
    }

    /// The path of an entry on the way along `path`, or behind it.
    fn place_of(&self, id: EntryId, path: &CellPath) -> String {
        let is_file = self.state.entry(id).is_some_and(|entry| entry.kind == EntryKind::File);
        // Whoever is refused may ask again at once: no directory is searched for a file's name.
        let places = || std::iter::successors(Some(path.clone()), CellPath::parent);
        let found = || places().find(|place| self.state.resolve(place) == Ok(id));
        match is_file {
            true => found().unwrap_or_else(|| path.clone()).as_str().to_owned(),
            false => self.state.path_of(id).unwrap_or_default(),
        }
    }

    /// Whether it may read the names of a directory, and go to them.
    pub(crate) fn may_look_into(&self, directory: EntryId) -> bool {
        let both = Access::READ.and(Access::SEARCH);
        let entry = || self.state.entry(directory);
        self.may_all()
            || entry().is_some_and(|entry| self.who.may(both, self.state.attributes(&entry)))
    }

    /// As `check_entry`, by id alone; of what is not there, whoever looks says so.
    pub(crate) fn check(&self, id: EntryId, wish: Access, path: &CellPath) -> Result<(), Failure> {
        match self.state.entry(id) {
            Some(entry) if !self.may_all() => self.check_entry((id, &entry), wish, path),
            _ => Ok(()),
        }
    }

    /// May use a file that is open: one of these will do. Ids can be guessed, so that it was opened
    /// proves nothing.
    pub(crate) fn check_file(&self, file: EntryId, any_of: &[Access]) -> Result<(), Failure> {
        let entry = self.state.entry(file).filter(|_| !self.may_all());
        let Some(entry) = entry else { return Ok(()) };
        let attributes = self.state.attributes(&entry);
        if any_of.iter().any(|wish| self.who.may(*wish, attributes)) {
            return Ok(());
        }
        let wish = any_of.first().map(ToString::to_string).unwrap_or_default();
        let id = file.short();
        let line = format!("file {id}: {} may not {wish} it ({attributes})", self.who);
        Err(Failure::refused(ErrorCode::PermissionDenied, line))
    }

    /// Whether an entry is the caller's.
    pub(crate) fn owns(&self, entry: &EntryRecord) -> bool {
        self.may_all() || self.state.attributes(entry).owner == self.who.uid
    }

    /// Owns an entry.
    pub(crate) fn check_owner(&self, id: EntryId, path: &CellPath) -> Result<(), Failure> {
        match self.state.entry(id).filter(|entry| !self.owns(entry)) {
            None => Ok(()),
            Some(entry) => {
                let attributes = self.state.attributes(&entry);
                Err(self.denied(&format!("do what only its owner may ({attributes})"), path))
            }
        }
    }

    /// May make names in a directory (PE2).
    pub(crate) fn check_make(&self, directory: EntryId, path: &CellPath) -> Result<(), Failure> {
        // That a file holds no names is said by who looks for them.
        match self.state.entry(directory) {
            Some(entry) if entry.kind == EntryKind::Directory => {
                self.check_entry((directory, &entry), Access::WRITE.and(Access::SEARCH), path)?;
                self.state.known_ways().remember_maker(directory, self.who);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// May take an entry's name away (PE2, PE3).
    pub(crate) fn check_take(
        &self,
        directory: EntryId,
        id: EntryId,
        path: &CellPath,
    ) -> Result<(), Failure> {
        if self.may_all() {
            return Ok(());
        }
        let entry = self.state.entry(id);
        let is_own = entry.is_some_and(|entry| self.owns(&entry));
        if directory == HIDDEN_ROOT {
            return match self.state.deleted().get(id) {
                _ if is_own => Ok(()),
                Some(was) if was.parent != HIDDEN_ROOT && self.state.has(was.parent) => {
                    self.check_search(was.parent, path)?;
                    self.check_take(was.parent, id, path)
                }
                _ => Err(self.denied("bring back or purge what another deleted", path)),
            };
        }
        self.check_make(directory, path)?;
        let Some(holder) = self.state.entry(directory) else { return Ok(()) };
        let attributes = self.state.attributes(&holder);
        let is_sticky = attributes.mode & STICKY != 0 && !planted::broken(Rule::PE2);
        if !is_sticky || is_own || self.owns(&holder) {
            return Ok(());
        }
        let place = self.state.path_of(directory).unwrap_or_default();
        let what = format!("take away names of others in {place}, which is sticky ({attributes})");
        Err(self.denied(&what, path))
    }

    fn denied(&self, what: &str, path: &CellPath) -> Failure {
        let line = format!("{path}: {} may not {what}", self.who);
        Failure::refused(ErrorCode::PermissionDenied, line)
    }
}
