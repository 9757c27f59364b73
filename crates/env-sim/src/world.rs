//! The world: nodes, and the loop that makes the next thing happen.
//!
//! - W1: everything that happens comes out of one queue, in order; everything random comes out of
//!   one seed. Two runs of one seed are one run.
//! - W2: an event of a dead process reaches nobody; an event of a paused one waits.
//! - W3: a batch of a process ends after its first event, or later, and then has all in it that
//!   came meanwhile.

use crate::clock::{SimClock, WorldTime};
use crate::disk::SimDisk;
use crate::network::{CallOwner, ConnectionEnd, Delivery, Network, NetworkHandler};
use crate::node::{NodeId, NodePlan, NodeState};
use crate::process::{Process, ProcessInput, ProcessOutput};
use crate::pushes::PushJobs;
use crate::queue::ScheduledEvent;
use crate::timeline::{Timeline, WorldSettings};
use crate::trace::Trace;
use crate::watch::{MessageWatch, SeenRequest};
use cairn_env::{Answer, Caller, EffectId, Now, Payload};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::{Address, Random};
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// What came of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldStep {
    /// Something happened.
    Quiet,
    /// The script's own event of this token.
    Script(u64),
    /// Nothing is left to happen.
    Over,
}

/// The simulated world.
pub struct SimWorld {
    pub(crate) time: Timeline,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) network: Network,
    pub(crate) pushes: PushJobs,
    /// Requests that their listeners have not answered yet, and who asks.
    served: BTreeMap<Caller, (NodeId, Request)>,
    pub(crate) watch: Option<Rc<RefCell<dyn MessageWatch>>>,
    halts: Vec<(WorldTime, NodeId, String)>,
    /// Empty between two events; kept for its memory.
    outputs: Vec<ProcessOutput>,
}

impl SimWorld {
    /// An empty world.
    #[must_use]
    pub fn new(settings: WorldSettings) -> Self {
        Self {
            time: Timeline::new(settings),
            nodes: Vec::new(),
            network: Network::default(),
            pushes: PushJobs::default(),
            served: BTreeMap::new(),
            watch: None,
            halts: Vec::new(),
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
        self.network.by_address.insert(plan.address, id);
        self.nodes.push(NodeState {
            name: plan.name,
            disks: plan.disks,
            factory: plan.factory,
            process: None,
            life: 0,
            death: None,
            clock: SimClock::draw(&mut self.time.random),
            hello: None,
            paused_until: WorldTime(0),
            in_batch: false,
            slow: 1,
            slow_disk: 1,
            busy_lanes: BTreeSet::new(),
        });
        id
    }

    /// A machine's clocks run as fast as any may, or as slow (R4): before anything has happened.
    pub fn clock_at_bound(&mut self, node: NodeId, is_fast: bool) {
        assert!(self.time.now == WorldTime(0), "a clock's rate is constant (K1)");
        self.nodes[node.0].clock.run_at_bound(is_fast);
    }

    /// True time.
    #[must_use]
    pub fn now(&self) -> WorldTime {
        self.time.now
    }

    /// What a machine's own clocks say.
    #[must_use]
    pub fn local_now(&self, node: NodeId) -> Now {
        self.nodes[node.0].clock.now(self.time.now)
    }

    /// The world's generator; whoever draws from it takes part in the one seed (W1).
    pub fn random(&mut self) -> &mut Random {
        &mut self.time.random
    }

    /// How often each thing was reached.
    #[must_use]
    pub fn reached(&self) -> &BTreeMap<&'static str, u64> {
        &self.time.reached
    }

    /// Counts something reached.
    pub fn reach(&mut self, what: &'static str) {
        self.time.reach(what);
    }

    /// The trace.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.time.trace
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
        self.nodes[node.0].process.is_some()
    }

    /// A machine's name.
    #[must_use]
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.0].name
    }

    /// Whether a machine runs, at its own speed, with disks that have room and do nothing wrong.
    #[must_use]
    pub fn is_well(&self, node: NodeId) -> bool {
        let it = &self.nodes[node.0];
        let quick = it.slow == 1 && it.slow_disk == 1 && !self.is_paused(node);
        it.process.is_some() && quick && it.disks.iter().all(SimDisk::is_well)
    }

    /// Whether a process stands still there.
    #[must_use]
    pub fn is_paused(&self, node: NodeId) -> bool {
        self.pause_of(node).is_some()
    }

    /// Whether what one machine sends reaches another.
    #[must_use]
    pub fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        !self.network.blocked.contains(&(from, to))
    }

    /// The machine that listens there.
    #[must_use]
    pub fn node_at(&self, address: &Address) -> Option<NodeId> {
        self.network.by_address.get(address).copied()
    }

    /// A machine's disks.
    #[must_use]
    pub fn disks(&self, node: NodeId) -> &[SimDisk] {
        &self.nodes[node.0].disks
    }

    /// Arranges for [`WorldStep::Script`].
    pub fn script(&mut self, after: Duration, token: u64) {
        self.time.schedule(after, ScheduledEvent::Script { token });
    }

    /// Hands a command to a driver, of the driver's command type.
    pub fn command(&mut self, node: NodeId, command: Box<dyn Any>) {
        let life = self.nodes[node.0].life;
        self.time.queue.push(self.time.now, ScheduledEvent::Command { node, life, command });
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next_time(&self) -> Option<WorldTime> {
        self.time.queue.next_time()
    }

    /// Makes the next thing happen.
    pub fn step(&mut self) -> WorldStep {
        let Some((at, sequence, event)) = self.time.queue.pop() else { return WorldStep::Over };
        self.time.now = self.time.now.max(at);
        if let Some(until) = self.subject(&event).and_then(|node| self.pause_of(node)) {
            self.time.queue.push(until, event);
            return WorldStep::Quiet;
        }
        self.time.trace.at(self.time.now);
        self.time.trace.mix(&[at.0, sequence]);
        self.happen(event)
    }

    /// Lets something happen in the network, and hands over what it has for the processes.
    pub(crate) fn with_network<T>(&mut self, act: impl FnOnce(&mut NetworkHandler<'_>) -> T) -> T {
        let mut deliveries = Vec::new();
        let (network, time) = (&mut self.network, &mut self.time);
        let nodes = &self.nodes;
        let result = act(&mut NetworkHandler { network, time, nodes, deliveries: &mut deliveries });
        for delivery in deliveries {
            self.hand_over(delivery);
        }
        result
    }

    fn hand_over(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Push { to, caller, push, payload } => {
                self.serve_push(to, caller, push, payload);
            }
            Delivery::Request { from, to, caller, request } => {
                self.served.insert(caller, (from, request.clone()));
                if let Some(watch) = &self.watch {
                    let seen = SeenRequest { at: self.time.now, from, to, request: &request };
                    watch.borrow_mut().delivered(&seen);
                }
                self.feed(to, ProcessInput::Request { from: caller, request });
            }
            Delivery::Identified { to, connection, credentials } => {
                self.feed(to, ProcessInput::Identified(connection, credentials));
            }
            Delivery::Completed { to, life, owner, result } => {
                if self.lives(to, life) {
                    self.complete(to, owner, result);
                }
            }
            Delivery::Disconnected { to, life, connection } => {
                self.tell(to, life, ProcessInput::Disconnected(connection));
            }
        }
    }

    fn complete(&mut self, node: NodeId, owner: CallOwner, result: Result<Answer, Failure>) {
        self.time.trace.line(|| match &result {
            Ok(answer) => {
                format!("{node:?} <- {:?} and {} bytes", answer.response, answer.payload.len())
            }
            Err(failure) => format!("{node:?} <- {failure:?}"),
        });
        match owner {
            CallOwner::Driver(id) => self.feed(node, ProcessInput::Answered(id, result)),
            CallOwner::Chain(push) => self.push_passed_on(push, result.map(|_| ())),
        }
    }

    fn pause_of(&self, node: NodeId) -> Option<WorldTime> {
        let until = self.nodes[node.0].paused_until;
        (until > self.time.now).then_some(until)
    }

    /// Whose process must be awake for it.
    fn subject(&self, event: &ScheduledEvent) -> Option<NodeId> {
        match event {
            ScheduledEvent::Started { node, .. }
            | ScheduledEvent::Woken { node, .. }
            | ScheduledEvent::CallFailed { node, .. }
            | ScheduledEvent::BatchEnds { node, .. }
            | ScheduledEvent::LaneRun { node, .. }
            | ScheduledEvent::LaneDone { node, .. }
            | ScheduledEvent::Command { node, .. } => Some(*node),
            ScheduledEvent::Deliver { connection, direction } => {
                self.network.connections.get(connection).map(|c| c.ends(*direction).1)
            }
            ScheduledEvent::Lost { connection, end } => {
                let connection = self.network.connections.get(connection)?;
                Some(if *end == ConnectionEnd::Dialler { connection.from } else { connection.to })
            }
            ScheduledEvent::DialTimeout { connection }
            | ScheduledEvent::Deadline { connection, .. } => {
                self.network.connections.get(connection).map(|c| c.from)
            }
            ScheduledEvent::PushStored { push } => self.pushes.node_of(*push),
            ScheduledEvent::Script { .. } => None,
        }
    }

    /// Whether the process of this life still runs.
    pub(crate) fn lives(&self, node: NodeId, life: u64) -> bool {
        self.nodes[node.0].lives(life)
    }

    fn happen(&mut self, event: ScheduledEvent) -> WorldStep {
        match event {
            ScheduledEvent::Script { token } => return WorldStep::Script(token),
            ScheduledEvent::Started { node, life } => self.tell(node, life, ProcessInput::Started),
            ScheduledEvent::Woken { node, life, id } => {
                self.tell(node, life, ProcessInput::Woken(id))
            }
            ScheduledEvent::Command { node, life, command } => {
                self.tell(node, life, ProcessInput::Command(command));
            }
            ScheduledEvent::CallFailed { node, life, owner, failure } => {
                if self.lives(node, life) {
                    self.complete(node, owner, Err(failure));
                }
            }
            ScheduledEvent::Deliver { connection, direction } => {
                self.with_network(|net| net.deliver(connection, direction));
            }
            ScheduledEvent::Lost { connection, end } => {
                self.with_network(|net| net.lost(connection, end));
            }
            ScheduledEvent::DialTimeout { connection } => {
                self.with_network(|net| net.dial_timeout(connection));
            }
            ScheduledEvent::Deadline { connection, request } => {
                self.with_network(|net| net.deadline(connection, request));
            }
            ScheduledEvent::BatchEnds { node, life } if self.lives(node, life) => {
                self.nodes[node.0].in_batch = false;
                self.drive(node, |process, now, out| process.end_of_batch(now, out));
            }
            ScheduledEvent::BatchEnds { .. } => {}
            ScheduledEvent::LaneRun { node, life, lane } => self.lane_run(node, life, lane),
            ScheduledEvent::LaneDone { node, life, lane, ids } => {
                self.lane_done(node, life, lane, ids)
            }
            ScheduledEvent::PushStored { push } => self.push_stored(push),
        }
        WorldStep::Quiet
    }

    fn tell(&mut self, node: NodeId, life: u64, input: ProcessInput) {
        if self.lives(node, life) {
            self.feed(node, input);
        }
    }

    /// Hands an event to a driver, and does what it wants done.
    pub(crate) fn feed(&mut self, node: NodeId, input: ProcessInput) {
        self.drive(node, |process, now, out| process.handle(now, input, out));
        let it = &self.nodes[node.0];
        if it.in_batch {
            return self.time.reach("batch of several events");
        }
        let life = it.life;
        if self.time.random.chance(self.time.settings.long_batches_permille) {
            let span = self.time.latency(1);
            self.nodes[node.0].in_batch = true;
            self.time.schedule(span, ScheduledEvent::BatchEnds { node, life });
        } else {
            self.drive(node, |process, now, out| process.end_of_batch(now, out));
        }
    }

    fn drive(
        &mut self,
        node: NodeId,
        with: impl FnOnce(&mut dyn Process, Now, &mut Vec<ProcessOutput>),
    ) {
        let now = self.local_now(node);
        // What it did a moment ago may have ended it (W2).
        let Some(process) = self.nodes[node.0].process.as_mut() else { return };
        let mut outputs = std::mem::take(&mut self.outputs);
        with(process.as_mut(), now, &mut outputs);
        if self.nodes[node.0].disks.iter().any(SimDisk::fuse_blown) {
            outputs.clear();
            self.time.reach("killed by an unreadable sector under a mapping");
            self.kill(node);
        }
        for output in outputs.drain(..) {
            self.act(node, output);
        }
        self.outputs = outputs;
    }

    fn act(&mut self, node: NodeId, output: ProcessOutput) {
        if self.nodes[node.0].process.is_none() {
            return;
        }
        let life = self.nodes[node.0].life;
        match output {
            ProcessOutput::Call { id, to, server, request, payload, deadline } => {
                let deadline = self.nodes[node.0].clock.true_time(deadline);
                let (owner, to) = (CallOwner::Driver(id), (&to, server));
                self.with_network(|net| net.call(node, owner, to, &request, payload, deadline));
            }
            ProcessOutput::Reply { to, answer, payload } => self.reply(node, to, answer, payload),
            ProcessOutput::Wake { id, at } => self.wake(node, life, id, at),
            ProcessOutput::Disk { lane } => self.lane_wants(node, lane),
            ProcessOutput::Identify(hello) => self.nodes[node.0].hello = Some(hello),
            ProcessOutput::Log(event) => {
                self.time.trace.line(|| format!("{node:?} logs {event}"));
            }
            ProcessOutput::Halt(reason) => {
                self.time.trace.line(|| format!("{} halts: {reason}", node.0));
                self.halts.push((self.time.now, node, reason));
                self.kill(node);
            }
        }
    }

    fn wake(&mut self, node: NodeId, life: u64, id: EffectId, at: cairn_types::Time) {
        let at = self.nodes[node.0].clock.true_time(at).max(self.time.now);
        self.time.queue.push(at, ScheduledEvent::Woken { node, life, id });
    }

    fn reply(
        &mut self,
        node: NodeId,
        to: Caller,
        answer: Result<Response, Failure>,
        payload: Payload,
    ) {
        let Some((from, request)) = self.served.remove(&to) else {
            panic!("a request is answered once, and by its own listener: {to:?} by {answer:?}");
        };
        if let Some(watch) = &self.watch {
            let seen = SeenRequest { at: self.time.now, from, to: node, request: &request };
            watch.borrow_mut().answered(&seen, &answer);
        }
        if !self.network.connections.contains_key(&to.connection) {
            return self.time.reach("answer dropped: connection gone");
        }
        self.with_network(|net| net.send_answer(to, request.kind(), &answer, payload));
    }
}
