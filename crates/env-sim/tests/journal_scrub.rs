//! Verifying the journals of data directories while a server runs: rot is told and mended before a
//! start finds it, and suspects all replicas for it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use cairn_env::{
    ChunkDone, ChunkError, ChunkJob, ChunkResult, DiskError, JournalEntry, JournalPart, LogEvent,
    OpenMode, Service,
};
use cairn_env_sim::SimDisk;
use cairn_store::{ChunkDisk, ChunkStore, RecoveredChunks};
use cairn_types::{CellId, ChunkHandle, ChunkVersion, ServerId, Term};

fn new_disk() -> SimDisk {
    SimDisk::new("sim", 1 << 30)
}

fn open(disk: &SimDisk) -> ChunkDisk {
    ChunkDisk::open(vec![disk.session()], 1 << 20).unwrap().0
}

fn one(server: &ChunkDisk, job: ChunkJob) -> ChunkResult {
    server.run(vec![job]).pop().unwrap()
}

fn journal(server: &ChunkDisk, entries: Vec<JournalEntry>) -> ChunkResult {
    one(server, ChunkJob::Journal(entries))
}

/// A server of a cell with three closed replicas, and `terms` lines that say nothing of them.
fn with_replicas(disk: &SimDisk, terms: u64) -> ChunkDisk {
    let server = open(disk);
    journal(&server, vec![JournalEntry::Joined(CellId::new(4), ServerId::new(5))]).unwrap();
    for number in 1..=3 {
        let (handle, version) = (ChunkHandle::new(number), ChunkVersion::of(Term::new(1), number));
        let raise = JournalEntry::Raise { handle, version, create: true, close: true };
        journal(&server, vec![raise]).unwrap();
        one(&server, ChunkJob::Sync { handle }).unwrap();
    }
    let term = |number| JournalEntry::Term(Term::new(number));
    journal(&server, (1..=terms).map(term).collect()).unwrap();
    server
}

fn size(disk: &SimDisk) -> u64 {
    disk.session().open("journal", OpenMode::Read).unwrap().size().unwrap()
}

/// One pass over the journals, of which each part is looked at before `between`.
fn pass(server: &ChunkDisk, mut between: impl FnMut()) -> Vec<LogEvent> {
    let (mut part, mut all) = (Some(JournalPart::default()), Vec::new());
    while let Some(next_part) = part {
        let done = one(server, ChunkJob::ScrubJournal(next_part)).unwrap();
        let ChunkDone::JournalScrubbed { size, next, told } = done else { panic!("{done:?}") };
        assert!(size <= 1 << 20, "{size} bytes at once");
        all.extend(told);
        part = next;
        between();
    }
    all
}

/// What the next start finds.
fn restarted(disk: &SimDisk, server: ChunkDisk) -> RecoveredChunks {
    drop(server);
    disk.crash();
    ChunkStore::open(disk.session()).unwrap().1
}

#[track_caller]
fn check_whole(found: &RecoveredChunks, context: &str) {
    assert_eq!(found.warnings, [], "{context}");
    assert_eq!(found.replicas.len(), 3, "{context}");
    for (number, replica) in (1..).zip(&found.replicas) {
        assert!(replica.closed && !replica.suspect, "{context}: {replica:?}");
        assert_eq!(replica.version, ChunkVersion::of(Term::new(1), number), "{context}");
    }
}

#[test]
fn a_byte_that_flips_in_the_journal_of_an_idle_server_is_told_and_mended_before_a_start() {
    let disk = new_disk();
    let server = with_replicas(&disk, 2);
    let size = size(&disk);
    let mut told_count = 0;
    assert_eq!(pass(&server, || {}), [], "it is whole");
    drop(server);
    for at in 0..size {
        let disk = new_disk();
        let server = with_replicas(&disk, 2);
        assert!(disk.flip_byte("journal", at));
        let told = pass(&server, || {});
        told_count += told.len() as u64;
        assert!(told.iter().all(|it| it.name == "a journal is damaged: it is written anew"));
        assert_eq!(pass(&server, || {}), [], "byte {at}: it is whole again");
        // Lines go on behind it.
        journal(&server, vec![JournalEntry::Term(Term::new(9))]).unwrap();
        let found = restarted(&disk, server);
        check_whole(&found, &format!("byte {at} of {size}"));
        assert_eq!(found.term, Term::new(9));
    }
    assert!(told_count > size / 2, "{told_count} of {size} told: all but what pads a line");
}

#[test]
fn a_long_journal_is_looked_at_in_parts_while_lines_are_added_and_by_all_of_it() {
    let disk = new_disk();
    let server = with_replicas(&disk, 20_000);
    let mut term = 20_000;
    let mut add = || {
        term += 1;
        journal(&server, vec![JournalEntry::Term(Term::new(term))]).unwrap();
    };
    assert_eq!(pass(&server, &mut add), []);
    // In the middle, and in the last line.
    for lines_behind in [5000, 0] {
        let end = size(&disk);
        assert!(end > 2 * (256 << 10), "it has parts: {end}");
        let at = end - 20 - 32 * lines_behind;
        assert!(disk.flip_byte("journal", at));
        let told = pass(&server, &mut add);
        assert_eq!(told.len(), 1, "byte {at}: {told:?}");
        add();
        assert_eq!(pass(&server, &mut add), []);
        let more = (1..20_000).map(|_| JournalEntry::Term(Term::new(1))).collect();
        journal(&server, more).unwrap();
    }
    check_whole(&restarted(&disk, server), "a long one");
}

#[test]
fn a_journal_that_cannot_be_read_is_written_anew() {
    let disk = new_disk();
    let server = with_replicas(&disk, 2);
    assert!(disk.make_unreadable("journal", 0));
    assert_eq!(pass(&server, || {}).len(), 1);
    assert_eq!(pass(&server, || {}), []);
    check_whole(&restarted(&disk, server), "it was unreadable");
}

#[test]
fn where_a_damaged_journal_cannot_be_written_anew_it_takes_no_line_until_it_can() {
    let disk = new_disk();
    let server = with_replicas(&disk, 2);
    assert!(disk.flip_byte("journal", 100));
    disk.set_capacity(0);
    let told = pass(&server, || {});
    let name = "a journal is damaged: it takes no change until it can be written anew";
    assert!(told.len() == 1 && told[0].name == name, "{told:?}");
    let line = || vec![JournalEntry::Term(Term::new(9))];
    assert_eq!(journal(&server, line()), Err(ChunkError::Disk(DiskError::NoSpace)));
    disk.set_capacity(1 << 30);
    assert_eq!(journal(&server, line()), Ok(ChunkDone::Journaled));
    let found = restarted(&disk, server);
    check_whole(&found, "there was room again");
    assert_eq!(found.term, Term::new(9));
}

#[test]
fn a_power_loss_while_a_journal_is_written_anew_leaves_one_of_the_two() {
    let mut fuse = 0;
    loop {
        let disk = new_disk();
        let server = with_replicas(&disk, 2);
        assert!(disk.flip_byte("journal", 100));
        disk.arm_fuse(fuse);
        let _ = one(&server, ChunkJob::ScrubJournal(JournalPart::default()));
        drop(server);
        let blown = disk.fuse_blown();
        disk.power_loss_of_all_unsynced();
        let (_, found) = ChunkStore::open(disk.session()).unwrap();
        assert_eq!(found.replicas.len(), 3, "fuse {fuse}");
        if !blown {
            check_whole(&found, "it was mended");
            break;
        }
        // What is not mended is told, as before.
        assert!(!found.warnings.is_empty() || found.replicas.iter().all(|it| !it.suspect));
        fuse += 1;
    }
    assert!(fuse > 2, "it was written, synced and renamed");
}
