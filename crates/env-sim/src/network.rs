//! A connection: two pipes of frames, first in, first out (E4), which break after any prefix.
//!
//! - N1: a frame arrives after every frame sent before it through the same pipe.
//! - N2: of a broken pipe a prefix still arrives, perhaps late: a request may be served after its
//!   caller has been told that the connection is gone, and after a new connection's requests.

use crate::clock::WorldTime;
use crate::world::NodeId;
use bytes::Bytes;
use cairn_env::{ConnectionId, EffectId, Payload};
use cairn_protocol::{
    FRAME_HEADER_SIZE, Failure, FrameHeader, FrameKind, Request, RequestId, Response, encode_frame,
};
use cairn_types::wire::Message;
use cairn_types::{Address, ServerId};
use std::collections::{BTreeMap, VecDeque};

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
pub(crate) enum Ends {
    /// Who dialled.
    Dialler,
    /// Who listens.
    Listener,
}

/// Header and message as they travel, and the payload: held bytes are read when they arrive.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) head: Vec<u8>,
    pub(crate) payload: Payload,
}

/// What a frame says, once read.
pub(crate) enum Said {
    Request(Request),
    Response(Response),
    Failure(Failure),
}

impl Frame {
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
    pub(crate) fn read(&self) -> Option<(RequestId, u16, Said)> {
        let (raw, message) = self.head.split_at_checked(FRAME_HEADER_SIZE)?;
        let header = FrameHeader::decode(raw.try_into().ok()?).ok()?;
        header.verify(message).ok()?;
        let said = match header.kind {
            FrameKind::Request => Said::Request(Request::decode(header.rpc, message).ok()??),
            FrameKind::Response => Said::Response(Response::decode(header.rpc, message).ok()??),
            FrameKind::Failure => Said::Failure(Failure::decode(message).ok()?),
        };
        Some((header.request, header.rpc, said))
    }
}

/// Frames on their way.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) in_flight: VecDeque<Frame>,
    /// Sent while the network did not reach that far; they go on when it does again.
    pub(crate) held: Vec<Frame>,
    pub(crate) last_arrival: WorldTime,
    /// Nothing arrives before (N2).
    pub(crate) hold_until: WorldTime,
    /// Nothing arrives until it is released.
    pub(crate) stalled: bool,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A driver's call.
    Driver(EffectId),
    /// A push on its way down the chain.
    Chain(u64),
}

/// A call without an answer yet.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) owner: Owner,
    pub(crate) server: ServerId,
    /// Not sent yet: the connection is still being made.
    pub(crate) unsent: Option<Frame>,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The handshake is on its way.
    Dialling,
    /// Open, welcomed by this server.
    Open(ServerId),
    /// Broken; what is sent now goes nowhere.
    Broken,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) from: NodeId,
    pub(crate) from_life: u64,
    pub(crate) to: NodeId,
    /// The listener's life that accepted it.
    pub(crate) to_life: Option<u64>,
    pub(crate) address: Address,
    pub(crate) state: State,
    pub(crate) next_request: u64,
    pub(crate) calls: BTreeMap<RequestId, OpenCall>,
    pub(crate) there: Pipe,
    pub(crate) back: Pipe,
    pub(crate) dialler_knows: bool,
    pub(crate) listener_knows: bool,
}

impl Connection {
    pub(crate) fn pipe(&mut self, direction: Direction) -> &mut Pipe {
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
