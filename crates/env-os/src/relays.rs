//! Pushes: receive, store, forward (E5; GFS §3.2).
//!
//! ```text
//!   upstream ══ segment ══► verify ══► kept segments ══► Service::keep ──┐ both: answer upstream
//!                              ╚═════► next server of the chain ══► answer ──┘
//! ```
//! - C1: a segment is passed on as soon as it is verified, while the next one arrives.
//! - C2: a frame that cannot be finished takes its downstream connection with it: nothing else
//!   may be written behind half a frame.
//! - C3: a short push shares a connection while little is without an answer on it; a long one
//!   has its own. So a chain waits for the servers behind it and for no other chain, and chains
//!   that cross cannot wait for each other in a circle.
//! - C4: an upstream connection is not read while its downstream has more than
//!   [`RELAY_BACKLOG_MAX`] waiting.

use crate::calls::send_request;
use crate::connection::{Connection, Stage, Target};
use crate::network::{Alarm, Network};
use crate::push_receiver::block_size;
use crate::timers::AlarmId;
use bytes::Bytes;
use cairn_env::{Caller, ConnectionId, Payload, PushedData};
use cairn_protocol::{ErrorCode, Failure, Push, PushAnswer, Request, Response};
use cairn_types::{PushId, ReplicaAt, ServerId};
use std::time::Duration;

/// Bytes without an answer that pushes sharing a connection may have together.
const RELAY_SHARE_MAX: usize = 2 << 20;
/// Bytes that may wait for a downstream before its upstream is no longer read. More than what
/// shares a connection: only a long push, alone on its connection, ever waits (C3).
const RELAY_BACKLOG_MAX: usize = 3 << 20;
const _: () = assert!(RELAY_SHARE_MAX < RELAY_BACKLOG_MAX, "C3: short pushes never wait");
/// How long a push may take from its first byte to its answer.
const PUSH_TIME_MAX: Duration = Duration::from_secs(30);

/// What keeps pushed data: the driver's service.
pub(crate) type Keep = Box<dyn Fn(PushId, PushedData) -> Result<(), Failure> + Send>;

/// Names a relay within its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RelayId(u64);

/// One push on its way through this server.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Whom to answer.
    pub(crate) upstream: Caller,
    push: PushId,
    data: PushedData,
    /// The next server of the chain, if there is one.
    next: ServerId,
    /// Where the next segments go; none at the chain's end, or once that connection is lost.
    forward: Option<ConnectionId>,
    /// What came of keeping it here; none while it arrives.
    kept: Option<Result<(), Failure>>,
    /// What came of the rest of the chain; none while that is not known.
    passed_on: Option<Result<(), Failure>>,
    alarm: AlarmId,
}

impl Network {
    /// The head of a push has arrived: its head goes on at once.
    pub(crate) fn start_relay(&mut self, upstream: Caller, push: Push, size: usize) {
        let id = RelayId(self.last_relay.0 + 1);
        self.last_relay = id;
        let next = push.chain.first().cloned();
        let alarm = self.timers.set(self.now + PUSH_TIME_MAX, Alarm::Relay(id));
        let mut relay = Relay {
            upstream,
            push: push.push,
            data: PushedData {
                block_offset: push.block_offset,
                block_size: block_size(&push),
                checksums: push.checksums.clone(),
                segments: Vec::new(),
            },
            next: next.as_ref().map(|next| next.server).unwrap_or_default(),
            forward: None,
            kept: None,
            passed_on: next.is_none().then_some(Ok(())),
            alarm,
        };
        if let Some(next) = next {
            match self.open_downstream(id, &next, push, size) {
                Ok(connection) => relay.forward = Some(connection),
                Err(failure) => relay.passed_on = Some(Err(chain_broken(next.server, &failure))),
            }
        }
        self.relays.insert(id, relay);
        let upstream = self.connections.get_mut(&upstream.connection);
        if let Some(accepted) = upstream.and_then(Connection::accepted) {
            accepted.receiving = Some(id);
        }
    }

    fn open_downstream(
        &mut self,
        id: RelayId,
        next: &ReplicaAt,
        mut push: Push,
        size: usize,
    ) -> Result<ConnectionId, Failure> {
        push.chain.remove(0);
        let connection = match self.free_line(next, size) {
            Some(connection) => connection,
            None => self.dial(&next.address, next.server, true)?,
        };
        let target = |_| Target::Relay(id, size);
        let request = Request::Push(push);
        send_request(&mut self.connections, connection, &request, size, None, target);
        let dialled = self.connections.get_mut(&connection).and_then(Connection::dialled);
        if let Some(dialled) = dialled {
            dialled.open_frame = Some(id);
            dialled.unanswered += size;
        }
        self.mark(connection);
        Ok(connection)
    }

    /// A connection on which a push of `size` bytes waits for nobody (C3).
    fn free_line(&mut self, next: &ReplicaAt, size: usize) -> Option<ConnectionId> {
        let lines = self.lines.get(&next.address)?;
        let mut bulk = lines.iter().filter(|line| line.is_bulk && line.server == next.server);
        bulk.find_map(|line| {
            let dialled = self.connections.get_mut(&line.connection)?.dialled()?;
            let fits = dialled.unanswered == 0 || dialled.unanswered + size <= RELAY_SHARE_MAX;
            (dialled.open_frame.is_none() && fits).then_some(line.connection)
        })
    }

    /// A verified segment of the push that this connection brings (C1).
    pub(crate) fn relay_segment(&mut self, from: ConnectionId, bytes: Bytes, last: bool) {
        let Some(accepted) = self.connections.get_mut(&from).and_then(Connection::accepted) else {
            return;
        };
        let Some(id) = accepted.receiving else { return };
        if last {
            accepted.receiving = None;
        }
        let Some(relay) = self.relays.get_mut(&id) else { return };
        relay.data.segments.push(bytes.clone());
        if let Some(downstream) = relay.forward {
            if let Some(connection) = self.connections.get_mut(&downstream) {
                pass_on(connection, bytes, last);
            }
            self.mark(downstream);
        }
        if last {
            let Some(relay) = self.relays.get_mut(&id) else { return };
            relay.forward = None;
            relay.kept = Some((self.keep)(relay.push, std::mem::take(&mut relay.data)));
            self.settle_relay(id);
        }
    }

    /// The push that this connection brings does not match its checksums: what is half passed on
    /// can never be whole (C2).
    pub(crate) fn relay_corrupt(&mut self, from: ConnectionId) {
        let accepted = self.connections.get_mut(&from).and_then(Connection::accepted);
        let Some(id) = accepted.and_then(|accepted| accepted.receiving.take()) else { return };
        let Some(upstream) = self.abort_relay(id) else { return };
        let why = "pushed data does not match its checksums; it was damaged on its way here";
        let failure = Failure::not_done(ErrorCode::ChecksumMismatch, why);
        self.reply(upstream, Err(failure), Payload::default());
    }

    /// Forgets a push that will never be whole; whom it came from.
    pub(crate) fn abort_relay(&mut self, id: RelayId) -> Option<Caller> {
        let relay = self.relays.remove(&id)?;
        self.timers.cancel(relay.alarm);
        if let Some(downstream) = relay.forward {
            self.lose(downstream, "a push on it could not be finished");
        }
        Some(relay.upstream)
    }

    /// The next server has answered; its failures go up the chain as they are.
    pub(crate) fn relay_answered(&mut self, id: RelayId, result: Result<(), Failure>) {
        if let Some(relay) = self.relays.get_mut(&id) {
            relay.passed_on = Some(result);
            self.settle_relay(id);
        }
    }

    /// The next server cannot be reached, or is lost. This one still keeps the data.
    pub(crate) fn relay_broken(&mut self, id: RelayId, failure: &Failure) {
        if let Some(relay) = self.relays.get_mut(&id) {
            relay.passed_on = Some(Err(chain_broken(relay.next, failure)));
            relay.forward = None;
            // What waited for that connection to drain waits no more.
            let upstream = relay.upstream.connection;
            self.mark(upstream);
            self.settle_relay(id);
        }
    }

    /// A push that takes too long hangs on whoever is silent: the sender, or the next server.
    pub(crate) fn relay_overdue(&mut self, id: RelayId) {
        let Some(relay) = self.relays.get(&id) else { return };
        if relay.kept.is_none() {
            return self.lose(relay.upstream.connection, "a push on it took too long");
        }
        let waits = |connection: &mut Connection| {
            let dialled = connection.dialled();
            dialled.is_some_and(|dialled| {
                let mut targets = dialled.pending.values().map(|pending| pending.target);
                targets.any(|target| matches!(target, Target::Relay(relay, _) if relay == id))
            })
        };
        let silent = self
            .connections
            .iter_mut()
            .find_map(|(at, connection)| waits(connection).then_some(*at));
        if let Some(silent) = silent {
            self.lose(silent, "no answer to a push in time");
        }
    }

    fn settle_relay(&mut self, id: RelayId) {
        let Some(Relay { kept: Some(_), passed_on: Some(_), .. }) = self.relays.get(&id) else {
            return;
        };
        let Some(relay) = self.relays.remove(&id) else { return };
        self.timers.cancel(relay.alarm);
        let result = [relay.kept, relay.passed_on].into_iter().flatten().collect::<Result<(), _>>();
        let answer = result.map(|()| Response::Push(PushAnswer {}));
        self.reply(relay.upstream, answer, Payload::default());
    }

    /// Whether this connection brings a push whose downstream has enough to write (C4).
    pub(crate) fn is_downstream_full(&mut self, id: ConnectionId) -> bool {
        let accepted = self.connections.get_mut(&id).and_then(Connection::accepted);
        let receiving = accepted.and_then(|accepted| accepted.receiving);
        let forward = receiving.and_then(|relay| self.relays.get(&relay)?.forward);
        let downstream = forward.and_then(|downstream| self.connections.get(&downstream));
        downstream.is_some_and(|downstream| downstream.backlog() > RELAY_BACKLOG_MAX)
    }
}

fn pass_on(connection: &mut Connection, bytes: Bytes, last: bool) {
    let is_open = connection.stage == Stage::Open;
    if is_open {
        connection.out.payload(bytes.clone());
    }
    let Some(dialled) = connection.dialled() else { return };
    if !is_open && let Some(held) = dialled.held.last_mut() {
        held.pieces.push(bytes);
    }
    if last {
        dialled.open_frame = None;
    }
}

/// What this side found out about the next server, as the chain's upstream must hear it.
fn chain_broken(server: ServerId, failure: &Failure) -> Failure {
    let why = format!("the next server of the chain did not take the data: {}", failure.message);
    Failure { server, ..Failure::not_done(ErrorCode::ChainBroken, why) }
}

#[cfg(test)]
mod tests {
    use super::{RELAY_BACKLOG_MAX, RELAY_SHARE_MAX};
    use crate::connection::{Accepted, Connection, Side, Stage};
    use crate::network::Network;
    use bytes::Bytes;
    use cairn_env::{Caller, ConnectionId};
    use cairn_protocol::{Push, RequestId};
    use cairn_types::{Address, Rack, ReplicaAt, ServerId, Time};
    use rustix::event::epoll::{CreateFlags, EventFlags, create};
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    /// A network, and a next server that never gets to welcome it.
    struct Scene {
        network: Network,
        next: ReplicaAt,
        _listener: TcpListener,
        peers: Vec<UnixStream>,
    }

    impl Scene {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = Address::new(listener.local_addr().expect("bound").to_string());
            let epoll = create(CreateFlags::CLOEXEC).expect("an epoll");
            let network = Network::new(epoll, None, 10, Box::new(|_, _| Ok(())));
            let next = ReplicaAt { server: ServerId::new(2), address, rack: Rack::default() };
            Self { network, next, _listener: listener, peers: Vec::new() }
        }

        /// An upstream connection that has begun a push of `size` bytes.
        fn upstream(&mut self, size: usize) -> ConnectionId {
            let (socket, peer) = UnixStream::pair().expect("a pair");
            self.peers.push(peer);
            let registered = self.network.register(|timers, id| {
                let patience = timers.set(Time::default(), crate::network::Alarm::Patience(id));
                let side = Side::Accepted(Accepted::default());
                Connection::new(socket.into(), Stage::Open, side, patience)
            });
            let connection = registered.expect("in epoll");
            self.network.accepted_count += 1;
            let push = Push { chain: vec![self.next.clone()], ..Push::default() };
            self.network.start_relay(Caller { connection, request: RequestId(1) }, push, size);
            connection
        }

        fn segment(&mut self, from: ConnectionId, size: usize, last: bool) {
            self.network.relay_segment(from, Bytes::from(vec![0; size]), last);
            self.network.adjust(from);
        }

        fn is_read(&self, id: ConnectionId) -> bool {
            self.network.connections[&id].interest.contains(EventFlags::IN)
        }

        fn line_count(&self) -> usize {
            self.network.lines[&self.next.address].len()
        }
    }

    #[test]
    fn an_upstream_is_not_read_while_its_downstream_has_enough_and_is_again_once_that_is_lost() {
        let mut scene = Scene::new();
        let upstream = scene.upstream(8 << 20);
        scene.segment(upstream, RELAY_BACKLOG_MAX - 1000, false);
        assert!(scene.is_read(upstream));
        scene.segment(upstream, 2000, false);
        assert!(!scene.is_read(upstream));
        let downstream = scene.network.lines[&scene.next.address][0].connection;
        scene.network.lose(downstream, "a test");
        scene.network.flush();
        assert!(scene.is_read(upstream));
        assert_eq!(scene.network.relays.len(), 1, "it is still kept here");
        scene.segment(upstream, 1000, true);
        assert_eq!(scene.network.relays.len(), 0, "and answered");
    }

    #[test]
    fn short_pushes_share_a_connection_while_little_is_unanswered_and_a_long_one_has_its_own() {
        let mut scene = Scene::new();
        let half = RELAY_SHARE_MAX / 2;
        let first = scene.upstream(half);
        assert_eq!(scene.line_count(), 1);
        let second = scene.upstream(half);
        assert_eq!(scene.line_count(), 2, "the first one's frame is not whole yet");
        scene.segment(first, half, true);
        scene.segment(second, half, true);
        let third = scene.upstream(half);
        assert_eq!(scene.line_count(), 2);
        scene.segment(third, half, true);
        scene.upstream(1);
        assert_eq!(scene.line_count(), 2, "the other one has room");
        scene.upstream(RELAY_SHARE_MAX + 1);
        assert_eq!(scene.line_count(), 3, "a long one waits behind nobody");
    }
}
