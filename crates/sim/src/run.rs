//! One run, from the first process to the last reading.

use crate::cell::{self, CellNodes};
use crate::checkers;
use crate::checkers::linearization::Judgement;
use crate::checkers::{linearizable_names, permissions_hold};
use crate::fault_injector::FaultInjector;
use crate::healing::heal;
use crate::observer::Observer;
use crate::replica_audit::{AuditedFile, audit};
use crate::report::{CheckFailure, RunConfig, RunReport};
use crate::simulation::{Simulation, WORKLOAD_TOKENS, Workload};
use crate::workloads::{
    Appender, FinalReads, LevelChanges, NameHistory, NamespaceChurn, OwnedHistory, OwnedNames,
    PeoplesActs, PiecesFile, PiecesReader, Progress, QuotaPressure, RandomWriter, RecordFile,
    Replacer, SequentialFiles, ShadowReader, SharedFile, SnappedNames, Snapshots, StreamCopies,
    StreamFile, StreamProducer, StreamReader, TailingReader,
};
use cairn_env_sim::{SimWorld, WorldStep, WorldTime};
use cairn_types::planted::Rule;
use cairn_types::{CellConfig, EntryId};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The longest that a process which stood still when the last fault came may go on to.
const PAUSED_SECONDS_MAX: u64 = 60;
/// How long all that is under way may take to end, once the faults have: a reader that has come to
/// damaged bytes tries four times to the client's deadline, wherever it stood then (stream seed
/// 546).
const CLOSING_SECONDS: u64 = 120;
/// Quiet time for servers to rejoin and leases to run out.
const HEALING_SECONDS: u64 = 12;
/// How long the last reading may take.
const READING_SECONDS: u64 = 900;
/// Clients of a cell.
const CLIENTS: usize = 5;

/// What the workloads of a run share.
struct WorkloadFiles {
    sequential: Rc<RefCell<Vec<Rc<RefCell<SharedFile>>>>>,
    random: Rc<RefCell<SharedFile>>,
    records: Vec<Rc<RefCell<RecordFile>>>,
    stream: Rc<RefCell<StreamFile>>,
    /// A stream of bytes, of which ranges are replaced.
    pieces: Rc<RefCell<PiecesFile>>,
    names: Rc<RefCell<NameHistory>>,
    owned: Rc<RefCell<OwnedHistory>>,
    /// Files of snapshots.
    copies: Rc<RefCell<Vec<EntryId>>>,
}

impl WorkloadFiles {
    fn person(&self, (client, who): (usize, usize)) -> Box<dyn Workload> {
        Box::new(OwnedNames::new(client, who, self.owned.clone()))
    }
}

/// Runs one seed.
#[must_use]
pub fn run(config: &RunConfig) -> RunReport {
    plant(config.planted);
    let observer = Rc::new(RefCell::new(Observer::new(checkers::all())));
    observer.borrow_mut().only = config.only;
    let mut report = RunReport::default();
    let done = catch_unwind(AssertUnwindSafe(|| whole_run(config, &observer, &mut report)));
    if let Err(panic) = done {
        let message = panic_message(panic.as_ref());
        let at = WorldTime(0);
        report.failure.get_or_insert(CheckFailure { checker: "assertion", message, at });
    }
    report
}

/// Breaks a rule in this thread from now on, or none.
#[cfg(feature = "planted-bugs")]
pub(crate) fn plant(rule: Option<Rule>) {
    cairn_types::planted::plant(rule);
}

#[cfg(not(feature = "planted-bugs"))]
pub(crate) fn plant(rule: Option<Rule>) {
    assert!(rule.is_none(), "this build has no planted bugs; use --features planted-bugs");
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without words".to_owned())
}

fn whole_run(config: &RunConfig, observer: &Rc<RefCell<Observer>>, report: &mut RunReport) {
    let cell_config = CellConfig::tiny();
    let (mut world, mut nodes) = cell::build(config, &cell_config, CLIENTS, observer);
    if config.masters > 1 {
        let count = config.masters + config.spare_masters;
        nodes.clients.push(cell::add_shadow_reader(&mut world, CLIENTS, count));
    }
    let people = config.people.then(|| add_people(config, &mut world, &mut nodes));
    let mut sim = Simulation::new(world, nodes, cell_config, observer.clone());
    let mut injector = FaultInjector::new(config.faults.clone());
    let shared = WorkloadFiles {
        sequential: Rc::default(),
        random: SharedFile::named("/shared"),
        records: vec![RecordFile::named("/log-1"), RecordFile::named("/log-2")],
        stream: StreamFile::named("/stream"),
        pieces: PiecesFile::new(),
        names: Rc::default(),
        owned: Rc::default(),
        copies: Rc::default(),
    };
    let mut workloads = workloads(&sim, &shared, config);
    workloads.extend(people.into_iter().flatten().map(|person| shared.person(person)));
    start_all(&mut sim, &mut workloads, 0);
    injector.start(&mut sim);
    let settled = match config.spare_masters {
        0 => Rc::new(Cell::new(true)),
        _ => injector.tend_masters(&mut sim, config.masters),
    };
    run_for(&mut sim, &mut injector, &mut workloads, config.seconds, |_, _, _| false);
    end_faults(&mut sim, &mut injector, &mut workloads);
    let quiet = |sim: &Simulation, workloads: &[Box<dyn Workload>]| {
        sim.under_way() == 0 && workloads.iter().all(|workload| workload.finished())
    };
    run_for(&mut sim, &mut injector, &mut workloads, HEALING_SECONDS, |_, _, _| false);
    run_for(&mut sim, &mut injector, &mut workloads, CLOSING_SECONDS, |sim, _, workloads| {
        quiet(sim, workloads) && settled.get()
    });
    if observer.borrow().failure.is_none() && !quiet(&sim, &workloads) {
        sim.fail("it_heals", format!("{} operations never ended", sim.under_way()));
    } else if !settled.get() {
        sim.fail("it_heals", "the group of masters is not what a person made of it".to_owned());
    }
    if config.heals && observer.borrow().failure.is_none() {
        heal(&mut sim);
    }
    judge_histories(&mut sim, &shared);
    let first = workloads.len();
    for reader in last_readers(&shared) {
        workloads.push(Box::new(reader));
    }
    if config.streams {
        workloads.push(Box::new(StreamReader::new(0, 1 << 20, shared.stream.clone())));
    }
    start_all(&mut sim, &mut workloads, first);
    run_for(&mut sim, &mut injector, &mut workloads, READING_SECONDS, |sim, _, workloads| {
        quiet(sim, workloads)
    });
    if config.strict && observer.borrow().failure.is_none() {
        audit(&mut sim, &audited(&shared));
    }
    finish(&mut sim, report);
}

/// Adds a client for each of the people; which client is whom.
fn add_people(
    config: &RunConfig,
    world: &mut SimWorld,
    nodes: &mut CellNodes,
) -> Vec<(usize, usize)> {
    let masters = config.masters + config.spare_masters;
    let mut people = Vec::new();
    for (who, person) in permissions_hold::PEOPLE.iter().enumerate() {
        let at = nodes.clients.len();
        nodes.clients.push(cell::add_person(world, at, masters, person.identity()));
        people.push((at, who));
    }
    people
}

/// No fault is left, and nothing new is asked for. A pause lasts for its time, whatever else ends,
/// and so does the rest of a machine that a copy of its disks had passed for: before that nobody
/// has to heal (seed 3305 of d6f3fc5; healing seed 10 of f2abec78, whose two machines with all of
/// a chunk rested).
fn end_faults(
    sim: &mut Simulation,
    injector: &mut FaultInjector,
    workloads: &mut [Box<dyn Workload>],
) {
    injector.clear(sim);
    let all_run = |sim: &Simulation, injector: &FaultInjector, _: &[Box<dyn Workload>]| {
        let is_paused = |node| sim.world.is_paused(node);
        !injector.lets_rest() && !sim.nodes.all().into_iter().any(is_paused)
    };
    run_for(sim, injector, workloads, PAUSED_SECONDS_MAX, all_run);
    sim.closing = true;
}

fn workloads(
    sim: &Simulation,
    shared: &WorkloadFiles,
    config: &RunConfig,
) -> Vec<Box<dyn Workload>> {
    let batches = config.batches;
    let reach = 6 * sim.cell_config.chunk_size;
    let record = |at: usize| shared.records[at].clone();
    let mut workloads: Vec<Box<dyn Workload>> = vec![
        Box::new(SequentialFiles::new(0, shared.sequential.clone())),
        Box::new(SequentialFiles::new(1, shared.sequential.clone())),
        Box::new(RandomWriter::new(0, shared.random.clone(), reach)),
        Box::new(RandomWriter::new(1, shared.random.clone(), reach)),
        Box::new(RandomWriter::new(2, shared.random.clone(), reach)),
        Box::new(Appender::new(2, 21, 1, record(0))),
        Box::new(Appender::new(3, 22, 1, record(0))),
        Box::new(Appender::new(4, 23, 4, record(0))),
        Box::new(Appender::new(0, 24, 2, record(1))),
        Box::new(Appender::new(1, 25, 1, record(1))),
        Box::new(TailingReader::new(3, record(0))),
        Box::new(TailingReader::new(4, record(0))),
        Box::new(TailingReader::new(2, record(1))),
        Box::new(NamespaceChurn::new(3, shared.names.clone(), batches)),
        Box::new(NamespaceChurn::new(4, shared.names.clone(), batches)),
        Box::new(NamespaceChurn::new(1, shared.names.clone(), batches)),
    ];
    if config.streams {
        workloads.extend(of_streams(shared, config.seconds));
    }
    if config.masters > 1 {
        workloads.push(Box::new(ShadowReader::new(CLIENTS, record(0))));
    }
    if config.levels {
        workloads.push(Box::new(LevelChanges::new(2)));
        workloads.push(Box::new(QuotaPressure::new(3)));
    }
    if config.snapshots {
        workloads.push(Box::new(Snapshots::new(shared.copies.clone())));
        if config.people {
            workloads.push(Box::new(SnappedNames::default()));
        }
    }
    if config.heals {
        workloads.push(Box::new(PeoplesActs::new(4)));
    }
    // What a group needs to get on is not what that workload looks at.
    if config.strict && config.masters == 1 {
        workloads.push(Box::new(Progress::new(3)));
    }
    workloads
}

/// Producers under four names, one of which two clients fence each other of, and readers; one who
/// takes copies and has them purged; and those who replace ranges of another stream, and theirs.
fn of_streams(shared: &WorkloadFiles, seconds: u64) -> Vec<Box<dyn Workload>> {
    let stream = || shared.stream.clone();
    let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
    for (client, name, window) in
        [(0, "p1", 4), (1, "p2", 1), (2, "p3", 8), (3, "p1", 3), (4, "p4", 2)]
    {
        let at = (client, seconds);
        workloads.push(Box::new(StreamProducer::new(at, name, window, stream())));
    }
    for (client, size) in [(2, 1 << 20), (4, 700)] {
        workloads.push(Box::new(StreamReader::new(client, size, stream())));
    }
    workloads.push(Box::new(StreamCopies::new(2, stream())));
    let pieces = || shared.pieces.clone();
    for (client, appends) in [(1, true), (3, false)] {
        workloads.push(Box::new(Replacer::new((client, appends), pieces())));
    }
    for client in [0, 4] {
        workloads.push(Box::new(PiecesReader::new(client, pieces())));
    }
    workloads
}

fn last_readers(shared: &WorkloadFiles) -> Vec<FinalReads> {
    let mut bytes = shared.sequential.borrow().clone();
    bytes.push(shared.random.clone());
    FinalReads::on_clients(CLIENTS, bytes, shared.records.clone(), &shared.copies.borrow())
}

fn audited(shared: &WorkloadFiles) -> Vec<AuditedFile> {
    let mut bytes = shared.sequential.borrow().clone();
    bytes.push(shared.random.clone());
    let records = shared.records.iter().cloned().map(AuditedFile::Records);
    bytes.into_iter().map(AuditedFile::Bytes).chain(records).collect()
}

fn start_all(sim: &mut Simulation, workloads: &mut [Box<dyn Workload>], from: usize) {
    for (at, workload) in workloads.iter_mut().enumerate().skip(from) {
        sim.acting = at;
        workload.start(sim);
    }
}

/// Lets things happen for so long, until `enough`, or until a checker complains.
fn run_for(
    sim: &mut Simulation,
    injector: &mut FaultInjector,
    workloads: &mut [Box<dyn Workload>],
    seconds: u64,
    enough: impl Fn(&Simulation, &FaultInjector, &[Box<dyn Workload>]) -> bool,
) {
    let end = WorldTime(sim.now().0 + seconds * 1_000_000_000);
    while sim.world.next_time().is_some_and(|at| at <= end) {
        if sim.observer.borrow().failure.is_some() || enough(sim, injector, workloads) {
            return;
        }
        if let WorldStep::Script(token) = sim.world.step() {
            match token.checked_sub(WORKLOAD_TOKENS) {
                None => injector.on_token(sim, token),
                Some(at) => {
                    sim.acting = usize::try_from(at).expect("a few workloads");
                    workloads[sim.acting].woken(sim);
                }
            }
        }
        for (owner, ticket, result) in sim.take_ended() {
            sim.acting = owner;
            workloads[owner].ended(sim, ticket, result);
        }
    }
}

fn judge_histories(sim: &mut Simulation, shared: &WorkloadFiles) {
    match linearizable_names::judge(&shared.names.borrow().events) {
        Judgement::Linearizable => sim.reach("names judged linearizable"),
        Judgement::Undecided => sim.reach("names left undecided"),
        Judgement::Not(why) => sim.fail("linearizable_names", why),
    }
    let owned = shared.owned.borrow();
    if owned.events.is_empty() {
        return;
    }
    match permissions_hold::judge(&owned.events) {
        Judgement::Linearizable => sim.reach("permissions judged"),
        Judgement::Undecided => sim.reach("permissions left undecided"),
        Judgement::Not(why) => sim.fail("permissions_hold", why),
    }
}

pub(crate) fn finish(sim: &mut Simulation, report: &mut RunReport) {
    for (at, node, reason) in sim.world.halts().to_vec() {
        let name = sim.world.name(node).to_owned();
        let message = format!("{name} halted at {:.3}s: {reason}", at.seconds());
        sim.fail("starts_again", message);
    }
    for node in sim.nodes.with_disks() {
        for disk in sim.world.disks(node) {
            let mut observer = sim.observer.borrow_mut();
            disk.take_fired()
                .into_iter()
                .for_each(|(what, times)| observer.reach_times(what, times));
        }
    }
    let now = sim.now();
    sim.observer.borrow_mut().check_replay_of_all(now);
    let observer = sim.observer.borrow();
    report.operations = sim.operations;
    report.reached = sim.world.reached().clone();
    report.reached.extend(observer.reached.iter().map(|(name, count)| (*name, *count)));
    report.failure = observer.failure.clone();
    drop(observer);
    report.trace_hash = sim.world.trace().hash();
}

#[cfg(test)]
mod tests {
    use super::end_faults;
    use crate::fault_injector::FaultInjector;
    use crate::fault_mix::FaultMix;
    use crate::simulation::Simulation;
    use std::time::Duration;

    #[test]
    fn the_faults_are_over_when_whoever_stood_still_runs_again() {
        let mut sim = Simulation::idle();
        let (server, client) = (sim.nodes.servers[0], sim.nodes.clients[0]);
        sim.world.pause(server, Duration::from_secs(15));
        sim.world.pause(client, Duration::from_secs(3));
        end_faults(&mut sim, &mut FaultInjector::new(FaultMix::calm()), &mut []);
        assert!(sim.closing, "nothing new is asked for");
        let everyone = sim.nodes.all();
        let still: Vec<_> = everyone.iter().filter(|node| !sim.world.is_well(**node)).collect();
        assert!(still.is_empty(), "{still:?} stand still");
    }
}
