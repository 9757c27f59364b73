//! A connection: two pipes of frames, first in, first out (E4), which break after any prefix.
//!
//! - N1: a frame arrives after every frame sent before it through the same pipe.
//! - N2: of a broken pipe a prefix still arrives, perhaps late: a request may be served after its
//!   caller has been told that the connection is gone, and after a new connection's requests.

use crate::clock::WorldTime;
use crate::node::{NodeId, NodeState};
use crate::timeline::Timeline;
use crate::watch::{SeenAnswer, SeenRequest};
use bytes::Bytes;
use cairn_env::{Answer, Caller, ConnectionId, EffectId, Payload};
use cairn_protocol::{
    FRAME_HEADER_SIZE, Failure, FrameHeader, FrameKind, Push, Request, RequestId, Response, Role,
    encode_frame,
};
use cairn_types::wire::Message;
use cairn_types::{Address, ServerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which of a connection's pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the side that dialled.
    There,
    /// From the side that listens.
    Back,
}

/// Which side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// Who dialled.
    Dialler,
    /// Who listens.
    Listener,
}

/// Header and message as they travel, and the payload: held bytes are read when they arrive.
#[derive(Debug)]
pub(crate) struct SimFrame {
    pub(crate) head: Vec<u8>,
    pub(crate) payload: Payload,
}

/// What a frame says, once read.
pub(crate) enum FrameMessage {
    Request(Request),
    Response(Response),
    Failure(Failure),
}

impl SimFrame {
    pub(crate) fn request(id: RequestId, request: &Request, payload: Bytes) -> Self {
        Self::encode(request.kind(), FrameKind::Request, id, payload.into(), |out| {
            request.encode(out)
        })
    }

    pub(crate) fn answer(
        rpc: u16,
        id: RequestId,
        answer: &Result<Response, Failure>,
        payload: Payload,
    ) -> Self {
        match answer {
            Ok(response) => {
                Self::encode(rpc, FrameKind::Response, id, payload, |out| response.encode(out))
            }
            Err(failure) => {
                Self::encode(rpc, FrameKind::Failure, id, payload, |out| failure.encode(out))
            }
        }
    }

    fn encode(
        rpc: u16,
        kind: FrameKind,
        id: RequestId,
        payload: Payload,
        message: impl Fn(&mut Vec<u8>),
    ) -> Self {
        let mut head = Vec::new();
        encode_frame(rpc, kind, id, &message, payload.len(), &mut head);
        Self { head, payload }
    }

    /// Reads the frame as a receiver would; nothing where it is none.
    pub(crate) fn read(&self) -> Option<(RequestId, u16, FrameMessage)> {
        let (raw, message) = self.head.split_at_checked(FRAME_HEADER_SIZE)?;
        let header = FrameHeader::decode(raw.try_into().ok()?).ok()?;
        header.verify(message).ok()?;
        let said = match header.kind {
            FrameKind::Request => {
                FrameMessage::Request(Request::decode(header.rpc, message).ok()??)
            }
            FrameKind::Response => {
                FrameMessage::Response(Response::decode(header.rpc, message).ok()??)
            }
            FrameKind::Failure => FrameMessage::Failure(Failure::decode(message).ok()?),
        };
        Some((header.request, header.rpc, said))
    }
}

/// Frames on their way.
#[derive(Debug, Default)]
pub(crate) struct SimPipe {
    pub(crate) in_flight: VecDeque<SimFrame>,
    /// Sent while the network did not reach that far; they go on when it does again.
    pub(crate) held: Vec<SimFrame>,
    pub(crate) last_arrival: WorldTime,
    /// Nothing arrives before (N2).
    pub(crate) hold_until: WorldTime,
    /// Nothing arrives until it is released.
    pub(crate) stalled: bool,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOwner {
    /// A driver's call.
    Driver(EffectId),
    /// A push on its way down the chain.
    Chain(u64),
}

/// A call without an answer yet.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) owner: CallOwner,
    pub(crate) server: ServerId,
    /// Not sent yet: the connection is still being made.
    pub(crate) unsent: Option<SimFrame>,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// The handshake is on its way.
    Dialling,
    /// Open, welcomed by this server.
    Open(ServerId),
    /// Broken; what is sent now goes nowhere.
    Broken,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct SimConnection {
    pub(crate) id: ConnectionId,
    pub(crate) from: NodeId,
    pub(crate) from_life: u64,
    pub(crate) to: NodeId,
    /// For pushes, not for calls.
    pub(crate) pushes: bool,
    /// The listener's life that accepted it.
    pub(crate) to_life: Option<u64>,
    /// What the dialler said that it is; before its handshake, whatever may ask least.
    pub(crate) caller: Role,
    pub(crate) address: Address,
    pub(crate) state: ConnectionState,
    pub(crate) next_request: u64,
    pub(crate) calls: BTreeMap<RequestId, OpenCall>,
    pub(crate) there: SimPipe,
    pub(crate) back: SimPipe,
    pub(crate) dialler_knows: bool,
    pub(crate) listener_knows: bool,
}

impl SimConnection {
    /// What it is kept for.
    pub(crate) fn way(&self) -> KeptWay {
        KeptWay { from: self.from, to: self.to, pushes: self.pushes }
    }

    pub(crate) fn pipe(&mut self, direction: Direction) -> &mut SimPipe {
        match direction {
            Direction::There => &mut self.there,
            Direction::Back => &mut self.back,
        }
    }

    /// Sender and receiver of a direction.
    pub(crate) fn ends(&self, direction: Direction) -> (NodeId, NodeId) {
        match direction {
            Direction::There => (self.from, self.to),
            Direction::Back => (self.to, self.from),
        }
    }

    pub(crate) fn fresh_request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }
}

/// Chooses the request whose connection stalls.
pub type StallFilter = Box<dyn FnMut(&SeenRequest<'_>) -> bool>;

/// Tells what arrives in an answer's place, where it is not the answer that was given.
pub type AnswerForger = Box<dyn FnMut(&SeenAnswer<'_>) -> Option<Answer>>;

/// A way for which a node keeps a connection: pushes have one of their own, for calls wait behind
/// no data (E4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeptWay {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) pushes: bool,
}

/// All connections, and where frames do not get through.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) by_address: BTreeMap<Address, NodeId>,
    pub(crate) connections: BTreeMap<ConnectionId, SimConnection>,
    /// The connections that a node keeps to others.
    pub(crate) kept: BTreeMap<KeptWay, ConnectionId>,
    pub(crate) next_connection: u64,
    /// What the first sends does not reach the second.
    pub(crate) blocked: BTreeSet<(NodeId, NodeId)>,
    pub(crate) stall: Option<StallFilter>,
    pub(crate) forger: Option<AnswerForger>,
}

/// What the network has for a process; one that has died meanwhile does not get it (W2).
pub(crate) enum Delivery {
    /// A request, whoever lives there now: it came by a connection that this life accepted.
    Request { from: NodeId, to: NodeId, caller: Caller, request: Request },
    /// Pushed data, which the world itself serves (E5).
    Push { to: NodeId, caller: Caller, push: Push, payload: Bytes },
    /// The end of a call.
    Completed { to: NodeId, life: u64, owner: CallOwner, result: Result<Answer, Failure> },
    /// Who dialled says who it is.
    Identified { to: NodeId, connection: ConnectionId, credentials: Bytes },
    /// A connection on which requests came is gone.
    Disconnected { to: NodeId, life: u64, connection: ConnectionId },
}

/// What the network may touch while something happens in it: itself and the time, not the
/// processes; what it has for them goes out as deliveries.
pub(crate) struct NetworkHandler<'a> {
    pub(crate) network: &'a mut Network,
    pub(crate) time: &'a mut Timeline,
    pub(crate) nodes: &'a [NodeState],
    pub(crate) deliveries: &'a mut Vec<Delivery>,
}
