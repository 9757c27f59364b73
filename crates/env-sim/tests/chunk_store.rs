//! What a data directory answers: reads, damage, trash, failed syncs, locks.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use cairn_env::{ChunkError, Disk, DiskError, JournalEntry, OpenMode, Payload};
use cairn_env_sim::SimDisk;
use cairn_store::{AcknowledgedMark, ChunkStore, StoreOpenError};
use cairn_types::{CellId, ChunkHandle, Random, ServerId, Term};
use chunk_model::{
    BLOCK, Got, HANDLE, Model, Step, Write, new_disk, open, read, read_all, version,
};

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

fn write(offset: u64, bytes: Vec<u8>) -> Step {
    let writes = vec![Write::Bytes { offset, bytes, block_offset: 0 }];
    Step::Apply { writes, sync: false }
}

/// A store with a chunk of `size` bytes.
fn filled(disk: &SimDisk, size: usize) -> (ChunkStore, Model) {
    let (store, _) = open(disk);
    let mut model = Model::new();
    for step in [Step::Raise(1), write(0, bytes(size))] {
        model.take(&store, &step).unwrap();
    }
    (store, model)
}

fn data_path() -> String {
    format!("chunks/07/{:016x}.chunk", HANDLE.get())
}

/// The same, which gives out the file's own pages, or copies once bytes were changed in place (B3).
fn filled_for(disk: &SimDisk, copies: bool) -> (ChunkStore, Model) {
    let (store, mut model) = filled(disk, 5000);
    if copies {
        model.take(&store, &write(100, vec![1; 10])).unwrap();
    }
    (store, model)
}

#[test]
fn any_range_comes_as_it_was_asked_for_with_checksums_that_fit() {
    for copies in [false, true] {
        let disk = new_disk();
        let (store, model) = filled_for(&disk, copies);
        let content = model.contents.last().unwrap();
        for offset in (0..5200).step_by(117) {
            for size in [1, 500, 1024, 2048, 3000, 9000] {
                let got = read(&store, offset, size).unwrap();
                let end = (offset + size).min(5000);
                if offset >= 5000 {
                    assert!(got.bytes.is_empty());
                    continue;
                }
                assert_eq!(got.offset, offset);
                assert_eq!(got.bytes, content[offset as usize..end as usize]);
                assert!(got.verifies());
            }
        }
    }
}

#[test]
fn a_block_that_is_cut_is_verified_before_a_part_of_it_is_given_out() {
    let ranges =
        [(10, 100, 4000), (4090, 100, 3900), (4700, 100, 4500), (10, 600, 9), (10, 600, 900)];
    for (copies, (flipped, offset, size)) in
        [false, true].into_iter().flat_map(|copies| ranges.map(|range| (copies, range)))
    {
        let disk = new_disk();
        let (store, _) = filled_for(&disk, copies);
        assert!(disk.flip_byte(&data_path(), flipped));
        let block = flipped / u64::from(BLOCK) * u64::from(BLOCK);
        assert_eq!(read(&store, offset, size).err(), Some(ChunkError::Corrupt { offset: block }));
    }
    let disk = new_disk();
    let (store, _) = filled(&disk, 5000);
    assert!(disk.flip_byte(&data_path(), 2000));
    assert!(!read(&store, 100, 4000).unwrap().verifies(), "it is found by whoever gets it");
}

#[test]
fn what_a_reader_was_sent_is_his_until_he_drops_it_and_then_the_next_ones() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 300_000);
    // Bytes changed in place are copied for readers.
    model.take(&store, &write(100, vec![1; 10])).unwrap();
    let content = model.contents.last().unwrap();
    let first = read(&store, 0, 200 << 10).unwrap().bytes;
    let second = read(&store, 90 << 10, 200 << 10).unwrap().bytes;
    assert_eq!(first, content[..200 << 10]);
    assert_eq!(second, content[90 << 10..290 << 10]);
    let at = first.as_ptr();
    drop(first);
    // Were it given back to the system, this would have it now.
    let other = vec![1u8; 200 << 10];
    let third = read(&store, 80 << 10, 200 << 10).unwrap().bytes;
    assert_eq!(third.as_ptr(), at, "no memory is zeroed for it");
    assert_ne!(other.as_ptr(), at);
    assert_eq!(third, content[80 << 10..280 << 10]);
}

#[test]
fn what_is_overwritten_before_it_has_left_is_seen_by_who_receives_it_and_read_well_again() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 300_000);
    let on_its_way = store.read(HANDLE, 0, 200 << 10).unwrap();
    let not_concerned = store.read(HANDLE, 100 << 10, 100 << 10).unwrap();
    model.take(&store, &write(5000, bytes(20))).unwrap();
    assert!(!Got::from(on_its_way).verifies(), "the file's own pages are sent");
    assert!(Got::from(not_concerned).verifies());
    let next = store.read(HANDLE, 0, 200 << 10).unwrap();
    model.take(&store, &write(5000, vec![9; 20])).unwrap();
    let next = Got::from(next);
    assert!(next.verifies(), "from now on answers are copies");
    assert_eq!(next.bytes, model.contents[2][..200 << 10]);
}

#[test]
fn a_chunk_that_was_being_changed_in_place_when_the_disk_was_full_is_copied_too() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 300_000);
    disk.set_capacity(0);
    model.take(&store, &write(5000, bytes(20))).unwrap_err();
    disk.set_capacity(1 << 30);
    let done = store.read(HANDLE, 0, 200 << 10).unwrap();
    assert!(matches!(done.payload, Payload::Bytes(_)), "it was recovered, and is still changing");
}

#[test]
fn a_flipped_byte_never_passes_for_good() {
    let disk = new_disk();
    let (store, _) = filled(&disk, 5000);
    assert_eq!(store.verify(HANDLE, 2500), Ok(true));
    assert!(disk.flip_byte(&data_path(), 2100));
    assert_eq!(store.verify(HANDLE, 2500), Ok(false));
    assert_eq!(read(&store, 2200, 10), Err(ChunkError::Corrupt { offset: 2048 }));
    assert!(!read(&store, 0, 5000).unwrap().verifies(), "the receiver sees it");
    assert_eq!(store.verify(HANDLE, 1000), Ok(true), "the other blocks are good");
}

#[test]
fn an_overwrite_of_part_of_a_damaged_block_is_refused_and_of_the_whole_one_heals_it() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 5000);
    disk.flip_byte(&data_path(), 2100);
    let refused = model.take(&store, &write(2060, bytes(5)));
    assert_eq!(refused, Err(ChunkError::Corrupt { offset: 2048 }), "old damage is never hidden");
    model.contents.pop();
    model.take(&store, &write(2048, vec![1; 1024])).unwrap();
    assert_eq!(read_all(&store).unwrap(), model.contents[2]);
}

#[test]
fn trash_takes_nothing_newer_and_keeps_what_it_takes_for_a_while() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 100);
    model.take(&store, &Step::Raise(2)).unwrap();
    assert_eq!(store.trash(&[(HANDLE, version(1))].into()), Ok([HANDLE].into()), "it is newer");
    assert!(read_all(&store).is_ok());
    assert_eq!(store.trash(&[(HANDLE, version(2))].into()), Ok([].into()));
    assert_eq!(store.trash(&[(HANDLE, version(2))].into()), Ok([].into()), "there is none");
    assert_eq!(read(&store, 0, 1), Err(ChunkError::NoSuchChunk));
    drop(store);
    disk.crash();
    let (store, found) = open(&disk);
    assert_eq!(found, None);
    let trash = || disk.list("trash").unwrap().len();
    store.empty_trash(1000, 5000, 0).unwrap();
    assert_eq!(trash(), 2, "dated now, younger than that");
    store.empty_trash(5000, 6000, 0).unwrap();
    assert_eq!(trash(), 2);
    store.empty_trash(5001, 6000, 0).unwrap();
    assert_eq!(trash(), 0);
}

#[test]
fn trash_goes_at_once_where_it_takes_the_room_of_a_chunk() {
    let disk = new_disk();
    let (store, _) = filled(&disk, 5000);
    store.trash(&[(HANDLE, version(1))].into()).unwrap();
    let space = disk.space().unwrap();
    let free = space.capacity - space.used;
    store.empty_trash(0, 1000, free).unwrap();
    assert_eq!(disk.list("trash").unwrap().len(), 2, "there is as much as that");
    store.empty_trash(0, 1000, free + 1).unwrap();
    assert_eq!(disk.list("trash").unwrap().len(), 0);
}

#[test]
fn a_handle_is_remembered_as_the_highest_after_it_is_gone() {
    let disk = new_disk();
    let (store, _) = filled(&disk, 100);
    store.journal(&[JournalEntry::Term(Term::new(6))]).unwrap();
    store.trash(&[(HANDLE, version(1))].into()).unwrap();
    for _ in 0..2 {
        disk.crash();
        let (_, found) = ChunkStore::open(disk.session()).unwrap();
        assert_eq!((found.highest_handle, found.highest_version), (HANDLE, version(1)));
        assert_eq!(found.term, Term::new(6));
    }
}

#[test]
fn killed_at_any_step_of_throwing_away_it_is_there_whole_or_not_at_all() {
    for step in 0..8 {
        let disk = new_disk();
        let (store, model) = filled(&disk, 3000);
        disk.arm_fuse(step);
        let _ = store.trash(&[(HANDLE, version(1))].into());
        drop(store);
        disk.crash();
        let (store, found) = open(&disk);
        match found {
            Some(found) => {
                assert_eq!(found.length, 3000, "step {step}");
                assert_eq!(read_all(&store).unwrap(), model.contents[1], "step {step}");
            }
            None => assert!(disk.list("chunks/07").unwrap().is_empty(), "step {step}"),
        }
    }
}

#[test]
fn a_mark_that_a_raise_left_on_a_synced_chunk_is_cleared_by_the_next_sync() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 3000);
    model.take(&store, &Step::Sync).unwrap();
    let close =
        JournalEntry::Raise { handle: HANDLE, version: version(2), create: false, close: true };
    store.journal(&[close]).unwrap();
    let before = disk.steps();
    store.sync(HANDLE).unwrap();
    assert_eq!(disk.steps() - before, 2, "a line and its flush");
    store.sync(HANDLE).unwrap();
    assert_eq!(disk.steps() - before, 2, "it is clean");
    drop(store);
    let image = disk.image();
    for seed in 0..20 {
        disk.restore(&image);
        disk.power_loss(&mut Random::new(seed));
        let found = open(&disk).1.unwrap();
        assert!(found.closed && !found.suspect && found.length == 3000, "{found:?}");
    }
}

#[test]
fn a_failed_sync_ends_the_directory_and_makes_its_dirty_chunks_suspect() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 100);
    disk.fail_syncs(1);
    assert!(matches!(
        model.take(&store, &Step::Sync),
        Err(ChunkError::Disk(DiskError::SyncFailed(_)))
    ));
    assert!(matches!(read(&store, 0, 1), Err(ChunkError::Disk(DiskError::SyncFailed(_)))));
    assert!(store.has_failed());
    drop(store);
    disk.crash();
    assert!(open(&disk).1.unwrap().suspect, "same boot, and yet it may be gone");
    disk.crash();
    assert!(open(&disk).1.unwrap().suspect);
}

#[test]
fn what_a_failed_sync_left_in_memory_is_written_anew_before_another_sync_vouches_for_it() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 5000);
    model.take(&store, &Step::Sync).unwrap();
    model.take(&store, &write(5000, bytes(9000))).unwrap();
    disk.fail_syncs(1);
    assert!(model.take(&store, &Step::Sync).is_err());
    drop(store);
    // The process ends and the machine does not: the page cache looks clean.
    disk.crash();
    let store = open(&disk).0;
    model.take(&store, &Step::Raise(2)).unwrap();
    model.take(&store, &Step::Sync).unwrap();
    drop(store);
    disk.power_loss_of_all_unsynced();
    let store = open(&disk).0;
    assert_eq!(&read_all(&store).unwrap(), model.contents.last().unwrap());
}

#[test]
fn while_a_failed_sync_cannot_be_looked_up_nothing_is_taken_for_durable() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 100);
    disk.fail_syncs(1);
    assert!(model.take(&store, &Step::Sync).is_err());
    drop(store);
    disk.crash();
    let image = disk.image();
    let mut refused = 0;
    for opens in 0..40 {
        disk.restore(&image);
        disk.fail_opens_after(opens, 1);
        match ChunkStore::open(disk.session()) {
            Ok((_, found)) => {
                assert!(found.replicas[0].suspect, "with {opens} files opened");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_chunk_that_could_not_be_read_after_a_failed_sync_is_written_anew_when_it_can_be() {
    let ways = ["restarted", "opened again", "synced at once"];
    for (way, is_marked) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let disk = new_disk();
        let (store, mut model) = filled(&disk, 5000);
        model.take(&store, &Step::Sync).unwrap();
        let Step::Apply { writes, .. } = write(5000, bytes(9000)) else { unreachable!("a write") };
        if is_marked {
            model.take(&store, &Step::Apply { writes, sync: false }).unwrap();
            disk.fail_syncs(1);
            assert!(model.take(&store, &Step::Sync).is_err());
        } else {
            disk.fail_syncs(1);
            assert!(model.take(&store, &Step::Apply { writes, sync: true }).is_err());
        }
        drop(store);
        disk.crash();
        assert!(disk.make_unreadable(&data_path(), 0));
        let (mut store, found) = open(&disk);
        assert!(found.unwrap().suspect, "it could not be read");
        disk.make_readable();
        if way == "restarted" {
            drop(store);
            disk.crash();
            store = open(&disk).0;
        } else if way == "synced at once" {
            store.sync(HANDLE).unwrap();
        }
        let told = store.reopen(HANDLE).unwrap();
        store.sync(HANDLE).unwrap();
        drop(store);
        disk.power_loss_of_all_unsynced();
        let (store, left) = open(&disk);
        let context = format!("{way}, marked: {is_marked}");
        assert_eq!(left.unwrap().serial, told.serial, "{context}");
        assert_eq!(read_all(&store).map(|it| it.len() as u64), Ok(told.length), "{context}");
    }
}

#[test]
fn a_full_disk_changes_nothing_and_serves_on() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 3000);
    let used = disk.space().unwrap().used;
    disk.set_capacity(used + 2 * 4096);
    let result = model.take(&store, &write(3000, bytes(50_000)));
    assert_eq!(result, Err(DiskError::NoSpace.into()));
    model.contents.pop();
    assert_eq!(read_all(&store).unwrap(), model.contents[1]);
    disk.set_capacity(1 << 30);
    // What the failed write left behind the end must not show through a hole.
    model.take(&store, &write(9000, bytes(10))).unwrap();
    assert_eq!(read_all(&store).unwrap(), model.contents[2]);
}

#[test]
fn a_raise_that_did_not_fit_never_comes_back() {
    let disk = new_disk();
    let (store, _) = open(&disk);
    let raise = |number, create| {
        let (handle, version) = (ChunkHandle::new(number), version(number));
        JournalEntry::Raise { handle, version, create, close: false }
    };
    store.journal(&[raise(1, true)]).unwrap();
    disk.set_capacity(disk.space().unwrap().used);
    let many: Vec<JournalEntry> = (2..400).map(|number| raise(number, true)).collect();
    assert_eq!(store.journal(&many), Err(DiskError::NoSpace.into()));
    disk.set_capacity(1 << 30);
    store.journal(&[raise(500, true)]).unwrap();
    drop(store);
    disk.crash();
    let (_, found) = ChunkStore::open(disk.session()).unwrap();
    let handles: Vec<u64> = found.replicas.iter().map(|replica| replica.handle.get()).collect();
    assert_eq!(handles, [1, 500]);
}

#[test]
fn a_raise_of_an_unknown_chunk_is_refused_whole() {
    let disk = new_disk();
    let (store, _) = open(&disk);
    let unknown =
        JournalEntry::Raise { handle: HANDLE, version: version(2), create: false, close: false };
    let both = [JournalEntry::Term(Term::new(9)), unknown];
    assert_eq!(store.journal(&both), Err(ChunkError::NoSuchChunk));
    drop(store);
    disk.crash();
    assert_eq!(ChunkStore::open(disk.session()).unwrap().1.term, Term::default());
}

#[test]
fn a_directory_is_one_process_s_and_one_server_s() {
    let disk = new_disk();
    let (store, _) = open(&disk);
    let second = ChunkStore::open(disk.session()).map(drop);
    assert!(matches!(second, Err(StoreOpenError::InUse { .. })));
    store.journal(&[JournalEntry::Joined(CellId::new(4), ServerId::new(5))]).unwrap();
    drop(store);
    disk.power_loss(&mut Random::new(1));
    let (store, found) = ChunkStore::open(disk.session()).unwrap();
    assert_eq!(found.identity, Some((CellId::new(4), ServerId::new(5))));
    drop(store);
    disk.remove("journal").unwrap();
    let without = ChunkStore::open(disk.session()).map(drop);
    assert!(matches!(without, Err(StoreOpenError::JournalMissing { .. })));
}

#[test]
fn damage_in_the_journal_is_no_torn_tail() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 100);
    model.take(&store, &Step::Raise(2)).unwrap();
    model.take(&store, &Step::Raise(3)).unwrap();
    drop(store);
    assert!(disk.flip_byte("journal", 200));
    let (_, found) = ChunkStore::open(disk.session()).unwrap();
    assert!(found.replicas[0].suspect && found.warnings.len() == 1, "{found:?}");
}

#[test]
fn no_more_space_is_taken_than_bytes_are_stored() {
    let disk = new_disk();
    let (_store, _) = filled(&disk, 5000);
    let size = |path: &str| disk.open(path, OpenMode::Read).unwrap().size().unwrap();
    assert_eq!(size(&data_path()), 5000);
    assert_eq!(size(&format!("chunks/07/{:016x}.meta", HANDLE.get())), 1024 + 4 * 4);
}

#[test]
fn what_was_acknowledged_is_remembered() {
    let disk = new_disk();
    let (store, _) = filled(&disk, 500);
    let known = AcknowledgedMark { length: 500, serial: cairn_types::SerialNumber::new(1) };
    store.settle(HANDLE, known).unwrap();
    store.settle(HANDLE, AcknowledgedMark::default()).unwrap();
    drop(store);
    disk.crash();
    let found = open(&disk).1.unwrap();
    assert_eq!((found.acknowledged, found.acknowledged_serial), (known.length, known.serial));
}

#[test]
fn an_overwrite_that_ran_out_of_space_half_way_is_finished_when_there_is_room() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 3000);
    let used = disk.space().unwrap().used;
    // The redo entry fits, and what it adds to the chunk does not.
    disk.set_capacity(used + 16 * 4096);
    let result = model.take(&store, &write(100, vec![9; 50_000]));
    assert!(matches!(result, Err(ChunkError::Disk(DiskError::NoSpaceMidway))), "{result:?}");
    disk.set_capacity(1 << 30);
    assert_eq!(read_all(&store).unwrap(), model.contents[2]);
    model.take(&store, &write(50_100, bytes(10))).unwrap();
    assert_eq!(read_all(&store).unwrap(), model.contents[3]);
}

#[test]
fn more_chunks_than_files_are_kept_open_are_served() {
    let disk = new_disk();
    let (store, _) = open(&disk);
    let content = |number: u64| vec![u8::try_from(number % 251).unwrap(); 300];
    for number in 1..=400 {
        let (handle, version) = (ChunkHandle::new(number), version(1));
        store
            .journal(&[JournalEntry::Raise { handle, version, create: true, close: false }])
            .unwrap();
        let data = Some(chunk_model::pushed(&content(number), 0));
        let serial = cairn_types::SerialNumber::new(1);
        let mutation = cairn_store::ReadyMutation { serial, offset: 0, size: 300, data };
        store.apply(handle, version, &[mutation], AcknowledgedMark::default(), false).unwrap();
    }
    for number in 1..=400 {
        let done = store.read(ChunkHandle::new(number), 0, 300).unwrap();
        assert_eq!(done.payload.into_bytes(), content(number));
    }
}

#[test]
fn the_journal_is_begun_anew_before_it_grows_without_bound() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 100);
    for round in 0..40 {
        let lines: Vec<JournalEntry> =
            (0..2000).map(|term| JournalEntry::Term(Term::new(round * 2000 + term))).collect();
        store.journal(&lines).unwrap();
    }
    model.take(&store, &Step::Raise(7)).unwrap();
    let size = disk.open("journal", OpenMode::Read).unwrap().size().unwrap();
    assert!(size < 1_200_000, "{size} bytes");
    drop(store);
    disk.power_loss(&mut Random::new(1));
    let (_, found) = ChunkStore::open(disk.session()).unwrap();
    assert_eq!(found.term, Term::new(79_999));
    assert_eq!(found.replicas[0].version, version(7));
}

#[test]
fn a_journal_that_may_have_lost_its_name_takes_no_line() {
    let raise = |number| {
        let version = version(number);
        [JournalEntry::Raise { handle: HANDLE, version, create: false, close: false }]
    };
    let mut refused = 0;
    for opens in 0..4 {
        let disk = new_disk();
        let (store, _) = filled(&disk, 100);
        disk.fail_opens_after(opens, u64::MAX);
        let lines: Vec<JournalEntry> =
            (0..70_000).map(|term| JournalEntry::Term(Term::new(term))).collect();
        store.journal(&lines).unwrap();
        let taken = store.journal(&raise(7)).is_ok();
        refused += u32::from(!taken);
        disk.fail_opens_after(0, 0);
        let is_later = opens % 2 == 0;
        if is_later {
            store.journal(&raise(8)).unwrap();
        }
        drop(store);
        disk.crash();
        let found = open(&disk).1.unwrap().version;
        match (is_later, taken) {
            (true, _) => assert_eq!(found, version(8), "with {opens} files opened"),
            (false, true) => assert_eq!(found, version(7), "with {opens} files opened"),
            (false, false) => assert!(found < version(7), "it was refused"),
        }
    }
    assert!(refused > 0, "it was in doubt once");
}

#[test]
fn on_a_full_disk_a_store_opens_and_is_read_and_takes_changes_again_when_there_is_room() {
    let disk = new_disk();
    let (store, model) = filled(&disk, 5000);
    drop(store);
    disk.crash();
    disk.set_capacity(1);
    let (store, found) = open(&disk);
    assert_eq!(found.map(|it| it.length), Some(5000));
    assert_eq!(read(&store, 0, 5000).unwrap().bytes, model.contents[1]);
    let raise =
        [JournalEntry::Raise { handle: HANDLE, version: version(2), create: false, close: false }];
    assert_eq!(store.journal(&raise), Err(DiskError::NoSpace.into()));
    disk.set_capacity(1 << 30);
    store.journal(&raise).unwrap();
    drop(store);
    disk.crash();
    let (_, found) = open(&disk);
    assert_eq!(found.map(|it| it.version), Some(version(2)));
}

#[test]
fn what_was_killed_on_its_way_to_disk_is_on_disk_before_it_is_told() {
    let run = |fuse: Option<u64>| {
        let disk = new_disk();
        let (store, mut model) = filled(&disk, 3000);
        model.take(&store, &Step::Sync).unwrap();
        let before = disk.steps();
        fuse.into_iter().for_each(|steps| disk.arm_fuse(steps));
        let Step::Apply { writes, .. } = write(3000, bytes(5000)) else {
            unreachable!("it is one")
        };
        let _ = model.take(&store, &Step::Apply { writes, sync: true });
        (disk.clone(), disk.steps() - before)
    };
    let mut told_more = 0;
    for fuse in 0..run(None).1 {
        let (disk, _) = run(Some(fuse));
        disk.crash();
        let (store, told) = open(&disk);
        let told = told.unwrap();
        drop(store);
        disk.power_loss_of_all_unsynced();
        let left = open(&disk).1.unwrap();
        told_more += u64::from(told.length > 3000);
        assert!(left.suspect || left.serial >= told.serial, "step {fuse}: {told:?}, then {left:?}");
    }
    assert!(told_more > 0);
}

/// Chunks of 3000 bytes on disk, and then killed at each step of a change.
fn killed_in_a_change(change: &Step, mut see: impl FnMut(u64, SimDisk)) {
    for fuse in 0.. {
        let disk = new_disk();
        let (store, mut model) = filled(&disk, 3000);
        model.take(&store, &Step::Sync).unwrap();
        disk.arm_fuse(fuse);
        let done = model.take(&store, change);
        drop(store);
        disk.crash();
        see(fuse, disk);
        if done.is_ok() {
            return;
        }
    }
}

#[test]
fn what_a_start_could_not_sync_the_next_one_in_the_same_boot_does_not_take_for_durable() {
    let changed = |offset, size, sync| match write(offset, bytes(size)) {
        Step::Apply { writes, .. } => Step::Apply { writes, sync },
        other => other,
    };
    let changes = [(3000, 5000, true), (100, 500, true), (3000, 5000, false), (100, 5000, false)];
    let mut failed = 0;
    for ((offset, size, sync), good) in
        changes.into_iter().flat_map(|it| (0..8).map(move |good| (it, good)))
    {
        killed_in_a_change(&changed(offset, size, sync), |fuse, disk| {
            disk.fail_syncs_after(good, 1);
            failed += u32::from(ChunkStore::open(disk.session()).is_err());
            disk.fail_syncs(0);
            disk.crash();
            let (store, told) = open(&disk);
            let told = told.unwrap();
            // Whoever is answered that it is on disk was told the truth.
            store.sync(HANDLE).unwrap();
            drop(store);
            disk.power_loss_of_all_unsynced();
            let (store, left) = open(&disk);
            let context = format!("{offset}+{size} {sync}, step {fuse}, sync {good}");
            assert_eq!(left.unwrap().serial, told.serial, "{context}");
            assert_eq!(read_all(&store).map(|it| it.len() as u64), Ok(told.length), "{context}");
        });
    }
    assert!(failed > 50, "{failed}");
}

#[test]
fn names_that_a_failed_sync_left_in_memory_are_durable_before_another_sync_vouches_for_them() {
    let run = |good: u64, fuse: Option<u64>| {
        let disk = new_disk();
        disk.fail_syncs_after(good, 1);
        let mut model = Model::new();
        if let Ok((store, _)) = ChunkStore::open(disk.session()) {
            store.configure(BLOCK);
            model.take_all(&store, &[Step::Raise(1), write(0, bytes(3000)), Step::Sync]);
        }
        let has_failed = disk.has_failed();
        disk.crash();
        // The process ends once more in the start that follows, or does not.
        fuse.into_iter().for_each(|steps| disk.arm_fuse(steps));
        let has_ended = ChunkStore::open(disk.session()).is_err();
        disk.crash();
        let (store, found) = open(&disk);
        let applied = found.as_ref().map_or(0, |it| usize::try_from(it.serial.get()).unwrap());
        model.contents.truncate(applied + 1);
        (model.applied, model.version) = (applied, u64::from(found.is_some()));
        // Its creation was refused, and nobody was promised anything.
        if model.synced == 0 && store.sync(HANDLE) == Err(ChunkError::Corrupt { offset: 0 }) {
            return (has_failed, has_ended);
        }
        let length = model.contents.last().unwrap().len() as u64;
        for step in [Step::Raise(2), write(length, bytes(700)), Step::Sync] {
            model.take(&store, &step).unwrap();
        }
        drop(store);
        disk.power_loss_of_all_unsynced();
        let (store, found) = open(&disk);
        let context = format!("sync {good}, step {fuse:?}: {found:?}");
        assert_eq!(read_all(&store).as_ref(), Ok(model.contents.last().unwrap()), "{context}");
        (has_failed, has_ended)
    };
    let mut ends = 0;
    for good in (0..).take_while(|good| run(*good, None).0) {
        ends += (0..).take_while(|fuse| run(good, Some(*fuse)).1).count();
    }
    assert!(ends > 50, "{ends}");
}

#[test]
fn what_a_failed_sync_of_a_mutation_left_in_memory_is_on_disk_before_it_is_told() {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 3000);
    model.take(&store, &Step::Sync).unwrap();
    let Step::Apply { writes, .. } = write(3000, bytes(5000)) else { unreachable!("it is one") };
    disk.fail_syncs(1);
    assert!(model.take(&store, &Step::Apply { writes, sync: true }).is_err());
    drop(store);
    disk.crash();
    let (store, told) = open(&disk);
    drop(store);
    disk.power_loss_of_all_unsynced();
    let (store, left) = open(&disk);
    assert_eq!(left.map(|it| it.serial), told.map(|it| it.serial));
    assert_eq!(&read_all(&store).unwrap(), model.contents.last().unwrap());
}

#[test]
fn a_chunk_whose_files_are_removed_under_a_running_server_is_told_as_damaged() {
    for kind in [".chunk", ".meta"] {
        let disk = new_disk();
        let (store, mut model) = filled(&disk, 3000);
        model.take(&store, &Step::Sync).unwrap();
        drop(store);
        disk.crash();
        let (store, _) = open(&disk);
        disk.session().remove(&data_path().replace(".chunk", kind)).unwrap();
        for _ in 0..2 {
            let refused = read(&store, 0, 100).map(drop);
            assert_eq!(refused, Err(ChunkError::Corrupt { offset: 0 }), "{kind}");
        }
        assert_eq!(store.sync(HANDLE), Err(ChunkError::Corrupt { offset: 0 }), "{kind}");
    }
}

/// More chunks than a data directory keeps files open of.
fn close_by_others(store: &ChunkStore) {
    for other in 100..400 {
        let (handle, version) = (ChunkHandle::new(other), version(1));
        let made = JournalEntry::Raise { handle, version, create: true, close: false };
        store.journal(&[made]).unwrap();
    }
}

#[test]
fn a_sync_vouches_for_nothing_that_was_lost_after_its_file_was_closed() {
    for (closes, loses) in [(false, false), (true, false), (true, true)] {
        let disk = new_disk();
        let (store, _) = filled(&disk, 5000);
        if closes {
            close_by_others(&store);
        }
        // As where the system could not write it back, and forgot both the bytes and the error.
        assert!(!loses || disk.flip_byte(&data_path(), 4321));
        assert_eq!(store.sync(HANDLE).is_ok(), !loses, "{closes} {loses}");
        assert_eq!(store.sync(HANDLE).is_ok(), !loses, "the next one is told as well");
    }
}

#[test]
fn what_the_journal_has_let_go_of_is_gone_wherever_its_files_are() {
    let handles = [5, 6, 7].map(ChunkHandle::new);
    for steps in 0..40 {
        let disk = new_disk();
        let (store, _) = open(&disk);
        for handle in handles {
            let raise =
                JournalEntry::Raise { handle, version: version(1), create: true, close: false };
            store.journal(&[raise]).unwrap();
        }
        disk.arm_fuse(steps);
        let named = handles.map(|handle| (handle, version(1))).into();
        let done = store.trash(&named);
        let left = store.handles();
        assert!(left.is_empty() || left == handles, "{left:?} are left after {steps} steps");
        drop(store);
        disk.crash();
        let (_, found) = ChunkStore::open(disk.session()).unwrap();
        assert!(!left.is_empty() || found.replicas.is_empty(), "durably (T1), after {steps} steps");
        if done.is_ok() {
            assert!(steps > 3 && left.is_empty(), "of the journal and of renames");
            return;
        }
    }
    panic!("it takes more than forty steps");
}

/// A full disk with two chunks, of which the first has 5000 bytes, the last block of them in its
/// redo journal, too; the store was opened before it was full, or after.
fn full_of_two(restarted: bool) -> (SimDisk, ChunkStore) {
    let disk = new_disk();
    let (store, mut model) = filled(&disk, 5000);
    model.take(&store, &write(4096, vec![1; 904])).unwrap();
    let other = ChunkHandle::new(9);
    let raise =
        JournalEntry::Raise { handle: other, version: version(1), create: true, close: false };
    store.journal(&[raise]).unwrap();
    if !restarted {
        disk.set_capacity(disk.space().unwrap().used);
        // The journal's last page has room for some lines.
        let mut terms = (1..).map(|number| [JournalEntry::Term(Term::new(number))]);
        terms.find(|term| store.journal(term).is_err());
        return (disk, store);
    }
    drop(store);
    disk.crash();
    disk.set_capacity(1);
    let store = open(&disk).0;
    disk.set_capacity(disk.space().unwrap().used);
    (disk, store)
}

#[test]
fn what_is_garbage_goes_from_a_full_disk_and_makes_room() {
    for restarted in [false, true] {
        let (disk, store) = full_of_two(restarted);
        let full = disk.space().unwrap().used;
        let term = [JournalEntry::Term(Term::new(1 << 20))];
        assert_eq!(store.journal(&term), Err(DiskError::NoSpace.into()));
        assert_eq!(store.trash(&[(HANDLE, version(1))].into()), Ok([].into()), "{restarted}");
        assert_eq!(read(&store, 0, 1), Err(ChunkError::NoSuchChunk));
        store.empty_trash(0, 1000, 0).unwrap();
        assert!(disk.space().unwrap().used < full, "restarted: {restarted}");
        store.journal(&term).unwrap();
        drop(store);
        disk.crash();
        assert_eq!(open(&disk).1, None, "it does not come back");
    }
}

/// Throws the first chunk away on a full disk, killed after so many steps; whether that was done.
fn killed_while_garbage_makes_room(restarted: bool, steps: u64) -> bool {
    let context = format!("restarted: {restarted}, after {steps} steps");
    let (disk, store) = full_of_two(restarted);
    disk.arm_fuse(steps);
    let done = store.trash(&[(HANDLE, version(1))].into());
    drop(store);
    disk.crash();
    let has_bytes = disk.list("chunks/07").unwrap().iter().any(|it| it.ends_with("chunk"));
    let (_, found) = ChunkStore::open(disk.session()).unwrap();
    let is_there = found.replicas.iter().any(|it| it.handle == HANDLE);
    assert!(!is_there || has_bytes || found.damaged.contains(&HANDLE), "{context}");
    assert!(done.is_err() || !is_there, "{context}");
    done.is_ok()
}

#[test]
fn killed_while_garbage_makes_room_on_a_full_disk_it_is_whole_or_damaged_or_gone() {
    for restarted in [false, true] {
        let done = (0..40).find(|steps| killed_while_garbage_makes_room(restarted, *steps));
        assert!(done.expect("within forty steps") > 3);
    }
}
