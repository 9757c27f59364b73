//! The directory on this machine: what files it has, and reading them.
//!
//! - LD1: regular files alone, by their own names: a link is not followed.
//! - LD2: names that begin with a dot, and compressed files, only where a pattern asks for these.
//! - LD3: a link of a name that is asked for is told of, where its file is none of the directory's:
//!   who has links alone would wait for ever, and never know.
//! - LD4: what is asked for and has no place yet is held open from when it is first seen on, also
//!   while all else waits for the cell: so it is read though it is removed meanwhile. With what is
//!   open there are no more of these than may be.

use super::source_cursor::{FileKey, FileSeen, HEAD_SIZE_MAX};
use super::source_table::ListedFile;
use cairn_types::name_matches;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// What the names of compressed files end with.
const COMPRESSED: [&str; 7] = [".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".Z"];

/// Which names are asked for.
#[derive(Clone, Debug)]
pub(super) struct NameFilter {
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
}

impl NameFilter {
    fn wants(&self, name: &str) -> bool {
        let compressed = COMPRESSED.iter().find(|end| name.ends_with(**end));
        let fits = |pattern: &String| {
            name_matches(pattern, name)
                && (!name.starts_with('.') || pattern.starts_with('.'))
                && compressed.is_none_or(|end| pattern.ends_with(end))
        };
        self.include.iter().any(fits) && !self.exclude.iter().any(|it| name_matches(it, name))
    }
}

/// The directory, and under which names its files were last.
#[derive(Debug)]
pub(super) struct LogDirectory {
    path: PathBuf,
    filter: NameFilter,
    names: BTreeMap<FileKey, OsString>,
    /// Links that lead to files elsewhere, and those of them that are yet to be told of (LD3).
    links: BTreeSet<OsString>,
    new_links: Vec<String>,
    listed_at: Option<Instant>,
    open_max: usize,
    /// What others have open of it.
    open: BTreeSet<FileKey>,
    /// What is held (LD4), and its name then.
    held: BTreeMap<FileKey, (File, String)>,
}

impl LogDirectory {
    /// With room for so many files that are open (LD4).
    pub(super) fn new(path: PathBuf, filter: NameFilter, open_max: usize) -> Self {
        let (names, links, new_links) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        let (open, held) = (BTreeSet::new(), BTreeMap::new());
        let listed_at = None;
        Self { path, filter, names, links, new_links, listed_at, open_max, open, held }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it has now, in order of names.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub(super) fn list(&mut self) -> io::Result<Vec<ListedFile>> {
        self.listed_at = Some(Instant::now());
        let mut names = Vec::new();
        let entries = std::fs::read_dir(&self.path);
        if entries.as_ref().is_err_and(is_gone) {
            self.names.clear();
        }
        for entry in entries? {
            names.push(entry?.file_name());
        }
        names.sort_unstable();
        let mut known = BTreeMap::new();
        let (mut all, mut links) = (Vec::new(), Vec::new());
        for name in names {
            let metadata = match std::fs::symlink_metadata(self.path.join(&name)) {
                Ok(metadata) => metadata,
                // Removed since.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let shown = name.to_string_lossy().into_owned();
            let is_wanted = self.filter.wants(&shown);
            if is_wanted && metadata.is_symlink() && !self.links.contains(&name) {
                links.push(name);
                continue;
            }
            if !metadata.is_file() {
                continue;
            }
            all.push(ListedFile { seen: seen(&metadata, shown), is_wanted, is_gone: false });
            known.insert(key(&metadata), name);
        }
        // Not before all went well: files are opened by the names of the last whole list.
        self.names = known;
        for name in links {
            let leads_to = std::fs::metadata(self.path.join(&name)).ok();
            let elsewhere = leads_to.filter(|it| it.is_file());
            if elsewhere.is_some_and(|it| !self.names.contains_key(&key(&it))) {
                self.new_links.push(name.to_string_lossy().into_owned());
                self.links.insert(name);
            }
        }
        Ok(all)
    }

    /// Holds what is new (LD4), unless somebody has just listed it, who sees to that. What fails
    /// here fails again where it is told of.
    pub(super) fn hold_new(&mut self, unless_listed_for: Duration) {
        if self.listed_at.is_some_and(|at| at.elapsed() < unless_listed_for) {
            return;
        }
        for file in self.list().unwrap_or_default() {
            let key = file.seen.key;
            let has_room = self.open.len() + self.held.len() < self.open_max;
            let is_new = !self.open.contains(&key) && !self.held.contains_key(&key);
            if file.is_wanted
                && is_new
                && has_room
                && let Ok(Some(opened)) = self.open(key)
            {
                self.held.insert(key, (opened, file.seen.name));
            }
        }
    }

    /// These are open elsewhere, and of the others only those are held on that `is_needed` says.
    pub(super) fn settle(&mut self, open: BTreeSet<FileKey>, is_needed: impl Fn(FileKey) -> bool) {
        self.held.retain(|key, _| !open.contains(key) && is_needed(*key));
        self.open = open;
    }

    pub(super) fn is_any_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// What is held, and was not there any more at the last list.
    pub(super) fn held_and_gone(&self) -> Vec<ListedFile> {
        let gone = self.held.iter().filter(|(key, _)| !self.names.contains_key(key));
        let listed = gone.filter_map(|(_, (file, name))| {
            let seen = look(file, name).ok()?;
            Some(ListedFile { seen, is_wanted: true, is_gone: true })
        });
        listed.collect()
    }

    /// Links that are not followed, and that nobody was told of (LD3).
    pub(super) fn take_links(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new_links)
    }

    /// Opens a file, or gives what is held of it; none where its name has gone to another since the
    /// last list.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub(super) fn open(&self, wanted: FileKey) -> io::Result<Option<File>> {
        if let Some((file, _)) = self.held.get(&wanted) {
            return file.try_clone().map(Some);
        }
        let Some(name) = self.names.get(&wanted) else { return Ok(None) };
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(self.path.join(name));
        match opened {
            Ok(file) => Ok((key(&file.metadata()?) == wanted).then_some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a directory is not there any more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn key(metadata: &Metadata) -> FileKey {
    FileKey { device: metadata.dev(), inode: metadata.ino() }
}

fn seen(metadata: &Metadata, name: String) -> FileSeen {
    let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = born.and_then(|born| u64::try_from(born.as_nanos()).ok());
    FileSeen { key: key(metadata), born, size: metadata.len(), name }
}

/// An open file as it is now, called `name`.
///
/// # Errors
/// Where it cannot be asked.
pub(super) fn look(file: &File, name: &str) -> io::Result<FileSeen> {
    Ok(seen(&file.metadata()?, name.to_owned()))
}

/// The first bytes of a file, up to `size_max` and never more than a head has.
///
/// # Errors
/// Where it cannot be read.
pub(super) fn read_head(file: &File, size_max: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size_max).unwrap_or(HEAD_SIZE_MAX).min(HEAD_SIZE_MAX);
    read_at(file, 0, size)
}

/// Up to `size` bytes from `offset` on; fewer only at the end.
///
/// # Errors
/// Where it cannot be read.
pub(super) fn read_at(file: &File, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match file.read_at(&mut bytes[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::NameFilter;

    fn wants(include: &[&str], exclude: &[&str], name: &str) -> bool {
        let owned = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
        NameFilter { include: owned(include), exclude: owned(exclude) }.wants(name)
    }

    #[test]
    fn compressed_and_hidden_files_are_asked_for_by_their_own_patterns_alone() {
        assert!(wants(&["*"], &[], "app.log") && wants(&["*"], &[], "app.log.1"));
        assert!(!wants(&["*"], &[], ".app.log.swp") && !wants(&["app*"], &[], "app.log.2.gz"));
        assert!(wants(&["*.gz"], &[], "app.log.2.gz") && wants(&[".*"], &[], ".app"));
        assert!(!wants(&["app*"], &[], "web.log") && wants(&["app*", "web*"], &[], "web.log"));
        assert!(!wants(&["*"], &["*.tmp", "web*"], "web.log"));
    }
}
