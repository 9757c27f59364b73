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
//! - GN4: of a chunk whose set was decided on while a member was away (R28) it is written down
//!   here how far that set had come, and the version of the decision: who stood below that and
//!   turns up with more is kept, until a person lets go of it. What was raised since was of a set
//!   that had all of it, and goes as any stale replica does. Of several decisions on a chunk each
//!   counts that says more than the others, up to [`DECISIONS_MAX`]; of more, the first two count
//!   as one with the lower number and the later version: what lies between is rather kept.

use super::map::{DamageMark, Map};
use super::packing::Packed;
use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber};

/// Behind a handle that a person let go of.
const LET_GO: u8 = 1;
/// Behind that of a chunk whose set was decided on, with the set's serial number and the version.
const KEPT_ABOVE: u8 = 2;

/// Decisions on one chunk that count, each by itself.
const DECISIONS_MAX: usize = 4;

/// What is written down of a handle.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Purged,
    LetGo,
    KeptAbove(KeptAbove),
}

/// A decision on a chunk's set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecidedSet {
    /// How far the set had come.
    pub(super) serial: SerialNumber,
    /// The version by which the decision was logged.
    pub(super) version: ChunkVersion,
}

impl DecidedSet {
    fn keeps(self, version: ChunkVersion, serial: SerialNumber) -> bool {
        version < self.version && serial > self.serial
    }

    /// Whether it keeps all that the other does.
    fn includes(self, other: Self) -> bool {
        self.serial <= other.serial && self.version >= other.version
    }
}

/// What of a chunk is kept for a person since its set was decided on, once or more often (GN4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptAbove(Vec<DecidedSet>);

impl KeptAbove {
    /// Whether a replica stood before a decision, and has applied more than who was decided on.
    #[must_use]
    pub fn keeps(&self, version: ChunkVersion, serial: SerialNumber) -> bool {
        self.0.iter().any(|decided| decided.keeps(version, serial))
    }

    fn add(&mut self, decided: DecidedSet) {
        if self.0.iter().any(|it| it.includes(decided)) {
            return;
        }
        self.0.retain(|it| !decided.includes(*it));
        self.0.push(decided);
        if self.0.len() > DECISIONS_MAX {
            let (first, second) = (self.0[0], self.0.remove(1));
            let serial = first.serial.min(second.serial);
            self.0[0] = DecidedSet { serial, version: first.version.max(second.version) };
        }
        assert!(self.0.len() <= DECISIONS_MAX, "what is kept of a chunk is bounded (GN4)");
    }
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

    /// What is kept of a chunk whose set was decided on (GN4).
    pub(super) fn kept_above(&self, handle: ChunkHandle) -> Option<KeptAbove> {
        match self.told(handle) {
            Some(Told::KeptAbove(kept)) => Some(kept),
            Some(Told::Purged | Told::LetGo) | None => None,
        }
    }

    /// Writes down how far the set of a chunk had come that is decided on, and when (GN4).
    pub(super) fn keep_above(&mut self, handle: ChunkHandle, decided: DecidedSet) {
        let mut kept = self.kept_above(handle).unwrap_or_default();
        kept.add(decided);
        let numbers = kept.0.iter().flat_map(|it| [it.serial.get(), it.version.get()]);
        let value = [KEPT_ABOVE].into_iter().chain(numbers.flat_map(u64::to_be_bytes));
        self.0.set(&key(handle), &value.collect::<Vec<u8>>());
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

    /// A term's floor says it of these from now on (GN2): below the former one nothing is left that
    /// it said it of, however much stands there that a person has, or is to have, a word on.
    pub(super) fn forget_between(&mut self, former: ChunkHandle, floor: ChunkHandle) {
        let mut first = former.max(ChunkHandle::of(floor.term(), 0));
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
        [KEPT_ABOVE, numbers @ ..] => {
            let (decisions, rest) = numbers.as_chunks::<16>();
            let is_whole = rest.is_empty() && (1..=DECISIONS_MAX).contains(&decisions.len());
            let decided = |numbers: &[u8; 16]| {
                let (serial, version) = numbers.split_first_chunk()?;
                let serial = SerialNumber::new(u64::from_be_bytes(*serial));
                let version = ChunkVersion::new(u64::from_be_bytes(version.try_into().ok()?));
                Some(DecidedSet { serial, version })
            };
            let all: Option<Vec<DecidedSet>> = decisions.iter().map(decided).collect();
            all.filter(|_| is_whole).map(|all| Told::KeptAbove(KeptAbove(all)))
        }
        _ => None,
    }
}

fn key(handle: ChunkHandle) -> [u8; 8] {
    handle.get().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::{DECISIONS_MAX, DamageMark, DecidedSet, PurgedChunks};
    use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber, Term};

    #[test]
    fn what_a_floor_has_passed_is_forgotten_of_its_own_term_alone() {
        let mut purged = PurgedChunks::new(&DamageMark::default());
        let of = |term, counter| ChunkHandle::of(Term::new(term), counter);
        let all = [of(1, 9), of(2, 3), of(2, 7), of(2, 8), of(3, 1)];
        all.into_iter().for_each(|handle| purged.insert(handle));
        purged.forget_between(ChunkHandle::default(), of(2, 8));
        let kept = all.map(|handle| purged.contains(handle));
        assert_eq!(kept, [true, false, false, true, true]);
        purged.let_go(of(2, 9));
        purged.forget_between(of(2, 8), of(2, 20));
        assert!(purged.is_let_go(of(2, 9)), "a person's word is kept");
        assert!(!purged.contains(of(2, 8)) && !purged.is_let_go(of(3, 1)));
    }

    #[test]
    fn of_several_decisions_each_counts_that_says_more_and_few_of_them() {
        let mut purged = PurgedChunks::new(&DamageMark::default());
        let handle = ChunkHandle::of(Term::new(1), 9);
        let decided = |serial, version| DecidedSet {
            serial: SerialNumber::new(serial),
            version: ChunkVersion::new(version),
        };
        let keeps = |purged: &PurgedChunks, version, serial| {
            let kept = purged.kept_above(handle).expect("decided on");
            kept.keeps(ChunkVersion::new(version), SerialNumber::new(serial))
        };
        purged.keep_above(handle, decided(10, 5));
        purged.keep_above(handle, decided(20, 8));
        // Who was of the first set has to have more than the second.
        let asked = [(4, 11), (4, 10), (5, 20), (5, 21), (8, 99)];
        let kept = asked.map(|(version, serial)| keeps(&purged, version, serial));
        assert_eq!(kept, [true, false, false, true, false]);
        purged.keep_above(handle, decided(4, 9));
        assert_eq!(purged.kept_above(handle).expect("decided on").0, [decided(4, 9)]);
        for number in 1..=DECISIONS_MAX as u64 {
            purged.keep_above(handle, decided(4 + number, 9 + number));
        }
        let kept = purged.kept_above(handle).expect("decided on").0;
        assert_eq!((kept.len(), kept[0], kept[1]), (DECISIONS_MAX, decided(4, 10), decided(6, 11)));
    }
}
