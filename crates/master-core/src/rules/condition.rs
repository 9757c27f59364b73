//! What ails a chunk's replicas, beside how many good ones it lacks (`lacking.rs`).

use super::members::current;
use crate::fleet::{KnownReplica, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, ServerId};

/// One chunk's; nearly all are well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Condition {
    /// No server that is not dead has an up-to-date replica.
    pub(crate) unavailable: bool,
    /// A replica has blocks that do not match their checksums.
    pub(crate) damaged: bool,
    /// A replica may have lost bytes in a power failure.
    pub(crate) suspect: bool,
    /// A replica is there that the others have gone on without.
    pub(crate) stale: bool,
}

/// How a chunk's replicas are; none: all is well with them.
pub(crate) fn condition(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Option<Condition> {
    let up_to_date: Vec<(ServerId, KnownReplica)> = current(view, handle, chunk).collect();
    let told = view.fleet.locations().of(handle).count();
    assert!(told >= up_to_date.len(), "what is up to date was told of");
    // While a lease is live its replicas tell at different times how far they are (R29).
    let leased = view.leases.possible(handle, view.now.time).is_some();
    let condition = Condition {
        unavailable: up_to_date.is_empty(),
        damaged: up_to_date.iter().any(|(_, replica)| replica.damaged),
        suspect: up_to_date.iter().any(|(_, replica)| replica.suspect && !replica.damaged),
        stale: told > up_to_date.len() || (!leased && !behind(&up_to_date).is_empty()),
    };
    (condition != Condition::default()).then_some(condition)
}
