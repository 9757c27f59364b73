//! One accepted connection: how far it has come, and what it may hold.
//!
//! ```text
//!   Greeting ──Hello──► Open ──► Farewell ──► gone
//! ```
//! - N1: nothing but the handshake is taken or sent before `Open`.
//! - N2: what it makes us hold is bounded by itself and by the budget of all connections: over a
//!   bound its requests are parked, and it is not read any more.

use crate::frame_encoding::{encode_answer, encode_failure};
use crate::frame_reader::{Arrival, Ended, READ_BUDGET, ReadBuffers};
use crate::memory_budget::{MEMORY_ALLOWANCE, MemoryBudget, STALLED_TIME};
use crate::poller::Poller;
use crate::rpc_meter::{Begun, BegunRequests};
use crate::timers::LoopAlarmId;
use crate::wire::Wire;
use cairn_env::Payload;
use cairn_protocol::{
    FRAME_HEADER_SIZE, Failure, FrameKind, Push, Request, RequestId, Response, Role, Rpc,
    SMALL_ANSWER_SIZE,
};
use cairn_types::{Identity, Time};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Answers that may wait for a slow reader before its requests are no longer read.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Requests of one connection that may be without an answer.
const IN_FLIGHT_MAX: usize = 1024;
/// What each of them is charged at least: itself, what a core remembers of it, its answer.
const REQUEST_CHARGE: usize = 2 * SMALL_ANSWER_SIZE;
/// Bytes of memory that a message takes for each of its own, once it is decoded.
const DECODED_FACTOR: usize = 4;
/// Whoever moves so many bytes, or has nothing more to move, has moved (T4).
const MOVED_SIZE: u64 = 64 << 10;

/// How far an accepted connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InboundStage {
    /// Its Hello is awaited.
    Greeting,
    /// Requests and answers.
    Open,
    /// A last failure is being written; what comes is thrown away.
    Farewell,
}

/// A request that waits for room.
#[derive(Debug)]
struct ParkedRequest {
    id: RequestId,
    request: Request,
    /// Bytes of its message.
    size: usize,
    came: Time,
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct InboundConnection {
    wire: Wire,
    stage: InboundStage,
    /// What it said that it is, in its Hello; before that, whatever may ask least.
    caller: Role,
    /// It said, too, that it asks for the superuser, or nothing of who it is.
    is_superuser: bool,
    /// Ends a handshake or a farewell that takes too long.
    patience: LoopAlarmId,
    /// Requests came by it: the driver hears when it is gone.
    was_open: bool,
    /// When its last request was handed on, or it was taken in.
    last_asked: Time,
    /// Requests without an answer.
    in_flight: usize,
    /// What these are, for people.
    begun: BegunRequests,
    /// Those of them that are charged more than the least, and how much more. A caller may use an
    /// id twice; that is its own confusion, and must not be ours (P2): so they are numbered.
    charges: BTreeMap<(RequestId, u32), usize>,
    /// Sum of that.
    charged_more: usize,
    /// Requests that arrived over a bound (N2), in order.
    parked: VecDeque<ParkedRequest>,
    /// Bytes of memory that these take.
    parked_bytes: usize,
    /// Bytes that there is room for, of the frame that is being received.
    reserved: usize,
    /// What the budget has it down for.
    charged: usize,
    /// It goes on only when there is room in the budget.
    is_short: bool,
    /// When it last moved bytes or had none to move, and how many it had moved by then (T4).
    moved: (Time, u64),
    /// The next server of the push that it brings has enough to take for now.
    is_held_back: bool,
}

impl InboundConnection {
    pub(crate) fn new(wire: Wire, patience: LoopAlarmId, now: Time) -> Self {
        Self {
            wire,
            stage: InboundStage::Greeting,
            caller: Role::default(),
            is_superuser: false,
            patience,
            was_open: false,
            last_asked: now,
            in_flight: 0,
            begun: BegunRequests::default(),
            charges: BTreeMap::new(),
            charged_more: 0,
            parked: VecDeque::new(),
            parked_bytes: 0,
            reserved: 0,
            charged: 0,
            is_short: false,
            moved: (now, 0),
            is_held_back: false,
        }
    }

    pub(crate) fn stage(&self) -> InboundStage {
        self.stage
    }

    pub(crate) fn was_open(&self) -> bool {
        self.was_open
    }

    /// Whether it has asked for nothing that it was not given.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.parked.is_empty() && self.wire.out.size() == 0
    }

    /// When its last request was handed on, or it was taken in.
    pub(crate) fn last_asked(&self) -> Time {
        self.last_asked
    }

    pub(crate) fn patience(&self) -> LoopAlarmId {
        self.patience
    }

    /// What it said that it is.
    pub(crate) fn caller(&self) -> Role {
        self.caller
    }

    /// Whether it asks for the superuser.
    pub(crate) fn is_superuser(&self) -> bool {
        self.is_superuser
    }

    /// Where it comes from, where the system says so.
    pub(crate) fn comes_from(&self) -> Option<SocketAddr> {
        self.wire.peer()
    }

    /// The handshake is done, and this is what it says that it is, and for whom it asks (N1).
    pub(crate) fn open(&mut self, caller: Role, credentials: &[u8]) {
        assert_eq!(self.stage, InboundStage::Greeting, "N1: opened by its first frame");
        self.stage = InboundStage::Open;
        self.caller = caller;
        self.is_superuser = Identity::told(credentials).is_superuser();
        self.was_open = true;
    }

    /// Reads what is there; see [`Wire::receive`]. Little, where there may be no room for more.
    pub(crate) fn receive(
        &mut self,
        budget: &MemoryBudget,
        buffers: &mut ReadBuffers,
        arrivals: &mut Vec<Arrival>,
    ) -> Result<bool, Ended> {
        assert_ne!(self.stage, InboundStage::Farewell, "what comes then is thrown away");
        let is_tight = budget.free() < budget.max() / 2 && self.reserved == 0;
        let limit = if is_tight { MEMORY_ALLOWANCE / 2 } else { READ_BUDGET };
        self.wire.receive(limit, buffers, arrivals)
    }

    /// Throws away what it still sends after its last failure.
    pub(crate) fn discard(&mut self, buffers: &mut ReadBuffers) -> Result<(), Ended> {
        self.wire.discard(buffers)
    }

    /// A request has come with a message of so many bytes: back it comes if it may be handed on,
    /// or it is parked until there is room for it and its answer (N2).
    pub(crate) fn admit(
        &mut self,
        budget: &mut MemoryBudget,
        now: Time,
        id: RequestId,
        (request, size): (Request, usize),
    ) -> Option<Request> {
        let more = charge(&request, size);
        let is_next = !self.is_paused();
        let admitted = if is_next && budget.allows(self.holds(), REQUEST_CHARGE + more) {
            budget.begin(more);
            self.begin((now, now), (id, request.kind()), more);
            Some(request)
        } else {
            self.is_short |= is_next;
            self.parked_bytes += REQUEST_CHARGE + DECODED_FACTOR * size;
            self.parked.push_back(ParkedRequest { id, request, size, came: now });
            None
        };
        self.settle(budget, now);
        admitted
    }

    /// A parked request for which there is room now.
    pub(crate) fn unpark(
        &mut self,
        budget: &mut MemoryBudget,
        now: Time,
    ) -> Option<(RequestId, Request)> {
        self.is_short = false;
        if self.is_full() {
            return None;
        }
        let ParkedRequest { request, size, .. } = self.parked.front()?;
        let more = charge(request, *size);
        let parked = REQUEST_CHARGE + DECODED_FACTOR * size;
        if !budget.allows(self.holds() - parked, REQUEST_CHARGE + more) {
            self.is_short = true;
            return None;
        }
        let ParkedRequest { id, request, came, .. } = self.parked.pop_front()?;
        self.parked_bytes -= parked;
        budget.begin(more);
        self.begin((came, now), (id, request.kind()), more);
        self.settle(budget, now);
        Some((id, request))
    }

    /// Takes room for the frame that is being received (T3), or waits for it.
    pub(crate) fn reserve(&mut self, budget: &mut MemoryBudget, now: Time) {
        let announced = self.wire.announced();
        let rest = self.holds() - self.arriving();
        self.is_short |= announced > self.reserved && !budget.allows(rest, announced);
        if announced <= self.reserved || !self.is_short {
            self.reserved = announced;
        }
        self.settle(budget, now);
    }

    /// Has the budget charge it with what it holds now.
    pub(crate) fn settle(&mut self, budget: &mut MemoryBudget, now: Time) {
        let holds = self.holds();
        budget.settle(std::mem::replace(&mut self.charged, holds), holds);
        let moved = self.wire.moved();
        if !self.owes() || moved - self.moved.1 >= MOVED_SIZE {
            self.moved = (now, moved);
        }
    }

    /// What it makes us hold.
    fn holds(&self) -> usize {
        let requests = self.in_flight * REQUEST_CHARGE + self.charged_more + self.parked_bytes;
        requests + self.wire.out.size() + self.arriving()
    }

    fn arriving(&self) -> usize {
        self.reserved.max(self.wire.arrived())
    }

    /// Whether we wait for it: to take what is written, or to send the rest of what it began.
    fn owes(&self) -> bool {
        self.wire.out.size() > 0 || self.wire.announced() > 0
    }

    /// What the budget has it down for.
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// Whether it goes on only when there is room in the budget.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Whether it holds room that others could use, and moves nothing (T4).
    pub(crate) fn is_stalled(&self, now: Time) -> bool {
        let since = self.moved.0 + STALLED_TIME;
        self.charged > MEMORY_ALLOWANCE && self.owes() && since <= now
    }

    fn begin(&mut self, (came, now): (Time, Time), (id, kind): (RequestId, u16), more: usize) {
        self.begin_unnamed(now);
        self.begun.begin((came, now), id, (kind, 0));
        if more > 0 {
            let same = self.charges.range((id, 0)..=(id, u32::MAX)).next_back();
            let number = same.map_or(0, |((_, number), _)| number + 1);
            self.charges.insert((id, number), more);
            self.charged_more += more;
        }
    }

    /// A push of so many bytes, whose answer is small, and which waits for nobody.
    pub(crate) fn begin_push(&mut self, now: Time, id: RequestId, size: usize) {
        self.begin_unnamed(now);
        self.begun.begin((now, now), id, (Push::KIND, size as u64));
    }

    /// A request that is not counted: the handshake.
    pub(crate) fn begin_unnamed(&mut self, now: Time) {
        self.last_asked = now;
        self.in_flight += 1;
    }

    /// The socket itself.
    pub(crate) fn socket(&self) -> &OwnedFd {
        self.wire.socket()
    }

    /// A request is done, and what follows it has its place, and is answered there: it waits for
    /// no room, for most of what it holds came with the other. Which that was, where it is counted.
    pub(crate) fn follow(
        &mut self,
        budget: &mut MemoryBudget,
        now: Time,
        id: RequestId,
        (request, size): (&Request, usize),
    ) -> Option<Begun> {
        assert!(self.in_flight > 0, "a request is answered once");
        self.in_flight -= 1;
        let ended = self.begun.end(id);
        let more = charge(request, size);
        budget.begin(more);
        self.begin((now, now), (id, request.kind()), more);
        self.settle(budget, now);
        ended
    }

    /// Queues the answer to a request; tells the message that it has become, and which request it
    /// answers where that is counted.
    pub(crate) fn answer(
        &mut self,
        now: Time,
        request: RequestId,
        answer: &Result<Response, Failure>,
        payload: Payload,
        tell: impl FnOnce(&Begun, FrameKind, &[u8]),
    ) {
        assert_eq!(self.stage, InboundStage::Open, "N1: answers go to open connections");
        assert!(self.in_flight > 0, "a request is answered once");
        self.in_flight -= 1;
        self.give_back(request);
        if !self.owes() {
            self.moved = (now, self.wire.moved());
        }
        let (begun, size) = (self.begun.end(request), payload.len());
        let mut kind = FrameKind::Failure;
        self.wire.out.frame(|out| {
            let start = out.len();
            kind = encode_answer(request, answer, size, out);
            if let Some(begun) = begun {
                tell(&begun, kind, &out[start + FRAME_HEADER_SIZE..]);
            }
        });
        if kind == FrameKind::Response && size > 0 {
            self.wire.out.payload(payload);
        }
    }

    /// What a request was charged beside the least.
    fn give_back(&mut self, request: RequestId) {
        let last = self.charges.range((request, 0)..=(request, u32::MAX)).next_back();
        if let Some(key) = last.map(|(key, _)| *key) {
            self.charged_more -= self.charges.remove(&key).expect("found just now");
        }
    }

    /// Says why nothing more is taken; it ends once that is written, or by this alarm.
    pub(crate) fn say_farewell(
        &mut self,
        request: RequestId,
        why: &Failure,
        patience: LoopAlarmId,
    ) {
        self.stage = InboundStage::Farewell;
        self.patience = patience;
        self.parked.clear();
        self.parked_bytes = 0;
        self.wire.out.frame(|out| encode_failure(request, why, out));
    }

    /// Whether it is not to be read, because whom its push goes on to has enough; says whether
    /// that is new.
    pub(crate) fn hold_back(&mut self, is_held_back: bool) -> bool {
        std::mem::replace(&mut self.is_held_back, is_held_back) != is_held_back
    }

    /// Writes as much as the kernel takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        self.wire.flush()?;
        if self.stage == InboundStage::Farewell && self.wire.out.size() == 0 {
            // The other side must be able to read the last failure: closing with unread bytes
            // would reset the connection under it.
            self.wire.end_writing();
        }
        Ok(())
    }

    /// Has epoll watch for what it can use now.
    ///
    /// # Errors
    /// The connection is of no further use.
    pub(crate) fn watch(&mut self, poller: &mut Poller) -> Result<(), Errno> {
        let reads = !self.is_paused() && !self.is_held_back && !self.is_short;
        self.wire.watch(poller, self.wire.both_ways(reads))
    }

    /// Whether another request has to wait (N2).
    fn is_full(&self) -> bool {
        let bytes = self.wire.out.size() + self.charged_more;
        self.in_flight >= IN_FLIGHT_MAX || bytes > ANSWER_BYTES_MAX
    }

    /// Whether it is not to be read for now.
    fn is_paused(&self) -> bool {
        self.stage == InboundStage::Open && (!self.parked.is_empty() || self.is_full())
    }

    #[cfg(test)]
    pub(crate) fn is_read(&self) -> bool {
        self.wire.is_read()
    }
}

/// What a request is charged beside the least: what it says, and the most that it is answered.
fn charge(request: &Request, size: usize) -> usize {
    let all = request.answer_size_max().saturating_add(DECODED_FACTOR * size);
    all.saturating_sub(REQUEST_CHARGE)
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_BYTES_MAX, InboundConnection};
    use crate::frame_reader::Expecting;
    use crate::ids::EpollToken;
    use crate::poller::Poller;
    use crate::timers::{LoopAlarm, LoopTimers};
    use crate::wire::Wire;
    use bytes::Bytes;
    use cairn_env::{ConnectionId, EffectId};
    use cairn_protocol::Role;
    use cairn_types::Time;
    use rustix::event::epoll::EventFlags;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_with_too_many_answers_waiting_is_not_read() {
        let (socket, _peer) = UnixStream::pair().expect("a pair");
        let poller = Poller::new().expect("an epoll");
        let (token, interest) = (EpollToken::Inbound(ConnectionId(1)), EventFlags::IN);
        let wire = Wire::new(&poller, socket.into(), token, Expecting::Requests, interest);
        let patience = LoopTimers::default().set(Time::default(), LoopAlarm::Wake(EffectId(1)));
        let mut connection =
            InboundConnection::new(wire.expect("is watched"), patience, Time::default());
        connection.open(Role::Client, &[]);
        connection.wire.out.payload(Bytes::from(vec![0; ANSWER_BYTES_MAX]));
        assert!(!connection.is_paused());
        connection.wire.out.payload(Bytes::from(vec![0; 1]));
        assert!(connection.is_paused());
    }
}
