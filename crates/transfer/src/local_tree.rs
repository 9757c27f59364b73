//! A tree of local files, as far as a cell can hold it: directories and plain files with names
//! in UTF-8. Symbolic links and special files are named and left out.

use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

/// One file or directory of the tree.
#[derive(Clone, Debug)]
pub struct LocalEntry {
    /// On this machine.
    pub path: PathBuf,
    /// From the root of the tree, with `/` between names; empty for the root.
    pub relative: String,
    /// Bytes, of a file.
    pub size: u64,
}

/// Why something of the tree is missing from what was found.
#[derive(Debug, thiserror::Error)]
pub enum LocalProblem {
    /// A directory could not be read.
    #[error("{source}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No name of a cell can stand for it.
    #[error("its name is not UTF-8")]
    NameNotUtf8 {
        /// What.
        path: PathBuf,
    },
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct LocalTree {
    /// A directory before those in it.
    pub directories: Vec<LocalEntry>,
    /// All plain files.
    pub files: Vec<LocalEntry>,
    /// Symbolic links, left out.
    pub links: Vec<PathBuf>,
    /// Sockets, pipes and devices, left out.
    pub special: Vec<PathBuf>,
    /// What could not be read or named.
    pub problems: Vec<LocalProblem>,
}

impl LocalTree {
    /// Walks everything below `root`, which is a directory.
    #[must_use]
    pub fn walk(root: &Path) -> Self {
        let mut tree = Self::default();
        let first = LocalEntry { path: root.to_owned(), relative: String::new(), size: 0 };
        let mut waiting = vec![first];
        while let Some(directory) = waiting.pop() {
            if let Err(source) = tree.read(&directory, &mut waiting) {
                let path = directory.path.clone();
                tree.problems.push(LocalProblem::Unreadable { path, source });
            }
            tree.directories.push(directory);
        }
        tree
    }

    fn read(&mut self, directory: &LocalEntry, waiting: &mut Vec<LocalEntry>) -> io::Result<()> {
        for entry in std::fs::read_dir(&directory.path)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                self.problems.push(LocalProblem::NameNotUtf8 { path });
                continue;
            };
            let relative = match directory.relative.as_str() {
                "" => name.to_owned(),
                above => format!("{above}/{name}"),
            };
            self.sort_in(LocalEntry { path, relative, size: 0 }, entry.file_type()?, waiting);
        }
        Ok(())
    }

    fn sort_in(&mut self, mut entry: LocalEntry, kind: FileType, waiting: &mut Vec<LocalEntry>) {
        if kind.is_dir() {
            waiting.push(entry);
        } else if kind.is_symlink() {
            self.links.push(entry.path);
        } else if kind.is_file() {
            // A file that goes or grows meanwhile is found out when it is read.
            entry.size = entry.path.metadata().map_or(0, |metadata| metadata.len());
            self.files.push(entry);
        } else {
            self.special.push(entry.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LocalTree;

    #[test]
    fn links_and_special_files_are_named_and_left_out() {
        let root = tempfile::tempdir().expect("a scratch directory");
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir(at("d")).expect("makes");
        std::fs::write(at("d/x"), b"hello").expect("writes");
        std::os::unix::fs::symlink("d", at("l")).expect("links");
        let _socket = std::os::unix::net::UnixListener::bind(at("s")).expect("binds");
        let tree = LocalTree::walk(root.path());
        assert_eq!((tree.links, tree.special), (vec![at("l")], vec![at("s")]));
        let files: Vec<_> = tree.files.iter().map(|f| (f.relative.as_str(), f.size)).collect();
        assert_eq!(files, [("d/x", 5)]);
        let directories: Vec<_> = tree.directories.iter().map(|d| d.relative.as_str()).collect();
        assert_eq!(directories, ["", "d"]);
        assert!(tree.problems.is_empty());
    }
}
