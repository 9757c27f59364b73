//! A server that comes back at another address may be a copy of one that runs on where it was: it
//! is taken in when nobody can hold a lease there any more (CS3; R5, R22).

use super::{World, lease, report};
use crate::record::Record;
use cairn_protocol::{ErrorCode, Failure, Join, LeasePurpose, ReplicaReport, Response};
use cairn_types::{Address, Incarnation, Rack, ReplicaAt};

/// Server 1 joins from that address.
fn join_from(world: &mut World, address: &str, incarnation: u64) -> Result<(), Failure> {
    let at = ReplicaAt {
        server: super::server(1),
        address: Address::new(address),
        rack: Rack::new("/one"),
    };
    world.request(900, Join { at, incarnation: Incarnation::new(incarnation), ..Join::default() });
    match world.reply(900).expect("a join is answered at once") {
        Ok(Response::Join(_)) => Ok(()),
        Err(failure) => Err(failure),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_waits(world: &mut World, address: &str) {
    let failure = join_from(world, address, 77).expect_err("a lease may live");
    assert_eq!(failure.code, ErrorCode::Busy, "it may try again");
    assert!(failure.message.contains("was at s1:1"), "{}", failure.message);
}

#[test]
fn as_a_term_begins_one_that_is_elsewhere_is_taken_in_when_former_leases_are_over() {
    let mut world = World::new(1);
    world.first_chunk();
    let mut world = world.restarted(2);
    assert_waits(&mut world, "copy:1");
    world.pass(2_000, &[]);
    assert_waits(&mut world, "copy:1");
    world.pass(250, &[]);
    assert_eq!(join_from(&mut world, "copy:1", 77), Ok(()));
}

#[test]
fn as_a_term_begins_one_that_is_where_it_was_is_taken_in_at_once() {
    let mut world = World::new(1);
    world.first_chunk();
    let mut world = world.restarted(2);
    assert_eq!(join_from(&mut world, "s1:1", 77), Ok(()));
}

#[test]
fn a_silent_holder_is_waited_for_and_a_silent_server_without_leases_is_not() {
    let mut world = World::new(1);
    world.pass(3_000, &[1]);
    world.first_chunk();
    world.pass(1_500, &[]);
    assert_waits(&mut world, "copy:1");
    world.pass(750, &[]);
    assert_eq!(join_from(&mut world, "copy:1", 77), Ok(()));
    world.pass(1_250, &[]);
    assert_eq!(join_from(&mut world, "third:1", 78), Ok(()), "silent, and it holds nothing");
}

#[test]
fn no_lease_is_granted_where_a_member_has_come_back_elsewhere_while_its_version_was_logged() {
    let mut world = World::new(1);
    world.pass(3_000, &[1]);
    let first = world.first_chunk();
    world.pass(5_000, &[1]);
    let told = ReplicaReport { mutated_version: first.version, ..report(&first) };
    world.beat(1, vec![told], vec![]);
    world.request(2, lease(LeasePurpose::Write, 0));
    world.accept_raises(&[]);
    assert!(world.proposed.iter().any(|(_, it)| matches!(it, Record::SetVersion(_))), "raised");
    // The log stalls, and the server is not heard of meanwhile.
    world.pass(1_250, &[]);
    assert_eq!(join_from(&mut world, "copy:1", 77), Ok(()));
    world.commit();
    assert!(world.sent.is_empty(), "nobody is known where the raise was taken");
}
