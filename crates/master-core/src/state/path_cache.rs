//! Directories that were found by their paths lately, so that the way to a file is one name; and
//! those of which it is known whether they are hidden, so that no change in one walks up to the
//! root.
//!
//! - PC1: what is remembered is so: all of it is forgotten when any directory leaves its place.
//!   What is made, and what happens to files, makes no path of a directory lead elsewhere.

use cairn_types::{CellPath, EntryId, crc32c};
use std::cell::RefCell;
use std::fmt;

/// Directories that are remembered at most.
const SLOTS: usize = 1 << 14;
/// Bytes of a path that is remembered: all of them together are a few megabytes at most.
const PATH_SIZE_REMEMBERED: usize = 256;

/// Where a path leads.
#[derive(Clone)]
struct KnownPath {
    path: Box<str>,
    id: EntryId,
    /// How often all had been forgotten when it was found.
    generation: u64,
}

/// Whether a directory lies below the hidden root.
#[derive(Clone, Copy)]
struct HiddenStatus {
    directory: EntryId,
    is_hidden: bool,
    generation: u64,
}

/// Tables in which each path, and each directory, has one slot, which it may lose to another.
#[derive(Default)]
pub(super) struct PathCache {
    /// None of them before the first is remembered.
    slots: RefCell<Vec<Option<KnownPath>>>,
    /// The same.
    hidden: RefCell<Vec<Option<HiddenStatus>>>,
    generation: u64,
}

fn slot_of(path: &str) -> usize {
    crc32c(path.as_bytes()) as usize % SLOTS
}

fn hidden_slot_of(directory: EntryId) -> usize {
    crc32c(&directory.get().to_le_bytes()) as usize % SLOTS
}

impl PathCache {
    /// The directory that `path` leads to, if that is remembered.
    pub(super) fn get(&self, path: &str) -> Option<EntryId> {
        let slots = self.slots.borrow();
        let known = slots.get(slot_of(path))?.as_ref()?;
        (known.generation == self.generation && *known.path == *path).then_some(known.id)
    }

    /// The directory of a path's last name, if that is remembered.
    pub(super) fn directory_of(&self, path: &CellPath) -> Option<EntryId> {
        let (directory, _) = path.as_str().rsplit_once('/')?;
        self.get(directory)
    }

    /// Remembers that `path` leads to a directory.
    pub(super) fn remember(&self, path: &str, id: EntryId) {
        if path.len() > PATH_SIZE_REMEMBERED {
            return;
        }
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize(SLOTS, None);
        }
        assert_eq!(slots.len(), SLOTS, "a path has one slot");
        let generation = self.generation;
        slots[slot_of(path)] = Some(KnownPath { path: path.into(), id, generation });
    }

    /// Whether a directory is hidden, if that is remembered; of files nothing is.
    pub(super) fn is_hidden(&self, directory: EntryId) -> Option<bool> {
        let hidden = self.hidden.borrow();
        let status = (*hidden.get(hidden_slot_of(directory))?)?;
        let is_it = status.generation == self.generation && status.directory == directory;
        is_it.then_some(status.is_hidden)
    }

    /// Remembers whether a directory is hidden.
    pub(super) fn remember_hidden(&self, directory: EntryId, is_hidden: bool) {
        let mut hidden = self.hidden.borrow_mut();
        if hidden.is_empty() {
            hidden.resize(SLOTS, None);
        }
        let generation = self.generation;
        hidden[hidden_slot_of(directory)] = Some(HiddenStatus { directory, is_hidden, generation });
    }

    /// How often a directory has left its place.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// A directory leaves its place (PC1).
    pub(super) fn forget(&mut self) {
        self.generation += 1;
    }
}

impl Clone for PathCache {
    /// A snapshot is asked for no paths, and a state that adopts an image finds them anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for PathCache {
    /// States are the same whatever each was asked for.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for PathCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.slots.borrow().iter().flatten().count();
        write!(f, "PathCache to {count} directories")
    }
}

#[cfg(test)]
mod tests {
    use super::{PATH_SIZE_REMEMBERED, PathCache};
    use cairn_types::EntryId;

    #[test]
    fn each_directory_is_hidden_or_not_until_all_is_forgotten() {
        let mut cache = PathCache::default();
        assert_eq!(cache.is_hidden(EntryId::new(1)), None);
        for number in 0..40_000 {
            cache.remember_hidden(EntryId::new(number), number % 3 == 0);
            assert_eq!(cache.is_hidden(EntryId::new(number)), Some(number % 3 == 0));
        }
        let known = |cache: &PathCache| {
            (0..40_000).filter_map(|n| Some((n, cache.is_hidden(EntryId::new(n))?))).collect()
        };
        let kept: Vec<(u64, bool)> = known(&cache);
        assert!(kept.len() > 10_000, "{}", kept.len());
        assert!(kept.iter().all(|(number, is_hidden)| *is_hidden == (number % 3 == 0)));
        cache.forget();
        assert_eq!(known(&cache), []);
    }

    #[test]
    fn each_path_has_its_own_directory_or_none_however_many_share_a_slot() {
        let mut cache = PathCache::default();
        let path = |number: u64| format!("/d/{number}");
        assert_eq!(cache.get(&path(0)), None);
        for number in 0..40_000 {
            cache.remember(&path(number), EntryId::new(number));
            assert_eq!(cache.get(&path(number)), Some(EntryId::new(number)));
        }
        let kept = (0..40_000).filter_map(|number| Some((number, cache.get(&path(number))?)));
        let kept: Vec<(u64, EntryId)> = kept.collect();
        assert!(kept.len() > 10_000, "{}", kept.len());
        assert!(kept.iter().all(|(number, id)| id.get() == *number));
        let long = format!("/{}", "x".repeat(PATH_SIZE_REMEMBERED));
        cache.remember(&long, EntryId::new(1));
        assert_eq!(cache.get(&long), None);
        cache.forget();
        assert!(kept.iter().all(|(number, _)| cache.get(&path(*number)).is_none()));
    }
}
