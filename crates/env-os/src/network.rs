//! All sockets of a process, waited for by one epoll.
//!
//! ```text
//!   epoll ─► ready(token) ─► arrivals ─► news (for the driver)
//!   effects ─► call / reply ─► out-queues ─► flush, once per turn of the loop
//! ```
//! - G1: a connection that is lost completes all that hung on it, once (E1).
//! - G2: news stand in the order in which their frames came (E4).
//!
//! The parts: `accepting` (the listening side), `calls` (the dialling side), `relays` (pushes).

use crate::connection::{Connection, Side, Stage};
use crate::frame_reader::{Arrival, Ended, SCRATCH_SIZE};
use crate::relays::{Keep, Relay, RelayId};
use crate::timers::Timers;
use cairn_env::buffer_pool::BufferPool;
use cairn_env::{Answer, Caller, ConnectionId, EffectId};
use cairn_protocol::{Failure, Hello, Request, RequestId};
use cairn_types::{Address, ServerId, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::collections::{BTreeMap, VecDeque};
use std::net::TcpListener;

/// The token of the loop's waker.
pub(crate) const WAKER_TOKEN: u64 = 0;
/// The token of the listener; connections come after it.
pub(crate) const LISTENER_TOKEN: u64 = 1;

/// What the network has for the driver.
#[derive(Debug)]
pub(crate) enum News {
    Request { from: Caller, request: Request },
    Disconnected(ConnectionId),
    Answered { id: EffectId, result: Result<Answer, Failure> },
    Woken(EffectId),
}

/// What an alarm is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// The driver's wake.
    Wake(EffectId),
    /// A call's deadline.
    Call(ConnectionId, RequestId),
    /// A handshake or farewell that takes too long.
    Patience(ConnectionId),
    /// A push that takes too long.
    Relay(RelayId),
    /// Accepting may be tried again.
    Accept,
}

/// One way to a server: where it leads, and by which connection.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) server: ServerId,
    pub(crate) is_bulk: bool,
    pub(crate) connection: ConnectionId,
}

/// All sockets.
pub(crate) struct Network {
    pub(crate) epoll: OwnedFd,
    pub(crate) now: Time,
    pub(crate) timers: Timers<Alarm>,
    pub(crate) news: VecDeque<News>,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    last_id: ConnectionId,
    dirty: Vec<ConnectionId>,
    /// Epoll watches for something else since the last time that it was asked.
    pub(crate) has_new_interest: bool,
    pool: BufferPool,
    scratch: Vec<u8>,
    arrivals: Vec<Arrival>,
    /// What to say in handshakes.
    pub(crate) identity: Option<Hello>,
    pub(crate) listener: Option<TcpListener>,
    pub(crate) is_listening: bool,
    pub(crate) accepted_count: usize,
    pub(crate) accepted_max: usize,
    /// Dialled connections by address.
    pub(crate) lines: BTreeMap<Address, Vec<Line>>,
    pub(crate) relays: BTreeMap<RelayId, Relay>,
    pub(crate) last_relay: RelayId,
    pub(crate) keep: Keep,
}

impl Network {
    pub(crate) fn new(
        epoll: OwnedFd,
        listener: Option<TcpListener>,
        accepted_max: usize,
        keep: Keep,
    ) -> Self {
        Self {
            epoll,
            now: crate::clock::boot_time(),
            timers: Timers::new(),
            news: VecDeque::new(),
            connections: BTreeMap::new(),
            last_id: ConnectionId(LISTENER_TOKEN),
            dirty: Vec::new(),
            has_new_interest: false,
            pool: BufferPool::default(),
            scratch: vec![0; SCRATCH_SIZE],
            arrivals: Vec::new(),
            identity: None,
            listener,
            is_listening: false,
            accepted_count: 0,
            accepted_max,
            lines: BTreeMap::new(),
            relays: BTreeMap::new(),
            last_relay: RelayId::default(),
            keep,
        }
    }

    /// Takes a new connection in; it stands in epoll from now on.
    pub(crate) fn register(
        &mut self,
        make: impl FnOnce(&mut Timers<Alarm>, ConnectionId) -> Connection,
    ) -> Result<ConnectionId, Errno> {
        let id = ConnectionId(self.last_id.0 + 1);
        self.last_id = id;
        let mut connection = make(&mut self.timers, id);
        connection.interest = wanted(&connection, false);
        let data = EventData::new_u64(id.0);
        if let Err(errno) = epoll::add(&self.epoll, &connection.socket, data, connection.interest) {
            self.timers.cancel(connection.patience);
            return Err(errno);
        }
        self.connections.insert(id, connection);
        Ok(id)
    }

    /// Epoll says that something can be done with a connection. Whether it might say so again at
    /// once: all was done only of a connection that was read empty, and had nothing else to tell.
    pub(crate) fn ready(&mut self, token: u64, flags: EventFlags) -> bool {
        if token == LISTENER_TOKEN {
            self.accept();
            return true;
        }
        let id = ConnectionId(token);
        match self.connections.get(&id).map(|connection| connection.stage) {
            None => {}
            Some(Stage::Naming) => self.named(id),
            Some(Stage::Connecting) => self.connected(id),
            Some(stage) => {
                if flags.contains(EventFlags::OUT) {
                    self.mark(id);
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    if stage == Stage::Draining {
                        self.discard(id);
                    } else {
                        return !self.read(id) || flags != EventFlags::IN;
                    }
                }
            }
        }
        true
    }

    /// Whether all was read that was there.
    fn read(&mut self, id: ConnectionId) -> bool {
        let Self { connections, scratch, pool, arrivals, .. } = self;
        let Some(Connection { socket, inflow, .. }) = connections.get_mut(&id) else {
            return true;
        };
        let received = inflow.receive(socket, scratch, pool, arrivals);
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for arrival in arrivals.drain(..) {
            self.arrived(id, arrival);
        }
        self.arrivals = arrivals;
        match received {
            Ok(_) => self.adjust(id),
            Err(Ended::Closed) => self.lose(id, "the other side closed it"),
            Err(Ended::Failed(errno)) => self.lose(id, &errno.to_string()),
        }
        received.is_ok_and(|is_empty| is_empty)
    }

    fn arrived(&mut self, id: ConnectionId, arrival: Arrival) {
        let Some(connection) = self.connections.get(&id) else { return };
        match (&connection.side, connection.stage) {
            (_, Stage::Draining | Stage::Naming | Stage::Connecting) => {}
            (Side::Accepted(_), Stage::Greeting) => self.greeted_with(id, arrival),
            (Side::Accepted(_), Stage::Open) => self.asked(id, arrival),
            (Side::Dialled(_), _) => self.answered(id, arrival),
        }
    }

    /// Throws away what a connection still sends after its last failure.
    fn discard(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        match recv(&connection.socket, &mut self.scratch[..], RecvFlags::empty()) {
            Ok((_, 0)) => self.lose(id, "the other side closed it"),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => self.lose(id, &errno.to_string()),
        }
    }

    /// Whether there is something to tell the driver, or to write.
    pub(crate) fn has_work(&self) -> bool {
        !self.news.is_empty() || !self.dirty.is_empty()
    }

    /// The connection has bytes to write, or another reason to be looked at before waiting.
    pub(crate) fn mark(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push(id);
        }
    }

    /// Writes all that waits, as far as the kernel takes it.
    pub(crate) fn flush(&mut self) {
        while let Some(id) = self.dirty.pop() {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.is_dirty = false;
            if matches!(connection.stage, Stage::Naming | Stage::Connecting) {
                continue;
            }
            if let Err(errno) = connection.out.flush(&connection.socket) {
                self.lose(id, &errno.to_string());
                continue;
            }
            if connection.stage == Stage::Draining && connection.out.size() == 0 {
                // The other side must be able to read the last failure: closing with unread bytes
                // would reset the connection under it. A failure here means it is gone already.
                let _ = shutdown(&connection.socket, Shutdown::Write);
            }
            let feeder = connection.dialled().and_then(|dialled| dialled.open_frame);
            self.unpark(id);
            self.adjust(id);
            if let Some(relay) = feeder.and_then(|relay| self.relays.get(&relay)) {
                self.adjust(relay.upstream.connection);
            }
        }
    }

    /// Makes epoll watch for what the connection can use now.
    pub(crate) fn adjust(&mut self, id: ConnectionId) {
        let is_downstream_full = self.is_downstream_full(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let interest = wanted(connection, is_downstream_full);
        if interest != connection.interest {
            connection.interest = interest;
            self.has_new_interest = true;
            let data = EventData::new_u64(id.0);
            if let Err(errno) = epoll::modify(&self.epoll, &connection.socket, data, interest) {
                self.lose(id, &errno.to_string());
            }
        }
    }

    /// A connection is gone, or is given up; all that hung on it ends (G1).
    pub(crate) fn lose(&mut self, id: ConnectionId, why: &str) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.timers.cancel(connection.patience);
        let written = connection.out.written();
        match connection.side {
            Side::Accepted(accepted) => {
                self.accepted_count -= 1;
                if let Some(relay) = accepted.receiving {
                    self.abort_relay(relay);
                }
                if accepted.was_open {
                    self.news.push_back(News::Disconnected(id));
                }
            }
            Side::Dialled(dialled) => self.lost_line(id, dialled, written, why),
        }
    }

    /// The driver wants to be woken.
    pub(crate) fn wake(&mut self, id: EffectId, at: Time) {
        self.timers.set(at, Alarm::Wake(id));
    }

    /// Lets everything happen whose time has come.
    pub(crate) fn ring(&mut self) {
        while let Some(alarm) = self.timers.pop_due(self.now) {
            match alarm {
                Alarm::Wake(id) => self.news.push_back(News::Woken(id)),
                Alarm::Call(connection, request) => self.deadline_passed(connection, request),
                Alarm::Patience(id) => self.lose(id, "no answer to the handshake in time"),
                Alarm::Relay(relay) => self.relay_overdue(relay),
                Alarm::Accept => self.listen(),
            }
        }
    }
}

/// What epoll should watch for.
fn wanted(connection: &Connection, is_downstream_full: bool) -> EventFlags {
    match connection.stage {
        Stage::Naming => return EventFlags::IN,
        Stage::Connecting => return EventFlags::OUT,
        _ => {}
    }
    let mut flags = EventFlags::empty();
    // An end that comes with the last bytes is told beside them.
    let reads = !connection.is_paused() && !is_downstream_full;
    flags.set(EventFlags::IN | EventFlags::RDHUP, reads);
    flags.set(EventFlags::OUT, connection.out.size() > 0);
    flags
}
