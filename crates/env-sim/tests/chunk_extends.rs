//! The chunk of a stream on a disk that is killed, loses power or fails at any write (R26, R40).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use cairn_env::conformance::judge_extends;
use cairn_env::{ChunkError, DiskError, JournalEntry};
use cairn_env_sim::{DiskFaults, SimDisk};
use cairn_protocol::ReplicaReport;
use cairn_store::{ChunkDisk, ChunkStore, ReadyMutation};
use cairn_types::{CellConfig, Random, SerialNumber};
use chunk_model::{BLOCK, HANDLE, new_disk, open, pushed, read_all, version};

/// Bundles as a producer cuts them once and for all.
struct Producer(Vec<Vec<u8>>);

impl Producer {
    fn new(random: &mut Random, count: usize) -> Self {
        let mut bundle = |at: usize| {
            let size = 1 + random.below(if at.is_multiple_of(3) { 5000 } else { 300 });
            (0..size).map(|_| u8::try_from(random.below(256)).unwrap()).collect()
        };
        Self((0..count).map(&mut bundle).collect())
    }

    /// The chunk's bytes up to the end of that many bundles.
    fn up_to(&self, count: usize) -> Vec<u8> {
        self.0[..count].concat()
    }

    fn bundle(&self, at: usize) -> ReadyMutation {
        let offset = self.up_to(at).len() as u64;
        let cut_at = u32::try_from(offset % u64::from(BLOCK)).unwrap();
        let (serial, size) = (SerialNumber::new(at as u64 + 1), self.0[at].len() as u64);
        ReadyMutation { serial, offset, size, data: Some(pushed(&self.0[at], cut_at)) }
    }

    fn extend(&self, store: &ChunkStore, at: usize, sync: bool) -> Result<u64, ChunkError> {
        let bundle = self.bundle(at);
        let (length, serial) = store.extend(HANDLE, version(1), &bundle, sync)?;
        assert!(serial >= bundle.serial && length >= bundle.offset + bundle.size);
        Ok(length)
    }

    /// Extends until the disk refuses; gives how many were taken, and how many of them with the
    /// word that they are on disk.
    fn extend_all(&self, store: &ChunkStore, sync: impl Fn(usize) -> bool) -> (usize, usize) {
        let mut on_disk = 0;
        for at in 0..self.0.len() {
            if self.extend(store, at, sync(at)).is_err() {
                return (at, on_disk);
            }
            if sync(at) {
                on_disk = at + 1;
            }
        }
        (self.0.len(), on_disk)
    }

    /// After a crash: whole bundles are there, `least` of them, and all of them may be sent anew.
    fn check(&self, store: &ChunkStore, found: &ReplicaReport, least: usize, context: &str) {
        let count = usize::try_from(found.serial.get()).unwrap();
        assert!(count >= least, "{context}: back to {count}, {least} were promised");
        let there = read_all(store).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(there.len() as u64, found.length, "{context}");
        assert!(there == self.up_to(count), "{context}: not the bytes of {count} bundles");
        for at in 0..self.0.len() {
            self.extend(store, at, false).unwrap_or_else(|it| panic!("{context}, {at}: {it}"));
        }
        assert!(read_all(store).unwrap() == self.up_to(self.0.len()), "{context}");
    }
}

fn create(store: &ChunkStore) -> Result<(), ChunkError> {
    let (handle, version) = (HANDLE, version(1));
    store.journal(&[JournalEntry::Raise { handle, version, create: true, close: false }])
}

fn sync_some(at: usize) -> bool {
    at % 4 == 1
}

#[test]
fn a_stream_s_chunk_on_a_simulated_disk_is_extended_as_the_contract_says() {
    let (service, _) = ChunkDisk::open(vec![new_disk().session()], 1 << 20).unwrap();
    let config = CellConfig::tiny();
    service.configure(&config);
    judge_extends(&service, config.block_size);
}

#[test]
fn killed_at_any_write_whole_bundles_are_left_and_the_producer_sends_all_of_them_again() {
    let producer = Producer::new(&mut Random::new(7), 12);
    let disk = new_disk();
    let (store, _) = open(&disk);
    create(&store).unwrap();
    let before = disk.steps();
    assert_eq!(producer.extend_all(&store, sync_some).0, 12);
    let total = disk.steps() - before;
    assert!(total > 40, "{total} places to be killed at");
    for fuse in 0..=total {
        let disk = new_disk();
        let (store, _) = open(&disk);
        create(&store).unwrap();
        disk.arm_fuse(fuse);
        let (taken, _) = producer.extend_all(&store, sync_some);
        drop(store);
        disk.crash();
        let (store, found) = open(&disk);
        let context = format!("killed at step {fuse}");
        producer.check(&store, &found.unwrap(), taken, &context);
    }
}

#[test]
fn a_power_loss_leaves_whole_bundles_and_all_that_were_said_to_be_on_disk() {
    let (mut lost, mut suspect, mut damaged) = (0, 0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let producer = Producer::new(&mut random, 12);
        let disk = new_disk();
        let (store, _) = open(&disk);
        create(&store).unwrap();
        disk.arm_fuse(random.below(80));
        let (taken, on_disk) = producer.extend_all(&store, sync_some);
        drop(store);
        disk.power_loss(&mut random);
        let (store, found) = ChunkStore::open(disk.session()).unwrap();
        store.configure(BLOCK);
        let context = format!("seed {seed}");
        let replica = found.replicas.first().unwrap();
        let forgot = replica.serial.get() < taken as u64;
        assert!(replica.suspect || !forgot, "{context}: forgot, and does not say so (R27)");
        (lost, suspect) = (lost + u32::from(forgot), suspect + u32::from(replica.suspect));
        if found.damaged.is_empty() {
            producer.check(&store, replica, on_disk, &context);
        } else {
            // The head of the first bundles is there, and their bytes are not: told, and not taken
            // for anything else.
            assert_eq!(on_disk, 0, "{context}");
            damaged += 1;
        }
    }
    assert!(damaged < 30, "{damaged}");
    assert!(lost > 20 && suspect > 50, "reached: {lost} {suspect}");
}

#[test]
fn a_repeat_that_is_to_be_on_disk_brings_there_what_the_first_time_left_in_memory() {
    let producer = Producer::new(&mut Random::new(3), 3);
    for sync in [false, true] {
        let disk = new_disk();
        let (store, _) = open(&disk);
        create(&store).unwrap();
        assert_eq!(producer.extend_all(&store, |_| false), (3, 0));
        producer.extend(&store, 1, sync).unwrap();
        drop(store);
        disk.power_loss_of_all_unsynced();
        let found = open(&disk).1.unwrap();
        let left = if sync { 3 } else { 0 };
        assert_eq!((found.serial, found.suspect), (SerialNumber::new(left), !sync));
    }
}

#[test]
fn after_a_write_that_failed_half_way_what_is_there_is_compared_and_the_rest_appended() {
    let mut torn = 0;
    for seed in 0..200 {
        let producer = Producer::new(&mut Random::new(seed), 8);
        let disk = new_disk();
        let (store, _) = open(&disk);
        create(&store).unwrap();
        let faults = DiskFaults { write_errors_permille: 120, ..DiskFaults::default() };
        disk.set_faults(faults, seed);
        for at in 0..8 {
            // As a producer that is told that it may have happened.
            while let Err(error) = producer.extend(&store, at, false) {
                let refused = matches!(error, ChunkError::Disk(DiskError::Io(_)));
                assert!(refused, "seed {seed}, bundle {at}: {error}");
                torn += 1;
            }
        }
        disk.set_faults(DiskFaults::default(), seed);
        assert!(read_all(&store).unwrap() == producer.up_to(8), "seed {seed}");
    }
    assert!(torn > 200, "{torn}");
}

#[test]
fn a_repeat_does_not_take_bad_bytes_for_those_that_were_sent() {
    let producer = Producer::new(&mut Random::new(5), 4);
    let disk = new_disk();
    let (store, _) = open(&disk);
    create(&store).unwrap();
    producer.extend_all(&store, |_| true);
    let path = disk.paths().into_iter().find(|path| path.ends_with(".chunk")).unwrap();
    assert!(disk.flip_byte(&path, 20));
    assert_eq!(producer.extend(&store, 0, false), Err(ChunkError::Corrupt { offset: 0 }));
}

#[test]
fn no_room_for_a_bundle_changes_nothing() {
    let producer = Producer::new(&mut Random::new(6), 40);
    let disk = SimDisk::new("sim", 1 << 30);
    let (store, _) = open(&disk);
    create(&store).unwrap();
    producer.extend(&store, 0, true).unwrap();
    disk.set_capacity(store.space().unwrap().used + 20_000);
    let (taken, _) = producer.extend_all(&store, sync_some);
    assert!(taken < 40, "it is full");
    assert_eq!(producer.extend(&store, taken, false), Err(DiskError::NoSpace.into()));
    disk.set_capacity(1 << 30);
    assert!(read_all(&store).unwrap() == producer.up_to(taken));
    assert_eq!(producer.extend_all(&store, sync_some).0, 40);
}
