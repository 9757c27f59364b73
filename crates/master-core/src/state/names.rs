//! The tree of names: directories by id and name, entries by id (design §4).
//!
//! ```text
//!   ROOT ──"a"──► 3-1 ──"b"──► 3-2 (file)          HIDDEN_ROOT ──".deleted-…"──► 3-9 (file)
//! ```
//! Keyed by the parent's id and not by full path, so that a rename touches one name. A lookup
//! builds no text.
//!
//! - N1: every entry but the two roots stands in its parent's directory under its own name.
//! - N2: `/.deleted` is the hidden root's path; no other entry has that name in the root.

use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{CellPath, Content, Entry, EntryId, EntryKind, WallTime};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// `/`. No reign has term 0, so the id is taken by nothing else.
pub const ROOT: EntryId = EntryId::new(1);
/// The directory of hidden (deleted) names.
pub const HIDDEN_ROOT: EntryId = EntryId::new(2);
/// The hidden root's name in the root.
pub const HIDDEN_NAME: &str = ".deleted";

/// More steps up than any entry has: a way that is longer is a broken tree.
const DEPTH_MAX: usize = 100_000;

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    /// The directory it stands in; the roots stand in themselves.
    pub parent: EntryId,
    /// Its name there.
    pub name: Arc<str>,
    /// File or directory.
    pub kind: EntryKind,
    /// What a file holds.
    pub content: Content,
    /// Replicas that a file's new chunks get.
    pub replication: u32,
    /// Recorded bytes of a file.
    pub length: u64,
    /// One more than the index of a file's last chunk.
    pub chunk_count: u64,
    /// Log time of the last change of the entry itself.
    pub modified: WallTime,
    /// The file's durability policy (design §5).
    pub synced: bool,
}

impl EntryRecord {
    /// The entry as clients see it.
    #[must_use]
    pub fn describe(&self, id: EntryId) -> Entry {
        Entry {
            id,
            kind: self.kind,
            content: self.content,
            name: self.name.to_string(),
            length: self.length,
            chunk_count: self.chunk_count,
            replication: self.replication,
            modified: self.modified,
            synced: self.synced,
        }
    }

    pub(super) fn directory(parent: EntryId, name: &str, modified: WallTime) -> Self {
        Self {
            parent,
            name: name.into(),
            kind: EntryKind::Directory,
            content: Content::default(),
            replication: 0,
            length: 0,
            chunk_count: 0,
            modified,
            synced: false,
        }
    }
}

/// The tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Names {
    entries: BTreeMap<EntryId, EntryRecord>,
    /// Names of each directory that has any.
    directories: BTreeMap<EntryId, BTreeMap<Arc<str>, EntryId>>,
    file_count: u64,
}

impl Default for Names {
    fn default() -> Self {
        let root = |id, name| (id, EntryRecord::directory(id, name, WallTime::default()));
        Self {
            entries: BTreeMap::from([root(ROOT, ""), root(HIDDEN_ROOT, HIDDEN_NAME)]),
            directories: BTreeMap::new(),
            file_count: 0,
        }
    }
}

impl Names {
    pub(super) fn entry(&self, id: EntryId) -> Option<&EntryRecord> {
        self.entries.get(&id)
    }

    pub(super) fn entry_mut(&mut self, id: EntryId) -> Option<&mut EntryRecord> {
        self.entries.get_mut(&id)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (EntryId, &EntryRecord)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    pub(super) fn child(&self, directory: EntryId, name: &str) -> Option<EntryId> {
        if directory == ROOT && name == HIDDEN_NAME {
            return Some(HIDDEN_ROOT);
        }
        self.directories.get(&directory)?.get(name).copied()
    }

    pub(super) fn has_children(&self, directory: EntryId) -> bool {
        self.directories.contains_key(&directory)
    }

    pub(super) fn children<'a>(
        &'a self,
        directory: EntryId,
        after: &str,
    ) -> impl Iterator<Item = (&'a str, EntryId)> + use<'a> {
        let names = self.directories.get(&directory);
        names
            .map(|names| names.range::<str, _>((Bound::Excluded(after), Bound::Unbounded)))
            .into_iter()
            .flatten()
            .map(|(name, id)| (&**name, *id))
    }

    /// Bytes of the longest way down from an entry, with the slash before each name.
    pub(super) fn longest_below(&self, id: EntryId) -> usize {
        let mut longest = 0;
        let mut left = vec![(id, 0)];
        while let Some((directory, above)) = left.pop() {
            for (name, child) in self.directories.get(&directory).into_iter().flatten() {
                let size = above + 1 + name.len();
                longest = longest.max(size);
                if self.directories.contains_key(child) {
                    left.push((*child, size));
                }
            }
        }
        longest
    }

    pub(super) fn resolve(&self, path: &CellPath) -> Result<EntryId, Failure> {
        let mut at = ROOT;
        for name in path.names() {
            at = match self.child(at, name) {
                Some(child) => child,
                None => return Err(self.missing(at, path)),
            };
        }
        Ok(at)
    }

    /// Why the way along `path` ends at `at`.
    fn missing(&self, at: EntryId, path: &CellPath) -> Failure {
        match self.entry(at) {
            Some(entry) if entry.kind == EntryKind::File => {
                let file = self.path_of(at).unwrap_or_default();
                let line = format!("{path}: {file} is a file and holds no names");
                Failure::refused(ErrorCode::NotADirectory, line)
            }
            _ => {
                Failure::refused(ErrorCode::NotFound, format!("{path}: no such file or directory"))
            }
        }
    }

    /// The way up from an entry, itself first, a root last; shorter where the tree is broken.
    pub(super) fn way_up(&self, id: EntryId) -> impl Iterator<Item = (EntryId, &EntryRecord)> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let id = next?;
            let entry = self.entry(id)?;
            next = (entry.parent != id).then_some(entry.parent);
            Some((id, entry))
        })
        .take(DEPTH_MAX)
    }

    pub(super) fn path_of(&self, id: EntryId) -> Option<String> {
        self.entry(id)?;
        let way: Vec<&str> =
            self.way_up(id).filter(|(id, _)| *id != ROOT).map(|(_, entry)| &*entry.name).collect();
        if way.is_empty() {
            return Some("/".to_owned());
        }
        Some(way.iter().rev().flat_map(|name| ["/", name]).collect())
    }

    pub(super) fn is_hidden(&self, id: EntryId) -> bool {
        self.way_up(id).last().is_none_or(|(top, _)| top != ROOT)
    }

    pub(super) fn is_within(&self, id: EntryId, directory: EntryId) -> bool {
        self.way_up(id).any(|(above, _)| above == directory)
    }

    /// Whether every entry is reached from one of the roots, down directories (N1).
    pub(super) fn is_whole(&self) -> bool {
        let mut reached = 2;
        let mut ahead = vec![ROOT, HIDDEN_ROOT];
        while let Some(directory) = ahead.pop() {
            for (_, child) in self.children(directory, "") {
                reached += 1;
                if self.entry(child).is_some_and(|entry| entry.kind == EntryKind::Directory) {
                    ahead.push(child);
                }
            }
        }
        reached == self.entries.len()
    }

    pub(super) fn file_count(&self) -> u64 {
        self.file_count
    }

    pub(super) fn directory_count(&self) -> u64 {
        // The hidden root is nobody's directory.
        self.entries.len() as u64 - self.file_count - 1
    }

    pub(super) fn hidden_count(&self) -> u64 {
        self.directories.get(&HIDDEN_ROOT).map_or(0, |names| names.len() as u64)
    }

    /// Enters an entry under a fresh id and a free name (N1).
    pub(super) fn insert(&mut self, id: EntryId, entry: EntryRecord) {
        if entry.kind == EntryKind::File {
            self.file_count += 1;
        }
        if id != entry.parent {
            let names = self.directories.entry(entry.parent).or_default();
            names.insert(Arc::clone(&entry.name), id);
        }
        self.entries.insert(id, entry);
    }

    /// Gives an entry another parent and name, which is free (N1).
    pub(super) fn rename(&mut self, id: EntryId, parent: EntryId, name: &str) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if let Some(names) = self.directories.get_mut(&entry.parent) {
            names.remove(&entry.name);
            if names.is_empty() {
                self.directories.remove(&entry.parent);
            }
        }
        let name: Arc<str> = name.into();
        entry.parent = parent;
        entry.name = Arc::clone(&name);
        self.directories.entry(parent).or_default().insert(name, id);
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryRecord, HIDDEN_ROOT, Names, ROOT};
    use cairn_protocol::ErrorCode;
    use cairn_types::{CellPath, EntryId, EntryKind, WallTime};

    const A: EntryId = EntryId::new(10);
    const B: EntryId = EntryId::new(11);

    fn path(text: &str) -> CellPath {
        CellPath::parse(text).expect("a path")
    }

    /// `/a` a directory, `/a/b` a file.
    fn names() -> Names {
        let mut names = Names::default();
        let directory = EntryRecord::directory(ROOT, "a", WallTime::default());
        names.insert(A, directory.clone());
        let file = EntryRecord { kind: EntryKind::File, parent: A, name: "b".into(), ..directory };
        names.insert(B, file);
        names
    }

    #[test]
    fn a_path_resolves_and_comes_back_as_text() {
        let names = names();
        assert_eq!(names.resolve(&path("/a/b")), Ok(B));
        assert_eq!(names.path_of(B).as_deref(), Some("/a/b"));
        assert_eq!(names.path_of(ROOT).as_deref(), Some("/"));
        assert_eq!((names.file_count(), names.directory_count()), (1, 2));
    }

    #[test]
    fn a_missing_name_and_a_file_in_the_way_are_told_apart() {
        let code = |text| names().resolve(&path(text)).map_err(|failure| failure.code);
        assert_eq!(code("/a/c"), Err(ErrorCode::NotFound));
        assert_eq!(code("/a/b/c"), Err(ErrorCode::NotADirectory));
    }

    #[test]
    fn a_directory_moved_below_the_hidden_root_hides_all_below_it() {
        let mut names = names();
        assert!(!names.is_hidden(B));
        names.rename(A, HIDDEN_ROOT, "x");
        assert!(names.is_hidden(B));
        assert_eq!(names.path_of(B).as_deref(), Some("/.deleted/x/b"));
        assert_eq!(names.resolve(&path("/.deleted/x/b")), Ok(B));
        assert!(names.resolve(&path("/a")).is_err());
        assert!(names.is_hidden(EntryId::new(99)), "what is not there is hidden too");
    }
}
