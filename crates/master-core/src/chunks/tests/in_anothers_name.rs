//! What one process says in the name of a server that lives as another is not that server's word.

use super::{World, server};
use cairn_protocol::{ErrorCode, Heartbeat};
use cairn_types::{Incarnation, Term};
use std::time::Duration;

/// A heartbeat of a server that has obeyed a later master than this one.
fn ahead(id: u64, incarnation: u64) -> Heartbeat {
    let (server, incarnation) = (server(id), Incarnation::new(incarnation));
    Heartbeat { server, incarnation, term: Term::new(9), ..Heartbeat::default() }
}

/// How many servers know of more than the log, as far as this master knows.
fn count(world: &World) -> usize {
    let now = world.moment().time;
    world.chunks.fleet.ahead().within(now, Duration::from_secs(60)).0
}

#[test]
fn nobody_is_ahead_of_the_log_because_another_says_so_in_its_name() {
    let mut world = World::new(3);
    for id in 1..=3 {
        world.request(5, ahead(id, 77));
        assert_eq!(world.code(5), Some(ErrorCode::NotPrimaryMaster));
    }
    assert_eq!(count(&world), 0, "all three live here, as other processes");
    world.request(5, ahead(1, 10));
    assert_eq!((world.code(5), count(&world)), (Some(ErrorCode::NotPrimaryMaster), 1));
    // Who is heard of no more may well have been started elsewhere.
    world.pass(2_000, &[1, 3]);
    world.request(5, ahead(2, 77));
    assert_eq!((world.code(5), count(&world)), (Some(ErrorCode::NotPrimaryMaster), 2));
}
