//! Who becomes primary where replicas stand at different serial numbers and nobody knows of an
//! acknowledgement: the primary levels the others by its own.

use super::{World, lease, server};
use cairn_protocol::{LeasePurpose, ReplicaReport};
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
    }
}
