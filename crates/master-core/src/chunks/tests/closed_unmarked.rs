//! A chunk was closed while none of its replicas could be given the mark: whoever is left of them
//! is given it when a reader wants to know where the chunk ends, however few they are.

use super::{World, lease, members, report};
use cairn_protocol::{ErrorCode, LeasePurpose, Raise, ReplicaReport};
use cairn_types::ChunkIndex;

#[test]
fn a_lone_replica_is_given_the_mark_and_then_nothing_more() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let left = members(&grant)[0];
    // Its lease runs out, and two of three die.
    world.pass(6000, &[left]);
    world.beat(left, vec![report(&grant)], vec![]);
    world.request(2, lease(LeasePurpose::Append, 0));
    world.pass(750, &[left]);
    world.accept_raises(&[]);
    world.commit();
    world.accept_grant();
    assert_eq!(world.granted(2).index, ChunkIndex::new(1), "the first chunk is closed");
    world.request(3, lease(LeasePurpose::Level, 0));
    let [(id, to, raise)] = &world.raises()[..] else { panic!("one is left, and lacks the mark") };
    assert_eq!((*to, raise.handle, raise.close), (left, grant.handle, true));
    world.accept(*id, raise, ReplicaReport::default());
    assert_eq!(world.code(3), Some(ErrorCode::Busy), "it looks there again");
    let known = world.chunks.fleet.locations().get(grant.handle, super::server(left));
    assert!(known.is_some_and(|replica| replica.closed));
    world.request(4, lease(LeasePurpose::Level, 0));
    let none: Vec<(_, u64, Raise)> = world.raises();
    assert!(none.is_empty(), "it has the mark: {none:?}");
}
