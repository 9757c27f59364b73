//! What all rooms of the network share: the clock, epoll, alarms, buffers to read into, and where
//! they leave what others are to do.
//!
//! ```text
//!   inbound ──► news (for the driver) ◄── outbound
//!      └───► relay events (for the relays) ◄───┘
//! ```
//! - X1: a room never calls one that stands above it: it leaves an event here, and goes on.

use crate::frame_reader::ReadBuffers;
use crate::ids::RelayId;
use crate::poller::Poller;
use crate::rpc_tap::RpcTap;
use crate::timers::LoopTimers;
use bytes::Bytes;
use cairn_env::{Answer, Caller, ConnectionId, EffectId, LogEvent};
use cairn_protocol::{Failure, Push, Request};
use cairn_types::Time;
use std::collections::VecDeque;

/// What the network has for the driver.
#[derive(Debug)]
pub(crate) enum News {
    Request {
        from: Caller,
        request: Request,
    },
    Identified(ConnectionId, Bytes),
    Disconnected(ConnectionId),
    Answered {
        id: EffectId,
        result: Result<Answer, Failure>,
    },
    Woken(EffectId),
    /// For whoever runs the process, past the driver.
    Log(LogEvent),
}

/// What the connections have for the relays.
#[derive(Debug)]
pub(crate) enum RelayEvent {
    /// The head of a push has arrived.
    Started { from: Caller, push: Push, size: usize },
    /// Verified bytes of the push that this connection brings.
    Segment { from: ConnectionId, bytes: Bytes, last: bool },
    /// The push that this connection brings does not match its checksums.
    Corrupt { from: ConnectionId },
    /// A connection brings nothing more.
    UpstreamEnded(ConnectionId),
    /// The next server has answered.
    Answered { relay: RelayId, result: Result<(), Failure> },
    /// The next server cannot be reached, or is lost.
    DownstreamLost { relay: RelayId, failure: Failure },
    /// The kernel was offered what waits for the next server.
    DownstreamFlushed(RelayId),
}

/// What all rooms share.
#[derive(Debug)]
pub(crate) struct NetworkContext {
    /// The time of this turn of the loop.
    pub(crate) now: Time,
    pub(crate) poller: Poller,
    pub(crate) timers: LoopTimers,
    pub(crate) buffers: ReadBuffers,
    /// In the order in which their frames came (E4).
    pub(crate) news: VecDeque<News>,
    pub(crate) relay_events: VecDeque<RelayEvent>,
    /// Looks at requests and replies, for the diagnostic log.
    pub(crate) tap: RpcTap,
}

impl NetworkContext {
    pub(crate) fn new(poller: Poller, tap: RpcTap) -> Self {
        Self {
            now: crate::clock::boot_time(),
            poller,
            timers: LoopTimers::default(),
            buffers: ReadBuffers::new(tap.is_open()),
            news: VecDeque::new(),
            relay_events: VecDeque::new(),
            tap,
        }
    }
}
