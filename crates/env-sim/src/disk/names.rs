//! The names on a simulated disk: as they look, and as they are durable.

use super::InodeNumber;
use cairn_env::IoFailure;
use std::collections::{BTreeMap, BTreeSet};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A directory.
    Directory,
    /// A file.
    File(InodeNumber),
}

type Tree = BTreeMap<String, Node>;

#[derive(Clone, Debug)]
enum Change {
    Add(String, Node),
    Remove(String),
    Rename { from: String, to: String, node: Node },
}

/// All names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    cached: Tree,
    durable: Tree,
    unsynced: Vec<Change>,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl Change {
    fn apply(&self, tree: &mut Tree) {
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
            }
        }
    }

    fn is_in(&self, directory: &str) -> bool {
        match self {
            Self::Add(path, _) | Self::Remove(path) => parent(path) == directory,
            Self::Rename { from, to, .. } => parent(from) == directory || parent(to) == directory,
        }
    }
}

impl Names {
    pub(super) fn get(&self, path: &str) -> Option<Node> {
        if path.is_empty() { Some(Node::Directory) } else { self.cached.get(path).copied() }
    }

    pub(super) fn check_parent(&self, path: &str) -> Result<(), IoFailure> {
        match self.get(parent(path)) {
            Some(Node::Directory) => Ok(()),
            _ => Err(IoFailure::NotFound),
        }
    }

    pub(super) fn list(&self, directory: &str) -> Result<Vec<String>, IoFailure> {
        if self.get(directory) != Some(Node::Directory) {
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

    pub(super) fn files(&self) -> Vec<String> {
        let file =
            |(path, node): (&String, &Node)| matches!(node, Node::File(_)).then(|| path.clone());
        self.cached.iter().filter_map(file).collect()
    }

    pub(super) fn add(&mut self, path: &str, inode: InodeNumber) {
        self.change(Change::Add(path.to_owned(), Node::File(inode)));
    }

    pub(super) fn make_directory(&mut self, path: &str) {
        self.change(Change::Add(path.to_owned(), Node::Directory));
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.change(Change::Remove(path.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, inode: InodeNumber) {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.change(Change::Rename { from, to, node: Node::File(inode) });
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cached);
        self.unsynced.push(change);
    }

    /// Makes the names in a directory durable, or, where the sync fails, forgets that they are
    /// not.
    pub(super) fn sync(&mut self, directory: &str, fails: bool) {
        for change in std::mem::take(&mut self.unsynced) {
            if !change.is_in(directory) {
                self.unsynced.push(change);
            } else if !fails {
                change.apply(&mut self.durable);
            }
        }
    }

    /// Keeps each unsynced change or not, as `kept` says; what lay in a directory that is lost is
    /// lost too.
    pub(super) fn lose_unsynced(&mut self, kept: &mut dyn FnMut() -> bool) {
        for change in std::mem::take(&mut self.unsynced) {
            if kept() {
                change.apply(&mut self.durable);
            }
        }
        self.cached = Tree::new();
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
            Change::Add(_, node) | Change::Rename { node, .. } => Some(node),
            Change::Remove(_) => None,
        });
        inodes(self.cached.values().chain(self.durable.values()).chain(unsynced))
    }
}

fn inodes<'a>(nodes: impl Iterator<Item = &'a Node>) -> BTreeSet<InodeNumber> {
    nodes
        .filter_map(|node| match node {
            Node::File(inode) => Some(*inode),
            Node::Directory => None,
        })
        .collect()
}
