//! Emptying the trash: in slices, one at a time, and in nobody's way.

mod bench;

use bench::Bench;
use cairn_chunk_core::TRASH_LANE;
use cairn_env::ChunkDone;
use std::time::Duration;

impl Bench {
    /// Heartbeats that are not answered; the trash is looked at every twentieth.
    fn beat(&mut self, times: u32) {
        for _ in 0..times {
            self.tick(Duration::from_secs(1));
        }
    }
}

#[test]
fn the_trash_is_emptied_slice_by_slice_in_a_lane_of_its_own() {
    let mut bench = Bench::joined();
    bench.beat(60);
    let (first, lane) = bench.emptying.pop_front().expect("a look is due");
    assert_eq!(lane, TRASH_LANE, "raises wait in the journal's lane");
    assert!(bench.emptying.is_empty(), "one slice at a time, however long it takes");
    bench.done(first, Ok(ChunkDone::TrashEmptied { more: true }));
    let (second, _) = bench.emptying.pop_front().expect("the next slice, at once");
    bench.done(second, Ok(ChunkDone::TrashEmptied { more: false }));
    assert!(bench.emptying.is_empty());
    bench.beat(60);
    assert_eq!(bench.emptying.len(), 1, "and again after a while");
}
