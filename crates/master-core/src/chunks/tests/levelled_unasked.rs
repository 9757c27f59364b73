//! What the master levels though no client asks (R28): suspects that are all there, what is behind,
//! and nothing by a decision but where a chunk is cornered.

use super::after_power_loss::{Disks, after_power_loss, after_power_loss_of};
use super::{FILE, World, mutation, server};
use crate::record::{HideEntry, OpenChunk};
use crate::state::ROOT;
use cairn_protocol::{JobKind, JobState, ReplicaReport, Request};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, SerialNumber, Term};
use std::collections::BTreeSet;

/// Time passes, all calls are answered truly, and nobody asks for anything. How many leases were
/// granted.
fn leave_alone(world: &mut World, disks: &mut Disks, millis: u64) -> usize {
    let alive: Vec<u64> = disks.keys().copied().collect();
    let end = world.millis + millis;
    let mut granted = 0;
    while world.millis < end {
        world.pass(250, &alive);
        let mut raised = vec![];
        for (id, to, raise) in world.raises() {
            let disk = disks.get_mut(&to).expect("it is one of them");
            let there = ReplicaReport { handle: raise.handle, ..disk.clone() };
            world.accept(id, &raise, there);
            disk.version = raise.to;
            raised.push(to);
        }
        world.commit();
        if world.sent.iter().any(|sent| matches!(sent.request, Request::GrantLease(_))) {
            let grant = world.accept_grant();
            granted += 1;
            // The primary has levelled them, and each tells so with its next heartbeat.
            let of_set = grant.secondaries.iter().map(|at| at.server).chain([grant.server]);
            for id in of_set.map(|server| server.get()) {
                let disk = disks.get_mut(&id).expect("it is one of them");
                disk.suspect = false;
                disk.serial = grant.serial;
                disk.length = grant.length;
                world.beat(id, vec![disk.clone()], vec![]);
            }
        }
    }
    granted
}

fn reasons(world: &mut World) -> Vec<String> {
    world.with(|chunks, step| chunks.health(&chunks.view(step.now, step.state)).reasons)
}

#[test]
fn suspects_that_are_all_there_become_current_though_no_client_asks() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), true); 3]);
    let granted = leave_alone(&mut world, &mut disks, 60_000);
    assert_eq!(granted, 1, "once, and what is well is left alone");
    assert_eq!(reasons(&mut world), [""; 0]);
    let handle = disks[&1].handle;
    let chunk = world.state.chunk(handle).expect("there");
    assert_eq!((chunk.set_size, chunk.version.term()), (3, Term::new(2)), "logged, of all three");
}

#[test]
fn a_decision_is_left_to_who_asks_for_the_chunk() {
    let told = [((10, 9), true), ((18, 18), true), ((15, 15), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 0, "LV3");
    let chunk = world.state.chunk(disks[&1].handle).expect("there");
    assert_eq!(chunk.set_size, 3, "whoever is away may still come with more");
}

#[test]
fn a_sound_replica_whose_copies_have_no_place_but_beside_suspects_is_the_set_unasked() {
    let told = [((18, 18), false), ((15, 15), true), ((10, 9), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 1, "LV4");
    let chunk = world.state.chunk(disks[&1].handle).expect("there");
    assert_eq!(chunk.set_size, 1, "the others are stale, and make room");

    let told = [((18, 18), false), ((15, 15), false), ((10, 9), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 1, "one is an old image");

    let told = [((15, 15), false), ((18, 15), true), ((10, 9), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 0, "what holds more is a person's");

    let (mut world, mut disks) = after_power_loss_of(2, &[((18, 18), false), ((15, 15), true)]);
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 0, "neither could make room");

    let told = [((18, 18), false), ((15, 15), true), ((10, 9), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    let handle = disks[&1].handle;
    world.with(|chunks, _| chunks.fleet.mark_damaged(handle, server(2)));
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 0, "it may be read again");
}

#[test]
fn nobody_is_cornered_while_a_server_could_take_a_copy_or_may_come_back_to_take_one() {
    let told = [((18, 18), false), ((15, 15), true), ((10, 9), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    world.join(4, vec![], vec![]);
    disks.insert(4, ReplicaReport::default());
    assert_eq!(leave_alone(&mut world, &mut disks, 20_000), 0, "a copy has a place");
    disks.remove(&4);
    assert_eq!(leave_alone(&mut world, &mut disks, 3_500), 0, "it is silent for a moment");
    assert_eq!(leave_alone(&mut world, &mut disks, 10_000), 1, "it is dead");
}

#[test]
fn what_a_damaged_or_a_silent_replica_alone_has_is_left_out_by_nobody_but_those_who_ask() {
    let told = [((18, 18), false), ((15, 15), false), ((15, 15), false)];
    let (mut world, mut disks) = after_power_loss(&told);
    let handle = disks[&1].handle;
    world.with(|chunks, _| chunks.fleet.mark_damaged(handle, server(1)));
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 0, "its other blocks can be read");

    let (mut world, mut disks) = after_power_loss(&[((18, 18), false), ((18, 18), false)]);
    disks.remove(&2);
    world.pass(2_250, &[1]);
    let behind = ReplicaReport { serial: SerialNumber::new(15), ..disks[&1].clone() };
    let version = behind.version;
    world.join(3, vec![behind.clone()], vec![]);
    disks.insert(3, behind);
    let level = disks[&1].clone();
    world.join(4, vec![level.clone()], vec![]);
    disks.insert(4, level);
    leave_alone(&mut world, &mut disks, 1_500);
    assert!(disks.values().all(|disk| disk.version == version), "one is silent for a moment");
}

#[test]
fn a_sound_replica_that_lacks_what_was_acknowledged_makes_room_though_nobody_asks() {
    let told = [((18, 18), false), ((18, 18), false), ((15, 15), false)];
    let (mut world, mut disks) = after_power_loss(&told);
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 1, "LV2: no copy had a place");
    let chunk = world.state.chunk(disks[&1].handle).expect("there");
    assert_eq!(chunk.set_size, 2);
    assert!(disks.values().filter(|disk| disk.version < chunk.version).count() == 1, "it is stale");
}

#[test]
fn of_many_suspects_so_many_are_levelled_at_once_and_none_while_servers_may_still_tell() {
    const CHUNKS: u64 = 200;
    let handle = |number: u64| ChunkHandle::of(Term::new(1), 10_000 + 2 * number);
    let version = ChunkVersion::of(Term::new(1), 1);
    let mut world = World::new(0);
    for number in 0..CHUNKS {
        let (index, handle) = (ChunkIndex::new(number), handle(number));
        let open = OpenChunk { file: FILE, index, handle, version, ..OpenChunk::default() };
        world.apply(OpenChunk { set_size: 3, ..open });
    }
    let mut world = world.restarted(2);
    let held = |number| ReplicaReport {
        handle: handle(number),
        version,
        suspect: true,
        ..ReplicaReport::default()
    };
    for id in 1..=2 {
        world.join(id, (0..CHUNKS).map(held).collect(), vec![]);
    }
    world.join_only(3);
    world.pass(1000, &[1, 2, 3]);
    assert!(world.raises().is_empty(), "one has yet to tell");
    world.join(3, (0..CHUNKS).map(held).collect(), vec![]);
    world.pass(10_000, &[1, 2, 3]);
    let raised: BTreeSet<ChunkHandle> =
        world.raises().iter().map(|(_, _, raise)| raise.handle).collect();
    assert_eq!(raised.len(), 64, "as many at once as may be");
}

#[test]
fn suspects_of_a_deleted_file_get_no_lease_and_are_not_held_against_the_cell() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), true); 3]);
    let (mutation, name) = (mutation(2), "f".into());
    world.apply(HideEntry { mutation, entry: FILE, parent: ROOT, name, ..HideEntry::default() });
    assert!(world.state.is_hidden(FILE));
    assert_eq!(leave_alone(&mut world, &mut disks, 60_000), 0, "R20");
    assert_eq!(reasons(&mut world), [""; 0]);
}

#[test]
fn a_drain_says_that_suspects_of_a_deleted_file_stay_until_it_is_purged_or_brought_back() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), true); 3]);
    let (mutation, name) = (mutation(2), "f".into());
    world.apply(HideEntry { mutation, entry: FILE, parent: ROOT, name, ..HideEntry::default() });
    world.join(4, vec![], vec![]);
    disks.insert(4, ReplicaReport::default());
    let full = *disks.keys().next().expect("three servers");
    world.drain(full);
    assert_eq!(leave_alone(&mut world, &mut disks, 30_000), 0, "R20");
    let job = world.jobs(JobKind::Drain).pop().expect("it is listed");
    let says = job.note.starts_with("1 of its chunks are deleted files'");
    assert!(job.state == JobState::Waiting && says, "{job:?}");
    assert!(world.warnings()[0].starts_with("DRAIN_BLOCKED"), "{:?}", world.warnings());
}
