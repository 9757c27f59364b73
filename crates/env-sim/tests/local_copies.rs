//! Copies of chunks on their own disk (R32), on disks that can clone files and on others.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use cairn_env::{ChunkDone, ChunkError, CloneWork, JournalEntry};
use cairn_env_sim::SimDisk;
use cairn_protocol::ReplicaReport;
use cairn_store::{ChunkStore, conformance};
use cairn_types::{ChunkHandle, Random, SerialNumber};
use chunk_model::{BLOCK, HANDLE, Model, open, steps, version};

const COPY: ChunkHandle = ChunkHandle::new(0x1_0000_0000_0009);

fn new_disk(clones: bool) -> SimDisk {
    let disk = SimDisk::new("sim", 1 << 30);
    if clones {
        disk.can_clone_files();
    }
    disk
}

#[test]
fn a_copy_is_the_same_whether_its_file_is_a_clone_or_not() {
    for clones in [false, true] {
        let made_so = conformance::judge_local_copy(&new_disk(clones).session());
        assert_eq!(made_so, clones);
    }
}

/// Copies the model's chunk, as far as the disk lets it.
fn copy(store: &ChunkStore, model: &Model) -> Result<(), ChunkError> {
    let mut next = Some(0);
    while let Some(offset) = next {
        let done = store.clone_work(COPY, &CloneWork::Copy { of: HANDLE, offset })?;
        let ChunkDone::Copied { next: then } = done else { panic!("{done:?}") };
        next = then;
    }
    let stands = ReplicaReport {
        handle: COPY,
        version: version(model.version),
        mutated_version: version(1),
        serial: SerialNumber::new(model.applied as u64),
        length: model.contents[model.applied].len() as u64,
        ..ReplicaReport::default()
    };
    store.clone_work(COPY, &CloneWork::Finish { stands })?;
    let version = version(model.version);
    store.journal(&[JournalEntry::Adopt { handle: COPY, version, close: false }])
}

fn read_copy(store: &ChunkStore) -> Vec<u8> {
    let read = store.read(COPY, 0, 1 << 30).unwrap();
    let (checksums, bytes) = (read.checksums, read.payload.into_bytes());
    assert!(checksums.verify(0, &bytes, BLOCK));
    bytes.to_vec()
}

#[test]
fn a_copy_that_was_adopted_outlives_any_loss_of_power_and_its_source_is_none_the_worse() {
    let (mut adopted, mut not) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let disk = new_disk(seed % 2 == 0);
        let (store, _) = open(&disk);
        let mut model = Model::new();
        let steps = steps(&mut random, 12);
        model.take_all(&store, &steps);
        let content = model.contents[model.applied].clone();
        if random.chance(500) {
            disk.arm_fuse(random.below(60));
        }
        let copied = copy(&store, &model);
        drop(store);
        if random.chance(500) {
            disk.power_loss(&mut random)
        } else {
            disk.crash()
        }
        disk.arm_fuse(u64::MAX);
        let (store, found) = ChunkStore::open(disk.session()).unwrap();
        store.configure(BLOCK);
        let there = found.replicas.iter().any(|it| it.handle == COPY);
        match copied {
            Ok(()) => {
                adopted += 1;
                assert!(there, "seed {seed}");
                assert!(read_copy(&store) == content, "seed {seed}");
            }
            // The journal's line may be on disk all the same.
            Err(_) if there => assert!(read_copy(&store) == content, "seed {seed}"),
            Err(_) => not += 1,
        }
        let source = found.replicas.into_iter().find(|it| it.handle == HANDLE);
        model.check(&store, source, model.synced, &format!("seed {seed}"));
    }
    assert!(adopted > 100 && not > 50, "{adopted} adopted, {not} not");
}

#[test]
fn where_there_is_no_room_for_a_copy_it_is_refused_and_there_is_one_later() {
    for clones in [false, true] {
        let disk = new_disk(clones);
        let (store, _) = open(&disk);
        let mut model = Model::new();
        model.take_all(&store, &steps(&mut Random::new(5), 12));
        disk.set_capacity(0);
        assert!(copy(&store, &model).is_err());
        disk.set_capacity(1 << 30);
        copy(&store, &model).unwrap();
        assert!(read_copy(&store) == model.contents[model.applied]);
        assert_eq!(store.look(COPY).unwrap().1, clones);
    }
}
