//! A driver and a service for tests: it answers a few requests, and calls others when told to.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(unreachable_pub, reason = "shared by several test binaries")]
#![allow(clippy::unwrap_used, reason = "tests")]

pub mod raw_peer;

use bytes::Bytes;
use cairn_env::{
    Answer, Caller, Completion, ConnectionId, Driver, Effect, EffectId, Event, Lane, Now,
    PushedData, Service,
};
use cairn_env_os::{LaunchLimits, LaunchOptions, Running, bind, launch};
use cairn_protocol::{
    Append, AppendAnswer, ChunkLength, ChunkLengthAnswer, ExplainAnswer, Failure, Hello,
    ListAnswer, MESSAGE_SIZE_MAX, ReadAnswer, Request, Response, Role,
};
use cairn_types::{Address, CellId, Entry, Incarnation, PushId, ServerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Long enough for anything that should happen at all.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The cell of all toys but those that say otherwise.
pub const CELL: CellId = CellId::new(77);

/// A probe of this chunk is answered with more text than a message may have.
pub const LONG_ANSWER: u64 = 0xf00d;

/// What comes of a call.
pub type CallOutcome = Result<Answer, Failure>;

/// What a toy can be told.
pub enum Command {
    /// Asks another one.
    Call {
        to: Address,
        server: ServerId,
        request: Box<Request>,
        payload: Bytes,
        timeout: Duration,
        done: Sender<CallOutcome>,
    },
    /// Tells when so much time has passed.
    Wake(Duration, Sender<Duration>),
}

/// Keeps pushes; a job is answered with its own number.
#[derive(Default)]
pub struct ToyService {
    pub kept: Mutex<BTreeMap<PushId, PushedData>>,
}

impl Service for ToyService {
    type Job = u64;
    type JobResult = u64;
    fn run(&self, jobs: Vec<u64>) -> Vec<u64> {
        jobs
    }
    fn keep(&self, push: PushId, data: PushedData) -> Result<(), Failure> {
        self.kept.lock().unwrap().insert(push, data);
        Ok(())
    }
}

/// What a toy has seen.
#[derive(Default)]
pub struct SeenByToy {
    pub requests: AtomicUsize,
    pub reads: AtomicUsize,
    pub lists: AtomicUsize,
    pub appends: Mutex<Vec<Append>>,
    /// By which requests came.
    pub connections: Mutex<BTreeSet<ConnectionId>>,
}

/// `ChunkLength` is answered at once, `Read` with bytes, `List` with long names, `Status` after a
/// disk job, `Append` with its size; `Stat` never, and `Explain` halts.
pub struct Toy {
    hello: Hello,
    seen: Arc<SeenByToy>,
    gone: Sender<()>,
    next: u64,
    calls: BTreeMap<EffectId, Sender<CallOutcome>>,
    wakes: BTreeMap<EffectId, (Now, Sender<Duration>)>,
    jobs: BTreeMap<EffectId, Caller>,
}

impl Toy {
    pub fn new(cell: CellId, server: ServerId, seen: Arc<SeenByToy>, gone: Sender<()>) -> Self {
        Self {
            hello: Hello::new(cell, Role::Client, server, Incarnation::new(1)),
            seen,
            gone,
            next: 0,
            calls: BTreeMap::new(),
            wakes: BTreeMap::new(),
            jobs: BTreeMap::new(),
        }
    }

    fn fresh(&mut self) -> EffectId {
        self.next += 1;
        EffectId(self.next)
    }

    fn asked(&mut self, from: Caller, request: &Request, effects: &mut Vec<Effect<u64>>) {
        self.seen.requests.fetch_add(1, Ordering::SeqCst);
        self.seen.connections.lock().unwrap().insert(from.connection);
        let reply = |response, payload: Bytes| {
            let payload = payload.into();
            Effect::Reply { to: from, answer: Ok(response), payload }
        };
        match request {
            Request::ChunkLength(probe) if probe.handle.get() == LONG_ANSWER => {
                let lines = vec!["x".repeat(MESSAGE_SIZE_MAX as usize)];
                let answer = ExplainAnswer { lines, ..ExplainAnswer::default() };
                effects.push(reply(Response::Explain(answer), Bytes::new()));
            }
            Request::ChunkLength(_) => {
                effects
                    .push(reply(Response::ChunkLength(ChunkLengthAnswer::default()), Bytes::new()));
            }
            Request::Read(read) => {
                self.seen.reads.fetch_add(1, Ordering::SeqCst);
                let payload = Bytes::from(vec![read.offset as u8; read.size as usize]);
                let answer = ReadAnswer { offset: read.offset, ..ReadAnswer::default() };
                effects.push(reply(Response::Read(answer), payload));
            }
            Request::List(list) => {
                self.seen.lists.fetch_add(1, Ordering::SeqCst);
                let entry = Entry { name: "n".repeat(250), ..Entry::default() };
                let entries = vec![entry; list.limit as usize];
                let answer = ListAnswer { entries, ..ListAnswer::default() };
                effects.push(reply(Response::List(answer), Bytes::new()));
            }
            Request::Append(append) => {
                self.seen.appends.lock().unwrap().push(append.clone());
                let answer = AppendAnswer { offset: append.size, ..AppendAnswer::default() };
                effects.push(reply(Response::Append(answer), Bytes::new()));
            }
            Request::Status(_) => {
                let id = self.fresh();
                self.jobs.insert(id, from);
                effects.push(Effect::Disk { id, lane: Lane(id.0 % 3), job: id.0 });
            }
            Request::Explain(_) => effects.push(Effect::Halt("told to".to_owned())),
            _ => {}
        }
    }

    fn completed(&mut self, now: Now, id: EffectId, result: Completion<u64>) -> Option<Caller> {
        match result {
            Completion::Answered(result) => {
                let done = self.calls.remove(&id).expect("a call completes once");
                let _ = done.send(result);
                None
            }
            Completion::Woken => {
                let (since, done) = self.wakes.remove(&id).expect("a wake completes once");
                let _ = done.send(now.time.since(since.time));
                None
            }
            Completion::Disk(result) => {
                assert_eq!(result, id.0, "a result comes back with its own effect");
                Some(self.jobs.remove(&id).expect("a job completes once"))
            }
        }
    }
}

impl Driver for Toy {
    type Service = ToyService;
    type Command = Command;

    fn handle(&mut self, now: Now, event: Event<Command, u64>, effects: &mut Vec<Effect<u64>>) {
        match event {
            Event::Started => effects.push(Effect::Identify(self.hello.clone())),
            Event::Request { from, request } => self.asked(from, &request, effects),
            Event::Identified { .. } => {}
            Event::Disconnected { .. } => drop(self.gone.send(())),
            Event::Completed { id, result } => {
                if let Some(to) = self.completed(now, id, result) {
                    let answer = Ok(Response::Status(Box::default()));
                    effects.push(Effect::Reply { to, answer, payload: Bytes::new().into() });
                }
            }
            Event::Command(Command::Call { to, server, request, payload, timeout, done }) => {
                let id = self.fresh();
                self.calls.insert(id, done);
                let deadline = now.time + timeout;
                effects.push(Effect::Call { id, to, server, request: *request, payload, deadline });
            }
            Event::Command(Command::Wake(span, done)) => {
                let id = self.fresh();
                self.wakes.insert(id, (now, done));
                effects.push(Effect::Wake { id, at: now.time + span });
            }
        }
    }
}

/// A running toy.
pub struct Node {
    pub address: Address,
    pub server: ServerId,
    pub running: Running<Command>,
    pub service: Arc<ToyService>,
    pub seen: Arc<SeenByToy>,
    pub gone: Mutex<Receiver<()>>,
}

impl Node {
    /// One that listens on a free port.
    pub fn start(server: u64) -> Self {
        Self::at("127.0.0.1:0", server, CELL)
    }

    /// One that listens on `address`.
    pub fn at(address: &str, server: u64, cell: CellId) -> Self {
        Self::within(address, server, cell, LaunchLimits::default())
    }

    /// One whose peers may make it hold so much.
    pub fn limited(server: u64, limits: LaunchLimits) -> Self {
        Self::within("127.0.0.1:0", server, CELL, limits)
    }

    fn within(address: &str, server: u64, cell: CellId, limits: LaunchLimits) -> Self {
        let listener = bind(address).expect("a free port");
        let address = Address::new(listener.local_addr().unwrap().to_string());
        let server = ServerId::new(server);
        let (gone, seen_gone) = channel();
        let seen = Arc::new(SeenByToy::default());
        let driver = Toy::new(cell, server, Arc::clone(&seen), gone);
        let service = Arc::new(ToyService::default());
        let listener = Some(listener);
        let options = LaunchOptions { listener, workers: 2, limits, ..LaunchOptions::new("toy") };
        let running = launch(driver, Arc::clone(&service), options).expect("starts");
        Self { address, server, running, service, seen, gone: Mutex::new(seen_gone) }
    }

    /// Has this node ask; what comes of it is in the channel.
    pub fn begin(
        &self,
        to: &Address,
        server: ServerId,
        request: Request,
        payload: Bytes,
        timeout: Duration,
    ) -> Receiver<CallOutcome> {
        let (done, outcome) = channel();
        let (to, request) = (to.clone(), Box::new(request));
        let command = Command::Call { to, server, request, payload, timeout, done };
        self.running.sender().send(command).expect("runs");
        outcome
    }

    /// Has this node ask another, and waits.
    pub fn ask(&self, to: &Node, request: impl Into<Request>, payload: Bytes) -> CallOutcome {
        let outcome = self.begin(&to.address, to.server, request.into(), payload, PATIENCE);
        outcome.recv_timeout(2 * PATIENCE).expect("a call completes by its deadline")
    }

    /// Whether the other one answers.
    pub fn probe(&self, to: &Node) -> CallOutcome {
        self.ask(to, ChunkLength::default(), Bytes::new())
    }
}
