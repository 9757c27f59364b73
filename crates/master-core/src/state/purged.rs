//! Which chunks the log has purged: what tells garbage from a chunk that only a later log knows
//! (R3, R33).
//!
//! ```text
//!   a handle without a record ─┬─ below its term's floor (`history.rs`) ──► purged, or came to
//!                              ├─ written down here ──────────────────────► nothing: garbage
//!                              └─ neither ──► of a later log, or another: kept for a person
//! ```
//! A chunk that is not in the table may be one that this log has not heard of yet: a master that
//! was started from a backup finds servers with chunks that were opened after the backup. "No
//! higher than the highest that was opened" would not tell them apart: chunks are made side by
//! side, and 100 may be logged, the backup taken, and 99 logged and written to.
//!
//! - GN1: below the floor stands what was logged before it was raised, or never will be: with every
//!   chunk that is opened the log says which handle of its term is the lowest that may still be
//!   opened.
//! - GN2: what is purged at or above its term's floor is written down here, one by one, until the
//!   floor has passed it: the last few of each term.
//! - GN3: what a person let go of is garbage wherever it is, whosever it was.
//! - GN4: of a chunk whose set was decided on while a member was away (R28) it is written down here
//!   how far that set had come: who turns up and has more is kept, until a person lets go of it.

use super::map::{DamageMark, Map};
use super::packing::Packed;
use cairn_types::{ChunkHandle, SerialNumber};

/// Behind a handle that a person let go of.
const LET_GO: u8 = 1;
/// Behind that of a chunk whose set was decided on, with the set's serial number.
const KEPT_ABOVE: u8 = 2;

/// What is written down of a handle.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Purged,
    LetGo,
    KeptAbove(SerialNumber),
}

/// Purged at or above their terms' floors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PurgedChunks(Map);

impl PurgedChunks {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self(Map::new(mark))
    }

    /// From what an image has.
    pub(super) fn of(map: Map) -> Self {
        Self(map)
    }

    pub(super) fn map(&self) -> &Map {
        &self.0
    }

    pub(super) fn map_mut(&mut self) -> &mut Map {
        &mut self.0
    }

    pub(super) fn contains(&self, handle: ChunkHandle) -> bool {
        matches!(self.told(handle), Some(Told::Purged | Told::LetGo))
    }

    fn told(&self, handle: ChunkHandle) -> Option<Told> {
        self.0.get(&key(handle), told)
    }

    /// How far the set of a chunk had come that was decided on (GN4).
    pub(super) fn kept_above(&self, handle: ChunkHandle) -> Option<SerialNumber> {
        match self.told(handle) {
            Some(Told::KeptAbove(serial)) => Some(serial),
            Some(Told::Purged | Told::LetGo) | None => None,
        }
    }

    /// Writes down how far the set of a chunk had come that is decided on: of several times, the
    /// first (GN4).
    pub(super) fn keep_above(&mut self, handle: ChunkHandle, serial: SerialNumber) {
        if self.kept_above(handle).is_none() {
            let serial = serial.get().to_be_bytes();
            self.0.set(&key(handle), &[&[KEPT_ABOVE], serial.as_slice()].concat());
        }
    }

    /// Nothing of it is kept for a person any more; whether something was.
    pub(super) fn keep_no_more(&mut self, handle: ChunkHandle) -> bool {
        let kept = self.kept_above(handle).is_some();
        if kept {
            self.0.remove(&key(handle));
        }
        kept
    }

    /// Writes down a chunk (GN2).
    pub(super) fn insert(&mut self, handle: ChunkHandle) {
        self.0.set(&key(handle), &[]);
    }

    /// Writes down a chunk that the log has not had: a person let go of it (GN3).
    pub(super) fn let_go(&mut self, handle: ChunkHandle) {
        self.0.set(&key(handle), &[LET_GO]);
    }

    /// Whether a person let go of it (GN3).
    pub(super) fn is_let_go(&self, handle: ChunkHandle) -> bool {
        self.told(handle) == Some(Told::LetGo)
    }

    /// A term's floor says it of these from now on (GN2).
    pub(super) fn forget_below(&mut self, floor: ChunkHandle) {
        let mut first = ChunkHandle::of(floor.term(), 0);
        while let Some((lowest, told)) = self.lowest_from(first).filter(|(it, _)| *it < floor) {
            if told == Told::Purged {
                self.0.remove(&key(lowest));
            }
            first = ChunkHandle::new(lowest.get() + 1);
        }
    }

    fn lowest_from(&self, first: ChunkHandle) -> Option<(ChunkHandle, Told)> {
        let mut walk = self.0.walk(&key(first));
        walk.unpack(|key, value| {
            let handle = ChunkHandle::new(Packed(key).key()?);
            Some(Some((handle, told(value)?)))
        })
    }
}

fn told(value: &[u8]) -> Option<Told> {
    match value {
        [] => Some(Told::Purged),
        [LET_GO] => Some(Told::LetGo),
        [KEPT_ABOVE, serial @ ..] => {
            let serial = u64::from_be_bytes(serial.try_into().ok()?);
            Some(Told::KeptAbove(SerialNumber::new(serial)))
        }
        _ => None,
    }
}

fn key(handle: ChunkHandle) -> [u8; 8] {
    handle.get().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::{DamageMark, PurgedChunks};
    use cairn_types::{ChunkHandle, Term};

    #[test]
    fn what_a_floor_has_passed_is_forgotten_of_its_own_term_alone() {
        let mut purged = PurgedChunks::new(&DamageMark::default());
        let of = |term, counter| ChunkHandle::of(Term::new(term), counter);
        let all = [of(1, 9), of(2, 3), of(2, 7), of(2, 8), of(3, 1)];
        all.into_iter().for_each(|handle| purged.insert(handle));
        purged.forget_below(of(2, 8));
        let kept = all.map(|handle| purged.contains(handle));
        assert_eq!(kept, [true, false, false, true, true]);
        purged.let_go(of(2, 9));
        purged.forget_below(of(2, 20));
        assert!(purged.is_let_go(of(2, 9)), "a person's word is kept");
        assert!(!purged.contains(of(2, 8)) && !purged.is_let_go(of(3, 1)));
    }
}
