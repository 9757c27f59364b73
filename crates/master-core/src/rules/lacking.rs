//! Whether a chunk lacks replicas, and how urgently it needs another (GFS §4.3).
//!
//! A replica counts whose server is not dead, silent or not; which is up to date; and which is not
//! known to have lost or bent anything. A server that is silent for a moment costs nothing.

use super::members::current;
use crate::fleet::{KnownReplica, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, ServerId};
use std::cmp::Reverse;

/// How urgently a chunk needs another replica: the fewer it has the more; of those that have as
/// many, live files before deleted ones; then those first that lack the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency {
    pub(crate) good: u32,
    pub(crate) hidden: bool,
    goal: Reverse<u32>,
}

impl Urgency {
    /// Of a chunk with so many good replicas, whose file is deleted or not.
    pub(crate) fn of(good: u32, hidden: bool, goal: u32) -> Self {
        assert!(good < goal, "one that has its goal lacks nothing");
        Self { good, hidden, goal: Reverse(goal) }
    }

    pub(crate) fn goal(self) -> u32 {
        self.goal.0
    }
}

/// How urgently a chunk lacks replicas; none: it has its goal.
pub(crate) fn lacking(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Option<Urgency> {
    let good = u32::try_from(good(view, handle, chunk).len()).expect("a cell has few servers");
    if good >= chunk.goal {
        return None;
    }
    Some(Urgency::of(good, view.state.is_hidden(chunk.file), chunk.goal))
}

/// The replicas that count, in order of server.
pub(crate) fn good(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Vec<(ServerId, KnownReplica)> {
    let up_to_date: Vec<(ServerId, KnownReplica)> = current(view, handle, chunk).collect();
    // While a lease is live its replicas tell at different times how far they are (R29).
    let leased = view.leases.possible(handle, view.now.time).is_some();
    let stale = if leased { Vec::new() } else { behind(&up_to_date) };
    let counts = |(server, replica): &(ServerId, KnownReplica)| {
        replica.is_sound() && !stale.contains(server)
    };
    up_to_date.into_iter().filter(counts).collect()
}
