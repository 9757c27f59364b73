//! A server whose heartbeats come, and which is not reached at the address that it gives, is told
//! of and wanted for nothing new.

use super::{World, lost_answer, members, server};
use cairn_protocol::{ErrorCode, Failure, WaitReason};

impl World {
    fn told_unreached(&mut self) -> Vec<u64> {
        let servers = self.with(|chunks, step| chunks.servers(&chunks.view(step.now, step.state)));
        let unreached = servers.servers.into_iter().filter(|it| it.unreached);
        unreached.map(|it| it.at.server.get()).collect()
    }
}

fn refused() -> Failure {
    Failure::not_done(ErrorCode::Unreachable, "connection refused")
}

#[test]
fn one_that_is_not_reached_is_told_of_gets_no_new_replicas_and_is_forgiven_at_once() {
    let mut world = World::new(4);
    let all = [1, 2, 3, 4];
    world.unreached.insert(server(2), refused());
    world.pass(500, &all);
    assert_eq!(world.told_unreached(), [0; 0], "it may have come this moment");
    // Each is asked anew after as long as a server takes to die.
    world.pass(5500, &all);
    assert_eq!(world.told_unreached(), [2]);
    let reason = world.reason("SERVERS_UNREACHED").expect("a person is told");
    assert!(reason.contains("s2:1 (connection refused)"), "{reason}");
    assert_eq!(world.beat(2, vec![], vec![]).unreached, "connection refused");
    assert_eq!(world.beat(3, vec![], vec![]).unreached, "");
    assert_eq!(members(&world.first_chunk()), [1, 3, 4]);
    // It starts anew where it was: that is no other address.
    world.join_as(2, 21, vec![], vec![]);
    assert_eq!(world.told_unreached(), [2]);
    let answer = world.beat_as(2, 21, vec![], vec![]);
    assert_eq!((answer.unreached.as_str(), answer.reached), ("connection refused", false));
    world.unreached.clear();
    world.millis += 250;
    world.beat_as(2, 21, vec![], vec![]);
    world.wake_up();
    assert!(world.beat_as(2, 21, vec![], vec![]).reached);
    assert_eq!(world.told_unreached(), [0; 0]);
    assert_eq!(world.reason("SERVERS_UNREACHED"), None);
}

#[test]
fn who_answers_whatever_it_says_is_reached_and_who_answers_in_its_place_is_not() {
    for (code, expected) in [
        (ErrorCode::NotPrimaryMaster, &[][..]),
        (ErrorCode::Invalid, &[]),
        (ErrorCode::Busy, &[]),
        (ErrorCode::WrongServer, &[1]),
        (ErrorCode::WrongCell, &[1]),
        (ErrorCode::VersionUnsupported, &[1]),
        (ErrorCode::DeadlineExceeded, &[1]),
    ] {
        let mut world = World::new(2);
        world.unreached.insert(server(1), Failure::not_done(code, "no"));
        world.pass(6000, &[1, 2]);
        assert_eq!(world.told_unreached(), expected, "{code:?}");
        world.pass(3000, &[2]);
        assert_eq!(world.told_unreached(), [0; 0], "who is silent is told of as that: {code:?}");
    }
}

#[test]
fn a_chunk_that_only_one_could_take_which_is_not_reached_waits_for_a_server() {
    let (mut world, grant, all) = World::settled(4);
    let three = members(&grant);
    let fourth = *all.iter().find(|id| !three.contains(id)).expect("four");
    world.unreached.insert(server(fourth), lost_answer());
    world.pass(6000, &all);
    assert_eq!(world.told_unreached(), [fourth]);
    let left = [three[0], three[1], fourth];
    world.pass(5000, &left);
    assert!(world.orders().is_empty(), "nobody is asked to copy who is not reached");
    assert_eq!(world.waits(), [(WaitReason::NoServer, 1)]);
    world.unreached.clear();
    world.pass(500, &left);
    assert_eq!(world.copy_all(), [fourth]);
}
