//! From where to where a chunk is cloned (GFS §4.3).
//!
//! - CN1: never to a server that has any replica of the chunk, or may have one that it has not told
//!   of yet.
//! - CN2: never from a replica that may lack, or have bent, anything.
//! - CN3: no server gives, or receives, more at once than a person lets it.

use super::good_replicas::{counted, good};
use super::placement::{choose_servers, with_room};
use super::replica_set::{LiveMember, live_members};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, Random, ReplicaAt, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// How many clones each server receives and gives.
#[derive(Debug, Default)]
pub(crate) struct CloneLoad {
    receives: BTreeMap<ServerId, u32>,
    gives: BTreeMap<ServerId, u32>,
}

impl CloneLoad {
    pub(crate) fn add(&mut self, source: ServerId, receiver: ServerId) {
        assert_ne!(source, receiver, "a clone is another server's (CN1)");
        *self.gives.entry(source).or_default() += 1;
        *self.receives.entry(receiver).or_default() += 1;
    }

    fn gives(&self, server: ServerId) -> u32 {
        self.gives.get(&server).copied().unwrap_or_default()
    }

    pub(crate) fn may_receive(&self, view: &View<'_>, server: ServerId) -> bool {
        self.receives.get(&server).is_none_or(|count| *count < of_server_max(view))
    }

    fn may_give(&self, view: &View<'_>, server: ServerId) -> bool {
        self.gives(server) < of_server_max(view)
    }
}

/// Who may give and receive one more right now: tells in little time of most chunks that cannot be
/// started that they cannot.
#[derive(Debug)]
pub(crate) struct FreePlaces {
    load: CloneLoad,
    givers: BTreeSet<ServerId>,
    receivers: BTreeSet<ServerId>,
}

impl FreePlaces {
    pub(crate) fn of(view: &View<'_>, load: CloneLoad) -> Self {
        let live = view.fleet.servers().live(view.now.time).map(|it| it.at.server);
        let givers = live.filter(|server| load.may_give(view, *server)).collect();
        let fitting = with_room(view).filter(|it| it.inventoried.is_some());
        let receivers = fitting.map(|it| it.at.server);
        let receivers = receivers.filter(|server| load.may_receive(view, *server)).collect();
        Self { load, givers, receivers }
    }

    pub(crate) fn load(&self) -> &CloneLoad {
        &self.load
    }

    pub(crate) fn is_none_free(&self) -> bool {
        self.givers.is_empty() || self.receivers.is_empty()
    }

    /// Whether a holder of the chunk may give it, and somebody who is none may receive it: no copy
    /// of it can be started where this says no.
    pub(crate) fn may_serve(&self, view: &View<'_>, handle: ChunkHandle) -> bool {
        let locations = view.fleet.locations();
        let holders = || locations.of(handle).map(|(server, _)| server);
        let held = holders().filter(|server| self.receivers.contains(server)).count();
        held < self.receivers.len() && holders().any(|server| self.givers.contains(&server))
    }

    /// A clone is started.
    pub(crate) fn take(&mut self, view: &View<'_>, source: ServerId, receiver: ServerId) {
        let of_these = self.givers.contains(&source) && self.receivers.contains(&receiver);
        assert!(of_these, "whoever is chosen had a place (CN3)");
        self.load.add(source, receiver);
        if !self.load.may_give(view, source) {
            self.givers.remove(&source);
        }
        if !self.load.may_receive(view, receiver) {
            self.receivers.remove(&receiver);
        }
    }
}

/// Clones that a server may receive at once, and give.
fn of_server_max(view: &View<'_>) -> u32 {
    view.state.config().clones_per_server
}

/// One copy to be made.
#[derive(Debug)]
pub(crate) struct ClonePlan {
    pub(crate) source: LiveMember,
    pub(crate) receiver: ReplicaAt,
}

/// From where to where, `elsewhere`: into another rack than those that it stands in; none where
/// nothing can be done right now.
pub(crate) fn plan_clone(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    (load, avoided): (&CloneLoad, &BTreeSet<ServerId>),
    elsewhere: bool,
    random: &mut Random,
) -> Option<ClonePlan> {
    let source = choose_source(view, (handle, chunk), (load, avoided), random)?;
    let servers = view.fleet.servers();
    let mut tried = avoided.clone();
    tried.extend(view.fleet.locations().of(handle).map(|(server, _)| server));
    for server in servers.live(view.now.time) {
        if server.inventoried.is_none() || !load.may_receive(view, server.at.server) {
            tried.insert(server.at.server);
        }
    }
    let counted = counted(view, &good(view, handle, chunk));
    let kept: Vec<&ReplicaAt> = counted.iter().filter_map(|server| servers.at(*server)).collect();
    let receiver = choose_servers(view, &kept, &tried, 1, random).pop()?;
    if elsewhere && kept.iter().any(|at| at.rack == receiver.rack) {
        return None;
    }
    assert_ne!(receiver.server, source.0.server, "a source has a replica (CN1)");
    Some(ClonePlan { source, receiver })
}

/// Who gives a chunk's bytes: of those that may, one that gives the fewest; who is not reached
/// behind all others.
pub(crate) fn choose_source(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    (load, avoided): (&CloneLoad, &BTreeSet<ServerId>),
    random: &mut Random,
) -> Option<LiveMember> {
    let sources = live_members(view, good(view, handle, chunk));
    let free = sources
        .into_iter()
        .filter(|(at, _)| load.may_give(view, at.server) && !avoided.contains(&at.server));
    let servers = view.fleet.servers();
    let is_unreached = |server| servers.get(server).is_some_and(|it| it.reach.is_unreached());
    free.min_by_key(|(at, _)| (is_unreached(at.server), load.gives(at.server), random.next_u64()))
}
