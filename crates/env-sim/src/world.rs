//! The world: nodes, and the loop that makes the next thing happen.
//!
//! - W1: everything that happens comes out of one queue, in order; everything random comes out of
//!   one seed. Two runs of one seed are one run.
//! - W2: an event of a dead process reaches nobody; an event of a paused one waits.
//! - W3: a turn of a process ends after its first event, or later, and then has all in it that came
//!   meanwhile.

use crate::clock::{SimClock, WorldTime};
use crate::disk::SimDisk;
use crate::faults::Death;
use crate::machine::{Input, Machine, Output};
use crate::network::{Connection, Ends, Owner};
use crate::pushes::PushJob;
use crate::queue::{Happening, Queue};
use crate::trace::Trace;
use crate::watch::{MessageWatch, Seen};
use cairn_env::{Caller, ConnectionId, EffectId, Lane, Now, Payload};
use cairn_protocol::{Failure, Hello, Request, Response};
use cairn_types::{Address, Random};
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// One machine of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// What a process is started with.
pub struct Boot<'a> {
    /// Which machine.
    pub node: NodeId,
    /// Its disks.
    pub disks: &'a [SimDisk],
    /// Drawn at each start.
    pub seed: u64,
}

/// Starts a process on a machine; an error is what a person would read.
pub type Factory = Box<dyn FnMut(Boot<'_>) -> Result<Box<dyn Machine>, String>>;

/// A machine to be.
pub struct NodePlan {
    /// For people.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// Its disks, which outlive its processes.
    pub disks: Vec<SimDisk>,
    /// Starts its process.
    pub factory: Factory,
}

/// How fast things are in this world.
#[derive(Clone, Debug)]
pub struct WorldSettings {
    /// The seed.
    pub seed: u64,
    /// Tell each happening on standard error.
    pub verbose: bool,
    /// The least time a frame takes.
    pub latency_min: Duration,
    /// The usual most.
    pub latency_max: Duration,
    /// Of a thousand frames or disk jobs, how many take up to fifty times as long.
    pub stragglers_permille: u64,
    /// Of a thousand payloads, how many arrive with a bit flipped.
    pub corrupt_permille: u64,
    /// What a batch of disk jobs usually takes at most.
    pub disk_max: Duration,
    /// Of a thousand turns, how many take as long as a frame (W3).
    pub long_turns_permille: u64,
}

impl WorldSettings {
    /// A world like one rack of machines.
    #[must_use]
    pub fn rack(seed: u64) -> Self {
        Self {
            seed,
            verbose: false,
            latency_min: Duration::from_micros(50),
            latency_max: Duration::from_micros(500),
            stragglers_permille: 10,
            corrupt_permille: 0,
            disk_max: Duration::from_millis(1),
            long_turns_permille: 100,
        }
    }
}

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) disks: Vec<SimDisk>,
    pub(crate) factory: Factory,
    pub(crate) machine: Option<Box<dyn Machine>>,
    /// Counts its processes; the present one's number.
    pub(crate) life: u64,
    pub(crate) death: Option<Death>,
    pub(crate) clock: SimClock,
    pub(crate) hello: Option<Hello>,
    pub(crate) paused_until: WorldTime,
    /// A long turn of it is not over yet (W3).
    pub(crate) in_turn: bool,
    /// Its network and disk take this many times as long.
    pub(crate) slow: u32,
    pub(crate) slow_disk: u32,
    pub(crate) busy_lanes: BTreeSet<Lane>,
}

/// What came of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// Something happened.
    Quiet,
    /// The script's own happening of this token.
    Script(u64),
    /// Nothing is left to happen.
    Over,
}

/// Chooses the request whose connection stalls.
pub type Stall = Box<dyn FnMut(&Seen<'_>) -> bool>;

/// The simulated world.
pub struct SimWorld {
    pub(crate) settings: WorldSettings,
    pub(crate) now: WorldTime,
    pub(crate) queue: Queue,
    pub(crate) random: Random,
    pub(crate) nodes: Vec<Node>,
    pub(crate) by_address: BTreeMap<Address, NodeId>,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// The connection that a node keeps to another.
    pub(crate) kept: BTreeMap<(NodeId, NodeId), ConnectionId>,
    pub(crate) next_connection: u64,
    /// Requests that their listeners have not answered yet, and who asks.
    pub(crate) served: BTreeMap<Caller, (NodeId, Request)>,
    pub(crate) blocked: BTreeSet<(NodeId, NodeId)>,
    pub(crate) pushes: BTreeMap<u64, PushJob>,
    pub(crate) next_push: u64,
    pub(crate) watch: Option<Rc<RefCell<dyn MessageWatch>>>,
    pub(crate) stall: Option<Stall>,
    pub(crate) halts: Vec<(WorldTime, NodeId, String)>,
    pub(crate) reached: BTreeMap<&'static str, u64>,
    pub(crate) trace: Trace,
    outputs: Vec<Output>,
}

impl SimWorld {
    /// An empty world.
    #[must_use]
    pub fn new(settings: WorldSettings) -> Self {
        Self {
            random: Random::new(settings.seed),
            trace: Trace::new(settings.verbose),
            settings,
            now: WorldTime(0),
            queue: Queue::default(),
            nodes: Vec::new(),
            by_address: BTreeMap::new(),
            connections: BTreeMap::new(),
            kept: BTreeMap::new(),
            next_connection: 0,
            served: BTreeMap::new(),
            blocked: BTreeSet::new(),
            pushes: BTreeMap::new(),
            next_push: 0,
            watch: None,
            stall: None,
            halts: Vec::new(),
            reached: BTreeMap::new(),
            outputs: Vec::new(),
        }
    }

    /// Sees all messages from now on.
    pub fn set_watch(&mut self, watch: Rc<RefCell<dyn MessageWatch>>) {
        self.watch = Some(watch);
    }

    /// Adds a machine, switched off.
    pub fn add(&mut self, plan: NodePlan) -> NodeId {
        let id = NodeId(self.nodes.len());
        self.by_address.insert(plan.address, id);
        self.nodes.push(Node {
            name: plan.name,
            disks: plan.disks,
            factory: plan.factory,
            machine: None,
            life: 0,
            death: None,
            clock: SimClock::draw(&mut self.random),
            hello: None,
            paused_until: WorldTime(0),
            in_turn: false,
            slow: 1,
            slow_disk: 1,
            busy_lanes: BTreeSet::new(),
        });
        id
    }

    /// True time.
    #[must_use]
    pub fn now(&self) -> WorldTime {
        self.now
    }

    /// What a machine's own clocks say.
    #[must_use]
    pub fn local_now(&self, node: NodeId) -> Now {
        self.nodes[node.0].clock.now(self.now)
    }

    /// The world's generator; whoever draws from it takes part in the one seed (W1).
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// How often each thing was reached.
    #[must_use]
    pub fn reached(&self) -> &BTreeMap<&'static str, u64> {
        &self.reached
    }

    /// Counts something reached.
    pub fn reach(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    /// The trace.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// Processes that stopped by themselves, and why.
    #[must_use]
    pub fn halts(&self) -> &[(WorldTime, NodeId, String)] {
        &self.halts
    }

    /// The reason why a process stopped by itself, where that was meant to come.
    pub fn take_halt(&mut self, node: NodeId) -> Option<String> {
        let at = self.halts.iter().position(|(_, halted, _)| *halted == node)?;
        Some(self.halts.remove(at).2)
    }

    /// Whether a process runs there.
    #[must_use]
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.nodes[node.0].machine.is_some()
    }

    /// A machine's name.
    #[must_use]
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.0].name
    }

    /// A machine's disks.
    #[must_use]
    pub fn disks(&self, node: NodeId) -> &[SimDisk] {
        &self.nodes[node.0].disks
    }

    /// Arranges for [`Stepped::Script`].
    pub fn script(&mut self, after: Duration, token: u64) {
        self.queue.push(self.now.after(after), Happening::Script { token });
    }

    /// Hands a command to a driver, of the driver's command type.
    pub fn command(&mut self, node: NodeId, command: Box<dyn Any>) {
        let life = self.nodes[node.0].life;
        self.queue.push(self.now, Happening::Command { node, life, command });
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next_time(&self) -> Option<WorldTime> {
        self.queue.next_time()
    }

    /// Makes the next thing happen.
    pub fn step(&mut self) -> Stepped {
        let Some((at, sequence, happening)) = self.queue.pop() else { return Stepped::Over };
        self.now = self.now.max(at);
        if let Some(until) = self.subject(&happening).and_then(|node| self.pause_of(node)) {
            self.queue.push(until, happening);
            return Stepped::Quiet;
        }
        self.trace.at(self.now);
        self.trace.mix(&[at.0, sequence]);
        self.happen(happening)
    }

    fn pause_of(&self, node: NodeId) -> Option<WorldTime> {
        let until = self.nodes[node.0].paused_until;
        (until > self.now).then_some(until)
    }

    /// Whose process must be awake for it.
    fn subject(&self, happening: &Happening) -> Option<NodeId> {
        match happening {
            Happening::Started { node, .. }
            | Happening::Woken { node, .. }
            | Happening::CallFailed { node, .. }
            | Happening::TurnEnds { node, .. }
            | Happening::LaneRun { node, .. }
            | Happening::LaneDone { node, .. }
            | Happening::Command { node, .. } => Some(*node),
            Happening::Deliver { connection, direction } => {
                self.connections.get(connection).map(|c| c.ends(*direction).1)
            }
            Happening::Lost { connection, end } => {
                let connection = self.connections.get(connection)?;
                Some(if *end == Ends::Dialler { connection.from } else { connection.to })
            }
            Happening::DialTimeout { connection } | Happening::Deadline { connection, .. } => {
                self.connections.get(connection).map(|c| c.from)
            }
            Happening::PushStored { push } => self.pushes.get(push).map(|job| job.node),
            Happening::Script { .. } => None,
        }
    }

    /// Whether the process of this life still runs.
    pub(crate) fn lives(&self, node: NodeId, life: u64) -> bool {
        let node = &self.nodes[node.0];
        node.machine.is_some() && node.life == life
    }

    fn happen(&mut self, happening: Happening) -> Stepped {
        match happening {
            Happening::Script { token } => return Stepped::Script(token),
            Happening::Started { node, life } => self.tell(node, life, Input::Started),
            Happening::Woken { node, life, id } => self.tell(node, life, Input::Woken(id)),
            Happening::Command { node, life, command } => {
                self.tell(node, life, Input::Command(command));
            }
            Happening::CallFailed { node, life, owner, failure } => {
                if self.lives(node, life) {
                    self.complete(node, owner, Err(failure));
                }
            }
            Happening::Deliver { connection, direction } => self.deliver(connection, direction),
            Happening::Lost { connection, end } => self.lost(connection, end),
            Happening::DialTimeout { connection } => self.dial_timeout(connection),
            Happening::Deadline { connection, request } => self.deadline(connection, request),
            Happening::TurnEnds { node, life } if self.lives(node, life) => {
                self.nodes[node.0].in_turn = false;
                self.drive(node, |machine, now, out| machine.end_of_batch(now, out));
            }
            Happening::TurnEnds { .. } => {}
            Happening::LaneRun { node, life, lane } => self.lane_run(node, life, lane),
            Happening::LaneDone { node, life, lane, ids } => self.lane_done(node, life, lane, ids),
            Happening::PushStored { push } => self.push_stored(push),
        }
        Stepped::Quiet
    }

    fn tell(&mut self, node: NodeId, life: u64, input: Input) {
        if self.lives(node, life) {
            self.feed(node, input);
        }
    }

    /// Hands an event to a driver, and does what it wants done.
    pub(crate) fn feed(&mut self, node: NodeId, input: Input) {
        self.drive(node, |machine, now, out| machine.handle(now, input, out));
        let it = &self.nodes[node.0];
        if it.in_turn {
            return self.reach("turn of several events");
        }
        let life = it.life;
        if self.random.chance(self.settings.long_turns_permille) {
            let WorldSettings { latency_min, latency_max, .. } = self.settings;
            let span = self.span(latency_min, latency_max, 1);
            self.nodes[node.0].in_turn = true;
            self.queue.push(self.now.after(span), Happening::TurnEnds { node, life });
        } else {
            self.drive(node, |machine, now, out| machine.end_of_batch(now, out));
        }
    }

    fn drive(&mut self, node: NodeId, with: impl FnOnce(&mut dyn Machine, Now, &mut Vec<Output>)) {
        let now = self.local_now(node);
        let Some(machine) = self.nodes[node.0].machine.as_mut() else { return };
        let mut outputs = std::mem::take(&mut self.outputs);
        with(machine.as_mut(), now, &mut outputs);
        for output in outputs.drain(..) {
            self.act(node, output);
        }
        self.outputs = outputs;
    }

    fn act(&mut self, node: NodeId, output: Output) {
        if self.nodes[node.0].machine.is_none() {
            return;
        }
        let life = self.nodes[node.0].life;
        match output {
            Output::Call { id, to, server, request, payload, deadline } => {
                let deadline = self.nodes[node.0].clock.true_time(deadline);
                self.call(node, Owner::Driver(id), &to, server, &request, payload, deadline);
            }
            Output::Reply { to, answer, payload } => self.reply(node, to, answer, payload),
            Output::Wake { id, at } => self.wake(node, life, id, at),
            Output::Disk { lane } => self.lane_wants(node, lane),
            Output::Identify(hello) => self.nodes[node.0].hello = Some(hello),
            Output::Say(line) => self.trace.line(|| format!("{node:?} says: {line}")),
            Output::Halt(reason) => {
                self.trace.line(|| format!("{} halts: {reason}", node.0));
                self.halts.push((self.now, node, reason));
                self.kill(node);
            }
        }
    }

    fn wake(&mut self, node: NodeId, life: u64, id: EffectId, at: cairn_types::Time) {
        let at = self.nodes[node.0].clock.true_time(at).max(self.now);
        self.queue.push(at, Happening::Woken { node, life, id });
    }

    fn reply(
        &mut self,
        node: NodeId,
        to: Caller,
        answer: Result<Response, Failure>,
        payload: Payload,
    ) {
        let Some((from, request)) = self.served.remove(&to) else {
            panic!("a request is answered once, and by its own listener");
        };
        if let Some(watch) = &self.watch {
            let seen = Seen { at: self.now, from, to: node, request: &request };
            watch.borrow_mut().answered(&seen, &answer);
        }
        if !self.connections.contains_key(&to.connection) {
            return self.reach("answer dropped: connection gone");
        }
        self.send_answer(to, request.kind(), &answer, payload);
    }

    /// A span between `min` and `max`, rarely up to fifty times as long.
    pub(crate) fn span(&mut self, min: Duration, max: Duration, slow: u32) -> Duration {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).expect("short spans");
        let mut span = nanos(min) + self.random.below(nanos(max) - nanos(min) + 1);
        if self.random.chance(self.settings.stragglers_permille) {
            span += self.random.below(50 * nanos(max));
        }
        Duration::from_nanos(span) * slow
    }
}
