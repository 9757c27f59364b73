//! The index of chunks below their goal, the most urgent first (GFS §4.3).
//!
//! ```text
//!   urgency ─► the chunks that stand so
//! ```
//! - BG1: a chunk stands here once, or not at all.
//!
//! It is kept as servers come and go, and never quite up to date: whoever takes a chunk from here
//! looks at it again.

use super::handle_set::HandleSet;
use crate::rules::lacking::Urgency;
use cairn_types::ChunkHandle;
use std::collections::BTreeMap;

/// Chunks by how urgently they lack replicas.
#[derive(Debug, Default)]
pub(super) struct BelowGoal {
    levels: BTreeMap<Urgency, HandleSet>,
}

impl BelowGoal {
    /// A chunk stands so from now on; none: it lacks nothing.
    pub(super) fn set(&mut self, handle: ChunkHandle, urgency: Option<Urgency>) {
        let former = self.urgency_of(handle);
        if former == urgency {
            return;
        }
        if let Some(former) = former {
            let level = self.levels.get_mut(&former).expect("it is of that level");
            level.remove(handle);
            if level.count() == 0 {
                self.levels.remove(&former);
            }
        }
        if let Some(urgency) = urgency {
            let fresh = self.levels.entry(urgency).or_default().insert(handle);
            assert!(fresh, "a chunk stands here once (BG1)");
        }
    }

    pub(super) fn urgency_of(&self, handle: ChunkHandle) -> Option<Urgency> {
        let of =
            |(urgency, level): (&Urgency, &HandleSet)| level.contains(handle).then_some(*urgency);
        self.levels.iter().find_map(of)
    }

    /// How many chunks stand how, the most urgent first.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Urgency, u64)> {
        self.levels.iter().map(|(urgency, level)| (*urgency, level.count()))
    }

    /// From a chunk of one urgency on.
    pub(super) fn from(
        &self,
        (urgency, handle): (Urgency, ChunkHandle),
    ) -> impl Iterator<Item = (Urgency, ChunkHandle)> + use<'_> {
        self.levels.range(urgency..).flat_map(move |(level, handles)| {
            let first = if *level == urgency { handle } else { ChunkHandle::default() };
            handles.from(first).map(|handle| (*level, handle))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::BelowGoal;
    use crate::rules::lacking::Urgency;
    use cairn_types::ChunkHandle;

    fn urgency(good: u32, hidden: bool, goal: u32) -> Urgency {
        Urgency::of(good, hidden, goal)
    }

    #[test]
    fn the_fewest_replicas_come_first_then_live_files_then_those_that_lack_most() {
        let mut index = BelowGoal::default();
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
        let all = |index: &BelowGoal| {
            let first = (Urgency::default(), ChunkHandle::default());
            index.from(first).map(|(_, handle)| handle.get()).collect::<Vec<u64>>()
        };
        assert_eq!(all(&index), [0, 1, 2, 3, 4, 5]);
        index.set(ChunkHandle::new(5), Some(order[0]));
        index.set(ChunkHandle::new(2), None);
        index.set(ChunkHandle::new(9), None);
        assert_eq!(all(&index), [0, 5, 1, 3, 4]);
        assert_eq!(index.urgency_of(ChunkHandle::new(5)), Some(order[0]));
        assert_eq!(index.counts().next(), Some((order[0], 2)));
        let rest: Vec<u64> =
            index.from((order[0], ChunkHandle::new(1))).map(|(_, handle)| handle.get()).collect();
        assert_eq!(rest, [5, 1, 3, 4]);
    }
}
