//! The listening side: connections taken in, their handshake, their requests, our answers.
//!
//! ```text
//!   listener ─► Greeting ─► requests ─► news (the driver) ─► reply ─► flush
//!                             └─ pushes ─► relay events ──────┘
//! ```
//! - IN1: whoever does not say Hello within [`GREETING_TIME_MAX`] is closed, and so is whoever
//!   sends what no Cairn would; the reason goes out first where that is possible.
//! - IN2: nobody is taken in before the driver has said who it is (`Effect::Identify`).
//! - IN3: where as many connections are open as may be, a newcomer takes the place of the one that
//!   has asked nothing for the longest: who holds connections keeps nobody else out.
//! - IN4: what all connections together make us hold is bounded (memory_budget.rs).
//! - IN5: who asks what is not for one of its role to ask is closed, and nobody hears of it (R2).
//!
//! Knows accepted connections. Never sees a dialled one, nor where a push goes on to.

use crate::context::{NetworkContext, News, RelayEvent};
use crate::frame_reader::{Arrival, Ended, Expecting, RawMessage};
use crate::ids::EpollToken;
use crate::inbound_connection::{InboundConnection, InboundStage};
use crate::limits::LaunchLimits;
use crate::memory_budget::MemoryBudget;
use crate::process_meter::ProcessMeter;
use crate::rpc_meter::Begun;
use crate::rpc_tap::{TappedMessage, TappedReply};
use crate::socket_options::{UNTAKEN_TIME_MAX, prepare};
use crate::timers::LoopAlarm;
use crate::wire::Wire;
use cairn_env::{Caller, ConnectionId, LogEvent, Payload};
use cairn_format::RpcWay;
use cairn_protocol::{
    Append, ErrorCode, Failure, FrameKind, Hello, Push, Request, RequestId, Response, Role, Rpc,
    judge_hello, judge_request,
};
use cairn_types::Time;
use cairn_types::wire::Message;
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// How long a new connection may take to say Hello.
const GREETING_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection that was told to go may take to read why.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(2);
/// How long to wait before accepting again when the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections taken in at one turn of the loop.
const ACCEPT_BATCH: usize = 64;
/// How long after one search for idle connections the next may come: it looks at all of them.
const IDLE_SEARCH_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of most messages that order an append.
const ORDER_SIZE: usize = 128;
/// How long after one search for stalled connections the next comes, while somebody waits.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(250);

/// The listening side.
#[derive(Debug)]
pub(crate) struct Inbound {
    listener: Option<TcpListener>,
    is_listening: bool,
    /// What is said in handshakes; none before the driver has said it (IN2).
    identity: Option<Hello>,
    connections: BTreeMap<ConnectionId, InboundConnection>,
    connections_max: usize,
    last_id: ConnectionId,
    /// Connections with bytes to write, or another reason to be looked at before waiting.
    marked: BTreeSet<ConnectionId>,
    /// Those that were idle when they were searched for, in the order in which they may go (IN3).
    idle: Vec<ConnectionId>,
    idle_searched: Time,
    budget: MemoryBudget,
    /// Told of both at each turn.
    meter: Arc<ProcessMeter>,
    /// Connections that go on only when there is room in the budget.
    waiting: BTreeSet<ConnectionId>,
    /// The shortage is looked at again by an alarm.
    is_watched: bool,
}

impl Inbound {
    pub(crate) fn new(
        listener: Option<TcpListener>,
        limits: LaunchLimits,
        meter: Arc<ProcessMeter>,
    ) -> Self {
        Self {
            listener,
            is_listening: false,
            identity: None,
            connections: BTreeMap::new(),
            connections_max: limits.accepted_max,
            last_id: ConnectionId::default(),
            marked: BTreeSet::new(),
            idle: Vec::new(),
            idle_searched: Time::default(),
            budget: MemoryBudget::new(limits.memory_max),
            meter,
            waiting: BTreeSet::new(),
            is_watched: false,
        }
    }

    /// What the driver says of itself in handshakes from now on.
    pub(crate) fn identify(&mut self, cx: &mut NetworkContext, hello: Hello) {
        self.identity = Some(hello);
        self.listen(cx);
    }

    /// Takes connections from now on, where there is a listener and a name to answer under (IN2).
    pub(crate) fn listen(&mut self, cx: &mut NetworkContext) {
        let Some(listener) = &self.listener else { return };
        if self.identity.is_none() || self.is_listening {
            return;
        }
        self.is_listening = cx.poller.add(listener, EpollToken::Listener, EventFlags::IN).is_ok();
        if !self.is_listening {
            cx.timers.set(cx.now + ACCEPT_PAUSE, LoopAlarm::AcceptAgain);
        }
    }

    /// Takes in those who wait, up to a batch.
    pub(crate) fn accept(&mut self, cx: &mut NetworkContext) {
        for _ in 0..ACCEPT_BATCH {
            let listener = self.listener.as_ref().expect("epoll tells of the one there is");
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = match accept_with(listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                // The one that was waiting gave up; the next may be fine.
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                // No file descriptors: waiting at once would find the listener ready for ever.
                Err(_) => return self.pause_accepting(cx),
            };
            // Where nobody is idle the newcomer is closed at once, so that the others go on.
            if self.has_room(cx) && prepare(&socket, UNTAKEN_TIME_MAX).is_ok() {
                self.take_in(cx, socket);
            }
        }
    }

    /// Whether another connection may be taken in, for which an idle one may have to go (IN3).
    fn has_room(&mut self, cx: &mut NetworkContext) -> bool {
        if self.connections.len() < self.connections_max {
            return true;
        }
        if self.idle.is_empty() && self.idle_searched + IDLE_SEARCH_PAUSE <= cx.now {
            self.idle_searched = cx.now;
            let idle = self.connections.iter().filter(|(_, connection)| connection.is_idle());
            let mut idle: Vec<_> = idle.map(|(id, idle)| (idle.last_asked(), *id)).collect();
            // The first to go is the last in the list.
            idle.sort_unstable_by(|one, other| other.cmp(one));
            self.idle = idle.into_iter().map(|(_, id)| id).collect();
        }
        while let Some(id) = self.idle.pop() {
            if self.connections.get(&id).is_some_and(InboundConnection::is_idle) {
                self.lose(cx, id);
                return true;
            }
        }
        false
    }

    fn pause_accepting(&mut self, cx: &mut NetworkContext) {
        if let Some(listener) = &self.listener
            && cx.poller.remove(listener).is_ok()
        {
            self.is_listening = false;
            cx.timers.set(cx.now + ACCEPT_PAUSE, LoopAlarm::AcceptAgain);
        }
    }

    /// A connection that may say Hello; where epoll cannot watch it, it is closed.
    fn take_in(&mut self, cx: &mut NetworkContext, socket: OwnedFd) -> Option<ConnectionId> {
        let id = ConnectionId(self.last_id.0 + 1);
        let (token, interest) = (EpollToken::Inbound(id), EventFlags::IN | EventFlags::RDHUP);
        let wire = Wire::new(&cx.poller, socket, token, Expecting::Requests, interest).ok()?;
        self.last_id = id;
        let patience = cx.timers.set(cx.now + GREETING_TIME_MAX, LoopAlarm::InboundPatience(id));
        let connection = InboundConnection::new(wire, patience, cx.now);
        let earlier = self.connections.insert(id, connection);
        assert!(earlier.is_none(), "a connection's id is never used again");
        Some(id)
    }

    /// Epoll says that something can be done with a connection. Whether it might say so again at
    /// once: all was done only of a connection that was read empty, and had nothing else to tell.
    pub(crate) fn ready(
        &mut self,
        cx: &mut NetworkContext,
        id: ConnectionId,
        flags: EventFlags,
    ) -> bool {
        // One that an earlier event of the same batch ended is still told of.
        let Some(connection) = self.connections.get_mut(&id) else { return true };
        let stage = connection.stage();
        if flags.contains(EventFlags::OUT) {
            self.marked.insert(id);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return true;
        }
        if stage == InboundStage::Farewell {
            let discarded = connection.discard(&mut cx.buffers);
            self.ended(cx, id, discarded.err());
            return true;
        }
        !self.read(cx, id) || flags != EventFlags::IN
    }

    /// Whether all was read that was there.
    fn read(&mut self, cx: &mut NetworkContext, id: ConnectionId) -> bool {
        let connection = self.connections.get_mut(&id).expect("found by whoever calls this");
        let mut arrivals = cx.buffers.take_arrivals();
        let received = connection.receive(&self.budget, &mut cx.buffers, &mut arrivals);
        for arrival in arrivals.drain(..) {
            self.arrived(cx, id, arrival);
        }
        cx.buffers.give_back_arrivals(arrivals);
        self.find_room(cx, id);
        let is_empty = *received.as_ref().unwrap_or(&false);
        self.ended(cx, id, received.err());
        self.watch(cx, id);
        is_empty
    }

    /// Ends a connection that has ended, or failed, by itself.
    fn ended(&mut self, cx: &mut NetworkContext, id: ConnectionId, end: Option<Ended>) {
        if end.is_some() {
            self.lose(cx, id);
        }
    }

    fn arrived(&mut self, cx: &mut NetworkContext, id: ConnectionId, arrival: Arrival) {
        let connection = self.connections.get_mut(&id).expect("read from just now");
        match connection.stage() {
            InboundStage::Greeting => self.greeted_with(cx, id, arrival),
            InboundStage::Open => self.asked(cx, id, arrival),
            // It was told to go by what came before this.
            InboundStage::Farewell => {}
        }
    }

    /// The first frame of a connection.
    fn greeted_with(&mut self, cx: &mut NetworkContext, id: ConnectionId, arrival: Arrival) {
        let (request, judged) = match arrival {
            Arrival::Request(request, Request::Hello(hello), _) => {
                let ours = self.identity.as_ref().expect("IN2: nobody is accepted before");
                let welcome = judge_hello(&hello, ours);
                let caller = (hello.role, hello.server, hello.credentials);
                (request, welcome.map(|welcome| (welcome, caller)))
            }
            Arrival::Broken { id: request, failure } => (request, Err(failure)),
            Arrival::Request(request, ..)
            | Arrival::PushStarted { id: request, .. }
            | Arrival::PushRefused(request, _) => {
                let why = "a connection starts with Hello";
                (request, Err(Failure::refused(ErrorCode::Invalid, why)))
            }
            Arrival::PushSegment { .. } | Arrival::PushCorrupt | Arrival::Answered { .. } => {
                unreachable!("comes after the first frame, or on the dialling side")
            }
        };
        match judged {
            Ok((welcome, (caller, server, credentials))) => {
                let connection = self.connections.get_mut(&id).expect("it has just said Hello");
                connection.open(caller, &credentials);
                if !credentials.is_empty() {
                    cx.news.push_back(News::Identified(id, credentials));
                }
                cx.tap.link(id.into(), (caller, server), connection.socket());
                if let (Role::Client, Some(from)) = (caller, connection.comes_from()) {
                    self.meter.has_come(id, from);
                }
                connection.begin_unnamed(cx.now);
                cx.timers.cancel(connection.patience());
                let to = Caller { connection: id, request };
                self.reply(cx, to, &Ok(Response::Hello(welcome)), Payload::default());
            }
            Err(failure) => self.dismiss(cx, id, (request, Hello::KIND), &failure),
        }
    }

    /// A frame of a connection after its handshake.
    fn asked(&mut self, cx: &mut NetworkContext, id: ConnectionId, arrival: Arrival) {
        let connection = self.connections.get_mut(&id).expect("read from just now");
        let caller = |request| Caller { connection: id, request };
        match arrival {
            Arrival::Request(request, Request::Hello(_), _) => {
                let failure = Failure::refused(ErrorCode::Invalid, "a second Hello");
                self.dismiss(cx, id, (request, Hello::KIND), &failure);
            }
            Arrival::Request(request, message, raw) => {
                let asked = (request, message.kind());
                tap_request(cx, id, asked, raw, 0);
                if let Err(failure) = judge_request(connection.caller(), &message) {
                    return self.dismiss(cx, id, asked, &failure);
                }
                let message = (message, raw.size);
                if let Some(message) = connection.admit(&mut self.budget, cx.now, request, message)
                {
                    let from = caller(request);
                    cx.news.push_back(News::Request { from, request: message });
                }
            }
            Arrival::PushStarted { id: request, push, size, message } => {
                connection.begin_push(cx.now, request, size);
                let from = caller(request);
                tap_request(cx, id, (request, Push::KIND), message, size);
                cx.relay_events.push_back(RelayEvent::Started { from, push, size });
            }
            Arrival::PushSegment { bytes, last } => {
                cx.relay_events.push_back(RelayEvent::Segment { from: id, bytes, last });
            }
            Arrival::PushCorrupt => cx.relay_events.push_back(RelayEvent::Corrupt { from: id }),
            Arrival::PushRefused(request, failure) => {
                connection.begin_push(cx.now, request, 0);
                self.reply(cx, caller(request), &Err(failure), Payload::default());
            }
            Arrival::Broken { id: request, failure } => {
                self.dismiss(cx, id, (request, 0), &failure);
            }
            Arrival::Answered { .. } => unreachable!("only on the dialling side"),
        }
    }

    /// Whether a caller asks for the superuser.
    pub(crate) fn is_superuser(&self, caller: Caller) -> bool {
        self.connections.get(&caller.connection).is_some_and(InboundConnection::is_superuser)
    }

    /// Answers a request. In silence, where its connection is gone or told to go: that is the
    /// contract of `Effect::Reply`.
    pub(crate) fn reply(
        &mut self,
        cx: &mut NetworkContext,
        to: Caller,
        answer: &Result<Response, Failure>,
        payload: Payload,
    ) {
        let Some(connection) = self.connections.get_mut(&to.connection) else { return };
        if connection.stage() == InboundStage::Open {
            let (now, tap, meter) = (cx.now, &mut cx.tap, self.meter.rpc_meter());
            let payload_size = payload.len();
            let tell = |begun: &Begun, kind, message: &[u8]| {
                let is_failure = kind == FrameKind::Failure;
                meter.answered(begun, now, is_failure, payload_size);
                let (link, rpc, since) = (to.connection.into(), begun.kind, begun.came);
                let (request, size) = (to.request, message.len());
                let seen = TappedMessage { link, request, rpc, size, message, payload_size };
                tap.look(now, RpcWay::ReplySent, &seen, Some(TappedReply { since, is_failure }));
            };
            connection.answer(now, to.request, answer, payload, tell);
            self.marked.insert(to.connection);
        }
    }

    /// All of a chain hold what a push brought: what was to follow it is asked, as if it had come
    /// by itself; its answer is the push's, too.
    pub(crate) fn follow_push(&mut self, cx: &mut NetworkContext, from: Caller, order: Append) {
        // In silence, as an answer to the push would go to nobody.
        let Some(connection) = self.connections.get_mut(&from.connection) else { return };
        if connection.stage() != InboundStage::Open {
            return;
        }
        let (now, link, request) = (cx.now, from.connection.into(), from.request);
        let mut message = Vec::with_capacity(ORDER_SIZE);
        order.encode(&mut message);
        let (rpc, size, order) = (Append::KIND, message.len(), Request::Append(order));
        if let Some(begun) = connection.follow(&mut self.budget, now, request, (&order, size)) {
            self.meter.rpc_meter().answered(&begun, now, false, 0);
            let (rpc, since, message) = (begun.kind, begun.came, &[]);
            let seen = TappedMessage { link, request, rpc, size: 0, message, payload_size: 0 };
            let reply = TappedReply { since, is_failure: false };
            cx.tap.look(now, RpcWay::ReplySent, &seen, Some(reply));
        }
        let seen = TappedMessage { link, request, rpc, size, message: &message, payload_size: 0 };
        cx.tap.look(now, RpcWay::RequestReceived, &seen, None);
        if let Err(failure) = judge_request(connection.caller(), &order) {
            return self.dismiss(cx, from.connection, (request, rpc), &failure);
        }
        cx.news.push_back(News::Request { from, request: order });
    }

    /// Says why, and ends the connection once that is written (IN1).
    fn dismiss(
        &mut self,
        cx: &mut NetworkContext,
        id: ConnectionId,
        (request, rpc): (RequestId, u16),
        failure: &Failure,
    ) {
        let connection = self.connections.get_mut(&id).expect("read from just now");
        cx.timers.cancel(connection.patience());
        if connection.stage() == InboundStage::Open {
            let asked = (id.into(), request, rpc);
            cx.tap.failed(cx.now, RpcWay::ReplySent, asked, cx.now, failure);
        }
        let patience = cx.timers.set(cx.now + FAREWELL_TIME_MAX, LoopAlarm::InboundPatience(id));
        connection.say_farewell(request, failure, patience);
        cx.relay_events.push_back(RelayEvent::UpstreamEnded(id));
        self.marked.insert(id);
    }

    /// The next server of the push that a connection brings has enough to take for now, or can
    /// take more.
    pub(crate) fn hold_back(
        &mut self,
        cx: &mut NetworkContext,
        id: ConnectionId,
        is_held_back: bool,
    ) {
        // Gone: then there is nobody to hold back.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.hold_back(is_held_back) {
            self.watch(cx, id);
        }
    }

    /// The next turn of the loop begins (T5).
    pub(crate) fn end_turn(&mut self) {
        self.budget.end_turn();
        self.meter.note(self.budget.held(), self.connections.len());
    }

    /// Whether something waits to be written, or for room that there may be now.
    pub(crate) fn has_work(&self) -> bool {
        !self.marked.is_empty() || (!self.waiting.is_empty() && self.budget.has_freed())
    }

    /// Writes all that waits, as far as the kernel takes it; then whoever waits for room goes on,
    /// as far as there is some: who holds least goes first, so that nobody waits behind greed.
    pub(crate) fn flush(&mut self, cx: &mut NetworkContext) {
        while self.has_work() {
            while let Some(id) = self.marked.pop_first() {
                self.flush_one(cx, id);
            }
            if self.budget.take_freed() {
                let charged = |id| self.connections.get(&id).map_or(0, InboundConnection::charged);
                let waiting = std::mem::take(&mut self.waiting);
                let mut waiting: Vec<_> = waiting.into_iter().map(|id| (charged(id), id)).collect();
                waiting.sort_unstable();
                waiting.into_iter().for_each(|(_, id)| self.flush_one(cx, id));
            }
        }
    }

    fn flush_one(&mut self, cx: &mut NetworkContext, id: ConnectionId) {
        // One that was marked, or waited, may have been lost since.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.flush().is_err() {
            return self.lose(cx, id);
        }
        connection.settle(&mut self.budget, cx.now);
        while let Some((request, message)) = connection.unpark(&mut self.budget, cx.now) {
            let from = Caller { connection: id, request };
            cx.news.push_back(News::Request { from, request: message });
        }
        self.find_room(cx, id);
        self.watch(cx, id);
    }

    /// Takes room for what a connection has begun to send, or has it wait for that.
    fn find_room(&mut self, cx: &mut NetworkContext, id: ConnectionId) {
        let connection = self.connections.get_mut(&id).expect("looked at just now");
        connection.reserve(&mut self.budget, cx.now);
        if !connection.is_short() {
            self.waiting.remove(&id);
            return;
        }
        self.waiting.insert(id);
        if !std::mem::replace(&mut self.is_watched, true) {
            cx.timers.set(cx.now + SHORTAGE_PAUSE, LoopAlarm::Shortage);
        }
    }

    /// Somebody has waited for room: whoever holds some and moves nothing goes, until most is free
    /// (T4).
    pub(crate) fn relieve(&mut self, cx: &mut NetworkContext) {
        self.is_watched = false;
        if self.waiting.is_empty() {
            return;
        }
        self.is_watched = true;
        cx.timers.set(cx.now + SHORTAGE_PAUSE, LoopAlarm::Shortage);
        let stalled = self.connections.iter().filter(|(_, one)| one.is_stalled(cx.now));
        let mut stalled: Vec<_> = stalled.map(|(id, one)| (one.charged(), *id)).collect();
        stalled.sort_unstable();
        let (held, mut count) = (self.budget.held(), 0);
        while self.budget.held() > self.budget.max() / 4
            && let Some((_, id)) = stalled.pop()
        {
            self.lose(cx, id);
            count += 1;
        }
        if count > 0 {
            let event = LogEvent::warn("stalled connections closed, to free memory")
                .with_number("count", count)
                .with_number("held_bytes", held as u64)
                .with_number("limit_bytes", self.budget.max() as u64);
            cx.news.push_back(News::Log(event));
        }
    }

    /// Has epoll watch for what the connection can use now.
    fn watch(&mut self, cx: &mut NetworkContext, id: ConnectionId) {
        // Gone: then nothing is watched for.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.watch(&mut cx.poller).is_err() {
            self.lose(cx, id);
        }
    }

    /// A connection is gone, or is given up; all that hung on it ends (G1).
    pub(crate) fn lose(&mut self, cx: &mut NetworkContext, id: ConnectionId) {
        // Gone already: several may find out at once.
        let Some(connection) = self.connections.remove(&id) else { return };
        cx.timers.cancel(connection.patience());
        self.budget.settle(connection.charged(), 0);
        self.waiting.remove(&id);
        cx.tap.lose(id.into());
        cx.relay_events.push_back(RelayEvent::UpstreamEnded(id));
        if connection.was_open() {
            self.meter.has_gone(id);
            cx.news.push_back(News::Disconnected(id));
        }
    }

    /// A connection whose handshake is done, with the request of a push without an answer.
    #[cfg(test)]
    pub(crate) fn take_in_open(
        &mut self,
        cx: &mut NetworkContext,
        socket: OwnedFd,
    ) -> ConnectionId {
        let id = self.take_in(cx, socket).expect("is watched");
        let connection = self.connections.get_mut(&id).expect("taken in just now");
        connection.open(cairn_protocol::Role::Client, &[]);
        connection.begin_unnamed(cx.now);
        id
    }

    #[cfg(test)]
    pub(crate) fn is_read(&self, id: ConnectionId) -> bool {
        self.connections[&id].is_read()
    }
}

/// Shows a request that came in to the diagnostic log.
fn tap_request(
    cx: &mut NetworkContext,
    id: ConnectionId,
    (request, rpc): (RequestId, u16),
    message: RawMessage,
    payload_size: usize,
) {
    let (link, size, message) = (id.into(), message.size, cx.buffers.message(message));
    let seen = TappedMessage { link, request, rpc, size, message, payload_size };
    cx.tap.look(cx.now, RpcWay::RequestReceived, &seen, None);
}

#[cfg(test)]
mod tests {
    use super::{GREETING_TIME_MAX, Inbound};
    use crate::context::{NetworkContext, News};
    use crate::limits::LaunchLimits;
    use crate::poller::Poller;
    use crate::rpc_tap::RpcTap;
    use crate::timers::LoopAlarm;
    use cairn_env::{Caller, Payload};
    use cairn_protocol::{Append, AppendAnswer, Hello, Request, RequestId, Response, Role};
    use cairn_types::{CellId, Incarnation, ServerId};
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    #[test]
    fn an_order_has_its_pushs_place_however_many_there_are_and_however_little_room() {
        const COUNT: u64 = 1500;
        let (socket, _peer) = UnixStream::pair().expect("a pair");
        let mut cx = NetworkContext::new(Poller::new().expect("an epoll"), RpcTap::default());
        let limits = LaunchLimits { memory_max: 1, ..LaunchLimits::default() };
        let mut inbound = Inbound::new(None, limits, Arc::default());
        let connection = inbound.take_in_open(&mut cx, socket.into());
        let caller = |id| Caller { connection, request: RequestId(id) };
        let open = inbound.connections.get_mut(&connection).expect("taken in");
        (1..=COUNT).for_each(|id| open.begin_push(cx.now, RequestId(id), 10));
        for id in 1..=COUNT {
            inbound.follow_push(&mut cx, caller(id), Append::default());
        }
        let asked = std::mem::take(&mut cx.news)
            .into_iter()
            .filter(|news| matches!(news, News::Request { request: Request::Append(_), .. }));
        assert_eq!(asked.count() as u64, COUNT);
        for id in 1..=COUNT {
            let answer = Ok(Response::Append(AppendAnswer::default()));
            inbound.reply(&mut cx, caller(id), &answer, Payload::default());
        }
        // The request that it came with, which is without an answer.
        let last = inbound.connections.get(&connection).expect("it is there");
        assert!(!last.is_idle());
        inbound.lose(&mut cx, connection);
        inbound.follow_push(&mut cx, caller(1), Append::default());
        let gone = |news: &News| matches!(news, News::Request { .. });
        assert!(!cx.news.iter().any(gone), "its connection is gone, and so is it");
    }

    #[test]
    fn whoever_does_not_say_hello_in_time_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("non-blocking");
        let mut peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let mut cx = NetworkContext::new(Poller::new().expect("an epoll"), RpcTap::default());
        let mut inbound = Inbound::new(Some(listener), LaunchLimits::default(), Arc::default());
        let (cell, server) = (CellId::default(), ServerId::default());
        inbound.identify(&mut cx, Hello::new(cell, Role::Master, server, Incarnation::default()));
        while inbound.connections.is_empty() {
            inbound.accept(&mut cx);
        }
        assert_eq!(cx.timers.pop_due(cx.now), None, "it still has time");
        let Some(LoopAlarm::InboundPatience(id)) = cx.timers.pop_due(cx.now + GREETING_TIME_MAX)
        else {
            panic!("its time is over")
        };
        inbound.lose(&mut cx, id);
        assert!(inbound.connections.is_empty());
        assert_eq!(peer.read(&mut [0]).expect("closed, not reset"), 0);
        assert!(cx.news.is_empty(), "the driver never heard of it");
    }
}
