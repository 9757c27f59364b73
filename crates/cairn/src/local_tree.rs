//! A tree of local files, as far as a cell can hold it: directories and plain files with names
//! in UTF-8. Symbolic links and special files are counted and left out.

use crate::cli_error::{Cause, CliError};
use crate::exit_codes::Exit;
use std::fs::FileType;
use std::path::{Path, PathBuf};

/// One file or directory of the tree.
#[derive(Debug)]
pub(crate) struct LocalEntry {
    /// On this machine.
    pub(crate) path: PathBuf,
    /// From the root of the tree, with `/` between names; empty for the root.
    pub(crate) relative: String,
    /// Bytes, of a file.
    pub(crate) size: u64,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct LocalTree {
    /// A directory before those in it.
    pub(crate) directories: Vec<LocalEntry>,
    /// All plain files.
    pub(crate) files: Vec<LocalEntry>,
    /// Symbolic links left out.
    pub(crate) links: u64,
    /// Sockets, pipes and devices left out.
    pub(crate) special: u64,
    /// What could not be read or named.
    pub(crate) complaints: Vec<CliError>,
}

impl LocalTree {
    /// Walks everything below `root`, which is a directory.
    pub(crate) fn walk(root: &Path) -> Self {
        let mut tree = Self::default();
        let first = LocalEntry { path: root.to_owned(), relative: String::new(), size: 0 };
        let mut waiting = vec![first];
        while let Some(directory) = waiting.pop() {
            if let Err(error) = tree.read(&directory, &mut waiting) {
                let doing = format!("reading the directory {}", directory.path.display());
                tree.complaints.push(CliError::new(doing, error));
            }
            tree.directories.push(directory);
        }
        tree
    }

    fn read(
        &mut self,
        directory: &LocalEntry,
        waiting: &mut Vec<LocalEntry>,
    ) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&directory.path)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                let cause = Cause::new(Exit::Local, "its name is not UTF-8", "rename it first");
                self.complaints.push(CliError::new(format!("storing {}", path.display()), cause));
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
            self.links += 1;
        } else if kind.is_file() {
            entry.size = entry.path.metadata().map_or(0, |metadata| metadata.len());
            self.files.push(entry);
        } else {
            self.special += 1;
        }
    }

    /// What was left out, as a person is told; nothing where nothing was.
    pub(crate) fn left_out(&self) -> Option<String> {
        let counts = [(self.links, "symbolic link"), (self.special, "special file")];
        let parts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
            .collect();
        (!parts.is_empty()).then(|| format!("skipped {}", parts.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::LocalTree;

    #[test]
    fn links_and_special_files_are_counted_and_left_out() {
        let root = tempfile::tempdir().expect("a scratch directory");
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir(at("d")).expect("makes");
        std::fs::write(at("d/x"), b"hello").expect("writes");
        std::os::unix::fs::symlink("d", at("l")).expect("links");
        let _socket = std::os::unix::net::UnixListener::bind(at("s")).expect("binds");
        let tree = LocalTree::walk(root.path());
        assert_eq!(tree.left_out().as_deref(), Some("skipped 1 symbolic link and 1 special file"));
        let files: Vec<_> = tree.files.iter().map(|f| (f.relative.as_str(), f.size)).collect();
        assert_eq!(files, [("d/x", 5)]);
        let directories: Vec<_> = tree.directories.iter().map(|d| d.relative.as_str()).collect();
        assert_eq!(directories, ["", "d"]);
        assert!(tree.complaints.is_empty());
    }
}
