//! Where requests and replies are looked at on their way, for the diagnostic log (GFS §5.3).
//!
//! ```text
//!   inbound ── request received, reply sent ──┐
//!   outbound ─ request sent, reply received ──┼─► batch ── 64 KiB, or 200 ms old ─► writer
//!   reactor ── events ────────────────────────┘
//! ```
//! - TP1: nothing here waits, and nothing depends on it: without a log it does nothing at all.
//! - TP2: no byte of a file, and nothing of a handshake, goes into the log.
//! - TP3: of a connection that is lost nothing is remembered.

use crate::clock::Wall;
use crate::ids::OutboundId;
use crate::rpc_log_writer::RpcLogWriter;
use cairn_env::{ConnectionId, LogEvent, LogLevel};
use cairn_format::{BatchHead, BatchWriter, LinkLine, RpcLine, RpcWay};
use cairn_protocol::{ErrorCode, Failure, Hello, RecentRpcs, RecentRpcsAnswer, RequestId, Role};
use cairn_types::wire::Message;
use cairn_types::{ServerId, Time};
use rustix::fd::AsFd;
use rustix::net::{SocketAddrAny, getpeername, getsockname};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of a batch that is handed over.
const BATCH_SIZE: usize = 64 << 10;
/// How old the first entry of a batch gets while the loop turns.
const BATCH_AGE: Duration = Duration::from_millis(200);
/// The least urgent events that are significant enough.
const EVENT_LEVEL: LogLevel = LogLevel::Info;

/// A connection as the log numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TapLink(u64);

impl From<ConnectionId> for TapLink {
    fn from(id: ConnectionId) -> Self {
        Self(id.0 << 1)
    }
}

impl From<OutboundId> for TapLink {
    fn from(id: OutboundId) -> Self {
        Self(id.0 << 1 | 1)
    }
}

impl TapLink {
    fn is_dialled(self) -> bool {
        self.0 & 1 != 0
    }
}

/// What is looked at of a message.
#[derive(Clone, Copy)]
pub(crate) struct TappedMessage<'a> {
    pub(crate) link: TapLink,
    pub(crate) request: RequestId,
    pub(crate) rpc: u16,
    /// Bytes of the message, and the message as it travels: that may be left out of one which is
    /// too long to be kept.
    pub(crate) size: usize,
    pub(crate) message: &'a [u8],
    pub(crate) payload_size: usize,
}

/// How a request was answered, and when it had come, or gone out.
#[derive(Clone, Copy)]
pub(crate) struct TappedReply {
    pub(crate) since: Time,
    pub(crate) is_failure: bool,
}

/// Looks, where there is a log.
#[derive(Debug, Default)]
pub(crate) struct RpcTap {
    open: Option<Box<OpenTap>>,
}

/// What is known of a connection.
#[derive(Debug)]
struct LinkNote {
    role: u8,
    server: ServerId,
    local: String,
    peer: String,
    /// The last batch that says so.
    told_in: u64,
}

struct OpenTap {
    writer: RpcLogWriter,
    batch: BatchWriter,
    head: BatchHead,
    /// Batches begun.
    batch_number: u64,
    /// When the batch at hand got its first entry.
    began: Time,
    /// Microseconds from the clock that runs to the wall's.
    offset_us: u64,
    links: BTreeMap<TapLink, LinkNote>,
    /// The connection that was told of last, which needs no look at the others.
    told: Option<TapLink>,
}

impl fmt::Debug for OpenTap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTap").field("head", &self.head).finish_non_exhaustive()
    }
}

impl RpcTap {
    /// One that writes; `run` names this life of the server.
    pub(crate) fn new(writer: RpcLogWriter, run: u64) -> Self {
        let mut open = OpenTap {
            writer,
            batch: BatchWriter::default(),
            head: BatchHead { run, ..BatchHead::default() },
            batch_number: 0,
            began: Time::default(),
            offset_us: 0,
            links: BTreeMap::new(),
            told: None,
        };
        open.offset_us = Wall::look().offset_us();
        open.begin_batch(crate::clock::boot_time());
        Self { open: Some(Box::new(open)) }
    }

    /// Whether there is a log.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The driver says who it is.
    pub(crate) fn identify(&mut self, now: Time, hello: &Hello) {
        let Some(open) = &mut self.open else { return };
        open.head.role = role_number(hello.role);
        open.head.server = hello.server;
        open.head.cell = hello.cell;
        if open.batch.is_empty() {
            open.begin_batch(now);
        } else {
            // The next batch may begin with what was dropped: so it is not begun again.
            open.hand_over(now);
        }
    }

    /// The clocks were looked at.
    pub(crate) fn set_wall(&mut self, wall: &Wall) {
        if let Some(open) = &mut self.open {
            open.offset_us = wall.offset_us();
        }
    }

    /// A connection is open, and this is the other side.
    pub(crate) fn link(
        &mut self,
        link: TapLink,
        (role, server): (Role, ServerId),
        socket: impl AsFd,
    ) {
        let Some(open) = &mut self.open else { return };
        let local = shown(getsockname(&socket).ok());
        let peer = shown(getpeername(&socket).ok().flatten());
        let note = LinkNote { role: role_number(role), server, local, peer, told_in: 0 };
        open.links.insert(link, note);
        open.told = None;
    }

    /// A connection is lost.
    pub(crate) fn lose(&mut self, link: TapLink) {
        let Some(open) = &mut self.open else { return };
        open.links.remove(&link);
        open.told = None;
    }

    /// A message goes this way; a reply answers what went the other way.
    pub(crate) fn look(
        &mut self,
        now: Time,
        way: RpcWay,
        seen: &TappedMessage<'_>,
        reply: Option<TappedReply>,
    ) {
        let Some(open) = &mut self.open else { return };
        open.put(now, way, seen, reply);
    }

    /// Instead of a reply there is a failure, which was made on this side.
    pub(crate) fn failed(
        &mut self,
        now: Time,
        way: RpcWay,
        (link, request, rpc): (TapLink, RequestId, u16),
        since: Time,
        failure: &Failure,
    ) {
        let Some(open) = &mut self.open else { return };
        let mut message = Vec::new();
        failure.encode(&mut message);
        let (size, payload_size) = (message.len(), 0);
        let seen = TappedMessage { link, request, rpc, size, message: &message, payload_size };
        open.put(now, way, &seen, Some(TappedReply { since, is_failure: true }));
    }

    /// A significant event.
    pub(crate) fn event(&mut self, now: Time, event: &LogEvent) {
        let Some(open) = &mut self.open else { return };
        if event.level <= EVENT_LEVEL {
            let at = open.wall_us(now);
            open.batch.event(at, event.level as u8, &event.to_string());
        }
    }

    /// All that was at hand is done: what is old or large enough goes to the writer.
    pub(crate) fn end_turn(&mut self, now: Time) {
        let Some(open) = &mut self.open else { return };
        if open.batch.is_empty() {
            open.began = now;
        } else if open.began + BATCH_AGE <= now {
            open.hand_over(now);
        }
    }

    /// What happened lately, for one who asks this server.
    pub(crate) fn recent(
        &mut self,
        now: Time,
        asked: &RecentRpcs,
    ) -> Result<RecentRpcsAnswer, Failure> {
        let Some(open) = &mut self.open else {
            let why = "this server keeps no diagnostic log: it runs with --rpclog-size none";
            return Err(Failure::refused(ErrorCode::NotFound, why));
        };
        open.hand_over(now);
        let recent = open.writer.recent(asked.after);
        let batches = recent.batches.iter().map(|batch| bytes::Bytes::copy_from_slice(batch));
        Ok(RecentRpcsAnswer {
            batches: batches.collect(),
            last: recent.last,
            missed: recent.missed,
        })
    }
}

/// What is at hand is written before the end.
impl Drop for RpcTap {
    fn drop(&mut self) {
        if let Some(open) = &mut self.open {
            open.hand_over(Time::default());
        }
    }
}

impl OpenTap {
    fn wall_us(&self, now: Time) -> u64 {
        micros(now).wrapping_add(self.offset_us)
    }

    fn begin_batch(&mut self, now: Time) {
        self.head.begins_us = self.wall_us(now);
        self.batch.begin(&self.head);
        self.batch_number += 1;
        self.began = now;
        self.told = None;
    }

    /// Gives away the batch at hand, if it says something; what was dropped is told in the next.
    fn hand_over(&mut self, now: Time) {
        if self.batch.is_empty() {
            return;
        }
        let count = self.batch.count();
        let dropped = self.writer.hand_over(self.batch.take(), count);
        self.begin_batch(now);
        if dropped > 0 {
            let at = self.wall_us(now);
            self.batch.dropped(at, dropped);
        }
    }

    /// Says once in each batch what a connection is that is named in it.
    fn tell_link(&mut self, now: Time, link: TapLink) {
        if self.told == Some(link) {
            return;
        }
        self.told = Some(link);
        let at = self.wall_us(now);
        let Some(note) = self.links.get_mut(&link) else { return };
        if note.told_in == self.batch_number {
            return;
        }
        note.told_in = self.batch_number;
        let line = LinkLine {
            link: link.0,
            is_dialled: link.is_dialled(),
            role: note.role,
            server: note.server,
            local: &note.local,
            peer: &note.peer,
        };
        self.batch.link(at, &line);
    }

    fn put(
        &mut self,
        now: Time,
        way: RpcWay,
        seen: &TappedMessage<'_>,
        reply: Option<TappedReply>,
    ) {
        self.tell_link(now, seen.link);
        let reply = reply.unwrap_or(TappedReply { since: now, is_failure: false });
        let line = RpcLine {
            way,
            link: seen.link.0,
            request: seen.request.0,
            rpc: seen.rpc,
            is_failure: reply.is_failure,
            message_size: seen.size as u64,
            payload_size: seen.payload_size as u64,
            duration_us: u64::try_from(now.since(reply.since).as_micros()).unwrap_or(u64::MAX),
            message: None,
        };
        let at = self.wall_us(now);
        self.batch.rpc(at, &line, seen.message);
        if self.batch.bytes().len() >= BATCH_SIZE {
            self.hand_over(now);
        }
    }
}

fn micros(time: Time) -> u64 {
    time.as_nanos() / 1000
}

fn role_number(role: Role) -> u8 {
    match role {
        Role::Client => 1,
        Role::Chunkserver => 2,
        Role::Master => 3,
    }
}

/// An address as both sides of a connection have it.
fn shown(address: Option<SocketAddrAny>) -> String {
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    address.map_or_else(String::new, |mut address| {
        address.set_ip(address.ip().to_canonical());
        address.to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::{RpcTap, TapLink, TappedMessage};
    use crate::clock::boot_time;
    use crate::log_sink::LogSink;
    use crate::rpc_log_options::RpcLogOptions;
    use crate::rpc_log_writer::RpcLogWriter;
    use cairn_env::{ConnectionId, LogEvent, LogLevel};
    use cairn_format::{BatchReader, RPC_LOG_MESSAGE_MAX, RpcLogEntry, RpcWay};
    use cairn_protocol::{Hello, RecentRpcs, RequestId, Role};
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    /// What the log has in memory, read by `tell`.
    fn recent<T>(tap: &mut RpcTap, tell: impl Fn(u8, RpcLogEntry<'_>) -> Option<T>) -> Vec<T> {
        let answer = tap.recent(boot_time(), &RecentRpcs { after: 0 }).expect("there is a log");
        let mut told = Vec::new();
        for batch in answer.batches {
            let reader = BatchReader::open(&batch).expect("whole");
            let role = reader.head().role;
            told.extend(reader.filter_map(|entry| tell(role, entry.expect("good").1)));
        }
        told
    }

    #[test]
    fn what_the_disk_refused_is_told_though_the_driver_says_who_it_is_just_then() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        std::fs::write(scratch.path().join("rpclog"), "in the way").expect("writes");
        let (says, said) = channel();
        let says = Mutex::new(says);
        let log = LogSink::new(LogLevel::Info, move |_, _| {
            let _ = says.lock().expect("unpoisoned").send(());
        });
        let options = RpcLogOptions::within(scratch.path(), 1 << 20);
        let mut tap = RpcTap::new(RpcLogWriter::start("t", options, 1, log).expect("starts"), 1);
        tap.event(boot_time(), &LogEvent::info("first"));
        assert!(recent(&mut tap, |_, _| Some(())).len() == 1, "handed over");
        said.recv().expect("it says that it cannot write");
        tap.event(boot_time(), &LogEvent::info("second"));
        tap.identify(boot_time(), &Hello { role: Role::Master, ..Hello::default() });
        tap.event(boot_time(), &LogEvent::info("third"));
        let told = recent(&mut tap, |role, entry| match entry {
            RpcLogEntry::Event { text, .. } => Some((role, text.to_owned())),
            RpcLogEntry::Dropped(count) => Some((role, format!("dropped {count}"))),
            RpcLogEntry::Link(_) | RpcLogEntry::Rpc(_) => None,
        });
        let told: Vec<_> = told.iter().map(|(role, text)| (*role, text.as_str())).collect();
        let expected = [(0, "INFO first"), (0, "INFO second"), (3, "dropped 1"), (3, "INFO third")];
        assert_eq!(told, expected);
    }

    #[test]
    fn of_a_message_that_is_too_long_its_size_is_told() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let options = RpcLogOptions::within(scratch.path(), 1 << 20);
        let writer = RpcLogWriter::start("t", options, 1, LogSink::default()).expect("starts");
        let mut tap = RpcTap::new(writer, 1);
        let long = vec![1; RPC_LOG_MESSAGE_MAX + 1];
        for (size, message) in [(2, &long[..2]), (long.len(), &long), (long.len(), &[])] {
            let (link, request) = (TapLink::from(ConnectionId(1)), RequestId(1));
            let seen = TappedMessage { link, request, rpc: 10, size, message, payload_size: 0 };
            tap.look(boot_time(), RpcWay::RequestSent, &seen, None);
        }
        let sizes = recent(&mut tap, |_, entry| match entry {
            RpcLogEntry::Rpc(line) => Some((line.message_size, line.message.is_some())),
            _ => None,
        });
        let too_long = (RPC_LOG_MESSAGE_MAX as u64 + 1, false);
        assert_eq!(sizes, [(2, true), too_long, too_long]);
    }
}
