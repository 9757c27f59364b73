//! Whatever is done to the bytes of whatever file: what is opened then says what was written, or
//! says that it cannot; no panic.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use bytes::Bytes;
use cairn_env::{Disk, JournalEntry, OpenMode};
use cairn_env_sim::SimDisk;
use cairn_format::{Identity, IdentityKind};
use cairn_protocol::ReplicaReport;
use cairn_store::{
    AcknowledgedMark, ChunkStore, OperationLog, ReadyMutation, RecoveredLog, read_identity,
    write_identity,
};
use cairn_types::sample::damaged;
use cairn_types::{CellId, LogIndex, Random};
use chunk_model::{BLOCK, HANDLE, Model, new_disk, open, pushed, read, steps, version};

const CELL: CellId = CellId::new(7);

fn read_whole(disk: &dyn Disk, path: &str) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    let size = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(size);
    bytes
}

/// Damages one file of the disk, the lock apart, or cuts it; says which.
fn damage_one(disk: &SimDisk, random: &mut Random) -> String {
    let paths: Vec<String> = disk.paths().into_iter().filter(|path| path != "lock").collect();
    let path = random.pick(&paths).unwrap().clone();
    let session = disk.session();
    let before = read_whole(session.as_ref(), &path);
    let after = if random.chance(800) {
        damaged(&before, random)
    } else {
        before[..usize::try_from(random.below(before.len() as u64 + 1)).unwrap()].to_vec()
    };
    let file = session.open(&path, OpenMode::Write).unwrap();
    file.set_size(0).unwrap();
    file.write_at(&after, 0).unwrap();
    file.sync().unwrap();
    path
}

/// Each block that verifies is one that stood there once.
fn check_blocks(store: &ChunkStore, model: &Model, context: &str) {
    let block = BLOCK as usize;
    let length = model.contents.iter().map(Vec::len).max().unwrap();
    for start in (0..length).step_by(block) {
        let Ok(got) = read(store, start as u64, u64::from(BLOCK)) else { continue };
        if !got.verifies() {
            continue;
        }
        let range = start..start + got.bytes.len();
        let mut stood = model.contents.iter().filter_map(|content| content.get(range.clone()));
        let known = got.bytes.is_empty() || stood.any(|was| *was == got.bytes[..]);
        assert!(known, "{context}: bytes at {start} that nobody wrote");
    }
}

/// Three whole blocks of sevens at the front, under a new version, if the store takes them.
fn overwrite(store: &ChunkStore, replica: &ReplicaReport, model: &mut Model) {
    let (handle, version) = (replica.handle, version(900));
    let raise = JournalEntry::Raise { handle, version, create: false, close: false };
    if store.journal(&[raise]).is_err() {
        return;
    }
    let bytes = vec![7; 3 * BLOCK as usize];
    let serial = replica.serial.next();
    let (size, data) = (bytes.len() as u64, Some(pushed(&bytes, 0)));
    let mutation = ReadyMutation { serial, offset: 0, size, data };
    let acknowledged = AcknowledgedMark { length: replica.acknowledged, serial: replica.serial };
    let _ = store.apply(handle, version, &[mutation], acknowledged, true);
    model.contents.push(bytes);
}

#[test]
fn of_a_damaged_data_directory_nothing_is_read_that_was_not_written() {
    let mut told = 0;
    for seed in 0..150 {
        let random = &mut Random::new(seed);
        let disk = new_disk();
        let mut model = Model::new();
        let (store, _) = open(&disk);
        if random.chance(500) {
            disk.arm_fuse(random.below(120));
        }
        model.take_all(&store, &steps(random, 12));
        drop(store);
        if random.chance(500) {
            disk.crash();
        } else {
            disk.power_loss(random);
        }
        let path = damage_one(&disk, random);
        let context = format!("seed {seed}, {path}");
        let (store, found) = ChunkStore::open(disk.session())
            .unwrap_or_else(|error| panic!("{context}: one file refuses all: {error}"));
        told += u32::from(!found.damaged.is_empty() || !found.warnings.is_empty());
        store.configure(BLOCK);
        check_blocks(&store, &model, &context);
        let _ = store.verify(HANDLE, 0);
        // It takes changes or refuses them, and no more comes of it.
        if let Some(replica) = found.replicas.first() {
            overwrite(&store, replica, &mut model);
        }
        check_blocks(&store, &model, &context);
        drop(store);
        disk.crash();
        // What one life could open, the next one can.
        let (store, _) = ChunkStore::open(disk.session()).unwrap();
        store.configure(BLOCK);
        check_blocks(&store, &model, &context);
    }
    assert!(told >= 30, "{told} told");
}

fn record(index: u64, random: &mut Random) -> (LogIndex, Bytes) {
    let size = random.below(1500);
    let bytes = (0..size).map(|at| u8::try_from((index + at) % 251).unwrap()).collect();
    (LogIndex::new(index), bytes)
}

fn open_log(disk: &SimDisk) -> Option<(OperationLog, RecoveredLog)> {
    OperationLog::open(disk.session(), CELL, 8192, LogIndex::default()).ok()
}

#[test]
fn of_a_damaged_operation_log_only_what_was_appended_is_read_and_from_the_first_on() {
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..150 {
        let random = &mut Random::new(seed);
        let disk = new_disk();
        let appended: Vec<_> = (1..=12).map(|index| record(index, random)).collect();
        let (mut log, _) = open_log(&disk).unwrap();
        appended.chunks(3).for_each(|batch| log.append(batch).unwrap());
        drop(log);
        let path = damage_one(&disk, random);
        let Some((mut log, found)) = open_log(&disk) else {
            refused += 1;
            continue;
        };
        opened += 1;
        let count = found.records.len();
        assert_eq!(found.records, appended[..count], "seed {seed}, {path}");
        let next = record(count as u64 + 1, random);
        log.append(std::slice::from_ref(&next)).unwrap();
        drop(log);
        let (_, again) = open_log(&disk).unwrap();
        assert_eq!((again.records.len(), again.records.last()), (count + 1, Some(&next)));
    }
    assert!(opened >= 10 && refused >= 10, "{opened} opened, {refused} refused");
}

#[test]
fn a_damaged_identity_is_refused() {
    let identity = Identity { kind: IdentityKind::Master, cell: CELL, id: 12, begun: true };
    for seed in 0..100 {
        let disk = new_disk();
        write_identity(disk.session().as_ref(), &identity).unwrap();
        let whole = read_whole(disk.session().as_ref(), "identity");
        damage_one(&disk, &mut Random::new(seed));
        let read = read_identity(disk.session().as_ref());
        let same = read_whole(disk.session().as_ref(), "identity").starts_with(&whole);
        assert!(read.is_err() || (same && read == Ok(Some(identity))), "seed {seed}: {read:?}");
    }
}
