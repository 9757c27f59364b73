//! Opens in a batch: each is answered as if it were alone, so many as their locations have room
//! for.

use super::World;
use crate::permissions::Asker;
use crate::reads::{open, open_each};
use crate::record::{AddDirectories, AddFile, HideEntry, NewDirectory, OpenChunk};
use crate::state::{HIDDEN_ROOT, ROOT};
use cairn_env::Now;
use cairn_protocol::{BATCH_OPEN_COUNT_MAX, ErrorCode, Failure, Open, OpenAnswer};
use cairn_types::wire::Message;
use cairn_types::{
    CellPath, ChunkHandle, ChunkIndex, ChunkVersion, EntryId, Identity, MutationName,
    MutationNumber, SessionId, Time, WallTime,
};
use std::sync::Arc;
use std::time::Duration;

fn wish(path: &str, first: u64, count: u32) -> Open {
    let (path, first) = (CellPath::parse(path).expect("a path"), ChunkIndex::new(first));
    Open { path, first, count, ..Open::default() }
}

impl World {
    fn now(&self) -> Now {
        let time = Time::default() + Duration::from_millis(self.millis);
        Now { time, wall: WallTime::default() }
    }

    fn open_each(&self, wishes: &[Open], room: usize) -> Vec<Result<OpenAnswer, Failure>> {
        let wishes: Vec<&Open> = wishes.iter().collect();
        open_each(&self.chunks.view(self.now(), &self.state), &wishes, room)
    }

    fn codes(&self, wishes: &[Open], room: usize) -> Vec<Option<ErrorCode>> {
        let told = self.open_each(wishes, room).into_iter();
        told.map(|told| told.err().map(|failure| failure.code)).collect()
    }

    /// Adds `/d` with `/d/none` without a chunk, `/d/one`, `/d/three`, and `/d/hole`, which has no
    /// chunk at index 0; and hides `/h`.
    fn add_files(&mut self) {
        let mut last = 0;
        let mut mutation = || {
            last += 1;
            MutationName { session: SessionId::new(1), number: MutationNumber::new(last) }
        };
        let id = |number| EntryId::new(200 + number);
        let directories = vec![NewDirectory { name: "d".into(), id: id(0) }];
        self.apply(AddDirectories {
            mutation: mutation(),
            parent: ROOT,
            directories,
            ..AddDirectories::default()
        });
        let files: [(EntryId, &str, &[u64]); 5] = [
            (id(0), "none", &[]),
            (id(0), "one", &[0]),
            (id(0), "three", &[0, 1, 2]),
            (id(0), "hole", &[1]),
            (ROOT, "h", &[]),
        ];
        for (number, (parent, name, indexes)) in (1..).zip(files) {
            self.apply(AddFile {
                mutation: mutation(),
                parent,
                name: name.into(),
                id: id(number),
                replication: 3,
                ..AddFile::default()
            });
            for index in indexes {
                self.apply(OpenChunk {
                    file: id(number),
                    index: ChunkIndex::new(*index),
                    handle: ChunkHandle::new(1000 * number + index),
                    version: ChunkVersion::new(1000 * number + index),
                    set_size: 3,
                    ..OpenChunk::default()
                });
            }
        }
        self.apply(HideEntry {
            mutation: mutation(),
            entry: id(5),
            parent: ROOT,
            name: "h".into(),
            ..HideEntry::default()
        });
    }
}

#[test]
fn in_company_each_is_told_what_it_is_told_alone() {
    let mut world = World::new(3);
    world.first_chunk();
    world.add_files();
    let hidden = world.state.list(HIDDEN_ROOT, "").next().expect("one is hidden").name;
    let wishes = [
        wish("/", 0, 16),
        wish("/f", 0, 16),
        wish("/absent/f", 0, 1),
        wish("/d/one", 0, 1),
        wish("/d/absent", 0, 1),
        wish("/d", 0, 1),
        wish("/d/none", 0, 16),
        wish("/d/three", 0, 16),
        wish("/d/hole", 0, 16),
        wish("/d/three", 1, 1),
        wish("/d/three", 0, 2),
        wish("/d/one", 0, 0),
        wish("/d/one/below", 0, 1),
        wish("/.deleted", 0, 1),
        wish(&format!("/.deleted/{hidden}"), 0, 1),
        wish(&format!("/.deleted/{hidden}"), 0, 1),
        wish("/d/one", 1, 16),
        wish("/d/one", 0, 16),
        wish("/f", 0, 1),
    ];
    let view = world.chunks.view(world.now(), &world.state);
    let superuser = Arc::new(Identity::default());
    let asker = Asker { state: &world.state, who: &superuser };
    let alone: Vec<_> = wishes.iter().map(|wish| open(asker, &view, wish)).collect();
    let handles = |told: &Result<OpenAnswer, Failure>| {
        let chunks = told.as_ref().map_or(&[][..], |answer| &answer.chunks);
        chunks.iter().map(|chunk| chunk.handle.get()).collect::<Vec<_>>()
    };
    assert_eq!(handles(&alone[7]), [3000, 3001, 3002]);
    assert_eq!(handles(&alone[8]), [4001]);
    let replicas = |told: &OpenAnswer| told.chunks.iter().map(|chunk| chunk.replicas.len()).sum();
    assert_eq!(alone[1].as_ref().map(replicas), Ok(3));
    // The first time `/d` is looked for; from then on it is remembered.
    for _ in 0..2 {
        assert_eq!(world.open_each(&wishes, usize::MAX), alone);
    }
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
