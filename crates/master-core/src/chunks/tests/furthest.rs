//! Who becomes primary where replicas stand at different serial numbers and nobody knows of an
//! acknowledgement: the primary levels the others by its own.

use super::{World, lease, report, server};
use crate::chunks::Chunks;
use crate::rules::reading::locations;
use crate::step::Step;
use cairn_protocol::{ChunkGrant, ErrorCode, Failure, LeasePurpose, ReplicaReport};
use cairn_types::SerialNumber;

#[test]
fn whoever_has_gone_furthest_becomes_primary_and_levels_the_others() {
    for furthest in 1..=3 {
        let mut world = World::new(3);
        world.first_chunk();
        world.pass(4500, &[1, 2, 3]);
        world.request(2, lease(LeasePurpose::Write, 0));
        for (id, to, raise) in world.raises() {
            let serial = SerialNumber::new(if to == furthest { 9 } else { 8 });
            world.accept(id, &raise, ReplicaReport { serial, ..ReplicaReport::default() });
        }
        world.commit();
        let (_, grant) = world.take_grant();
        assert_eq!(grant.server, server(furthest));
        assert_eq!((grant.serial, grant.secondaries.len()), (SerialNumber::new(9), 2));
        assert_eq!(grant.source, None, "nobody has gone further");
    }
}

/// Replicas at 9, 8 and 8, of which nobody knows that 9 was acknowledged; no lease is live.
fn one_is_further() -> (World, ChunkGrant) {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    world.pass(12_000, &[1, 2, 3]);
    for id in 1..=3 {
        let serial = SerialNumber::new(if id == 2 { 9 } else { 8 });
        world.join(id, vec![ReplicaReport { serial, ..report(&grant) }], vec![]);
    }
    (world, grant)
}

#[test]
fn after_a_grant_that_failed_another_one_is_told_from_whom_to_fetch_what_it_lacks() {
    let (mut world, _) = one_is_further();
    world.request(2, lease(LeasePurpose::Write, 0));
    let mut sources = vec![];
    for _ in 0..2 {
        for (id, to, raise) in world.raises() {
            let (serial, length) = (SerialNumber::new(if to == 2 { 9 } else { 8 }), 90);
            world.accept(id, &raise, ReplicaReport { serial, length, ..ReplicaReport::default() });
        }
        world.commit();
        let (id, grant) = world.take_grant();
        let source = grant.source.map(|it| (it.at.server, it.serial, it.length));
        sources.push((grant.server, source));
        let not_taken = Failure::not_done(ErrorCode::ReplicaFailed, "it cannot reach the others");
        world.answer(id, Err(not_taken));
        world.pass(300, &[1, 2, 3]);
    }
    assert_eq!(sources[0], (server(2), None));
    assert_ne!(sources[1].0, server(2));
    assert_eq!(sources[1].1, Some((server(2), SerialNumber::new(9), 90)));
}

#[test]
fn until_it_is_levelled_no_reader_is_sent_to_one_that_is_behind_while_another_can_be_reached() {
    let (mut world, grant) = one_is_further();
    let readable = |world: &mut World| {
        let at = |chunks: &mut Chunks, step: &mut Step<'_>| {
            locations(&chunks.view(step.now, step.state), grant.handle).replicas
        };
        let at = world.with(at).into_iter();
        at.map(|at| at.server.get()).collect::<Vec<u64>>()
    };
    assert_eq!(readable(&mut world), [2]);
    world.pass(6000, &[1, 3]);
    assert_eq!(readable(&mut world), [1, 3], "there is no other");
}

#[test]
fn where_none_is_sound_readers_are_sent_to_one_without_bad_blocks_whatever_version_it_stands_at() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    world.pass(12_000, &[1, 2, 3]);
    for id in 1..=3 {
        let (serial, suspect) = (SerialNumber::new(8), true);
        // Each was raised in vain, one after the other (R8).
        let version = (1..id).fold(grant.version, |version, _| version.next());
        let told = ReplicaReport { serial, suspect, version, ..report(&grant) };
        world.join(id, vec![told], vec![]);
    }
    let readable = |world: &mut World| {
        let told = world.with(|chunks, step| {
            locations(&chunks.view(step.now, step.state), grant.handle).replicas
        });
        told.iter().map(|at| at.server).collect::<Vec<_>>()
    };
    assert_eq!(readable(&mut world), [server(3)]);
    world.with(|chunks, _| chunks.fleet.mark_damaged(grant.handle, server(3)));
    assert_eq!(readable(&mut world), [server(2)]);
    // Where it alone has the most, its good blocks are read all the same (DS6).
    let (serial, suspect) = (SerialNumber::new(9), true);
    let version = grant.version.next().next();
    world.join(3, vec![ReplicaReport { serial, suspect, version, ..report(&grant) }], vec![]);
    world.with(|chunks, _| chunks.fleet.mark_damaged(grant.handle, server(3)));
    assert_eq!(readable(&mut world), [server(3)]);
}

#[test]
fn bytes_of_one_that_may_have_lost_some_begin_a_new_life_of_the_chunk() {
    for suspect in [false, true] {
        let mut world = World::new(3);
        world.first_chunk();
        world.pass(4500, &[1, 2, 3]);
        world.request(2, lease(LeasePurpose::Write, 0));
        for (id, _, raise) in world.raises() {
            let serial = SerialNumber::new(9);
            world.accept(id, &raise, ReplicaReport { serial, suspect, ..ReplicaReport::default() });
        }
        world.commit();
        let (_, grant) = world.take_grant();
        assert_eq!(grant.serial.life(), u64::from(suspect));
    }
}
