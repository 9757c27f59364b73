//! Directories that somebody may go through, with all above them, as it was looked up lately: so
//! that no look-up of a name walks up to the root.
//!
//! - OW1: what is remembered is so: all of it is forgotten when a directory leaves its place, and
//!   when one has other attributes. What is made anew is not remembered yet.

use cairn_types::{EntryId, Identity, crc32c};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Directories that are remembered at most, each for one caller.
const SLOTS: usize = 1 << 12;

/// Somebody may go there.
#[derive(Clone)]
struct OpenWay {
    directory: EntryId,
    who: Arc<Identity>,
    /// How often all had been forgotten when it was found.
    moves: u64,
}

/// A table in which each directory has one slot for each user, which it may lose to another; of no
/// slot before the first is remembered.
#[derive(Default)]
pub(super) struct OpenWays {
    slots: RefCell<Vec<Option<OpenWay>>>,
}

fn slot_of(directory: EntryId, who: &Identity) -> usize {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&directory.get().to_le_bytes());
    key[8..].copy_from_slice(&who.uid.to_le_bytes());
    crc32c(&key) as usize % SLOTS
}

impl OpenWays {
    /// Whether it is known that somebody may go through a directory and all above it; `moves`: how
    /// often directories have left their places, or got other attributes, by now (OW1).
    pub(super) fn is_open(&self, directory: EntryId, moves: u64, who: &Arc<Identity>) -> bool {
        let slots = self.slots.borrow();
        let Some(Some(way)) = slots.get(slot_of(directory, who)) else { return false };
        let is_same = Arc::ptr_eq(&way.who, who) || way.who == *who;
        way.moves == moves && way.directory == directory && is_same
    }

    pub(super) fn remember(&self, directory: EntryId, moves: u64, who: &Arc<Identity>) {
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize(SLOTS, None);
        }
        assert_eq!(slots.len(), SLOTS, "a directory has one slot");
        let way = OpenWay { directory, who: Arc::clone(who), moves };
        slots[slot_of(directory, who)] = Some(way);
    }
}

impl Clone for OpenWays {
    /// A snapshot is asked by nobody, and a state that adopts an image finds them anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for OpenWays {
    /// States are the same whatever each was asked for.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for OpenWays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenWays of {} slots", self.slots.borrow().len())
    }
}

#[cfg(test)]
mod tests {
    use super::OpenWays;
    use cairn_types::{EntryId, Identity};
    use std::sync::Arc;

    #[test]
    fn a_way_is_open_to_whom_it_was_found_open_until_something_moves() {
        let cache = OpenWays::default();
        let who = |uid, gid| Arc::new(Identity { uid, gid, groups: vec![5] });
        let (one, other) = (who(1, 1), who(1, 2));
        for number in 0..10_000 {
            assert!(!cache.is_open(EntryId::new(number), 7, &one));
            cache.remember(EntryId::new(number), 7, &one);
            assert!(cache.is_open(EntryId::new(number), 7, &who(1, 1)));
        }
        let open = |who, moves| {
            (0..10_000).filter(|number| cache.is_open(EntryId::new(*number), moves, who)).count()
        };
        assert!(open(&one, 7) > 2_000, "{}", open(&one, 7));
        assert_eq!((open(&other, 7), open(&one, 8)), (0, 0));
    }
}
