//! What is going to happen, by true time and then by the order in which it was arranged.

use crate::clock::WorldTime;
use crate::network::{CallOwner, ConnectionEnd, Direction};
use crate::node::NodeId;
use cairn_env::{ConnectionId, EffectId, Lane};
use cairn_protocol::{Failure, RequestId};
use std::any::Any;
use std::collections::BTreeMap;

/// One thing that happens. Those of a process carry its life: a dead one's never happen.
pub(crate) enum ScheduledEvent {
    /// A process begins.
    Started { node: NodeId, life: u64 },
    /// A timer of a driver.
    Woken { node: NodeId, life: u64, id: EffectId },
    /// The front frame of a pipe arrives.
    Deliver { connection: ConnectionId, direction: Direction },
    /// One end learns that a connection is gone.
    Lost { connection: ConnectionId, end: ConnectionEnd },
    /// Nobody answered the dialling.
    DialTimeout { connection: ConnectionId },
    /// A call's deadline.
    Deadline { connection: ConnectionId, request: RequestId },
    /// A call that was never sent comes back.
    CallFailed { node: NodeId, life: u64, owner: CallOwner, failure: Failure },
    /// A long batch of a process is over.
    BatchEnds { node: NodeId, life: u64 },
    /// A lane takes up what waits.
    LaneRun { node: NodeId, life: u64, lane: Lane },
    /// The lane's work is done.
    LaneDone { node: NodeId, life: u64, lane: Lane, ids: Vec<EffectId> },
    /// Pushed data has been received and verified; it is kept now.
    PushStored { push: u64 },
    /// A command of the program around a driver.
    Command { node: NodeId, life: u64, command: Box<dyn Any> },
    /// Something that the simulator asked for.
    Script { token: u64 },
}

/// The queue.
#[derive(Default)]
pub(crate) struct EventQueue {
    sequence: u64,
    by_time: BTreeMap<(WorldTime, u64), ScheduledEvent>,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: WorldTime, event: ScheduledEvent) {
        self.sequence += 1;
        self.by_time.insert((at, self.sequence), event);
    }

    pub(crate) fn pop(&mut self) -> Option<(WorldTime, u64, ScheduledEvent)> {
        self.by_time.pop_first().map(|((at, sequence), event)| (at, sequence, event))
    }

    pub(crate) fn next_time(&self) -> Option<WorldTime> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }
}
