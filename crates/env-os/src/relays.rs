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
//!
//! Knows pushes on their way. Sees connections by their ids alone.

use crate::context::{NetworkContext, RelayEvent};
use crate::ids::{OutboundId, RelayId};
use crate::inbound::Inbound;
use crate::outbound::{Outbound, PUSH_SHARE_MAX};
use crate::push_receiver::block_size;
use crate::timers::{LoopAlarm, LoopAlarmId};
use bytes::Bytes;
use cairn_env::{Caller, ConnectionId, Payload, PushedData};
use cairn_protocol::{Append, ErrorCode, Failure, Push, PushAnswer, Response};
use cairn_types::{PushId, ServerId};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Bytes that may wait for a downstream before its upstream is no longer read. More than what
/// shares a connection: only a long push, alone on its connection, ever waits (C3).
const RELAY_BACKLOG_MAX: usize = 3 << 20;
const _: () = assert!(PUSH_SHARE_MAX < RELAY_BACKLOG_MAX, "C3: short pushes never wait");
/// How long a push may take from its first byte to its answer.
const PUSH_TIME_MAX: Duration = Duration::from_secs(30);

/// What keeps pushed data: the driver's service.
pub(crate) type KeepPush = Box<dyn Fn(PushId, PushedData) -> Result<(), Failure> + Send>;

/// One push on its way through this server.
#[derive(Debug)]
struct Relay {
    /// Whom to answer.
    upstream: Caller,
    push: PushId,
    data: PushedData,
    /// What is asked of this server's core once all of the chain hold it.
    order: Option<Append>,
    /// The next server of the chain, if there is one.
    next: ServerId,
    /// The connection to it; none at the chain's end, or once that connection is lost.
    downstream: Option<OutboundId>,
    /// What came of keeping it here; none while it arrives.
    kept: Option<Result<(), Failure>>,
    /// What came of the rest of the chain; none while that is not known.
    passed_on: Option<Result<(), Failure>>,
    alarm: LoopAlarmId,
}

impl Relay {
    /// Where its next segments go.
    fn forward(&self) -> Option<OutboundId> {
        self.downstream.filter(|_| self.kept.is_none())
    }
}

/// All pushes on their way.
pub(crate) struct Relays {
    keep: KeepPush,
    /// Boxed: a map moves what stands in it with each neighbour that goes.
    relays: BTreeMap<RelayId, Box<Relay>>,
    /// The push whose bytes come by a connection now.
    arriving: BTreeMap<ConnectionId, RelayId>,
    last_id: RelayId,
}

impl fmt::Debug for Relays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relays").field("relays", &self.relays).finish_non_exhaustive()
    }
}

/// What relays work with: their connections, on both sides.
pub(crate) struct BothSides<'a> {
    pub(crate) inbound: &'a mut Inbound,
    pub(crate) outbound: &'a mut Outbound,
}

impl Relays {
    pub(crate) fn new(keep: KeepPush) -> Self {
        let (relays, arriving) = (BTreeMap::new(), BTreeMap::new());
        Self { keep, relays, arriving, last_id: RelayId::default() }
    }

    /// Takes what a connection has to say.
    pub(crate) fn on_event(
        &mut self,
        cx: &mut NetworkContext,
        sides: &mut BothSides<'_>,
        event: RelayEvent,
    ) {
        match event {
            RelayEvent::Started { from, push, size } => self.start(cx, sides, from, push, size),
            RelayEvent::Segment { from, bytes, last } => {
                self.on_segment(cx, sides, from, bytes, last);
            }
            RelayEvent::Corrupt { from } => self.on_corrupt(cx, sides, from),
            RelayEvent::UpstreamEnded(from) => {
                if let Some(id) = self.arriving.remove(&from) {
                    self.abort(cx, sides, id);
                }
            }
            RelayEvent::Answered { relay, result } => self.on_answered(cx, sides, relay, result),
            RelayEvent::DownstreamLost { relay, failure } => {
                self.on_downstream_lost(cx, sides, relay, &failure);
            }
            RelayEvent::DownstreamFlushed(relay) => self.adjust_pace(cx, sides, relay),
        }
    }

    /// The head of a push has arrived: its head goes on at once.
    fn start(
        &mut self,
        cx: &mut NetworkContext,
        sides: &mut BothSides<'_>,
        upstream: Caller,
        mut push: Push,
        size: usize,
    ) {
        let id = RelayId(self.last_id.0 + 1);
        self.last_id = id;
        let order = push.take_order(size as u64);
        let mut relay = Relay {
            upstream,
            push: push.push,
            order,
            data: PushedData {
                block_offset: push.block_offset,
                block_size: block_size(&push),
                checksums: push.checksums.clone(),
                segments: Vec::new(),
            },
            next: ServerId::default(),
            downstream: None,
            kept: None,
            passed_on: None,
            alarm: cx.timers.set(cx.now + PUSH_TIME_MAX, LoopAlarm::RelayPatience(id)),
        };
        if push.chain.is_empty() {
            relay.passed_on = Some(Ok(()));
        } else {
            let next = push.chain.remove(0);
            relay.next = next.server;
            match sides.outbound.start_push(cx, id, &next, push, size) {
                Ok(connection) => relay.downstream = Some(connection),
                Err(failure) => relay.passed_on = Some(Err(chain_broken(next.server, &failure))),
            }
        }
        self.relays.insert(id, Box::new(relay));
        let before = self.arriving.insert(upstream.connection, id);
        assert!(before.is_none(), "a connection brings one push after the other");
    }

    /// A verified segment of the push that this connection brings (C1).
    fn on_segment(
        &mut self,
        cx: &mut NetworkContext,
        sides: &mut BothSides<'_>,
        from: ConnectionId,
        bytes: Bytes,
        last: bool,
    ) {
        let id = *self.arriving.get(&from).expect("a push's segments come after its head");
        let relay = self.relays.get_mut(&id).expect("what arrives is on its way");
        relay.data.segments.push(bytes.clone());
        if let Some(downstream) = relay.forward() {
            sides.outbound.continue_push(downstream, id, bytes, last);
        }
        if last {
            relay.kept = Some((self.keep)(relay.push, std::mem::take(&mut relay.data)));
        }
        self.adjust_pace(cx, sides, id);
        if last {
            self.arriving.remove(&from);
            self.settle(cx, sides, id);
        }
    }

    /// The push that this connection brings does not match its checksums: what is half passed on
    /// can never be whole (C2).
    fn on_corrupt(
        &mut self,
        cx: &mut NetworkContext,
        sides: &mut BothSides<'_>,
        from: ConnectionId,
    ) {
        let id = self.arriving.remove(&from).expect("a push's segments come after its head");
        let upstream = self.abort(cx, sides, id);
        let why = "pushed data does not match its checksums; it was damaged on its way here";
        let failure = Failure::not_done(ErrorCode::ChecksumMismatch, why);
        sides.inbound.reply(cx, upstream, &Err(failure), Payload::default());
    }

    /// Forgets a push that will never be whole; whom it came from.
    fn abort(&mut self, cx: &mut NetworkContext, sides: &mut BothSides<'_>, id: RelayId) -> Caller {
        let relay = self.relays.remove(&id).expect("what arrives is on its way");
        cx.timers.cancel(relay.alarm);
        if let Some(downstream) = relay.forward() {
            sides.outbound.lose(cx, downstream, "a push on it could not be finished");
        }
        sides.inbound.hold_back(cx, relay.upstream.connection, false);
        relay.upstream
    }

    /// The next server has answered; its failures go up the chain as they are.
    fn on_answered(
        &mut self,
        cx: &mut NetworkContext,
        sides: &mut BothSides<'_>,
        id: RelayId,
        result: Result<(), Failure>,
    ) {
        // A push that could not be finished waits for no answer.
        let Some(relay) = self.relays.get_mut(&id) else { return };
        relay.passed_on = Some(result);
        self.settle(cx, sides, id);
    }

    /// The next server cannot be reached, or is lost. This one still keeps the data, and what
    /// waited for that connection to drain waits no more.
    fn on_downstream_lost(
        &mut self,
        cx: &mut NetworkContext,
        sides: &mut BothSides<'_>,
        id: RelayId,
        failure: &Failure,
    ) {
        // A push that could not be finished has taken that connection with it (C2).
        let Some(relay) = self.relays.get_mut(&id) else { return };
        relay.passed_on = Some(Err(chain_broken(relay.next, failure)));
        relay.downstream = None;
        self.adjust_pace(cx, sides, id);
        self.settle(cx, sides, id);
    }

    /// Has the upstream connection of a push that arrives read as fast as the downstream takes it
    /// (C4); once all of it is here, as fast as it comes.
    fn adjust_pace(&mut self, cx: &mut NetworkContext, sides: &mut BothSides<'_>, id: RelayId) {
        // A push that could not be finished holds nobody back any more.
        let Some(relay) = self.relays.get(&id) else { return };
        let upstream = relay.upstream.connection;
        if self.arriving.get(&upstream) == Some(&id) {
            let backlog = relay.forward().map_or(0, |to| sides.outbound.backlog(to));
            sides.inbound.hold_back(cx, upstream, backlog > RELAY_BACKLOG_MAX);
        }
    }

    /// A push that takes too long hangs on whoever is silent: the sender, or the next server.
    pub(crate) fn overdue(
        &mut self,
        cx: &mut NetworkContext,
        sides: &mut BothSides<'_>,
        id: RelayId,
    ) {
        let relay = self.relays.get(&id).expect("its end cancels the alarm");
        if relay.kept.is_none() {
            return sides.inbound.lose(cx, relay.upstream.connection);
        }
        let silent = relay.downstream.expect("what is kept waits for the next server alone");
        sides.outbound.lose(cx, silent, "no answer to a push in time");
    }

    /// Answers a push that is kept here and passed on, or has the core do what was to follow it.
    fn settle(&mut self, cx: &mut NetworkContext, sides: &mut BothSides<'_>, id: RelayId) {
        let relay = self.relays.get(&id).expect("looked at just now");
        if relay.kept.is_none() || relay.passed_on.is_none() {
            return;
        }
        let relay = self.relays.remove(&id).expect("looked at just now");
        cx.timers.cancel(relay.alarm);
        let Relay { upstream, kept, passed_on, order, .. } = *relay;
        let result = [kept, passed_on].into_iter().flatten().collect::<Result<(), _>>();
        match (result, order) {
            (Ok(()), Some(order)) => sides.inbound.follow_push(cx, upstream, order),
            (result, _) => {
                let answer = result.map(|()| Response::Push(PushAnswer {}));
                sides.inbound.reply(cx, upstream, &answer, Payload::default());
            }
        }
    }
}

/// What this side found out about the next server, as the chain's upstream must hear it.
fn chain_broken(server: ServerId, failure: &Failure) -> Failure {
    let why = format!("the next server of the chain did not take the data: {}", failure.message);
    Failure { server, ..Failure::not_done(ErrorCode::ChainBroken, why) }
}

#[cfg(test)]
mod tests {
    use super::{BothSides, RELAY_BACKLOG_MAX, Relays};
    use crate::context::{NetworkContext, RelayEvent};
    use crate::ids::OutboundId;
    use crate::inbound::Inbound;
    use crate::limits::LaunchLimits;
    use crate::outbound::{Outbound, PUSH_SHARE_MAX};
    use crate::poller::Poller;
    use crate::rpc_tap::RpcTap;
    use crate::socket_options::UNTAKEN_TIME_MAX;
    use bytes::Bytes;
    use cairn_env::{Caller, ConnectionId};
    use cairn_protocol::{Push, RequestId};
    use cairn_types::{Address, Rack, ReplicaAt, ServerId};
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    /// Both sides of a server, and a next server that never gets to welcome it.
    struct Scene {
        cx: NetworkContext,
        inbound: Inbound,
        outbound: Outbound,
        relays: Relays,
        next: ReplicaAt,
        _listener: TcpListener,
        peers: Vec<UnixStream>,
    }

    impl Scene {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = Address::new(listener.local_addr().expect("bound").to_string());
            Self {
                cx: NetworkContext::new(Poller::new().expect("an epoll"), RpcTap::default()),
                inbound: Inbound::new(None, LaunchLimits::default(), Arc::default()),
                outbound: Outbound::new(10, UNTAKEN_TIME_MAX),
                relays: Relays::new(Box::new(|_, _| Ok(()))),
                next: ReplicaAt { server: ServerId::new(2), address, rack: Rack::default() },
                _listener: listener,
                peers: Vec::new(),
            }
        }

        fn tell(&mut self, event: RelayEvent) {
            self.cx.relay_events.push_back(event);
            while let Some(event) = self.cx.relay_events.pop_front() {
                let Self { cx, inbound, outbound, relays, .. } = self;
                relays.on_event(cx, &mut BothSides { inbound, outbound }, event);
            }
        }

        /// An upstream connection that has begun a push of `size` bytes.
        fn upstream(&mut self, size: usize) -> ConnectionId {
            let (socket, peer) = UnixStream::pair().expect("a pair");
            self.peers.push(peer);
            let connection = self.inbound.take_in_open(&mut self.cx, socket.into());
            let push = Push { chain: vec![self.next.clone()], ..Push::default() };
            let from = Caller { connection, request: RequestId(1) };
            self.tell(RelayEvent::Started { from, push, size });
            connection
        }

        fn segment(&mut self, from: ConnectionId, size: usize, last: bool) {
            self.tell(RelayEvent::Segment { from, bytes: Bytes::from(vec![0; size]), last });
        }

        fn downstreams(&self) -> Vec<OutboundId> {
            self.outbound.ids_to(&self.next.address)
        }
    }

    #[test]
    fn an_upstream_is_not_read_while_its_downstream_has_enough_and_is_again_once_that_is_lost() {
        let mut scene = Scene::new();
        let upstream = scene.upstream(8 << 20);
        scene.segment(upstream, RELAY_BACKLOG_MAX - 1000, false);
        assert!(scene.inbound.is_read(upstream));
        scene.segment(upstream, 2000, false);
        assert!(!scene.inbound.is_read(upstream));
        let downstream = scene.downstreams()[0];
        scene.outbound.lose(&mut scene.cx, downstream, "a test");
        scene.tell(RelayEvent::UpstreamEnded(ConnectionId::default()));
        assert!(scene.inbound.is_read(upstream));
        assert_eq!(scene.relays.relays.len(), 1, "it is still kept here");
        scene.segment(upstream, 1000, true);
        assert_eq!(scene.relays.relays.len(), 0, "and answered");
    }

    #[test]
    fn short_pushes_share_a_connection_while_little_is_unanswered_and_a_long_one_has_its_own() {
        let mut scene = Scene::new();
        let half = PUSH_SHARE_MAX / 2;
        let first = scene.upstream(half);
        assert_eq!(scene.downstreams().len(), 1);
        let second = scene.upstream(half);
        assert_eq!(scene.downstreams().len(), 2, "the first one's frame is not whole yet");
        scene.segment(first, half, true);
        scene.segment(second, half, true);
        let third = scene.upstream(half);
        assert_eq!(scene.downstreams().len(), 2);
        scene.segment(third, half, true);
        scene.upstream(1);
        assert_eq!(scene.downstreams().len(), 2, "the other one has room");
        scene.upstream(PUSH_SHARE_MAX + 1);
        assert_eq!(scene.downstreams().len(), 3, "a long one waits behind nobody");
    }
}
