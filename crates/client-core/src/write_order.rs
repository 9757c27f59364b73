//! Pieces of a stream are ordered in the order of their bytes.
//!
//! ```text
//!   pushes under way    [ 0–1 MiB ][ 1–2 MiB ][ 2–3 MiB ]    arrive as they will
//!   orders               0–1 MiB ─► 1–2 MiB ─► 2–3 MiB       each behind the one before it
//! ```
//! An order that overtook its neighbour would leave zeros for it on every replica, and the
//! neighbour would then overwrite bytes, which takes a redo journal and a sync where appending
//! takes neither (R26). So a write whose data has arrived waits for the one that ends where it
//! begins, as long as that one is on its first way to its order: never for one that has failed.

use crate::task::TaskId;
use cairn_types::{ChunkIndex, EntryId};
use std::collections::BTreeMap;

/// An offset in a chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: EntryId,
    pub(crate) index: ChunkIndex,
    pub(crate) offset: u64,
}

/// The writes on their first way to their order, by where they end.
#[derive(Debug, Default)]
pub(crate) struct WriteOrder {
    /// With the one that waits for it. Of two that end at one place the later one counts.
    by_end: BTreeMap<Place, (TaskId, Option<TaskId>)>,
}

impl WriteOrder {
    /// A write that ends at `end` is on its way; whoever waited for another one there goes on.
    pub(crate) fn begin(&mut self, end: Place, task: TaskId) -> Option<TaskId> {
        self.by_end.insert(end, (task, None)).and_then(|(_, waits)| waits)
    }

    /// Whether `task`, which begins at `start`, has to wait for another one; it is told then.
    pub(crate) fn waits(&mut self, start: Place, task: TaskId) -> bool {
        match self.by_end.get_mut(&start) {
            Some((there, waits @ None)) if *there != task => {
                *waits = Some(task);
                true
            }
            // One waits already: two writes of the same bytes have no order.
            _ => false,
        }
    }

    /// `task` no longer waits for who ends at `start`.
    pub(crate) fn waits_no_more(&mut self, start: Place, task: TaskId) {
        if let Some((_, waits)) = self.by_end.get_mut(&start)
            && *waits == Some(task)
        {
            *waits = None;
        }
    }

    /// `task` has given its order, or does not get that far: who goes on now.
    pub(crate) fn pass(&mut self, end: Place, task: TaskId) -> Option<TaskId> {
        match self.by_end.get(&end) {
            Some((there, _)) if *there == task => self.by_end.remove(&end)?.1,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, WriteOrder};
    use crate::task::TaskId;
    use cairn_types::{ChunkIndex, EntryId};

    fn at(offset: u64) -> Place {
        Place { file: EntryId::new(1), index: ChunkIndex::new(0), offset }
    }

    #[test]
    fn a_write_waits_for_its_neighbour_and_for_nobody_else() {
        let mut order = WriteOrder::default();
        let tasks = [TaskId(1), TaskId(2), TaskId(3)];
        assert_eq!(order.begin(at(10), tasks[0]), None);
        assert_eq!(order.begin(at(20), tasks[1]), None);
        assert!(!order.waits(at(0), tasks[0]));
        assert!(order.waits(at(10), tasks[1]));
        assert!(!order.waits(at(10), tasks[2]), "another write of those bytes");
        assert!(!order.waits(at(15), tasks[2]), "not its neighbour");
        order.waits_no_more(at(10), tasks[1]);
        assert!(order.waits(at(10), tasks[1]), "nobody waits there any more");
        assert_eq!(order.pass(at(10), tasks[2]), None, "not its place");
        assert_eq!(order.pass(at(10), tasks[0]), Some(tasks[1]));
        assert!(!order.waits(at(10), tasks[2]), "nobody is there any more");
        assert_eq!(order.pass(at(20), tasks[1]), None);
    }

    #[test]
    fn a_second_write_to_one_place_lets_who_waited_for_the_first_go_on() {
        let mut order = WriteOrder::default();
        order.begin(at(10), TaskId(1));
        assert!(order.waits(at(10), TaskId(2)));
        assert_eq!(order.begin(at(10), TaskId(3)), Some(TaskId(2)));
        assert_eq!(order.pass(at(10), TaskId(1)), None);
        assert_eq!(order.pass(at(10), TaskId(3)), None);
    }
}
