//! The names on a simulated disk: as they look, and as they are durable.

use super::inode::InodeNumber;
use cairn_env::IoFailure;
use std::collections::{BTreeMap, BTreeSet};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameTarget {
    /// A directory.
    Directory,
    /// A file.
    File(InodeNumber),
}

type NameMap = BTreeMap<String, NameTarget>;

#[derive(Clone, Debug)]
enum NameChange {
    Add(String, NameTarget),
    Remove(String),
    Rename { from: String, to: String, node: NameTarget },
}

/// All names.
#[derive(Clone, Debug, Default)]
pub(super) struct NameTable {
    cached: NameMap,
    durable: NameMap,
    unsynced: Vec<NameChange>,
}

/// Whether a path is of a name in this very directory; asked of every unsynced change at each
/// sync.
fn lies_in(path: &str, directory: &str) -> bool {
    match path.strip_prefix(directory) {
        Some(name) if directory.is_empty() => !name.contains('/'),
        Some(rest) => rest.strip_prefix('/').is_some_and(|name| !name.contains('/')),
        None => false,
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// What lay in a directory lies in another one.
fn move_within(tree: &mut NameMap, from: &str, to: &str) {
    let within = tree.range(format!("{from}/")..).map(|(path, _)| path);
    let moved: Vec<String> =
        within.take_while(|path| path.starts_with(&format!("{from}/"))).cloned().collect();
    for path in moved {
        let node = tree.remove(&path).expect("it was listed");
        tree.insert(format!("{to}{}", &path[from.len()..]), node);
    }
}

impl NameChange {
    fn apply(&self, tree: &mut NameMap) {
        match self {
            Self::Add(path, node) => {
                tree.insert(path.clone(), *node);
            }
            Self::Remove(path) => {
                tree.remove(path);
            }
            Self::Rename { from, to, node } => {
                tree.remove(from);
                tree.insert(to.clone(), *node);
                if *node == NameTarget::Directory {
                    move_within(tree, from, to);
                }
            }
        }
    }

    fn is_in(&self, directory: &str) -> bool {
        match self {
            Self::Add(path, _) | Self::Remove(path) => lies_in(path, directory),
            Self::Rename { from, to, .. } => lies_in(from, directory) || lies_in(to, directory),
        }
    }
}

impl NameTable {
    pub(super) fn get(&self, path: &str) -> Option<NameTarget> {
        if path.is_empty() { Some(NameTarget::Directory) } else { self.cached.get(path).copied() }
    }

    pub(super) fn check_parent(&self, path: &str) -> Result<(), IoFailure> {
        match self.get(parent(path)) {
            Some(NameTarget::Directory) => Ok(()),
            _ => Err(IoFailure::NotFound),
        }
    }

    /// What is to have another name: a file, or a directory where nothing has that name.
    pub(super) fn to_be_renamed(&self, from: &str, to: &str) -> Result<NameTarget, IoFailure> {
        self.check_parent(to)?;
        match (self.get(from), self.get(to)) {
            (None, _) => Err(IoFailure::NotFound),
            (Some(NameTarget::Directory), Some(_)) => Err(IoFailure::AlreadyExists),
            (Some(node), _) => Ok(node),
        }
    }

    pub(super) fn list(&self, directory: &str) -> Result<Vec<String>, IoFailure> {
        if self.get(directory) != Some(NameTarget::Directory) {
            return Err(IoFailure::NotFound);
        }
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let within = self.cached.range(prefix.clone()..).map(|(path, _)| path);
        let names = within
            .take_while(|path| path.starts_with(&prefix))
            .map(|path| &path[prefix.len()..])
            .filter(|name| !name.contains('/'));
        Ok(names.map(str::to_owned).collect())
    }

    /// The name that leads to a file.
    pub(super) fn path_of(&self, inode: InodeNumber) -> Option<&str> {
        let mut names = self.cached.iter();
        names.find(|(_, node)| **node == NameTarget::File(inode)).map(|(path, _)| path.as_str())
    }

    pub(super) fn files(&self) -> Vec<String> {
        let file = |(path, node): (&String, &NameTarget)| {
            matches!(node, NameTarget::File(_)).then(|| path.clone())
        };
        self.cached.iter().filter_map(file).collect()
    }

    pub(super) fn add(&mut self, path: &str, inode: InodeNumber) {
        self.change(NameChange::Add(path.to_owned(), NameTarget::File(inode)));
    }

    pub(super) fn make_directory(&mut self, path: &str) {
        self.change(NameChange::Add(path.to_owned(), NameTarget::Directory));
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.change(NameChange::Remove(path.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, node: NameTarget) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.change(NameChange::Rename { from, to, node });
    }

    /// A name is gone by nobody's doing, durably.
    pub(super) fn lose(&mut self, path: &str) {
        self.cached.remove(path);
        self.durable.remove(path);
        self.unsynced.retain(|change| match change {
            NameChange::Add(name, _) | NameChange::Remove(name) => name != path,
            NameChange::Rename { to, .. } => to != path,
        });
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.cached);
        self.unsynced.push(change);
    }

    /// Makes the names in a directory durable, or, where the sync fails, forgets that they are
    /// not.
    pub(super) fn sync(&mut self, directory: &str, fails: bool) {
        for change in self.unsynced.extract_if(.., |change| change.is_in(directory)) {
            if !fails {
                change.apply(&mut self.durable);
            }
        }
    }

    /// Whatever names there are now are on the disk.
    pub(super) fn write_back(&mut self) {
        self.unsynced.clear();
        self.durable = self.cached.clone();
    }

    /// Keeps each unsynced change or not, as `kept` says; what lay in a directory that is lost is
    /// lost too.
    pub(super) fn lose_unsynced(&mut self, kept: &mut dyn FnMut() -> bool) {
        for change in std::mem::take(&mut self.unsynced) {
            if kept() {
                change.apply(&mut self.durable);
            }
        }
        self.cached = NameMap::new();
        // A parent sorts before what lies in it.
        for (path, node) in &self.durable {
            if self.check_parent(path).is_ok() {
                self.cached.insert(path.clone(), *node);
            }
        }
        self.durable = self.cached.clone();
    }

    /// The files that some name leads to as things look.
    pub(super) fn named(&self) -> BTreeSet<InodeNumber> {
        inodes(self.cached.values())
    }

    /// The files that some name leads to, or may lead to after a power loss.
    pub(super) fn inodes(&self) -> BTreeSet<InodeNumber> {
        let unsynced = self.unsynced.iter().filter_map(|change| match change {
            NameChange::Add(_, node) | NameChange::Rename { node, .. } => Some(node),
            NameChange::Remove(_) => None,
        });
        inodes(self.cached.values().chain(self.durable.values()).chain(unsynced))
    }
}

fn inodes<'a>(nodes: impl Iterator<Item = &'a NameTarget>) -> BTreeSet<InodeNumber> {
    nodes
        .filter_map(|node| match node {
            NameTarget::File(inode) => Some(*inode),
            NameTarget::Directory => None,
        })
        .collect()
}
