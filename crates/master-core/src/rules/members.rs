//! A chunk's members: who is up to date, who may still come, who may still act (R9, R11, R22).

use super::commit_replicas::one_will_do;
use super::lacks_committed::all_lack_committed;
use crate::fleet::KnownReplica;
use crate::leases::GrantedLease;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::ServerState;
use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt, ServerId};

/// Where the replicas have to stand that are up to date: at the logged version; in a new history,
/// where the log may lack later ones, at the highest that was given out before it, once all who may
/// know of one have told (R9).
fn up_to_date_at(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Option<ChunkVersion> {
    let (logged, began) = (chunk.version, view.state.history_began());
    if logged.term() >= began {
        return Some(logged);
    }
    if view.fleet.servers().is_telling(view.now.time) {
        return None;
    }
    let told = view.fleet.locations().of(handle).map(|(_, replica)| replica.version);
    let before = told.filter(|version| version.term() < began);
    let at = before.fold(logged, ChunkVersion::max);
    assert!(at.term() < began, "what this history raised is logged in it (R8)");
    Some(at)
}

/// Replicas that stand there or above (R9).
pub(crate) fn current(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> impl Iterator<Item = (ServerId, KnownReplica)> {
    let up_to_date_at = up_to_date_at(view, handle, chunk);
    let is_current =
        move |replica: &KnownReplica| up_to_date_at.is_some_and(|at| replica.is_current(at));
    view.fleet.locations().of(handle).filter(move |(_, replica)| is_current(replica))
}

/// The fewest replicas that a set may have (R11); a chunk that was created smaller stays usable.
pub(crate) fn least_set(chunk: &ChunkRecord) -> usize {
    2.min(chunk.goal).min(chunk.set_size).max(1) as usize
}

/// The same, of a chunk that a producer may be writing, of which the log knows how much counts: one
/// will do where its stream commits what one holds, or where the servers of the others are dead.
pub(crate) fn least_of(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> usize {
    let one_does = one_will_do(view, handle, chunk) || is_left_with_all(view, handle, chunk);
    if one_does { 1 } else { least_set(chunk) }
}

/// Whether of a chunk that a producer may be writing one replica is left, with all that is
/// committed of it: no copy joins before it is sealed, so nobody else will ever be of its set.
fn is_left_with_all(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> bool {
    if view.state.streams().open_chunk(handle).is_none() {
        return false;
    }
    let left: Vec<(ServerId, KnownReplica)> = current(view, handle, chunk).collect();
    let [(server, replica)] = &left[..] else { return false };
    let may_come = || {
        missing_may_come(view, handle, chunk)
            || missing_is_awaited(view, (handle, chunk), &[*server])
    };
    replica.is_sound() && !all_lack_committed(view, handle, &left) && !may_come()
}

/// R22: whether a lease that this term does not know may be live.
pub(crate) fn former_holder_unknown(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> bool {
    let longest = view.term.config.longest_lease();
    chunk.version.term() < view.term.number
        && view.now.time < view.term.started + longest
        && view.leases.get(handle).is_none()
}

/// R11: whether a member that is not here may still come. Which servers made up the set is not
/// logged: in the first while of a term anybody may. A suspect one is waited for only where none
/// is sound: then it may be the one that lost nothing (R28).
pub(crate) fn missing_may_come(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> bool {
    let now = view.now.time;
    let none_sound = !current(view, handle, chunk).any(|(_, replica)| replica.is_sound());
    let holds = |server| {
        let replica = view.fleet.locations().get(handle, server);
        replica.is_some_and(|replica| {
            let wanted = replica.is_sound() || (none_sound && !replica.damaged);
            wanted && replica.is_current(chunk.version)
        })
    };
    now < view.term.started + view.term.dead() || view.fleet.servers().may_tell_more(now, holds)
}

/// R11: whether a lease waits for a member of the set that is not among `servers`. A silent one is
/// waited for until a lease after its last word, and so is one that lives and is late with raises
/// of this chunk; a dead one is not, nor one whom two primaries could not reach. Where none is
/// sound, a silent one is waited for until it is dead: it may be the one that lost nothing (R28).
pub(crate) fn missing_is_awaited(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
) -> bool {
    let (now, fleet) = (view.now.time, view.fleet.servers());
    let known = current(view, handle, chunk);
    if now < view.term.started + view.term.dead() && known.count() < chunk.set_size as usize {
        // Which servers made up the set is not logged: anybody may.
        return true;
    }
    let none_sound = !current(view, handle, chunk).any(|(_, replica)| replica.is_sound());
    let wanted = |replica: &KnownReplica| replica.is_sound() || (none_sound && !replica.damaged);
    let awaited = |server: ServerId| match fleet.state(now, server) {
        Some(ServerState::Live) => view.troubles.is_late(handle, server),
        Some(ServerState::Silent) => {
            none_sound || fleet.is_heard_within(now, server, view.term.config.lease())
        }
        Some(ServerState::Dead) | None => false,
    };
    let mut missing = current(view, handle, chunk)
        .filter(|(server, replica)| wanted(replica) && !servers.contains(server));
    let given_up = |server| view.troubles.is_given_up(handle, server);
    missing.any(|(server, _)| awaited(server) && !given_up(server)) || fleet.is_telling(now)
}

/// The holder's secondaries. Under a lease from an earlier term: whoever stands at the logged
/// version, once all of them have told (R8: nobody else ever saw it).
pub(crate) fn secondaries_of(
    view: &View<'_>,
    handle: ChunkHandle,
    lease: &GrantedLease,
    chunk: &ChunkRecord,
) -> Option<Vec<ReplicaAt>> {
    if let Some(secondaries) = &lease.secondaries {
        return Some(secondaries.clone());
    }
    let others = view.fleet.locations().of(handle).filter(|(server, replica)| {
        replica.version == lease.version && *server != lease.holder.server
    });
    let others: Vec<ReplicaAt> =
        others.filter_map(|(server, _)| view.fleet.at(server).cloned()).collect();
    assert!(!others.contains(&lease.holder), "the holder is not its own secondary");
    (others.len() + 1 == chunk.set_size as usize).then_some(others)
}
