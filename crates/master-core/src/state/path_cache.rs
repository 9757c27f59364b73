//! Directories that were found by their paths lately, so that the way to a file is one name; and
//! those of which it is known whether they are hidden, so that no change in one walks up to the
//! root.
//!
//! - Y1: what is remembered is so: all of it is forgotten when any directory leaves its place. What
//!   is made, and what happens to files, makes no path of a directory lead elsewhere.

use cairn_types::{EntryId, crc32c};
use std::cell::RefCell;
use std::fmt;

/// Directories that are remembered at most.
const SLOTS: usize = 1 << 14;
/// Bytes of a path that is remembered: all of them together are a few megabytes at most.
const PATH_SIZE_REMEMBERED: usize = 256;

/// Where a path leads.
#[derive(Clone)]
struct Way {
    path: Box<str>,
    id: EntryId,
    /// How often all had been forgotten when it was found.
    generation: u64,
}

/// Whether a directory lies below the hidden root.
#[derive(Clone, Copy)]
struct Standing {
    directory: EntryId,
    is_hidden: bool,
    generation: u64,
}

/// Tables in which each path, and each directory, has one slot, which it may lose to another.
#[derive(Default)]
pub(super) struct Ways {
    /// None of them before the first is remembered.
    slots: RefCell<Vec<Option<Way>>>,
    /// The same.
    standings: RefCell<Vec<Option<Standing>>>,
    generation: u64,
}

fn slot_of(path: &str) -> usize {
    crc32c(path.as_bytes()) as usize % SLOTS
}

fn standing_of(directory: EntryId) -> usize {
    crc32c(&directory.get().to_le_bytes()) as usize % SLOTS
}

impl Ways {
    /// The directory that `path` leads to, if that is remembered.
    pub(super) fn get(&self, path: &str) -> Option<EntryId> {
        let slots = self.slots.borrow();
        let way = slots.get(slot_of(path))?.as_ref()?;
        (way.generation == self.generation && *way.path == *path).then_some(way.id)
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
        let generation = self.generation;
        slots[slot_of(path)] = Some(Way { path: path.into(), id, generation });
    }

    /// Whether a directory is hidden, if that is remembered; of files nothing is.
    pub(super) fn is_hidden(&self, directory: EntryId) -> Option<bool> {
        let standings = self.standings.borrow();
        let standing = (*standings.get(standing_of(directory))?)?;
        let is_it = standing.generation == self.generation && standing.directory == directory;
        is_it.then_some(standing.is_hidden)
    }

    /// Remembers whether a directory is hidden.
    pub(super) fn remember_hidden(&self, directory: EntryId, is_hidden: bool) {
        let mut standings = self.standings.borrow_mut();
        if standings.is_empty() {
            standings.resize(SLOTS, None);
        }
        let generation = self.generation;
        standings[standing_of(directory)] = Some(Standing { directory, is_hidden, generation });
    }

    /// A directory leaves its place (Y1).
    pub(super) fn forget(&mut self) {
        self.generation += 1;
    }
}

impl Clone for Ways {
    /// A snapshot is asked for no paths, and a state that adopts an image finds them anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Ways {
    /// States are the same whatever each was asked for.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.slots.borrow().iter().flatten().count();
        write!(f, "Ways to {count} directories")
    }
}

#[cfg(test)]
mod tests {
    use super::{PATH_SIZE_REMEMBERED, Ways};
    use cairn_types::EntryId;

    #[test]
    fn each_directory_is_hidden_or_not_until_all_is_forgotten() {
        let mut ways = Ways::default();
        assert_eq!(ways.is_hidden(EntryId::new(1)), None);
        for number in 0..40_000 {
            ways.remember_hidden(EntryId::new(number), number % 3 == 0);
            assert_eq!(ways.is_hidden(EntryId::new(number)), Some(number % 3 == 0));
        }
        let known = |ways: &Ways| {
            (0..40_000).filter_map(|n| Some((n, ways.is_hidden(EntryId::new(n))?))).collect()
        };
        let kept: Vec<(u64, bool)> = known(&ways);
        assert!(kept.len() > 10_000, "{}", kept.len());
        assert!(kept.iter().all(|(number, is_hidden)| *is_hidden == (number % 3 == 0)));
        ways.forget();
        assert_eq!(known(&ways), []);
    }

    #[test]
    fn each_path_has_its_own_directory_or_none_however_many_share_a_slot() {
        let mut ways = Ways::default();
        let path = |number: u64| format!("/d/{number}");
        assert_eq!(ways.get(&path(0)), None);
        for number in 0..40_000 {
            ways.remember(&path(number), EntryId::new(number));
            assert_eq!(ways.get(&path(number)), Some(EntryId::new(number)));
        }
        let kept = (0..40_000).filter_map(|number| Some((number, ways.get(&path(number))?)));
        let kept: Vec<(u64, EntryId)> = kept.collect();
        assert!(kept.len() > 10_000, "{}", kept.len());
        assert!(kept.iter().all(|(number, id)| id.get() == *number));
        let long = format!("/{}", "x".repeat(PATH_SIZE_REMEMBERED));
        ways.remember(&long, EntryId::new(1));
        assert_eq!(ways.get(&long), None);
        ways.forget();
        assert!(kept.iter().all(|(number, _)| ways.get(&path(*number)).is_none()));
    }
}
