//! Which replicas may make up a chunk's set, and what forbids it (R9, R11, R22, R28).
//!
//! - T1: nobody outside the set may still act under an older lease, known or not.
//! - T2: a set is never smaller than two, where goal and logged size allow two, nor smaller than
//!   the logged one while a missing member is waited for (`members.rs`); but for one that the
//!   master decides on (`decided_set.rs`).
//! - T3: who is given up (`troubles.rs`) is not raised, where the set can do without.

use super::decided_set::{PlannedDecision, SetDecision, decide, is_doubted_part};
use super::good_replicas::{JudgedReplicas, judged};
use super::members::{current, former_holder_unknown, least_of, missing_is_awaited};
use crate::fleet::KnownReplica;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::ServerState;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt, ServerId, Time};

/// What keeps a chunk from being leased.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) why: String,
    /// The master has just started and servers are still joining: an append waits too.
    pub(crate) starting: bool,
}

/// A live replica, and the version that it stands at.
pub(crate) type LiveMember = (ReplicaAt, ChunkVersion);

/// Whom to raise for a lease, or what forbids it (T1, T2).
pub(crate) fn plan_raise(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Result<Vec<LiveMember>, Blocked> {
    plan(view, (handle, chunk), 0)
}

/// Whom to raise together with a clone that joins them, or what forbids it (T1, T2, R30). Nobody
/// may have a lease, known or not: whoever had one would change what the clone was told to be
/// equal to.
pub(crate) fn plan_growth(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Result<Vec<LiveMember>, Blocked> {
    let starting = view.term.is_starting(view.now.time);
    if view.leases.possible(handle, view.now.time).is_some() && !broken(Rule::R30) {
        return Err(Blocked { why: "it is leased".to_owned(), starting });
    }
    if view.state.streams().open_chunk(handle).is_some() {
        let why = "a producer writes it: it is sealed first".to_owned();
        return Err(Blocked { why, starting });
    }
    if former_holder_unknown(view, handle, chunk) {
        let why = "a lease of an earlier term may still run".to_owned();
        return Err(Blocked { why, starting });
    }
    let members = plan(view, (handle, chunk), 1)?;
    let servers: Vec<ServerId> = members.iter().map(|(at, _)| at.server).collect();
    if growth_sheds(view, (handle, chunk), &servers) {
        let why = "a member that is silent costs nothing before it is dead".to_owned();
        return Err(Blocked { why, starting });
    }
    Ok(members)
}

/// Whether a replica that is good, or may be, is not among these although its server is not dead:
/// nobody waits for a clone as clients do for a lease, so it is no reason to leave anybody out, but
/// who was given up.
pub(crate) fn growth_sheds(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
) -> bool {
    let state = |server| view.fleet.servers().state(view.now.time, server);
    let is_missed = |server: ServerId| {
        let is_there = matches!(state(server), Some(ServerState::Live | ServerState::Silent));
        is_there && !servers.contains(&server) && !view.troubles.is_given_up(handle, server)
    };
    let JudgedReplicas { good, unheard, .. } = judged(view, handle, chunk);
    let sheds = good.iter().chain(&unheard).any(|(server, _)| is_missed(*server));
    sheds && !broken(Rule::R11)
}

/// The same, where so many clones join.
fn plan(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    joining: usize,
) -> Result<Vec<LiveMember>, Blocked> {
    let decided = match decide(view, handle, chunk) {
        _ if broken(Rule::R11) => None,
        SetDecision::NotNeeded => None,
        SetDecision::At(at) => return Err(undecided(view, at)),
        SetDecision::LeftToPerson(server) => return Err(left_to_person(view, handle, server)),
        SetDecision::Set(set) => Some(set),
    };
    let mut usable: Vec<(ServerId, KnownReplica)> = match &decided {
        // A person may choose one that is stale.
        Some(set) => view.fleet.locations().of(handle).filter(|(at, _)| set.contains(at)).collect(),
        None => current(view, handle, chunk).filter(|(_, replica)| replica.is_sound()).collect(),
    };
    if usable.is_empty() {
        // R28: with every member heard of and none sound, the suspects are all there is.
        let suspects = current(view, handle, chunk).filter(|(_, replica)| !replica.damaged);
        let suspects: Vec<(ServerId, KnownReplica)> = suspects.collect();
        if suspects.len() >= chunk.set_size as usize {
            usable = suspects;
        }
    }
    if decided.is_none() && !broken(Rule::R11) {
        let kept = |server| !view.troubles.is_given_up(handle, server);
        let count = usable.iter().filter(|(server, _)| kept(*server)).count();
        if count + joining >= least_of(view, handle, chunk) {
            // T3
            usable.retain(|(server, _)| kept(*server));
        }
    }
    let members = live_members(view, usable);
    let servers: Vec<ServerId> = members.iter().map(|(at, _)| at.server).collect();
    may_be_grown_set(view, (handle, chunk), &servers, joining)?;
    if decided.is_none() && is_doubted_part(view, (handle, chunk), &servers) {
        return Err(doubted(view, servers.len(), chunk));
    }
    assert!(!members.is_empty(), "no set is empty (T2)");
    Ok(members)
}

/// Those of these replicas whose servers are live, and where they are.
pub(crate) fn live_members(
    view: &View<'_>,
    replicas: impl IntoIterator<Item = (ServerId, KnownReplica)>,
) -> Vec<LiveMember> {
    let servers = view.fleet.servers();
    let live = replicas.into_iter().filter(|(id, _)| servers.is_live(view.now.time, *id));
    let at = |id| servers.at(id).expect("a live server is known").clone();
    live.map(|(id, replica)| (at(id), replica.version)).collect()
}

/// Why suspects that are not all of a set are none (R28).
fn doubted(view: &View<'_>, size: usize, chunk: &ChunkRecord) -> Blocked {
    let why = format!(
        "{size} replicas of {} may have lost bytes, and one that is not among them may have more",
        chunk.set_size
    );
    Blocked { why, starting: view.term.is_starting(view.now.time) }
}

/// Why a chunk waits for the master's decision.
fn undecided(view: &View<'_>, at: Time) -> Blocked {
    let left = at.since(view.now.time).as_millis();
    let why = format!(
        "too few replicas hold for certain all that was acknowledged; in {left} ms the best of \
         them become the set, or at once by 'cairn recover'"
    );
    Blocked { why, starting: view.term.is_starting(view.now.time) }
}

/// Why a chunk waits for a person's decision.
fn left_to_person(view: &View<'_>, handle: ChunkHandle, server: ServerId) -> Blocked {
    let why = format!(
        "the replica of {} has bad blocks and holds more than all others, or could not be read and \
         may; it can be read in part and copied with 'cairn cp', or 'cairn recover {}' goes on \
         without what it alone has",
        view.fleet.at(server).map(|at| at.address.as_str()).unwrap_or_default(),
        handle.short()
    );
    Blocked { why, starting: view.term.is_starting(view.now.time) }
}

/// Whether these replicas may become the chunk's set under a new lease.
pub(crate) fn may_be_set(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
    servers: &[ServerId],
) -> Result<(), Blocked> {
    may_be_grown_set(view, (handle, chunk), servers, 0)
}

/// The same of those that were raised, as it was planned before.
pub(crate) fn may_be_raised_set(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
    planned: PlannedDecision,
) -> Result<(), Blocked> {
    may_be_set(view, handle, chunk, servers)?;
    match planned.is_doubted(view, (handle, chunk), servers) {
        true => Err(doubted(view, servers.len(), chunk)),
        false => Ok(()),
    }
}

/// Whether these replicas, and so many clones that join them, may become the chunk's set. A clone
/// stands in for no member that is waited for: it knows no more than those here.
pub(crate) fn may_be_grown_set(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
    joining: usize,
) -> Result<(), Blocked> {
    let now = view.now.time;
    let blocked = |why: String| Err(Blocked { why, starting: view.term.is_starting(now) });
    // T1, R22: nobody else may still act under an older lease.
    if let Some(lease) = view.leases.possible(handle, now)
        && !servers.contains(&lease.holder.server)
    {
        let left = lease.until.since(now).as_millis();
        let holder = &lease.holder.address;
        return blocked(format!("a lease of {holder}, which does not answer, runs {left} ms"));
    }
    let (size, logged) = (servers.len(), chunk.set_size as usize);
    // Of those that a person chose instead of the set's, none need be who held it.
    let of_set = |server| current(view, handle, chunk).any(|(at, _)| at == server);
    let all_there = size >= logged && servers.iter().all(|server| of_set(*server));
    let old_holder_unknown = !all_there && former_holder_unknown(view, handle, chunk);
    if old_holder_unknown && !broken(Rule::R22) {
        return blocked("a lease of an earlier term may still run".to_owned());
    }
    if decide(view, handle, chunk) == SetDecision::Set(servers.to_vec()) {
        return Ok(());
    }
    let least = if broken(Rule::R11) { 1 } else { least_of(view, handle, chunk) };
    if size + joining < least || size == 0 {
        return blocked(format!("{size} usable replicas of {logged}; {least} are needed"));
    }
    let not_waited_for = broken(Rule::R11) || (broken(Rule::R22) && old_holder_unknown);
    if size < logged && !not_waited_for && missing_is_awaited(view, (handle, chunk), servers) {
        let missing = logged - size;
        return blocked(format!("{missing} replicas of {logged} are missing and waited for"));
    }
    Ok(())
}
