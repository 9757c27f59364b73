//! Which chunks a look for more copies passes, and in which order.
//!
//! ```text
//!   the index:  the front,    │ … │ the window: goes on where nothing of it could be started,
//!               each time     │   │ and at the end begins behind the front again
//! ```
//! - CD1: the front is passed first, each time: a place that gets free goes to the most urgent of
//!   those that it serves, wherever the window is. Chunks without a good replica, of which nothing
//!   can be copied, have no place in it, however many there are.
//! - CD2: what one look passes is bounded, and what does not fit is come to by a later one.

use super::levels::Levels;
use crate::chunk_place::ChunkPlace;
use crate::rules::lacking::Urgency;
use crate::scheduler::Scheduler;
use crate::state::State;
use crate::step::ChunkStep;
use cairn_protocol::CopyNeed;
use cairn_types::ChunkHandle;
use std::collections::BTreeSet;

/// Chunks of the front, and of the window: to pass one that cannot be started takes a look at who
/// holds it, and no more.
const PASSED_MAX: usize = 4096;

/// Chunks that one look for more considers, where servers are few.
const CONSIDERED_MAX: usize = 512;
/// Where they are many, so many servers are looked at in all: some milliseconds.
const SERVERS_LOOKED_AT_MAX: usize = 65_536;

/// A chunk in the order of the index.
type Place = (Urgency, ChunkHandle);

/// Where looks go on.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    window: Place,
}

/// What one look passes.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) front: Vec<Place>,
    pub(super) window: Vec<Place>,
    /// Where the window goes on, if nothing of it can be started.
    pub(super) next: Place,
}

impl Candidates {
    /// What is to be passed now, the most urgent first.
    pub(super) fn list(&self, index: &Levels<Urgency>) -> Listed {
        let first = (Urgency::first_with_source(), ChunkHandle::default());
        let mut front: Vec<Place> = index.from(first).take(PASSED_MAX + 1).collect();
        let Some(behind) = (if front.len() > PASSED_MAX { front.pop() } else { None }) else {
            return Listed { front, window: Vec::new(), next: Place::default() };
        };
        let first = self.window.max(behind);
        let mut window: Vec<Place> = index.from(first).take(PASSED_MAX + 1).collect();
        let more = if window.len() > PASSED_MAX { window.pop() } else { None };
        assert!(front.len().max(window.len()) <= PASSED_MAX, "one look is bounded (CD2)");
        Listed { front, window, next: more.unwrap_or_default() }
    }

    /// None of the window could be started: the next look goes on behind it.
    pub(super) fn go_on(&mut self, next: Place) {
        self.window = next;
    }
}

/// These in the order in which copies are started: of those that are as urgent those first for
/// which clients wait; only those with a good replica, and while chunks that have fewer are still
/// being looked for, only those with one.
pub(super) fn in_order(
    mut all: Vec<Place>,
    waited: &BTreeSet<ChunkHandle>,
    looks_for_worse: bool,
) -> Vec<ChunkHandle> {
    all.retain(|(urgency, _)| {
        let is_worst = urgency.need == CopyNeed::Lack && urgency.good <= 1;
        urgency.good > 0 && (is_worst || !looks_for_worse)
    });
    all.sort_by_key(|(urgency, handle)| (urgency.need, urgency.good, !waited.contains(handle)));
    all.into_iter().map(|(_, handle)| handle).collect()
}

/// Clones that the cell makes at once.
pub(super) fn clones_max(state: &State) -> usize {
    state.config().clones_per_cell as usize
}

/// The chunks for which clients wait and nothing can be done right now; some of them.
pub(super) fn waited(step: &ChunkStep<'_>, scheduler: &Scheduler) -> BTreeSet<ChunkHandle> {
    let chunk_at = |place: ChunkPlace| step.state.chunk_at(place.file, place.index);
    scheduler.waiting().filter_map(chunk_at).take(CONSIDERED_MAX).collect()
}

/// Chunks that one look for more considers: for each, every server may be looked at.
pub(super) fn considered_max(servers: usize) -> usize {
    (SERVERS_LOOKED_AT_MAX / servers.max(1)).clamp(CONSIDERED_MAX / 16, CONSIDERED_MAX)
}

#[cfg(test)]
mod tests {
    use super::{Candidates, Levels, PASSED_MAX, Urgency, considered_max};
    use cairn_types::ChunkHandle;

    #[test]
    fn the_front_is_passed_by_every_look_and_all_others_in_turn() {
        let (count, front) = (3 * PASSED_MAX as u64 + 7, PASSED_MAX as u64);
        let mut index = Levels::default();
        for number in 0..count {
            index.set(ChunkHandle::new(number), Some(Urgency::of(1, false, 3)));
        }
        let (mut candidates, mut passed) = (Candidates::default(), Vec::new());
        for _ in 0..3 {
            let listed = candidates.list(&index);
            assert!(listed.front.iter().map(|it| it.1.get()).eq(0..front), "CD1");
            passed.extend(listed.window.iter().map(|it| it.1.get()));
            candidates.go_on(listed.next);
        }
        assert!(passed.into_iter().eq(front..count));
        let again = candidates.list(&index).window;
        assert_eq!(again.first().map(|it| it.1.get()), Some(front), "from the front at the end");
    }

    #[test]
    fn lost_chunks_however_many_keep_none_that_can_be_copied_out_of_the_front() {
        let mut index = Levels::default();
        for number in 0..4 * PASSED_MAX as u64 {
            let lost = Urgency::of(0, number % 2 == 0, 3);
            index.set(ChunkHandle::new(number), Some(lost));
        }
        let last = (Urgency::of(1, false, 3), ChunkHandle::new(u64::MAX));
        index.set(last.1, Some(last.0));
        let listed = Candidates::default().list(&index);
        assert_eq!((listed.front, listed.window), (vec![last], vec![]));
    }

    #[test]
    fn where_servers_are_many_fewer_chunks_are_looked_at_at_once_and_never_none() {
        assert_eq!([0, 3, 128, 1024, 4096].map(considered_max), [512, 512, 512, 64, 32]);
    }
}
