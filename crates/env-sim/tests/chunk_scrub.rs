//! Verifying what a data directory stores, part by part, and what is remembered of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use cairn_env::{ChunkError, Disk, JournalEntry, OpenMode};
use cairn_env_sim::{DiskFaults, SimDisk};
use cairn_protocol::ReplicaFault;
use cairn_store::ChunkStore;
use cairn_types::{ChunkHandle, Random};
use chunk_model::{BLOCK, HANDLE, Model, Step, Write, new_disk, open, read_all, steps};

/// Two parts and a bit.
const SIZE: usize = (2 << 20) + 700;

fn path(kind: &str) -> String {
    format!("chunks/07/{:016x}.{kind}", HANDLE.get())
}

fn filled(disk: &SimDisk, sync: bool) -> (ChunkStore, Model) {
    let (store, _) = open(disk);
    let mut model = Model::new();
    let bytes = (0..SIZE).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
    let writes = vec![Write::Bytes { offset: 0, bytes, block_offset: 0 }];
    model.take_all(&store, &[Step::Raise(1), Step::Apply { writes, sync }]);
    (store, model)
}

/// Whether all of it is good, in parts of which none is larger than is read at once.
fn is_all_good(store: &ChunkStore) -> Result<bool, ChunkError> {
    let (mut offset, mut parts) = (0, 0);
    loop {
        let (size, next, bad) = store.scrub(HANDLE, offset)?;
        let good = bad.is_none();
        assert!(size <= 1 << 20, "{size} bytes at once");
        match next {
            Some(next) if good => offset = next,
            _ => return Ok(good),
        }
        parts += 1;
        assert!(parts < 4, "it comes to an end");
    }
}

#[test]
fn a_flipped_byte_anywhere_in_a_chunk_and_beside_it_is_found_or_mended() {
    let kinds: [(&str, u64, u64); 2] = [("chunk", 0, SIZE as u64), ("meta", 0, 1024 + 4 * 2049)];
    for (kind, from, to) in kinds {
        for offset in (from..to).step_by(usize::try_from((to - from) / 61).unwrap()) {
            let disk = new_disk();
            let (store, model) = filled(&disk, true);
            assert_eq!(is_all_good(&store), Ok(true));
            if !disk.flip_byte(&path(kind), offset) {
                continue;
            }
            let context = format!("{kind} at {offset}");
            if is_all_good(&store).unwrap() {
                // What no byte of the chunk hangs on, or a head, which is written anew.
                assert!(kind == "meta" && offset < 1024, "{context}");
                drop(store);
                disk.power_loss_of_all_unsynced();
                let (store, found) = open(&disk);
                assert_eq!(found.unwrap().length, SIZE as u64, "{context}");
                assert!(read_all(&store).unwrap() == model.contents[1], "{context}");
            }
        }
    }
}

/// A chunk with a head in each slot, the newer of which is on disk if `synced`.
fn with_two_heads(disk: &SimDisk, synced: bool) -> (ChunkStore, Vec<u8>) {
    let (store, mut model) = filled(disk, true);
    for part in 0..2 {
        let offset = (SIZE + 10 * part) as u64;
        let writes = vec![Write::Bytes { offset, bytes: vec![9; 10], block_offset: 0 }];
        model.take_all(&store, &[Step::Apply { writes, sync: synced }]);
    }
    (store, model.contents.pop().unwrap())
}

#[test]
fn either_head_that_rots_is_written_anew_and_a_start_finds_two_good_ones() {
    // Of this life, of an earlier one, and with a head that is not synced yet.
    for (synced, restarted) in [(true, false), (true, true), (false, false)] {
        for at in (0..1024).step_by(93) {
            let context = format!("byte {at}, synced {synced}, restarted {restarted}");
            let disk = new_disk();
            let (mut store, whole) = with_two_heads(&disk, synced);
            if restarted {
                drop(store);
                disk.crash();
                store = open(&disk).0;
            }
            assert!(disk.flip_byte(&path("meta"), at));
            assert_eq!(is_all_good(&store), Ok(true), "{context}");
            drop(store);
            for lost in [false, true] {
                if lost {
                    disk.power_loss_of_all_unsynced();
                } else {
                    disk.crash();
                }
                let (store, found) = ChunkStore::open(disk.session()).unwrap();
                store.configure(BLOCK);
                assert_eq!(found.damaged, [], "{context}");
                // Its dirty mark is what makes it suspect, and no head.
                assert_eq!(found.replicas[0].suspect, lost && !synced, "{context}");
                assert!(read_all(&store).unwrap() == whole, "{context}");
            }
        }
    }
}

#[test]
fn a_power_loss_while_a_head_is_written_anew_loses_nothing_that_was_synced() {
    for at in [100, 700] {
        let mut fuse = 0;
        loop {
            let disk = new_disk();
            let (store, whole) = with_two_heads(&disk, true);
            assert!(disk.flip_byte(&path("meta"), at));
            disk.arm_fuse(fuse);
            let done = is_all_good(&store);
            drop(store);
            let blown = disk.fuse_blown();
            disk.power_loss_of_all_unsynced();
            let (store, found) = ChunkStore::open(disk.session()).unwrap();
            store.configure(BLOCK);
            let context = format!("byte {at}, fuse {fuse}: {done:?}");
            // Where it was not mended yet, that is told.
            let damaged = found.damaged.contains(&HANDLE);
            assert!(damaged || read_all(&store).unwrap() == whole, "{context}");
            if !blown {
                assert!(!damaged && done == Ok(true), "{context}");
                break;
            }
            fuse += 1;
        }
        assert!(fuse > 2, "it was written and synced");
    }
}

#[test]
fn an_unreadable_sector_counts_as_bad_and_a_sound_chunk_never_does() {
    let disk = new_disk();
    let (store, _) = filled(&disk, false);
    assert!(disk.make_unreadable(&path("chunk"), 1 << 20));
    assert_eq!(is_all_good(&store), Ok(false));
    assert_eq!(store.verify(HANDLE, 1 << 20), Ok(false));
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let disk = new_disk();
        let (store, _) = open(&disk);
        let mut model = Model::new();
        for step in steps(&mut random, 25) {
            model.take(&store, &step).unwrap();
            assert_eq!(is_all_good(&store), Ok(true), "seed {seed}");
        }
        drop(store);
        disk.crash();
        let (store, found) = open(&disk);
        assert_eq!(found.map(|_| is_all_good(&store)), Some(Ok(true)), "seed {seed}");
    }
}

#[test]
fn what_was_found_and_how_far_it_went_is_known_after_any_restart() {
    let disk = new_disk();
    let (store, _) = filled(&disk, true);
    let handle = ChunkHandle::new(9);
    let entries = [JournalEntry::Damaged(HANDLE), JournalEntry::Scrubbed { began_ms: 77, handle }];
    store.journal(&entries).unwrap();
    drop(store);
    for _ in 0..2 {
        disk.power_loss_of_all_unsynced();
        let (_, found) = ChunkStore::open(disk.session()).unwrap();
        assert_eq!(
            (found.bad, found.scrub.began_ms, found.scrub.handle),
            (vec![HANDLE], 77, handle)
        );
    }
    let (store, _) = open(&disk);
    store.trash(&[(HANDLE, chunk_model::version(1))].into()).unwrap();
    drop(store);
    disk.crash();
    let (_, found) = ChunkStore::open(disk.session()).unwrap();
    assert_eq!(found.bad, [], "it is gone, and its damage with it");
}

#[test]
fn what_turned_out_to_be_sound_is_so_after_any_restart_and_stands_as_it_stood() {
    for raised_with_it in [false, true] {
        let disk = new_disk();
        let (store, _) = filled(&disk, true);
        store.journal(&[JournalEntry::Damaged(HANDLE)]).unwrap();
        let version = chunk_model::version(2);
        let raise = JournalEntry::Raise { handle: HANDLE, version, create: false, close: true };
        let sound = JournalEntry::Sound(HANDLE);
        // Those who wait together share a flush, in whichever order.
        if raised_with_it {
            store.journal(&[raise, sound]).unwrap();
        } else {
            store.journal(&[raise]).unwrap();
            store.journal(&[sound]).unwrap();
        }
        drop(store);
        for _ in 0..2 {
            disk.crash();
            let (_, found) = ChunkStore::open(disk.session()).unwrap();
            assert_eq!(found.bad, [], "{raised_with_it}");
            let [replica] = &found.replicas[..] else { panic!("{:?}", found.replicas) };
            assert_eq!((replica.version, replica.closed), (version, true), "{raised_with_it}");
        }
    }
}

#[test]
fn a_file_that_vanished_under_an_open_store_is_missed_by_name() {
    for (kind, fault) in [("chunk", ReplicaFault::NoFile), ("meta", ReplicaFault::NoSidecar)] {
        let disk = new_disk();
        let (store, _) = filled(&disk, true);
        assert_eq!(store.look(HANDLE), Ok((ReplicaFault::Sound, false)));
        // It is open still, and could be read.
        disk.remove(&path(kind)).unwrap();
        assert_eq!(store.look(HANDLE), Ok((fault, false)));
        assert_eq!(store.look(HANDLE), Err(ChunkError::Corrupt { offset: 0 }), "it is lost");
        assert!(store.read(HANDLE, 0, 10).is_err(), "what is left of it reaches nobody");
        let disk = new_disk();
        let (store, _) = filled(&disk, true);
        disk.remove(&path(kind)).unwrap();
        assert_eq!(is_all_good(&store), Err(ChunkError::Corrupt { offset: 0 }), "the scrub too");
        let disk = new_disk();
        let (store, _) = filled(&disk, true);
        disk.open(&path(kind), OpenMode::Write).unwrap().set_size(1024).unwrap();
        assert_eq!(store.look(HANDLE), Ok((ReplicaFault::Short, false)));
    }
}

#[test]
fn what_a_start_could_not_read_is_found_as_it_stood_in_this_life_or_the_next() {
    let (mut in_this, mut in_the_next) = (0, 0);
    for seed in 0..60 {
        if in_this > 1 && in_the_next > 1 {
            return;
        }
        let disk = new_disk();
        let (store, _) = filled(&disk, true);
        drop(store);
        let (store, before) = open(&disk);
        drop(store);
        let faults = DiskFaults { read_errors_permille: 300, ..DiskFaults::default() };
        disk.set_faults(faults, seed);
        let opened = ChunkStore::open(disk.session());
        disk.set_faults(DiskFaults::default(), seed);
        let Ok((store, found)) = opened else { continue };
        store.configure(BLOCK);
        if found.unread.is_empty() {
            continue;
        }
        assert!(found.replicas[0].suspect && found.damaged == found.unread, "seed {seed}");
        if seed % 2 == 0 {
            assert_eq!(store.reopen(HANDLE).ok(), before, "seed {seed}");
            assert_eq!(is_all_good(&store), Ok(true));
            in_this += 1;
            continue;
        }
        drop(store);
        assert_eq!(open(&disk).1, before, "seed {seed}");
        in_the_next += 1;
    }
    panic!("too few starts could not read it: {in_this} and {in_the_next}");
}
