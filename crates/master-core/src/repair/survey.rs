//! The survey: keeps the indexes of chunks below their goal, and of those with more than they need,
//! as servers come and go.
//!
//! ```text
//!   told by the fleet: a replica is gone, or bad ──┐
//!   logged: a set below its goal ──────────────────┼──► looked at, some with each tick ─► index
//!   the walk over the table ───────────────────────┤
//!   the index itself, in turn ─────────────────────┘
//! ```
//! - SV1: what one tick looks at is bounded, however many chunks there are: the index is never made
//!   of the whole table in one step.
//! - SV2: all of it is soft. What was missed is found by the walk over the table, which begins when
//!   the servers have told what they hold, and never ends.

use super::handle_set::HandleSet;
use super::levels::Levels;
use crate::record::{CopyOnWrite, OpenChunk, Record, SetVersion};
use crate::rules::condition::{Condition, Undecided, condition};
use crate::rules::lacking::{ChunkNeeds, Urgency, needs};
use crate::state::{ChunkRecord, State};
use crate::stream_records::{AllocateChunk, SealChunk};
use crate::view::View;
use cairn_types::ChunkHandle;
use cairn_types::planted::{Rule, broken};
use std::collections::BTreeSet;

/// Chunks that one tick looks at: a few milliseconds (SV1).
const LOOKED_AT_MAX: usize = 2048;
/// Of these, chunks of each index.
const LOOKED_AGAIN_MAX: usize = 256;
/// Of these, chunks of the table, once each was looked at in this term.
const WALKED_MAX: usize = 256;
/// Chunks of the table until then: what a tick looks at in the first minutes of a term, in which
/// nobody knows how the cell is.
const WALKED_FIRST_MAX: usize = 8192;

const _: () = assert!(2 * LOOKED_AGAIN_MAX + WALKED_MAX < LOOKED_AT_MAX);

/// The index of chunks below their goal, that of those whose replicas ail, and what keeps them.
#[derive(Debug, Default)]
pub(super) struct Survey {
    index: Levels<Urgency>,
    conditions: Levels<Condition>,
    /// Chunks that can do without one of their replicas.
    surplus: HandleSet,
    /// Chunks whose set was logged, off the goal or no more.
    logged: BTreeSet<ChunkHandle>,
    /// Chunks that the last tick looked at: some are in several lists.
    looked_at: BTreeSet<ChunkHandle>,
    /// Where the walk over the table goes on.
    walked: ChunkHandle,
    /// It has passed all of it once.
    walked_all: bool,
    /// Where each index is looked at again.
    again: (Urgency, ChunkHandle),
    again_ailing: (Condition, ChunkHandle),
}

impl Survey {
    pub(super) fn index(&self) -> &Levels<Urgency> {
        &self.index
    }

    pub(super) fn conditions(&self) -> &Levels<Condition> {
        &self.conditions
    }

    /// What a chunk waits for before a copy of it could join its set, as it was last looked at.
    pub(super) fn undecided(&self, handle: ChunkHandle) -> Undecided {
        self.conditions.level_of(handle).map(|it| it.undecided).unwrap_or_default()
    }

    /// Whether each chunk was looked at once in this term.
    pub(super) fn has_seen_all(&self) -> bool {
        self.walked_all
    }

    /// The table has the chunk no more.
    pub(super) fn forget(&mut self, handle: ChunkHandle) {
        self.index.set(handle, None);
        self.conditions.set(handle, None);
        self.surplus.remove(handle);
        self.logged.remove(&handle);
    }

    pub(super) fn surplus(&self) -> &HandleSet {
        &self.surplus
    }

    /// A record has changed the state.
    pub(super) fn note_logged(&mut self, state: &State, record: &Record) {
        let (handle, set_size) = match *record {
            Record::SetVersion(SetVersion { handle, set_size, .. })
            | Record::OpenChunk(OpenChunk { handle, set_size, .. })
            | Record::AllocateChunk(AllocateChunk { handle, set_size, .. })
            | Record::SealChunk(SealChunk { handle, set_size, .. }) => (handle, set_size),
            Record::ReplaceRange(ref new) => (new.handle, new.set_size),
            // What is left to other files may be to have fewer.
            Record::CopyOnWrite(CopyOnWrite { shared, shared_set_size, .. }) => {
                (shared, shared_set_size)
            }
            _ => return,
        };
        // Of two that open one place the second makes no chunk.
        let Some(chunk) = state.chunk(handle) else { return };
        let ails = || self.conditions.level_of(handle).is_some();
        let is_known = || self.index.level_of(handle).is_some() || self.surplus.contains(handle);
        if set_size != chunk.goal || is_known() || ails() {
            self.logged.insert(handle);
        }
    }

    /// How many chunks the fleet may name now.
    pub(super) fn room(&self) -> usize {
        LOOKED_AT_MAX - 2 * LOOKED_AGAIN_MAX - WALKED_MAX
    }

    /// Time has passed: looks at some of what may have changed; `thinned` was named by the fleet.
    pub(super) fn pass(&mut self, view: &View<'_>, thinned: Vec<ChunkHandle>) {
        self.looked_at.clear();
        let mut left = self.room().saturating_sub(thinned.len());
        for handle in thinned {
            self.look_once(view, handle);
        }
        while left > 0
            && let Some(handle) = self.logged.pop_first()
        {
            self.look_once(view, handle);
            left -= 1;
        }
        // What comes back with a server is seen as soon as what goes with one.
        self.look_again(view, LOOKED_AGAIN_MAX + left);
        if !view.fleet.servers().is_gathering(view.now.time) {
            self.walk(view, if self.walked_all { WALKED_MAX } else { WALKED_FIRST_MAX });
        }
    }

    /// Writes down how a chunk stands, and tells it.
    pub(super) fn look_at(&mut self, view: &View<'_>, handle: ChunkHandle) -> Option<Urgency> {
        let chunk = view.state.chunk(handle);
        self.write_down(view, handle, chunk.as_ref())
    }

    /// The same, of one that this tick may have looked at: nothing has changed since then.
    fn look_once(&mut self, view: &View<'_>, handle: ChunkHandle) {
        if self.looked_at.insert(handle) {
            self.look_at(view, handle);
        }
    }

    fn write_down(
        &mut self,
        view: &View<'_>,
        handle: ChunkHandle,
        chunk: Option<&ChunkRecord>,
    ) -> Option<Urgency> {
        let needs = chunk.map(|chunk| needs(view, handle, chunk));
        let ChunkNeeds { urgency, surplus } = needs.unwrap_or_default();
        // H5 broken: who lacked a replica once counts as such for ever.
        if urgency.is_some() || !broken(Rule::H5) {
            self.index.set(handle, urgency);
        }
        if surplus {
            self.surplus.insert(handle);
        } else {
            self.surplus.remove(handle);
        }
        self.conditions.set(handle, chunk.and_then(|chunk| condition(view, handle, chunk)));
        urgency
    }

    /// Replicas come back.
    fn look_again(&mut self, view: &View<'_>, count: usize) {
        let lacking = some_of(&self.index, &mut self.again, count);
        let ailing = some_of(&self.conditions, &mut self.again_ailing, LOOKED_AGAIN_MAX);
        for handle in lacking.into_iter().chain(ailing) {
            self.look_once(view, handle);
        }
    }

    /// SV2
    fn walk(&mut self, view: &View<'_>, count: usize) {
        let mut last = None;
        for (handle, chunk) in view.state.chunks_after(self.walked).take(count) {
            if self.looked_at.insert(handle) {
                self.write_down(view, handle, Some(&chunk));
            }
            last = Some(handle);
        }
        self.walked_all |= last.is_none();
        self.walked = last.unwrap_or_default();
    }
}

/// The next of an index, in turn.
fn some_of<K: Copy + Default + Ord>(
    index: &Levels<K>,
    place: &mut (K, ChunkHandle),
    count: usize,
) -> Vec<ChunkHandle> {
    let mut some: Vec<(K, ChunkHandle)> = index.from(*place).take(count + 1).collect();
    *place = match some.len() > count {
        true => some.pop().expect("there are more than that"),
        false => Default::default(),
    };
    assert!(some.len() <= count, "what is looked at is bounded (SV1)");
    some.into_iter().map(|(_, handle)| handle).collect()
}

#[cfg(test)]
mod tests {
    use super::{ChunkHandle, Levels, Urgency, some_of};

    #[test]
    fn all_of_an_index_are_looked_at_again_in_turn_and_those_without_a_good_replica_too() {
        let mut index = Levels::default();
        let urgency =
            |number: u64| Urgency::of(u32::try_from(number % 3).expect("small"), false, 3);
        for number in 0..9 {
            index.set(ChunkHandle::new(number), Some(urgency(number)));
        }
        let (mut place, mut looked_at) = (Default::default(), Vec::new());
        for _ in 0..3 {
            looked_at.push(some_of(&index, &mut place, 4));
        }
        let all: Vec<u64> = looked_at.into_iter().flatten().map(ChunkHandle::get).collect();
        assert_eq!(all, [0, 3, 6, 1, 4, 7, 2, 5, 8]);
        assert_eq!(some_of(&index, &mut place, 1), [ChunkHandle::new(0)], "and once more");
    }
}
