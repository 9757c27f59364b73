//! Opens in a batch: each is answered as if it were alone, so many as their locations have room
//! for.

use super::World;
use crate::reads::{open, open_each};
use cairn_env::Now;
use cairn_protocol::{BATCH_OPEN_COUNT_MAX, ErrorCode, Failure, Open, OpenAnswer};
use cairn_types::wire::Message;
use cairn_types::{CellPath, ChunkIndex, Time, WallTime};
use std::time::Duration;

fn wish(path: &str, first: u64, count: u32) -> Open {
    let (path, first) = (CellPath::parse(path).expect("a path"), ChunkIndex::new(first));
    Open { path, first, count }
}

impl World {
    fn now(&self) -> Now {
        let time = Time::default() + Duration::from_millis(self.millis);
        Now { time, wall: WallTime::default() }
    }

    fn open_each(&self, wishes: &[Open], room: usize) -> Vec<Result<OpenAnswer, Failure>> {
        let wishes: Vec<&Open> = wishes.iter().collect();
        open_each((&self.state, &self.chunks, self.now()), &wishes, room)
    }

    fn codes(&self, wishes: &[Open], room: usize) -> Vec<Option<ErrorCode>> {
        let told = self.open_each(wishes, room).into_iter();
        told.map(|told| told.err().map(|failure| failure.code)).collect()
    }
}

#[test]
fn in_company_each_is_told_what_it_is_told_alone() {
    let mut world = World::new(3);
    world.first_chunk();
    let wishes = [
        wish("/", 0, 16),
        wish("/f", 0, 16),
        wish("/absent/f", 0, 1),
        wish("/f", 0, 1),
        wish("/f", 0, 0),
        wish("/f", 1, 16),
        wish("/f/below", 0, 1),
        wish("/absent", 0, 1),
        wish("/f", 0, 16),
    ];
    let alone = |wish| open(&world.state, &world.chunks, world.now(), wish);
    let told = world.open_each(&wishes, usize::MAX);
    assert_eq!(told, wishes.iter().map(alone).collect::<Vec<_>>());
    let located = told.iter().map(|told| told.as_ref().map_or(0, |answer| answer.chunks.len()));
    assert_eq!(located.collect::<Vec<_>>(), [0, 1, 0, 1, 0, 0, 0, 0, 1]);
}

#[test]
fn a_batch_tells_locations_while_there_is_room_and_nothing_after_the_first_that_has_none() {
    let mut world = World::new(3);
    world.first_chunk();
    let told = world.open_each(&[wish("/f", 0, 16)], usize::MAX).remove(0).expect("it is there");
    assert_eq!(told.chunks[0].replicas.len(), 3);
    let size = told.locations_size();
    assert!(size >= told.to_bytes().len() - told.entry.to_bytes().len(), "no more than told");
    let wishes = [wish("/f", 0, 16), wish("/f", 0, 16), wish("/f", 0, 16), wish("/f", 0, 0)];
    let busy = Some(ErrorCode::Busy);
    assert_eq!(world.codes(&wishes, 2 * size + 1), [None, None, busy, busy]);
    assert_eq!(world.codes(&wishes, 2 * size - 1), [None, busy, busy, busy]);
}

#[test]
fn an_open_in_a_batch_asks_for_no_more_chunks_than_one_answer_of_many_may_hold() {
    let world = World::new(3);
    let wishes = [BATCH_OPEN_COUNT_MAX, BATCH_OPEN_COUNT_MAX + 1].map(|n| wish("/f", 0, n));
    assert_eq!(world.codes(&wishes, usize::MAX), [None, Some(ErrorCode::Invalid)]);
}
