//! What a server says of its replica, or of a lease, that nobody can have: it is no word (BE1, BE2,
//! BE3; R22).

use super::{World, held, lease, members, report, server};
use crate::record::Record;
use crate::rules::reading::locations;
use cairn_protocol::{LeasePurpose, ReplicaReport};
use cairn_types::{CellConfig, ChunkVersion, SerialNumber};

/// One answers the raise so; whether the others are granted a lease that begins with it.
fn is_granted(said: &ReplicaReport) -> bool {
    let mut world = World::new(3);
    world.first_chunk();
    world.pass(4500, &[1, 2, 3]);
    world.request(2, lease(LeasePurpose::Write, 0));
    for (id, to, raise) in world.raises() {
        let replica = if to == 3 { said.clone() } else { ReplicaReport::default() };
        world.accept(id, &raise, replica);
    }
    world.commit();
    world.sent.iter().any(|sent| matches!(sent.request, cairn_protocol::Request::GrantLease(_)))
}

#[test]
fn nobody_begins_a_lease_with_numbers_that_one_server_has_made_up() {
    let of = |serial: u64| ReplicaReport {
        serial: SerialNumber::new(serial),
        ..ReplicaReport::default()
    };
    assert!(is_granted(&of(9)));
    for serial in [u64::MAX, u64::MAX - 1, 1 << 63] {
        assert!(!is_granted(&of(serial)), "{serial} is what all others would go on from");
    }
    let length = CellConfig::tiny().chunk_size + 1;
    assert!(!is_granted(&ReplicaReport { length, ..ReplicaReport::default() }));
}

#[test]
fn readers_are_not_sent_to_whoever_stands_at_a_version_that_no_master_gave_out() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    world.pass(12_000, &[1, 2, 3]);
    let liar = members(&grant)[0];
    for version in [u64::MAX, u64::MAX - 1].map(ChunkVersion::new) {
        let serial = SerialNumber::new(9);
        let said = ReplicaReport { version, serial, length: 1, ..report(&grant) };
        for id in members(&grant) {
            let told = if id == liar { said.clone() } else { report(&grant) };
            world.join(id, vec![told], vec![]);
        }
        let told =
            world.with(|chunks, step| locations(&chunks.view(step.now, step.state), grant.handle));
        assert_eq!(told.version, grant.version);
        assert!(told.replicas.iter().any(|at| at.server != server(liar)), "{told:?}");
    }
}

#[test]
fn whoever_stands_at_a_version_that_this_term_has_not_given_out_is_heard_in_nothing() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    world.pass(12_000, &[1, 2, 3, 4]);
    let liar = (1..=4).find(|id| !members(&grant).contains(id)).expect("one has no replica");
    let told = |world: &mut World, version| {
        let said = ReplicaReport { version, closed: true, ..report(&grant) };
        world.beat(liar, vec![said], vec![]);
        let closes = |record: &Record| matches!(record, Record::CloseChunk(_));
        let closed = world.proposed.iter().any(|(_, record)| closes(record));
        (world.chunks.fleet.locations().get(grant.handle, server(liar)).is_some(), closed)
    };
    // A later raise would be logged at it, and not have the liar in its set (R8).
    let next = ChunkVersion::new(world.numbers.last_version().get() + 1);
    assert_eq!(told(&mut world, next), (false, false));
    assert_eq!(told(&mut world, grant.version), (true, true), "that can be, and is believed (R9)");
}

#[test]
fn nobody_holds_a_lease_of_an_earlier_term_that_must_have_run_out_by_now() {
    // How long after the term began somebody says so.
    for (millis, is_believed) in [(250, true), (2_250, false)] {
        let mut world = World::new(3);
        let grant = world.first_chunk();
        let mut world = world.restarted(2);
        for id in members(&grant) {
            world.join(id, vec![report(&grant)], vec![]);
        }
        world.pass(millis, &[1, 2, 3]);
        let one = grant.secondaries[0].server;
        world.beat(one.get(), vec![], vec![held(&grant)]);
        let told =
            world.with(|chunks, step| locations(&chunks.view(step.now, step.state), grant.handle));
        assert_eq!(told.primary, is_believed.then_some(one), "after {millis} ms");
    }
}
