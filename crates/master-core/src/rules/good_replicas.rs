//! A chunk's good replicas: those that copies are made from, and those that count for its goal.
//!
//! A replica is good whose server is not dead, silent or not; which is up to date; and which is not
//! known to have lost or bent anything. A server that is silent for a moment costs nothing. On a
//! server that is being drained it is as good, and counts for nothing: it is about to go.

use super::members::current;
use crate::fleet::{KnownReplica, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, ServerId};

/// The good ones, in order of server.
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

/// The servers of those of them that count for the goal.
pub(crate) fn counted(view: &View<'_>, good: &[(ServerId, KnownReplica)]) -> Vec<ServerId> {
    let servers = good.iter().map(|(server, _)| *server);
    servers.filter(|server| !view.state.known_servers().duties().is_draining(*server)).collect()
}
