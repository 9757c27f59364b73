//! A bad replica makes room for a good one (A20, R11): it goes where its chunk has its goal without
//! it, and where no server could take a good one as long as it is there.

use super::super::test_world::{chunk_of, written_by};
use super::moves::asked;
use super::{World, members, report, server};
use cairn_protocol::{CancelJob, ChunkGrant, Heartbeat, JobKind, ReplicaReport};
use cairn_types::{ChunkVersion, Incarnation, SerialNumber};

impl World {
    /// A server has found its replica to be bad.
    fn rots(&mut self, id: u64, grant: &ChunkGrant) {
        let (server, incarnation) = (server(id), Incarnation::new(id * 10));
        let damaged = vec![grant.handle];
        self.request(901, Heartbeat { server, incarnation, damaged, ..Heartbeat::default() });
        assert!(matches!(self.reply(901), Some(Ok(_))));
    }

    /// A server has verified every block of it since.
    fn reads_again(&mut self, id: u64, grant: &ChunkGrant) {
        let (server, incarnation) = (server(id), Incarnation::new(id * 10));
        let sound = vec![grant.handle];
        self.request(902, Heartbeat { server, incarnation, sound, ..Heartbeat::default() });
        assert!(matches!(self.reply(902), Some(Ok(_))));
    }

    /// The raise that leaves one out is taken by the others, who tell that they stand so.
    fn goes_on_with(&mut self, wanted: &[u64]) -> Vec<u32> {
        let raises = self.raises();
        assert_eq!(asked(&raises), wanted);
        for (id, _, raise) in &raises {
            self.accept(*id, raise, ReplicaReport::default());
        }
        self.sets().iter().map(|set| set.set_size).collect()
    }
}

#[test]
fn a_bad_replica_makes_room_for_a_good_one_where_no_other_server_could_take_it() {
    let (mut world, grant, all) = World::settled(3);
    let [bad, good @ ..] = &members(&grant)[..] else { panic!("three") };
    world.rots(*bad, &grant);
    world.pass(500, &all);
    assert!(world.orders().is_empty(), "nobody could take a copy");
    let mut good = good.to_vec();
    good.sort_unstable();
    assert_eq!(world.goes_on_with(&good), [2], "the good ones go on");
    assert_eq!(world.tell_stale(*bad, &grant).len(), 1, "and it goes as garbage");
    world.pass(500, &all);
    assert_eq!(world.copy_all(), [*bad], "it is made anew where it was");
    assert_eq!(world.state.chunk(grant.handle).expect("it is there").set_size, 3);
    world.pass(2000, &all);
    assert!(world.raises().is_empty() && world.orders().is_empty(), "and there it stays");
}

#[test]
fn a_bad_replica_stays_while_only_one_good_one_would_be_left() {
    let (mut world, grant, all) = World::settled(3);
    for bad in &members(&grant)[..2] {
        world.rots(*bad, &grant);
    }
    world.pass(5000, &all);
    assert!(world.raises().is_empty(), "no set is smaller than two (R11)");
}

#[test]
fn a_bad_replica_stays_while_a_server_that_could_take_a_good_one_may_come_back() {
    let (mut world, grant, _) = World::settled(4);
    let spare = (1..=4).find(|id| !members(&grant).contains(id)).expect("four servers");
    // It is silent by now, and not dead.
    world.pass(2500, &members(&grant));
    world.rots(members(&grant)[0], &grant);
    world.pass(1000, &members(&grant));
    assert!(world.raises().is_empty(), "a silent server costs nothing");
    world.pass(250, &[1, 2, 3, 4]);
    assert_eq!(world.copy_all(), [spare]);
}

#[test]
fn a_bad_replica_beside_as_many_good_ones_as_the_goal_goes_before_any_of_them() {
    let (mut world, grant, all) = World::settled(4);
    let [drained, bad, _] = members(&grant)[..] else { panic!("three") };
    world.drain(drained);
    world.pass(500, &all);
    world.copy_all();
    assert_eq!(world.state.chunk(grant.handle).expect("it is there").set_size, 4);
    world.rots(bad, &grant);
    let id = world.jobs(JobKind::Drain)[0].id.clone();
    world.request(7, CancelJob { id });
    world.commit();
    world.pass(500, &all);
    let good: Vec<u64> = all.into_iter().filter(|id| *id != bad).collect();
    assert_eq!(world.goes_on_with(&good), [3]);
}

#[test]
fn a_bad_replica_that_knows_of_more_that_was_acknowledged_is_not_left_out() {
    let (mut world, grant, all) = World::settled(3);
    let [bad, good @ ..] = &members(&grant)[..] else { panic!("three") };
    world.rots(*bad, &grant);
    world.pass(500, &all);
    let raises = world.raises();
    assert_eq!(raises.len(), good.len());
    // Meanwhile it tells of bytes that the others turn out to lack.
    let more = ReplicaReport { acknowledged: 9, length: 9, ..report(&grant) };
    world.beat(*bad, vec![more], vec![]);
    world.rots(*bad, &grant);
    for (id, _, raise) in &raises {
        world.accept(*id, raise, ReplicaReport::default());
    }
    assert!(world.sets().is_empty(), "who lacks them is no set without it (R29)");
    let chunk = world.state.chunk(grant.handle).expect("it is there");
    assert!(chunk.set_size == 3 && chunk.version != ChunkVersion::default());
}

#[test]
fn replicas_that_read_again_count_again_and_nothing_is_copied() {
    let (mut world, grant, all) = World::settled(3);
    let three = members(&grant);
    for bad in &three {
        world.rots(*bad, &grant);
    }
    world.pass(500, &all);
    assert_eq!(world.health().counts.damaged, 1);
    for bad in &three {
        world.reads_again(*bad, &grant);
    }
    world.pass(500, &all);
    let counts = world.health().counts;
    assert_eq!((counts.damaged, counts.below_goal), (0, 0));
    assert!(world.orders().is_empty(), "all are there");
    assert!(world.raises().is_empty(), "nobody is left out");
}

/// Three bundles of a producer are committed: the first server has them, and is suspect; the others
/// lack the last, and nobody knows that before they are closed.
#[test]
fn a_suspect_that_alone_has_what_is_committed_makes_room_for_nobody() {
    // Stream seed 1180.
    let told = |serial: u64, (closed, suspect): (bool, bool)| {
        let ((handle, version), serial) = (chunk_of(1), SerialNumber::new(serial));
        let length = 10 * serial.get();
        vec![ReplicaReport {
            handle,
            version,
            serial,
            length,
            closed,
            suspect,
            ..Default::default()
        }]
    };
    let mut world = World::new(3);
    written_by(&mut world, 1, (3, 10));
    let mut world = world.restarted(2);
    world.join(1, told(3, (true, true)), vec![]);
    for id in [2, 3] {
        world.join(id, told(2, (false, false)), vec![]);
    }
    world.pass(60_000, &[1, 2, 3]);
    assert!(world.raises().is_empty(), "it is sealed first (R41)");
}
