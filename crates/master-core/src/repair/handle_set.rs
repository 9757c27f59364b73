//! A set of chunk handles in few bytes: handles of one term lie close together.
//!
//! ```text
//!   handle / 128 ─► 128 bits, one for each handle
//! ```
//! Every third number or so is a handle, so that a chunk costs about half a byte.
//!
//! - HS1: no word is empty, and as many bits are set as the set has handles.

use cairn_types::ChunkHandle;
use std::collections::BTreeMap;

/// Handles of one word.
const WORD: u64 = 128;

const _: () = assert!(WORD == u128::BITS as u64);

/// Handles, in order.
#[derive(Debug, Default)]
pub(crate) struct HandleSet {
    words: BTreeMap<u64, u128>,
    count: u64,
}

fn place_of(handle: ChunkHandle) -> (u64, u128) {
    (handle.get() / WORD, 1 << (handle.get() % WORD))
}

impl HandleSet {
    /// Whether it was not there.
    pub(super) fn insert(&mut self, handle: ChunkHandle) -> bool {
        let (word, bit) = place_of(handle);
        let bits = self.words.entry(word).or_default();
        let fresh = *bits & bit == 0;
        *bits |= bit;
        self.count += u64::from(fresh);
        fresh
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, handle: ChunkHandle) -> bool {
        let (word, bit) = place_of(handle);
        let Some(bits) = self.words.get_mut(&word).filter(|bits| **bits & bit != 0) else {
            return false;
        };
        *bits &= !bit;
        if *bits == 0 {
            self.words.remove(&word);
        }
        assert!(self.count > 0, "as many as there are bits (HS1)");
        self.count -= 1;
        true
    }

    pub(crate) fn contains(&self, handle: ChunkHandle) -> bool {
        let (word, bit) = place_of(handle);
        self.words.get(&word).is_some_and(|bits| bits & bit != 0)
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// From a handle on.
    pub(crate) fn from(&self, first: ChunkHandle) -> impl Iterator<Item = ChunkHandle> + use<'_> {
        let words = self.words.range(first.get() / WORD..);
        let handles = words.flat_map(|(word, bits)| {
            let base = word * WORD;
            let set = (0..WORD).filter(move |at| (bits >> at) & 1 == 1);
            set.map(move |at| ChunkHandle::new(base + at))
        });
        handles.skip_while(move |handle| *handle < first)
    }
}

#[cfg(test)]
mod tests {
    use super::HandleSet;
    use cairn_types::{ChunkHandle, Random};
    use proptest::prelude::proptest;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(seed: u64) {
            let random = &mut Random::new(seed);
            let (mut set, mut model) = (HandleSet::default(), BTreeSet::new());
            for _ in 0..300 {
                let handle = ChunkHandle::new((random.below(4) << 40) | random.below(400));
                if random.below(3) == 0 {
                    assert_eq!(set.remove(handle), model.remove(&handle));
                } else {
                    assert_eq!(set.insert(handle), model.insert(handle));
                }
                assert_eq!(set.contains(handle), model.contains(&handle));
                assert_eq!(set.count(), model.len() as u64);
                assert!(set.from(handle).eq(model.range(handle..).copied()));
            }
            assert!(set.words.values().all(|bits| *bits != 0), "HS1");
        }
    }

    #[test]
    fn a_chunk_takes_less_than_a_byte() {
        let mut set = HandleSet::default();
        for number in 0..30_000_u64 {
            // One number in three is a handle.
            set.insert(ChunkHandle::new((5 << 40) | (3 * number)));
        }
        // A tree's leaf is two thirds full, and has a few bytes of its own.
        let word = size_of::<u64>() + size_of::<u128>();
        let bytes = set.words.len() * word * 3 / 2 + set.words.len() * 2;
        assert!(bytes < 30_000, "{bytes} bytes for 30 000 chunks");
    }
}
