//! One dialled connection: how far it has come, and what waits on it.
//!
//! ```text
//!   (Resolving ►) Connecting ► Greeting ─Welcome─► Open ────► gone
//! ```
//! - O1: before `Open` nothing but the handshake is sent: requests are held, and can be taken back.
//! - O2: it is read whatever waits to be written to it: answers that are not read would hold up the
//!   very server that is to take our requests.

use crate::frame_encoding::encode_request;
use crate::frame_reader::{Arrival, Ended, READ_BUDGET, ReadBuffers};
use crate::ids::RelayId;
use crate::name_lookup::NameLookup;
use crate::poller::Poller;
use crate::timers::LoopAlarmId;
use crate::wire::Wire;
use bytes::Bytes;
use cairn_env::EffectId;
use cairn_protocol::{Append, FRAME_HEADER_SIZE, Hello, Request, RequestId, Rpc};
use cairn_types::{Address, ServerId, Time};
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// How far a dialled connection has come.
#[derive(Debug)]
pub(crate) enum OutboundStage {
    /// The name is being looked up; the socket is not one yet.
    Resolving(NameLookup),
    /// The kernel is connecting; where else the name may lead, if that fails.
    Connecting(Vec<SocketAddr>),
    /// Our Hello is on its way.
    Greeting,
    /// Requests and answers.
    Open,
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerTo {
    /// The driver's call, and the alarm of its deadline.
    Driver(EffectId, LoopAlarmId),
    /// A push of so many bytes that is passed on.
    Relay(RelayId, usize),
}

/// A request without an answer yet.
#[derive(Debug)]
pub(crate) struct PendingCall {
    pub(crate) request: RequestId,
    pub(crate) sent: Time,
    pub(crate) answer_to: AnswerTo,
    pub(crate) rpc: u16,
    /// An order goes along, which may be answered in its place.
    brings: Option<u16>,
    /// Where in the stream its frame starts; none while it is held.
    starts_at: Option<u64>,
}

impl PendingCall {
    /// Whether its frame is, or was, among the bytes to be written.
    pub(crate) fn is_queued(&self) -> bool {
        self.starts_at.is_some()
    }

    /// Whether an answer of this kind is one to what was asked.
    pub(crate) fn may_be_answered_as(&self, rpc: u16) -> bool {
        rpc == self.rpc || Some(rpc) == self.brings
    }
}

/// A frame that waits for the handshake (O1).
#[derive(Debug)]
struct HeldFrame {
    id: RequestId,
    pieces: Vec<Bytes>,
}

/// A dialled connection.
#[derive(Debug)]
pub(crate) struct OutboundConnection {
    wire: Wire,
    stage: OutboundStage,
    pub(crate) address: Address,
    /// The server meant, zero where any will do (R5).
    pub(crate) server: ServerId,
    /// Ends connecting and the handshake, if they take too long.
    pub(crate) patience: LoopAlarmId,
    /// When its last request was sent, or it was dialled.
    last_asked: Time,
    held: Vec<HeldFrame>,
    held_size: usize,
    pending: BTreeMap<RequestId, PendingCall>,
    next_request: RequestId,
    /// The push whose frame is being written, and is not whole yet.
    open_push: Option<RelayId>,
    /// Bytes of pushes without an answer.
    unanswered: usize,
}

impl OutboundConnection {
    pub(crate) fn new(
        wire: Wire,
        stage: OutboundStage,
        (address, server): (Address, ServerId),
        patience: LoopAlarmId,
        now: Time,
    ) -> Self {
        Self {
            wire,
            stage,
            address,
            server,
            patience,
            last_asked: now,
            held: Vec::new(),
            held_size: 0,
            pending: BTreeMap::new(),
            // The first one is the handshake's.
            next_request: RequestId(1),
            open_push: None,
            unanswered: 0,
        }
    }

    pub(crate) fn stage(&self) -> &OutboundStage {
        &self.stage
    }

    /// The socket itself.
    pub(crate) fn socket(&self) -> &OwnedFd {
        self.wire.socket()
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, OutboundStage::Open)
    }

    /// Whether nothing waits on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.open_push.is_none()
    }

    /// When its last request was sent, or it was dialled.
    pub(crate) fn last_asked(&self) -> Time {
        self.last_asked
    }

    /// Bytes that wait for the network or for the handshake.
    pub(crate) fn backlog(&self) -> usize {
        self.wire.out.size() + self.held_size
    }

    /// The look-up that has ended.
    pub(crate) fn resolved(&mut self) -> NameLookup {
        match std::mem::replace(&mut self.stage, OutboundStage::Connecting(Vec::new())) {
            OutboundStage::Resolving(lookup) => lookup,
            other => unreachable!("nothing is looked up in {other:?}"),
        }
    }

    /// Tries another address, and then these others.
    ///
    /// # Errors
    /// The system cannot watch it.
    pub(crate) fn connect_to(
        &mut self,
        poller: &Poller,
        socket: OwnedFd,
        others: Vec<SocketAddr>,
    ) -> Result<(), Errno> {
        self.stage = OutboundStage::Connecting(others);
        self.wire.replace(poller, socket, EventFlags::OUT)
    }

    /// What came of connecting.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) fn connected(&self) -> Result<(), Errno> {
        sockopt::socket_error(self.wire.socket()).and_then(|error| error)
    }

    /// Where else its name leads.
    pub(crate) fn take_others(&mut self) -> Vec<SocketAddr> {
        match &mut self.stage {
            OutboundStage::Connecting(others) => std::mem::take(others),
            other => unreachable!("nothing is tried in {other:?}"),
        }
    }

    /// Says Hello.
    pub(crate) fn greet(&mut self, hello: Hello) {
        self.stage = OutboundStage::Greeting;
        let hello = Request::Hello(Hello { expects: self.server, ..hello });
        self.wire.out.frame(|out| encode_request(&hello, RequestId::default(), 0, out));
    }

    /// The handshake is done: what was held is queued (O1).
    pub(crate) fn open(&mut self) {
        assert!(matches!(self.stage, OutboundStage::Greeting), "opened by the answer to our Hello");
        self.stage = OutboundStage::Open;
        self.held_size = 0;
        for held in std::mem::take(&mut self.held) {
            if let Some(pending) = self.pending.get_mut(&held.id) {
                pending.starts_at = Some(self.wire.out.queued());
            }
            held.pieces.into_iter().for_each(|piece| self.wire.out.payload(piece));
        }
    }

    /// Queues a request, or holds it until the handshake is done. Its payload of `size` bytes is
    /// here, or follows piece by piece. Tells its number and its message.
    pub(crate) fn send(
        &mut self,
        now: Time,
        request: &Request,
        size: usize,
        payload: Option<Bytes>,
        answer_to: impl FnOnce(RequestId) -> AnswerTo,
        tell: impl FnOnce(RequestId, &[u8]),
    ) {
        assert!(self.open_push.is_none(), "C2: nothing goes out within a push's frame");
        self.last_asked = now;
        let id = self.next_request;
        self.next_request = RequestId(id.0 + 1);
        let payload = payload.filter(|payload| !payload.is_empty());
        let starts_at = self.is_open().then(|| self.wire.out.queued());
        if self.is_open() {
            self.wire.out.frame(|out| {
                let start = out.len();
                encode_request(request, id, size, out);
                tell(id, &out[start + FRAME_HEADER_SIZE..]);
            });
            payload.into_iter().for_each(|payload| self.wire.out.payload(payload));
        } else {
            let mut head = Vec::new();
            encode_request(request, id, size, &mut head);
            tell(id, &head[FRAME_HEADER_SIZE..]);
            let pieces: Vec<_> = [Some(Bytes::from(head)), payload].into_iter().flatten().collect();
            self.held_size += pieces.iter().map(Bytes::len).sum::<usize>();
            self.held.push(HeldFrame { id, pieces });
        }
        let answer_to = answer_to(id);
        let brings = matches!(request, Request::Push(push) if push.order.is_some());
        let brings = brings.then_some(Append::KIND);
        let (rpc, request, sent) = (request.kind(), id, now);
        self.pending.insert(id, PendingCall { request, sent, answer_to, rpc, brings, starts_at });
    }

    /// Whether a push of `size` bytes waits for nobody here, where so many may share (C3).
    pub(crate) fn has_room_for_push(&self, size: usize, share_max: usize) -> bool {
        let fits = self.unanswered == 0 || self.unanswered + size <= share_max;
        self.open_push.is_none() && fits
    }

    /// The head of a push's frame was sent: its bytes follow.
    pub(crate) fn begin_push(&mut self, relay: RelayId, size: usize) {
        assert!(self.open_push.is_none(), "C2: one frame after the other");
        self.open_push = Some(relay);
        self.unanswered += size;
    }

    /// The push whose frame is not whole yet.
    pub(crate) fn open_push(&self) -> Option<RelayId> {
        self.open_push
    }

    /// Queues the next bytes of a push's frame, or holds them; `last` ends it.
    pub(crate) fn continue_push(&mut self, relay: RelayId, bytes: Bytes, last: bool) {
        assert_eq!(self.open_push, Some(relay), "C2: the bytes of the frame that is being written");
        if self.is_open() {
            self.wire.out.payload(bytes);
        } else {
            let held = self.held.last_mut().expect("the push's head is held");
            self.held_size += bytes.len();
            held.pieces.push(bytes);
        }
        if last {
            self.open_push = None;
        }
    }

    /// A request that was answered, or is given up.
    pub(crate) fn take_pending(&mut self, id: RequestId) -> Option<PendingCall> {
        let pending = self.pending.remove(&id)?;
        if let AnswerTo::Relay(_, size) = pending.answer_to {
            assert!(size <= self.unanswered, "as many bytes are answered as were sent");
            self.unanswered -= size;
        }
        if !pending.is_queued() {
            self.take_back(id);
        }
        Some(pending)
    }

    /// A frame that has not gone out never will (K2).
    fn take_back(&mut self, id: RequestId) {
        self.held.retain(|held| held.id != id);
        let sizes = self.held.iter().flat_map(|held| &held.pieces).map(Bytes::len);
        self.held_size = sizes.sum();
    }

    /// All that is without an answer; nothing is held any more.
    pub(crate) fn take_all_pending(&mut self) -> Vec<PendingCall> {
        self.held.clear();
        self.held_size = 0;
        std::mem::take(&mut self.pending).into_values().collect()
    }

    /// Whether some of the request's frame has gone out (K2).
    pub(crate) fn has_left(&self, pending: &PendingCall) -> bool {
        pending.starts_at.is_some_and(|start| start < self.wire.out.written())
    }

    /// Reads what is there; see [`Wire::receive`].
    pub(crate) fn receive(
        &mut self,
        buffers: &mut ReadBuffers,
        arrivals: &mut Vec<Arrival>,
    ) -> Result<bool, Ended> {
        self.wire.receive(READ_BUDGET, buffers, arrivals)
    }

    /// Writes as much as the kernel takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        self.wire.flush()
    }

    /// Has epoll watch for what it can use now.
    ///
    /// # Errors
    /// The connection is of no further use.
    pub(crate) fn watch(&mut self, poller: &mut Poller) -> Result<(), Errno> {
        let interest = match self.stage {
            OutboundStage::Resolving(_) => EventFlags::IN,
            OutboundStage::Connecting(_) => EventFlags::OUT,
            OutboundStage::Greeting | OutboundStage::Open => self.wire.both_ways(true),
        };
        self.wire.watch(poller, interest)
    }
}
