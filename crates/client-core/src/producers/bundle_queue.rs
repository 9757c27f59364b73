//! A producer's bundles that are not committed, in the order of their numbers.
//!
//! - BQ1: numbers follow each other without a gap (R38).
//! - BQ2: a bundle keeps its numbers and its bytes wherever it goes (R39).

use crate::ids::{OperationId, TaskId};
use crate::tasks::bundle_store::BundlePlace;
use bytes::Bytes;
use cairn_protocol::{Bundle, BundleHolder};
use cairn_types::{ChunkHandle, RecordNumber, Time};
use std::collections::VecDeque;

/// How far a bundle is.
#[derive(Debug)]
pub(crate) enum BundleState {
    /// It has no place.
    Waiting,
    /// It is on its way to its place.
    Storing { task: TaskId, place: BundlePlace },
    /// Enough hold it; the commit may be under way.
    Stored { place: BundlePlace, holders: Vec<BundleHolder> },
}

/// A bundle that is not committed.
#[derive(Debug)]
pub(crate) struct WaitingBundle {
    pub(crate) operation: OperationId,
    pub(crate) deadline: Time,
    pub(crate) first: RecordNumber,
    pub(crate) last: RecordNumber,
    pub(crate) bytes: Bytes,
    pub(crate) cursor: Option<Bytes>,
    pub(crate) sync: bool,
    pub(crate) replaces: Option<u64>,
    pub(crate) state: BundleState,
    /// An earlier try to commit it may have come true, though a later one did not (PR4).
    pub(crate) may_be_there: bool,
}

impl WaitingBundle {
    /// Where it is, or is going.
    pub(crate) fn place(&self) -> Option<BundlePlace> {
        match self.state {
            BundleState::Waiting => None,
            BundleState::Storing { place, .. } | BundleState::Stored { place, .. } => Some(place),
        }
    }

    fn is_in(&self, chunk: ChunkHandle) -> bool {
        self.place().is_some_and(|place| place.handle == chunk)
    }

    /// As it is put to the master; none before it is stored.
    fn to_commit(&self) -> Option<Bundle> {
        let BundleState::Stored { place, holders } = &self.state else { return None };
        let &BundlePlace { handle, offset, serial, .. } = place;
        Some(Bundle {
            first: self.first,
            count: self.last.get() - self.first.get() + 1,
            handle,
            offset,
            size: self.bytes.len() as u64,
            serial,
            holders: holders.clone(),
            cursor: self.cursor.clone(),
            replaces: self.replaces,
        })
    }
}

/// The bundles, the oldest first.
#[derive(Debug)]
pub(crate) struct BundleQueue {
    bundles: VecDeque<WaitingBundle>,
    /// The number of the last record that was ever put here.
    last: RecordNumber,
}

impl BundleQueue {
    /// Of a producer whose last committed record is `last`.
    pub(crate) fn new(last: RecordNumber) -> Self {
        Self { bundles: VecDeque::new(), last }
    }

    /// The number of the last record.
    pub(crate) fn last(&self) -> RecordNumber {
        self.last
    }

    pub(crate) fn len(&self) -> usize {
        self.bundles.len()
    }

    pub(crate) fn push(&mut self, bundle: WaitingBundle) {
        assert_eq!(bundle.first.get(), self.last.get() + 1, "BQ1");
        assert!(bundle.first <= bundle.last, "a bundle has a record");
        self.last = bundle.last;
        self.bundles.push_back(bundle);
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self) -> Option<WaitingBundle> {
        self.bundles.pop_front()
    }

    /// Takes those from the `from`-th on.
    pub(crate) fn take_from(&mut self, from: usize) -> VecDeque<WaitingBundle> {
        self.bundles.split_off(from.min(self.bundles.len()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WaitingBundle> {
        self.bundles.iter()
    }

    pub(crate) fn get(&self, place: usize) -> &WaitingBundle {
        &self.bundles[place]
    }

    pub(crate) fn set_state(&mut self, place: usize, state: BundleState) {
        self.bundles[place].state = state;
    }

    /// The `count` oldest may be in the file, for all that is known.
    pub(crate) fn set_may_be_there(&mut self, count: usize) {
        self.bundles.iter_mut().take(count).for_each(|bundle| bundle.may_be_there = true);
    }

    /// It is known of each whether it is.
    pub(crate) fn clear_may_be_there(&mut self) {
        self.bundles.iter_mut().for_each(|bundle| bundle.may_be_there = false);
    }

    /// Which of them that task is storing.
    pub(crate) fn stored_by(&self, task: TaskId) -> Option<usize> {
        self.bundles.iter().position(
            |bundle| matches!(bundle.state, BundleState::Storing { task: id, .. } if id == task),
        )
    }

    /// The first without a place.
    pub(crate) fn first_waiting(&self) -> Option<usize> {
        self.bundles.iter().position(|bundle| matches!(bundle.state, BundleState::Waiting))
    }

    /// How many have a place.
    pub(crate) fn placed_count(&self) -> usize {
        self.bundles.iter().filter(|bundle| bundle.place().is_some()).count()
    }

    /// Which task stores the oldest that is on its way to that chunk.
    pub(crate) fn first_storing_in(&self, chunk: ChunkHandle) -> Option<TaskId> {
        self.bundles.iter().find_map(|bundle| match bundle.state {
            BundleState::Storing { task, place } if place.handle == chunk => Some(task),
            _ => None,
        })
    }

    /// Those from the `from`-th on give up their places in that chunk; what was storing them.
    pub(crate) fn leave(&mut self, chunk: ChunkHandle, from: usize) -> (u32, Vec<TaskId>) {
        let (mut count, mut tasks) = (0, Vec::new());
        for bundle in self.bundles.iter_mut().skip(from).filter(|bundle| bundle.is_in(chunk)) {
            if let BundleState::Storing { task, .. } = bundle.state {
                tasks.push(task);
            }
            bundle.state = BundleState::Waiting;
            count += 1;
        }
        (count, tasks)
    }

    /// The oldest ones that are stored, as they are put to the master, and until when they have
    /// time.
    pub(crate) fn to_commit(&self, count_max: usize) -> (Vec<Bundle>, Time) {
        let bundles = self.bundles.iter().map_while(WaitingBundle::to_commit).take(count_max);
        let bundles: Vec<Bundle> = bundles.collect();
        let deadlines = self.bundles.iter().take(bundles.len()).map(|bundle| bundle.deadline);
        (bundles, deadlines.max().unwrap_or_default())
    }
}
