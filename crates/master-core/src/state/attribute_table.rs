//! Attributes: who owns what and who may do what with it, each kind of them once.
//!
//! ```text
//!   entry ─► number ─► (owner, group, mode)         (owner, group, mode) ─► number
//! ```
//! A cell has few users and few modes, and many files: an entry has the number of its attributes,
//! which takes it two bytes, and none at all where they are the usual ones.
//!
//! - AT1: numbers are given in order from 1 and never taken back: one stands for the same for ever.
//! - AT2: what has the usual attributes of its kind has number 0, and no other one.

use super::map::{DamageMark, Map};
use super::packing::{Packed, put_number};
use cairn_types::{Attributes, EntryKind, MODE_BITS};

/// Behind it comes a number; of the rows that are looked up by number.
const BY_NUMBER: u8 = 0;
/// Behind it come owner, group and mode; of the rows that are looked up by them.
const BY_ATTRIBUTES: u8 = 1;

/// Stands for attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttributesNumber(u32);

impl AttributesNumber {
    /// The usual ones of an entry's kind.
    pub const USUAL: Self = Self(0);

    pub(super) fn new(raw: u32) -> Self {
        Self(raw)
    }

    pub(super) fn get(self) -> u32 {
        self.0
    }
}

/// All attributes that anything has, or had.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AttributeTable {
    rows: Map,
}

impl AttributeTable {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self { rows: Map::new(mark) }
    }

    /// From what an image has.
    pub(super) fn of(rows: Map) -> Self {
        Self { rows }
    }

    pub(super) fn map(&self) -> &Map {
        &self.rows
    }

    pub(super) fn map_mut(&mut self) -> &mut Map {
        &mut self.rows
    }

    /// The attributes of a number; none: the usual ones.
    pub(super) fn get(&self, number: AttributesNumber) -> Option<Attributes> {
        if number == AttributesNumber::USUAL {
            return None;
        }
        self.rows.get(&number_key(number), |packed| {
            let mut packed = Packed(packed);
            let (owner, group, mode) = (packed.small()?, packed.small()?, packed.small()?);
            packed.end(Attributes { owner, group, mode })
        })
    }

    /// The number of attributes, which they are given where they have none yet (AT1, AT2).
    pub(super) fn number(&mut self, kind: EntryKind, attributes: Attributes) -> AttributesNumber {
        if attributes == Attributes::usual(kind) {
            return AttributesNumber::USUAL;
        }
        assert_eq!(attributes.mode & !MODE_BITS, 0, "other bits are none of a mode");
        let key = attributes_key(attributes);
        if let Some(known) = self.rows.get(&key, |packed| Packed(packed).small()) {
            return AttributesNumber(known);
        }
        // Two rows each. Each takes a record, of which there are never so many.
        let count = u32::try_from(self.rows.len() / 2).expect("fewer than records");
        let number = AttributesNumber(count + 1);
        assert!(number != AttributesNumber::USUAL, "the usual ones have no row (AT1)");
        let Attributes { owner, group, mode } = attributes;
        let mut packed = Vec::new();
        for part in [owner, group, mode] {
            put_number(&mut packed, u64::from(part));
        }
        self.rows.set(&number_key(number), &packed);
        packed.clear();
        put_number(&mut packed, u64::from(number.0));
        self.rows.set(&key, &packed);
        number
    }
}

fn number_key(number: AttributesNumber) -> Vec<u8> {
    let mut key = vec![BY_NUMBER];
    key.extend_from_slice(&number.0.to_be_bytes());
    key
}

fn attributes_key(attributes: Attributes) -> Vec<u8> {
    let mut key = vec![BY_ATTRIBUTES];
    for part in [attributes.owner, attributes.group, attributes.mode] {
        key.extend_from_slice(&part.to_be_bytes());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::{AttributeTable, AttributesNumber};
    use crate::state::map::DamageMark;
    use cairn_types::{Attributes, EntryKind, Random};
    use std::collections::BTreeMap;

    #[test]
    fn the_same_attributes_have_the_same_number_and_others_another_one() {
        let mut table = AttributeTable::new(&DamageMark::default());
        let (mut random, mut known) = (Random::new(5), BTreeMap::new());
        for _ in 0..2_000 {
            let mut draw = |of: u64| u32::try_from(random.next_u64() % of).expect("small");
            let mode = [0o600, 0o644, 0o755, 0o2770][draw(4) as usize];
            let owner = [0, 1000, u32::MAX][draw(3) as usize];
            let attributes = Attributes { owner, group: draw(5), mode };
            let number = table.number(EntryKind::File, attributes);
            if attributes == Attributes::usual(EntryKind::File) {
                assert_eq!((number, table.get(number)), (AttributesNumber::USUAL, None));
                continue;
            }
            assert_eq!(table.get(number), Some(attributes));
            assert_eq!(*known.entry(attributes).or_insert(number), number);
        }
        let numbers: Vec<u32> = known.values().map(|number| number.get()).collect();
        assert!(numbers.iter().all(|number| (1..=known.len() as u32).contains(number)));
        let files = Attributes::usual(EntryKind::File);
        let number = table.number(EntryKind::Directory, files);
        assert_eq!(table.get(number), Some(files), "which is unusual for a directory");
    }
}
