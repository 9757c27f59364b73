//! Who asks anything of anyone: requests that no client of ours would send, or send just then.

use crate::simulation::Simulation;
use bytes::Bytes;
use cairn_client_core::{NoDisk, NoJob};
use cairn_env::{Answer, Completion, Driver, Effect, EffectId, Event, Now};
use cairn_env_sim::{NodeId, WorldStep};
use cairn_protocol::{Failure, Hello, Request, Role};
use cairn_types::{Address, CellId, Incarnation, ServerId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Told once, when the answer is there.
type AnswerCallback = Box<dyn FnOnce(Result<Answer, Failure>)>;

/// One question.
pub(crate) struct ProbeRequest {
    pub(crate) to: Address,
    pub(crate) request: Request,
    pub(crate) payload: Bytes,
    pub(crate) done: AnswerCallback,
}

/// The machine that asks.
#[derive(Default)]
pub(crate) struct Prober {
    role: Role,
    next: u64,
    open: BTreeMap<EffectId, AnswerCallback>,
}

impl Prober {
    /// One that says it is this.
    pub(crate) fn of(role: Role) -> Self {
        Self { role, ..Self::default() }
    }
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Driver for Prober {
    type Service = NoDisk;
    type Command = ProbeRequest;

    fn handle(
        &mut self,
        now: Now,
        event: Event<ProbeRequest, NoJob>,
        effects: &mut Vec<Effect<NoJob>>,
    ) {
        match event {
            Event::Started => {
                let (cell, server) = (CellId::default(), ServerId::default());
                let hello = Hello::new(cell, self.role, server, Incarnation::default());
                effects.push(Effect::Identify(hello));
            }
            Event::Command(ProbeRequest { to, request, payload, done }) => {
                self.next += 1;
                let (id, server) = (EffectId(self.next), ServerId::default());
                self.open.insert(id, done);
                let deadline = now.time + PATIENCE;
                effects.push(Effect::Call { id, to, server, request, payload, deadline });
            }
            Event::Completed { id, result: Completion::Answered(answer) } => {
                let done = self.open.remove(&id).expect("an answer to a question of its own");
                done(answer);
            }
            _ => {}
        }
    }
}

/// An answer that may not be there yet.
pub(crate) type PendingAnswer = Rc<RefCell<Option<Result<Answer, Failure>>>>;

/// Has a prober ask.
pub(crate) fn send(
    sim: &mut Simulation,
    prober: NodeId,
    to: Address,
    (request, payload): (Request, Bytes),
) -> PendingAnswer {
    let awaited = PendingAnswer::default();
    let told = awaited.clone();
    let done = Box::new(move |answer| drop(told.borrow_mut().replace(answer)));
    sim.world.command(prober, Box::new(ProbeRequest { to, request, payload, done }));
    awaited
}

/// Asks, and lets things happen until the answer is there.
pub(crate) fn ask(
    sim: &mut Simulation,
    prober: NodeId,
    to: Address,
    request: Request,
) -> Result<Answer, Failure> {
    let awaited = send(sim, prober, to, (request, Bytes::new()));
    while awaited.borrow().is_none() {
        assert!(sim.world.step() != WorldStep::Over, "calls have deadlines");
    }
    awaited.take().expect("waited for")
}
