//! Damage beside a chunk's bytes: rotten heads, missing files, a journal with a flipped bit. What
//! is lost is told, and never read as zeros or as an older state.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use cairn_env::{Disk, JournalEntry, OpenMode};
use cairn_env_sim::SimDisk;
use cairn_store::{AcknowledgedMark, ChunkStore, ReadyMutation, RecoveredChunks};
use cairn_types::{CellId, ChunkHandle, SerialNumber, ServerId, Term};
use chunk_model::{BLOCK, HANDLE, Model, Step, Write, new_disk, open, read, read_all, version};

const HEADS_SIZE: u64 = 1024;

fn path(kind: &str) -> String {
    format!("chunks/07/{:016x}.{kind}", HANDLE.get())
}

fn append(offset: usize, size: usize) -> Step {
    let bytes = (0..size).map(|at| u8::try_from((offset + at) % 251).unwrap()).collect();
    let writes = vec![Write::Bytes { offset: offset as u64, bytes, block_offset: 0 }];
    Step::Apply { writes, sync: false }
}

/// A chunk that was never synced, one that was and has gone on since, and one that is all on disk.
fn chunks() -> Vec<(&'static str, SimDisk, Model)> {
    let scripts = [
        ("never synced", vec![append(0, 3000), append(3000, 50)]),
        ("changed since", vec![append(0, 3000), Step::Sync, append(3000, 700), append(3700, 9)]),
        ("synced", vec![append(0, 3000), Step::Sync, append(3000, 700), Step::Sync]),
    ];
    let made = scripts.map(|(name, steps)| {
        let disk = new_disk();
        let (store, _) = open(&disk);
        let mut model = Model::new();
        let close = true;
        let (handle, version) = (HANDLE, version(1));
        model.take(&store, &Step::Raise(1)).unwrap();
        for step in &steps {
            model.take(&store, step).unwrap();
        }
        // A closed chunk answers zeros beyond what it stores, and would do so for what it lost.
        let closed = JournalEntry::Raise { handle, version, create: false, close };
        store.journal(&[closed]).unwrap();
        (name, disk, model)
    });
    made.into()
}

/// What a damaged replica gives is what was written, as far as it goes.
fn check_readable(store: &ChunkStore, whole: &[u8], context: &str) {
    for start in (0..whole.len()).step_by(BLOCK as usize) {
        let Ok(got) = read(store, start as u64, u64::from(BLOCK)) else { continue };
        if got.verifies() {
            assert!(whole[start..].starts_with(&got.bytes), "{context}: block at {start}");
        }
    }
}

/// What was found says that it is damaged, or is all that was written.
fn check_told(disk: &SimDisk, model: &Model, context: &str) -> bool {
    let (store, found) = ChunkStore::open(disk.session()).unwrap();
    store.configure(BLOCK);
    let damaged = found.damaged.contains(&HANDLE);
    let [found] = &found.replicas[..] else { panic!("{context}: it is gone") };
    let whole = model.contents.last().unwrap();
    assert_eq!(found.suspect, damaged, "{context}");
    if damaged {
        check_readable(&store, whole, context);
        return true;
    }
    assert_eq!(found.length, whole.len() as u64, "{context}: less, and nobody is told");
    assert_eq!(&read_all(&store).unwrap(), whole, "{context}");
    false
}

#[test]
fn a_flipped_byte_in_the_heads_of_a_chunk_is_told_and_never_makes_it_shorter() {
    for (name, disk, model) in chunks() {
        let (image, mut told) = (disk.image(), 0);
        for at in 0..HEADS_SIZE {
            disk.restore(&image);
            if !disk.flip_byte(&path("meta"), at) {
                continue;
            }
            let context = format!("{name}, byte {at}");
            let is_told = check_told(&disk, &model, &context);
            told += u64::from(is_told);
            disk.crash();
            // As long as nobody decides about it, it stays told.
            assert_eq!(check_told(&disk, &model, &context), is_told, "{context}, again");
        }
        assert!(told >= 512, "{name}: {told} told");
    }
}

#[test]
fn a_sidecar_or_a_chunk_file_that_is_missing_is_told() {
    for (name, disk, model) in chunks() {
        let image = disk.image();
        for gone in [vec!["meta"], vec!["chunk"], vec!["chunk", "meta"]] {
            disk.restore(&image);
            gone.iter().for_each(|kind| disk.remove(&path(kind)).unwrap());
            let context = format!("{name}, without {gone:?}");
            for _ in 0..2 {
                assert!(check_told(&disk, &model, &context), "{context}");
                disk.crash();
            }
        }
    }
}

#[test]
fn after_a_kill_bytes_that_do_not_fit_the_newest_head_are_damage_and_no_tear() {
    for (name, disk, model) in chunks().into_iter().take(2) {
        let last = model.contents.last().unwrap().len() as u64 - 1;
        assert!(disk.flip_byte(&path("chunk"), last));
        assert!(check_told(&disk, &model, name), "{name}");
    }
}

#[test]
fn a_chunk_that_was_made_and_never_written_to_is_as_good_as_any_after_a_kill() {
    let disk = new_disk();
    let (store, _) = open(&disk);
    Model::new().take(&store, &Step::Raise(1)).unwrap();
    drop(store);
    for _ in 0..3 {
        disk.crash();
        let (_, found) = open(&disk);
        let found = found.unwrap();
        assert!(!found.suspect && found.length == 0, "{found:?}");
    }
    // Its files may never have reached the disk: it may have been written to, for all one knows.
    disk.power_loss_of_all_unsynced();
    for _ in 0..3 {
        let (_, found) = open(&disk);
        assert!(found.unwrap().suspect);
        disk.crash();
    }
}

/// Three chunks with bytes, raised and changed in turn, and one in the trash.
fn many_chunks() -> (SimDisk, Vec<ChunkHandle>) {
    let disk = new_disk();
    let (store, _) = open(&disk);
    let handles: Vec<ChunkHandle> = (1..=4).map(ChunkHandle::new).collect();
    let raise = |handle, number, create, close| JournalEntry::Raise {
        handle,
        version: version(number),
        create,
        close,
    };
    store.journal(&[JournalEntry::Joined(CellId::new(4), ServerId::new(5))]).unwrap();
    for (number, handle) in (1..).zip(&handles) {
        store.journal(&[raise(*handle, number, true, false)]).unwrap();
        let data = Some(chunk_model::pushed(&[7; 3000], 0));
        let serial = SerialNumber::new(1);
        let mutation = ReadyMutation { serial, offset: 0, size: 3000, data };
        let known = AcknowledgedMark::default();
        store.apply(*handle, version(number), &[mutation], known, false).unwrap();
    }
    store.sync(handles[0]).unwrap();
    store.journal(&[JournalEntry::Term(Term::new(3)), raise(handles[1], 9, false, true)]).unwrap();
    store.trash(&[(handles[3], version(4))].into()).unwrap();
    store.journal(&[raise(handles[0], 10, false, false)]).unwrap();
    drop(store);
    (disk, handles)
}

#[test]
fn a_flipped_byte_in_a_journal_makes_replicas_suspect_and_refuses_none() {
    let (disk, handles) = many_chunks();
    let image = disk.image();
    let size = disk.open("journal", OpenMode::Read).unwrap().size().unwrap();
    let (_, whole) = ChunkStore::open(disk.session()).unwrap();
    let mut told = 0;
    // The last line may as well have been cut short by a kill.
    let last = size - 40;
    for at in 0..size {
        disk.restore(&image);
        assert!(disk.flip_byte("journal", at));
        let context = format!("byte {at} of {size}");
        let (store, found) =
            ChunkStore::open(disk.session()).unwrap_or_else(|error| panic!("{context}: {error}"));
        store.configure(BLOCK);
        let is_told = !found.warnings.is_empty();
        told += u64::from(is_told);
        assert!(is_told || at >= last || found == whole, "{context}: {found:?}");
        for handle in &handles[..3] {
            let replica = found.replicas.iter().find(|replica| replica.handle == *handle);
            let replica = replica.unwrap_or_else(|| panic!("{context}: {handle} is gone"));
            assert!(replica.suspect || !is_told, "{context}: {replica:?}");
            let done = store.read(*handle, 0, 3000).unwrap();
            assert_eq!(done.payload.into_bytes(), [7; 3000][..], "{context}");
        }
        drop(store);
        disk.crash();
        let (_, again) = ChunkStore::open(disk.session()).unwrap();
        let suspect = |found: &RecoveredChunks| {
            found.replicas.iter().map(|it| (it.handle, it.suspect)).collect::<Vec<_>>()
        };
        assert_eq!(suspect(&again), suspect(&found), "{context}: the new journal says the same");
        assert!(again.warnings.is_empty(), "{context}: the new journal is whole");
    }
    assert!(told > size / 2, "{told} of {size} told: all but what pads a line");
}

#[test]
fn a_block_that_lies_in_anothers_place_with_its_checksum_is_refused() {
    let (_, disk, model) = chunks().pop().unwrap();
    let (store, _) = open(&disk);
    let moved = |kind: &str, from: u64, to: u64, size: u64| {
        let file = disk.session().open(&path(kind), OpenMode::Write).unwrap();
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        assert_eq!(file.read_at(&mut bytes, from).unwrap(), bytes.len());
        file.write_at(&bytes, to).unwrap();
    };
    let (from, to, size) = (0, 2, u64::from(BLOCK));
    moved("chunk", from * size, to * size, size);
    moved("meta", HEADS_SIZE + 4 * from, HEADS_SIZE + 4 * to, 4);
    let whole = model.contents.last().unwrap();
    assert!(read(&store, from * size, size).is_ok_and(|got| got.verifies()));
    assert!(!read(&store, to * size, size).is_ok_and(|got| got.verifies()));
    check_readable(&store, whole, "a moved block");
}

#[test]
fn a_file_that_says_it_is_huge_takes_no_memory_and_is_damage_of_its_chunk_alone() {
    for (name, disk, model) in chunks() {
        for kind in ["meta", "redo"] {
            let image = disk.image();
            let file = disk.session().open(&path(kind), OpenMode::Create).unwrap();
            file.set_size(1 << 50).unwrap();
            drop(file);
            assert!(check_told(&disk, &model, &format!("{name}: {kind}")), "{name}: {kind}");
            disk.restore(&image);
        }
    }
}
