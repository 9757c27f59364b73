//! A chunk's good replicas: those that copies are made from, and those that count for its goal.
//!
//! A replica is good whose server is not dead, silent or not; which is up to date; and which is not
//! known to have lost or bent anything. A server that is silent for a moment costs nothing. On a
//! server that is being drained it is as good, and counts for nothing: it is about to go. One that
//! is up to date and known to have lost or bent something is bad. One that is behind by what its
//! server, now silent, told while there was a lease may have gone on with the others: it is
//! neither. Where enough are good, no copy is made in its place before its server tells or is dead.

use super::same_bytes::current_by_bytes;
use crate::fleet::{KnownReplica, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, ServerId};

/// Good replicas that a chunk can go on with (R11): while another is silent, or where a bad one
/// stands in the way.
pub(super) const GOOD_LEAST: usize = 2;

/// A chunk's up-to-date replicas, each in order of server; what is behind is none of these.
#[derive(Debug)]
pub(crate) struct JudgedReplicas {
    pub(crate) good: Vec<(ServerId, KnownReplica)>,
    pub(crate) bad: Vec<(ServerId, KnownReplica)>,
    /// Sound, and perhaps as far as the good ones, of which there are enough: their servers are
    /// silent since before all was quiet.
    pub(crate) unheard: Vec<(ServerId, KnownReplica)>,
}

/// Tells the good ones from the bad ones.
pub(crate) fn judged(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> JudgedReplicas {
    let up_to_date = current_by_bytes(view, handle, chunk);
    // While a lease is live its replicas tell at different times how far they are (R29).
    let leased = view.leases.possible(handle, view.now.time).is_some();
    let stale = if leased { Vec::new() } else { behind(&up_to_date) };
    let (sound, bad): (Vec<_>, Vec<_>) =
        up_to_date.into_iter().partition(|(_, replica)| replica.is_sound());
    let (mut unheard, good): (Vec<_>, Vec<_>) =
        sound.into_iter().partition(|(server, _)| stale.contains(server));
    unheard.retain(|(server, replica)| {
        let is_silent = !view.fleet.servers().is_live(view.now.time, *server);
        good.len() >= GOOD_LEAST && is_silent && !has_told_last(view, handle, replica)
    });
    JudgedReplicas { good, bad, unheard }
}

/// Whose replicas are behind by their own last word. One that has told nothing since the last lease
/// ended may have all that the others have: a server that was primary and came back tells at once,
/// the others with their next heartbeats.
pub(super) fn told_behind(
    view: &View<'_>,
    handle: ChunkHandle,
    up_to_date: &[(ServerId, KnownReplica)],
) -> Vec<ServerId> {
    let stale = behind(up_to_date);
    let told = up_to_date
        .iter()
        .filter(|(server, it)| stale.contains(server) && has_told_last(view, handle, it));
    told.map(|(server, _)| *server).collect()
}

/// Whether this was told since nobody mutates the chunk any more: its bytes stay so.
fn has_told_last(view: &View<'_>, handle: ChunkHandle, replica: &KnownReplica) -> bool {
    // The end of a lease may not have been noted yet.
    view.leases.get(handle).is_none() && replica.reported >= view.fleet.locations().quiet(handle)
}

/// The good ones, in order of server.
pub(crate) fn good(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Vec<(ServerId, KnownReplica)> {
    judged(view, handle, chunk).good
}

/// The servers of those of them that count for the goal.
pub(crate) fn counted(view: &View<'_>, good: &[(ServerId, KnownReplica)]) -> Vec<ServerId> {
    let servers = good.iter().map(|(server, _)| *server);
    servers.filter(|server| !view.state.known_servers().duties().is_draining(*server)).collect()
}
