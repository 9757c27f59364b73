//! What parts the children of an inner page, and how a key finds its child.
//!
//! ```text
//!   run      the separators as they are stored
//!   common   where in it what all of them begin with stands
//!   leads    of each, the 16 bytes behind these, as a number
//! ```
//! The leads are in memory alone: among numbers of one size a child is found by halving, and most
//! of the time that is all. The run is walked only among separators whose leads are the key's own.

use crate::entries::EntryList;
use crate::parts::shared_front;
use crate::prefetch::touch;
use crate::run;
use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;

/// Bytes of a lead.
const LEAD_SIZE: usize = size_of::<u128>();

/// Separators.
#[derive(Clone, Debug, Default)]
pub(crate) struct Separators {
    run: Vec<u8>,
    common: Range<usize>,
    leads: Box<[u128]>,
}

impl Separators {
    /// Those of a run whose groups are full but the last. Nothing where it is none.
    pub(crate) fn new(run: Vec<u8>) -> Option<Self> {
        let mut keys = EntryList::default();
        keys.append_run(&run)?;
        let count = keys.count();
        if count == 0 {
            return Some(Self { run, ..Self::default() });
        }
        // What the first and the last share, those between share too.
        let common = shared_front(keys.key(0), keys.key(count - 1));
        let leads = (0..count).map(|index| lead(&keys.key(index)[common..])).collect();
        let start = run::first_key_at(&run)?;
        Some(Self { run, common: start..start + common, leads })
    }

    /// Has what [`Separators::rank`] looks at first fetched.
    #[inline]
    pub(crate) fn touch(&self) {
        touch(&self.run, self.common.start, 1);
        black_box(self.leads.get(self.leads.len() / 2).copied());
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.leads.len()
    }

    /// As they are stored.
    pub(crate) fn run(&self) -> &[u8] {
        &self.run
    }

    /// Bytes of memory.
    pub(crate) fn memory_size(&self) -> usize {
        self.run.capacity() + self.leads.len() * LEAD_SIZE
    }

    /// How many are not above `key`.
    pub(crate) fn rank(&self, key: &[u8]) -> usize {
        let common = &self.run[self.common.clone()];
        match key[..key.len().min(common.len())].cmp(common) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.leads.len(),
            Ordering::Equal => {}
        }
        let sought = lead(&key[common.len()..]);
        let below = self.leads.partition_point(|lead| *lead < sought);
        if self.leads.get(below) == Some(&sought) {
            return run::rank(&self.run, key).expect("a run: it was taken apart before");
        }
        below
    }
}

/// The first bytes of a key as a number, zeros for those that it lacks: where two keys' leads
/// differ, the keys differ the same way.
fn lead(key: &[u8]) -> u128 {
    if let Some(lead) = key.first_chunk() {
        return u128::from_be_bytes(*lead);
    }
    let mut lead = [0; LEAD_SIZE];
    lead[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(lead)
}

#[cfg(test)]
mod tests {
    use super::Separators;
    use crate::entries::EntryList;
    use proptest::prelude::proptest;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_key_stands_where_the_separators_not_above_it_end(
            front in proptest::collection::vec(0..2u8, 0..4),
            tails in proptest::collection::btree_set(
                proptest::collection::vec(0..2u8, 0..20), 0..40),
            sought in proptest::collection::vec(0..2u8, 0..24),
        ) {
            let keys: BTreeSet<Vec<u8>> =
                tails.iter().map(|tail| [front.as_slice(), tail].concat()).collect();
            let mut entries = EntryList::default();
            keys.iter().for_each(|key| entries.push(key, &[]));
            let separators = Separators::new(entries.to_run()).expect("a run");
            let sought = [sought.clone(), [front.as_slice(), &sought].concat()];
            for key in keys.iter().chain(&sought) {
                assert_eq!(separators.rank(key), keys.range(..=key.clone()).count());
            }
        }
    }
}
