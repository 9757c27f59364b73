//! Chunks that are made of ranges of others, within a server and from another (R45).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use cairn_env::{ChunkError, CloneWork, GatheredRange, JournalEntry};
use cairn_env_sim::SimDisk;
use cairn_protocol::ReplicaReport;
use cairn_store::ChunkStore;
use cairn_types::{BlockChecksums, ChunkHandle, Random, SerialNumber};
use chunk_model::{BLOCK, HANDLE, Model, open, steps, version};

const MADE: ChunkHandle = ChunkHandle::new(0x1_0000_0000_0009);

/// A chunk of random bytes.
fn filled(store: &ChunkStore, random: &mut Random) -> Model {
    let mut model = Model::new();
    for step in steps(random, 40) {
        model.take(store, &step).unwrap();
    }
    model
}

fn contents(model: &Model) -> &[u8] {
    &model.contents[model.applied]
}

fn read_made(store: &ChunkStore) -> Vec<u8> {
    let read = store.read(MADE, 0, 1 << 30).unwrap();
    let (checksums, bytes) = (read.checksums, read.payload.into_bytes());
    assert!(checksums.verify(0, &bytes, BLOCK));
    bytes.to_vec()
}

/// Ranges of a chunk of so many bytes, anywhere in it.
fn ranges(random: &mut Random, length: u64) -> Vec<GatheredRange> {
    let count = random.below(9) + 1;
    let range = |_| {
        let offset = random.below(length);
        let size = random.below(length - offset) + 1;
        GatheredRange { of: HANDLE, offset, size }
    };
    (0..count).map(range).collect()
}

fn wanted(model: &Model, ranges: &[GatheredRange]) -> Vec<u8> {
    let at = |range: &GatheredRange| {
        let (start, end) = (range.offset, range.offset + range.size);
        contents(model)[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()].to_vec()
    };
    ranges.iter().flat_map(at).collect()
}

fn finish(store: &ChunkStore, length: u64) -> Result<(), ChunkError> {
    let (handle, serial) = (MADE, SerialNumber::new(1));
    let stands = ReplicaReport { handle, serial, length, closed: true, ..ReplicaReport::default() };
    store.clone_work(MADE, &CloneWork::Finish { stands })?;
    store.journal(&[JournalEntry::Adopt { handle: MADE, version: version(1), close: true }])
}

/// Takes a range as another server's answer to a `Fetch` brings it.
fn add(store: &ChunkStore, source: &ChunkStore, range: GatheredRange) -> Result<(), ChunkError> {
    let offset = range.offset - range.offset % u64::from(BLOCK);
    let size_max = (range.offset + range.size - offset).next_multiple_of(u64::from(BLOCK));
    let done = source.fetch(HANDLE, offset, (0, &BlockChecksums::default()), size_max)?;
    let (offset, bytes) = (done.offset, done.payload.into_bytes());
    let (from, size) = (range.offset, range.size);
    let work = CloneWork::Add { offset, checksums: done.checksums, bytes, from, size };
    store.clone_work(MADE, &work).map(drop)
}

#[test]
fn what_is_made_of_ranges_is_these_ranges_one_after_the_other_here_and_from_elsewhere() {
    for seed in 0..40 {
        let random = &mut Random::new(seed);
        let disks = [SimDisk::new("a", 1 << 30), SimDisk::new("b", 1 << 30)];
        let [here, there] = [0, 1].map(|at: usize| open(&disks[at]).0);
        let model = filled(&here, random);
        if contents(&model).is_empty() {
            continue;
        }
        let ranges = ranges(random, contents(&model).len() as u64);
        let wanted = wanted(&model, &ranges);
        for store in [&here, &there] {
            store.clone_work(MADE, &CloneWork::Begin { anew: true }).unwrap();
        }
        here.clone_work(MADE, &CloneWork::Gather { ranges: ranges.clone() }).unwrap();
        ranges.iter().for_each(|range| add(&there, &here, *range).unwrap());
        for store in [&here, &there] {
            finish(store, wanted.len() as u64).unwrap();
            assert_eq!(read_made(store), wanted, "seed {seed}");
        }
    }
}

#[test]
fn a_range_that_is_not_there_or_not_as_it_was_written_is_in_no_chunk() {
    let random = &mut Random::new(3);
    let disk = SimDisk::new("a", 1 << 30);
    let store = open(&disk).0;
    let model = filled(&store, random);
    let length = contents(&model).len() as u64;
    assert!(length > 2 * u64::from(BLOCK), "{length}");
    store.clone_work(MADE, &CloneWork::Begin { anew: true }).unwrap();
    let gather = |offset, size| {
        let ranges = vec![GatheredRange { of: HANDLE, offset, size }];
        store.clone_work(MADE, &CloneWork::Gather { ranges })
    };
    let lacks = gather(length - 1, 2);
    assert!(matches!(lacks, Err(ChunkError::FetchedDiffers { .. })), "{lacks:?}");
    assert!(gather(u64::MAX, 2).is_err());
    // A bit of the first block flips: no range of it is taken, and those of others are.
    let name = format!("chunks/{:02x}/{:016x}.chunk", HANDLE.get() & 0xff, HANDLE.get());
    assert!(disk.flip_byte(&name, 3));
    let rotten = gather(1, 2);
    assert_eq!(rotten, Err(ChunkError::Corrupt { offset: 0 }));
    assert!(gather(u64::from(BLOCK), 2).is_ok());
}
