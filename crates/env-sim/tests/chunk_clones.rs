//! A clone on its way from one data directory to another: what it becomes, and what is left of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use bytes::Bytes;
use cairn_env::{ChunkDone, ChunkError, CloneWork, Disk, DiskError, JournalEntry};
use cairn_env_sim::SimDisk;
use cairn_protocol::ReplicaReport;
use cairn_store::ChunkStore;
use cairn_types::{BlockChecksums, Random, SerialNumber};
use chunk_model::{BLOCK, HANDLE, Model, Step, Write, new_disk, open, read_all, steps, version};

/// A clone under construction, as its server's decisions drive it.
struct Cloning<'s> {
    store: &'s ChunkStore,
    length: u64,
    known: BlockChecksums,
}

impl<'s> Cloning<'s> {
    fn begin(store: &'s ChunkStore, anew: bool) -> Result<Self, ChunkError> {
        match store.clone_work(HANDLE, &CloneWork::Begin { anew })? {
            ChunkDone::Checksums { length, checksums } => {
                Ok(Self { store, length, known: checksums })
            }
            other => panic!("{other:?}"),
        }
    }

    /// Fetches the first run of blocks that differ, from `offset` on; where it ends.
    fn fetch(&mut self, source: &ChunkStore, offset: u64) -> Result<Option<u64>, ChunkError> {
        let first = usize::try_from(offset / u64::from(BLOCK)).unwrap();
        let rest = self.known.0.get(first..).unwrap_or_default().to_vec();
        let done = source.fetch(HANDLE, offset, (self.length, &BlockChecksums(rest)), 0)?;
        let (offset, bytes) = (done.offset, done.payload.into_bytes());
        if bytes.is_empty() {
            return Ok(None);
        }
        let end = offset + bytes.len() as u64;
        let work = CloneWork::Install { offset, checksums: done.checksums, bytes };
        self.store.clone_work(HANDLE, &work)?;
        *self = Self::begin(self.store, false)?;
        Ok(Some(end - end % u64::from(BLOCK)))
    }

    fn copy(&mut self, source: &ChunkStore) -> Result<(), ChunkError> {
        let mut offset = 0;
        while let Some(end) = self.fetch(source, offset)? {
            offset = end;
        }
        Ok(())
    }

    fn finish(&self, stands: ReplicaReport) -> Result<(), ChunkError> {
        self.store.clone_work(HANDLE, &CloneWork::Finish { stands }).map(drop)
    }

    fn adopt(&self, number: u64) -> Result<(), ChunkError> {
        let adopt = JournalEntry::Adopt { handle: HANDLE, version: version(number), close: false };
        self.store.journal(&[adopt])
    }
}

/// How the model's replica stands.
fn stands(model: &Model) -> ReplicaReport {
    ReplicaReport {
        handle: HANDLE,
        version: version(model.version),
        mutated_version: version(1),
        serial: SerialNumber::new(model.applied as u64),
        length: model.contents[model.applied].len() as u64,
        ..ReplicaReport::default()
    }
}

fn filled(store: &ChunkStore, size: usize) -> Model {
    let mut model = Model::new();
    let bytes = (0..size).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
    let write = Write::Bytes { offset: 0, bytes, block_offset: 0 };
    let fill = [Step::Raise(1), Step::Apply { writes: vec![write], sync: false }];
    model.take_all(store, &fill);
    model
}

#[test]
fn a_clone_takes_over_what_is_mutated_meanwhile_and_is_the_replica_once_it_is_adopted() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (source_disk, disk) = (new_disk(), new_disk());
        let (source, _) = open(&source_disk);
        let (store, _) = open(&disk);
        let mut model = Model::new();
        let mut cloning = None;
        let script = steps(&mut random, 30);
        for step in &script {
            model.take(&source, step).unwrap();
            let offset = random.below(20_000);
            let cloning = cloning.get_or_insert_with(|| Cloning::begin(&store, false).unwrap());
            let offset = offset.min(cloning.length) / u64::from(BLOCK) * u64::from(BLOCK);
            cloning.fetch(&source, offset).unwrap();
        }
        let mut cloning = cloning.unwrap();
        cloning.copy(&source).unwrap();
        assert_eq!(store.checksums(HANDLE), Err(ChunkError::NoSuchChunk), "in no inventory");
        let stands = stands(&model);
        cloning.finish(stands.clone()).unwrap();
        cloning.adopt(40).unwrap();
        let expected = &model.contents[model.applied];
        assert!(read_all(&store).unwrap() == *expected, "seed {seed}");
        drop(store);
        disk.power_loss(&mut random);
        let (store, found) = open(&disk);
        let found = found.expect("it is a replica");
        assert_eq!(found.version, version(40));
        assert_eq!((found.serial, found.length), (stands.serial, stands.length), "seed {seed}");
        assert!(read_all(&store).unwrap() == *expected, "seed {seed}");
    }
}

/// Makes a clone of 5000 bytes a replica; what the disk refuses ends it.
fn clone_whole(store: &ChunkStore, source: &ChunkStore, model: &Model) -> Result<(), ChunkError> {
    let mut cloning = Cloning::begin(store, false)?;
    cloning.copy(source)?;
    cloning.finish(stands(model))?;
    cloning.adopt(2)
}

#[test]
fn killed_or_without_power_at_any_step_it_is_a_whole_replica_or_nothing_at_all() {
    let source_disk = new_disk();
    let (source, _) = open(&source_disk);
    let model = filled(&source, 5000);
    let losses: [fn(&SimDisk, &mut Random); 3] =
        [|disk, _| disk.crash(), SimDisk::power_loss, |disk, _| disk.power_loss_of_all_unsynced()];
    for (at, lose) in losses.into_iter().enumerate() {
        let (mut whole, mut nothing, mut fuse) = (0, 0, 0);
        loop {
            let context = format!("loss {at} at step {fuse}");
            let disk = new_disk();
            let (store, _) = open(&disk);
            disk.arm_fuse(fuse);
            let done = clone_whole(&store, &source, &model);
            drop(store);
            let blown = disk.fuse_blown();
            lose(&disk, &mut Random::new(fuse));
            let (store, found) = open(&disk);
            assert_eq!(disk.list("clones").unwrap_or_default(), [""; 0], "{context}");
            match found {
                Some(found) => {
                    assert_eq!((found.version, found.length), (version(2), 5000), "{context}");
                    assert!(read_all(&store).unwrap() == model.contents[1], "{context}");
                    whole += 1;
                }
                None => {
                    assert!(done.is_err(), "{context}: it was adopted");
                    clone_whole(&store, &source, &model).expect("it can be begun again");
                    nothing += 1;
                }
            }
            if !blown {
                assert!(done.is_ok(), "{context}");
                break;
            }
            fuse += 1;
        }
        assert!(whole > 0 && nothing >= 15, "{whole} whole, {nothing} not there");
    }
}

#[test]
fn a_full_disk_ends_a_clone_and_what_there_was_of_it_makes_room_again() {
    let (source_disk, disk) = (new_disk(), new_disk());
    let (source, _) = open(&source_disk);
    let model = filled(&source, 200_000);
    let (store, _) = open(&disk);
    let used = || disk.session().space().unwrap().used;
    let before = used();
    disk.set_capacity(before + 100_000);
    let refused = clone_whole(&store, &source, &model);
    assert!(matches!(refused, Err(ChunkError::Disk(DiskError::NoSpace))), "{refused:?}");
    store.clone_work(HANDLE, &CloneWork::Drop).unwrap();
    assert_eq!(used(), before);
    let install =
        CloneWork::Install { offset: 0, checksums: BlockChecksums::default(), bytes: Bytes::new() };
    assert_eq!(store.clone_work(HANDLE, &install), Err(ChunkError::NoSuchChunk));
    disk.set_capacity(1 << 30);
    clone_whole(&store, &source, &model).unwrap();
}

#[test]
fn what_is_not_finished_or_was_changed_since_is_not_adopted() {
    let (source_disk, disk) = (new_disk(), new_disk());
    let (source, _) = open(&source_disk);
    let mut model = filled(&source, 5000);
    let (store, _) = open(&disk);
    let mut cloning = Cloning::begin(&store, false).unwrap();
    assert_eq!(cloning.adopt(2), Err(ChunkError::NoSuchChunk));
    cloning.copy(&source).unwrap();
    let shorter = ReplicaReport { length: 4000, ..stands(&model) };
    assert!(cloning.finish(shorter).is_err(), "its source stands otherwise");
    cloning.finish(stands(&model)).unwrap();
    let write = Write::Bytes { offset: 0, bytes: vec![9; 3000], block_offset: 0 };
    model.take(&source, &Step::Apply { writes: vec![write], sync: false }).unwrap();
    cloning.copy(&source).unwrap();
    assert_eq!(cloning.adopt(2), Err(ChunkError::NoSuchChunk), "it was changed since");
    cloning.finish(stands(&model)).unwrap();
    cloning.adopt(2).unwrap();
    assert!(read_all(&store).unwrap() == model.contents[2]);
}

#[test]
fn blocks_that_did_not_arrive_as_they_were_sent_are_refused() {
    let disk = new_disk();
    let (store, _) = open(&disk);
    Cloning::begin(&store, false).unwrap();
    let bytes = Bytes::from(vec![1; 1500]);
    let checksums = BlockChecksums::of(0, &[2; 1500], BLOCK);
    for (offset, at) in [(0, 0), (100, 100), (5120, 5120)] {
        let work =
            CloneWork::Install { offset, checksums: checksums.clone(), bytes: bytes.clone() };
        assert_eq!(store.clone_work(HANDLE, &work), Err(ChunkError::FetchedDiffers { offset: at }));
    }
}
