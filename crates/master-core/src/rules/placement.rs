//! Where a new replica goes (GFS §4.2): spread over racks, below-average disk use, few recent
//! creations; never two on one server.
//!
//! A pure choice: the same candidates and the same random numbers give the same servers.

use crate::fleet::{CREATION_WEIGHT, KnownServer};
use crate::view::View;
use cairn_protocol::ServerState;
use cairn_types::{ChunkHandle, Rack, Random, ReplicaAt, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// Disk use this close to the average counts as average, in parts of a thousand.
const USE_SLACK_PERMILLE: u64 = 20;
/// A server with more than so many times the average of recent creations, and a few, waits its
/// turn however empty it is: a fresh one fills gradually, and is not of every new chunk's set.
const CREATIONS_FACTOR: u64 = 2;
const CREATIONS_SLACK: u64 = 2 * CREATION_WEIGHT as u64;

/// A live server with room for a chunk.
#[derive(Clone, Debug)]
struct PlacementCandidate {
    server: ServerId,
    rack: Rack,
    /// Used bytes in parts of a thousand of its capacity.
    used_permille: u64,
    /// What was placed there lately, as it counts.
    creations: u32,
    /// With how many it did not get on lately, if that speaks against it: the more, the later is
    /// its turn. Where several are cut off, each of the others does not reach those several.
    avoidance: usize,
    /// With whom it did not get on lately; with itself: it did not do as it was told.
    apart: BTreeSet<ServerId>,
    /// Bytes that it has already of what is to be made there.
    has: u64,
}

/// Whether so many live servers with room are in no trouble with one another: two others that one
/// does not reach need not be of the set.
pub(crate) fn is_enough_without_trouble(view: &View<'_>, count: usize) -> bool {
    together(candidates(view, &BTreeSet::new())) >= count
}

/// How many of them get on with one another, taken one by one from those with the fewest troubles:
/// it may be a few less than the most, which nobody finds fast among many.
fn together(mut candidates: Vec<PlacementCandidate>) -> usize {
    candidates.sort_by_key(|candidate| (candidate.apart.len(), candidate.server));
    let mut chosen: Vec<ServerId> = Vec::new();
    for candidate in &candidates {
        let does = !candidate.apart.contains(&candidate.server);
        if does && !chosen.iter().any(|other| candidate.apart.contains(other)) {
            chosen.push(candidate.server);
        }
    }
    chosen.len()
}

/// Chooses up to `count` live servers with room for a chunk, the best first: none of those that
/// were `tried` already, and far from those that have a replica, which are `kept`.
pub(crate) fn choose_servers(
    view: &View<'_>,
    kept: &[&ReplicaAt],
    tried: &BTreeSet<ServerId>,
    count: usize,
    random: &mut Random,
) -> Vec<ReplicaAt> {
    let candidates = candidates(view, tried);
    let kept = kept.iter().map(|at| (at.server, at.rack.clone())).collect();
    let chosen = choose(&candidates, kept, count, random);
    let at = |server| view.fleet.at(server).expect("only servers that are known were candidates");
    chosen.into_iter().map(|server| at(server).clone()).collect()
}

/// The same for a chunk that is made of what servers have (R45): in each rack, those first that
/// have the most of it.
pub(crate) fn choose_holders(
    view: &View<'_>,
    has: &BTreeMap<ServerId, u64>,
    count: usize,
    random: &mut Random,
) -> Vec<ReplicaAt> {
    let mut candidates = candidates(view, &BTreeSet::new());
    for candidate in &mut candidates {
        candidate.has = has.get(&candidate.server).copied().unwrap_or(0);
    }
    let chosen = choose(&candidates, Vec::new(), count, random);
    let at = |server| view.fleet.at(server).expect("only servers that are known were candidates");
    chosen.into_iter().map(|server| at(server).clone()).collect()
}

/// Whether a live server has room for a chunk, but those that were `tried`.
pub(crate) fn is_room_beside(view: &View<'_>, tried: &BTreeSet<ServerId>) -> bool {
    with_room(view).any(|it| !tried.contains(&it.at.server))
}

/// Whether none but these servers has room for a chunk, nor may have when it is heard of again that
/// is silent for a moment, or reached again.
pub(crate) fn is_room_nowhere_else(view: &View<'_>, holders: &BTreeSet<ServerId>) -> bool {
    let (servers, duties) = (view.fleet.servers(), view.state.known_servers().duties());
    let room = view.term.config.chunk_size;
    let may_come = |server: ServerId| {
        let there = servers.state(view.now.time, server) != Some(ServerState::Dead);
        let has_room = servers.get(server).is_some_and(|it| has_room(it, room));
        there && has_room && !holders.contains(&server) && !duties.is_draining(server)
    };
    !is_room_beside(view, holders) && !servers.ids().any(may_come)
}

/// Whether a live server outside this rack has room for a chunk.
pub(crate) fn has_room_elsewhere(view: &View<'_>, rack: &Rack) -> bool {
    with_room(view).any(|it| it.at.rack != *rack)
}

/// How many live servers have room for a chunk and are not drained.
pub(crate) fn with_room_count(view: &View<'_>) -> usize {
    with_room(view).count()
}

/// How many servers beside this one would take new chunks, those that are silent for a moment too.
pub(crate) fn takers_beside(view: &View<'_>, server: ServerId) -> usize {
    let (servers, duties) = (view.fleet.servers(), view.state.known_servers().duties());
    let takes = |other: ServerId| {
        let is_dead = servers.state(view.now.time, other) == Some(ServerState::Dead);
        let has_room =
            servers.get(other).is_some_and(|it| has_room(it, view.term.config.chunk_size));
        let is_unreached = servers.get(other).is_some_and(|it| it.reach.is_unreached());
        other != server && !is_dead && !is_unreached && !duties.is_draining(other) && has_room
    };
    servers.ids().filter(|other| takes(*other)).count()
}

/// How many live servers that are reached and not drained there are, whether they have room or not.
pub(crate) fn usable_count(view: &View<'_>) -> usize {
    usable(view).count()
}

/// Live servers that are reached (RK2 of the fleet's reach) and not being drained.
fn usable<'a>(view: &View<'a>) -> impl Iterator<Item = &'a KnownServer> {
    let duties = view.state.known_servers().duties();
    let live = view.fleet.servers().live(view.now.time);
    live.filter(move |it| !it.reach.is_unreached() && !duties.is_draining(it.at.server))
}

/// Live servers with room for a chunk that are reached and not being drained.
pub(crate) fn with_room<'a>(view: &View<'a>) -> impl Iterator<Item = &'a KnownServer> {
    let room = view.term.config.chunk_size;
    usable(view).filter(move |server| has_room(server, room))
}

/// Whether so many bytes have room there, as the server told last.
fn has_room(server: &KnownServer, room: u64) -> bool {
    let free = server.capacity.saturating_sub(server.used);
    !server.full && (server.capacity == 0 || free >= room)
}

/// Servers that could take a copy, if they have none.
#[derive(Debug)]
pub(crate) struct CopyTakers(BTreeSet<ServerId>);

impl CopyTakers {
    pub(crate) fn of(view: &View<'_>) -> Self {
        Self(with_room(view).map(|it| it.at.server).collect())
    }

    /// Whether one of them has no replica of the chunk.
    pub(crate) fn take(&self, view: &View<'_>, handle: ChunkHandle) -> bool {
        let holders = view.fleet.locations().of(handle);
        holders.filter(|(server, _)| self.0.contains(server)).count() < self.0.len()
    }
}

/// Those of them that were not `tried`.
fn candidates(view: &View<'_>, tried: &BTreeSet<ServerId>) -> Vec<PlacementCandidate> {
    let left = with_room(view).filter(|s| !tried.contains(&s.at.server));
    left.map(|s| PlacementCandidate {
        server: s.at.server,
        rack: s.at.rack.clone(),
        used_permille: s.used.saturating_mul(1000) / s.capacity.max(1),
        creations: s.creations.weight(view.now.time),
        avoidance: view.troubles.avoidance(s.at.server),
        apart: view.troubles.apart_from(s.at.server).collect(),
        has: 0,
    })
    .collect()
}

/// Chooses up to `count` of the candidates, which are different servers; `there` are those of the
/// replicas that stand already, and their racks.
fn choose(
    candidates: &[PlacementCandidate],
    mut there: Vec<(ServerId, Rack)>,
    count: usize,
    random: &mut Random,
) -> Vec<ServerId> {
    let total: u64 = candidates.iter().map(|candidate| candidate.used_permille).sum();
    let average = total / (candidates.len() as u64).max(1);
    let recent: u64 = candidates.iter().map(|candidate| u64::from(candidate.creations)).sum();
    let many = CREATIONS_FACTOR * (recent / (candidates.len() as u64).max(1)) + CREATIONS_SLACK;
    let mut left: Vec<(u64, &PlacementCandidate)> =
        candidates.iter().map(|candidate| (random.next_u64(), candidate)).collect();
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let best = left.iter().enumerate().min_by_key(|(_, (tie, candidate))| {
            // A chain needs all of them to reach one another.
            let strained = there.iter().filter(|(at, _)| candidate.apart.contains(at)).count();
            let neighbours = there.iter().filter(|(_, rack)| *rack == candidate.rack).count();
            let full = candidate.used_permille > average + USE_SLACK_PERMILLE;
            let waits = u64::from(candidate.creations) > many;
            let lacks = u64::MAX - candidate.has;
            let trouble = (strained, candidate.avoidance);
            (trouble, neighbours, lacks, waits, full, candidate.creations, *tie)
        });
        let Some((at, _)) = best else { break };
        let (_, candidate) = left.swap_remove(at);
        there.push((candidate.server, candidate.rack.clone()));
        chosen.push(candidate.server);
    }
    assert!(chosen.len() <= count, "no more replicas than asked for");
    chosen
}

#[cfg(test)]
mod tests {
    use super::{CREATION_WEIGHT, PlacementCandidate, choose, together};
    use crate::troubles::Troubles;
    use cairn_types::{CellConfig, ChunkHandle, Rack, Random, ServerId, Time};
    use std::collections::BTreeSet;

    fn candidate(
        server: u64,
        rack: &str,
        used_permille: u64,
        creations: u32,
    ) -> PlacementCandidate {
        PlacementCandidate {
            server: ServerId::new(server),
            rack: Rack::new(rack),
            used_permille,
            creations,
            avoidance: 0,
            apart: BTreeSet::new(),
            has: 0,
        }
    }

    fn chosen(
        candidates: &[PlacementCandidate],
        racks: &[&str],
        count: usize,
        seed: u64,
    ) -> Vec<u64> {
        let there = (100..).map(ServerId::new).zip(racks.iter().map(|rack| Rack::new(*rack)));
        let mut all: Vec<u64> = choose(candidates, there.collect(), count, &mut Random::new(seed))
            .into_iter()
            .map(ServerId::get)
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn replicas_spread_over_racks_before_anything_else() {
        let all = [
            candidate(1, "/r1", 0, 0),
            candidate(2, "/r1", 0, 0),
            candidate(3, "/r2", 900, 9),
            candidate(4, "/r3", 900, 9),
        ];
        for seed in 0..16 {
            let three = chosen(&all, &[], 3, seed);
            assert!(three.ends_with(&[3, 4]), "{three:?}");
            assert_eq!(chosen(&all, &["/r1", "/r2"], 1, seed), [4]);
        }
    }

    #[test]
    fn within_a_rack_the_emptier_and_then_the_one_less_used_lately_is_taken() {
        let all = [candidate(1, "", 500, 0), candidate(2, "", 100, 3), candidate(3, "", 100, 1)];
        for seed in 0..16 {
            assert_eq!(chosen(&all, &[], 1, seed), [3]);
            assert_eq!(chosen(&all, &[], 2, seed), [2, 3]);
            assert_eq!(chosen(&all, &[], 9, seed), [1, 2, 3], "never two on one server");
        }
    }

    /// One after the other, servers number 1 and up; these do not reach each other.
    fn in_trouble(pairs: &[(u64, u64)], used: impl Fn(u64) -> u64) -> Vec<PlacementCandidate> {
        let mut troubles = Troubles::default();
        troubles.begin(&CellConfig::tiny());
        for (number, (one, other)) in pairs.iter().enumerate() {
            let chunk = ChunkHandle::new(1 + number as u64);
            let both = (ServerId::new(*one), ServerId::new(*other));
            troubles.note_failed((Time::default(), chunk), both, 3);
        }
        let of = |server| PlacementCandidate {
            avoidance: troubles.avoidance(ServerId::new(server)),
            apart: troubles.apart_from(ServerId::new(server)).collect(),
            ..candidate(server, "", used(server), 0)
        };
        (1..=6).map(of).collect()
    }

    /// Seed 823: three of six are cut off from all, and are emptier than the three that are well,
    /// each of whom does not reach three others.
    #[test]
    fn of_those_that_others_blame_they_are_chosen_who_are_blamed_by_the_fewest() {
        let pairs = [1, 2, 3].map(|one| (one + 1..=6).map(move |other| (one, other)));
        let pairs: Vec<(u64, u64)> = pairs.into_iter().flatten().collect();
        let all = in_trouble(&pairs, |server| server * 100);
        for seed in 0..16 {
            assert_eq!(chosen(&all, &[], 3, seed), [4, 5, 6]);
        }
        // Another one takes no raises: it comes behind all of those.
        let all = in_trouble(&[pairs, vec![(4, 4)]].concat(), |server| server * 100);
        for seed in 0..16 {
            assert_eq!(chosen(&all, &[], 2, seed), [5, 6]);
        }
    }

    /// Seed 231: of six servers two get on with all but one, and each of the others has two others
    /// that it does not reach: three that reach one another are there nevertheless.
    #[test]
    fn those_are_chosen_that_reach_one_another_though_others_blame_them() {
        let mut all = in_trouble(&[(3, 5), (3, 6), (5, 6), (1, 2), (1, 4)], |_| 0);
        for seed in 0..16 {
            let three = chosen(&all, &[], 3, seed);
            assert!(three.contains(&2) && three.contains(&4) && !three.contains(&1), "{three:?}");
        }
        assert_eq!(together(all.clone()), 3);
        all[3].apart.insert(ServerId::new(4));
        assert_eq!(together(all), 2, "one did not do as it was told");
    }

    #[test]
    fn who_has_the_most_of_what_is_made_is_taken_but_not_two_in_one_rack() {
        let mut all = [
            candidate(1, "/r1", 900, 9),
            candidate(2, "/r1", 800, 9),
            candidate(3, "/r2", 0, 0),
            candidate(4, "/r2", 0, 0),
        ];
        (all[0].has, all[1].has, all[3].has) = (30, 20, 1);
        for seed in 0..16 {
            assert_eq!(chosen(&all, &[], 2, seed), [1, 4]);
            assert_eq!(chosen(&all, &[], 3, seed), [1, 2, 4]);
        }
    }

    #[test]
    fn a_fresh_empty_server_is_not_of_every_new_chunk() {
        let mut all: Vec<PlacementCandidate> =
            (1..=6).map(|server| candidate(server, "", 500, 0)).collect();
        all[5].used_permille = 0;
        for seed in 0..60 {
            let three = choose(&all, Vec::new(), 3, &mut Random::new(seed));
            for server in three {
                all[usize::try_from(server.get()).expect("small") - 1].creations += CREATION_WEIGHT;
            }
        }
        // Of 180 replicas 30 would be its share.
        let fresh = all[5].creations / CREATION_WEIGHT;
        assert!((50..=66).contains(&fresh), "{fresh}");
        let others = all[..5].iter().map(|it| it.creations / CREATION_WEIGHT);
        assert!(others.clone().all(|count| count >= 20), "{:?}", others.collect::<Vec<_>>());
    }

    #[test]
    fn equal_servers_are_all_chosen_sometimes() {
        let all = [candidate(1, "", 0, 0), candidate(2, "", 0, 0), candidate(3, "", 0, 0)];
        let first = (0..32).map(|seed| chosen(&all, &[], 1, seed)[0]);
        let seen: std::collections::BTreeSet<u64> = first.collect();
        assert_eq!(seen.len(), 3);
    }
}
