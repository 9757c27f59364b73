//! Directories that somebody may go through, with all above them, as it was looked up lately, and
//! in which of them that one may make names: so that no look-up of a name walks up to the root, and
//! nothing that is made looks at its directory again.
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
    /// It may make names there, too.
    makes: bool,
}

impl OpenWay {
    fn is(&self, directory: EntryId, moves: u64, who: &Arc<Identity>) -> bool {
        let is_same = Arc::ptr_eq(&self.who, who) || self.who == *who;
        self.moves == moves && self.directory == directory && is_same
    }
}

/// A table in which each directory has one slot for each user, which it may lose to another; of no
/// slot before the first is remembered.
#[derive(Default)]
pub(super) struct OpenWays {
    slots: RefCell<Vec<Option<OpenWay>>>,
}

/// The table as it is read and added to: at a count of how often directories have left their
/// places, or got other attributes (OW1).
#[derive(Clone, Copy)]
pub(crate) struct KnownWays<'a> {
    ways: &'a OpenWays,
    moves: u64,
}

impl KnownWays<'_> {
    /// Whether it is remembered that somebody may go through a directory and all above it.
    pub(crate) fn is_open(self, directory: EntryId, who: &Arc<Identity>) -> bool {
        self.is_known(directory, who, |_| true)
    }

    /// Whether it is remembered that it may make names there, too.
    pub(crate) fn is_maker(self, directory: EntryId, who: &Arc<Identity>) -> bool {
        self.is_known(directory, who, |way| way.makes)
    }

    fn is_known(
        self,
        directory: EntryId,
        who: &Arc<Identity>,
        what: impl Fn(&OpenWay) -> bool,
    ) -> bool {
        let slots = self.ways.slots.borrow();
        let way = slots.get(slot_of(directory, who)).and_then(Option::as_ref);
        way.is_some_and(|way| what(way) && way.is(directory, self.moves, who))
    }

    /// Somebody may go there.
    pub(crate) fn remember(self, directory: EntryId, who: &Arc<Identity>) {
        let mut slots = self.ways.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize(SLOTS, None);
        }
        assert_eq!(slots.len(), SLOTS, "a directory has one slot");
        let way = OpenWay { directory, who: Arc::clone(who), moves: self.moves, makes: false };
        slots[slot_of(directory, who)] = Some(way);
    }

    /// It may make names there: of a way that is not remembered nothing is.
    pub(crate) fn remember_maker(self, directory: EntryId, who: &Arc<Identity>) {
        let mut slots = self.ways.slots.borrow_mut();
        let way = slots.get_mut(slot_of(directory, who)).and_then(Option::as_mut);
        let Some(way) = way else { return };
        assert!(way.moves <= self.moves, "nothing is known of what is to come (OW1)");
        way.makes |= way.is(directory, self.moves, who);
    }
}

fn slot_of(directory: EntryId, who: &Identity) -> usize {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&directory.get().to_le_bytes());
    key[8..].copy_from_slice(&who.uid.to_le_bytes());
    crc32c(&key) as usize % SLOTS
}

impl OpenWays {
    /// What is known at a count of moves.
    pub(super) fn at(&self, moves: u64) -> KnownWays<'_> {
        KnownWays { ways: self, moves }
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
            assert!(!cache.at(7).is_open(EntryId::new(number), &one));
            cache.at(7).remember(EntryId::new(number), &one);
            assert!(cache.at(7).is_open(EntryId::new(number), &who(1, 1)));
        }
        let open = |who, moves| {
            (0..10_000).filter(|number| cache.at(moves).is_open(EntryId::new(*number), who)).count()
        };
        assert!(open(&one, 7) > 2_000, "{}", open(&one, 7));
        assert_eq!((open(&other, 7), open(&one, 8)), (0, 0));
    }

    #[test]
    fn who_makes_names_is_remembered_with_the_way_there_and_forgotten_with_it() {
        let (cache, directory) = (OpenWays::default(), EntryId::new(3));
        let who = |uid, gid| Arc::new(Identity { uid, gid, groups: vec![5] });
        let (one, other) = (who(1, 1), who(1, 2));
        cache.at(7).remember_maker(directory, &one);
        assert!(!cache.at(7).is_maker(directory, &one), "nobody knows the way there");
        cache.at(7).remember(directory, &one);
        assert!(!cache.at(7).is_maker(directory, &one), "to go there is not to write");
        cache.at(7).remember_maker(directory, &other);
        assert!(!cache.at(7).is_maker(directory, &one), "another's groups");
        cache.at(7).remember_maker(directory, &one);
        assert!(cache.at(7).is_maker(directory, &who(1, 1)));
        assert!(!cache.at(8).is_maker(directory, &one), "something has moved");
        cache.at(8).remember(directory, &one);
        assert!(!cache.at(8).is_maker(directory, &one), "it is looked at anew");
    }
}
