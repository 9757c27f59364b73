//! The index of chunks below their goal is kept as servers come and go (A20).

use super::{World, held, lease, members, report};
use cairn_protocol::{ChunkGrant, Heartbeat, LeasePurpose};
use cairn_types::Incarnation;

impl World {
    /// Good replicas, goal, and how many chunks stand so.
    fn below_goal(&self) -> Vec<(u32, u32, u64)> {
        let all = self.chunks.repair_status(self.moment(), &self.state).below_goal;
        all.into_iter().map(|it| (it.good, it.goal, it.count)).collect()
    }

    /// Each of the set tells what it holds, and nobody has the lease any more.
    fn told(&mut self, grant: &ChunkGrant) {
        self.pass(3000, &[1, 2, 3, 4]);
        for id in members(grant) {
            self.beat(id, vec![report(grant)], vec![]);
        }
        self.pass(250, &[1, 2, 3, 4]);
    }
}

#[test]
fn a_server_that_is_silent_costs_nothing_and_one_that_died_is_missed_until_it_tells_anew() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    world.told(&grant);
    assert_eq!(world.below_goal(), []);
    let gone = members(&grant)[0];
    let rest: Vec<u64> = (1..=4).filter(|id| *id != gone).collect();
    world.pass(3500, &rest);
    assert_eq!(world.below_goal(), [], "it is silent");
    world.pass(1000, &rest);
    assert_eq!(world.below_goal(), [(2, 3, 1)]);
    world.join(gone, vec![report(&grant)], vec![]);
    world.pass(500, &[1, 2, 3, 4]);
    assert_eq!(world.below_goal(), [], "it has come back with all it had");
    world.join_as(gone, 77, vec![], vec![]);
    world.pass(500, &[1, 2, 3, 4]);
    assert_eq!(world.below_goal(), [(2, 3, 1)], "and with nothing");
}

#[test]
fn a_smaller_set_a_bad_replica_and_one_that_is_gone_are_seen_at_once() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let [one, other, third] = members(&grant)[..] else { panic!("a set of three") };
    world.told(&grant);
    let (server, incarnation) = (super::server(one), Incarnation::new(one * 10));
    let damaged = vec![grant.handle];
    world.request(5, Heartbeat { server, incarnation, damaged, ..Heartbeat::default() });
    world.pass(250, &[1, 2, 3, 4]);
    assert_eq!(world.below_goal(), [(2, 3, 1)], "one is damaged");
    // The next set is made without it.
    world.request(6, lease(LeasePurpose::Write, 0));
    world.accept_raises(&[]);
    world.commit();
    world.accept_grant();
    let grant = world.granted(6);
    assert_eq!(members(&grant), [other.min(third), other.max(third)]);
    world.pass(250, &[1, 2, 3, 4]);
    assert_eq!(world.below_goal(), [(2, 3, 1)], "it is not of the set");
    world.beat(other, vec![], vec![held(&grant)]);
    world.join_as(third, 77, vec![], vec![]);
    world.pass(250, &[1, 2, 3, 4]);
    assert_eq!(world.below_goal(), [(1, 3, 1)], "another has come back with nothing");
}

#[test]
fn a_master_that_starts_waits_for_its_servers_and_then_misses_whoever_does_not_come() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let mut world = world.restarted(2);
    for id in [1, 2] {
        world.join(id, vec![report(&grant)], vec![]);
    }
    world.pass(3000, &[1, 2]);
    assert_eq!(world.below_goal(), [], "the third may come");
    world.pass(1500, &[1, 2]);
    assert_eq!(world.below_goal(), [(2, 3, 1)]);
}
