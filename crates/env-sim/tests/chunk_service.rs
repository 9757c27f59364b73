//! The chunkserver's disk work as its driver sees it: jobs over several directories, and pushes.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use bytes::Bytes;
use cairn_env::{
    ApplyMutation, ChunkDone, ChunkError, ChunkJob, CloneWork, Disk, DiskError, JournalEntry,
    OpenMode, PushedData, Service,
};
use cairn_env_sim::{DiskFaults, SimDisk};
use cairn_store::{ChunkDisk, RecoveredChunks, StoreOpenError};
use cairn_types::{
    BlockChecksums, CellConfig, CellId, ChunkHandle, MutationNumber, PushId, SerialNumber,
    ServerId, SessionId, Term,
};
use chunk_model::{new_disk, pushed, version};

const HANDLE: ChunkHandle = ChunkHandle::new(5);

fn open(disks: &[SimDisk]) -> (ChunkDisk, RecoveredChunks) {
    let sessions = disks.iter().map(SimDisk::session).collect();
    let (service, found) = ChunkDisk::open(sessions, 1 << 20).unwrap();
    service.configure(&CellConfig { block_size: chunk_model::BLOCK, ..CellConfig::tiny() });
    (service, found)
}

fn raise(handle: ChunkHandle, number: u64, create: bool) -> ChunkJob {
    let version = version(number);
    ChunkJob::Journal(vec![JournalEntry::Raise { handle, version, create, close: false }])
}

fn push(number: u64) -> PushId {
    PushId { session: SessionId::new(3), number: MutationNumber::new(number) }
}

/// Keeps a push and gives the mutation that names it.
fn mutation(service: &ChunkDisk, serial: u64, offset: u64, bytes: &[u8]) -> ApplyMutation {
    let data = pushed(bytes, 0);
    let checksums = data.checksums.clone();
    service.keep(push(serial), data).unwrap();
    let (serial, push) = (SerialNumber::new(serial), Some(push(serial)));
    ApplyMutation { serial, offset, size: bytes.len() as u64, push, checksums }
}

fn apply(handle: ChunkHandle, mutations: Vec<ApplyMutation>, sync: bool) -> ChunkJob {
    let (acknowledged, acknowledged_serial) = (0, SerialNumber::default());
    ChunkJob::Apply {
        handle,
        version: version(1),
        mutations,
        acknowledged,
        acknowledged_serial,
        sync,
    }
}

fn read(service: &ChunkDisk, handle: ChunkHandle) -> Vec<u8> {
    match service.run(vec![ChunkJob::Read { handle, offset: 0, size: 1 << 20 }]).pop() {
        Some(Ok(ChunkDone::Read(done))) => done.payload.into_bytes().to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mutation_that_names_other_bytes_than_were_pushed_is_refused() {
    let (service, _) = open(&[new_disk()]);
    service.run(vec![raise(HANDLE, 1, true)]);
    let mut named = mutation(&service, 1, 0, b"what was pushed");
    named.checksums = BlockChecksums::of(0, b"what was meant.", chunk_model::BLOCK);
    let results = service.run(vec![apply(HANDLE, vec![named], false)]);
    assert_eq!(results, [Err(ChunkError::PushDiffers { push: push(1) })]);
    let missing = ApplyMutation { push: Some(push(9)), ..mutation(&service, 2, 0, b"x") };
    let results = service.run(vec![apply(HANDLE, vec![missing], false)]);
    assert_eq!(results, [Err(ChunkError::PushMissing { push: push(9) })]);
    assert_eq!(read(&service, HANDLE), b"", "nothing was applied");
}

#[test]
fn data_cut_at_blocks_of_another_size_than_the_chunk_s_is_refused_and_harms_nothing() {
    let (service, _) = open(&[new_disk()]);
    service.run(vec![raise(HANDLE, 1, true)]);
    let bytes = vec![7; 3 * chunk_model::BLOCK as usize];
    for (serial, blocks) in [(1, chunk_model::BLOCK / 2), (2, 2 * chunk_model::BLOCK)] {
        let checksums = BlockChecksums::of(0, &bytes, blocks);
        let data =
            PushedData { block_size: blocks, checksums: checksums.clone(), ..pushed(&bytes, 0) };
        service.keep(push(serial), data).unwrap();
        let named = ApplyMutation {
            serial: SerialNumber::new(serial),
            offset: 0,
            size: bytes.len() as u64,
            push: Some(push(serial)),
            checksums,
        };
        let results = service.run(vec![apply(HANDLE, vec![named], false)]);
        assert_eq!(results, [Err(ChunkError::PushDiffers { push: push(serial) })]);
    }
    assert_eq!(read(&service, HANDLE), b"");
    let good = mutation(&service, 3, 0, &bytes);
    assert!(service.run(vec![apply(HANDLE, vec![good], false)])[0].is_ok());
    assert_eq!(read(&service, HANDLE), bytes);
}

#[test]
fn nothing_stays_of_a_chunk_that_could_not_be_made() {
    let disks = [new_disk(), new_disk()];
    let (service, _) = open(&disks);
    disks.iter().for_each(|disk| disk.set_capacity(disk.space().unwrap().used));
    let mut refused = None;
    for number in 1..1000 {
        let handle = ChunkHandle::new(number);
        if service.run(vec![raise(handle, 1, true)]) == [Err(DiskError::NoSpace.into())] {
            refused = Some(handle);
            break;
        }
    }
    let handle = refused.expect("the journal is full at some time");
    disks[1].set_capacity(1 << 30);
    assert_eq!(service.run(vec![raise(handle, 2, false)]), [Err(ChunkError::NoSuchChunk)]);
    // It is no longer tied to the directory that had no room.
    assert_eq!(service.run(vec![raise(handle, 3, true)]), [Ok(ChunkDone::Journaled)]);
    let never_made = ChunkJob::Trash { handle: ChunkHandle::new(5000), version: version(1) };
    assert_eq!(service.run(vec![never_made]), [Ok(ChunkDone::Trashed { gone: true })]);
    drop(service);
    disks[0].set_capacity(1 << 30);
    let (_, found) = open(&disks);
    let versions: Vec<_> = found.replicas.iter().filter(|r| r.handle == handle).collect();
    assert!(matches!(versions[..], [one] if one.version == version(3)));
}

#[test]
fn jobs_that_come_together_share_their_flushes() {
    let disk = new_disk();
    let (service, _) = open(std::slice::from_ref(&disk));
    let steps = |jobs: Vec<ChunkJob>| {
        let before = disk.steps();
        let results = service.run(jobs);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        (disk.steps() - before, results)
    };
    let handle = ChunkHandle::new;
    steps((1..=9).map(|number| raise(handle(number), 1, true)).collect());
    let (one, _) = steps(vec![raise(handle(9), 2, false)]);
    let (many, _) = steps((1..=8).map(|number| raise(handle(number), 2, false)).collect());
    assert_eq!(many, one, "eight raises cost one write and one flush");

    let synced =
        |serial, offset| apply(HANDLE, vec![mutation(&service, serial, offset, b"0123")], true);
    let (_, first) = steps(vec![synced(1, 0)]);
    assert_eq!(first, [Ok(ChunkDone::Applied { length: 4, serial: SerialNumber::new(1) })]);
    let (one, _) = steps(vec![synced(2, 4)]);
    let (four, results) = steps((3..7).map(|serial| synced(serial, 4 * serial - 4)).collect());
    assert!(four <= one + 1, "{four} against {one}");
    let serials: Vec<_> = results
        .into_iter()
        .map(|done| match done {
            Ok(ChunkDone::Applied { serial, length: 24 }) => serial.get(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(serials, [3, 4, 5, 6]);
    assert_eq!(read(&service, HANDLE), b"0123".repeat(6));
}

#[test]
fn an_apply_without_its_push_does_not_stop_those_before_it() {
    let (service, _) = open(&[new_disk()]);
    service.run(vec![raise(HANDLE, 1, true)]);
    let good = apply(HANDLE, vec![mutation(&service, 1, 0, b"good")], false);
    let bad = ApplyMutation { push: Some(push(77)), ..mutation(&service, 2, 4, b"bad") };
    let results = service.run(vec![good, apply(HANDLE, vec![bad], false)]);
    assert!(results[0].is_ok());
    assert_eq!(results[1], Err(ChunkError::PushMissing { push: push(77) }));
    assert_eq!(read(&service, HANDLE), b"good");
}

#[test]
fn a_mutation_can_come_again_soon_after_it_was_applied() {
    let (service, _) = open(&[new_disk()]);
    service.run(vec![raise(HANDLE, 1, true)]);
    let named = mutation(&service, 1, 0, b"once");
    let jobs = [(); 2].map(|()| apply(HANDLE, vec![named.clone()], false));
    for job in jobs {
        assert!(service.run(vec![job]).pop().unwrap().is_ok());
    }
    assert_eq!(read(&service, HANDLE), b"once");
}

#[test]
fn a_new_chunk_goes_where_most_is_free_and_is_found_there_again() {
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
    let (service, _) = open(&disks);
    service.run(vec![raise(HANDLE, 1, true)]);
    service.run(vec![apply(HANDLE, vec![mutation(&service, 1, 0, b"bytes")], false)]);
    assert!(disks[1].paths().iter().any(|path| path.ends_with(".chunk")));
    service
        .run(vec![ChunkJob::Journal(vec![JournalEntry::Joined(CellId::new(1), ServerId::new(2))])]);
    drop(service);
    let (service, found) = open(&disks);
    assert_eq!(found.identity, Some((CellId::new(1), ServerId::new(2))));
    assert_eq!(found.replicas.len(), 1);
    assert_eq!(read(&service, HANDLE), b"bytes");
}

#[test]
fn a_directory_that_failed_is_dropped_and_the_others_serve_on() {
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
    let (service, _) = open(&disks);
    service.run(vec![raise(HANDLE, 1, true)]);
    disks[1].fail_syncs(1);
    let other = ChunkHandle::new(6);
    let failed = service.run(vec![raise(HANDLE, 2, false)]);
    assert!(matches!(failed[0], Err(ChunkError::Disk(DiskError::SyncFailed(_)))));
    assert_eq!(service.take_lost(), [HANDLE]);
    assert_eq!(service.take_lost(), [], "it is told once");
    assert_eq!(service.run(vec![raise(other, 1, true)]), [Ok(ChunkDone::Journaled)]);
    service.run(vec![apply(other, vec![mutation(&service, 1, 0, b"bytes")], false)]);
    assert_eq!(read(&service, other), b"bytes");
    let space = service.run(vec![ChunkJob::Space]);
    assert!(matches!(&space[0], Ok(ChunkDone::Space(space)) if space.sum().0 == 1 << 20));
}

#[test]
fn directories_of_two_servers_do_not_make_one() {
    let disks = [new_disk(), new_disk()];
    for (number, disk) in disks.iter().enumerate() {
        let (service, _) = open(std::slice::from_ref(disk));
        let server = ServerId::new(number as u64);
        service.run(vec![ChunkJob::Journal(vec![JournalEntry::Joined(CellId::new(1), server)])]);
    }
    let sessions = disks.iter().map(SimDisk::session).collect();
    let both = ChunkDisk::open(sessions, 1 << 20).map(drop);
    assert!(matches!(both, Err(StoreOpenError::Foreign { .. })));
    let with_new = [disks[0].clone(), new_disk()];
    drop(open(&with_new));
    let joined = open(&with_new[1..]).1.identity;
    assert_eq!(joined, Some((CellId::new(1), ServerId::new(0))), "the new one is this server's");
}

/// A service whose chunk has these bytes, written from serial number 1 on.
fn holding(parts: &[&[u8]]) -> ChunkDisk {
    let (service, _) = open(&[new_disk()]);
    service.run(vec![raise(HANDLE, 1, true)]);
    let (mut serial, mut offset) = (0, 0);
    for part in parts {
        serial += 1;
        let written = mutation(&service, serial, offset, part);
        offset += part.len() as u64;
        assert!(service.run(vec![apply(HANDLE, vec![written], false)])[0].is_ok());
    }
    service
}

/// Brings the one to the bytes of the other, range by range, as servers do; in how many.
fn catch_up(behind: &ChunkDisk, source: &ChunkDisk) -> usize {
    let block = u64::from(chunk_model::BLOCK);
    let (mut offset, mut ranges) = (0, 0);
    loop {
        let own = behind.run(vec![ChunkJob::Checksums { handle: HANDLE }]).remove(0);
        let Ok(ChunkDone::Checksums { length, checksums }) = own else { panic!("{own:?}") };
        let known = checksums.0.into_iter().skip(usize::try_from(offset / block).unwrap());
        let known = BlockChecksums(known.collect());
        let fetch = ChunkJob::Fetch { handle: HANDLE, offset, length, known, size_max: 0 };
        let fetched = source.run(vec![fetch]).remove(0);
        let Ok(ChunkDone::Read(done)) = fetched else { panic!("{fetched:?}") };
        let (bytes, checksums) = (done.payload.into_bytes(), done.checksums);
        if bytes.is_empty() {
            return ranges;
        }
        ranges += 1;
        let (version, next) = (version(1), done.offset + bytes.len() as u64);
        let install =
            ChunkJob::Install { handle: HANDLE, version, offset: done.offset, checksums, bytes };
        assert!(behind.run(vec![install])[0].is_ok());
        if !next.is_multiple_of(block) {
            return ranges;
        }
        offset = next;
    }
}

#[test]
fn a_replica_that_lacks_blocks_fetches_those_that_differ_and_no_others() {
    let block = chunk_model::BLOCK as usize;
    let whole = vec![1; 3 * block + 10];
    for (ours, ranges) in [(0, 1), (10, 1), (block, 1), (3 * block, 1), (3 * block + 10, 0)] {
        let (behind, source) = (holding(&[&whole[..ours]]), holding(&[&whole]));
        assert_eq!(catch_up(&behind, &source), ranges, "{ours} bytes are here");
        assert_eq!(read(&behind, HANDLE), whole);
    }
    let mut changed = whole.clone();
    (changed[0], changed[2 * block]) = (2, 2);
    let (behind, source) = (holding(&[&whole]), holding(&[&changed]));
    assert_eq!(catch_up(&behind, &source), 2, "the first block and the third");
    assert_eq!(read(&behind, HANDLE), changed);
}

#[test]
fn what_was_fetched_counts_no_mutation_and_stays_if_the_rest_never_comes() {
    let (behind, source) = (holding(&[b"a"]), holding(&[b"a", b"bc"]));
    catch_up(&behind, &source);
    let more = mutation(&behind, 2, 3, b"d");
    let applied = behind.run(vec![apply(HANDLE, vec![more], false)]);
    assert_eq!(applied, [Ok(ChunkDone::Applied { length: 4, serial: SerialNumber::new(2) })]);
    assert_eq!(read(&behind, HANDLE), b"abcd");
}

#[test]
fn who_fetches_gets_no_more_than_is_wanted_and_a_whole_block_at_least() {
    let block = usize::try_from(chunk_model::BLOCK).expect("small");
    let source = holding(&[&vec![7; 5 * block]]);
    let fetched = |size_max| {
        let (offset, length, known) = (0, 0, BlockChecksums::default());
        let fetch = ChunkJob::Fetch { handle: HANDLE, offset, length, known, size_max };
        match source.run(vec![fetch]).remove(0) {
            Ok(ChunkDone::Read(done)) => done.payload.len() / block,
            other => panic!("{other:?}"),
        }
    };
    let block = u64::from(chunk_model::BLOCK);
    assert_eq!([1, block, 3 * block - 1, 3 * block, 0].map(fetched), [1, 1, 2, 3, 5]);
}

#[test]
fn blocks_that_are_damaged_here_or_on_their_way_do_not_spread() {
    let (handle, version) = (HANDLE, version(1));
    let behind = holding(&[b"a"]);
    let checksums = BlockChecksums::of(0, b"what was sent", chunk_model::BLOCK);
    let bytes = Bytes::from_static(b"what has come");
    let install = ChunkJob::Install { handle, version, offset: 0, checksums, bytes };
    let refused = behind.run(vec![install]);
    assert_eq!(refused, [Err(ChunkError::FetchedDiffers { offset: 0 })]);
    assert_eq!(read(&behind, HANDLE), b"a", "nothing was changed");
    let disk = new_disk();
    let (source, _) = open(std::slice::from_ref(&disk));
    source.run(vec![raise(HANDLE, 1, true)]);
    let written = mutation(&source, 1, 0, &[3; 100]);
    source.run(vec![apply(HANDLE, vec![written], false)]);
    let path = format!("chunks/05/{:016x}.chunk", HANDLE.get());
    let file = disk.session().open(&path, OpenMode::Write).unwrap();
    file.write_at(&[4], 50).unwrap();
    let (length, known) = (0, BlockChecksums::default());
    let (offset, size_max) = (0, 0);
    let fetched = source.run(vec![ChunkJob::Fetch { handle, offset, length, known, size_max }]);
    assert_eq!(fetched, [Err(ChunkError::Corrupt { offset: 0 })]);
}

#[test]
fn a_directory_that_refuses_keeps_no_other_from_being_emptied_and_counted() {
    let disks = [SimDisk::new("a", 1 << 22), SimDisk::new("b", 1 << 20)];
    let (service, _) = open(&disks);
    let other = ChunkHandle::new(6);
    service.run(vec![raise(HANDLE, 1, true)]);
    disks[0].set_capacity(1 << 16);
    service.run(vec![raise(other, 1, true)]);
    let version = cairn_types::ChunkVersion::new(u64::MAX);
    for handle in [HANDLE, other] {
        let gone = service.run(vec![ChunkJob::Trash { handle, version }]);
        assert_eq!(gone, [Ok(ChunkDone::Trashed { gone: true })]);
    }
    let thrown = |disk: &SimDisk| disk.paths().iter().filter(|at| at.contains("trash/")).count();
    assert!(disks.iter().all(|disk| thrown(disk) > 0), "each has one");
    // The first of them refuses everything from its next change on.
    disks[0].arm_fuse(0);
    let empty = |now_ms| ChunkJob::EmptyTrash { before_ms: now_ms, now_ms };
    for now_ms in [1000, 2000] {
        assert!(service.run(vec![empty(now_ms)])[0].is_err(), "one of them refuses");
    }
    assert_eq!(thrown(&disks[1]), 0, "the other was emptied");
    let space = service.run(vec![ChunkJob::Space]);
    assert!(matches!(&space[0], Ok(ChunkDone::Space(space)) if space.sum().0 == 1 << 20));
}

#[test]
fn replicas_go_to_the_trash_together_each_with_its_own_answer() {
    let disks = [SimDisk::new("a", 1 << 24)];
    let (service, _) = open(&disks);
    let (first, second) = (1000..1040, 2000..2040);
    for handle in first.clone().chain(second.clone()) {
        service.run(vec![raise(ChunkHandle::new(handle), 2, true)]);
    }
    let trash = |handle, at| ChunkJob::Trash { handle: ChunkHandle::new(handle), version: at };
    let begun = disks[0].steps();
    let one_by_one = first.flat_map(|handle| service.run(vec![trash(handle, version(2))]));
    assert!(one_by_one.eq((0..40).map(|_| Ok(ChunkDone::Trashed { gone: true }))));
    let alone = disks[0].steps() - begun;
    // One that is newer than named, one that is nowhere, and one twice.
    let mut jobs: Vec<ChunkJob> = second.map(|handle| trash(handle, version(2))).collect();
    jobs[7] = trash(2007, version(1));
    jobs.insert(20, trash(9999, version(1)));
    jobs.insert(30, trash(2001, version(2)));
    let gone = |gone| Ok(ChunkDone::Trashed { gone });
    let begun = disks[0].steps();
    let results = service.run(jobs);
    let together = disks[0].steps() - begun;
    assert_eq!(results.len(), 42);
    assert!(results.iter().enumerate().all(|(at, result)| *result == gone(at != 7)), "{results:?}");
    assert!(alone - together > 30, "{together} changes of the disk together, {alone} one by one");
    assert_eq!(service.run(vec![trash(2007, version(2))]), [gone(true)]);
    drop(service);
    disks[0].power_loss_of_all_unsynced();
    let (_, found) = open(&disks);
    assert_eq!(found.replicas.len(), 0, "out of the journal, durably");
}

#[test]
fn a_large_trash_is_emptied_in_slices_and_what_came_meanwhile_is_dated() {
    let disks = [SimDisk::new("a", 1 << 24)];
    let (service, _) = open(&disks);
    let throw = |numbers: std::ops::Range<u64>| {
        for handle in numbers.map(ChunkHandle::new) {
            service.run(vec![raise(handle, 1, true)]);
            let version = cairn_types::ChunkVersion::new(u64::MAX);
            let gone = service.run(vec![ChunkJob::Trash { handle, version }]);
            assert_eq!(gone, [Ok(ChunkDone::Trashed { gone: true })]);
        }
    };
    let thrown = || disks[0].paths().iter().filter(|at| at.contains("trash/")).count();
    let look = |before_ms, now_ms| match service
        .run(vec![ChunkJob::EmptyTrash { before_ms, now_ms }])
        .pop()
    {
        Some(Ok(ChunkDone::TrashEmptied { more })) => more,
        other => panic!("{other:?}"),
    };
    let all = |before_ms, now_ms| 1 + (0..).take_while(|_| look(before_ms, now_ms)).count();
    throw(100..200);
    assert!(all(0, 1000) > 1, "dated in slices");
    let full = thrown();
    assert!(look(2000, 2000), "a slice of a hundred");
    assert!((1..full).contains(&thrown()), "of {full}, {} are left", thrown());
    throw(200..210);
    all(2000, 2000);
    let left = thrown();
    assert!((1..=20).contains(&left), "{left}: what was thrown away meanwhile is there");
    all(2000, 2000);
    all(3000, 3000);
    assert_eq!(thrown(), 0);
}

fn look(service: &ChunkDisk, times: usize) {
    for _ in 0..times {
        space(service);
    }
}

fn space(service: &ChunkDisk) -> (u64, u64) {
    match service.run(vec![ChunkJob::Space]).pop() {
        Some(Ok(ChunkDone::Space(space))) => (space.sum().0, space.room()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_that_vanishes_is_dropped_alone_and_an_empty_one_in_its_place_is_taken_in() {
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
    let (service, _) = open(&disks);
    service.run(vec![ChunkJob::Journal(vec![
        JournalEntry::Joined(CellId::new(1), ServerId::new(2)),
        JournalEntry::Term(Term::new(7)),
    ])]);
    service.run(vec![raise(HANDLE, 1, true)]);
    assert_eq!(space(&service).0, (1 << 20) + (1 << 22));
    disks[1].pull_out();
    assert_eq!(space(&service).0, 1 << 20);
    let failures = |service: &ChunkDisk| {
        service.directories().into_iter().map(|it| it.failure.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(failures(&service), [false, true]);
    assert!(!service.has_failed());
    disks[1].put_in();
    assert_eq!(space(&service).0, 1 << 20, "what it held was not told as lost yet");
    assert_eq!(service.take_lost(), [HANDLE]);
    assert_eq!(space(&service).0, (1 << 20) + (1 << 22));
    assert_eq!(failures(&service), [false, false]);
    service.run(vec![raise(HANDLE, 1, true)]);
    service.run(vec![apply(HANDLE, vec![mutation(&service, 1, 0, b"bytes")], false)]);
    assert_eq!((read(&service, HANDLE), service.take_lost()), (b"bytes".to_vec(), vec![]));
    drop(service);
    disks[1].crash();
    let found = open(&disks[1..]).1;
    assert_eq!(found.identity, Some((CellId::new(1), ServerId::new(2))), "it is this server's");
    assert_eq!(found.term, Term::new(7), "R2");
}

/// Removes every file of a disk.
fn empty(disk: &SimDisk, directory: &str) {
    for name in disk.list(directory).unwrap() {
        let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
        match disk.list(&path) {
            Ok(_) => empty(disk, &path),
            Err(_) => disk.remove(&path).unwrap(),
        }
    }
}

#[test]
fn a_directory_that_is_emptied_under_its_server_is_taken_in_like_any_empty_one() {
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
    let (service, _) = open(&disks);
    service.run(vec![raise(HANDLE, 1, true)]);
    empty(&disks[1], "");
    assert_eq!(space(&service).0, 1 << 20, "its journal is gone");
    assert_eq!(service.take_lost(), [HANDLE]);
    assert_eq!(space(&service).0, (1 << 20) + (1 << 22));
    service.run(vec![raise(HANDLE, 1, true)]);
    service.run(vec![apply(HANDLE, vec![mutation(&service, 1, 0, b"bytes")], false)]);
    assert_eq!(read(&service, HANDLE), b"bytes");
    drop(service);
    let (service, _) = open(&disks);
    assert_eq!(read(&service, HANDLE), b"bytes", "nothing of its past is held against it");
}

#[test]
fn what_was_begun_in_an_emptied_directory_keeps_it_from_being_taken_in() {
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
    let (service, _) = open(&disks);
    empty(&disks[1], "");
    disks[1].make_dir("chunks/01").unwrap();
    disks[1].open("chunks/01/0000000000000001.chunk", OpenMode::Create).unwrap();
    space(&service);
    assert_eq!(service.take_lost(), []);
    assert_eq!(space(&service).0, 1 << 20, "somebody may want it");
}

#[test]
fn a_directory_with_a_past_is_not_taken_in_while_the_server_runs() {
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
    let (service, _) = open(&disks);
    disks[1].pull_out();
    space(&service);
    assert_eq!(service.take_lost(), []);
    disks[1].put_in();
    disks[1].open("journal", OpenMode::Create).unwrap();
    assert_eq!(space(&service).0, 1 << 20);
}

#[test]
fn a_directory_that_takes_no_writes_is_given_up_after_a_few_and_one_bad_write_costs_nothing() {
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
    let (service, _) = open(&disks);
    let faults = |permille| DiskFaults { write_errors_permille: permille, ..DiskFaults::default() };
    let failed = || service.directories().iter().filter(|it| it.failure.is_some()).count();
    disks[1].set_faults(faults(1000), 1);
    look(&service, 11);
    assert_eq!(failed(), 0);
    disks[1].set_faults(faults(0), 1);
    look(&service, 30);
    disks[1].set_faults(faults(1000), 1);
    look(&service, 13);
    assert_eq!(failed(), 1);
}

#[test]
fn no_chunk_begins_where_a_whole_one_has_no_room() {
    let config = CellConfig::tiny();
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 20)];
    let (service, _) = open(&disks);
    assert!(space(&service).1 >= config.chunk_size);
    for disk in &disks {
        let used = disk.space().unwrap().used;
        disk.set_capacity(used + config.chunk_size - 1);
    }
    let refused = service.run(vec![raise(HANDLE, 1, true)]);
    assert_eq!(refused, [Err(ChunkError::Disk(DiskError::NoSpace))], "both have some room");
    assert!(space(&service).1 < config.chunk_size);
    disks[0].set_capacity(1 << 20);
    assert_eq!(service.run(vec![raise(HANDLE, 1, true)]), [Ok(ChunkDone::Journaled)]);
}

#[test]
fn of_a_chunk_in_two_directories_the_newer_replica_counts_and_nothing_stays_of_the_older() {
    // One directory failed, the chunk was cloned to the other, and the failed one is back.
    for newer in [0, 1] {
        let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
        for (at, disk) in disks.iter().enumerate() {
            let (service, _) = open(std::slice::from_ref(disk));
            let bytes: &[u8] = if at == newer { b"newer" } else { b"older" };
            service.run(vec![raise(HANDLE, 1, true)]);
            service.run(vec![apply(HANDLE, vec![mutation(&service, 1, 0, bytes)], true)]);
            if at == newer {
                service.run(vec![raise(HANDLE, 2, false)]);
            }
        }
        let (service, found) = open(&disks);
        let versions: Vec<_> = found.replicas.iter().map(|it| it.version).collect();
        assert_eq!(versions, [version(2)], "R30");
        assert_eq!(read(&service, HANDLE), b"newer");
        let gone = service.run(vec![ChunkJob::Trash { handle: HANDLE, version: version(2) }]);
        assert_eq!(gone, [Ok(ChunkDone::Trashed { gone: true })]);
        service.run(vec![raise(HANDLE, 3, true)]);
        assert_eq!(read(&service, HANDLE), b"", "made anew, wherever");
        drop(service);
        assert_eq!(open(&disks).1.replicas[0].version, version(3));
    }
}

#[test]
fn a_clone_goes_to_disk_as_it_comes_so_that_little_is_left_when_clients_wait() {
    let disk = SimDisk::new("a", 1 << 26);
    let (service, _) = open(std::slice::from_ref(&disk));
    let clone = |work| service.run(vec![ChunkJob::Clone { handle: HANDLE, work }]).remove(0);
    assert!(clone(CloneWork::Begin { anew: false }).is_ok());
    let bytes = Bytes::from(vec![7; 1 << 20]);
    let mut install = |number: u64| {
        let (offset, before) = (number << 20, disk.steps());
        let checksums = BlockChecksums::of(offset, &bytes, chunk_model::BLOCK);
        let work = CloneWork::Install { offset, checksums, bytes: bytes.clone() };
        assert_eq!(clone(work), Ok(ChunkDone::Cloned));
        disk.steps() - before
    };
    let steps: Vec<u64> = (0..8).map(&mut install).collect();
    let most = *steps.iter().max().expect("eight");
    assert_eq!(
        steps.iter().filter(|it| **it == most).count(),
        2,
        "every four megabytes: {steps:?}"
    );
    assert!(steps[3] == most && steps[7] == most && steps[0] < most, "{steps:?}");
}

const OURS: (CellId, ServerId) = (CellId::new(1), ServerId::new(2));

/// Two directories of one server; the second has a chunk.
fn joined() -> [SimDisk; 2] {
    let disks = [SimDisk::new("a", 1 << 20), SimDisk::new("b", 1 << 22)];
    let (service, _) = open(&disks);
    service.run(vec![ChunkJob::Journal(vec![JournalEntry::Joined(OURS.0, OURS.1)])]);
    service.run(vec![raise(HANDLE, 1, true)]);
    service.run(vec![apply(HANDLE, vec![mutation(&service, 1, 0, b"bytes")], false)]);
    disks
}

fn failures(service: &ChunkDisk) -> Vec<bool> {
    let disks = service.server_space().disks;
    let states = service.directories();
    assert!(states.iter().zip(&disks).all(|(state, disk)| state.failure.is_some() == disk.failed));
    disks.into_iter().map(|disk| disk.failed).collect()
}

/// Puts a file with these bytes where nothing is, or another.
fn put_file(disk: &SimDisk, path: &str, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Create).unwrap();
    file.set_size(0).unwrap();
    file.write_at(bytes, 0).unwrap();
}

#[test]
fn a_directory_that_cannot_be_opened_is_passed_over_and_compared_when_it_can_be() {
    let disks = joined();
    disks[1].rename("journal", "elsewhere").unwrap();
    let (service, found) = open(&disks);
    assert_eq!((found.identity, found.replicas.len()), (Some(OURS), 0));
    assert_eq!(failures(&service), [false, true]);
    let why = service.directories()[1].failure.clone().unwrap();
    assert!(why.contains("has no journal"), "{why}");
    let told = format!("{:?}", found.warnings);
    assert!(told.contains("a data directory is given up") && told.contains("no journal"), "{told}");
    assert_eq!((service.take_lost(), service.has_failed()), (vec![], false));
    // As a copy of what it held would come, and the chunk be changed meanwhile.
    service.run(vec![raise(HANDLE, 2, true)]);
    assert_eq!(space(&service).0, 1 << 20, "it has a past, and is not looked into");
    drop(service);
    disks[1].rename("elsewhere", "journal").unwrap();
    let (service, found) = open(&disks);
    assert_eq!(failures(&service), [false, false]);
    assert_eq!((found.replicas.len(), found.replicas[0].version), (1, version(2)), "D3");
}

#[test]
fn a_directory_that_was_passed_over_is_taken_in_when_it_is_empty() {
    let disks = joined();
    put_file(&disks[1], "identity", b"rot");
    let (service, _) = open(&disks);
    assert_eq!(failures(&service), [false, true]);
    assert_eq!(space(&service).0, 1 << 20);
    empty(&disks[1], "");
    assert_eq!(space(&service).0, (1 << 20) + (1 << 22));
    assert_eq!(failures(&service), [false, false]);
    service.run(vec![raise(HANDLE, 1, true)]);
    assert!(disks[1].paths().iter().any(|path| path.ends_with(".chunk")), "it takes chunks");
    drop(service);
    assert_eq!(open(&disks[1..]).1.identity, Some(OURS), "it is this server's");
}

#[test]
fn no_directory_is_passed_over_where_nothing_else_says_which_server_this_is() {
    let both = |disks: [&SimDisk; 2]| {
        let sessions = disks.iter().map(|disk| disk.session()).collect();
        ChunkDisk::open(sessions, 1 << 20).map(drop)
    };
    let disks = joined();
    disks[1].rename("journal", "elsewhere").unwrap();
    let missing = both([&new_disk(), &disks[1]]);
    assert!(matches!(missing, Err(StoreOpenError::JournalMissing { .. })), "{missing:?}");
    disks[0].rename("journal", "elsewhere").unwrap();
    let missing = both([&disks[0], &disks[1]]);
    assert!(matches!(missing, Err(StoreOpenError::JournalMissing { .. })), "{missing:?}");
}

#[test]
fn what_a_person_has_to_put_right_keeps_a_server_from_starting() {
    let disks = joined();
    let sessions = || disks.iter().map(SimDisk::session).collect::<Vec<_>>();
    let held = sessions();
    let lock = held[1].lock("lock").unwrap();
    let running = ChunkDisk::open(held, 1 << 20).map(drop);
    assert!(matches!(running, Err(StoreOpenError::InUse { .. })), "{running:?}");
    drop(lock);
    let faults = DiskFaults { no_descriptors: true, ..DiskFaults::default() };
    disks[1].set_faults(faults, 1);
    let cramped = ChunkDisk::open(sessions(), 1 << 20).map(drop);
    assert!(matches!(cramped, Err(StoreOpenError::Disk { .. })), "{cramped:?}");
    disks[1].set_faults(DiskFaults::default(), 1);
    // Another server's, of which nothing else can be used.
    let theirs = new_disk();
    let (service, _) = open(std::slice::from_ref(&theirs));
    let joins = JournalEntry::Joined(OURS.0, ServerId::new(3));
    service.run(vec![ChunkJob::Journal(vec![joins])]);
    drop(service);
    theirs.rename("journal", "elsewhere").unwrap();
    let copied = ChunkDisk::open(vec![disks[0].session(), theirs.session()], 1 << 20).map(drop);
    assert!(matches!(copied, Err(StoreOpenError::Foreign { .. })), "{copied:?}");
    assert!(ChunkDisk::open(sessions(), 1 << 20).is_ok(), "and then it starts");
}
