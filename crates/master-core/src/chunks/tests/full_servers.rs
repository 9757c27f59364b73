//! Where servers are enough and full, whoever wants a new chunk is told so, and not that servers
//! are lacking.

use super::{World, lease, lost_answer, server};
use cairn_protocol::{ErrorCode, Heartbeat, LeasePurpose, Outcome};
use cairn_types::Incarnation;

impl World {
    /// Time passes, and these servers say with each heartbeat that they have no room.
    fn pass_full(&mut self, millis: u64, full: &[u64]) {
        for _ in 0..millis / 250 {
            self.millis += 250;
            for id in full {
                let (server, incarnation) = (server(*id), Incarnation::new(id * 10));
                let beat = Heartbeat { server, incarnation, full: true, ..Heartbeat::default() };
                self.request(901, beat);
                self.reply(901);
            }
            self.wake_up();
        }
    }
}

#[test]
fn where_live_servers_are_enough_and_full_the_failure_is_a_full_disk() {
    let mut world = World::new(3);
    world.pass(4500, &[1, 2, 3]);
    world.pass_full(250, &[1, 2, 3]);
    world.request(1, lease(LeasePurpose::Append, 0));
    assert!(world.reply(1).is_none(), "room may come, with a purge");
    world.pass_full(3000, &[1, 2, 3]);
    let failure = world.reply(1).expect("it is tired").expect_err("there is no room");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::DiskFull, Outcome::NotDone));
    assert!(failure.message.contains("no space left"), "{failure:?}");
}

#[test]
fn where_no_server_is_live_it_is_not_the_disks() {
    let mut world = World::new(3);
    world.pass(4500, &[1, 2, 3]);
    world.pass_full(250, &[1, 2, 3]);
    world.pass(4500, &[]);
    world.request(1, lease(LeasePurpose::Append, 0));
    world.pass(3000, &[]);
    assert_eq!(world.code(1), Some(ErrorCode::Busy));
}

#[test]
fn where_those_with_room_do_not_make_a_chunk_it_is_not_the_disks() {
    let mut world = World::new(1);
    world.pass(4500, &[1]);
    world.request(1, lease(LeasePurpose::Append, 0));
    while let Some((id, ..)) = world.raises().pop() {
        world.answer(id, Err(lost_answer()));
    }
    world.pass(250, &[1]);
    world.raises();
    world.pass(3000, &[1]);
    assert_ne!(world.code(1), Some(ErrorCode::DiskFull));
}
