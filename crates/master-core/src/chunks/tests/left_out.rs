//! A server that a set goes on without hears of it with its next heartbeats, until it has heeded
//! it; so does one that tells of an older version.

use super::{World, report};
use cairn_protocol::{
    ChunkGrant, ErrorCode, Heartbeat, HeartbeatAnswer, LeftOut, Response, SecondaryFailed,
};
use cairn_types::{Incarnation, ServerId, Term};

/// A heartbeat of a server that has heeded all up to that number, under that term.
fn beat(world: &mut World, server: ServerId, heeded: u64, term: u64) -> HeartbeatAnswer {
    let (incarnation, term) = (Incarnation::new(server.get() * 10), Term::new(term));
    world.request(9, Heartbeat { server, incarnation, heeded, term, ..Heartbeat::default() });
    match world.reply(9) {
        Some(Ok(Response::Heartbeat(answer))) => *answer,
        other => panic!("{other:?}"),
    }
}

/// A chunk whose set goes on without its first secondary.
fn shrunk() -> (World, ChunkGrant, LeftOut) {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let (handle, version, lease) = (grant.handle, grant.version, grant.lease);
    let failed = vec![grant.secondaries[0].server];
    world.request(5, SecondaryFailed { handle, version, lease, failed });
    let to = world.accept_raises(&[])[0].1.to;
    assert_eq!(beat(&mut world, grant.secondaries[0].server, 0, 1).left_out, [], "not logged yet");
    world.commit();
    (world, grant, LeftOut { handle, version: to })
}

#[test]
fn it_is_told_until_it_has_heeded_it_and_the_others_never() {
    let (mut world, grant, set) = shrunk();
    let (out, of_it) = (grant.secondaries[0].server, grant.secondaries[1].server);
    let told = beat(&mut world, out, 0, 1);
    assert_eq!(told.left_out, [set]);
    assert_eq!(beat(&mut world, out, 0, 1).left_out, [set], "an answer was lost");
    assert_eq!(beat(&mut world, out, told.news, 0).left_out, [set], "that was another's news");
    assert_eq!(beat(&mut world, out, told.news, 1).left_out, []);
    assert_eq!(beat(&mut world, of_it, 0, 1).left_out, []);
}

#[test]
fn one_that_tells_of_an_older_version_is_told_whenever_it_does() {
    let (mut world, grant, set) = shrunk();
    let out = grant.secondaries[0].server.get();
    world.join(out, vec![report(&grant)], vec![]);
    assert_eq!(world.beat(out, vec![], vec![]).left_out, [], "readers ask the master anew");
    assert_eq!(world.beat(out, vec![report(&grant)], vec![]).left_out, [set]);
}

/// Seed 8 of three masters: a server came back under another id, and a new master knew its replica
/// by that one. It answered that the set went on without the former, at the version that it had.
#[test]
fn who_is_of_the_set_under_another_id_is_not_out_of_it_until_the_version_is_raised() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let (handle, version, lease) = (grant.handle, grant.version, grant.lease);
    let failed = vec![ServerId::new(77)];
    world.request(5, SecondaryFailed { handle, version, lease, failed });
    assert_eq!(world.code(5), Some(ErrorCode::NotPrimary), "SH3");
    let failed = vec![grant.secondaries[0].server];
    world.request(5, SecondaryFailed { handle, version, lease, failed: failed.clone() });
    let to = world.accept_raises(&[])[0].1.to;
    world.commit();
    for _ in 0..2 {
        match world.reply(5) {
            Some(Ok(Response::SecondaryFailed(answer))) => {
                assert_eq!(
                    (answer.version, answer.secondaries.len()),
                    (to, 1),
                    "or its repetition"
                );
            }
            other => panic!("{other:?}"),
        }
        world.request(5, SecondaryFailed { handle, version, lease, failed: failed.clone() });
    }
}
