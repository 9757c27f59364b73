//! A master on a disk that forgets, tears and refuses: what was answered is there after it.

mod damaged_pages;
mod member_disks;
mod remains;

use cairn_env::{Caller, Completion, ConnectionId, Effect, EffectId, Event, Now};
use cairn_env::{Driver, OpenMode, Service};
use cairn_env_sim::SimDisk;
use cairn_format::CheckpointRoot;
use cairn_master::{Master, MasterConfig, MasterDisk, MasterOpenError};
use cairn_master::{PageFileLimits, SEED_TERM, SeedError, seed};
use cairn_master_core::record::AddFile;
use cairn_master_core::state::ROOT;
use cairn_master_core::{Checkpointed, LogDone, LogJob, LogResult, Record, State};
use cairn_pagetree::{Damage, Damaged};
use cairn_protocol::{Create, ErrorCode, Failure, Request, RequestId, Response, Stat, Status};
use cairn_types::{
    CellConfig, CellPath, EntryId, MutationName, MutationNumber, Random, SessionId, Term, Time,
    WallTime,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A master and the disk work that it waits for.
struct Running {
    master: Master,
    service: Arc<MasterDisk>,
    jobs: VecDeque<(EffectId, LogJob)>,
    answers: BTreeMap<u64, Result<Response, Failure>>,
    halted: Option<String>,
    /// What it waits for, none of which comes by itself here.
    wakes: Vec<EffectId>,
    asked: u64,
}

fn disk() -> SimDisk {
    SimDisk::new("disk", 64 << 20)
}

fn config(seed: u64) -> MasterConfig {
    MasterConfig {
        cluster: CellConfig::tiny(),
        seed,
        checkpoint_every_records: 7,
        page_file_limits: PageFileLimits { garbage_max: 8 << 10, records_max: 40 },
        log_size_max: 1 << 30,
        segment_size: 4096,
        recover_past: None,
    }
}

fn now() -> Now {
    Now { time: Time::from_nanos(1), wall: WallTime::from_millis(1) }
}

fn create(number: u64) -> Create {
    Create {
        mutation: MutationName { session: SessionId::new(4), number: MutationNumber::new(number) },
        path: CellPath::parse(&format!("/file-{number}")).expect("a path"),
        ..Default::default()
    }
}

impl Running {
    fn open(disk: &SimDisk, seed: u64) -> Result<Self, MasterOpenError> {
        Self::open_with(disk, config(seed))
    }

    fn open_with(disk: &SimDisk, config: MasterConfig) -> Result<Self, MasterOpenError> {
        let (master, service) = Master::open(disk.session(), config)?;
        let (jobs, answers) = (VecDeque::new(), BTreeMap::new());
        let (halted, wakes) = (None, Vec::new());
        let mut running = Self { master, service, jobs, answers, halted, wakes, asked: 0 };
        running.handle(Event::Started);
        Ok(running)
    }

    fn started(disk: &SimDisk, seed: u64) -> Self {
        let mut running = Self::open(disk, seed).expect("opens");
        running.settle();
        running
    }

    fn handle(&mut self, event: Event<(), LogResult>) {
        let mut effects = Vec::new();
        self.master.handle(now(), event, &mut effects);
        self.master.end_of_batch(now(), &mut effects);
        for effect in effects {
            match effect {
                Effect::Disk { id, job, .. } => self.jobs.push_back((id, job)),
                Effect::Reply { to, answer, .. } => drop(self.answers.insert(to.request.0, answer)),
                Effect::Halt(reason) => self.halted = Some(reason),
                Effect::Wake { id, .. } => self.wakes.push(id),
                _ => {}
            }
        }
    }

    fn send(&mut self, request: impl Into<Request>) -> u64 {
        self.asked += 1;
        let from = Caller { connection: ConnectionId(1), request: RequestId(self.asked) };
        self.handle(Event::Request { from, request: request.into() });
        self.asked
    }

    /// Does the disk work that waits, and what follows from it.
    fn settle(&mut self) {
        while let Some((id, job)) = self.jobs.pop_front() {
            let result = self.service.run(vec![job]).remove(0);
            self.handle(Event::Completed { id, result: Completion::Disk(result) });
        }
    }

    /// All that it waits for comes, and the disk work that follows is done.
    fn wake(&mut self) {
        for id in std::mem::take(&mut self.wakes) {
            self.handle(Event::Completed { id, result: Completion::Woken });
        }
        self.settle();
    }

    /// Creates files from `number` on until a checkpoint is due, which is not made; how many.
    fn create_until_a_checkpoint(&mut self, number: u64) -> (EffectId, u64) {
        for count in 0.. {
            let due = self.jobs.iter().position(|(_, job)| is_checkpoint(job));
            if let Some((id, _)) = due.and_then(|at| self.jobs.remove(at)) {
                return (id, count);
            }
            if self.jobs.is_empty() {
                self.send(create(number + count));
            }
            let (id, job) = self.jobs.pop_front().expect("an append");
            let result = self.service.run(vec![job]).remove(0);
            self.handle(Event::Completed { id, result: Completion::Disk(result) });
        }
        unreachable!("a checkpoint is due after a while");
    }

    fn ok(&self, asked: u64) -> bool {
        self.answers.get(&asked).is_some_and(Result::is_ok)
    }

    /// The id of a file, if it is there.
    fn file(&mut self, number: u64) -> Option<EntryId> {
        let asked = self.send(Stat { path: create(number).path });
        match self.answers.get(&asked) {
            Some(Ok(Response::Stat(stat))) => Some(stat.entry.id),
            _ => None,
        }
    }
}

#[test]
fn an_answer_leaves_when_its_record_is_durable_and_one_flush_serves_all_who_waited() {
    let mut running = Running::started(&disk(), 1);
    let first = running.send(create(1));
    let others: Vec<u64> = (2..50).map(|number| running.send(create(number))).collect();
    assert!(!running.ok(first), "R23");
    assert_eq!(running.jobs.len(), 1);
    let (id, job) = running.jobs.pop_front().expect("one append");
    let done = running.service.run(vec![job]).remove(0);
    running.handle(Event::Completed { id, result: Completion::Disk(done) });
    assert!(running.ok(first) && !running.ok(others[0]), "R23");
    let appends = running.jobs.iter().filter_map(|(_, job)| match job {
        LogJob::Append(records) => Some(records.len()),
        _ => None,
    });
    assert_eq!(appends.collect::<Vec<_>>(), [48], "group commit");
    running.settle();
    assert!(others.iter().all(|asked| running.ok(*asked)));
}

#[test]
fn a_second_master_on_the_directory_is_refused_in_one_line() {
    let disk = disk();
    let first = Running::started(&disk, 1);
    let refused = Running::open(&disk, 2).err().expect("refused").to_string();
    assert!(refused.contains("another server is running"), "{refused}");
    assert!(!refused.contains('\n'));
    drop(first);
    Running::open(&disk, 3).expect("free again");
}

#[test]
fn a_failed_flush_stops_the_master_and_answers_nobody() {
    let disk = disk();
    let mut running = Running::started(&disk, 1);
    disk.fail_syncs(1);
    let asked = running.send(create(1));
    running.settle();
    assert!(running.halted.is_some());
    assert!(!running.ok(asked));
    let late = running.send(create(2));
    running.settle();
    assert!(!running.ok(late));
}

/// Of an answer that is a failure, its code.
fn code(running: &Running, asked: u64) -> Option<ErrorCode> {
    running.answers.get(&asked)?.as_ref().err().map(|failure| failure.code)
}

#[test]
fn a_full_disk_refuses_changes_and_look_ups_go_on_until_there_is_room_again() {
    let disk = disk();
    let mut running = Running::started(&disk, 1);
    running.settle();
    disk.set_capacity(1);
    let (mut made, mut refused) = (Vec::new(), 0);
    for number in 1..200 {
        let asked = running.send(create(number));
        running.settle();
        assert_eq!(running.halted, None, "it goes on");
        match code(&running, asked) {
            None => made.push(number),
            Some(ErrorCode::DiskFull) => refused += 1,
            Some(other) => panic!("{other:?}"),
        }
        assert!(running.answers.contains_key(&asked), "file {number} is answered");
        assert!(running.file(1).is_some(), "look-ups go on");
    }
    assert!(made.len() > 5 && refused > 100, "{made:?}");
    let asked = running.send(Status {});
    let Some(Ok(Response::Status(status))) = running.answers.get(&asked) else { panic!("answers") };
    assert!(status.reasons.iter().any(|line| line.contains("no space left")), "{status:?}");
    running.wake();
    let asked = running.send(create(200));
    running.settle();
    assert_eq!(code(&running, asked), Some(ErrorCode::DiskFull), "it is still full");

    disk.set_capacity(64 << 20);
    running.wake();
    let asked = running.send(create(201));
    running.settle();
    assert!(running.ok(asked));
    made.push(201);
    drop(running);
    disk.crash();
    let mut running = Running::started(&disk, 2);
    for number in 1..=201 {
        assert_eq!(running.file(number).is_some(), made.contains(&number), "file {number}");
    }
}

#[test]
fn what_finds_no_room_at_all_waits_and_is_answered_when_there_is_some() {
    let disk = disk();
    let mut running = Running::started(&disk, 1);
    disk.set_capacity(1);
    // All at once: nobody could be told before that it would get full.
    let asked: Vec<u64> = (1..300).map(|number| running.send(create(number))).collect();
    running.settle();
    assert_eq!(running.halted, None, "it goes on");
    let waiting = |running: &Running| {
        asked.iter().filter(|asked| !running.answers.contains_key(asked)).count()
    };
    assert!(waiting(&running) > 100, "only {} wait", waiting(&running));
    running.wake();
    assert!(waiting(&running) > 100 && running.halted.is_none());
    disk.set_capacity(64 << 20);
    running.wake();
    running.wake();
    assert_eq!(waiting(&running), 0);
    assert!(asked.iter().all(|asked| running.ok(*asked)));
    let late = running.send(create(400));
    running.settle();
    assert!(running.ok(late));
}

#[test]
fn a_checkpoint_lets_the_log_before_it_go_and_recovery_needs_it() {
    let disk = disk();
    let mut running = Running::started(&disk, 1);
    for number in 1..420 {
        running.send(create(number));
        running.settle();
    }
    let paths = disk.paths();
    let logs = paths.iter().filter(|path| path.ends_with(".log")).count();
    let checkpoints = paths.iter().filter(|path| path.ends_with(".root")).count();
    let pages = paths.iter().filter(|path| path.ends_with(".pages")).count();
    // One checkpoint is kept of the page file before, up to two of the present one (so many records
    // make two), and the log since the first of them.
    assert!(logs <= 3 && checkpoints == 3 && pages == 2, "{paths:?}");
    let before = running.master.state().clone();
    drop(running);
    disk.crash();
    let running = Running::open(&disk, 2).expect("opens");
    assert_eq!(running.master.state(), &before);
}

#[test]
fn the_log_is_bounded_by_bytes_where_records_are_large() {
    let disk = disk();
    let page_file_limits = PageFileLimits { garbage_max: 1 << 30, records_max: u64::MAX };
    let log_size_max = 32 << 10;
    let by_bytes = MasterConfig { checkpoint_every_records: 1 << 40, log_size_max, ..config(1) };
    let config = MasterConfig { page_file_limits, ..by_bytes };
    let mut running = Running::open_with(&disk, config).expect("opens");
    running.settle();
    for number in 1..1500 {
        running.send(create(number));
        running.settle();
        let segments = disk.paths().iter().filter(|path| path.ends_with(".log")).count() as u64;
        assert!(segments * 4096 <= 2 * log_size_max, "{segments} segments after {number} files");
    }
    let before = running.master.state().clone();
    drop(running);
    disk.crash();
    assert_eq!(Running::open(&disk, 2).expect("opens").master.state(), &before);
}

/// The roots of checkpoints, oldest first.
fn roots(disk: &SimDisk) -> Vec<String> {
    disk.paths().into_iter().filter(|path| path.ends_with(".root")).collect()
}

/// A root, if it reads.
fn read_root(disk: &SimDisk, path: &str) -> Option<CheckpointRoot> {
    let file = disk.session().open(path, OpenMode::Read).expect("is there");
    let mut bytes = vec![0; usize::try_from(file.size().expect("tells")).expect("fits")];
    file.read_at(&mut bytes, 0).expect("reads");
    CheckpointRoot::decode(&bytes).ok()
}

/// Runs masters that die, one after the other, and checks what the answered creations left.
struct Deaths {
    disk: SimDisk,
    random: Random,
    acknowledged: BTreeMap<u64, EntryId>,
    ids: BTreeSet<EntryId>,
    number: u64,
    term: Term,
    /// Roots that are no longer what was written, and how many there were.
    rotten: BTreeSet<String>,
    rotted: u64,
}

impl Deaths {
    fn new(seed: u64) -> Self {
        Self {
            disk: disk(),
            random: Random::new(seed),
            acknowledged: BTreeMap::new(),
            ids: BTreeSet::new(),
            number: 0,
            term: Term::new(0),
            rotten: BTreeSet::new(),
            rotted: 0,
        }
    }

    /// Damages the newest checkpoint, root or pages, while there is another one that reads.
    fn rot(&mut self) {
        let roots = roots(&self.disk);
        let good: Vec<_> = roots.iter().filter(|path| !self.rotten.contains(*path)).collect();
        let [.., _, newest] = good[..] else { return };
        if self.random.chance(500) {
            assert!(self.disk.flip_byte(newest, self.random.below(72)));
        } else {
            let Some(root) = read_root(&self.disk, newest) else { return };
            let pages = format!("checkpoints/{:016x}.pages", root.page_file);
            // Its root page, which nothing else has.
            assert!(self.disk.flip_byte(&pages, root.page_file_size - 1));
        }
        self.rotten.insert(newest.clone());
        self.rotted += 1;
    }

    /// One life: check, then create until the fuse blows or the work is done.
    fn live(&mut self, fuse: u64) {
        let seed = self.random.next_u64();
        if self.random.chance(300) {
            self.rot();
        }
        // Recovery itself can die, too.
        let early = self.random.chance(300);
        if early {
            self.disk.arm_fuse(fuse);
        }
        let opened = Running::open(&self.disk, seed);
        let Ok(mut running) = opened else {
            assert!(early, "does not start: {opened:?}", opened = opened.err());
            return;
        };
        running.settle();
        if early && self.disk.fuse_blown() {
            return;
        }
        assert!(running.master.term() > self.term, "R1");
        self.term = running.master.term();
        for (number, id) in &self.acknowledged {
            assert_eq!(running.file(*number), Some(*id), "file {number} was answered");
        }
        self.disk.arm_fuse(fuse);
        for _ in 0..30 {
            let mut asked = Vec::new();
            for _ in 0..=self.random.below(4) {
                self.number += 1;
                asked.push((self.number, running.send(create(self.number))));
            }
            running.settle();
            for (number, asked) in asked {
                if let Some(Ok(Response::Create(made))) = running.answers.get(&asked) {
                    let id = made.entry.id;
                    assert!(self.ids.insert(id), "R1: an id is given twice");
                    self.acknowledged.insert(number, id);
                }
            }
            if self.disk.fuse_blown() {
                break;
            }
        }
    }
}

#[test]
fn a_master_killed_at_any_step_of_its_disk_work_loses_nothing_that_it_answered() {
    let (mut blown, mut rotted) = (0, 0);
    for fuse in 0..120 {
        let mut deaths = Deaths::new(fuse);
        for life in 0..4 {
            deaths.live(fuse + life);
            blown += u64::from(deaths.disk.fuse_blown());
            deaths.disk.crash();
        }
        rotted += deaths.rotted;
    }
    assert!(blown > 300, "only {blown} deaths in the middle");
    assert!(rotted > 20, "only {rotted} checkpoints damaged");
}

#[test]
fn a_power_loss_at_any_step_loses_nothing_that_was_answered() {
    for fuse in 0..120 {
        let mut deaths = Deaths::new(1000 + fuse);
        for life in 0..4 {
            deaths.live(fuse + life);
            let mut random = Random::new(fuse * 7 + life);
            deaths.disk.power_loss(&mut random);
        }
    }
}

/// A master with several checkpoints, killed; and what its state was.
fn with_checkpoints(disk: &SimDisk, files: u64) -> State {
    let mut running = Running::started(disk, 1);
    for number in 1..=files {
        running.send(create(number));
        running.settle();
    }
    let state = running.master.state().clone();
    drop(running);
    disk.crash();
    state
}

fn newest(disk: &SimDisk, suffix: &str) -> String {
    disk.paths().into_iter().rfind(|path| path.ends_with(suffix)).expect("some")
}

/// Whether the master starts with all that it had, and answers.
fn goes_on(disk: &SimDisk, before: &State) {
    let mut running = Running::started(disk, 2);
    assert!(running.master.state().file_count() >= before.file_count());
    let asked = running.send(Status::default());
    assert!(running.ok(asked));
}

#[test]
fn a_damaged_newest_root_is_passed_over() {
    let disk = disk();
    let before = with_checkpoints(&disk, 50);
    assert!(disk.flip_byte(&newest(&disk, ".root"), 100));
    goes_on(&disk, &before);
}

#[test]
fn a_damaged_page_of_the_newest_checkpoint_sets_it_aside_and_the_one_before_is_taken() {
    let disk = disk();
    let before = with_checkpoints(&disk, 50);
    let (root, pages) = (newest(&disk, ".root"), newest(&disk, ".pages"));
    // Its root page is the last that it wrote.
    let size = disk.session().open(&pages, OpenMode::Read).and_then(|file| file.size());
    assert!(disk.flip_byte(&pages, size.expect("is there") - 1));
    goes_on(&disk, &before);
    assert!(disk.paths().contains(&root.replace(".root", ".damaged")), "{:?}", disk.paths());
}

#[test]
fn without_any_operation_log_a_master_does_not_start_on_a_checkpoint() {
    let disk = disk();
    with_checkpoints(&disk, 50);
    let session = disk.session();
    for path in disk.paths().iter().filter(|path| path.starts_with("log/")) {
        session.remove(path).expect("it is there");
    }
    // What the refusal says can be done.
    let what_is_left = cairn_master::Remains::of(&session, true).expect("a checkpoint");
    assert!(what_is_left.state().file_count() > 0);
    drop(what_is_left);
    let before = disk.paths();
    for reads in [true, false] {
        let all = roots(&disk);
        all.iter().filter(|_| !reads).for_each(|root| assert!(disk.flip_byte(root, 100)));
        let refused = Running::open(&disk, 2).err().expect("refused").to_string();
        assert!(refused.contains("no operation log"), "{refused}");
        assert_eq!(disk.paths(), before, "nothing is made of it");
    }
}

#[test]
fn without_a_checkpoint_that_reads_a_master_does_not_start_on_a_part_of_its_log() {
    let disk = disk();
    with_checkpoints(&disk, 300);
    for path in roots(&disk) {
        assert!(disk.flip_byte(&path, 100));
    }
    let refused = Running::open(&disk, 2).err().expect("refused").to_string();
    assert!(refused.contains("no checkpoint reads"), "{refused}");
}

#[test]
fn damage_met_while_it_runs_stops_the_master_and_sets_the_checkpoint_aside() {
    let disk = disk();
    with_checkpoints(&disk, 50);
    let mut running = Running::started(&disk, 2);
    let root = newest(&disk, ".root");
    let (checkpoint, _) = running.create_until_a_checkpoint(51);
    let damaged = Damaged { offset: 4096, size: 100, damage: Damage::Checksum };
    let result = Completion::Disk(Ok(LogDone::Damaged(damaged)));
    running.handle(Event::Completed { id: checkpoint, result });
    assert!(running.halted.is_none(), "not before the checkpoint is set aside");
    let asked = running.send(Status::default());
    running.settle();
    assert!(!running.ok(asked), "nothing is answered any more");
    let line = running.halted.take().expect("it stops");
    assert!(line.contains("the page at 4096 of 100 bytes") && !line.contains('\n'), "{line}");
    let before = running.master.state().clone();
    drop(running);
    disk.power_loss_of_all_unsynced();
    assert!(disk.paths().contains(&root.replace(".root", ".damaged")), "{:?}", disk.paths());
    goes_on(&disk, &before);
}

#[test]
fn after_a_dear_checkpoint_the_next_one_comes_later() {
    let mut running = Running::started(&disk(), 1);
    let mut waited = Vec::new();
    for size in [0, 0, 4096 * 60, 0] {
        let (id, count) = running.create_until_a_checkpoint(1000 * (waited.len() as u64 + 1));
        waited.push(count);
        let index = running.master.state().applied();
        let made = Checkpointed { index, size, page_file: 1, to_adopt: None };
        let result = Completion::Disk(Ok(LogDone::Checkpointed(made)));
        running.handle(Event::Completed { id, result });
    }
    // A record for each file, and one more for the first.
    assert!(waited[1] <= 8 && waited[2] <= 8, "{waited:?}");
    assert!((59..70).contains(&waited[3]), "{waited:?}");
}

fn is_checkpoint(job: &LogJob) -> bool {
    matches!(job, LogJob::Checkpoint(_))
}

/// The file that a master would make for [`create`].
fn added(number: u64) -> Record {
    Record::AddFile(AddFile {
        time: WallTime::from_millis(number),
        mutation: create(number).mutation,
        parent: ROOT,
        name: create(number).path.name().expect("not the root").to_owned(),
        id: EntryId::of(SEED_TERM, number),
        ..AddFile::default()
    })
}

#[test]
fn a_seeded_directory_opens_as_one_that_a_master_left_and_goes_on_as_one() {
    let disk = disk();
    let fill = |numbers: std::ops::Range<u64>| {
        let session: Arc<dyn cairn_env::Disk> = disk.session();
        seed(&session, &CellConfig::tiny(), WallTime::default(), numbers.map(added))
    };
    fill(1..40).expect("an empty directory");
    for life in 1..4 {
        let mut running = Running::started(&disk, life);
        assert_eq!(running.file(39), Some(EntryId::of(SEED_TERM, 39)));
        assert!(running.master.term() > SEED_TERM, "R1");
        let asked = running.send(create(100 + life));
        running.settle();
        assert!(running.ok(asked));
        assert_eq!(running.master.state().file_count(), 39 + life);
        drop(running);
        disk.crash();
    }
    assert!(matches!(fill(1..2), Err(SeedError::Taken(_))), "never into a cell that is there");
}

/// The same name under another number.
fn renumbered(number: u64) -> Record {
    let Record::AddFile(add) = added(number) else { unreachable!("it adds a file") };
    Record::AddFile(AddFile { mutation: create(9).mutation, id: EntryId::new(9), ..add })
}

#[test]
fn a_record_that_does_not_apply_seeds_nothing() {
    let disk = disk();
    let session: Arc<dyn cairn_env::Disk> = disk.session();
    let twice = [added(1), renumbered(1)];
    let refused = seed(&session, &CellConfig::tiny(), WallTime::default(), twice);
    assert!(matches!(refused, Err(SeedError::Refused(..))), "{refused:?}");
    assert_eq!(disk.paths().iter().filter(|path| path.starts_with("checkpoints/")).count(), 0);
}

#[test]
fn a_member_whose_only_checkpoint_is_gone_begins_with_nothing_less_than_it_had() {
    use cairn_format::GroupMark;
    use cairn_store::OperationLog;
    use cairn_types::wire::Message;
    use cairn_types::{Address, CellId, LogIndex, Member, Members, ServerId};

    let disk = disk();
    let member = |id: u64| Member {
        id: ServerId::new(id),
        address: Address::new(format!("m{id}")),
        ..Member::default()
    };
    let members = Members { all: vec![member(1), member(2), member(3)], ..Members::default() };
    let (cell, me) = (CellId::new(5), ServerId::new(1));
    cairn_master::make_member(&disk.session(), 4096, cell, (me, &members)).expect("empty");
    assert!(Master::open(disk.session(), config(1)).is_ok(), "it begins, and waits for the others");
    // It had a checkpoint as of record 90, which it took over, and no log before that.
    let mark = GroupMark { committed: LogIndex::new(90), members, ..GroupMark::default() };
    let opened = OperationLog::open(disk.session(), cell, 4096, LogIndex::default());
    let (mut log, _) = opened.expect("opens");
    log.append(&[(LogIndex::default(), mark.to_bytes().into())]).expect("writes");
    drop(log);
    let refused = Master::open(disk.session(), config(1)).expect_err("refused");
    assert!(refused.to_string().contains("no checkpoint reads"), "{refused}");
}
