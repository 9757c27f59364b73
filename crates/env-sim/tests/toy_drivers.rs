//! The world's contract, judged by drivers too simple to be wrong: a caller that asks and writes
//! down what came of it, a listener that answers from its disk lanes.

use bytes::Bytes;
use cairn_env::{
    Caller, Completion, Driver, Effect, EffectId, Event, Lane, Now, PushedData, Service,
};
use cairn_env_sim::{
    DriverProcess, NodeId, NodePlan, SimWorld, WorldSettings, WorldStep, WorldTime,
};
use cairn_protocol::{
    Append, AppendAnswer, AppendOrder, ErrorCode, Failure, Hello, Outcome, Push, Request, Response,
    Role, Stat, StatAnswer,
};
use cairn_types::{
    Address, BlockChecksums, CellId, Incarnation, LeaseId, MutationNumber, PushId, ReplicaAt,
    ServerId, SessionId,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the drivers saw, in order.
#[derive(Default)]
struct ToyNotes {
    asked: Vec<u64>,
    appends: Vec<(ServerId, Append)>,
    answers: BTreeMap<u64, Vec<Result<(), Failure>>>,
    ran: Vec<u64>,
    disconnected: u64,
}

type SharedNotes = Rc<RefCell<ToyNotes>>;

struct EchoService {
    name: String,
    ran: Mutex<Vec<u64>>,
    kept: Mutex<Vec<(String, Vec<u8>)>>,
}

impl Service for EchoService {
    type Job = u64;
    type JobResult = u64;

    fn run(&self, jobs: Vec<u64>) -> Vec<u64> {
        self.ran.lock().expect("one thread").extend(&jobs);
        jobs
    }

    fn keep(&self, _: PushId, data: PushedData) -> Result<(), Failure> {
        let bytes = data.segments.concat();
        self.kept.lock().expect("one thread").push((self.name.clone(), bytes));
        Ok(())
    }
}

/// Answers a `Stat` once its number has run on the lane; passes commands on as calls.
struct EchoDriver {
    id: ServerId,
    service: Arc<EchoService>,
    notes: SharedNotes,
    waiting: BTreeMap<EffectId, Caller>,
}

/// A call to make.
struct ToyCall {
    number: u64,
    to: Address,
    request: Request,
    payload: Bytes,
    wait: Duration,
}

impl EchoDriver {
    fn stat(&mut self, from: Caller, number: u64, effects: &mut Vec<Effect<u64>>) {
        self.notes.borrow_mut().asked.push(number);
        self.waiting.insert(EffectId(number), from);
        effects.push(Effect::Disk { id: EffectId(number), lane: Lane(number % 2), job: number });
    }
}

impl Driver for EchoDriver {
    type Service = EchoService;
    type Command = ToyCall;

    fn handle(&mut self, now: Now, event: Event<ToyCall, u64>, effects: &mut Vec<Effect<u64>>) {
        match event {
            Event::Started => effects.push(Effect::Identify(Hello::new(
                CellId::new(1),
                Role::Client,
                self.id,
                Incarnation::new(1),
            ))),
            Event::Command(ask) => effects.push(Effect::Call {
                id: EffectId(ask.number),
                to: ask.to,
                server: ServerId::default(),
                request: ask.request,
                payload: ask.payload,
                deadline: now.time + ask.wait,
            }),
            Event::Request { from, request: Request::Stat(stat) } => {
                let number = stat.path.name().expect("a name").parse().expect("a number");
                self.stat(from, number, effects);
            }
            Event::Request { from, request: Request::Append(append) } => {
                self.notes.borrow_mut().appends.push((self.id, append));
                let answer = Ok(Response::Append(AppendAnswer::default()));
                effects.push(Effect::Reply { to: from, answer, payload: Bytes::new().into() });
            }
            Event::Request { .. } => panic!("nothing else comes here"),
            Event::Identified { .. } => {}
            Event::Disconnected { .. } => self.notes.borrow_mut().disconnected += 1,
            Event::Completed { id, result: Completion::Answered(result) } => {
                let mut notes = self.notes.borrow_mut();
                notes.answers.entry(id.0).or_default().push(result.map(|_| ()));
            }
            Event::Completed { id, result: Completion::Disk(result) } => {
                self.notes.borrow_mut().ran.push(result);
                let to = self.waiting.remove(&id).expect("asked before");
                let answer = Ok(Response::Stat(StatAnswer::default()));
                effects.push(Effect::Reply { to, answer, payload: Bytes::new().into() });
            }
            Event::Completed { result: Completion::Woken, .. } => {}
        }
    }
}

struct Toys {
    world: SimWorld,
    nodes: Vec<NodeId>,
    services: Rc<RefCell<Vec<Arc<EchoService>>>>,
    notes: SharedNotes,
}

fn address(of: usize) -> Address {
    Address::new(format!("toy{of}:1"))
}

fn toys(settings: WorldSettings, count: usize) -> Toys {
    let mut world = SimWorld::new(settings);
    let notes: SharedNotes = Rc::default();
    let services: Rc<RefCell<Vec<Arc<EchoService>>>> = Rc::default();
    let nodes = (0..count)
        .map(|at| {
            let (notes, services) = (notes.clone(), services.clone());
            world.add(NodePlan {
                name: format!("toy{at}"),
                address: address(at),
                disks: Vec::new(),
                factory: Box::new(move |boot| {
                    let service = Arc::new(EchoService {
                        name: format!("toy{at}"),
                        ran: Mutex::default(),
                        kept: Mutex::default(),
                    });
                    services.borrow_mut().push(service.clone());
                    let driver = EchoDriver {
                        id: ServerId::new(at as u64 + 1),
                        service: service.clone(),
                        notes: notes.clone(),
                        waiting: BTreeMap::new(),
                    };
                    let service = driver.service.clone();
                    Ok(DriverProcess::boxed(boot.node, driver, service, None))
                }),
            })
        })
        .collect::<Vec<_>>();
    for node in &nodes {
        world.restart(*node).expect("toys start");
    }
    Toys { world, nodes, services, notes }
}

impl Toys {
    fn ask(&mut self, number: u64, wait_ms: u64) {
        let path = cairn_types::CellPath::parse(&format!("/{number}")).expect("a path");
        let request = Request::Stat(Stat { path });
        let wait = Duration::from_millis(wait_ms);
        let ask = ToyCall { number, to: address(1), request, payload: Bytes::new(), wait };
        self.world.command(self.nodes[0], Box::new(ask));
    }

    fn push(&mut self, number: u64, bytes: &[u8], chain: &[usize]) {
        self.push_with(number, bytes, chain, None);
    }

    fn push_with(
        &mut self,
        number: u64,
        bytes: &[u8],
        chain: &[usize],
        order: Option<Box<AppendOrder>>,
    ) {
        let at = |of: &usize| ReplicaAt {
            server: ServerId::new(*of as u64 + 1),
            address: address(*of),
            ..ReplicaAt::default()
        };
        let push = PushId { session: SessionId::new(7), number: MutationNumber::new(number) };
        let request = Request::Push(Push {
            push,
            block_offset: 3,
            checksums: BlockChecksums::of(3, bytes, 8),
            chain: chain[1..].iter().map(at).collect(),
            block_size: 8,
            order,
        });
        let wait = Duration::from_secs(10);
        let to = address(chain[0]);
        let ask = ToyCall { number, to, request, payload: Bytes::copy_from_slice(bytes), wait };
        self.world.command(self.nodes[0], Box::new(ask));
    }

    fn run(&mut self, seconds: u64) {
        let end = WorldTime(self.world.now().0 + seconds * 1_000_000_000);
        while self.world.next_time().is_some_and(|at| at <= end) {
            assert_ne!(self.world.step(), WorldStep::Over);
        }
    }

    fn answer(&self, number: u64) -> Result<(), Failure> {
        let notes = self.notes.borrow();
        let answers = notes.answers.get(&number).expect("a call completes (E1)");
        assert_eq!(answers.len(), 1, "a call completes once (E1)");
        answers[0].clone()
    }

    fn kept(&self) -> Vec<(String, Vec<u8>)> {
        let services = self.services.borrow();
        services.iter().flat_map(|s| s.kept.lock().expect("one thread").clone()).collect()
    }
}

/// A run with every kind of fault in it; gives the trace's hash.
fn stormy(seed: u64) -> (u64, Toys) {
    let mut toys = toys(WorldSettings::rack(seed), 3);
    toys.run(1);
    for number in 1..=200 {
        toys.ask(number, 500);
        match toys.world.random().below(12) {
            0 => toys.world.break_some_connection(),
            1 => toys.world.partition(toys.nodes[0], toys.nodes[1]),
            2 => toys.world.heal_all(),
            3 => toys.world.pause(toys.nodes[1], Duration::from_millis(700)),
            4 if toys.world.is_alive(toys.nodes[1]) => toys.world.kill(toys.nodes[1]),
            5 if !toys.world.is_alive(toys.nodes[1]) => {
                toys.world.restart(toys.nodes[1]).expect("toys start");
            }
            _ => {}
        }
        for _ in 0..20 {
            toys.world.step();
        }
    }
    toys.run(10);
    (toys.world.trace().hash(), toys)
}

#[test]
fn one_seed_is_one_run_and_another_seed_another() {
    assert_eq!(stormy(3).0, stormy(3).0);
    assert_ne!(stormy(3).0, stormy(4).0);
}

#[test]
fn every_call_completes_once_whatever_breaks() {
    for seed in 0..20 {
        let (_, toys) = stormy(seed);
        for number in 1..=200 {
            let _ = toys.answer(number);
        }
    }
}

#[test]
fn requests_arrive_in_the_order_sent_and_lanes_keep_it() {
    let mut toys = toys(WorldSettings::rack(1), 2);
    toys.run(1);
    (1..=100).for_each(|number| toys.ask(number, 5_000));
    toys.run(5);
    let notes = toys.notes.borrow();
    assert_eq!(notes.asked, (1..=100).collect::<Vec<_>>());
    for lane in 0..2 {
        let ran: Vec<u64> = notes.ran.iter().copied().filter(|n| n % 2 == lane).collect();
        assert!(ran.is_sorted() && ran.len() == 50);
    }
}

#[test]
fn a_dead_process_is_told_apart_from_a_silent_one() {
    let mut toys = toys(WorldSettings::rack(1), 2);
    toys.run(1);
    toys.world.kill(toys.nodes[1]);
    toys.ask(1, 1_000);
    toys.run(2);
    let failure = toys.answer(1).expect_err("nobody there");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Unreachable, Outcome::NotDone));
    toys.world.restart(toys.nodes[1]).expect("starts");
    toys.ask(2, 1_000);
    toys.run(2);
    assert_eq!(toys.answer(2), Ok(()));
    toys.world.partition(toys.nodes[1], toys.nodes[0]);
    toys.ask(3, 1_000);
    toys.run(2);
    let failure = toys.answer(3).expect_err("nothing comes back");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::DeadlineExceeded, Outcome::Unknown));
    assert!(toys.notes.borrow().asked.contains(&3), "one way only");
}

#[test]
fn a_push_is_kept_by_its_whole_chain_before_it_is_answered() {
    let mut toys = toys(WorldSettings::rack(1), 4);
    toys.run(1);
    toys.push(1, b"twenty bytes of data", &[1, 2, 3]);
    toys.run(2);
    assert_eq!(toys.answer(1), Ok(()));
    assert_eq!(toys.kept().len(), 3);
    assert!(toys.kept().iter().all(|(_, bytes)| bytes == b"twenty bytes of data"));
}

#[test]
fn an_append_that_comes_with_its_push_is_asked_of_the_first_once_all_of_the_chain_have_it() {
    let mut toys = toys(WorldSettings::rack(1), 4);
    toys.run(1);
    let order = || Some(Box::new(AppendOrder { lease: LeaseId::new(9), ..AppendOrder::default() }));
    toys.push_with(1, b"twenty bytes of data", &[1, 2, 3], order());
    toys.run(2);
    assert_eq!((toys.answer(1), toys.kept().len()), (Ok(()), 3));
    let appends = std::mem::take(&mut toys.notes.borrow_mut().appends);
    let [(of, append)] = &appends[..] else { panic!("{appends:?}") };
    assert_eq!((*of, append.size, append.lease), (ServerId::new(2), 20, LeaseId::new(9)));
    assert_eq!(append.push.number, MutationNumber::new(1));

    toys.world.kill(toys.nodes[3]);
    toys.push_with(2, b"twenty bytes of data", &[1, 2, 3], order());
    toys.run(2);
    assert_eq!(toys.answer(2).map_err(|failure| failure.code), Err(ErrorCode::ChainBroken));
    assert_eq!(toys.notes.borrow().appends, [], "not all have it");
}

#[test]
fn a_push_that_is_damaged_on_the_way_is_neither_kept_nor_passed_on() {
    let mut toys = toys(WorldSettings { corrupt_permille: 1000, ..WorldSettings::rack(1) }, 4);
    toys.run(1);
    toys.push(1, b"twenty bytes of data", &[1, 2, 3]);
    toys.run(2);
    assert_eq!(toys.answer(1).map_err(|f| f.code), Err(ErrorCode::ChecksumMismatch));
    assert_eq!(toys.kept(), []);
}

#[test]
fn a_chain_with_a_dead_middle_says_whom_it_could_not_reach() {
    let mut toys = toys(WorldSettings::rack(1), 4);
    toys.run(1);
    toys.world.kill(toys.nodes[2]);
    toys.push(1, b"twenty bytes of data", &[1, 2, 3]);
    toys.run(2);
    let failure = toys.answer(1).expect_err("the chain is broken");
    assert_eq!((failure.code, failure.server), (ErrorCode::ChainBroken, ServerId::new(3)));
    assert_eq!(toys.kept().len(), 1, "the first one keeps it all the same");
}

#[test]
fn a_broken_connection_is_told_to_both_ends() {
    let mut toys = toys(WorldSettings::rack(1), 2);
    toys.run(1);
    toys.ask(1, 5_000);
    toys.run(1);
    toys.world.break_some_connection();
    toys.ask(2, 5_000);
    toys.run(6);
    assert_eq!(toys.notes.borrow().disconnected, 1);
    let _ = toys.answer(2);
    toys.ask(3, 5_000);
    toys.run(6);
    assert_eq!(toys.answer(3), Ok(()), "a new connection is made");
}
