//! Directories that are made of what is left of others: backups, and masters that begin a history.

use super::{Running, config, create, disk, goes_on, newest, roots, with_checkpoints};
use cairn_env::Disk;
use cairn_env_sim::SimDisk;
use cairn_master::{MakeMemberError, Master, Remains, RemainsError};
use cairn_protocol::Status;
use cairn_types::{CellId, Member, Members, ServerId, Term, WallTime};
use std::sync::Arc;

const NOW: (WallTime, u64) = (WallTime::from_millis(5), 77);

const CELL: CellId = CellId::new(5);
const ME: ServerId = ServerId::new(1);

fn members() -> Members {
    Members { all: vec![Member { id: ME, ..Member::default() }], ..Members::default() }
}

fn remains(disk: &SimDisk) -> Result<Remains, RemainsError> {
    let disk: Arc<dyn Disk> = disk.session();
    Remains::of(&disk, false)
}

/// Makes a master of what is on a disk, past that term, and starts it.
fn begun(from: &Remains, past: u64) -> (SimDisk, Running) {
    let into = disk();
    let session: Arc<dyn Disk> = into.session();
    from.begin_history(&session, Term::new(past), NOW).expect("makes one");
    drop(session);
    let running = Running::started(&into, 9);
    (into, running)
}

#[test]
fn a_master_made_of_a_damaged_one_or_of_its_backup_has_all_of_it_in_a_history_of_its_own() {
    let disk = disk();
    let before = with_checkpoints(&disk, 50);
    let pages = newest(&disk, ".pages");
    let size = disk.session().open(&pages, cairn_env::OpenMode::Read).and_then(|it| it.size());
    assert!(disk.flip_byte(&pages, size.expect("is there") - 1));
    let from = remains(&disk).expect("an older checkpoint, and the log");
    assert_eq!(from.state().file_count(), before.file_count());
    let copy = self::disk();
    let session: Arc<dyn Disk> = copy.session();
    from.back_up(&session).expect("copies");
    drop(session);
    let refused = Master::open(copy.session(), config(3)).expect_err("no server starts on it");
    assert!(refused.to_string().contains("cairn masters recover"), "{refused}");
    let backup = remains(&copy).expect("it is a backup");
    assert!(backup.is_backup && !from.is_backup);
    for from in [&from, &backup] {
        let (into, mut running) = begun(from, 40);
        let asked = running.send(Status::default());
        assert!(running.ok(asked));
        assert_eq!(running.master.state().history_began(), Term::new(41));
        assert!(running.master.term() > Term::new(41), "its own terms come after");
        drop(running);
        into.crash();
        goes_on(&into, &before);
    }
    // An earlier term than is known of is none that is lost.
    let (_, running) = begun(&backup, 0);
    assert!(running.master.state().history_began() > before.term());
}

#[test]
fn a_master_that_begins_with_a_checkpoint_does_not_start_on_less() {
    let disk = disk();
    with_checkpoints(&disk, 20);
    let into = self::disk();
    let session: Arc<dyn Disk> = into.session();
    let from = remains(&disk).expect("is there");
    from.begin_history(&session, Term::new(9), NOW).expect("makes one");
    drop(session);
    for root in roots(&into) {
        assert!(into.flip_byte(&root, 100));
    }
    let refused = Running::open(&into, 2).err().expect("refused").to_string();
    assert!(refused.contains("no checkpoint reads"), "{refused}");
}

#[test]
fn nothing_is_made_of_nothing_nor_where_something_is_nor_beside_a_master_that_runs() {
    let empty = disk();
    assert!(matches!(remains(&empty), Err(RemainsError::Nothing(_))));
    let other = disk();
    let mut running = Running::started(&other, 1);
    running.send(create(1));
    running.settle();
    assert!(matches!(remains(&other), Err(RemainsError::Running(_))));
    drop(running);
    other.crash();
    let from = remains(&other).expect("a master's");
    let others = disk();
    with_checkpoints(&others, 3);
    let taken: Arc<dyn Disk> = others.session();
    let refused = from.begin_history(&taken, Term::new(9), NOW);
    assert!(matches!(refused, Err(RemainsError::NotEmpty(..))), "{refused:?}");
}

#[test]
fn nothing_starts_on_what_has_no_identity_and_nothing_is_changed_in_it() {
    let other = disk();
    with_checkpoints(&other, 20);
    let (into, running) = begun(&remains(&other).expect("a master's"), 9);
    drop(running);
    into.crash();
    // Ended before the identity was written; or all that was saved of a disk.
    for disk in [&into, &other] {
        disk.session().remove("identity").expect("is there");
        let before = disk.paths();
        for _ in 0..2 {
            let refused = Running::open(disk, 2).err().expect("refused").to_string();
            assert!(refused.contains("cairn masters recover"), "{refused}");
            let made = cairn_master::make_member(&disk.session(), 4096, CELL, (ME, &members()));
            assert!(matches!(made, Err(MakeMemberError::Remains(_))), "{made:?}");
        }
        assert_eq!(disk.paths(), before);
    }
    // A log alone is as good: it goes back to the first record.
    let young = self::disk();
    let mut running = Running::started(&young, 1);
    running.send(create(1));
    running.settle();
    drop(running);
    young.crash();
    young.session().remove("identity").expect("is there");
    let refused = Running::open(&young, 2).err().expect("refused").to_string();
    assert!(refused.contains("cairn masters recover"), "{refused}");
}

#[test]
fn what_is_looked_at_is_told_in_full_and_not_changed() {
    let disk = disk();
    let before = with_checkpoints(&disk, 50);
    let pages = newest(&disk, ".pages");
    // A page that no replay touches: all are looked at.
    assert!(disk.flip_byte(&pages, 4096 + 100));
    let (paths, size) = (disk.paths(), disk.session().open(&pages, cairn_env::OpenMode::Read));
    let size = size.and_then(|file| file.size()).expect("is there");
    for _ in 0..2 {
        let from = remains(&disk).expect("an older checkpoint, and the log");
        assert_eq!(from.state().file_count(), before.file_count());
        assert!(!from.told.is_empty(), "a checkpoint was passed over");
        assert_eq!(from.group, Some(Members::default()), "it was alone");
    }
    assert_eq!(disk.paths(), paths);
    let now = disk.session().open(&pages, cairn_env::OpenMode::Read).and_then(|it| it.size());
    assert_eq!(now.expect("is there"), size);
    let session: Arc<dyn Disk> = disk.session();
    let less = Remains::of(&session, true).expect("a checkpoint");
    assert!(less.group.is_none(), "nobody has read the log, which tells it");
    assert!(less.state().file_count() <= before.file_count());
}

#[test]
fn a_log_alone_is_enough_whatever_became_of_the_identity() {
    for is_torn in [false, true] {
        let young = disk();
        let mut running = Running::started(&young, 1);
        for number in 1..=3 {
            running.send(create(number));
            running.settle();
        }
        let files = running.master.state().file_count();
        drop(running);
        young.crash();
        for path in young.paths().into_iter().filter(|path| path.starts_with("checkpoints/")) {
            young.session().remove(&path).expect("is there");
        }
        match is_torn {
            true => assert!(young.flip_byte("identity", 20)),
            false => young.session().remove("identity").expect("is there"),
        }
        let from = remains(&young).expect("its log goes back to the first record");
        assert_eq!(from.state().file_count(), files);
        assert_eq!(from.told.is_empty(), !is_torn);
        let (_, mut running) = begun(&from, 9);
        let asked = running.send(Status::default());
        assert!(running.ok(asked));
    }
}

#[test]
fn what_gives_no_state_is_said_to_give_none() {
    let disk = disk();
    with_checkpoints(&disk, 300);
    for root in roots(&disk) {
        assert!(disk.flip_byte(&root, 100));
    }
    let refused = remains(&disk).expect_err("the log does not go back so far");
    assert!(matches!(refused, RemainsError::NoState(_)), "{refused}");
    let copy = self::disk();
    let session: Arc<dyn Disk> = copy.session();
    let other = self::disk();
    with_checkpoints(&other, 20);
    remains(&other).expect("a master's").back_up(&session).expect("copies");
    drop(session);
    assert!(copy.flip_byte(&newest(&copy, ".root"), 100));
    let refused = remains(&copy).expect_err("it is a backup, and does not read");
    assert!(matches!(refused, RemainsError::NoState(_)), "{refused}");
}
