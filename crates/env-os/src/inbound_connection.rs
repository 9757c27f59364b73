//! One accepted connection: how far it has come, and what it may hold.
//!
//! ```text
//!   Greeting ──Hello──► Open ──► Farewell ──► gone
//! ```
//! - N1: nothing but the handshake is taken or sent before `Open`.
//! - N2: bytes that wait to be written to it, or are being read for it, are bounded: over the bound
//!   its requests are parked, and it is not read any more.

use crate::frame_encoding::{encode_answer, encode_failure};
use crate::frame_reader::{Arrival, Ended, ReadBuffers};
use crate::poller::Poller;
use crate::timers::LoopAlarmId;
use crate::wire::Wire;
use cairn_env::Payload;
use cairn_protocol::{Failure, PAYLOAD_SIZE_MAX, Request, RequestId, Response};
use cairn_types::Time;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};

/// Answers that may wait for a slow reader before its requests are no longer read.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Requests of one connection that may be without an answer.
const IN_FLIGHT_MAX: usize = 1024;

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

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct InboundConnection {
    wire: Wire,
    stage: InboundStage,
    /// Ends a handshake or a farewell that takes too long.
    patience: LoopAlarmId,
    /// Requests came by it: the driver hears when it is gone.
    was_open: bool,
    /// When its last request was handed on, or it was taken in.
    last_asked: Time,
    /// Requests without an answer.
    in_flight: usize,
    /// Those of them with large answers, and how large these may be.
    reads: BTreeMap<RequestId, usize>,
    /// Sum of that.
    read_bytes: usize,
    /// Requests that arrived over the bound (N2), in order.
    parked: VecDeque<(RequestId, Request)>,
    /// The next server of the push that it brings has enough to take for now.
    is_held_back: bool,
}

impl InboundConnection {
    pub(crate) fn new(wire: Wire, patience: LoopAlarmId, now: Time) -> Self {
        Self {
            wire,
            stage: InboundStage::Greeting,
            patience,
            was_open: false,
            last_asked: now,
            in_flight: 0,
            reads: BTreeMap::new(),
            read_bytes: 0,
            parked: VecDeque::new(),
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

    /// The handshake is done (N1).
    pub(crate) fn open(&mut self) {
        assert_eq!(self.stage, InboundStage::Greeting, "N1: opened by its first frame");
        self.stage = InboundStage::Open;
        self.was_open = true;
    }

    /// Reads what is there; see [`Wire::receive`].
    pub(crate) fn receive(
        &mut self,
        buffers: &mut ReadBuffers,
        arrivals: &mut Vec<Arrival>,
    ) -> Result<bool, Ended> {
        assert_ne!(self.stage, InboundStage::Farewell, "what comes then is thrown away");
        self.wire.receive(buffers, arrivals)
    }

    /// Throws away what it still sends after its last failure.
    pub(crate) fn discard(&mut self, buffers: &mut ReadBuffers) -> Result<(), Ended> {
        self.wire.discard(buffers)
    }

    /// A request has come: back it comes if it may be handed on, or it is parked until there is
    /// room for its answer (N2).
    pub(crate) fn admit(&mut self, now: Time, id: RequestId, request: Request) -> Option<Request> {
        if self.is_paused() {
            self.parked.push_back((id, request));
            return None;
        }
        self.begin(now, id, &request);
        Some(request)
    }

    /// A parked request for which there is room now.
    pub(crate) fn unpark(&mut self, now: Time) -> Option<(RequestId, Request)> {
        if self.is_full() {
            return None;
        }
        let (id, request) = self.parked.pop_front()?;
        self.begin(now, id, &request);
        Some((id, request))
    }

    fn begin(&mut self, now: Time, id: RequestId, request: &Request) {
        self.begin_push(now);
        if let Request::Read(read) = request {
            let size = usize::try_from(read.size).unwrap_or(usize::MAX);
            let size = size.min(PAYLOAD_SIZE_MAX as usize);
            // A caller may use an id twice; that is its own confusion, and must not be ours (P2).
            let before = self.reads.insert(id, size).unwrap_or(0);
            self.read_bytes = self.read_bytes + size - before;
        }
    }

    /// A request whose answer is small, and which waits for nobody: the handshake, or a push.
    pub(crate) fn begin_push(&mut self, now: Time) {
        self.last_asked = now;
        self.in_flight += 1;
    }

    /// Queues the answer to a request.
    pub(crate) fn answer(
        &mut self,
        request: RequestId,
        answer: &Result<Response, Failure>,
        payload: Payload,
    ) {
        assert_eq!(self.stage, InboundStage::Open, "N1: answers go to open connections");
        assert!(self.in_flight > 0, "a request is answered once");
        self.in_flight -= 1;
        self.read_bytes -= self.reads.remove(&request).unwrap_or(0);
        let mut brings_payload = false;
        let size = payload.len();
        self.wire.out.frame(|out| brings_payload = encode_answer(request, answer, size, out));
        if brings_payload && size > 0 {
            self.wire.out.payload(payload);
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
        let reads = !self.is_paused() && !self.is_held_back;
        self.wire.watch(poller, self.wire.both_ways(reads))
    }

    /// Whether another request has to wait (N2).
    fn is_full(&self) -> bool {
        let bytes = self.wire.out.size() + self.read_bytes;
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
        connection.open();
        connection.wire.out.payload(Bytes::from(vec![0; ANSWER_BYTES_MAX]));
        assert!(!connection.is_paused());
        connection.wire.out.payload(Bytes::from(vec![0; 1]));
        assert!(connection.is_paused());
    }
}
