//! The dialling side: one kept connection per server for calls, more for pushes; their handshake,
//! answers and deadlines.
//!
//! ```text
//!   call ─► connection to (address, server) ─► held until welcomed ─► written ─► answered
//!                 └ dialled on demand                │ deadline          │ deadline, or lost
//!                                                    ▼                   ▼
//!                                                 not done            unknown
//! ```
//! - K1: a call completes once: by its answer, its deadline, or the loss of its connection (E1).
//! - K2: it is *not done* only where no byte of its frame has gone out, and none will.
//! - K3: a connection belongs to the server id that the call means: what another server at the
//!   same address would do is never taken for its doing (R5).
//! - K4: where as many connections are open as may be, one that nothing waits on makes way for the
//!   next; who sends us to many servers takes no more of us than that.
//! - K5: what is pushed goes by a connection of its own, unless it is short: an order that takes a
//!   moment does not wait behind megabytes for another chunk of the same server.
//!
//! Knows dialled connections. Never sees an accepted one, nor where a push comes from.

use crate::context::{NetworkContext, News, RelayEvent};
use crate::frame_reader::{Arrival, Ended, Expecting, RawMessage};
use crate::ids::{EpollToken, OutboundId, RelayId};
use crate::name_lookup::{NameLookup, numbers};
use crate::outbound_connection::{AnswerTo, OutboundConnection, OutboundStage, PendingCall};
use crate::routes::{RouteUse, ServerRoutes};
use crate::rpc_tap::{RpcTap, TappedMessage, TappedReply};
use crate::socket_options::prepare;
use crate::timers::LoopAlarm;
use crate::wire::Wire;
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_format::RpcWay;
use cairn_protocol::{
    ErrorCode, Failure, Hello, Outcome, PAYLOAD_SIZE_MAX, Push, Request, RequestId, Response, Role,
    SHORT_PUSH_MAX,
};
use cairn_types::{Address, CellId, Incarnation, ReplicaAt, ServerId, Time};
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// How long connecting and the handshake may take together.
const DIAL_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of requests that may wait for one connection.
const CALL_BYTES_MAX: usize = 256 << 20;
/// Bytes without an answer that pushes sharing a connection may have together (C3).
pub(crate) const PUSH_SHARE_MAX: usize = 2 << 20;

/// The driver's call.
#[derive(Debug)]
pub(crate) struct OutgoingCall {
    pub(crate) id: EffectId,
    pub(crate) to: Address,
    pub(crate) server: ServerId,
    pub(crate) request: Request,
    pub(crate) payload: Bytes,
    pub(crate) deadline: Time,
}

/// The dialling side.
#[derive(Debug)]
pub(crate) struct Outbound {
    /// What is said in handshakes; a client says nothing of itself.
    identity: Option<Hello>,
    connections: BTreeMap<OutboundId, OutboundConnection>,
    connections_max: usize,
    untaken_max: Duration,
    routes: ServerRoutes,
    last_id: OutboundId,
    /// Connections with bytes to write, or another reason to be looked at before waiting.
    marked: BTreeSet<OutboundId>,
}

impl Outbound {
    /// For so many connections, each lost where the other machine takes no byte for so long.
    pub(crate) fn new(connections_max: usize, untaken_max: Duration) -> Self {
        Self {
            identity: None,
            connections: BTreeMap::new(),
            connections_max,
            untaken_max,
            routes: ServerRoutes::default(),
            last_id: OutboundId::default(),
            marked: BTreeSet::new(),
        }
    }

    /// What the driver says of itself in handshakes from now on.
    pub(crate) fn identify(&mut self, hello: Hello) {
        self.identity = Some(hello);
    }

    /// Sends a request, or completes it at once where that cannot be.
    pub(crate) fn call(&mut self, cx: &mut NetworkContext, call: OutgoingCall) {
        let id = call.id;
        if let Err(failure) = self.try_call(cx, call) {
            cx.news.push_back(News::Answered { id, result: Err(failure) });
        }
    }

    fn try_call(&mut self, cx: &mut NetworkContext, call: OutgoingCall) -> Result<(), Failure> {
        let OutgoingCall { id, to, server, request, payload, deadline } = call;
        if payload.len() > PAYLOAD_SIZE_MAX as usize {
            let why =
                format!("a payload of {} bytes; the limit is {PAYLOAD_SIZE_MAX}", payload.len());
            return Err(Failure::refused(ErrorCode::Invalid, why));
        }
        if deadline <= cx.now {
            return Err(Failure::not_done(ErrorCode::DeadlineExceeded, too_late(&to)));
        }
        let usage = match &request {
            // One that brings an order is short: all orders of a session come by one (R15).
            Request::Push(_) if payload.len() > SHORT_PUSH_MAX => RouteUse::Data,
            _ => RouteUse::Calls,
        };
        let known = self.routes.to((&to, server), usage).next();
        let to_id = match known {
            Some(id) => id,
            None => self.dial(cx, &to, server, usage)?,
        };
        let connection = self.connections.get_mut(&to_id).expect("routes lead to connections");
        if connection.backlog() > CALL_BYTES_MAX {
            let why = format!("too many bytes wait to be sent to {to}");
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        let size = payload.len();
        let timers = &mut cx.timers;
        let answer_to = |request| {
            let alarm = timers.set(deadline, LoopAlarm::CallDeadline(to_id, request));
            AnswerTo::Driver(id, alarm)
        };
        let tell = tap_sent((cx.now, &mut cx.tap), to_id, request.kind(), size);
        connection.send(cx.now, &request, size, Some(payload), answer_to, tell);
        self.marked.insert(to_id);
        Ok(())
    }

    /// Sends the head of a push of `size` bytes on a connection where it waits for nobody; its
    /// bytes follow by [`continue_push`](Self::continue_push).
    ///
    /// # Errors
    /// The next server cannot be reached.
    pub(crate) fn start_push(
        &mut self,
        cx: &mut NetworkContext,
        relay: RelayId,
        next: &ReplicaAt,
        push: Push,
        size: usize,
    ) -> Result<OutboundId, Failure> {
        let id = match self.free_for_push(next, size) {
            Some(id) => id,
            None => self.dial(cx, &next.address, next.server, RouteUse::Relays)?,
        };
        let connection = self.connections.get_mut(&id).expect("found or dialled just now");
        let answer_to = |_| AnswerTo::Relay(relay, size);
        let request = Request::Push(push);
        let tell = tap_sent((cx.now, &mut cx.tap), id, request.kind(), size);
        connection.send(cx.now, &request, size, None, answer_to, tell);
        connection.begin_push(relay, size);
        self.marked.insert(id);
        Ok(id)
    }

    /// A connection on which a push of `size` bytes waits for nobody (C3).
    fn free_for_push(&self, next: &ReplicaAt, size: usize) -> Option<OutboundId> {
        let mut relays = self.routes.to((&next.address, next.server), RouteUse::Relays);
        relays.find(|id| {
            let connection = self.connections.get(id).expect("routes lead to connections");
            connection.has_room_for_push(size, PUSH_SHARE_MAX)
        })
    }

    /// The next bytes of a push; `last` ends it.
    pub(crate) fn continue_push(
        &mut self,
        id: OutboundId,
        relay: RelayId,
        bytes: Bytes,
        last: bool,
    ) {
        // Lost just now: the event that says so is on its way to the relay.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.continue_push(relay, bytes, last);
        self.marked.insert(id);
    }

    /// How many bytes wait for a connection; none for one that is gone.
    pub(crate) fn backlog(&self, id: OutboundId) -> usize {
        self.connections.get(&id).map_or(0, OutboundConnection::backlog)
    }

    /// A new connection, on its way.
    fn dial(
        &mut self,
        cx: &mut NetworkContext,
        address: &Address,
        server: ServerId,
        usage: RouteUse,
    ) -> Result<OutboundId, Failure> {
        let unreachable = |why: &dyn std::fmt::Display| {
            let why = format!("cannot reach {address}: {why}");
            Failure::not_done(ErrorCode::Unreachable, why)
        };
        if !self.has_room(cx) {
            let why = format!("cannot reach {address}: too many connections are open here");
            return Err(Failure::not_done(ErrorCode::Unreachable, why));
        }
        let (stage, interest, socket) = match numbers(address) {
            Some(direct) => {
                let socket = connect_first(&mut vec![direct], self.untaken_max)
                    .map_err(|why| unreachable(&why))?;
                (OutboundStage::Connecting(Vec::new()), EventFlags::OUT, socket)
            }
            None => {
                let (lookup, done) = NameLookup::start(address).map_err(|why| unreachable(&why))?;
                (OutboundStage::Resolving(lookup), EventFlags::IN, done)
            }
        };
        let id = OutboundId(self.last_id.0 + 1);
        let wire =
            Wire::new(&cx.poller, socket, EpollToken::Outbound(id), Expecting::Answers, interest);
        let wire = wire.map_err(|errno| unreachable(&errno))?;
        self.last_id = id;
        let patience = cx.timers.set(cx.now + DIAL_TIME_MAX, LoopAlarm::OutboundPatience(id));
        let to = (address.clone(), server);
        let connection = OutboundConnection::new(wire, stage, to, patience, cx.now);
        let earlier = self.connections.insert(id, connection);
        assert!(earlier.is_none(), "a connection's id is never used again");
        self.routes.add((address, server), usage, id);
        Ok(id)
    }

    /// Whether another connection may be dialled, for which one that is not needed may go (K4).
    fn has_room(&mut self, cx: &mut NetworkContext) -> bool {
        if self.connections.len() < self.connections_max {
            return true;
        }
        let idle = self.connections.iter().filter(|(_, connection)| connection.is_idle());
        let longest = idle.min_by_key(|(_, connection)| connection.last_asked()).map(|(id, _)| *id);
        match longest {
            Some(id) => self.lose(cx, id, "another one is needed"),
            None => return false,
        }
        true
    }

    /// Epoll says that something can be done with a connection. Whether it might say so again at
    /// once: all was done only of a connection that was read empty, and had nothing else to tell.
    pub(crate) fn ready(
        &mut self,
        cx: &mut NetworkContext,
        id: OutboundId,
        flags: EventFlags,
    ) -> bool {
        // One that an earlier event of the same batch ended is still told of.
        let Some(connection) = self.connections.get(&id) else { return true };
        match connection.stage() {
            OutboundStage::Resolving(_) => self.resolved(cx, id),
            OutboundStage::Connecting(_) => self.connected(cx, id),
            OutboundStage::Greeting | OutboundStage::Open => {
                if flags.contains(EventFlags::OUT) {
                    self.marked.insert(id);
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    return !self.read(cx, id) || flags != EventFlags::IN;
                }
            }
        }
        true
    }

    fn found(&mut self, id: OutboundId) -> &mut OutboundConnection {
        self.connections.get_mut(&id).expect("found by whoever calls this")
    }

    /// A name has been looked up.
    fn resolved(&mut self, cx: &mut NetworkContext, id: OutboundId) {
        match self.found(id).resolved().result() {
            Ok(mut addresses) => match connect_first(&mut addresses, self.untaken_max) {
                Ok(socket) => self.connect_to(cx, id, socket, addresses),
                Err(errno) => self.lose(cx, id, &errno.to_string()),
            },
            Err(error) => self.lose(cx, id, &error.to_string()),
        }
    }

    /// The kernel has connected, or failed to: says Hello, or tries where else the name leads.
    fn connected(&mut self, cx: &mut NetworkContext, id: OutboundId) {
        let connection = self.found(id);
        if let Err(errno) = connection.connected() {
            let mut others = connection.take_others();
            return match connect_first(&mut others, self.untaken_max) {
                Ok(socket) => self.connect_to(cx, id, socket, others),
                Err(_) => self.lose(cx, id, &errno.to_string()),
            };
        }
        let hello = self.identity.clone().unwrap_or_else(|| {
            Hello::new(CellId::default(), Role::Client, ServerId::default(), Incarnation::default())
        });
        self.found(id).greet(hello);
        self.marked.insert(id);
    }

    fn connect_to(
        &mut self,
        cx: &mut NetworkContext,
        id: OutboundId,
        socket: OwnedFd,
        others: Vec<SocketAddr>,
    ) {
        if let Err(errno) = self.found(id).connect_to(&cx.poller, socket, others) {
            self.lose(cx, id, &errno.to_string());
        }
    }

    /// Whether all was read that was there.
    fn read(&mut self, cx: &mut NetworkContext, id: OutboundId) -> bool {
        let mut arrivals = cx.buffers.take_arrivals();
        let received = self.found(id).receive(&mut cx.buffers, &mut arrivals);
        for arrival in arrivals.drain(..) {
            self.arrived(cx, id, arrival);
        }
        cx.buffers.give_back_arrivals(arrivals);
        match received {
            Ok(is_empty) => {
                self.watch(cx, id);
                is_empty
            }
            Err(Ended::Closed) => {
                self.lose(cx, id, "the other side closed it");
                false
            }
            Err(Ended::Failed(errno)) => {
                self.lose(cx, id, &errno.to_string());
                false
            }
        }
    }

    fn arrived(&mut self, cx: &mut NetworkContext, id: OutboundId, arrival: Arrival) {
        // What came before this may have ended it: then no answer hangs on it any more.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (request, rpc, message, result) = match arrival {
            Arrival::Answered { id: request, rpc, message, result } => {
                (request, rpc, message, result)
            }
            Arrival::Broken { failure, .. } if failure.code == ErrorCode::VersionUnsupported => {
                return self.refused(cx, id, failure);
            }
            Arrival::Broken { failure, .. } => return self.lose(cx, id, &failure.message),
            Arrival::Request(..)
            | Arrival::PushStarted { .. }
            | Arrival::PushSegment { .. }
            | Arrival::PushCorrupt
            | Arrival::PushRefused(..) => unreachable!("only on the listening side"),
        };
        if matches!(connection.stage(), OutboundStage::Greeting) {
            return self.welcomed(cx, id, result);
        }
        match connection.take_pending(request) {
            Some(pending) if pending.may_be_answered_as(rpc) || result.is_err() => {
                tap_answered(cx, id, (&pending, rpc), message, result.as_ref().ok());
                complete(cx, pending.answer_to, result);
            }
            Some(pending) => {
                let why = "it answered another question than the one asked";
                let failure = lost(&connection.address, why);
                fail(cx, id, &pending, failure);
                self.lose(cx, id, why);
            }
            // The server ends the connection and says why.
            None if request == RequestId::default() => {
                let why = result.err().map(|failure| failure.message);
                self.lose(cx, id, why.as_deref().unwrap_or("an answer to nothing"));
            }
            // An answer after its deadline.
            None => {}
        }
    }

    fn welcomed(
        &mut self,
        cx: &mut NetworkContext,
        id: OutboundId,
        result: Result<Answer, Failure>,
    ) {
        let welcome = match result {
            Ok(Answer { response: Response::Hello(welcome), .. }) => welcome,
            Ok(_) => return self.lose(cx, id, "it did not answer the handshake"),
            Err(failure) => return self.refused(cx, id, failure),
        };
        let connection = self.found(id);
        let (meant, found) = (connection.server, welcome.server);
        if meant != ServerId::default() && found != meant {
            let why = format!("server {found} listens at {}, not {meant}", connection.address);
            return self.refused(cx, id, Failure::not_done(ErrorCode::WrongServer, why));
        }
        connection.open();
        cx.tap.link(id.into(), (welcome.role, found), connection.socket());
        cx.timers.cancel(connection.patience);
        self.marked.insert(id);
    }

    /// The other side does not want us: all that waits for the handshake hears why.
    fn refused(&mut self, cx: &mut NetworkContext, id: OutboundId, mut failure: Failure) {
        // Another server at this address: the one meant may be found elsewhere.
        if failure.code == ErrorCode::WrongServer {
            failure.outcome = Outcome::NotDone;
        }
        for pending in self.found(id).take_all_pending() {
            let mut failure = failure.clone();
            if pending.is_queued() {
                failure.outcome = Outcome::Unknown;
            }
            fail(cx, id, &pending, failure);
        }
        self.lose(cx, id, &failure.message);
    }

    /// Whether something waits to be written.
    pub(crate) fn has_work(&self) -> bool {
        !self.marked.is_empty()
    }

    /// Writes all that waits, as far as the kernel takes it.
    pub(crate) fn flush(&mut self, cx: &mut NetworkContext) {
        while let Some(id) = self.marked.pop_first() {
            // One that was marked may have been lost since.
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            match connection.stage() {
                // Written once it is connected.
                OutboundStage::Resolving(_) | OutboundStage::Connecting(_) => continue,
                OutboundStage::Greeting | OutboundStage::Open => {}
            }
            if let Err(errno) = connection.flush() {
                self.lose(cx, id, &errno.to_string());
                continue;
            }
            if let Some(relay) = connection.open_push() {
                cx.relay_events.push_back(RelayEvent::DownstreamFlushed(relay));
            }
            self.watch(cx, id);
        }
    }

    /// Has epoll watch for what the connection can use now.
    fn watch(&mut self, cx: &mut NetworkContext, id: OutboundId) {
        // Gone: then nothing is watched for.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Err(errno) = connection.watch(&mut cx.poller) {
            self.lose(cx, id, &errno.to_string());
        }
    }

    /// A connection is gone, or is given up: what was not sent is not done, what was is unknown
    /// (K2, G1).
    pub(crate) fn lose(&mut self, cx: &mut NetworkContext, id: OutboundId, why: &str) {
        // Gone already: several may find out at once.
        let Some(mut connection) = self.connections.remove(&id) else { return };
        cx.timers.cancel(connection.patience);
        self.routes.remove(&connection.address, id);
        for pending in connection.take_all_pending() {
            let failure = if connection.has_left(&pending) {
                lost(&connection.address, why)
            } else {
                let why = format!("cannot reach {}: {why}", connection.address);
                Failure::not_done(ErrorCode::Unreachable, why)
            };
            fail(cx, id, &pending, failure);
        }
        cx.tap.lose(id.into());
    }

    /// A call's deadline (E2). A frame that is queued may yet go out, so it is unknown; one that
    /// still waits for the handshake is taken back.
    pub(crate) fn call_overdue(
        &mut self,
        cx: &mut NetworkContext,
        id: OutboundId,
        request: RequestId,
    ) {
        let connection = self.connections.get_mut(&id).expect("its loss cancels the alarm");
        let pending = connection.take_pending(request).expect("an answer cancels the alarm");
        let (code, why) = (ErrorCode::DeadlineExceeded, too_late(&connection.address));
        let failure = match pending.is_queued() {
            true => Failure::unknown(code, why),
            false => Failure::not_done(code, why),
        };
        fail(cx, id, &pending, failure);
    }

    #[cfg(test)]
    pub(crate) fn ids_to(&self, address: &Address) -> Vec<OutboundId> {
        self.routes.ids_to(address)
    }
}

/// An answer that came from the other side.
fn complete(cx: &mut NetworkContext, to: AnswerTo, result: Result<Answer, Failure>) {
    match to {
        AnswerTo::Driver(id, alarm) => {
            cx.timers.cancel(alarm);
            cx.news.push_back(News::Answered { id, result });
        }
        AnswerTo::Relay(relay, _) => {
            let result = result.map(drop);
            cx.relay_events.push_back(RelayEvent::Answered { relay, result });
        }
    }
}

/// A failure that was made on this side.
fn fail(cx: &mut NetworkContext, id: OutboundId, pending: &PendingCall, failure: Failure) {
    let asked = (id.into(), pending.request, pending.rpc);
    cx.tap.failed(cx.now, RpcWay::ReplyReceived, asked, pending.sent, &failure);
    let to = pending.answer_to;
    match to {
        AnswerTo::Driver(..) => complete(cx, to, Err(failure)),
        AnswerTo::Relay(relay, _) => {
            cx.relay_events.push_back(RelayEvent::DownstreamLost { relay, failure });
        }
    }
}

/// Shows a request that goes out to the diagnostic log, once it has a number and is encoded.
fn tap_sent(
    (now, tap): (Time, &mut RpcTap),
    id: OutboundId,
    rpc: u16,
    payload_size: usize,
) -> impl FnOnce(RequestId, &[u8]) {
    move |request, message| {
        let (link, size) = (id.into(), message.len());
        let seen = TappedMessage { link, request, rpc, size, message, payload_size };
        tap.look(now, RpcWay::RequestSent, &seen, None);
    }
}

/// Shows an answer that came to the diagnostic log; none: a failure.
fn tap_answered(
    cx: &mut NetworkContext,
    id: OutboundId,
    (pending, rpc): (&PendingCall, u16),
    message: RawMessage,
    answer: Option<&Answer>,
) {
    let PendingCall { request, sent, .. } = *pending;
    // A failure does not say of what it is.
    let rpc = if answer.is_some() { rpc } else { pending.rpc };
    let (link, size, message) = (id.into(), message.size, cx.buffers.message(message));
    let payload_size = answer.map_or(0, |answer| answer.payload.len());
    let seen = TappedMessage { link, request, rpc, size, message, payload_size };
    let reply = TappedReply { since: sent, is_failure: answer.is_none() };
    cx.tap.look(cx.now, RpcWay::ReplyReceived, &seen, Some(reply));
}

fn lost(address: &Address, why: &str) -> Failure {
    let why = format!("lost the connection to {address}: {why}");
    Failure::unknown(ErrorCode::Unreachable, why)
}

fn too_late(to: &Address) -> String {
    format!("no answer from {to} in time")
}

/// Starts connecting to the first address that the kernel does not refuse at once.
fn connect_first(addresses: &mut Vec<SocketAddr>, untaken_max: Duration) -> Result<OwnedFd, Errno> {
    let mut refusal = Errno::ADDRNOTAVAIL;
    while let Some(address) = addresses.pop() {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        prepare(&socket, untaken_max)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => return Ok(socket),
            Err(errno) => refusal = errno,
        }
    }
    Err(refusal)
}
