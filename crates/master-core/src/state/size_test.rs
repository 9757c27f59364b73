//! How much memory files take (design §4).

use super::map::Map;
use super::replay_test::{TERM, founding};
use super::{ROOT, State};
use crate::applied::Applied;
use crate::record::{AddDirectories, AddFile, NewDirectory, OpenChunk, Record};
use cairn_types::{
    ChunkHandle, ChunkIndex, ChunkVersion, EntryId, LogIndex, MutationName, MutationNumber,
    SessionId, WallTime,
};

const DIRECTORIES: u64 = 20;
const FILES_OF_EACH: u64 = 1000;

struct History {
    state: State,
    counter: u64,
}

impl History {
    fn fresh(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn mutation(&mut self) -> MutationName {
        let number = MutationNumber::new(self.fresh());
        MutationName { session: SessionId::new(1), number }
    }

    fn apply(&mut self, record: impl Into<Record>) {
        let index = LogIndex::new(self.state.applied().get() + 1);
        let outcome = self.state.apply(index, TERM, &record.into());
        assert!(!matches!(outcome, Applied::Failed(_)), "{outcome:?}");
    }

    fn make_directory(&mut self, name: String) -> EntryId {
        let (mutation, id) = (self.mutation(), EntryId::of(TERM, self.fresh()));
        let directories = vec![NewDirectory { id, name }];
        self.apply(AddDirectories {
            mutation,
            parent: ROOT,
            directories,
            ..AddDirectories::default()
        });
        id
    }

    fn make_file(&mut self, parent: EntryId, name: String) {
        let time = WallTime::from_millis(1_795_000_000_000 + self.counter / 100);
        let (mutation, id) = (self.mutation(), EntryId::of(TERM, self.fresh()));
        let replication = 3;
        self.apply(AddFile { time, mutation, parent, name, id, replication, ..AddFile::default() });
        let (handle, version) = (self.fresh(), self.fresh());
        self.apply(OpenChunk {
            time,
            file: id,
            index: ChunkIndex::default(),
            handle: ChunkHandle::of(TERM, handle),
            version: ChunkVersion::of(TERM, version),
            set_size: 3,
            closes: None,
            floor: ChunkHandle::default(),
            charges: true,
        });
    }
}

/// Bytes of memory for each file.
fn bytes_each<'a>(maps: impl IntoIterator<Item = &'a Map>) -> u64 {
    let bytes: u64 = maps.into_iter().map(|map| map.tree().usage().memory_bytes()).sum();
    bytes / (DIRECTORIES * FILES_OF_EACH)
}

#[test]
fn a_file_and_its_chunk_take_few_bytes() {
    let mut history = History { state: State::default(), counter: 0 };
    founding().into_iter().for_each(|record| history.apply(record));
    for directory in 0..DIRECTORIES {
        let parent = history.make_directory(format!("day-{directory}"));
        let job =
            format!("{:08x}-91c4-4b5e-8d20-7a41c0ffee{:02x}", 0x51ce << 8 | directory, directory);
        for file in 0..FILES_OF_EACH {
            history.make_file(parent, format!("part-{file:05}-{job}-c000.snappy.parquet"));
        }
    }
    let State { names, chunks, .. } = &history.state;
    // Sixty-four are promised, for locations and the process, too.
    let (file, chunk) = (bytes_each(names.maps()), bytes_each(chunks.maps()));
    assert!(file <= 32 && chunk <= 10, "{file} bytes a file, {chunk} a chunk");
}
