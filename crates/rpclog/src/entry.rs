//! One entry of a diagnostic log, as it is looked at.

use bytes::Bytes;
use cairn_format::RpcWay;
use cairn_protocol::{Failure, RPC_NAMES, Request, Response, rpc_name};
use cairn_types::wire::Message;
use cairn_types::{CellId, ServerId};
use std::sync::Arc;

/// The number of the role of clients.
pub const ROLE_CLIENT: u8 = 1;
/// The number of the role of chunkservers.
pub const ROLE_CHUNKSERVER: u8 = 2;
/// The number of the role of masters.
pub const ROLE_MASTER: u8 = 3;

/// Who wrote an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWriter {
    /// When it was started, in microseconds since 1970.
    pub run: u64,
    /// What it is.
    pub role: u8,
    /// Its id; zero before it had one.
    pub server: ServerId,
    /// Its cell.
    pub cell: CellId,
}

/// A connection of the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedLink {
    /// Its number in the writer's life.
    pub number: u64,
    /// The writer dialled.
    pub is_dialled: bool,
    /// What the other side is.
    pub role: u8,
    /// The other side; zero for a client.
    pub server: ServerId,
    /// This side's address.
    pub local: String,
    /// The other side's.
    pub peer: String,
}

/// A request or reply.
#[derive(Clone, Debug)]
pub struct RpcEntry {
    /// Which way it went.
    pub way: RpcWay,
    /// By which connection.
    pub link: u64,
    /// What that is, where the log says it.
    pub other: Option<Arc<LoggedLink>>,
    /// The request's number on it.
    pub request: u64,
    /// Which rpc.
    pub rpc: u16,
    /// The reply is a failure.
    pub is_failure: bool,
    /// Bytes of the message.
    pub message_size: u64,
    /// Bytes of file data that went with it.
    pub payload_size: u64,
    /// Of a reply: microseconds since its request.
    pub duration_us: u64,
    /// The message; nothing where it was too long to be kept.
    pub message: Option<Bytes>,
}

/// What an entry tells.
#[derive(Clone, Debug)]
pub enum What {
    /// A request or reply.
    Rpc(RpcEntry),
    /// A significant event.
    Event {
        /// How urgent; 0 is the most.
        level: u8,
        /// In words.
        text: String,
    },
    /// So many entries are missing here.
    Dropped(u64),
}

/// One entry.
#[derive(Clone, Debug)]
pub struct LoggedEntry {
    /// Microseconds since 1970, by the writer's clock.
    pub at_us: u64,
    /// Which of the lives that are read together it is of: connections are numbered within it.
    pub life: usize,
    /// Who wrote it.
    pub writer: LogWriter,
    /// What it tells.
    pub what: What,
}

impl RpcEntry {
    /// The rpc's name, or its number where this build does not know it.
    #[must_use]
    pub fn name(&self) -> String {
        name_of(self.rpc)
    }

    /// The other side is a client.
    #[must_use]
    pub fn is_of_client(&self) -> bool {
        self.other.as_ref().is_some_and(|other| other.role == ROLE_CLIENT && !other.is_dialled)
    }

    /// The request, if it is one that was kept and that this build can read.
    #[must_use]
    pub fn asked(&self) -> Option<Request> {
        let message = self.message.as_ref().filter(|_| !self.way.is_reply())?;
        Request::decode(self.rpc, message).ok().flatten()
    }

    /// The answer, if it is one that was kept and that this build can read.
    #[must_use]
    pub fn answered(&self) -> Option<Response> {
        let is_answer = self.way.is_reply() && !self.is_failure;
        let message = self.message.as_ref().filter(|_| is_answer)?;
        Response::decode(self.rpc, message).ok().flatten()
    }

    /// The failure, if it is one.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let message = self.message.as_ref().filter(|_| self.is_failure)?;
        Failure::decode(message).ok()
    }
}

/// An rpc's name, or its number where this build does not know it.
#[must_use]
pub fn name_of(rpc: u16) -> String {
    rpc_name(rpc).map_or_else(|| format!("rpc-{rpc}"), str::to_owned)
}

/// The number of the rpc of a name, in whatever letters.
#[must_use]
pub fn number_of(name: &str) -> Option<u16> {
    let known = RPC_NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
    known.map(|(number, _)| *number).or_else(|| name.parse().ok())
}

/// What a role is called.
#[must_use]
pub fn role_name(role: u8) -> &'static str {
    match role {
        ROLE_CLIENT => "client",
        ROLE_CHUNKSERVER => "chunkserver",
        ROLE_MASTER => "master",
        _ => "unknown",
    }
}
