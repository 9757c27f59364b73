//! The dialling side: one kept connection per server for calls, its handshake, answers and
//! deadlines.
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

use crate::connection::{Connection, Dialled, Held, Pending, Side, Stage, Target};
use crate::frame_reader::Arrival;
use crate::name_lookup::{NameLookup, numbers};
use crate::network::{Alarm, Line, Network, News};
use bytes::Bytes;
use cairn_env::{Answer, ConnectionId, EffectId};
use cairn_protocol::{
    ErrorCode, Failure, FrameKind, Hello, Outcome, PAYLOAD_SIZE_MAX, Request, RequestId, Response,
    Role, encode_frame,
};
use cairn_types::{Address, CellId, Incarnation, ServerId, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// How long connecting and the handshake may take together.
const DIAL_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of requests that may wait for one connection.
const CALL_BYTES_MAX: usize = 256 << 20;

/// The driver's call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: EffectId,
    pub(crate) to: Address,
    pub(crate) server: ServerId,
    pub(crate) request: Request,
    pub(crate) payload: Bytes,
    pub(crate) deadline: Time,
}

impl Network {
    /// Sends a request, or completes it at once where that cannot be.
    pub(crate) fn call(&mut self, call: Call) {
        let id = call.id;
        if let Err(failure) = self.try_call(call) {
            self.news.push_back(News::Answered { id, result: Err(failure) });
        }
    }

    fn try_call(&mut self, call: Call) -> Result<(), Failure> {
        let Call { id, to, server, request, payload, deadline } = call;
        if payload.len() > PAYLOAD_SIZE_MAX as usize {
            let why =
                format!("a payload of {} bytes; the limit is {PAYLOAD_SIZE_MAX}", payload.len());
            return Err(Failure::refused(ErrorCode::Invalid, why));
        }
        if deadline <= self.now {
            return Err(too_late(&to, Outcome::NotDone));
        }
        let known = self
            .lines
            .get(&to)
            .and_then(|lines| lines.iter().find(|line| line.server == server && !line.is_bulk));
        let connection_id = match known {
            Some(line) => line.connection,
            None => self.dial(&to, server, false)?,
        };
        if self.connections.get(&connection_id).is_some_and(|c| c.backlog() > CALL_BYTES_MAX) {
            let why = format!("too many bytes wait to be sent to {to}");
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        let timers = &mut self.timers;
        let connections = &mut self.connections;
        let target =
            |request| Target::Effect(id, timers.set(deadline, Alarm::Call(connection_id, request)));
        let size = payload.len();
        send_request(connections, connection_id, &request, size, Some(payload), target);
        self.mark(connection_id);
        Ok(())
    }

    /// A new connection, on its way.
    pub(crate) fn dial(
        &mut self,
        address: &Address,
        server: ServerId,
        is_bulk: bool,
    ) -> Result<ConnectionId, Failure> {
        let unreachable = |why: &str| {
            let why = format!("cannot reach {address}: {why}");
            Failure::not_done(ErrorCode::Unreachable, why)
        };
        let (stage, lookup, socket) = match numbers(address) {
            Some(direct) => {
                let socket = connect_first(&mut vec![direct]);
                let socket = socket.map_err(|errno| unreachable(&errno.to_string()))?;
                (Stage::Connecting, None, socket)
            }
            None => {
                let started = NameLookup::start(address);
                let (lookup, done) = started.map_err(|error| unreachable(&error.to_string()))?;
                (Stage::Naming, Some(lookup), done)
            }
        };
        let until = self.now + DIAL_TIME_MAX;
        let registered = self.register(|timers, id| {
            let patience = timers.set(until, Alarm::Patience(id));
            let side = Side::Dialled(Dialled {
                address: address.clone(),
                server,
                lookup,
                others: Vec::new(),
                held: Vec::new(),
                pending: BTreeMap::new(),
                next_request: RequestId(1),
                open_frame: None,
                unanswered: 0,
            });
            Connection::new(socket, stage, side, patience)
        });
        let connection = registered.map_err(|errno| unreachable(&errno.to_string()))?;
        let line = Line { server, is_bulk, connection };
        self.lines.entry(address.clone()).or_default().push(line);
        Ok(connection)
    }

    /// A name has been looked up.
    pub(crate) fn named(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.stage = Stage::Connecting;
        let lookup = connection.dialled().and_then(|dialled| dialled.lookup.take());
        let Some(lookup) = lookup else { return };
        let mut others = match lookup.result() {
            Ok(others) => others,
            Err(error) => return self.lose(id, &error.to_string()),
        };
        match connect_first(&mut others) {
            Ok(socket) => self.try_next(id, socket, others),
            Err(errno) => self.lose(id, &errno.to_string()),
        }
    }

    /// The kernel has connected, or failed to: says Hello, or tries where else the name leads.
    pub(crate) fn connected(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let result = sockopt::socket_error(&connection.socket).and_then(|error| error);
        let Some(dialled) = connection.dialled() else { return };
        if let Err(errno) = result {
            let mut others = std::mem::take(&mut dialled.others);
            return match connect_first(&mut others) {
                Ok(socket) => self.try_next(id, socket, others),
                Err(_) => self.lose(id, &errno.to_string()),
            };
        }
        let ours = self.identity.clone().unwrap_or_else(|| {
            Hello::new(CellId::default(), Role::Client, ServerId::default(), Incarnation::default())
        });
        let hello = Request::Hello(Hello { expects: dialled.server, ..ours });
        connection.stage = Stage::Greeting;
        connection.out.frame(|out| encode_request(&hello, RequestId::default(), 0, out));
        self.mark(id);
    }

    fn try_next(&mut self, id: ConnectionId, socket: OwnedFd, others: Vec<SocketAddr>) {
        let data = EventData::new_u64(id.0);
        let added = epoll::add(&self.epoll, &socket, data, EventFlags::OUT);
        if let Some(connection) = self.connections.get_mut(&id) {
            // The old one may be open elsewhere (a look-up's thread), so closing is not enough.
            let _ = epoll::delete(&self.epoll, &connection.socket);
            connection.socket = socket;
            connection.interest = EventFlags::OUT;
            if let Some(dialled) = connection.dialled() {
                dialled.others = others;
            }
        }
        if let Err(errno) = added {
            self.lose(id, &errno.to_string());
        }
    }

    /// A frame on a dialled connection.
    pub(crate) fn answered(&mut self, id: ConnectionId, arrival: Arrival) {
        match arrival {
            Arrival::Answered { id: request, rpc, result } => {
                let Some(connection) = self.connections.get_mut(&id) else { return };
                if connection.stage == Stage::Greeting {
                    return self.welcomed(id, result);
                }
                let Some(dialled) = connection.dialled() else { return };
                match dialled.pending.remove(&request) {
                    Some(pending) if pending.rpc == rpc || result.is_err() => {
                        self.complete(id, pending.target, result);
                    }
                    Some(pending) => {
                        dialled.pending.insert(request, pending);
                        self.lose(id, "it answered another question than the one asked");
                    }
                    // The server ends the connection and says why.
                    None if request == RequestId::default() => {
                        let why = result.err().map(|failure| failure.message);
                        self.lose(id, why.as_deref().unwrap_or("an answer to nothing"));
                    }
                    // An answer after its deadline.
                    None => {}
                }
            }
            Arrival::Broken { failure, .. } if failure.code == ErrorCode::VersionUnsupported => {
                self.refused(id, failure);
            }
            Arrival::Broken { failure, .. } => self.lose(id, &failure.message),
            _ => unreachable!("only on the listening side"),
        }
    }

    fn welcomed(&mut self, id: ConnectionId, result: Result<Answer, Failure>) {
        let welcome = match result {
            Ok(Answer { response: Response::Hello(welcome), .. }) => welcome,
            Ok(_) => return self.lose(id, "it did not answer the handshake"),
            Err(failure) => return self.refused(id, failure),
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Side::Dialled(dialled) = &mut connection.side else { return };
        if dialled.server != ServerId::default() && welcome.server != dialled.server {
            let why = format!(
                "server {} listens at {}, not {}",
                welcome.server, dialled.address, dialled.server
            );
            return self.refused(id, Failure::not_done(ErrorCode::WrongServer, why));
        }
        connection.stage = Stage::Open;
        self.timers.cancel(connection.patience);
        for held in std::mem::take(&mut dialled.held) {
            if let Some(pending) = dialled.pending.get_mut(&held.id) {
                pending.starts_at = Some(connection.out.queued());
            }
            for piece in held.pieces {
                connection.out.payload(piece);
            }
        }
        self.mark(id);
    }

    /// The other side does not want us: all that waits for the handshake hears why.
    fn refused(&mut self, id: ConnectionId, mut failure: Failure) {
        // Another server at this address: the one meant may be found elsewhere.
        if failure.code == ErrorCode::WrongServer {
            failure.outcome = Outcome::NotDone;
        }
        let Some(dialled) = self.connections.get_mut(&id).and_then(Connection::dialled) else {
            return;
        };
        dialled.held.clear();
        let pending = std::mem::take(&mut dialled.pending);
        for (_, pending) in pending {
            let failure = match pending.starts_at {
                None => failure.clone(),
                Some(_) => Failure { outcome: Outcome::Unknown, ..failure.clone() },
            };
            self.fail(id, pending.target, failure);
        }
        self.lose(id, &failure.message);
    }

    /// A dialled connection is gone: what was not sent is not done, what was is unknown (K2).
    pub(crate) fn lost_line(&mut self, id: ConnectionId, lost: Dialled, written: u64, why: &str) {
        if let Some(lines) = self.lines.get_mut(&lost.address) {
            lines.retain(|line| line.connection != id);
            if lines.is_empty() {
                self.lines.remove(&lost.address);
            }
        }
        for (_, pending) in lost.pending {
            let failure = if pending.starts_at.is_some_and(|start| start < written) {
                let why = format!("lost the connection to {}: {why}", lost.address);
                Failure::unknown(ErrorCode::Unreachable, why)
            } else {
                let why = format!("cannot reach {}: {why}", lost.address);
                Failure::not_done(ErrorCode::Unreachable, why)
            };
            self.fail(id, pending.target, failure);
        }
    }

    /// A call's deadline (E2). A frame that is queued may yet go out, so it is unknown; one that
    /// still waits for the handshake is taken back.
    pub(crate) fn deadline_passed(&mut self, id: ConnectionId, request: RequestId) {
        let Some(dialled) = self.connections.get_mut(&id).and_then(Connection::dialled) else {
            return;
        };
        let Some(pending) = dialled.pending.remove(&request) else { return };
        dialled.held.retain(|held| held.id != request);
        let outcome = if pending.starts_at.is_none() { Outcome::NotDone } else { Outcome::Unknown };
        let failure = too_late(&dialled.address, outcome);
        self.fail(id, pending.target, failure);
    }

    /// An answer that came from the other side.
    fn complete(&mut self, from: ConnectionId, to: Target, result: Result<Answer, Failure>) {
        match to {
            Target::Effect(id, alarm) => {
                self.timers.cancel(alarm);
                self.news.push_back(News::Answered { id, result });
            }
            Target::Relay(relay, size) => {
                if let Some(dialled) = self.connections.get_mut(&from).and_then(Connection::dialled)
                {
                    dialled.unanswered -= size;
                }
                self.relay_answered(relay, result.map(drop));
            }
        }
    }

    /// A failure that was made on this side.
    fn fail(&mut self, from: ConnectionId, target: Target, failure: Failure) {
        match target {
            Target::Relay(relay, _) => self.relay_broken(relay, &failure),
            Target::Effect(..) => self.complete(from, target, Err(failure)),
        }
    }
}

/// Queues a request, or holds it until the handshake is done. Its payload of `size` bytes is
/// here, or follows piece by piece.
pub(crate) fn send_request(
    connections: &mut BTreeMap<ConnectionId, Connection>,
    to: ConnectionId,
    request: &Request,
    size: usize,
    payload: Option<Bytes>,
    target: impl FnOnce(RequestId) -> Target,
) {
    let connection = connections.get_mut(&to).expect("found or dialled just now");
    let is_open = connection.stage == Stage::Open;
    let Side::Dialled(dialled) = &mut connection.side else {
        unreachable!("lines lead to dialled connections")
    };
    let id = dialled.next_request;
    dialled.next_request = RequestId(id.0 + 1);
    let starts_at = is_open.then(|| connection.out.queued());
    if is_open {
        connection.out.frame(|out| encode_request(request, id, size, out));
        if let Some(payload) = payload.filter(|payload| !payload.is_empty()) {
            connection.out.payload(payload);
        }
    } else {
        let mut head = Vec::new();
        encode_request(request, id, size, &mut head);
        let pieces = [Some(Bytes::from(head)), payload].into_iter().flatten().collect();
        dialled.held.push(Held { id, pieces });
    }
    let pending = Pending { target: target(id), rpc: request.kind(), starts_at };
    dialled.pending.insert(id, pending);
}

fn encode_request(request: &Request, id: RequestId, payload_size: usize, out: &mut Vec<u8>) {
    let message = |out: &mut Vec<u8>| request.encode(out);
    encode_frame(request.kind(), FrameKind::Request, id, &message, payload_size, out);
}

fn too_late(to: &Address, outcome: Outcome) -> Failure {
    let message = format!("no answer from {to} in time");
    Failure { code: ErrorCode::DeadlineExceeded, outcome, message, server: ServerId::default() }
}

/// Starts connecting to the first address that the kernel does not refuse at once.
fn connect_first(addresses: &mut Vec<SocketAddr>) -> Result<OwnedFd, Errno> {
    let mut refusal = Errno::ADDRNOTAVAIL;
    while let Some(address) = addresses.pop() {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => return Ok(socket),
            Err(errno) => refusal = errno,
        }
    }
    Err(refusal)
}
