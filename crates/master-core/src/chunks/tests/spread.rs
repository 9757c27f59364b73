//! Chunks that are made within a few seconds lie on all servers alike, though heartbeats come in
//! between (GFS §4.2).

use super::*;
use std::collections::BTreeMap;

#[test]
fn heartbeats_forget_nothing_of_what_was_placed_a_moment_ago() {
    const SERVERS: u64 = 16;
    let mut world = World::new(SERVERS);
    let alive: Vec<u64> = (1..=SERVERS).collect();
    let mut made: BTreeMap<u64, u32> = BTreeMap::new();
    for index in 0..SERVERS {
        world.request(1_000 + index, lease(LeasePurpose::Write, index));
        for (to, raise) in world.accept_raises(&[]) {
            *made.entry(to).or_default() += u32::from(raise.create);
        }
        world.commit();
        world.accept_grant();
        world.pass(250, &alive);
    }
    assert!(made.values().all(|count| *count == 3), "{made:?}");
    assert_eq!(made.len() as u64, SERVERS);
}
