//! The operation log on a disk that is killed, loses power and rots.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use bytes::Bytes;
use cairn_env::{Disk, DiskError, OpenMode};
use cairn_env_sim::SimDisk;
use cairn_format::SEGMENT_HEADER_SIZE;
use cairn_store::{LogOpenError, OperationLog, RecoveredLog};
use cairn_types::{CellId, LogIndex, Random};

const CELL: CellId = CellId::new(7);
/// Two pages: with records of some hundred bytes, several segments.
const SEGMENT: u64 = 8192;

fn disk() -> SimDisk {
    SimDisk::new("sim", 1 << 30)
}

fn open(disk: &SimDisk) -> Result<(OperationLog, RecoveredLog), LogOpenError> {
    OperationLog::open(disk.session(), CELL, SEGMENT, LogIndex::default())
}

fn record(index: u64, size: usize) -> (LogIndex, Bytes) {
    let byte = u8::try_from(index % 251).unwrap();
    (LogIndex::new(index), Bytes::from(vec![byte; size]))
}

/// Batches of records 1, 2, 3 … of sizes that straddle pages.
fn batches(random: &mut Random, count: u64) -> Vec<Vec<(LogIndex, Bytes)>> {
    let mut index = 0;
    let mut batch = |random: &mut Random| {
        let many = 1 + random.below(4);
        (0..many)
            .map(|_| {
                index += 1;
                record(index, usize::try_from(random.below(3000)).unwrap())
            })
            .collect()
    };
    (0..count).map(|_| batch(random)).collect()
}

/// Appends until the disk fails; how many records were acknowledged.
fn append_all(disk: &SimDisk, batches: &[Vec<(LogIndex, Bytes)>]) -> usize {
    let Ok((mut log, _)) = open(disk) else {
        return 0;
    };
    let mut acknowledged = 0;
    for batch in batches {
        if log.append(batch).is_err() {
            break;
        }
        acknowledged += batch.len();
    }
    acknowledged
}

/// All that was acknowledged is there, and nothing that was never appended.
fn check(disk: &SimDisk, appended: &[(LogIndex, Bytes)], acknowledged: usize, context: &str) {
    let (mut log, found) = open(disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(found.records.len() >= acknowledged, "{context}: lost {acknowledged}");
    assert_eq!(found.records, appended[..found.records.len()], "{context}");
    let next = record(found.records.len() as u64 + 1, 10);
    log.append(std::slice::from_ref(&next)).unwrap();
    drop(log);
    let (_, again) = open(disk).unwrap();
    assert_eq!(again.records.last(), Some(&next), "{context}: goes on");
    assert_eq!(again.records.len(), found.records.len() + 1, "{context}: nothing came back");
}

#[test]
fn killed_at_any_write_it_keeps_what_was_acknowledged() {
    let script = batches(&mut Random::new(1), 12);
    let appended = script.concat();
    let whole = disk();
    assert_eq!(append_all(&whole, &script), appended.len());
    assert!(open(&whole).unwrap().0.segment_count() > 3);
    for step in 0..whole.steps() {
        let disk = disk();
        disk.arm_fuse(step);
        let acknowledged = append_all(&disk, &script);
        disk.crash();
        check(&disk, &appended, acknowledged, &format!("killed at step {step}"));
    }
}

#[test]
fn a_power_loss_at_any_time_takes_nothing_that_was_acknowledged() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let script = batches(&mut random, 10);
        let appended = script.concat();
        let disk = disk();
        disk.arm_fuse(random.below(90));
        let acknowledged = append_all(&disk, &script);
        disk.power_loss(&mut random);
        check(&disk, &appended, acknowledged, &format!("seed {seed}"));
    }
}

#[test]
fn a_flipped_byte_before_the_last_batch_stops_the_master_and_says_what_to_do() {
    let script = batches(&mut Random::new(1), 12);
    let whole = disk();
    append_all(&whole, &script);
    let first = "log/0000000000000001.log";
    assert!(whole.flip_byte(first, 200));
    let error = open(&whole).unwrap_err();
    assert!(matches!(error, LogOpenError::Damaged { offset: 64, .. }), "{error}");
    assert!(error.to_string().contains("Copy the directory away"));
}

#[test]
fn a_damaged_end_of_a_segment_that_is_not_the_last_is_no_torn_tail() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    for index in 1..5 {
        log.append(&[record(index, 3000)]).unwrap();
    }
    assert_eq!(log.segment_count(), 2);
    drop(log);
    assert!(disk.flip_byte("log/0000000000000001.log", 64 + 3024 + 100));
    assert!(matches!(open(&disk), Err(LogOpenError::Damaged { offset: 3088, .. })));
}

#[test]
fn what_stood_in_a_torn_tail_never_comes_back() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    log.append(&[record(1, 104)]).unwrap();
    log.append(&[record(2, 104), record(3, 104), record(4, 104)]).unwrap();
    drop(log);
    // The first record of the last batch did not reach the disk, the others did.
    assert!(disk.flip_byte("log/0000000000000001.log", 64 + 128 + 50));
    let (mut log, found) = open(&disk).unwrap();
    assert_eq!(found.records, [record(1, 104)]);
    log.append(&[record(2, 104)]).unwrap();
    drop(log);
    assert_eq!(open(&disk).unwrap().1.records, [record(1, 104), record(2, 104)]);
}

#[test]
fn a_missing_segment_or_a_foreign_log_is_refused() {
    let whole = disk();
    append_all(&whole, &batches(&mut Random::new(1), 12));
    let other = OperationLog::open(whole.session(), CellId::new(8), SEGMENT, LogIndex::default())
        .unwrap_err();
    assert!(matches!(other, LogOpenError::Foreign { .. }), "{other}");
    let single = disk();
    append_all(&single, &[vec![record(1, 10)]]);
    let other = OperationLog::open(single.session(), CellId::new(8), SEGMENT, LogIndex::default());
    assert!(matches!(other, Err(LogOpenError::Foreign { .. })));
    assert_eq!(open(&single).unwrap().1.records, [record(1, 10)], "it is left alone");
    whole.remove("log/0000000000000002.log").unwrap();
    assert!(matches!(open(&whole), Err(LogOpenError::Missing { .. })));
}

#[test]
fn a_record_at_an_earlier_index_replaces_that_one_and_all_after_it() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    log.append(&[record(1, 5), record(2, 5), record(3, 5)]).unwrap();
    let other = (LogIndex::new(2), Bytes::from_static(b"another"));
    log.append(std::slice::from_ref(&other)).unwrap();
    drop(log);
    assert_eq!(open(&disk).unwrap().1.records, [record(1, 5), other.clone()]);
    let again = OperationLog::read(&disk, CELL, LogIndex::new(1)).unwrap();
    assert_eq!(again.records, [record(1, 5), other]);
}

#[test]
fn old_segments_go_and_the_newest_mark_stays() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    let mark = (LogIndex::default(), Bytes::from_static(b"mark"));
    log.append(&[mark.clone(), record(1, 3000)]).unwrap();
    for index in 2..20 {
        log.append(&[record(index, 3000)]).unwrap();
    }
    let before = log.segment_count();
    assert!(remove_before(&mut log, LogIndex::new(15)).unwrap() > 3);
    assert!(log.segment_count() < before);
    drop(log);
    let (_, found) = open(&disk).unwrap();
    assert_eq!(found.mark, Some(mark.1));
    assert!(found.records[0].0 <= LogIndex::new(15));
    assert_eq!(found.records.last(), Some(&record(19, 3000)));
}

/// Removes the segments of which nothing is needed from there on; how many.
fn remove_before(log: &mut OperationLog, index: LogIndex) -> Result<usize, DiskError> {
    let mut old = log.take_before(index)?;
    let removed = old.remove();
    log.give_back(old);
    removed
}

#[test]
fn records_are_appended_while_old_segments_are_on_their_way_out() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    (1..20).for_each(|index| log.append(&[record(index, 3000)]).unwrap());
    let mut old = log.take_before(LogIndex::new(15)).unwrap();
    (20..30).for_each(|index| log.append(&[record(index, 3000)]).unwrap());
    assert!(old.remove().unwrap() > 3);
    log.give_back(old);
    log.append(&[record(30, 3000)]).unwrap();
    drop(log);
    let (_, found) = OperationLog::open(disk.session(), CELL, SEGMENT, LogIndex::new(15)).unwrap();
    assert_eq!(found.records.last(), Some(&record(30, 3000)));
}

/// A master that has a mark, or was always alone, and from the second segment on keeps but those
/// behind `covered`: of the second, the name is gone from memory and stays on the disk.
fn removed_segment_is_back(mark: Option<&(LogIndex, Bytes)>, covered: LogIndex) {
    let disk = disk();
    let reopen = |covered| OperationLog::open(disk.session(), CELL, SEGMENT, covered);
    let (mut log, _) = open(&disk).unwrap();
    let first = mark.into_iter().cloned().chain([record(1, 3000)]);
    log.append(&first.collect::<Vec<_>>()).unwrap();
    (2..20).for_each(|index| log.append(&[record(index, 3000)]).unwrap());
    disk.fail_syncs_after(1, 1);
    assert!(remove_before(&mut log, covered).is_err());
    drop(log);
    disk.crash();
    let (mut log, _) = reopen(covered).unwrap();
    assert!(remove_before(&mut log, covered).unwrap() > 1);
    drop(log);
    disk.power_loss_of_all_unsynced();
    assert!(disk.list("log").unwrap().contains(&"0000000000000002.log".to_owned()));
    assert!(matches!(open(&disk), Err(LogOpenError::Missing { .. })), "no checkpoint has it");
    let (log, found) = reopen(covered).unwrap();
    let mark = mark.map(|(_, mark)| mark.clone());
    assert_eq!((found.mark, found.records.last()), (mark, Some(&record(19, 3000))));
    assert!(found.records[0].0 <= covered.next());
    drop(log);
    disk.power_loss_of_all_unsynced();
    assert!(!disk.list("log").unwrap().contains(&"0000000000000002.log".to_owned()));
    assert!(open(&disk).is_ok());
}

#[test]
fn a_removed_segment_that_is_back_stops_nobody_whose_checkpoint_has_what_was_in_it() {
    let mark = (LogIndex::default(), Bytes::from_static(b"mark"));
    // One segment is left by the last of them, and several by the other ones.
    for covered in [10, 15, 19].map(LogIndex::new) {
        removed_segment_is_back(Some(&mark), covered);
        removed_segment_is_back(None, covered);
    }
}

/// The first segment is back, and behind the gap only the last ones are left, without records.
fn removed_segment_is_back_before_empty_ones(empty: usize) {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    (1..20).for_each(|index| log.append(&[record(index, 3000)]).unwrap());
    drop(log);
    let names = disk.list("log").unwrap();
    let segments: Vec<_> = names.iter().filter(|name| name.ends_with(".log")).collect();
    let (lost, left) = segments[1..].split_at(segments.len() - 1 - empty);
    lost.iter().for_each(|name| disk.lose_file(&format!("log/{name}")));
    for name in left {
        let file = disk.session().open(&format!("log/{name}"), OpenMode::Write).unwrap();
        let records = vec![0; usize::try_from(file.size().unwrap()).unwrap() - SEGMENT_HEADER_SIZE];
        file.write_at(&records, SEGMENT_HEADER_SIZE as u64).unwrap();
    }
    // A mark may have been in what is missing.
    let opened = OperationLog::open(disk.session(), CELL, SEGMENT, LogIndex::new(19));
    assert!(matches!(opened, Err(LogOpenError::Missing { .. })), "{opened:?}");
}

#[test]
fn a_removed_segment_that_is_back_before_one_without_records_is_refused() {
    [1, 2].into_iter().for_each(removed_segment_is_back_before_empty_ones);
}

#[test]
fn after_a_failed_flush_it_takes_no_more() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    disk.fail_syncs(1);
    assert!(matches!(log.append(&[record(1, 5)]), Err(DiskError::SyncFailed(_))));
    assert!(matches!(log.append(&[record(1, 5)]), Err(DiskError::SyncFailed(_))));
}

#[test]
fn of_a_log_that_takes_no_more_no_segment_goes() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    (1..20).for_each(|index| log.append(&[record(index, 3000)]).unwrap());
    disk.fail_syncs(1);
    assert!(log.append(&[record(20, 5)]).is_err());
    let there = disk.list("log").unwrap();
    assert!(matches!(remove_before(&mut log, LogIndex::new(15)), Err(DiskError::SyncFailed(_))));
    assert_eq!(disk.list("log").unwrap(), there);
}

#[test]
fn what_a_failed_flush_left_in_memory_is_on_disk_before_anything_is_appended_behind_it() {
    let script = batches(&mut Random::new(3), 12);
    let appended = script.concat();
    for good in 0..40 {
        for seed in 0..4 {
            let disk = disk();
            let (mut log, _) = open(&disk).unwrap();
            disk.fail_syncs_after(good, 1);
            let mut acknowledged = 0;
            for batch in &script {
                if log.append(batch).is_err() {
                    break;
                }
                acknowledged += batch.len();
            }
            drop(log);
            // The process ends and the machine does not: the page cache looks clean.
            disk.crash();
            let context = format!("after {good} syncs, seed {seed}");
            check(&disk, &appended, acknowledged, &context);
            let (_, found) = open(&disk).unwrap();
            match seed {
                0 => disk.power_loss_of_all_unsynced(),
                _ => disk.power_loss(&mut Random::new(seed)),
            }
            let (_, again) = open(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(again, found, "{context}: a hole in what was acknowledged");
        }
    }
}

#[test]
fn segments_that_a_checkpoint_covers_are_not_read_and_still_kept_for_the_one_before() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    let mark = (LogIndex::default(), Bytes::from_static(b"mark"));
    log.append(&[mark.clone(), record(1, 3000)]).unwrap();
    for index in 2..20 {
        log.append(&[record(index, 3000)]).unwrap();
    }
    let count = log.segment_count();
    drop(log);
    // Nobody looks at it: a damaged record in it is not seen.
    assert!(disk.flip_byte("log/0000000000000002.log", 200));
    assert!(matches!(open(&disk), Err(LogOpenError::Damaged { .. })));
    let covered = LogIndex::new(12);
    let (mut log, found) = OperationLog::open(disk.session(), CELL, SEGMENT, covered).unwrap();
    let first = found.records[0].0;
    assert!(LogIndex::new(10) < first && first <= covered.next(), "from record {first}");
    assert_eq!(found.records.last(), Some(&record(19, 3000)));
    assert_eq!((log.segment_count(), found.mark), (count, Some(mark.1)));
    // What it has not read, it knows to hold records up to a later one.
    assert_eq!(remove_before(&mut log, LogIndex::new(2)).unwrap(), 0);
    assert_eq!(remove_before(&mut log, LogIndex::new(3)).unwrap(), 1);
}

#[test]
fn a_mark_is_carried_over_where_a_killed_process_did_not() {
    let whole = disk();
    let (mut log, _) = open(&whole).unwrap();
    let mark = (LogIndex::default(), Bytes::from_static(b"mark"));
    log.append(&[mark.clone(), record(1, 3000)]).unwrap();
    log.append(&[record(2, 3000)]).unwrap();
    drop(log);
    let image = whole.image();
    for step in 0..12 {
        let disk = disk();
        disk.restore(&image);
        let (mut log, _) = open(&disk).unwrap();
        disk.arm_fuse(step);
        let _ = log.append(&[record(3, 3000)]);
        drop(log);
        disk.crash();
        drop(open(&disk).unwrap());
        // From now on the segments before the last two may go unread.
        let (mut log, _) = open(&disk).unwrap();
        for index in 4..20 {
            log.append(&[record(index, 3000)]).unwrap();
        }
        drop(log);
        let covered = LogIndex::new(19);
        let (_, found) = OperationLog::open(disk.session(), CELL, SEGMENT, covered).unwrap();
        assert_eq!(found.mark.as_ref(), Some(&mark.1), "step {step}");
    }
}

/// Bytes that the disk has in use.
fn used(disk: &SimDisk) -> u64 {
    disk.session().space().unwrap().used
}

#[test]
fn a_full_disk_is_known_a_segment_before_and_an_append_without_room_is_no_end() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    assert!(log.has_room());
    // No more than it has: what it took in advance is used up, and nothing is there after it.
    disk.set_capacity(used(&disk));
    let (mut index, mut warned) = (0, 0);
    let refused = loop {
        index += 1;
        match log.append(&[record(index, 1000)]) {
            Ok(()) => warned += u64::from(!log.has_room()),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, DiskError::NoSpace);
    assert!(warned >= 7, "only {warned} records went in after it was known");
    assert_eq!(log.append(&[record(index, 1000)]), Err(DiskError::NoSpace));
    let full = used(&disk);
    assert!(full <= disk.session().space().unwrap().capacity, "half a segment is held");
    assert!(!disk.paths().iter().any(|path| path.ends_with("spare")), "it was given back");
    disk.set_capacity(1 << 30);
    assert!(log.take_room().unwrap());
    log.append(&[record(index, 1000), record(index + 1, 1000)]).unwrap();
    drop(log);
    disk.crash();
    let (_, found) = open(&disk).unwrap();
    let all: Vec<_> = (1..=index + 1).map(|index| record(index, 1000)).collect();
    assert_eq!(found.records, all);
}

#[test]
fn for_want_of_descriptors_a_segment_is_begun_later_and_an_old_one_goes_later() {
    let mut refused = 0;
    for opens in 0..12 {
        let disk = disk();
        let (mut log, _) = open(&disk).unwrap();
        disk.fail_opens_after(opens, 3);
        for index in 1..60 {
            while let Err(error) = log.append(&[record(index, 1000)]) {
                assert_eq!(error, DiskError::NoSpace, "{index} with {opens} files opened");
                refused += 1;
                assert!(refused < 100, "for ever");
                let _ = log.take_room().unwrap();
            }
        }
        disk.fail_opens_after(opens % 3, 1);
        let covered = LogIndex::new(40);
        assert!(remove_before(&mut log, covered).is_err());
        assert!(remove_before(&mut log, covered).unwrap() > 0, "those that are left");
        assert!(disk.list("log").unwrap().len() <= 5, "{:?}", disk.paths());
        drop(log);
        disk.power_loss_of_all_unsynced();
        let found = OperationLog::open(disk.session(), CELL, SEGMENT, covered).unwrap().1;
        assert_eq!(found.records.last(), Some(&record(59, 1000)));
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_log_on_a_full_disk_opens_keeps_its_room_and_goes_on_as_long_as_that_lasts() {
    let disk = disk();
    let (mut log, _) = open(&disk).unwrap();
    log.append(&[record(1, 1000)]).unwrap();
    drop(log);
    disk.crash();
    disk.set_capacity(1);
    for life in 2..10 {
        let (mut log, _) = open(&disk).unwrap();
        assert!(log.has_room(), "what was taken in advance is there");
        log.append(&[record(life, 500)]).unwrap();
        drop(log);
        disk.crash();
    }
}

#[test]
fn a_page_torn_between_sectors_takes_nothing_that_was_acknowledged() {
    // Records share sectors with those before them: the sectors' old bytes are written again.
    for seed in 0..300 {
        let mut random = Random::new(1000 + seed);
        let disk = disk();
        disk.tear_pages();
        let script = batches(&mut random, 6);
        disk.arm_fuse(random.below(60));
        let acknowledged = append_all(&disk, &script);
        disk.power_loss(&mut random);
        check(&disk, &script.concat(), acknowledged, &format!("seed {seed}"));
    }
}
