//! Calls: dialled on demand, one kept connection per pair, handshake first, each completed once.
//!
//! ```text
//!   call ─► dial ─► Hello ──► judge_hello ──► Welcome ─► frames … ─► answer
//!             │                                  │                     │
//!             └ refused, timed out: not done     └ refused: its reason └ deadline, lost: unknown
//! ```

use crate::clock::WorldTime;
use crate::faults::Death;
use crate::machine::Input;
use crate::network::{Connection, Direction, Ends, Frame, OpenCall, Owner, Pipe, Said, State};
use crate::queue::Happening;
use crate::watch::Seen;
use crate::world::{NodeId, SimWorld};
use bytes::Bytes;
use cairn_env::{Answer, Caller, ConnectionId, Payload};
use cairn_protocol::{
    ErrorCode, Failure, Hello, Outcome, Request, RequestId, Response, judge_hello,
};
use cairn_types::{Address, ServerId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The request id of the handshake; calls count from 1.
const HANDSHAKE: RequestId = RequestId(0);
const DIAL_TIMEOUT: Duration = Duration::from_secs(2);

fn unreachable(address: &Address, outcome: Outcome, why: &str) -> Failure {
    Failure {
        code: ErrorCode::Unreachable,
        outcome,
        message: format!("{address}: {why}"),
        server: ServerId::default(),
    }
}

impl SimWorld {
    #[allow(clippy::too_many_arguments, reason = "the fields of Effect::Call")]
    pub(crate) fn call(
        &mut self,
        from: NodeId,
        owner: Owner,
        to: &Address,
        server: ServerId,
        request: &Request,
        payload: Bytes,
        deadline: WorldTime,
    ) {
        let Some(target) = self.by_address.get(to).copied() else {
            let failure = unreachable(to, Outcome::NotDone, "no such host");
            return self.fail_soon(from, owner, failure);
        };
        let id = match self.kept.get(&(from, target)) {
            Some(id) => *id,
            None => match self.dial(from, target, to, server) {
                Ok(id) => id,
                Err(failure) => return self.fail_soon(from, owner, failure),
            },
        };
        let connection = self.connections.get_mut(&id).expect("kept connections are there");
        let request_id = connection.fresh_request();
        let frame = Frame::request(request_id, request, payload);
        let state = connection.state;
        if let State::Open(welcomed) = state
            && server != ServerId::default()
            && welcomed != server
        {
            return self.fail_soon(from, owner, wrong_server(welcomed, server));
        }
        let (unsent, sent) = match state {
            State::Dialling => (Some(frame), None),
            State::Open(_) => (None, Some(frame)),
            State::Broken => (None, None),
        };
        connection.calls.insert(request_id, OpenCall { owner, server, unsent });
        self.queue.push(
            deadline.max(self.now),
            Happening::Deadline { connection: id, request: request_id },
        );
        if let Some(frame) = sent {
            self.send(id, Direction::There, frame);
        }
    }

    fn fail_soon(&mut self, node: NodeId, owner: Owner, failure: Failure) {
        let life = self.nodes[node.0].life;
        let at = self.now.after(self.settings.latency_min);
        self.queue.push(at, Happening::CallFailed { node, life, owner, failure });
    }

    fn dial(
        &mut self,
        from: NodeId,
        to: NodeId,
        address: &Address,
        expects: ServerId,
    ) -> Result<ConnectionId, Failure> {
        let Some(hello) = self.nodes[from.0].hello.clone() else {
            return Err(unreachable(address, Outcome::NotDone, "the caller has no identity yet"));
        };
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        self.connections.insert(
            id,
            Connection {
                id,
                from,
                from_life: self.nodes[from.0].life,
                to,
                to_life: None,
                address: address.clone(),
                state: State::Dialling,
                next_request: 0,
                calls: BTreeMap::new(),
                there: Pipe::default(),
                back: Pipe::default(),
                dialler_knows: false,
                listener_knows: false,
            },
        );
        self.kept.insert((from, to), id);
        let hello = Request::Hello(Hello { expects, ..hello });
        self.send(id, Direction::There, Frame::request(HANDSHAKE, &hello, Bytes::new()));
        let at = self.now.after(DIAL_TIMEOUT);
        self.queue.push(at, Happening::DialTimeout { connection: id });
        Ok(id)
    }

    /// Puts a frame into a pipe, behind those before it (N1).
    pub(crate) fn send(&mut self, id: ConnectionId, direction: Direction, frame: Frame) {
        let Some(connection) = self.connections.get(&id) else { return };
        if connection.state == State::Broken {
            return;
        }
        let (sender, receiver) = connection.ends(direction);
        let blocked = self.blocked.contains(&(sender, receiver));
        let slow = self.nodes[sender.0].slow.max(self.nodes[receiver.0].slow);
        let (min, max) = (self.settings.latency_min, self.settings.latency_max);
        let arrival = self.now.after(self.span(min, max, slow));
        let connection = self.connections.get_mut(&id).expect("looked up above");
        let pipe = connection.pipe(direction);
        if blocked {
            pipe.held.push(frame);
            return;
        }
        let at = arrival.max(WorldTime(pipe.last_arrival.0 + 1));
        pipe.last_arrival = at;
        pipe.in_flight.push_back(frame);
        self.queue.push(at, Happening::Deliver { connection: id, direction });
    }

    /// The front frame of a pipe arrives.
    pub(crate) fn deliver(&mut self, id: ConnectionId, direction: Direction) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let pipe = connection.pipe(direction);
        if pipe.stalled {
            return;
        }
        if pipe.hold_until > now {
            let at = pipe.hold_until;
            return self.queue.push(at, Happening::Deliver { connection: id, direction });
        }
        let Some(mut frame) = pipe.in_flight.pop_front() else { return };
        self.trace.mix(&[id.0, u64::from(cairn_types::crc32c(&frame.head))]);
        let mut payload = frame.payload.into_bytes();
        if !payload.is_empty() && self.random.chance(self.settings.corrupt_permille) {
            let mut bytes = payload.to_vec();
            let at = self.random.below(bytes.len() as u64);
            bytes[usize::try_from(at).expect("within a payload")] ^= 0x40;
            payload = bytes.into();
            self.reach("payload corrupted on the wire");
        }
        frame.payload = payload.into();
        match direction {
            Direction::There => self.arrives_there(id, frame),
            Direction::Back => self.arrives_back(id, frame),
        }
    }

    fn arrives_there(&mut self, id: ConnectionId, frame: Frame) {
        let connection = self.connections.get(&id).expect("checked by deliver");
        let (to, from, to_life) = (connection.to, connection.from, connection.to_life);
        let node = &self.nodes[to.0];
        if node.machine.is_none() {
            if node.death != Some(Death::PowerLoss) {
                self.break_connection(id);
            }
            return;
        }
        if to_life.is_some_and(|life| life != node.life) {
            return self.break_connection(id);
        }
        let (request_id, _, said) = frame.read().expect("a frame that was not touched is read");
        let Said::Request(request) = said else { panic!("an answer came to a listener") };
        self.trace.line(|| format!("{from:?} -> {to:?} {request:?}"));
        match request {
            Request::Hello(hello) => self.accept(id, &hello),
            Request::Push(push) => {
                self.serve_push(id, request_id, push, frame.payload.into_bytes());
            }
            request => {
                let seen = Seen { at: self.now, from, to, request: &request };
                if self.stall.as_mut().is_some_and(|chosen| chosen(&seen)) {
                    return self.stall_at(id, frame);
                }
                let caller = Caller { connection: id, request: request_id };
                self.served.insert(caller, (from, request.clone()));
                if let Some(watch) = &self.watch {
                    let seen = Seen { at: self.now, from, to, request: &request };
                    watch.borrow_mut().delivered(&seen);
                }
                self.feed(to, Input::Request { from: caller, request });
            }
        }
    }

    fn accept(&mut self, id: ConnectionId, hello: &Hello) {
        let connection = self.connections.get_mut(&id).expect("checked by deliver");
        let node = &self.nodes[connection.to.0];
        connection.to_life = Some(node.life);
        let answer = match &node.hello {
            Some(ours) => judge_hello(hello, ours).map(Response::Hello),
            None => Err(Failure::not_done(ErrorCode::Busy, "the server is starting")),
        };
        let frame = Frame::answer(1, HANDSHAKE, &answer, Payload::default());
        self.send(id, Direction::Back, frame);
    }

    fn arrives_back(&mut self, id: ConnectionId, frame: Frame) {
        let connection = self.connections.get_mut(&id).expect("checked by deliver");
        let (from, life) = (connection.from, connection.from_life);
        let (request, _, said) = frame.read().expect("a frame that was not touched is read");
        if request == HANDSHAKE {
            return match said {
                Said::Response(Response::Hello(welcome)) => self.welcomed(id, welcome.server),
                Said::Failure(failure) => self.refused(id, &failure),
                _ => panic!("a handshake is answered by a welcome or a failure"),
            };
        }
        let Some(call) = connection.calls.remove(&request) else {
            return self.reach("answer after its deadline");
        };
        if !self.lives(from, life) {
            return;
        }
        let result = match said {
            Said::Response(response) => {
                Ok(Answer { response, payload: frame.payload.into_bytes() })
            }
            Said::Failure(failure) => Err(failure),
            Said::Request(_) => panic!("a request came to a dialler"),
        };
        self.trace.line(|| match &result {
            Ok(answer) => {
                format!("{from:?} <- {:?} and {} bytes", answer.response, answer.payload.len())
            }
            Err(failure) => format!("{from:?} <- {failure:?}"),
        });
        self.complete(from, call.owner, result);
    }

    fn welcomed(&mut self, id: ConnectionId, server: ServerId) {
        let connection = self.connections.get_mut(&id).expect("checked by deliver");
        if connection.state != State::Dialling {
            return;
        }
        connection.state = State::Open(server);
        let from = connection.from;
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
            self.complete(from, call.owner, Err(wrong_server(server, call.server)));
        }
    }

    /// The handshake was refused: all that waited for it fails with the reason.
    fn refused(&mut self, id: ConnectionId, failure: &Failure) {
        self.reach("handshake refused");
        self.end_dialling(id, failure);
    }

    fn end_dialling(&mut self, id: ConnectionId, failure: &Failure) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (from, to, life) = (connection.from, connection.to, connection.from_life);
        let calls = std::mem::take(&mut connection.calls);
        self.kept.remove(&(from, to));
        self.break_connection(id);
        for call in calls.into_values() {
            if self.lives(from, life) {
                self.complete(from, call.owner, Err(failure.clone()));
            }
        }
    }

    pub(crate) fn dial_timeout(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        if connection.state == State::Dialling {
            let address = connection.address.clone();
            self.reach("dialling timed out");
            let failure = unreachable(&address, Outcome::NotDone, "no answer to the handshake");
            self.end_dialling(id, &failure);
        }
    }

    /// E2: a call is answered at its deadline at the latest.
    pub(crate) fn deadline(&mut self, id: ConnectionId, request: RequestId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(call) = connection.calls.remove(&request) else { return };
        let (from, life, address) =
            (connection.from, connection.from_life, connection.address.clone());
        let message = format!("{address}: no answer in time");
        let failure = if call.unsent.is_some() {
            Failure::not_done(ErrorCode::DeadlineExceeded, message)
        } else {
            Failure::unknown(ErrorCode::DeadlineExceeded, message)
        };
        self.reach("call deadline passed");
        if self.lives(from, life) {
            self.complete(from, call.owner, Err(failure));
        }
    }

    /// One end learns that its connection is gone.
    pub(crate) fn lost(&mut self, id: ConnectionId, end: Ends) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match end {
            // What is still to arrive arrives first; the end is told when it is released.
            Ends::Listener if connection.there.stalled => return,
            Ends::Dialler => {
                connection.dialler_knows = true;
                self.lost_by_dialler(id);
            }
            Ends::Listener => {
                connection.listener_knows = true;
                let (to, life) = (connection.to, connection.to_life);
                if life.is_some_and(|life| self.lives(to, life)) {
                    self.feed(to, Input::Disconnected(id));
                }
            }
        }
        if self.connections.get(&id).is_some_and(|c| c.dialler_knows && c.listener_knows) {
            self.connections.remove(&id);
        }
    }

    fn lost_by_dialler(&mut self, id: ConnectionId) {
        let connection = self.connections.get_mut(&id).expect("checked by lost");
        let (from, to, life) = (connection.from, connection.to, connection.from_life);
        let address = connection.address.clone();
        let calls = std::mem::take(&mut connection.calls);
        if self.kept.get(&(from, to)) == Some(&id) {
            self.kept.remove(&(from, to));
        }
        for call in calls.into_values() {
            let outcome = if call.unsent.is_some() { Outcome::NotDone } else { Outcome::Unknown };
            if self.lives(from, life) {
                let failure = unreachable(&address, outcome, "the connection broke");
                self.complete(from, call.owner, Err(failure));
            }
        }
    }

    pub(crate) fn complete(&mut self, node: NodeId, owner: Owner, result: Result<Answer, Failure>) {
        match owner {
            Owner::Driver(id) => self.feed(node, Input::Answered(id, result)),
            Owner::Chain(push) => self.push_passed_on(push, result.map(|_| ())),
        }
    }

    pub(crate) fn send_answer(
        &mut self,
        to: Caller,
        rpc: u16,
        answer: &Result<Response, Failure>,
        payload: Payload,
    ) {
        let frame = Frame::answer(rpc, to.request, answer, payload);
        self.send(to.connection, Direction::Back, frame);
    }
}

fn wrong_server(there: ServerId, meant: ServerId) -> Failure {
    Failure::not_done(
        ErrorCode::WrongServer,
        format!("server {there} listens here, the caller means {meant}"),
    )
}
