//! What directories inherit, as it was looked up lately, so that no creation walks up to the root.
//!
//! - PY1: what is remembered is so: all of it is forgotten when a directory leaves its place, and
//!   when anything says something else.

use cairn_types::{EntryId, PolicyParts, crc32c};
use std::cell::RefCell;
use std::fmt;

/// Directories that are remembered at most.
const SLOTS: usize = 1 << 12;

/// What names in a directory inherit.
#[derive(Clone, Copy)]
struct KnownPolicy {
    directory: EntryId,
    parts: PolicyParts,
    /// How often directories had left their places when it was found.
    moves: u64,
}

/// A table in which each directory has one slot, which it may lose to another; of no slot before
/// the first is remembered.
#[derive(Default)]
pub(super) struct PolicyCache {
    slots: RefCell<Vec<Option<KnownPolicy>>>,
}

fn slot_of(directory: EntryId) -> usize {
    crc32c(&directory.get().to_le_bytes()) as usize % SLOTS
}

impl PolicyCache {
    /// What a directory's names inherit, if that is remembered; `moves`: how often directories
    /// have left their places by now (PY1).
    pub(super) fn get(&self, directory: EntryId, moves: u64) -> Option<PolicyParts> {
        let slots = self.slots.borrow();
        let known = (*slots.get(slot_of(directory))?)?;
        (known.moves == moves && known.directory == directory).then_some(known.parts)
    }

    pub(super) fn remember(&self, directory: EntryId, moves: u64, parts: PolicyParts) {
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize(SLOTS, None);
        }
        assert_eq!(slots.len(), SLOTS, "a directory has one slot");
        slots[slot_of(directory)] = Some(KnownPolicy { directory, parts, moves });
    }

    /// Something says something else (PY1).
    pub(super) fn forget(&mut self) {
        self.slots.get_mut().clear();
    }
}

impl Clone for PolicyCache {
    /// A snapshot is asked for no policy, and a state that adopts an image finds them anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for PolicyCache {
    /// States are the same whatever each was asked for.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for PolicyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyCache of {} slots", self.slots.borrow().len())
    }
}

#[cfg(test)]
mod tests {
    use super::PolicyCache;
    use cairn_types::{EntryId, PolicyParts};

    #[test]
    fn each_directory_has_its_own_parts_or_none_until_something_moves_or_is_said() {
        let mut cache = PolicyCache::default();
        let parts = |number: u64| PolicyParts {
            replication: Some(number as u32 % 16),
            ..PolicyParts::default()
        };
        for number in 0..20_000 {
            assert_eq!(cache.get(EntryId::new(number), 7), None);
            cache.remember(EntryId::new(number), 7, parts(number));
            assert_eq!(cache.get(EntryId::new(number), 7), Some(parts(number)));
        }
        let known = |cache: &PolicyCache, moves| {
            let get = |number| Some((number, cache.get(EntryId::new(number), moves)?));
            (0..20_000).filter_map(get).collect::<Vec<_>>()
        };
        let kept = known(&cache, 7);
        assert!(kept.len() > 2_000, "{}", kept.len());
        assert!(kept.iter().all(|(number, it)| *it == parts(*number)));
        assert_eq!(known(&cache, 8), []);
        cache.forget();
        assert_eq!(known(&cache, 7), []);
    }
}
