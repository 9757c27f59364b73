//! Whether a chunk has a replica that it does not need, and which one goes (GFS §4.3).
//!
//! - SP1: of the replicas that are good and whose servers are not being drained, as many as the
//!   goal stay (R11).
//! - SP2: whoever goes takes no rack away that the chunk can keep: of those on servers that are not
//!   drained, one of the rack with the most goes, and there one on the fullest server. Where they
//!   are about as full, of one chunk it is this one and of the next another: where many chunks have
//!   one too many all at once, each server keeps its part.
//! - SP3: a bad replica goes before any good one: where the chunk has its goal without it, or where
//!   it stands in the way. It does where no server could take a good one, nor one that is silent
//!   might when it is back; then two good ones are enough to go on with. They alone are raised, the
//!   bad one is stale by that and goes (GB2), and there is room for a good one again.

use super::decided_set::{SetDecision, decide};
use super::good_replicas::{GOOD_LEAST, JudgedReplicas, counted, good, judged};
use super::members::{current, former_holder_unknown};
use super::placement::is_room_nowhere_else;
use super::replica_set::{Blocked, LiveMember, live_members, may_be_set};
use super::server_use::use_ppm;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, Rack, Random, ServerId};
use std::collections::BTreeSet;

/// Servers that are as near in use, in millionths of their capacity, are equally full (SP2): what
/// they tell lags behind what has been left out there.
const AS_FULL_PPM: u64 = 10_000;

/// Whether one of its replicas can go (SP1, SP3); so many of those that were judged count.
pub(crate) fn has_surplus(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    (judged, counted): (&JudgedReplicas, usize),
) -> bool {
    has_good_to_spare(view, (handle, chunk), counted)
        || bad_one(view, (handle, chunk), (judged, counted)).is_some()
}

/// Whether one of the good ones can go, or one that is on a server that is drained (SP1).
fn has_good_to_spare(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    counted: usize,
) -> bool {
    let goal = chunk.goal as usize;
    let drained = || {
        let any = view.state.known_servers().duties().drains().len() > 0;
        any && current(view, handle, chunk)
            .any(|(at, _)| view.state.known_servers().duties().is_draining(at))
    };
    // R11 broken: what is on a server that is drained goes before there are enough others.
    counted > goal || ((counted == goal || broken(Rule::R11)) && drained())
}

/// The bad one that can go (SP3).
fn bad_one(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    (judged, counted): (&JudgedReplicas, usize),
) -> Option<ServerId> {
    let (server, _) = judged.bad.iter().max_by_key(|(server, it)| (it.damaged, *server))?;
    let goes = counted >= chunk.goal as usize || is_in_the_way(view, handle, judged.good.len());
    goes.then_some(*server)
}

/// Whether a bad replica of a chunk that lacks good ones keeps it from getting them (SP3).
fn is_in_the_way(view: &View<'_>, handle: ChunkHandle, good: usize) -> bool {
    if good < GOOD_LEAST {
        return false;
    }
    let holders: BTreeSet<ServerId> =
        view.fleet.locations().of(handle).map(|(server, _)| server).collect();
    is_room_nowhere_else(view, &holders)
}

/// Which one goes; none: all are needed.
pub(crate) fn who_goes(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    preferred: Option<ServerId>,
) -> Option<ServerId> {
    // H4 broken: nothing is ever left out.
    if broken(Rule::H4) {
        return None;
    }
    let judged = judged(view, handle, chunk);
    let counted = counted(view, &judged.good);
    let bad = bad_one(view, (handle, chunk), (&judged, counted.len()));
    if bad.is_some() || !has_good_to_spare(view, (handle, chunk), counted.len()) {
        return bad;
    }
    let drained = current(view, handle, chunk)
        .find(|(at, _)| view.state.known_servers().duties().is_draining(*at));
    if let Some((server, _)) = drained {
        return Some(server);
    }
    assert!(counted.len() > chunk.goal as usize, "as many as the goal stay (SP1)");
    let servers = view.fleet.servers();
    let rack = |server: ServerId| servers.at(server).map(|at| at.rack.clone()).unwrap_or_default();
    let racks: Vec<Rack> = counted.iter().map(|server| rack(*server)).collect();
    let together = |server: ServerId| {
        let own = rack(server);
        racks.iter().filter(|rack| **rack == own).count()
    };
    let takes_a_rack = |server: ServerId| together(server) == 1;
    // SP2
    let used = |server| servers.get(server).map_or(0, use_ppm) / AS_FULL_PPM;
    let turn = |server: ServerId| Random::new(handle.get() ^ server.get()).next_u64();
    let keeps_racks = counted.iter().any(|server| !takes_a_rack(*server));
    let fits = |server: &ServerId| !(keeps_racks && takes_a_rack(*server));
    let preferred = preferred.filter(|it| counted.contains(it) && fits(it));
    preferred.or_else(|| {
        counted.into_iter().max_by_key(|server| (together(*server), used(*server), turn(*server)))
    })
}

/// Whether these good replicas are enough for the chunk to go on with, without one (SP1, SP3).
pub(crate) fn is_enough(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    out: ServerId,
    members: &[ServerId],
) -> bool {
    let count = members
        .iter()
        .filter(|server| !view.state.known_servers().duties().is_draining(**server))
        .count();
    let is_bad = || judged(view, handle, chunk).bad.iter().any(|(server, _)| *server == out);
    let has_goal = count >= chunk.goal as usize || broken(Rule::R11);
    !members.is_empty() && (has_goal || (is_bad() && is_in_the_way(view, handle, members.len())))
}

/// Whom to raise so that the chunk goes on without one, or what forbids it. Nobody may have a
/// lease, known or not.
pub(crate) fn plan_leave_out(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    out: ServerId,
) -> Result<Vec<LiveMember>, Blocked> {
    let starting = view.term.is_starting(view.now.time);
    let blocked = |why: &str| Err(Blocked { why: why.to_owned(), starting });
    if view.leases.possible(handle, view.now.time).is_some() {
        return blocked("it is leased");
    }
    // R41: what is committed the one that would go may have alone, until it is sealed.
    if view.state.streams().open_chunk(handle).is_some() {
        return blocked("a producer writes it: it is sealed first");
    }
    if former_holder_unknown(view, handle, chunk) {
        return blocked("a lease of an earlier term may still run");
    }
    if decide(view, handle, chunk) != SetDecision::NotNeeded {
        return blocked("its replicas may have lost bytes");
    }
    let mut stay = good(view, handle, chunk);
    stay.retain(|(server, _)| *server != out);
    let count = stay.len();
    let members = live_members(view, stay);
    if members.len() < count {
        return blocked("a member that is silent costs nothing before it is dead");
    }
    let servers: Vec<ServerId> = members.iter().map(|(at, _)| at.server).collect();
    if !is_enough(view, (handle, chunk), out, &servers) {
        return blocked("too few others are good and reachable");
    }
    may_be_set(view, handle, chunk, &servers)?;
    Ok(members)
}
