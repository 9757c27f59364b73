//! The listening side: connections taken in, their handshake, their requests, our answers.
//!
//! - A1: whoever does not say Hello within [`GREETING_TIME_MAX`] is closed, and so is whoever
//!   sends what no Cairn would; the reason goes out first where that is possible.
//! - A2: nobody is taken in before the driver has said who it is (`Effect::Identify`).

use crate::connection::{Accepted, Connection, Side, Stage};
use crate::frame_reader::Arrival;
use crate::network::{Alarm, LISTENER_TOKEN, Network, News};
use cairn_env::{Caller, ConnectionId, Payload};
use cairn_protocol::{
    ErrorCode, Failure, FrameKind, Hello, MESSAGE_SIZE_MAX, PAYLOAD_SIZE_MAX, Request, RequestId,
    Response, encode_frame, judge_hello,
};
use cairn_types::wire::Message;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use std::cell::Cell;
use std::time::Duration;

/// How long a new connection may take to say Hello.
const GREETING_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection that was told to go may take to read why.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(2);
/// How long to wait before accepting again when the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections taken in at one turn of the loop.
const ACCEPT_BATCH: usize = 64;

impl Network {
    /// What the driver says of itself in handshakes from now on.
    pub(crate) fn identify(&mut self, hello: Hello) {
        self.identity = Some(hello);
        self.listen();
    }

    /// Takes connections from now on, once the driver has said who it is (A2).
    pub(crate) fn listen(&mut self) {
        if self.identity.is_none() || self.is_listening {
            return;
        }
        if let Some(listener) = &self.listener {
            let data = EventData::new_u64(LISTENER_TOKEN);
            let added = epoll::add(&self.epoll, listener, data, EventFlags::IN);
            self.is_listening = added.is_ok();
            if added.is_err() {
                self.timers.set(self.now + ACCEPT_PAUSE, Alarm::Accept);
            }
        }
    }

    pub(crate) fn accept(&mut self) {
        for _ in 0..ACCEPT_BATCH {
            let Some(listener) = &self.listener else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = match accept_with(listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                // The one that was waiting gave up; the next may be fine.
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                // No file descriptors: waiting at once would find the listener ready for ever.
                Err(_) => return self.pause_accepting(),
            };
            // Over the bound the newcomer is closed at once, so that the others go on.
            if self.accepted_count >= self.accepted_max
                || sockopt::set_tcp_nodelay(&socket, true).is_err()
            {
                continue;
            }
            let until = self.now + GREETING_TIME_MAX;
            let registered = self.register(|timers, id| {
                let patience = timers.set(until, Alarm::Patience(id));
                let side = Side::Accepted(Accepted::default());
                Connection::new(socket, Stage::Greeting, side, patience)
            });
            self.accepted_count += usize::from(registered.is_ok());
        }
    }

    fn pause_accepting(&mut self) {
        if let Some(listener) = &self.listener
            && epoll::delete(&self.epoll, listener).is_ok()
        {
            self.is_listening = false;
            self.timers.set(self.now + ACCEPT_PAUSE, Alarm::Accept);
        }
    }

    /// The first frame of an accepted connection.
    pub(crate) fn greeted_with(&mut self, id: ConnectionId, arrival: Arrival) {
        let (request, judged) = match arrival {
            Arrival::Request(request, Request::Hello(hello)) => {
                let ours = self.identity.as_ref().expect("A2: nobody is accepted before");
                (request, judge_hello(&hello, ours))
            }
            Arrival::Broken { id: request, failure } => (request, Err(failure)),
            Arrival::Request(request, _)
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
            Ok(welcome) => {
                let Some(connection) = self.connections.get_mut(&id) else { return };
                connection.stage = Stage::Open;
                self.timers.cancel(connection.patience);
                if let Some(accepted) = connection.accepted() {
                    accepted.was_open = true;
                    accepted.in_flight += 1;
                }
                self.reply(
                    Caller { connection: id, request },
                    Ok(Response::Hello(welcome)),
                    Payload::default(),
                );
            }
            Err(failure) => self.dismiss(id, request, &failure),
        }
    }

    /// A frame of an accepted connection after its handshake.
    pub(crate) fn asked(&mut self, id: ConnectionId, arrival: Arrival) {
        match arrival {
            Arrival::Request(request, Request::Hello(_)) => {
                let failure = Failure::refused(ErrorCode::Invalid, "a second Hello");
                self.dismiss(id, request, &failure);
            }
            Arrival::Request(request, message) => self.take_request(id, request, message),
            Arrival::PushStarted { id: request, push, size } => {
                self.count_in_flight(id);
                self.start_relay(Caller { connection: id, request }, push, size);
            }
            Arrival::PushSegment { bytes, last } => self.relay_segment(id, bytes, last),
            Arrival::PushCorrupt => self.relay_corrupt(id),
            Arrival::PushRefused(request, failure) => {
                self.count_in_flight(id);
                self.reply(Caller { connection: id, request }, Err(failure), Payload::default());
            }
            Arrival::Broken { id: request, failure } => self.dismiss(id, request, &failure),
            Arrival::Answered { .. } => unreachable!("only on the dialling side"),
        }
    }

    /// To the room, or parked until the connection has room for its answer (N2).
    fn take_request(&mut self, id: ConnectionId, request: RequestId, message: Request) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let is_paused = connection.is_paused();
        let Some(accepted) = connection.accepted() else { return };
        if is_paused {
            accepted.parked.push_back((request, message));
        } else {
            accepted.begin(request, &message);
            let from = Caller { connection: id, request };
            self.news.push_back(News::Request { from, request: message });
        }
    }

    /// Hands parked requests to the room as far as there is room for their answers.
    pub(crate) fn unpark(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        while !connection.is_full() {
            let Some(accepted) = connection.accepted() else { return };
            let Some((request, message)) = accepted.parked.pop_front() else { return };
            accepted.begin(request, &message);
            let from = Caller { connection: id, request };
            self.news.push_back(News::Request { from, request: message });
        }
    }

    fn count_in_flight(&mut self, id: ConnectionId) {
        if let Some(accepted) = self.connections.get_mut(&id).and_then(Connection::accepted) {
            accepted.in_flight += 1;
        }
    }

    /// Answers a request, where its connection is still there.
    pub(crate) fn reply(
        &mut self,
        to: Caller,
        answer: Result<Response, Failure>,
        payload: Payload,
    ) {
        let Some(connection) = self.connections.get_mut(&to.connection) else { return };
        if connection.stage != Stage::Open {
            return;
        }
        let Some(accepted) = connection.accepted() else { return };
        accepted.end(to.request);
        let mut answered = false;
        connection.out.frame(|out| match &answer {
            Ok(response) => {
                answered = encode_response(to.request, response, payload.len(), out);
                if !answered {
                    // A defect of the driver: told to the one who asked, and to nobody else's cost.
                    let why = format!("the answer of rpc {} is over its limit", response.kind());
                    let failure = Failure::unknown(ErrorCode::Internal, why);
                    encode_failure(to.request, &failure, out);
                }
            }
            Err(failure) => encode_failure(to.request, failure, out),
        });
        if answered && !payload.is_empty() {
            connection.out.payload(payload);
        }
        self.mark(to.connection);
    }

    /// Says why, and ends the connection once that is written (A1).
    fn dismiss(&mut self, id: ConnectionId, request: RequestId, failure: &Failure) {
        let until = self.now + FAREWELL_TIME_MAX;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.stage = Stage::Draining;
        self.timers.cancel(connection.patience);
        connection.patience = self.timers.set(until, Alarm::Patience(id));
        connection.out.frame(|out| encode_failure(request, failure, out));
        let receiving = connection.accepted().and_then(|accepted| accepted.receiving.take());
        if let Some(relay) = receiving {
            self.abort_relay(relay);
        }
        self.mark(id);
    }
}

/// Appends the frame of an answer, or nothing where it is larger than a frame may be; says which.
fn encode_response(
    request: RequestId,
    response: &Response,
    payload_size: usize,
    out: &mut Vec<u8>,
) -> bool {
    if payload_size > PAYLOAD_SIZE_MAX as usize {
        return false;
    }
    let start = out.len();
    let fits = Cell::new(true);
    let message = |out: &mut Vec<u8>| {
        let start = out.len();
        response.encode(out);
        fits.set(out.len() - start <= MESSAGE_SIZE_MAX as usize);
        if !fits.get() {
            out.truncate(start);
        }
    };
    encode_frame(response.kind(), FrameKind::Response, request, &message, payload_size, out);
    if !fits.get() {
        out.truncate(start);
    }
    fits.get()
}

/// The rpc of a failure's frame says nothing: it is the handshake's, so that a caller of any
/// version can read it.
fn encode_failure(request: RequestId, failure: &Failure, out: &mut Vec<u8>) {
    encode_frame(1, FrameKind::Failure, request, &|out| failure.encode(out), 0, out);
}

#[cfg(test)]
mod tests {
    use super::GREETING_TIME_MAX;
    use crate::network::{LISTENER_TOKEN, Network};
    use cairn_protocol::{Hello, Role};
    use cairn_types::{CellId, Incarnation, ServerId};
    use rustix::event::epoll::{CreateFlags, EventFlags, create};
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn whoever_does_not_say_hello_in_time_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("non-blocking");
        let mut peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let epoll = create(CreateFlags::CLOEXEC).expect("an epoll");
        let keep = Box::new(|_, _| Ok(()));
        let mut network = Network::new(epoll, Some(listener), 10, keep);
        let (cell, server) = (CellId::default(), ServerId::default());
        network.identify(Hello::new(cell, Role::Master, server, Incarnation::default()));
        while network.accepted_count == 0 {
            network.ready(LISTENER_TOKEN, EventFlags::IN);
        }
        network.ring();
        assert_eq!(network.accepted_count, 1, "it still has time");
        network.now = network.now + GREETING_TIME_MAX;
        network.ring();
        assert_eq!(network.accepted_count, 0);
        assert_eq!(peer.read(&mut [0]).expect("closed, not reset"), 0);
        assert!(network.news.is_empty(), "the driver never heard of it");
    }
}
