//! The tree of names: directories by id and name, entries by id (design §4).
//!
//! ```text
//!   ROOT ──"a"──► 3-1 ──"b"──► 3-2 (file)          HIDDEN_ROOT ──".deleted-…"──► 3-9 (file)
//!
//!   names    (directory id, name) → entry id, file or directory
//!   entries  entry id → record; of a directory, its name too
//! ```
//! Keyed by the parent's id and not by full path, so that a rename touches one name. A lookup
//! builds no text.
//!
//! - NA1: every entry but the two roots stands in its parent's directory under its own name.
//! - NA2: `/.deleted` is the hidden root's path; no other entry has that name in the root.
//! - NA3: the counts are of what is there; they are kept beside the trees, so that nobody counts.

use super::accounts::{Accounts, Ways};
use super::attribute_table::AttributeTable;
use super::entry_record::EntryRecord;
use super::hidden::{HIDDEN_NAME, HiddenRecord, HiddenTable};
use super::map::{DamageMark, Map, MapFinger, Walk};
use super::name_failures::{missing, not_found};
use super::open_ways::{KnownWays, OpenWays};
use super::packing::{Packed, put_near};
use super::path_cache::PathCache;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{self, Rule};
use cairn_types::{Attributes, CellPath, Entry, EntryId, EntryKind, NAME_SIZE_MAX, WallTime};

/// `/`. No term has term 0, so the id is taken by nothing else.
pub const ROOT: EntryId = EntryId::new(1);
/// The directory of hidden (deleted) names.
pub const HIDDEN_ROOT: EntryId = EntryId::new(2);

/// More steps up than any entry has: a way that is longer is a broken tree.
const DEPTH_MAX: usize = 100_000;
/// Bytes of an id in a key.
const ID_SIZE: usize = 8;
/// Behind the id of a directory in the tree of names.
const IS_DIRECTORY: u8 = 1;

/// The tree.
#[derive(Clone, Debug)]
pub(super) struct NameTree {
    names: Map,
    entries: Map,
    hidden: HiddenTable,
    attributes: AttributeTable,
    paths: PathCache,
    open_ways: OpenWays,
    file_count: u64,
    accounts: Accounts,
}

impl PartialEq for NameTree {
    fn eq(&self, other: &Self) -> bool {
        (&self.names, &self.entries, &self.hidden, &self.attributes, self.file_count)
            == (&other.names, &other.entries, &other.hidden, &other.attributes, other.file_count)
            && self.accounts.same(self.ways(), (&other.accounts, other.ways()))
    }
}

impl NameTree {
    /// The two roots.
    pub(super) fn new(mark: &DamageMark) -> Self {
        let mut entries = Map::new(mark);
        for (id, name) in [(ROOT, ""), (HIDDEN_ROOT, HIDDEN_NAME)] {
            let root = EntryRecord::directory(id, WallTime::default());
            entries.set(&entry_key(id), &root.pack(id, name));
        }
        let tables = (HiddenTable::new(mark), AttributeTable::new(mark));
        Self::of([Map::new(mark), entries], tables, 0, Accounts::new(mark))
    }

    /// From what an image has.
    pub(super) fn of(
        [names, entries]: [Map; 2],
        (hidden, attributes): (HiddenTable, AttributeTable),
        file_count: u64,
        accounts: Accounts,
    ) -> Self {
        let (paths, open_ways) = (PathCache::default(), OpenWays::default());
        Self { names, entries, hidden, attributes, paths, open_ways, file_count, accounts }
    }

    /// What directories hold, and may hold.
    pub(super) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The ways along which things count.
    pub(super) fn ways(&self) -> Ways<'_> {
        Ways { entries: &self.entries, hidden: &self.hidden }
    }

    /// The same to be changed, and the ways.
    pub(super) fn accounts_mut(&mut self) -> (&mut Accounts, Ways<'_>) {
        let ways = Ways { entries: &self.entries, hidden: &self.hidden };
        (&mut self.accounts, ways)
    }

    pub(super) fn attribute_table(&self) -> &AttributeTable {
        &self.attributes
    }

    pub(super) fn attribute_table_mut(&mut self) -> &mut AttributeTable {
        &mut self.attributes
    }

    /// Whose an entry is, and who may do what with it.
    pub(super) fn attributes(&self, entry: &EntryRecord) -> Attributes {
        let own = self.attributes.get(entry.attributes);
        own.unwrap_or_else(|| Attributes::usual(entry.kind))
    }

    /// An entry as clients see it.
    pub(super) fn describe(&self, (id, entry): (EntryId, &EntryRecord), name: String) -> Entry {
        entry.describe(id, name, self.attributes.get(entry.attributes))
    }

    /// What is remembered of who may go where.
    pub(super) fn known_ways(&self) -> KnownWays<'_> {
        self.open_ways.at(self.moves())
    }

    /// A directory has other attributes: nobody remembers who may go through it.
    pub(super) fn forget_open_ways(&mut self) {
        if planted::broken(Rule::PE1) {
            return;
        }
        self.paths.forget();
    }

    pub(super) fn maps(&self) -> impl Iterator<Item = &Map> {
        [&self.names, &self.entries].into_iter().chain(self.hidden.maps())
    }

    /// The same to be changed, those of what directories hold, and that of attributes.
    pub(super) fn maps_mut(&mut self) -> (impl Iterator<Item = &mut Map>, [&mut Map; 3], &mut Map) {
        let names = [&mut self.names, &mut self.entries].into_iter();
        let names = names.chain(self.hidden.maps_mut());
        (names, self.accounts.maps_mut(), self.attributes.map_mut())
    }

    /// What is deleted.
    pub(super) fn hidden(&self) -> &HiddenTable {
        &self.hidden
    }

    pub(super) fn entry(&self, id: EntryId) -> Option<EntryRecord> {
        self.stored(id).map(|(record, _)| record)
    }

    /// An entry, and a directory's name.
    fn stored(&self, id: EntryId) -> Option<(EntryRecord, &str)> {
        self.entries.get(&entry_key(id), |packed| EntryRecord::unpack(id, packed))
    }

    pub(super) fn has_entry(&self, id: EntryId) -> bool {
        self.entries.contains(&entry_key(id))
    }

    /// Changes an entry, but not where it stands.
    pub(super) fn set(&mut self, id: EntryId, record: &EntryRecord) {
        let stored = self.stored(id);
        let name = stored.map_or_else(String::new, |(_, name)| name.to_owned());
        let sized = |it: &EntryRecord| (it.length, it.replication);
        if let Some((former, _)) = stored.filter(|(former, _)| sized(former) != sized(record)) {
            let (accounts, ways) = self.accounts_mut();
            accounts.changed(ways, id, (&former, record));
        }
        self.entries.set(&entry_key(id), &record.pack(id, &name));
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = (EntryId, EntryRecord)> + use<'_> {
        entries_of(&self.entries)
    }

    pub(super) fn child(&self, directory: EntryId, name: &str) -> Option<EntryId> {
        self.step(directory, name, &mut Vec::new()).map(|(id, _)| id)
    }

    /// One step down; `key` is room for the key.
    fn step(
        &self,
        directory: EntryId,
        name: &str,
        key: &mut Vec<u8>,
    ) -> Option<(EntryId, EntryKind)> {
        if directory == ROOT && name == HIDDEN_NAME {
            return Some((HIDDEN_ROOT, EntryKind::Directory));
        }
        name_key(directory, name, key);
        self.names.get(key, |packed| unpack_child(directory, packed))
    }

    pub(super) fn has_children(&self, directory: EntryId) -> bool {
        self.children(directory, "").next().is_some()
    }

    pub(super) fn children(&self, directory: EntryId, after: &str) -> Children<'_> {
        let mut from = Vec::with_capacity(ID_SIZE + after.len() + 1);
        name_key(directory, after, &mut from);
        // The lowest name above `after`; no name is empty.
        from.push(0);
        Children { directory, walk: self.names.walk(&from) }
    }

    /// The entries of a directory as clients see them, those called `after` and before left out.
    pub(super) fn list(
        &self,
        directory: EntryId,
        after: &str,
    ) -> impl Iterator<Item = Entry> + use<'_> {
        let mut entries = Described { names: self, finger: self.entries.finger() };
        self.children(directory, after).filter_map(move |(name, id, _)| entries.get(id, name))
    }

    pub(super) fn resolve(&self, path: &CellPath) -> Result<(EntryId, EntryKind), Failure> {
        let Some(parent) = self.paths.directory_of(path) else { return self.walk_down(path) };
        let name = path.name().unwrap_or_default();
        let child = self.step(parent, name, &mut Vec::with_capacity(ID_SIZE + NAME_SIZE_MAX));
        child.ok_or_else(|| not_found(path))
    }

    /// The directory of a path's last name, the root too; none where no directory is there, and of
    /// `/`, which has no name.
    pub(super) fn directory_of(&self, path: &CellPath) -> Option<EntryId> {
        path.name()?;
        self.paths.directory_of(path).or_else(|| {
            let (at, kind) = self.walk_to_last(path).ok()?;
            (kind == EntryKind::Directory).then_some(at)
        })
    }

    /// The same of paths looked up together.
    pub(super) fn resolve_each<'a>(
        &self,
        paths: impl Iterator<Item = &'a CellPath>,
    ) -> Vec<Result<EntryId, Failure>> {
        let (mut keys, mut ends, mut parents, mut found) = (vec![], vec![], vec![], vec![]);
        for path in paths {
            // Not in the root, where not all that is found stands in the tree (NA2).
            let parent = self.paths.directory_of(path).filter(|parent| *parent != ROOT);
            found.push(if let (Some(parent), Some(name)) = (parent, path.name()) {
                keys.extend_from_slice(&entry_key(parent));
                keys.extend_from_slice(name.as_bytes());
                ends.push(keys.len());
                parents.push((parent, path, found.len()));
                Ok(EntryId::default())
            } else {
                self.resolve(path).map(|(id, _)| id)
            });
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let keys: Vec<&[u8]> = starts.zip(&ends).map(|(start, end)| &keys[start..*end]).collect();
        let unpack = |index: usize, packed| unpack_child(parents[index].0, packed);
        let children = self.names.get_each(&keys, unpack);
        for ((_, path, index), child) in std::iter::zip(&parents, children) {
            let child = child.ok_or_else(|| not_found(path));
            found[*index] = child.map(|(id, _)| id);
        }
        found
    }

    /// Entries looked up together.
    pub(super) fn entry_each(&self, ids: &[EntryId]) -> Vec<Option<EntryRecord>> {
        let keys: Vec<[u8; ID_SIZE]> = ids.iter().map(|id| entry_key(*id)).collect();
        let unpack = |index: usize, packed| EntryRecord::unpack(ids[index], packed);
        let entries = self.entries.get_each(&keys, unpack);
        entries.map(|entry| entry.map(|(record, _)| record)).collect()
    }

    /// Resolves a path from the root down.
    fn walk_down(&self, path: &CellPath) -> Result<(EntryId, EntryKind), Failure> {
        let parent = self.walk_to_last(path)?;
        let Some(name) = path.name() else { return Ok(parent) };
        let child = self.step(parent.0, name, &mut Vec::with_capacity(ID_SIZE + NAME_SIZE_MAX));
        let walked = path.as_str().len() - 1 - name.len();
        child.ok_or_else(|| missing(parent.1, walked, path))
    }

    /// What a path's last name is looked for in, from the root down: where it is a directory, it is
    /// remembered (PC1). Nobody needs to remember where the root is.
    fn walk_to_last(&self, path: &CellPath) -> Result<(EntryId, EntryKind), Failure> {
        let mut key = Vec::with_capacity(ID_SIZE + NAME_SIZE_MAX);
        let mut at = (ROOT, EntryKind::Directory);
        let (above, _) = path.as_str().rsplit_once('/').unwrap_or_default();
        let mut walked = 0;
        for name in above.split('/').skip(1) {
            let child = self.step(at.0, name, &mut key);
            at = child.ok_or_else(|| missing(at.1, walked, path))?;
            walked += 1 + name.len();
        }
        if at.0 != ROOT && at.1 == EntryKind::Directory {
            self.paths.remember(above, at.0);
        }
        Ok(at)
    }

    /// The way up from an entry, itself first, a root last; shorter where the tree is broken.
    pub(super) fn way_up(
        &self,
        id: EntryId,
    ) -> impl Iterator<Item = (EntryId, EntryRecord, &str)> + use<'_> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let id = next?;
            let (record, name) = self.stored(id)?;
            next = (record.parent != id).then_some(record.parent);
            Some((id, record, name))
        })
        .take(DEPTH_MAX)
    }

    /// An entry's name. A file's is searched in its directory.
    pub(super) fn name_of(&self, id: EntryId) -> Option<String> {
        match self.stored(id)? {
            (EntryRecord { kind: EntryKind::Directory, .. }, name) => Some(name.to_owned()),
            (record, _) => {
                let mut names = self.children(record.parent, "");
                names.find(|(_, child, _)| *child == id).map(|(name, ..)| name)
            }
        }
    }

    /// An entry's path. A file's name is searched in its directory: only where nothing hurries, and
    /// nobody asks for many.
    pub(super) fn path_of(&self, id: EntryId) -> Option<String> {
        let name = self.name_of(id)?;
        let above = self.way_up(id).skip(1).map(|(id, _, name)| (id, name));
        let way: Vec<&str> = std::iter::once((id, name.as_str()))
            .chain(above)
            .filter(|(id, _)| *id != ROOT)
            .map(|(_, name)| name)
            .collect();
        if way.is_empty() {
            return Some("/".to_owned());
        }
        Some(way.iter().rev().flat_map(|name| ["/", name]).collect())
    }

    pub(super) fn is_live_directory(&self, id: EntryId) -> bool {
        let is_directory = || self.entry(id).is_some_and(|it| it.kind == EntryKind::Directory);
        match self.paths.is_hidden(id) {
            Some(is_hidden) => !is_hidden,
            None => is_directory() && !self.is_hidden(id),
        }
    }

    pub(super) fn is_hidden(&self, id: EntryId) -> bool {
        if let Some(is_hidden) = self.paths.is_hidden(id) {
            return is_hidden;
        }
        let (mut directory, mut top) = (None, None);
        for (at, record, _) in self.way_up(id) {
            if record.kind == EntryKind::Directory {
                directory.get_or_insert(at);
            } else if let Some(is_hidden) = self.paths.is_hidden(record.parent) {
                return is_hidden;
            }
            top = Some(at);
        }
        // Else the way up is broken, and nothing is known.
        if let (Some(directory), Some(ROOT | HIDDEN_ROOT)) = (directory, top) {
            self.paths.remember_hidden(directory, top == Some(HIDDEN_ROOT));
        }
        top != Some(ROOT)
    }

    /// How often a directory has left its place.
    pub(super) fn moves(&self) -> u64 {
        self.paths.generation()
    }

    pub(super) fn file_count(&self) -> u64 {
        self.file_count
    }

    pub(super) fn directory_count(&self) -> u64 {
        // The hidden root is nobody's directory.
        self.entries.len().saturating_sub(self.file_count + 1)
    }

    pub(super) fn hidden_count(&self) -> u64 {
        self.hidden.count()
    }

    /// Enters an entry under a fresh id and a free name (NA1).
    pub(super) fn insert(&mut self, id: EntryId, name: &str, record: &EntryRecord) {
        assert!(id != ROOT && id != HIDDEN_ROOT, "the two roots are there from the start");
        self.file_count += u64::from(record.kind == EntryKind::File);
        self.entries.set(&entry_key(id), &record.pack(id, name));
        enter(&mut self.names, id, name, record);
        let (accounts, ways) = self.accounts_mut();
        accounts.made(ways, record);
    }

    /// The same of several, by ascending ids. None is in the hidden root.
    pub(super) fn insert_all(&mut self, made: &[(EntryId, &str, EntryRecord)]) {
        let of_roots = |(id, ..): &(EntryId, &str, EntryRecord)| *id == ROOT || *id == HIDDEN_ROOT;
        assert!(!made.iter().any(of_roots), "the two roots are there from the start");
        let (mut entries, mut children) = (Vec::new(), Vec::new());
        for (id, name, record) in made {
            self.file_count += u64::from(record.kind == EntryKind::File);
            entries.push((entry_key(*id), record.pack(*id, name)));
            children.push(child_of(*id, name, record));
        }
        // Mostly they are in order already.
        children.sort();
        self.entries.set_sorted(&entries);
        self.names.set_sorted(&children);
        let (accounts, ways) = self.accounts_mut();
        made.iter().for_each(|(.., record)| accounts.made(ways, record));
    }

    /// Gives an entry, which is and is called so, another parent and name, which is free (NA1).
    pub(super) fn rename(
        &mut self,
        (id, record): (EntryId, &EntryRecord),
        name: &str,
        to: (EntryId, &str),
    ) {
        assert_ne!((record.parent, name), to, "what stays is not moved (NA1)");
        // PC1: what lies below it goes with it.
        if record.kind == EntryKind::Directory {
            self.paths.forget();
        }
        let (accounts, ways) = self.accounts_mut();
        accounts.moved(ways, id, record, to.0);
        let mut key = Vec::new();
        name_key(record.parent, name, &mut key);
        self.names.remove(&key);
        if record.parent == HIDDEN_ROOT {
            self.hidden.remove(id);
        }
        let record = EntryRecord { parent: to.0, ..*record };
        self.entries.set(&entry_key(id), &record.pack(id, to.1));
        enter(&mut self.names, id, to.1, &record);
    }

    /// Gives a live entry its hidden name, and notes where it was; tells the name.
    pub(super) fn hide(&mut self, entry: (EntryId, &EntryRecord), record: &HiddenRecord) -> String {
        let hidden = record.hidden_name(entry.0);
        self.rename(entry, &record.name, (HIDDEN_ROOT, &hidden));
        self.hidden.set(entry.0, record);
        hidden
    }

    /// What is hidden is kept otherwise than before.
    pub(super) fn keep_hidden(&mut self, id: EntryId, record: &HiddenRecord) {
        assert!(self.entry(id).is_none_or(|it| it.parent == HIDDEN_ROOT), "it is hidden");
        self.hidden.set(id, record);
    }

    /// Takes out an entry that is called so, and has nothing in it.
    pub(super) fn take_out(&mut self, (id, record): (EntryId, &EntryRecord), name: &str) {
        let (accounts, ways) = self.accounts_mut();
        accounts.gone(ways, id, record);
        let mut key = Vec::new();
        name_key(record.parent, name, &mut key);
        self.names.remove(&key);
        self.entries.remove(&entry_key(id));
        self.file_count = self.file_count.saturating_sub(u64::from(record.kind == EntryKind::File));
        if record.parent == HIDDEN_ROOT {
            self.hidden.remove(id);
        }
    }
}

/// Entries, looked up one after the other.
struct Described<'a> {
    names: &'a NameTree,
    finger: MapFinger<'a>,
}

impl Described<'_> {
    fn get(&mut self, id: EntryId, name: String) -> Option<Entry> {
        let stored = self.finger.get(&entry_key(id), |packed| EntryRecord::unpack(id, packed));
        stored.map(|(record, _)| self.names.describe((id, &record), name))
    }
}

/// Names of a directory, in order.
#[derive(Debug)]
pub struct Children<'a> {
    directory: EntryId,
    walk: Walk<'a>,
}

impl Children<'_> {
    /// Leaves out so many names; the last of them, where there are that many and any is to be left
    /// out.
    pub fn skip_names(&mut self, count: usize) -> Option<String> {
        let directory = entry_key(self.directory);
        for _ in 0..count.checked_sub(1)? {
            // The key of a name begins with its directory's.
            self.walk.next().filter(|(key, _)| key.starts_with(&directory))?;
        }
        self.next().map(|(name, ..)| name)
    }
}

impl Iterator for Children<'_> {
    type Item = (String, EntryId, EntryKind);

    fn next(&mut self) -> Option<Self::Item> {
        let directory = self.directory;
        self.walk.unpack(|key, packed| {
            let mut key = Packed(key);
            if key.key()? != directory.get() {
                return Some(None);
            }
            let name = key.text()?.to_owned();
            let (id, kind) = unpack_child(directory, packed)?;
            Some(Some((name, id, kind)))
        })
    }
}

pub(super) fn entries_of(entries: &Map) -> impl Iterator<Item = (EntryId, EntryRecord)> + use<'_> {
    let mut walk = entries.walk(&[]);
    std::iter::from_fn(move || {
        walk.unpack(|key, packed| {
            let mut key = Packed(key);
            let id = EntryId::new(key.key()?);
            let (record, _) = EntryRecord::unpack(id, packed)?;
            key.end(Some((id, record)))
        })
    })
}

fn entry_key(id: EntryId) -> [u8; ID_SIZE] {
    id.get().to_be_bytes()
}

fn name_key(directory: EntryId, name: &str, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(&directory.get().to_be_bytes());
    key.extend_from_slice(name.as_bytes());
}

/// A name is there. Not found by its entry: a file's name is searched in its directory, and each
/// member of the group says this in its turn.
pub(super) fn taken(names: &NameTree, parent: EntryId, name: &str) -> Failure {
    let path = path_in(names, parent, name);
    Failure::refused(ErrorCode::AlreadyExists, format!("{path}: exists already"))
}

/// The path of a name in a directory.
pub(super) fn path_in(names: &NameTree, directory: EntryId, name: &str) -> String {
    let above = names.path_of(directory).filter(|_| directory != ROOT);
    format!("{}/{name}", above.unwrap_or_default())
}

/// Whether no entry has an id from the first to the last of these.
pub(super) fn are_fresh(names: &NameTree, first: EntryId, last: EntryId) -> bool {
    names.entries.is_free(&entry_key(first), &entry_key(last))
}

/// Whether a directory has no name from the first to the last of these.
pub(super) fn are_free(names: &NameTree, directory: EntryId, (first, last): (&str, &str)) -> bool {
    let [mut from, mut to] = [Vec::new(), Vec::new()];
    name_key(directory, first, &mut from);
    name_key(directory, last, &mut to);
    names.names.is_free(&from, &to)
}

/// Enters a name into its directory.
fn enter(names: &mut Map, id: EntryId, name: &str, record: &EntryRecord) {
    let (key, child) = child_of(id, name, record);
    names.set(&key, &child);
}

/// What the tree of names has of an entry.
fn child_of(id: EntryId, name: &str, record: &EntryRecord) -> (Vec<u8>, Vec<u8>) {
    let (mut key, mut child) = (Vec::with_capacity(ID_SIZE + name.len()), Vec::new());
    name_key(record.parent, name, &mut key);
    put_near(&mut child, id.get(), record.parent.get());
    if record.kind == EntryKind::Directory {
        child.push(IS_DIRECTORY);
    }
    (key, child)
}

fn unpack_child(directory: EntryId, packed: &[u8]) -> Option<(EntryId, EntryKind)> {
    let mut packed = Packed(packed);
    let id = EntryId::new(packed.near(directory.get())?);
    match packed.0 {
        [] => Some((id, EntryKind::File)),
        [IS_DIRECTORY] => Some((id, EntryKind::Directory)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{DamageMark, EntryRecord, HiddenRecord, NameTree, ROOT};
    use cairn_protocol::ErrorCode;
    use cairn_types::{CellPath, EntryId, EntryKind, WallTime};
    use std::time::Duration;

    const A: EntryId = EntryId::new(10);
    const B: EntryId = EntryId::new(11);

    fn path(text: &str) -> CellPath {
        CellPath::parse(text).expect("a path")
    }

    /// `/a` a directory, `/a/b` a file.
    fn names() -> NameTree {
        let mut names = NameTree::new(&DamageMark::default());
        let directory = EntryRecord::directory(ROOT, WallTime::default());
        names.insert(A, "a", &directory);
        let file = EntryRecord { kind: EntryKind::File, parent: A, ..directory };
        names.insert(B, "b", &file);
        names
    }

    #[test]
    fn a_path_resolves_and_comes_back_as_text() {
        let names = names();
        assert_eq!(names.resolve(&path("/a/b")), Ok((B, EntryKind::File)));
        assert_eq!(names.path_of(B).as_deref(), Some("/a/b"));
        assert_eq!(names.path_of(ROOT).as_deref(), Some("/"));
        assert_eq!((names.file_count(), names.directory_count()), (1, 2));
        assert_eq!(names.list(A, "").map(|entry| entry.name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(names.list(A, "b").count(), 0);
    }

    #[test]
    fn a_missing_name_and_a_file_in_the_way_are_told_apart() {
        let code = |text| names().resolve(&path(text)).map_err(|failure| failure.code);
        assert_eq!(code("/a/c"), Err(ErrorCode::NotFound));
        assert_eq!(code("/a/b/c"), Err(ErrorCode::NotADirectory));
    }

    #[test]
    fn a_way_that_was_gone_leads_nowhere_once_a_directory_on_it_has_moved() {
        let mut names = names();
        let [c, d] = [EntryId::new(12), EntryId::new(13)];
        let directory = EntryRecord::directory(A, WallTime::default());
        names.insert(c, "c", &directory);
        let file = EntryRecord { kind: EntryKind::File, parent: c, ..directory };
        names.insert(d, "d", &file);
        assert_eq!(names.resolve(&path("/a/c/d")), Ok((d, EntryKind::File)));
        let entry = names.entry(A).expect("there");
        names.rename((A, &entry), "a", (ROOT, "x"));
        assert!(names.resolve(&path("/a/c/d")).is_err());
        assert_eq!(names.resolve(&path("/x/c/d")), Ok((d, EntryKind::File)));
        // Another one in the old place.
        let e = EntryId::new(14);
        names.insert(e, "a", &EntryRecord::directory(ROOT, WallTime::default()));
        assert!(names.resolve(&path("/a/c/d")).is_err());
        // Files come and go beside what is remembered.
        names.rename((d, &file), "d", (c, "f"));
        assert!(names.resolve(&path("/x/c/d")).is_err());
        assert_eq!(names.resolve(&path("/x/c/f")), Ok((d, EntryKind::File)));
    }

    #[test]
    fn a_directory_moved_below_the_hidden_root_hides_all_below_it() {
        let mut names = names();
        assert!(!names.is_hidden(B));
        let entry = names.entry(A).expect("there");
        let (deleted, until) = (WallTime::default(), Duration::ZERO);
        let (parent, name, purging) = (ROOT, "a".to_owned(), false);
        let record = HiddenRecord { parent, name, deleted, until, purging };
        let hidden = names.hide((A, &entry), &record);
        assert_eq!((names.hidden_count(), names.hidden().newest(ROOT, "a")), (1, Some(A)));
        assert!(names.is_hidden(B));
        let below = format!("/.deleted/{hidden}/b");
        assert_eq!(names.path_of(B).as_deref(), Some(below.as_str()));
        assert_eq!(names.resolve(&path(&below)), Ok((B, EntryKind::File)));
        assert!(names.resolve(&path("/a")).is_err());
        assert!(names.is_hidden(EntryId::new(99)), "what is not there is hidden too");
        let entry = names.entry(A).expect("there");
        names.rename((A, &entry), &hidden, (ROOT, "y"));
        assert_eq!((names.hidden_count(), names.is_hidden(B)), (0, false));
    }
}
