//! Whether a chunk needs another replica, and how urgently (GFS §4.3); or can do without one.

use super::good_replicas::{counted, judged};
use super::members::current;
use super::placement::has_room_elsewhere;
use super::surplus::has_surplus;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::CopyNeed;
use cairn_types::{ChunkHandle, ServerId};
use std::cmp::Reverse;

/// How urgently a chunk needs another replica: those that lack one for good before those of which a
/// server is to be emptied, and these before those that stand in one rack; the fewer it has the
/// more; of those that have as many, live files before deleted ones; then those first that lack the
/// most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency {
    pub(crate) need: CopyNeed,
    pub(crate) good: u32,
    pub(crate) hidden: bool,
    goal: Reverse<u32>,
    copies: Reverse<u32>,
}

/// None comes before it: whoever begins with it passes all.
impl Default for Urgency {
    fn default() -> Self {
        let most = Reverse(u32::MAX);
        Self { need: CopyNeed::default(), good: 0, hidden: false, goal: most, copies: most }
    }
}

impl Urgency {
    /// Of a chunk with so many good replicas, whose file is deleted or not.
    pub(crate) fn of(good: u32, hidden: bool, goal: u32) -> Self {
        assert!(good < goal, "one that has its goal lacks nothing");
        let (need, copies) = (CopyNeed::Lack, Reverse(goal - good));
        Self { need, good, hidden, goal: Reverse(goal), copies }
    }

    pub(crate) fn goal(self) -> u32 {
        self.goal.0
    }

    /// Whether a good replica counts for nothing: its server is to be emptied.
    pub(crate) fn counts_not_all(self) -> bool {
        let all = self.goal().saturating_sub(self.good);
        self.need != CopyNeed::Rack && self.copies() > all
    }

    /// The first of those that lack a replica and have one to copy, as they are ordered.
    pub(crate) fn first_with_source() -> Self {
        Self { need: CopyNeed::Lack, good: 1, ..Self::default() }
    }

    /// The first of those that lack none but elsewhere than on servers to be emptied.
    pub(crate) fn first_to_be_drained() -> Self {
        Self { need: CopyNeed::Drain, ..Self::default() }
    }

    /// How many are to be made.
    pub(crate) fn copies(self) -> u32 {
        self.copies.0
    }
}

/// What a chunk needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkNeeds {
    /// Another replica.
    pub(crate) urgency: Option<Urgency>,
    /// One less.
    pub(crate) surplus: bool,
}

/// What a chunk needs.
pub(crate) fn needs(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> ChunkNeeds {
    let mut judged = judged(view, handle, chunk);
    let sure = counted(view, &judged.good).len();
    let surplus = has_surplus(view, (handle, chunk), (&judged, sure));
    // What a silent server has is not copied before it is dead.
    judged.good.append(&mut judged.unheard);
    let counted = counted(view, &judged.good);
    let count = |count: usize| u32::try_from(count).expect("a cell has few servers");
    let (good, counts) = (count(judged.good.len()), count(counted.len()));
    let hidden = || view.state.sharing().is_hidden(handle, chunk);
    let urgency = if good == 0 && is_left_suspect(view, handle, chunk) {
        None
    } else if good < chunk.goal {
        let copies = Reverse(chunk.goal - counts);
        Some(Urgency { copies, ..Urgency::of(good, hidden(), chunk.goal) })
    } else if counts < chunk.goal {
        let (need, copies) = (CopyNeed::Drain, Reverse(chunk.goal - counts));
        Some(Urgency { need, good, hidden: hidden(), goal: Reverse(chunk.goal), copies })
    } else if counts == chunk.goal && is_in_one_rack(view, &counted) && !hidden() {
        let (need, copies) = (CopyNeed::Rack, Reverse(1));
        Some(Urgency { need, good, hidden: false, goal: Reverse(chunk.goal), copies })
    } else {
        None
    };
    ChunkNeeds { urgency, surplus }
}

/// Whether a chunk is a deleted file's, and suspects are all there is of it: it gets no lease, so
/// none becomes current, and none is copied, before it is brought back (R20, R28).
pub(crate) fn is_left_suspect(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> bool {
    let suspects = current(view, handle, chunk).any(|(_, it)| it.suspect && !it.damaged);
    suspects && view.state.sharing().is_hidden(handle, chunk)
}

/// How urgently a chunk lacks replicas; none: it has its goal.
pub(crate) fn lacking(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Option<Urgency> {
    needs(view, handle, chunk).urgency
}

/// Whether all of a chunk's replicas stand in one rack while another has room for one.
fn is_in_one_rack(view: &View<'_>, counted: &[ServerId]) -> bool {
    let servers = view.fleet.servers();
    if counted.len() < 2 || !servers.has_racks() {
        return false;
    }
    let mut racks = counted.iter().filter_map(|server| servers.at(*server)).map(|at| &at.rack);
    let Some(first) = racks.next() else { return false };
    racks.all(|rack| rack == first) && has_room_elsewhere(view, first)
}
