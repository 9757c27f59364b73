//! The way out of the client: calls, whose they are, and the wake behind all alarms.
//!
//! - E1: each call of a task is answered once, and its answer moves that task, unless the task has
//!   given it up.
//! - E2: the numbers of calls grow for ever, so they also tell which of two questions is the
//!   younger.

use crate::ids::{OperationId, TaskId};
use crate::masters::primary_watch::AskedMaster;
use crate::no_disk::NoJob;
use crate::producers::ProducerKey;
use crate::timers::{TimerKey, Timers};
use bytes::Bytes;
use cairn_env::{Caller, Effect, EffectId, Payload};
use cairn_protocol::{Failure, FindPrimary, Hello, Request};
use cairn_types::{Address, ServerId, Time};
use std::collections::BTreeMap;

/// What an alarm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    Task(TaskId),
    Deadline(OperationId),
    Pause(OperationId),
    /// A producer has rested.
    Producer(ProducerKey),
    /// It is time to look for a master.
    Masters,
}

/// Who waits for the answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallOwner {
    /// A task that asks a chunkserver.
    Task(TaskId),
    /// A task that asks a master.
    MasterTask(TaskId, AskedMaster),
    /// Whoever looks for the primary: this master was asked.
    Search(Address),
}

/// A question to another party.
#[derive(Debug)]
pub(crate) struct OutgoingCall {
    pub(crate) to: Address,
    /// The server meant; none where any will do (R5).
    pub(crate) server: ServerId,
    pub(crate) request: Request,
    pub(crate) payload: Bytes,
    pub(crate) deadline: Time,
}

/// Effects that wait to be handed over, and what is expected back of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect<NoJob>>,
    /// Whose calls are under way.
    calls: BTreeMap<EffectId, CallOwner>,
    alarms: Timers<Alarm>,
    last_number: u64,
}

impl Outbox {
    /// Makes a call whose answer is `owner`'s.
    pub(crate) fn call(&mut self, owner: CallOwner, call: OutgoingCall) -> EffectId {
        let id = self.send(call);
        let same = self.calls.insert(id, owner);
        assert!(same.is_none(), "E2: {id:?} was given out before");
        id
    }

    /// Asks a master who is in charge.
    pub(crate) fn find_primary(&mut self, to: Address, deadline: Time) {
        let (server, payload) = (ServerId::default(), Bytes::new());
        let request = FindPrimary {}.into();
        let call = OutgoingCall { to: to.clone(), server, request, payload, deadline };
        self.call(CallOwner::Search(to), call);
    }

    /// Whoever made the call does not want its answer any more.
    pub(crate) fn give_up(&mut self, id: EffectId) {
        self.calls.remove(&id);
    }

    /// Makes a call for whose answer nobody waits.
    pub(crate) fn tell(&mut self, call: OutgoingCall) {
        self.send(call);
    }

    fn send(&mut self, call: OutgoingCall) -> EffectId {
        let id = self.next_id();
        let OutgoingCall { to, server, request, payload, deadline } = call;
        self.effects.push(Effect::Call { id, to, server, request, payload, deadline });
        id
    }

    fn next_id(&mut self) -> EffectId {
        self.last_number += 1;
        EffectId(self.last_number)
    }

    /// The number of the last call: what is asked later has a higher one (E2).
    pub(crate) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Whose call this was (E1); nobody's where it was only told, or is given up.
    pub(crate) fn take_call(&mut self, id: EffectId) -> Option<CallOwner> {
        assert!(id.0 <= self.last_number, "E1: {id:?} was never asked");
        self.calls.remove(&id)
    }

    /// Says who this client is in handshakes from now on.
    pub(crate) fn identify(&mut self, hello: Hello) {
        self.effects.push(Effect::Identify(hello));
    }

    /// Refuses a request.
    pub(crate) fn refuse(&mut self, to: Caller, failure: Failure) {
        let payload = Payload::default();
        self.effects.push(Effect::Reply { to, answer: Err(failure), payload });
    }

    pub(crate) fn set_alarm(&mut self, at: Time, alarm: Alarm) -> TimerKey {
        self.alarms.set(at, alarm)
    }

    pub(crate) fn cancel_alarm(&mut self, key: TimerKey) {
        self.alarms.cancel(key);
    }

    /// Takes an alarm that is due.
    pub(crate) fn due_alarm(&mut self, now: Time) -> Option<Alarm> {
        self.alarms.pop(now)
    }

    /// The world has woken this client.
    pub(crate) fn woken(&mut self) {
        self.alarms.woken();
    }

    /// Hands all effects over, with a wake for the earliest alarm.
    pub(crate) fn hand_over(&mut self, effects: &mut Vec<Effect<NoJob>>) {
        if let Some(at) = self.alarms.arm() {
            let id = self.next_id();
            self.effects.push(Effect::Wake { id, at });
        }
        effects.append(&mut self.effects);
    }
}
