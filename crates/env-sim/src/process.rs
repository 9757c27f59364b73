//! Any driver with its service, behind one object-safe face: the world moves ids, the typed jobs,
//! results and commands stay in here.

use crate::clock::WorldTime;
use crate::node::NodeId;
use crate::watch::JobWatch;
use bytes::Bytes;
use cairn_env::{
    Answer, Caller, Completion, ConnectionId, Driver, Effect, EffectId, Event, Lane, LogEvent, Now,
    Payload, PushedData, Service,
};
use cairn_protocol::{Failure, Hello, Request, Response};
use cairn_types::{Address, PushId, ServerId, Time};
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// What a driver is told, without its types.
pub enum ProcessInput {
    /// See [`Event::Started`].
    Started,
    /// See [`Event::Request`].
    Request {
        /// Whom to answer.
        from: Caller,
        /// The question.
        request: Request,
    },
    /// See [`Event::Identified`].
    Identified(ConnectionId, Bytes),
    /// See [`Event::Disconnected`].
    Disconnected(ConnectionId),
    /// See [`Completion::Answered`].
    Answered(EffectId, Result<Answer, Failure>),
    /// The job of this id, which ran before, is reported now.
    DiskDone(EffectId),
    /// See [`Completion::Woken`].
    Woken(EffectId),
    /// See [`Event::Command`]; of the driver's type.
    Command(Box<dyn Any>),
}

/// What a driver wants, without its types.
pub enum ProcessOutput {
    /// See [`Effect::Call`].
    Call {
        /// Comes back.
        id: EffectId,
        /// Where to.
        to: Address,
        /// The server meant.
        server: ServerId,
        /// The question.
        request: Request,
        /// Bulk bytes.
        payload: Bytes,
        /// When to give up, by the driver's clock.
        deadline: Time,
    },
    /// See [`Effect::Reply`].
    Reply {
        /// Whom.
        to: Caller,
        /// With what.
        answer: Result<Response, Failure>,
        /// Bulk bytes.
        payload: Payload,
    },
    /// See [`Effect::Wake`].
    Wake {
        /// Comes back.
        id: EffectId,
        /// When, by the driver's clock.
        at: Time,
    },
    /// A job waits in this lane.
    Disk {
        /// Its lane.
        lane: Lane,
    },
    /// See [`Effect::Identify`].
    Identify(Hello),
    /// See [`Effect::Log`].
    Log(LogEvent),
    /// See [`Effect::Halt`].
    Halt(String),
}

/// A driver and its service, as the world drives them.
pub trait Process {
    /// Takes one event.
    fn handle(&mut self, now: Now, input: ProcessInput, out: &mut Vec<ProcessOutput>);
    /// See [`Driver::end_of_batch`].
    fn end_of_batch(&mut self, now: Now, out: &mut Vec<ProcessOutput>);
    /// How many jobs wait in a lane.
    fn waiting(&self, lane: Lane) -> usize;
    /// Runs the first `count` waiting jobs of a lane together; their results wait inside.
    fn run(&mut self, at: WorldTime, lane: Lane, count: usize) -> Vec<EffectId>;
    /// See [`Service::keep`].
    ///
    /// # Errors
    /// As the service says.
    fn keep(&self, push: PushId, data: PushedData) -> Result<(), Failure>;
}

/// A watcher of this driver's jobs.
pub type WatchOf<R> = Rc<
    RefCell<
        dyn JobWatch<
                <<R as Driver>::Service as Service>::Job,
                <<R as Driver>::Service as Service>::JobResult,
            >,
    >,
>;

type JobOf<R> = <<R as Driver>::Service as Service>::Job;
type ResultOf<R> = <<R as Driver>::Service as Service>::JobResult;

/// A driver in the simulated world.
pub struct DriverProcess<R: Driver> {
    node: NodeId,
    driver: R,
    service: Arc<R::Service>,
    watch: Option<WatchOf<R>>,
    lanes: BTreeMap<Lane, VecDeque<(EffectId, JobOf<R>)>>,
    done: BTreeMap<EffectId, ResultOf<R>>,
    effects: Vec<Effect<JobOf<R>>>,
}

impl<R> DriverProcess<R>
where
    R: Driver + 'static,
    R::Command: 'static,
    JobOf<R>: Clone,
{
    /// Houses a driver; `watch` sees what its disks do.
    pub fn boxed(
        node: NodeId,
        driver: R,
        service: Arc<R::Service>,
        watch: Option<WatchOf<R>>,
    ) -> Box<dyn Process> {
        Box::new(Self {
            node,
            driver,
            service,
            watch,
            lanes: BTreeMap::new(),
            done: BTreeMap::new(),
            effects: Vec::new(),
        })
    }

    /// What the driver wants, without its types.
    fn pass_on(&mut self, mut effects: Vec<Effect<JobOf<R>>>, out: &mut Vec<ProcessOutput>) {
        for effect in effects.drain(..) {
            out.push(match effect {
                Effect::Call { id, to, server, request, payload, deadline } => {
                    ProcessOutput::Call { id, to, server, request, payload, deadline }
                }
                Effect::Reply { to, answer, payload } => {
                    ProcessOutput::Reply { to, answer, payload }
                }
                Effect::Wake { id, at } => ProcessOutput::Wake { id, at },
                Effect::Disk { id, lane, job } => {
                    self.lanes.entry(lane).or_default().push_back((id, job));
                    ProcessOutput::Disk { lane }
                }
                Effect::Identify(hello) => ProcessOutput::Identify(hello),
                Effect::Log(event) => ProcessOutput::Log(event),
                Effect::Halt(reason) => ProcessOutput::Halt(reason),
            });
        }
        self.effects = effects;
    }

    fn typed(&mut self, input: ProcessInput) -> Event<R::Command, ResultOf<R>> {
        match input {
            ProcessInput::Started => Event::Started,
            ProcessInput::Request { from, request } => Event::Request { from, request },
            ProcessInput::Identified(connection, credentials) => {
                Event::Identified { connection, credentials }
            }
            ProcessInput::Disconnected(connection) => Event::Disconnected { connection },
            ProcessInput::Answered(id, result) => {
                Event::Completed { id, result: Completion::Answered(result) }
            }
            ProcessInput::DiskDone(id) => {
                let result = self.done.remove(&id).expect("a job that ran has a result");
                Event::Completed { id, result: Completion::Disk(result) }
            }
            ProcessInput::Woken(id) => Event::Completed { id, result: Completion::Woken },
            ProcessInput::Command(command) => Event::Command(
                *command.downcast::<R::Command>().expect("a command of this driver's kind"),
            ),
        }
    }
}

impl<R> Process for DriverProcess<R>
where
    R: Driver + 'static,
    R::Command: 'static,
    JobOf<R>: Clone,
{
    fn handle(&mut self, now: Now, input: ProcessInput, out: &mut Vec<ProcessOutput>) {
        let event = self.typed(input);
        let mut effects = std::mem::take(&mut self.effects);
        self.driver.handle(now, event, &mut effects);
        self.pass_on(effects, out);
    }

    fn end_of_batch(&mut self, now: Now, out: &mut Vec<ProcessOutput>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.driver.end_of_batch(now, &mut effects);
        self.pass_on(effects, out);
    }

    fn waiting(&self, lane: Lane) -> usize {
        self.lanes.get(&lane).map_or(0, VecDeque::len)
    }

    fn run(&mut self, at: WorldTime, lane: Lane, count: usize) -> Vec<EffectId> {
        let Some(waiting) = self.lanes.get_mut(&lane) else { return Vec::new() };
        let batch: Vec<_> = waiting.drain(..count.min(waiting.len())).collect();
        if waiting.is_empty() {
            self.lanes.remove(&lane);
        }
        let (ids, jobs): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let seen = self.watch.as_ref().map(|_| jobs.clone());
        let results = self.service.run(jobs);
        assert_eq!(results.len(), ids.len(), "one result for each job");
        for (at_index, (id, result)) in ids.iter().zip(results).enumerate() {
            if let (Some(watch), Some(seen)) = (&self.watch, &seen) {
                watch.borrow_mut().ran(at, self.node, &seen[at_index], &result);
            }
            self.done.insert(*id, result);
        }
        ids
    }

    fn keep(&self, push: PushId, data: PushedData) -> Result<(), Failure> {
        self.service.keep(push, data)
    }
}
