//! Opens in a batch: so many as their locations have room for.

use super::World;
use crate::reads::open_within;
use cairn_env::Now;
use cairn_protocol::{BATCH_OPEN_COUNT_MAX, ErrorCode, Open, OpenAnswer};
use cairn_types::wire::Message;
use cairn_types::{CellPath, Time, WallTime};
use std::time::Duration;

impl World {
    fn open_within(&self, count: u32, room: &mut usize) -> Result<OpenAnswer, ErrorCode> {
        let time = Time::default() + Duration::from_millis(self.millis);
        let now = Now { time, wall: WallTime::default() };
        let path = CellPath::parse("/f").expect("a path");
        let open = Open { path, count, ..Open::default() };
        let told = open_within(&self.state, &self.chunks, now, &open, room);
        told.map_err(|failure| failure.code)
    }
}

#[test]
fn a_batch_tells_locations_while_there_is_room_and_nothing_after_the_first_that_has_none() {
    let mut world = World::new(3);
    world.first_chunk();
    let mut room = usize::MAX;
    let answer = world.open_within(16, &mut room).expect("it is there");
    assert_eq!(answer.chunks[0].replicas.len(), 3);
    let size = usize::MAX - room;
    assert!(size >= answer.to_bytes().len() - answer.entry.to_bytes().len(), "no more than told");
    let mut room = 2 * size + 1;
    assert_eq!(world.open_within(16, &mut room), Ok(answer.clone()));
    assert_eq!(world.open_within(16, &mut room), Ok(answer));
    assert_eq!(room, 1);
    assert_eq!(world.open_within(16, &mut room), Err(ErrorCode::Busy));
    assert_eq!(world.open_within(0, &mut room), Err(ErrorCode::Busy), "nothing more is looked up");
}

#[test]
fn an_open_in_a_batch_asks_for_no_more_chunks_than_one_answer_of_many_may_hold() {
    let world = World::new(3);
    let mut room = usize::MAX;
    assert!(world.open_within(BATCH_OPEN_COUNT_MAX, &mut room).is_ok());
    let told = world.open_within(BATCH_OPEN_COUNT_MAX + 1, &mut room);
    assert_eq!(told, Err(ErrorCode::Invalid));
}
