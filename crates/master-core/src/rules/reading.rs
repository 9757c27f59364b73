//! Where readers are sent (§2.4, §4.5): up-to-date replicas that stand at one version.
//!
//! A reader names one version, and a replica serves no other (R12). With a lease live that is the
//! lease's. Without one, replicas above the logged version are as good as those at it (R9): the
//! version that most of them stand at is the one to ask for.

use super::lacks_committed::lacking_committed;
use super::members::{former_holder_unknown, secondaries_of};
use super::same_bytes::current_by_bytes;
use crate::fleet::{KnownReplica, behind};
use crate::leases::GrantedLease;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{ChunkLocations, ServerState};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, EntryId, ReplicaAt, SerialNumber, ServerId};

/// Servers that are named as those that may hold what can be read nowhere.
const LOST_MAX: usize = 8;

/// Where a chunk can be read; nowhere, if nobody who has it can be reached.
pub(crate) fn locations(view: &View<'_>, handle: ChunkHandle) -> ChunkLocations {
    locations_of(view, handle, view.state.chunk(handle))
}

/// Where a file's chunk can be read, as found for the chunk alone.
///
/// While the file is given a copy of its own (R32), nowhere: the replicas of the shared chunk stand
/// at the version already at which the others go on, and whoever had been told it as this file's
/// would not be refused once the copy is written to (R12).
pub(crate) fn of_file(view: &View<'_>, file: EntryId, found: ChunkLocations) -> ChunkLocations {
    if view.underway.is_copied_for(file, found.handle) && !broken(Rule::R32) {
        return ChunkLocations { replicas: Vec::new(), primary: None, ..found };
    }
    found
}

/// The same as [`locations`], of chunks looked up together; of those that are not there, nothing
/// known.
pub(crate) fn locations_each(view: &View<'_>, handles: &[ChunkHandle]) -> Vec<ChunkLocations> {
    let chunks = view.state.chunk_each(handles);
    view.fleet.locations().touch(handles);
    let each = std::iter::zip(handles, chunks);
    each.map(|(handle, chunk)| locations_of(view, *handle, chunk)).collect()
}

fn locations_of(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: Option<ChunkRecord>,
) -> ChunkLocations {
    // Of a chunk without a record nobody knows where it is.
    let Some(chunk) = chunk else { return ChunkLocations::default() };
    let lease = view.leases.serving(handle, view.now.time);
    let (version, servers) = match lease {
        Some(lease) => (lease.version, of_lease(view, handle, lease, &chunk)),
        None => without_lease(view, handle, &chunk),
    };
    let replicas = best_first(view, servers);
    let lost = if replicas.is_empty() { lost(view, handle, &chunk) } else { Vec::new() };
    ChunkLocations {
        index: chunk.index,
        handle,
        version,
        closed: chunk.closed,
        replicas,
        primary: lease.map(|lease| lease.holder.server),
        lost,
    }
}

/// Whose return is waited for where a chunk can be read nowhere: the servers that held it when they
/// died; else those that have not come back since the master started. None while anybody who is
/// there may still tell of a replica.
fn lost(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> Vec<ReplicaAt> {
    let (now, servers) = (view.now.time, view.fleet.servers());
    let locations = view.fleet.locations();
    let holds = |server| locations.get(handle, server).is_some();
    if view.term.is_starting(now) || servers.may_tell_more(now, holds) {
        return Vec::new();
    }
    // What it held is buried only with the next tick.
    let unburied = locations.of(handle).filter(|(server, _)| is_dead(view, *server));
    let held = locations.lost(handle).chain(unburied);
    let held = held.filter(|(_, replica)| replica.is_current(chunk.version));
    let held: Vec<ReplicaAt> =
        held.filter_map(|(server, _)| Some(servers.get(server)?.at.clone())).collect();
    if held.is_empty() { servers.absent(now).take(LOST_MAX).cloned().collect() } else { held }
}

fn is_dead(view: &View<'_>, server: ServerId) -> bool {
    view.fleet.servers().state(view.now.time, server) == Some(ServerState::Dead)
}

/// Whether a lease is live, whose holder alone knows the acknowledged length.
pub(crate) fn is_leased(view: &View<'_>, handle: ChunkHandle) -> bool {
    view.leases.serving(handle, view.now.time).is_some()
}

/// The holder and its secondaries, and whether each is sound. One that joined anew since the
/// grant may have been set back (R29); the next mutation will tell, readers need not find out.
fn of_lease(
    view: &View<'_>,
    handle: ChunkHandle,
    lease: &GrantedLease,
    chunk: &ChunkRecord,
) -> Vec<ReadCandidate> {
    let secondaries = secondaries_of(view, handle, lease, chunk).unwrap_or_default();
    let as_granted = |server: &ServerId| {
        let joined = view.fleet.servers().get(*server).map(|server| server.joined);
        lease.adopted || broken(Rule::R29) || joined.is_some_and(|joined| joined <= lease.granted)
    };
    let set = secondaries.iter().map(|at| at.server).filter(as_granted);
    let known = |server: ServerId| {
        let replica = view.fleet.locations().get(handle, server);
        ReadCandidate { server, sound: replica.is_none_or(|replica| replica.is_sound()) }
    };
    std::iter::once(lease.holder.server).chain(set).map(known).collect()
}

fn without_lease(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> (ChunkVersion, Vec<ReadCandidate>) {
    let mut replicas = current_by_bytes(view, handle, chunk);
    if !former_holder_unknown(view, handle, chunk) {
        // Nearly always all go equally far: then nobody has to be asked who is reached.
        let all_have_one = |of: fn(&KnownReplica) -> u64| {
            replicas.windows(2).all(|pair| of(&pair[0].1) == of(&pair[1].1))
        };
        let differ = !all_have_one(|replica| replica.serial.get());
        let at_one_version = all_have_one(|replica| replica.version.get());
        if differ || !at_one_version || !behind(&replicas).is_empty() {
            // Dead by the clock, and buried only with the next tick: nobody is behind it any more.
            replicas.retain(|(server, _)| !is_dead(view, *server));
        }
        let left_behind = behind(&replicas);
        replicas.retain(|(server, _)| !left_behind.contains(server));
        if differ {
            let furthest = furthest_live(view, &replicas);
            replicas.retain(|(_, replica)| replica.serial >= furthest || broken(Rule::R29));
            let lacking = lacking_committed(view, handle, &replicas);
            replicas.retain(|(server, _)| !lacking.contains(server));
        }
    }
    let worth = |version: ChunkVersion| {
        let of_it = replicas.iter().filter(|(_, replica)| replica.version == version);
        let live = of_it.filter(|(at, _)| view.fleet.servers().is_live(view.now.time, *at));
        let sound = live.clone().filter(|(_, replica)| replica.is_sound()).count();
        // Where none is sound: who has the most, and of these who has no bad blocks.
        let most = live.clone().map(|(_, replica)| replica.serial).max();
        let whole = live.clone().filter(|(_, replica)| !replica.damaged).count();
        (sound, most, whole, live.count(), version)
    };
    let mut versions = replicas.iter().map(|(_, replica)| replica.version);
    let Some(first) = versions.next() else { return (chunk.version, Vec::new()) };
    // Nearly always: all replicas of a chunk that nobody changes are alike.
    let best = match versions.all(|version| version == first) {
        true => first,
        false => {
            let worths = replicas.iter().map(|(_, replica)| worth(replica.version));
            worths.max().map_or(first, |(.., version)| version)
        }
    };
    let of_it = replicas.into_iter().filter(|(_, replica)| replica.version == best);
    let candidate =
        |(server, replica): (_, KnownReplica)| ReadCandidate { server, sound: replica.is_sound() };
    (best, of_it.map(candidate).collect())
}

/// How far the furthest of those goes that readers can reach and whose bytes are not in doubt. What
/// it has may be acknowledged though nobody is left who knows: until one that has less is levelled,
/// no reader is sent there (R16).
fn furthest_live(view: &View<'_>, replicas: &[(ServerId, KnownReplica)]) -> SerialNumber {
    let (now, servers) = (view.now.time, view.fleet.servers());
    let live = replicas.iter().filter(|(at, it)| it.is_sound() && servers.is_live(now, *at));
    live.map(|(_, replica)| replica.serial).max().unwrap_or_default()
}

/// Live servers; a silent, suspect or damaged one only where no other is.
fn best_first(view: &View<'_>, mut candidates: Vec<ReadCandidate>) -> Vec<ReplicaAt> {
    candidates.sort_unstable_by_key(|candidate| candidate.server);
    let mut best = Vec::with_capacity(candidates.len());
    let mut best_yet = (false, false);
    for ReadCandidate { server, sound } in candidates {
        // Readers are sent to nobody who is dead or has not joined.
        let known = view.fleet.servers().state_and_place(view.now.time, server);
        let Some((state, at)) = known else { continue };
        if state == ServerState::Dead {
            continue;
        }
        // R28: who may have lost bytes is read from only where nobody else can be; readers
        // choose by distance, so it must not even be named.
        let worth = (state == ServerState::Live, sound);
        if worth > best_yet {
            best.clear();
            best_yet = worth;
        }
        if worth == best_yet {
            best.push(at.clone());
        }
    }
    best
}

/// A server that readers may be sent to.
#[derive(Clone, Copy, Debug)]
struct ReadCandidate {
    server: ServerId,
    /// What is known of its replica there.
    sound: bool,
}
