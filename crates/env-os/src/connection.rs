//! One non-blocking socket, from either side, and how far it has come.
//!
//! ```text
//!   accepted              Greeting ──Hello──► Open ──► Draining ──► gone
//!   dialled  (Naming ►) Connecting ► Greeting ─Welcome─► Open ───────────────► gone
//! ```
//! - N1: nothing but the handshake is taken or sent before `Open`.
//! - N2: bytes that wait to be written to an accepted connection, or are being read for it, are
//!   bounded: over the bound its requests are parked, and it is not read any more.

use crate::frame_reader::{Expecting, FrameReader};
use crate::name_lookup::NameLookup;
use crate::out_queue::OutQueue;
use crate::relays::RelayId;
use crate::timers::AlarmId;
use bytes::Bytes;
use cairn_env::EffectId;
use cairn_protocol::{PAYLOAD_SIZE_MAX, Request, RequestId};
use cairn_types::{Address, ServerId};
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Answers that may wait for a slow reader before its requests are no longer read.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Requests of one connection that may be without an answer.
const IN_FLIGHT_MAX: usize = 1024;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The name is being looked up; the socket is not one yet.
    Naming,
    /// The kernel is connecting.
    Connecting,
    /// The handshake is on its way.
    Greeting,
    /// Requests and answers.
    Open,
    /// A last failure is being written; what comes is thrown away.
    Draining,
}

/// A socket with its queues.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) stage: Stage,
    pub(crate) inflow: FrameReader,
    pub(crate) out: OutQueue,
    pub(crate) side: Side,
    /// What epoll watches for now.
    pub(crate) interest: EventFlags,
    /// Stands in the list of connections to flush.
    pub(crate) is_dirty: bool,
    /// Ends a handshake or a farewell that takes too long.
    pub(crate) patience: AlarmId,
}

/// Who made the connection.
#[derive(Debug)]
pub(crate) enum Side {
    Accepted(Accepted),
    Dialled(Dialled),
}

/// The listening side's part.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    /// Requests came by it: the driver hears when it is gone.
    pub(crate) was_open: bool,
    /// Requests in the driver's hands.
    pub(crate) in_flight: usize,
    /// Those of them with large answers, and how large these may be.
    pub(crate) reads: BTreeMap<RequestId, usize>,
    /// Sum of that.
    pub(crate) read_bytes: usize,
    /// Requests that arrived over the bound (N2), in order.
    pub(crate) parked: VecDeque<(RequestId, Request)>,
    /// The push that is being received.
    pub(crate) receiving: Option<RelayId>,
}

/// The dialling side's part.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) address: Address,
    /// The server meant, zero where any will do (R5).
    pub(crate) server: ServerId,
    /// While the name is being looked up.
    pub(crate) lookup: Option<NameLookup>,
    /// Where else the name may lead, if connecting fails.
    pub(crate) others: Vec<SocketAddr>,
    /// Frames that wait for the handshake.
    pub(crate) held: Vec<Held>,
    pub(crate) pending: BTreeMap<RequestId, Pending>,
    pub(crate) next_request: RequestId,
    /// The push whose frame is being written, and is not whole yet.
    pub(crate) open_frame: Option<RelayId>,
    /// Bytes of pushes without an answer.
    pub(crate) unanswered: usize,
}

/// A frame that waits for the handshake; it can still be taken back.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: RequestId,
    pub(crate) pieces: Vec<Bytes>,
}

impl Held {
    pub(crate) fn size(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

/// A request without an answer yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) target: Target,
    pub(crate) rpc: u16,
    /// Where in the stream its frame starts; none while it is held.
    pub(crate) starts_at: Option<u64>,
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The driver's call.
    Effect(EffectId, AlarmId),
    /// A push of so many bytes that is passed on.
    Relay(RelayId, usize),
}

impl Accepted {
    /// The driver takes a request.
    pub(crate) fn begin(&mut self, id: RequestId, request: &Request) {
        self.in_flight += 1;
        if let Request::Read(read) = request {
            let size = usize::try_from(read.size).unwrap_or(usize::MAX);
            let size = size.min(PAYLOAD_SIZE_MAX as usize);
            // A caller may use an id twice; that is its own confusion, and must not be ours (P2).
            let before = self.reads.insert(id, size).unwrap_or(0);
            self.read_bytes = self.read_bytes + size - before;
        }
    }

    /// The driver has answered.
    pub(crate) fn end(&mut self, id: RequestId) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.read_bytes -= self.reads.remove(&id).unwrap_or(0);
    }
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, stage: Stage, side: Side, patience: AlarmId) -> Self {
        let expecting = match side {
            Side::Accepted(_) => Expecting::Requests,
            Side::Dialled(_) => Expecting::Answers,
        };
        Self {
            socket,
            stage,
            inflow: FrameReader::new(expecting),
            out: OutQueue::default(),
            side,
            interest: EventFlags::empty(),
            is_dirty: false,
            patience,
        }
    }

    pub(crate) fn accepted(&mut self) -> Option<&mut Accepted> {
        match &mut self.side {
            Side::Accepted(accepted) => Some(accepted),
            Side::Dialled(_) => None,
        }
    }

    pub(crate) fn dialled(&mut self) -> Option<&mut Dialled> {
        match &mut self.side {
            Side::Dialled(dialled) => Some(dialled),
            Side::Accepted(_) => None,
        }
    }

    /// Bytes that wait for the network or for the handshake.
    pub(crate) fn backlog(&self) -> usize {
        let held = match &self.side {
            Side::Dialled(dialled) => dialled.held.iter().map(Held::size).sum(),
            Side::Accepted(_) => 0,
        };
        self.out.size() + held
    }

    /// Whether another request has to wait (N2). Never on the dialling side: answers that are
    /// not read would hold up the very server that is to take our requests.
    pub(crate) fn is_full(&self) -> bool {
        match &self.side {
            Side::Accepted(accepted) => {
                accepted.in_flight >= IN_FLIGHT_MAX
                    || self.out.size() + accepted.read_bytes > ANSWER_BYTES_MAX
            }
            Side::Dialled(_) => false,
        }
    }

    /// Whether it is not to be read for now.
    pub(crate) fn is_paused(&self) -> bool {
        let has_parked = match &self.side {
            Side::Accepted(accepted) => !accepted.parked.is_empty(),
            Side::Dialled(_) => false,
        };
        self.stage == Stage::Open && (has_parked || self.is_full())
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_BYTES_MAX, Accepted, Connection, Side, Stage};
    use crate::timers::Timers;
    use bytes::Bytes;
    use cairn_types::Time;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_with_too_many_answers_waiting_is_not_read() {
        let (socket, _peer) = UnixStream::pair().expect("a pair");
        let patience = Timers::new().set(Time::default(), ());
        let side = Side::Accepted(Accepted::default());
        let mut connection = Connection::new(socket.into(), Stage::Open, side, patience);
        connection.out.payload(Bytes::from(vec![0; ANSWER_BYTES_MAX]));
        assert!(!connection.is_paused());
        connection.out.payload(Bytes::from(vec![0; 1]));
        assert!(connection.is_paused());
    }
}
