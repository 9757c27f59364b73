//! What a server says of its replica that nobody can ever have: it is no word (BE1, BE2).

use super::{World, lease, members, report, server};
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
