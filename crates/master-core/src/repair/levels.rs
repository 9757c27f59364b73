//! Chunks that stand alike, level by level: the index of those below their goal, the most urgent
//! first (GFS §4.3), and of those that ail otherwise.
//!
//! ```text
//!   urgency, condition ─► the chunks that stand so
//! ```
//! - BG1: a chunk stands here once, or not at all.
//!
//! It is kept as servers come and go, and never quite up to date: whoever takes a chunk from here
//! looks at it again.

use super::handle_set::HandleSet;
use cairn_types::ChunkHandle;
use std::collections::BTreeMap;

/// Chunks by how they stand.
#[derive(Debug)]
pub(super) struct Levels<K> {
    levels: BTreeMap<K, HandleSet>,
}

impl<K> Default for Levels<K> {
    fn default() -> Self {
        Self { levels: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Levels<K> {
    /// A chunk stands so from now on; none: it has no place here.
    pub(super) fn set(&mut self, handle: ChunkHandle, level: Option<K>) {
        let former = self.level_of(handle);
        if former == level {
            return;
        }
        if let Some(former) = former {
            let handles = self.levels.get_mut(&former).expect("it is of that level");
            assert!(handles.remove(handle), "it is of that level");
            if handles.count() == 0 {
                self.levels.remove(&former);
            }
        }
        if let Some(level) = level {
            let fresh = self.levels.entry(level).or_default().insert(handle);
            assert!(fresh, "a chunk stands here once (BG1)");
        }
    }

    pub(super) fn level_of(&self, handle: ChunkHandle) -> Option<K> {
        let of = |(level, handles): (&K, &HandleSet)| handles.contains(handle).then_some(*level);
        self.levels.iter().find_map(of)
    }

    /// How many chunks stand how, in order of the levels.
    pub(super) fn counts(&self) -> impl Iterator<Item = (K, u64)> {
        self.levels.iter().map(|(level, handles)| (*level, handles.count()))
    }

    /// From a chunk of one level on.
    pub(super) fn from(
        &self,
        (level, handle): (K, ChunkHandle),
    ) -> impl Iterator<Item = (K, ChunkHandle)> + use<'_, K> {
        self.levels.range(level..).flat_map(move |(other, handles)| {
            let first = if *other == level { handle } else { ChunkHandle::default() };
            handles.from(first).map(|handle| (*other, handle))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Levels;
    use crate::rules::lacking::Urgency;
    use cairn_types::ChunkHandle;

    fn urgency(good: u32, hidden: bool, goal: u32) -> Urgency {
        Urgency::of(good, hidden, goal)
    }

    #[test]
    fn the_fewest_replicas_come_first_then_live_files_then_those_that_lack_most() {
        let mut index = Levels::default();
        let order = [
            urgency(1, false, 3),
            urgency(1, false, 2),
            urgency(1, true, 3),
            urgency(2, false, 5),
            urgency(2, false, 3),
            urgency(2, true, 3),
        ];
        for (at, urgency) in order.into_iter().enumerate().rev() {
            index.set(ChunkHandle::new(at as u64), Some(urgency));
        }
        let all = |index: &Levels<Urgency>| {
            let first = (Urgency::default(), ChunkHandle::default());
            index.from(first).map(|(_, handle)| handle.get()).collect::<Vec<u64>>()
        };
        assert_eq!(all(&index), [0, 1, 2, 3, 4, 5]);
        index.set(ChunkHandle::new(5), Some(order[0]));
        index.set(ChunkHandle::new(2), None);
        index.set(ChunkHandle::new(9), None);
        assert_eq!(all(&index), [0, 5, 1, 3, 4]);
        assert_eq!(index.level_of(ChunkHandle::new(5)), Some(order[0]));
        assert_eq!(index.counts().next(), Some((order[0], 2)));
        let rest: Vec<u64> =
            index.from((order[0], ChunkHandle::new(1))).map(|(_, handle)| handle.get()).collect();
        assert_eq!(rest, [5, 1, 3, 4]);
    }
}
