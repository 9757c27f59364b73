//! Calls: dialled on demand, one kept connection per pair and another for pushes, handshake first,
//! each completed once.
//!
//! ```text
//!   call ─► dial ─► Hello ──► judge_hello ──► Welcome ─► frames … ─► answer
//!             │                                  │                     │
//!             └ refused, timed out: not done     └ refused: its reason └ deadline, lost: unknown
//! ```
//! - C1: what was arranged for a connection that is gone by now happens to nobody.

use crate::clock::WorldTime;
use crate::network::{
    CallOwner, ConnectionEnd, ConnectionState, Delivery, Direction, FrameMessage, KeptWay,
    NetworkHandler, OpenCall, SimConnection, SimFrame, SimPipe,
};
use crate::node::{DeathCause, NodeId};
use crate::queue::ScheduledEvent;
use crate::watch::{SeenAnswer, SeenRequest};
use bytes::Bytes;
use cairn_env::{Answer, Caller, ConnectionId, Payload};
use cairn_protocol::{
    ErrorCode, Failure, Hello, Outcome, Request, RequestId, Response, Role, judge_hello,
    judge_request,
};
use cairn_types::{Address, ServerId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The request id of the handshake; calls count from 1.
const HANDSHAKE: RequestId = RequestId(0);
const DIAL_TIMEOUT: Duration = Duration::from_secs(2);

fn unreachable(address: &Address, outcome: Outcome, why: &str) -> Failure {
    let why = format!("{address}: {why}");
    Failure { outcome, ..Failure::not_done(ErrorCode::Unreachable, why) }
}

impl NetworkHandler<'_> {
    /// Sends a request to an address, and to no other server there than the one that is meant.
    pub(crate) fn call(
        &mut self,
        from: NodeId,
        owner: CallOwner,
        (to, server): (&Address, ServerId),
        request: &Request,
        payload: Bytes,
        deadline: WorldTime,
    ) {
        let Some(target) = self.network.by_address.get(to).copied() else {
            let failure = unreachable(to, Outcome::NotDone, "no such host");
            return self.fail_soon(from, owner, failure);
        };
        // One that brings an order goes where orders go, which all come by one connection (R15).
        let pushes = matches!(request, Request::Push(push) if push.order.is_none());
        let way = KeptWay { from, to: target, pushes };
        let id = match self.network.kept.get(&way) {
            Some(id) => *id,
            None => match self.dial(way, to, server) {
                Ok(id) => id,
                Err(failure) => return self.fail_soon(from, owner, failure),
            },
        };
        let connection = self.network.connections.get_mut(&id).expect("kept connections are there");
        let request_id = connection.fresh_request();
        let frame = SimFrame::request(request_id, request, payload);
        let state = connection.state;
        if let ConnectionState::Open(welcomed) = state
            && server != ServerId::default()
            && welcomed != server
        {
            return self.fail_soon(from, owner, wrong_server(welcomed, server));
        }
        let (unsent, sent) = match state {
            ConnectionState::Dialling => (Some(frame), None),
            ConnectionState::Open(_) => (None, Some(frame)),
            ConnectionState::Broken => (None, None),
        };
        connection.calls.insert(request_id, OpenCall { owner, server, unsent });
        self.time.queue.push(
            deadline.max(self.time.now),
            ScheduledEvent::Deadline { connection: id, request: request_id },
        );
        if let Some(frame) = sent {
            self.send(id, Direction::There, frame);
        }
    }

    fn fail_soon(&mut self, node: NodeId, owner: CallOwner, failure: Failure) {
        let life = self.nodes[node.0].life;
        let at = self.time.now.after(self.time.settings.latency_min);
        self.time.queue.push(at, ScheduledEvent::CallFailed { node, life, owner, failure });
    }

    fn dial(
        &mut self,
        way: KeptWay,
        address: &Address,
        expects: ServerId,
    ) -> Result<ConnectionId, Failure> {
        let KeptWay { from, to, .. } = way;
        let Some(hello) = self.nodes[from.0].hello.clone() else {
            return Err(unreachable(address, Outcome::NotDone, "the caller has no identity yet"));
        };
        self.network.next_connection += 1;
        let id = ConnectionId(self.network.next_connection);
        self.network.connections.insert(
            id,
            SimConnection {
                id,
                from,
                from_life: self.nodes[from.0].life,
                to,
                to_life: None,
                pushes: way.pushes,
                caller: Role::default(),
                address: address.clone(),
                state: ConnectionState::Dialling,
                next_request: 0,
                calls: BTreeMap::new(),
                there: SimPipe::default(),
                back: SimPipe::default(),
                dialler_knows: false,
                listener_knows: false,
            },
        );
        self.network.kept.insert(way, id);
        let hello = Request::Hello(Hello { expects, ..hello });
        self.send(id, Direction::There, SimFrame::request(HANDSHAKE, &hello, Bytes::new()));
        let at = self.time.now.after(DIAL_TIMEOUT);
        self.time.queue.push(at, ScheduledEvent::DialTimeout { connection: id });
        Ok(id)
    }

    /// Puts a frame into a pipe, behind those before it (N1).
    pub(crate) fn send(&mut self, id: ConnectionId, direction: Direction, frame: SimFrame) {
        // C1.
        let Some(connection) = self.network.connections.get(&id) else { return };
        if connection.state == ConnectionState::Broken {
            return;
        }
        let (sender, receiver) = connection.ends(direction);
        let blocked = self.network.blocked.contains(&(sender, receiver));
        let slow = self.nodes[sender.0].slow.max(self.nodes[receiver.0].slow);
        let arrival = self.time.now.after(self.time.latency(slow));
        let connection = self.network.connections.get_mut(&id).expect("looked up above");
        let pipe = connection.pipe(direction);
        if blocked {
            pipe.held.push(frame);
            return;
        }
        let at = arrival.max(WorldTime(pipe.last_arrival.0 + 1));
        pipe.last_arrival = at;
        pipe.in_flight.push_back(frame);
        self.time.queue.push(at, ScheduledEvent::Deliver { connection: id, direction });
    }

    /// The front frame of a pipe arrives.
    pub(crate) fn deliver(&mut self, id: ConnectionId, direction: Direction) {
        let now = self.time.now;
        // C1.
        let Some(connection) = self.network.connections.get_mut(&id) else { return };
        let pipe = connection.pipe(direction);
        if pipe.stalled {
            return;
        }
        if pipe.hold_until > now {
            let at = pipe.hold_until;
            return self.time.queue.push(at, ScheduledEvent::Deliver { connection: id, direction });
        }
        // The pipe broke, and this was behind the prefix that arrives (N2).
        let Some(mut frame) = pipe.in_flight.pop_front() else { return };
        self.time.trace.mix(&[id.0, u64::from(cairn_types::crc32c(&frame.head))]);
        let mut payload = frame.payload.into_bytes();
        if !payload.is_empty() && self.time.random.chance(self.time.settings.corrupt_permille) {
            let mut bytes = payload.to_vec();
            let at = self.time.random.below(bytes.len() as u64);
            bytes[usize::try_from(at).expect("within a payload")] ^= 0x40;
            payload = bytes.into();
            self.time.reach("payload corrupted on the wire");
        }
        frame.payload = payload.into();
        match direction {
            Direction::There => self.arrives_there(id, frame),
            Direction::Back => self.arrives_back(id, frame),
        }
    }

    fn arrives_there(&mut self, id: ConnectionId, frame: SimFrame) {
        let connection = self.network.connections.get(&id).expect("checked by deliver");
        let (to, from, to_life) = (connection.to, connection.from, connection.to_life);
        let node = &self.nodes[to.0];
        if node.process.is_none() {
            if node.death != Some(DeathCause::PowerLoss) {
                self.break_connection(id);
            }
            return;
        }
        if to_life.is_some_and(|life| life != node.life) {
            return self.break_connection(id);
        }
        let (request_id, _, said) = frame.read().expect("a frame that was not touched is read");
        let FrameMessage::Request(request) = said else { panic!("an answer came to a listener") };
        self.time.trace.line(|| format!("{from:?} -> {to:?} {request:?}"));
        match request {
            Request::Hello(hello) => self.accept(id, &hello),
            Request::Push(push) => {
                let caller = Caller { connection: id, request: request_id };
                let payload = frame.payload.into_bytes();
                self.deliveries.push(Delivery::Push { to, caller, push, payload });
            }
            request => self.asked(id, request_id, request),
        }
    }

    /// A request for the process, by itself or behind the push that brought it.
    pub(crate) fn asked(&mut self, id: ConnectionId, request_id: RequestId, request: Request) {
        // C1; and whoever listens has heard that it is gone.
        let Some(connection) = self.network.connections.get(&id) else { return };
        if connection.listener_knows {
            return;
        }
        let (from, to, caller) = (connection.from, connection.to, connection.caller);
        if let Err(failure) = judge_request(caller, &request) {
            return self.dismiss(id, (request_id, request.kind()), failure);
        }
        let at = self.time.now;
        let seen = SeenRequest { at, from, to, request: &request };
        if self.network.stall.as_mut().is_some_and(|chosen| chosen(&seen)) {
            let frame = SimFrame::request(request_id, &request, Bytes::new());
            return self.stall_at(id, frame);
        }
        let caller = Caller { connection: id, request: request_id };
        self.deliveries.push(Delivery::Request { from, to, caller, request });
    }

    fn accept(&mut self, id: ConnectionId, hello: &Hello) {
        let connection = self.network.connections.get_mut(&id).expect("checked by deliver");
        let node = &self.nodes[connection.to.0];
        connection.to_life = Some(node.life);
        connection.caller = hello.role;
        let answer = match &node.hello {
            Some(ours) => judge_hello(hello, ours).map(Response::Hello),
            None => Err(Failure::not_done(ErrorCode::Busy, "the server is starting")),
        };
        if answer.is_ok() && !hello.credentials.is_empty() {
            let (to, credentials) = (connection.to, hello.credentials.clone());
            self.deliveries.push(Delivery::Identified { to, connection: id, credentials });
        }
        let frame = SimFrame::answer(1, HANDSHAKE, &answer, Payload::default());
        self.send(id, Direction::Back, frame);
    }

    /// Whoever asks what is not for one of its role to ask is told so, and gone (R2).
    fn dismiss(&mut self, id: ConnectionId, (request, rpc): (RequestId, u16), why: Failure) {
        self.time.reach("asked out of role");
        self.send(
            id,
            Direction::Back,
            SimFrame::answer(rpc, request, &Err(why), Payload::default()),
        );
        self.break_connection(id);
    }

    fn arrives_back(&mut self, id: ConnectionId, frame: SimFrame) {
        let connection = self.network.connections.get_mut(&id).expect("checked by deliver");
        let (from, life, listener) = (connection.from, connection.from_life, connection.to);
        let (request, _, said) = frame.read().expect("a frame that was not touched is read");
        if request == HANDSHAKE {
            return match said {
                FrameMessage::Response(Response::Hello(welcome)) => {
                    self.welcomed(id, welcome.server)
                }
                FrameMessage::Failure(failure) => self.refused(id, &failure),
                _ => panic!("a handshake is answered by a welcome or a failure"),
            };
        }
        let Some(call) = connection.calls.remove(&request) else {
            return self.time.reach("answer after its deadline");
        };
        let result = match said {
            FrameMessage::Response(response) => {
                let answer = Answer { response, payload: frame.payload.into_bytes() };
                Ok(self.forged(listener, from, answer))
            }
            FrameMessage::Failure(failure) => Err(failure),
            FrameMessage::Request(_) => panic!("a request came to a dialler"),
        };
        self.complete(from, life, call.owner, result);
    }

    /// What arrives in an answer's place.
    fn forged(&mut self, from: NodeId, to: NodeId, answer: Answer) -> Answer {
        let Some(forger) = &mut self.network.forger else { return answer };
        let Some(forged) = forger(&SeenAnswer { from, to, answer: &answer }) else { return answer };
        self.time.trace.line(|| format!("{from:?} lies to {to:?}: {:?}", forged.response));
        forged
    }

    fn welcomed(&mut self, id: ConnectionId, server: ServerId) {
        let connection = self.network.connections.get_mut(&id).expect("checked by deliver");
        if connection.state != ConnectionState::Dialling {
            return;
        }
        connection.state = ConnectionState::Open(server);
        let (from, life) = (connection.from, connection.from_life);
        let mut frames = Vec::new();
        let mut wrong = Vec::new();
        for (request, call) in &mut connection.calls {
            if call.server != ServerId::default() && call.server != server {
                wrong.push(*request);
            } else if let Some(frame) = call.unsent.take() {
                frames.push(frame);
            }
        }
        let wrong: Vec<OpenCall> =
            wrong.iter().filter_map(|request| connection.calls.remove(request)).collect();
        for frame in frames {
            self.send(id, Direction::There, frame);
        }
        for call in wrong {
            self.complete(from, life, call.owner, Err(wrong_server(server, call.server)));
        }
    }

    /// The handshake was refused: all that waited for it fails with the reason.
    fn refused(&mut self, id: ConnectionId, failure: &Failure) {
        self.time.reach("handshake refused");
        self.end_dialling(id, failure);
    }

    fn end_dialling(&mut self, id: ConnectionId, failure: &Failure) {
        // C1.
        let Some(connection) = self.network.connections.get_mut(&id) else { return };
        let (from, way, life) = (connection.from, connection.way(), connection.from_life);
        let calls = std::mem::take(&mut connection.calls);
        self.network.kept.remove(&way);
        self.break_connection(id);
        for call in calls.into_values() {
            self.complete(from, life, call.owner, Err(failure.clone()));
        }
    }

    pub(crate) fn dial_timeout(&mut self, id: ConnectionId) {
        // C1.
        let Some(connection) = self.network.connections.get(&id) else { return };
        if connection.state == ConnectionState::Dialling {
            let address = connection.address.clone();
            self.time.reach("dialling timed out");
            let failure = unreachable(&address, Outcome::NotDone, "no answer to the handshake");
            self.end_dialling(id, &failure);
        }
    }

    /// E2: a call is answered at its deadline at the latest.
    pub(crate) fn deadline(&mut self, id: ConnectionId, request: RequestId) {
        // C1.
        let Some(connection) = self.network.connections.get_mut(&id) else { return };
        // It was answered in time.
        let Some(call) = connection.calls.remove(&request) else { return };
        let (from, life, address) =
            (connection.from, connection.from_life, connection.address.clone());
        let message = format!("{address}: no answer in time");
        let failure = if call.unsent.is_some() {
            Failure::not_done(ErrorCode::DeadlineExceeded, message)
        } else {
            Failure::unknown(ErrorCode::DeadlineExceeded, message)
        };
        self.time.reach("call deadline passed");
        self.complete(from, life, call.owner, Err(failure));
    }

    /// One end learns that its connection is gone.
    pub(crate) fn lost(&mut self, id: ConnectionId, end: ConnectionEnd) {
        // C1.
        let Some(connection) = self.network.connections.get_mut(&id) else { return };
        match end {
            // What is still to arrive arrives first; the end is told when it is released.
            ConnectionEnd::Listener if connection.there.stalled => return,
            ConnectionEnd::Dialler => {
                connection.dialler_knows = true;
                self.lost_by_dialler(id);
            }
            ConnectionEnd::Listener => {
                connection.listener_knows = true;
                let (to, life) = (connection.to, connection.to_life);
                if let Some(life) = life {
                    self.deliveries.push(Delivery::Disconnected { to, life, connection: id });
                }
            }
        }
        if self.network.connections.get(&id).is_some_and(|c| c.dialler_knows && c.listener_knows) {
            self.network.connections.remove(&id);
        }
    }

    fn lost_by_dialler(&mut self, id: ConnectionId) {
        let connection = self.network.connections.get_mut(&id).expect("checked by lost");
        let (from, way, life) = (connection.from, connection.way(), connection.from_life);
        let address = connection.address.clone();
        let calls = std::mem::take(&mut connection.calls);
        if self.network.kept.get(&way) == Some(&id) {
            self.network.kept.remove(&way);
        }
        for call in calls.into_values() {
            let outcome = if call.unsent.is_some() { Outcome::NotDone } else { Outcome::Unknown };
            let failure = unreachable(&address, outcome, "the connection broke");
            self.complete(from, life, call.owner, Err(failure));
        }
    }

    fn complete(
        &mut self,
        to: NodeId,
        life: u64,
        owner: CallOwner,
        result: Result<Answer, Failure>,
    ) {
        self.deliveries.push(Delivery::Completed { to, life, owner, result });
    }

    pub(crate) fn send_answer(
        &mut self,
        to: Caller,
        rpc: u16,
        answer: &Result<Response, Failure>,
        payload: Payload,
    ) {
        let frame = SimFrame::answer(rpc, to.request, answer, payload);
        self.send(to.connection, Direction::Back, frame);
    }
}

fn wrong_server(there: ServerId, meant: ServerId) -> Failure {
    Failure::not_done(
        ErrorCode::WrongServer,
        format!("server {there} listens here, the caller means {meant}"),
    )
}
