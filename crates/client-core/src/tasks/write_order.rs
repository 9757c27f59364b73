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

use crate::ids::TaskId;
use cairn_types::{ChunkIndex, EntryId};
use std::collections::{BTreeMap, VecDeque};

/// An offset in a chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WritePosition {
    pub(crate) file: EntryId,
    pub(crate) index: ChunkIndex,
    pub(crate) offset: u64,
}

/// The writes on their first way to their order, by where they end.
#[derive(Debug, Default)]
pub(crate) struct WriteOrder {
    /// With the one that waits for it. Of two that end at one place the later one counts.
    by_end: BTreeMap<WritePosition, (TaskId, Option<TaskId>)>,
    /// Those that waited, and may go on.
    passed: VecDeque<TaskId>,
}

impl WriteOrder {
    /// A write that ends at `end` is on its way; whoever waited for another one there goes on.
    pub(crate) fn begin(&mut self, end: WritePosition, task: TaskId) {
        let before = self.by_end.insert(end, (task, None));
        assert!(before.is_none_or(|(there, _)| there != task), "a write begins once");
        self.passed.extend(before.and_then(|(_, waits)| waits));
    }

    /// Whether `task`, which begins at `start`, has to wait for another one; it is told then.
    pub(crate) fn waits(&mut self, start: WritePosition, task: TaskId) -> bool {
        match self.by_end.get_mut(&start) {
            Some((there, waits @ None)) if *there != task => {
                *waits = Some(task);
                true
            }
            // One waits already: two writes of the same bytes have no order.
            _ => false,
        }
    }

    /// `task` has given its order, or does not get that far: nobody waits for it any more, nor it
    /// for anybody. The same once more changes nothing.
    pub(crate) fn leave(&mut self, start: WritePosition, end: WritePosition, task: TaskId) {
        if let Some((_, waits)) = self.by_end.get_mut(&start)
            && *waits == Some(task)
        {
            *waits = None;
        }
        if self.by_end.get(&end).is_some_and(|(there, _)| *there == task) {
            let waits = self.by_end.remove(&end).and_then(|(_, waits)| waits);
            assert_ne!(waits, Some(task), "a write does not wait for itself");
            self.passed.extend(waits);
        }
    }

    /// The next one that waited, and may go on.
    pub(crate) fn next_passed(&mut self) -> Option<TaskId> {
        self.passed.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::{WriteOrder, WritePosition};
    use crate::ids::TaskId;
    use cairn_types::{ChunkIndex, EntryId};

    fn at(offset: u64) -> WritePosition {
        WritePosition { file: EntryId::new(1), index: ChunkIndex::new(0), offset }
    }

    #[test]
    fn a_write_waits_for_its_neighbour_and_for_nobody_else() {
        let mut order = WriteOrder::default();
        let tasks = [TaskId(1), TaskId(2), TaskId(3)];
        order.begin(at(10), tasks[0]);
        order.begin(at(20), tasks[1]);
        assert!(!order.waits(at(0), tasks[0]));
        assert!(order.waits(at(10), tasks[1]));
        assert!(!order.waits(at(10), tasks[2]), "another write of those bytes");
        assert!(!order.waits(at(15), tasks[2]), "not its neighbour");
        order.leave(at(0), at(10), tasks[2]);
        assert_eq!(order.next_passed(), None, "not its place");
        order.leave(at(0), at(10), tasks[0]);
        assert_eq!(order.next_passed(), Some(tasks[1]));
        assert!(!order.waits(at(10), tasks[2]), "nobody is there any more");
        order.leave(at(0), at(10), tasks[0]);
        order.leave(at(10), at(20), tasks[1]);
        assert_eq!(order.next_passed(), None);
    }

    #[test]
    fn who_leaves_while_it_waits_makes_room_for_another_one() {
        let mut order = WriteOrder::default();
        order.begin(at(10), TaskId(1));
        assert!(order.waits(at(10), TaskId(2)));
        order.leave(at(10), at(20), TaskId(2));
        assert!(order.waits(at(10), TaskId(3)));
        order.leave(at(0), at(10), TaskId(1));
        assert_eq!(order.next_passed(), Some(TaskId(3)));
        assert_eq!(order.next_passed(), None);
    }

    #[test]
    fn a_second_write_to_one_place_lets_who_waited_for_the_first_go_on() {
        let mut order = WriteOrder::default();
        order.begin(at(10), TaskId(1));
        assert!(order.waits(at(10), TaskId(2)));
        order.begin(at(10), TaskId(3));
        assert_eq!(order.next_passed(), Some(TaskId(2)));
        order.leave(at(0), at(10), TaskId(1));
        order.leave(at(0), at(10), TaskId(3));
        assert_eq!(order.next_passed(), None);
    }
}
