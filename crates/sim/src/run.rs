//! One run, from the first process to the last reading.

use crate::cell;
use crate::checkers;
use crate::checkers::linearizable_names::{Judgement, judge};
use crate::checkers::replay_is_state::ReplayIsState;
use crate::fault_injector::FaultInjector;
use crate::observer::Observer;
use crate::report::{CheckFailure, RunConfig, RunReport};
use crate::stage::{ACTOR_TOKENS, Actor, Stage};
use crate::workloads::{
    Appender, Churn, FinalReads, NameHistory, RandomWriter, RecordFile, SequentialFiles,
    SharedFile, TailingReader,
};
use cairn_env_sim::{Stepped, WorldTime};
use cairn_types::CellConfig;
use cairn_types::planted::Rule;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// How long all that is under way may take to end, once the faults have.
const CLOSING_SECONDS: u64 = 60;
/// Quiet time for servers to rejoin and leases to run out.
const HEALING_SECONDS: u64 = 12;
/// How long the last reading may take.
const READING_SECONDS: u64 = 900;
/// Clients of a cell.
const CLIENTS: usize = 5;

/// What the workloads of a run share.
struct Shared {
    sequential: Rc<RefCell<Vec<Rc<RefCell<SharedFile>>>>>,
    random: Rc<RefCell<SharedFile>>,
    records: Vec<Rc<RefCell<RecordFile>>>,
    names: Rc<RefCell<NameHistory>>,
}

/// Runs one seed.
#[must_use]
pub fn run(config: &RunConfig) -> RunReport {
    plant(config.planted);
    let observer = Rc::new(RefCell::new(Observer::new(checkers::all())));
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
    let cluster = CellConfig::tiny();
    let (world, nodes) = cell::build(config, &cluster, CLIENTS, observer);
    let mut stage = Stage::new(world, nodes, cluster, observer.clone());
    let mut injector = FaultInjector::new(config.faults.clone());
    let shared = Shared {
        sequential: Rc::default(),
        random: SharedFile::named("/shared"),
        records: vec![RecordFile::named("/log-1"), RecordFile::named("/log-2")],
        names: Rc::default(),
    };
    let mut actors = actors(&stage, &shared, config.batches);
    start_all(&mut stage, &mut actors, 0);
    injector.start(&mut stage);
    play(&mut stage, &mut injector, &mut actors, config.seconds, |_, _| false);
    injector.clear(&mut stage);
    stage.closing = true;
    let quiet = |stage: &Stage, actors: &[Box<dyn Actor>]| {
        stage.under_way() == 0 && actors.iter().all(|actor| actor.finished())
    };
    play(&mut stage, &mut injector, &mut actors, HEALING_SECONDS, |_, _| false);
    play(&mut stage, &mut injector, &mut actors, CLOSING_SECONDS, quiet);
    if observer.borrow().failure.is_none() && !quiet(&stage, &actors) {
        stage.fail("it_heals", format!("{} operations never ended", stage.under_way()));
    }
    judge_names(&mut stage, &shared);
    let first = actors.len();
    actors.push(Box::new(last_reader(&shared)));
    start_all(&mut stage, &mut actors, first);
    play(&mut stage, &mut injector, &mut actors, READING_SECONDS, quiet);
    finish(&mut stage, report);
}

fn actors(stage: &Stage, shared: &Shared, batches: bool) -> Vec<Box<dyn Actor>> {
    let reach = 6 * stage.cluster.chunk_size;
    let record = |at: usize| shared.records[at].clone();
    vec![
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
        Box::new(Churn::new(3, shared.names.clone(), batches)),
        Box::new(Churn::new(4, shared.names.clone(), batches)),
        Box::new(Churn::new(1, shared.names.clone(), batches)),
    ]
}

fn last_reader(shared: &Shared) -> FinalReads {
    let mut bytes = shared.sequential.borrow().clone();
    bytes.push(shared.random.clone());
    FinalReads::new(bytes, shared.records.clone())
}

fn start_all(stage: &mut Stage, actors: &mut [Box<dyn Actor>], from: usize) {
    for (at, actor) in actors.iter_mut().enumerate().skip(from) {
        stage.speaker = at;
        actor.start(stage);
    }
}

/// Lets things happen for so long, until `enough`, or until a checker complains.
fn play(
    stage: &mut Stage,
    injector: &mut FaultInjector,
    actors: &mut [Box<dyn Actor>],
    seconds: u64,
    enough: impl Fn(&Stage, &[Box<dyn Actor>]) -> bool,
) {
    let end = WorldTime(stage.now().0 + seconds * 1_000_000_000);
    while stage.world.next_time().is_some_and(|at| at <= end) {
        if stage.observer.borrow().failure.is_some() || enough(stage, actors) {
            return;
        }
        if let Stepped::Script(token) = stage.world.step() {
            match token.checked_sub(ACTOR_TOKENS) {
                None => injector.on_token(stage, token),
                Some(at) => {
                    stage.speaker = usize::try_from(at).expect("a few actors");
                    actors[stage.speaker].woken(stage);
                }
            }
        }
        for (owner, ticket, result) in stage.take_ended() {
            stage.speaker = owner;
            actors[owner].ended(stage, ticket, result);
        }
    }
}

fn judge_names(stage: &mut Stage, shared: &Shared) {
    let judgement = judge(&shared.names.borrow().events);
    match judgement {
        Judgement::Linearizable => stage.reach("names judged linearizable"),
        Judgement::Undecided => stage.reach("names left undecided"),
        Judgement::Not(why) => stage.fail("linearizable_names", why),
    }
}

pub(crate) fn finish(stage: &mut Stage, report: &mut RunReport) {
    for (at, node, reason) in stage.world.halts().to_vec() {
        let name = stage.world.name(node).to_owned();
        let message = format!("{name} halted at {:.3}s: {reason}", at.seconds());
        stage.fail("starts_again", message);
    }
    let now = stage.now();
    stage.observer.borrow_mut().check_replay(now, ReplayIsState::check);
    let observer = stage.observer.borrow();
    report.operations = stage.operations;
    report.reached = stage.world.reached().clone();
    report.reached.extend(observer.reached.iter().map(|(name, count)| (*name, *count)));
    report.failure = observer.failure.clone();
    drop(observer);
    report.trace_hash = stage.world.trace().hash();
}
