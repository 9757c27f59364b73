//! What comes in by one socket: bytes into frames, without waiting and without copying bulk twice.
//!
//! ```text
//!   socket ─► scratch (32 KiB, one per loop) ─► frames ─► arrivals
//!        └──────────► target of the payload at hand ───────────┘   (long payloads, directly)
//! ```
//! - P1: a header is judged before memory is taken for what it announces.
//! - P2: whatever arrives leads to arrivals; the last of them may be [`Arrival::Broken`], and
//!   then nothing more of this connection may be read as frames.

use crate::push_receiver::{PushReceiver, Received};
use bytes::Bytes;
use cairn_env::Answer;
use cairn_env::buffer_pool::{Buffer, BufferPool};
use cairn_format::RPC_LOG_MESSAGE_MAX;
use cairn_protocol::{
    ErrorCode, FRAME_HEADER_SIZE, Failure, FrameError, FrameHeader, FrameKind, Push, Request,
    RequestId, Response,
};
use cairn_types::wire::Message;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Bytes of the loop's scratch buffer: many small frames, and little of a long payload, which is
/// cheaper to read where it belongs.
const SCRATCH_SIZE: usize = 32 << 10;
/// Bytes read from one connection before the others get their turn: about a segment, so that it
/// is passed on while it is still in the cache.
pub(crate) const READ_BUDGET: usize = 288 << 10;
/// A carry buffer that a large message made larger than this is not kept for the next.
const CARRY_KEPT_MAX: usize = 64 << 10;

/// A message as it travelled: its size, and where its bytes are until the next reading, as far as
/// they are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawMessage {
    pub(crate) size: usize,
    start: usize,
    kept: usize,
}

/// Something that came in.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A request without payload.
    Request(RequestId, Request, RawMessage),
    /// The head of a push, which brings so many bytes; its segments follow.
    PushStarted { id: RequestId, push: Push, size: usize, message: RawMessage },
    /// Verified bytes of the push at hand; `last` ends it.
    PushSegment { bytes: Bytes, last: bool },
    /// The push at hand does not match its checksums; its other bytes are skipped.
    PushCorrupt,
    /// A push that cannot be right; its bytes are skipped.
    PushRefused(RequestId, Failure),
    /// An answer, whole.
    Answered { id: RequestId, rpc: u16, message: RawMessage, result: Result<Answer, Failure> },
    /// Not a frame that this side can take: the connection is of no further use.
    Broken { id: RequestId, failure: Failure },
}

/// The connection has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By the other side, between or within frames.
    Closed,
    /// By an error.
    Failed(Errno),
}

/// What reading from any connection needs.
#[derive(Debug)]
pub(crate) struct ReadBuffers {
    pool: BufferPool,
    scratch: Vec<u8>,
    /// An empty buffer for the first connection whose frame comes in parts: they pass it on, so
    /// that thousands of idle ones keep none.
    spare_carry: Vec<u8>,
    /// An empty list, kept for the next reading.
    arrivals: Vec<Arrival>,
    messages: RawMessages,
}

/// The messages of what arrived in the latest reading, as they travelled, where somebody keeps
/// them: those that are not longer than a log's may be.
#[derive(Debug)]
struct RawMessages {
    are_kept: bool,
    bytes: Vec<u8>,
}

impl RawMessages {
    fn keep(&mut self, message: &[u8]) -> RawMessage {
        let (size, start, wanted) = (message.len(), self.bytes.len(), self.wanted(message));
        self.bytes.extend_from_slice(wanted);
        RawMessage { size, start, kept: wanted.len() }
    }

    /// The message, or nothing where it is not kept.
    fn wanted<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        if self.are_kept && message.len() <= RPC_LOG_MESSAGE_MAX { message } else { &[] }
    }
}

impl ReadBuffers {
    /// Those of a loop; whether messages are kept as they travelled, until the next reading.
    pub(crate) fn new(keeps_messages: bool) -> Self {
        let (pool, scratch) = (BufferPool::default(), vec![0; SCRATCH_SIZE]);
        let messages = RawMessages { are_kept: keeps_messages, bytes: Vec::new() };
        Self { pool, scratch, spare_carry: Vec::new(), arrivals: Vec::new(), messages }
    }

    /// The bytes of a message of the latest reading; none where it is too long to be kept, or
    /// nobody keeps any.
    pub(crate) fn message(&self, message: RawMessage) -> &[u8] {
        &self.messages.bytes[message.start..message.start + message.kept]
    }

    /// An empty list of arrivals, to be given back.
    pub(crate) fn take_arrivals(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals)
    }

    pub(crate) fn give_back_arrivals(&mut self, arrivals: Vec<Arrival>) {
        assert!(arrivals.is_empty(), "what arrives is dealt with");
        self.arrivals = arrivals;
    }

    /// Reads some of what a socket has, for nobody.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn discard(&mut self, socket: impl AsFd) -> Result<(), Ended> {
        match recv(socket, &mut self.scratch[..], RecvFlags::empty()) {
            Ok((_, 0)) => Err(Ended::Closed),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(Ended::Failed(errno)),
        }
    }
}

/// Which frames may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expecting {
    /// On an accepted connection.
    Requests,
    /// On a dialled one.
    Answers,
}

/// Where the bytes at hand belong.
#[derive(Debug)]
enum Sink {
    Head,
    Skip(usize),
    Answer {
        id: RequestId,
        response: Response,
        /// Bytes of the response, as it came, and these where they are kept.
        message: (usize, Vec<u8>),
        buffer: Buffer,
        filled: usize,
    },
    Push(PushReceiver),
}

/// What a reading takes from, and where it puts what came.
struct Intake<'a> {
    pool: &'a BufferPool,
    arrivals: &'a mut Vec<Arrival>,
    messages: &'a mut RawMessages,
}

/// The reading half of a connection.
#[derive(Debug)]
pub(crate) struct FrameReader {
    expecting: Expecting,
    /// The beginning of a head that has not arrived whole.
    carry: Vec<u8>,
    sink: Sink,
    /// Bytes read, ever.
    received: u64,
}

/// A frame that ends the connection, as [`Arrival::Broken`] tells it.
struct Broken(RequestId, Failure);

impl FrameReader {
    pub(crate) fn new(expecting: Expecting) -> Self {
        Self { expecting, carry: Vec::new(), sink: Sink::Head, received: 0 }
    }

    /// Bytes read, ever.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Bytes that the frame at hand says it has and that stay with us until it is whole: its
    /// message, or the payload of a push.
    pub(crate) fn announced(&self) -> usize {
        match &self.sink {
            Sink::Head => {
                let header = self.carry.first_chunk().map(FrameHeader::decode);
                let announced = header.and_then(Result::ok).map(|header| header.message_size);
                self.carry.len().max(announced.map_or(0, |size| size as usize))
            }
            Sink::Push(receiver) => receiver.size(),
            Sink::Skip(_) | Sink::Answer { .. } => 0,
        }
    }

    /// How many of them are here.
    pub(crate) fn arrived(&self) -> usize {
        match &self.sink {
            Sink::Head => self.carry.capacity(),
            Sink::Push(receiver) => receiver.received(),
            Sink::Skip(_) | Sink::Answer { .. } => 0,
        }
    }

    /// Reads what is there, up to `limit`; whether the socket was empty then. Its end is told by
    /// epoll even so.
    ///
    /// # Errors
    /// The connection has ended; what had arrived whole is in `arrivals`.
    pub(crate) fn receive(
        &mut self,
        socket: impl AsFd,
        limit: usize,
        buffers: &mut ReadBuffers,
        arrivals: &mut Vec<Arrival>,
    ) -> Result<bool, Ended> {
        let ReadBuffers { pool, scratch, spare_carry, messages, .. } = buffers;
        messages.bytes.clear();
        let mut intake = Intake { pool, arrivals, messages };
        let scratch_size = scratch.len().min(limit);
        let scratch = &mut scratch[..scratch_size];
        let mut taken = 0;
        while taken < limit {
            let direct = self.sink.target().filter(|target| target.len() >= scratch.len());
            let is_direct = direct.is_some();
            let target = direct.unwrap_or(&mut *scratch);
            let offered = target.len();
            let count = match recv(socket.as_fd(), target, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(Ended::Closed),
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => return Ok(true),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Ended::Failed(errno)),
            };
            if is_direct {
                self.sink.advance(count, &mut intake);
            } else if let Err(Broken(id, failure)) =
                self.take(&scratch[..count], spare_carry, &mut intake)
            {
                intake.arrivals.push(Arrival::Broken { id, failure });
                return Ok(false);
            }
            self.received += count as u64;
            // The socket is empty; epoll tells when it is not.
            if count < offered {
                return Ok(true);
            }
            taken += count;
        }
        Ok(false)
    }

    fn take(
        &mut self,
        bytes: &[u8],
        spare_carry: &mut Vec<u8>,
        intake: &mut Intake<'_>,
    ) -> Result<(), Broken> {
        if self.carry.is_empty() {
            let used = self.frames(bytes, intake)?;
            let rest = &bytes[used..];
            if !rest.is_empty() {
                self.carry = std::mem::take(spare_carry);
                self.carry.extend_from_slice(rest);
            }
            return Ok(());
        }
        let mut carry = std::mem::take(&mut self.carry);
        carry.extend_from_slice(bytes);
        let used = self.frames(&carry, intake)?;
        carry.drain(..used);
        if !carry.is_empty() {
            self.carry = carry;
        } else if carry.capacity() <= CARRY_KEPT_MAX {
            *spare_carry = carry;
        }
        Ok(())
    }

    /// Takes frames and payload; how many bytes it could use.
    fn frames(&mut self, bytes: &[u8], intake: &mut Intake<'_>) -> Result<usize, Broken> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if matches!(self.sink, Sink::Head) {
                let Some((header, message)) = whole_head(rest)? else { break };
                at += FRAME_HEADER_SIZE + message.len();
                self.head(&header, message, intake)?;
            } else if let Sink::Skip(left) = &mut self.sink {
                let count = rest.len().min(*left);
                at += count;
                self.sink.advance(count, intake);
            } else if let Some(target) = self.sink.target() {
                let count = rest.len().min(target.len());
                target[..count].copy_from_slice(&rest[..count]);
                at += count;
                self.sink.advance(count, intake);
            }
        }
        Ok(at)
    }

    fn head(
        &mut self,
        header: &FrameHeader,
        message: &[u8],
        intake: &mut Intake<'_>,
    ) -> Result<(), Broken> {
        let (id, size) = (header.request, header.payload_size as usize);
        let broken = |why: String| Err(Broken(id, Failure::refused(ErrorCode::Invalid, why)));
        let wrong = |_| Broken(id, Failure::refused(ErrorCode::Invalid, "malformed message"));
        match (self.expecting, header.kind) {
            (Expecting::Requests, FrameKind::Request) => {
                match Request::decode(header.rpc, message).map_err(wrong)? {
                    Some(Request::Push(push)) => {
                        let message = intake.messages.keep(message);
                        self.push(id, (push, message), size, intake);
                    }
                    Some(_) if size > 0 => return broken("a request with a payload".to_owned()),
                    Some(request) => {
                        let message = intake.messages.keep(message);
                        intake.arrivals.push(Arrival::Request(id, request, message));
                    }
                    None => return broken(unknown_rpc(header.rpc)),
                }
            }
            (Expecting::Answers, FrameKind::Response) => {
                let decoded = Response::decode(header.rpc, message).map_err(wrong)?;
                let Some(response) = decoded else { return broken(unknown_rpc(header.rpc)) };
                if size == 0 {
                    let message = intake.messages.keep(message);
                    let result = Ok(Answer { response, payload: Bytes::new() });
                    let rpc = header.rpc;
                    intake.arrivals.push(Arrival::Answered { id, rpc, message, result });
                } else {
                    let message = (message.len(), intake.messages.wanted(message).to_vec());
                    let buffer = intake.pool.take(size);
                    self.sink = Sink::Answer { id, response, message, buffer, filled: 0 };
                }
            }
            (Expecting::Answers, FrameKind::Failure) if size == 0 => {
                let failure = Failure::decode(message).map_err(wrong)?;
                let (message, result) = (intake.messages.keep(message), Err(failure));
                let rpc = header.rpc;
                intake.arrivals.push(Arrival::Answered { id, rpc, message, result });
            }
            _ => return broken("a frame that does not belong on this side".to_owned()),
        }
        Ok(())
    }

    fn push(
        &mut self,
        id: RequestId,
        (push, message): (Push, RawMessage),
        size: usize,
        intake: &mut Intake<'_>,
    ) {
        match PushReceiver::new(&push, size, intake.pool) {
            Ok(receiver) => {
                self.sink = Sink::Push(receiver);
                intake.arrivals.push(Arrival::PushStarted { id, push, size, message });
            }
            Err(failure) => {
                self.sink = Sink::skip(size);
                intake.arrivals.push(Arrival::PushRefused(id, failure));
            }
        }
    }
}

fn unknown_rpc(rpc: u16) -> String {
    format!("unknown rpc {rpc}; a newer build may know it")
}

/// Header and message at the start of `bytes`, if all of both is there.
fn whole_head(bytes: &[u8]) -> Result<Option<(FrameHeader, &[u8])>, Broken> {
    let none = RequestId::default();
    let Some((raw, rest)) = bytes.split_first_chunk::<FRAME_HEADER_SIZE>() else {
        return Ok(None);
    };
    let header = FrameHeader::decode(raw).map_err(|error| Broken(none, of_frame(&error)))?;
    let Some(message) = rest.get(..header.message_size as usize) else { return Ok(None) };
    header.verify(message).map_err(|error| Broken(none, of_frame(&error)))?;
    Ok(Some((header, message)))
}

fn of_frame(error: &FrameError) -> Failure {
    let code = match error {
        FrameError::Version { .. } => ErrorCode::VersionUnsupported,
        _ => ErrorCode::Invalid,
    };
    Failure::refused(code, error.to_string())
}

impl Sink {
    fn skip(size: usize) -> Self {
        if size == 0 { Self::Head } else { Self::Skip(size) }
    }

    /// Where payload bytes go, if they are wanted.
    fn target(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Head | Self::Skip(_) => None,
            Self::Answer { buffer, filled, .. } => Some(&mut buffer.to_fill()[*filled..]),
            Self::Push(receiver) => Some(receiver.target()),
        }
    }

    /// `count` bytes are skipped, or are in the target.
    fn advance(&mut self, count: usize, intake: &mut Intake<'_>) {
        match self {
            Self::Head => unreachable!("a head has no payload"),
            Self::Skip(left) => *self = Self::skip(*left - count),
            Self::Answer { buffer, filled, .. } => {
                *filled += count;
                if *filled == buffer.as_ref().len()
                    && let Self::Answer { id, response, message: (size, message), buffer, .. } =
                        std::mem::replace(self, Self::Head)
                {
                    let rpc = response.kind();
                    let message = RawMessage { size, ..intake.messages.keep(&message) };
                    let result = Ok(Answer { response, payload: buffer.freeze() });
                    intake.arrivals.push(Arrival::Answered { id, rpc, message, result });
                }
            }
            Self::Push(receiver) => match receiver.advance(count, intake.pool) {
                Received::Part => {}
                Received::Segment { bytes, last } => {
                    if last {
                        *self = Self::Head;
                    }
                    intake.arrivals.push(Arrival::PushSegment { bytes, last });
                }
                Received::Corrupt { left } => {
                    *self = Self::skip(left);
                    intake.arrivals.push(Arrival::PushCorrupt);
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Arrival, Ended, Expecting, FrameReader, READ_BUDGET, RPC_LOG_MESSAGE_MAX, ReadBuffers,
    };
    use cairn_protocol::{
        FrameKind, List, Probe, Push, Read, ReadAnswer, Request, RequestId, Response, encode_frame,
    };
    use cairn_types::{BlockChecksums, CellPath};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn request(id: u64, request: &Request, payload: &[u8], out: &mut Vec<u8>) {
        let encode = |out: &mut Vec<u8>| request.encode(out);
        let (rpc, id) = (request.kind(), RequestId(id));
        encode_frame(rpc, FrameKind::Request, id, &encode, payload.len(), out);
        out.extend_from_slice(payload);
    }

    /// What arrives when `bytes` come in steps of `step`.
    fn arrivals(expecting: Expecting, bytes: &[u8], step: usize) -> Vec<Arrival> {
        told_arrivals(expecting, bytes, step).into_iter().map(|(arrival, _)| arrival).collect()
    }

    /// The same, each with the message that a log would keep.
    fn told_arrivals(expecting: Expecting, bytes: &[u8], step: usize) -> Vec<(Arrival, Vec<u8>)> {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("non-blocking");
        let mut buffers = ReadBuffers::new(true);
        let (mut reader, mut told) = (FrameReader::new(expecting), Vec::new());
        let mut receive = |buffers: &mut ReadBuffers| {
            let mut arrivals = Vec::new();
            let ended = reader.receive(&ours, READ_BUDGET, buffers, &mut arrivals);
            for arrival in arrivals {
                let message = match &arrival {
                    Arrival::Request(_, _, message)
                    | Arrival::PushStarted { message, .. }
                    | Arrival::Answered { message, .. } => buffers.message(*message).to_vec(),
                    _ => Vec::new(),
                };
                told.push((arrival, message));
            }
            ended
        };
        for part in bytes.chunks(step) {
            theirs.write_all(part).expect("writes");
            // A part may need several turns: a budget bounds each.
            for _ in 0..3 {
                receive(&mut buffers).expect("open");
            }
        }
        drop(theirs);
        let ended = receive(&mut buffers);
        assert!(matches!(ended, Err(Ended::Closed)) || !told.is_empty());
        told
    }

    #[test]
    fn messages_can_be_kept_as_they_travelled_but_no_long_ones() {
        let encoded = |encode: &dyn Fn(&mut Vec<u8>)| {
            let mut message = Vec::new();
            encode(&mut message);
            message
        };
        let push = Push { checksums: BlockChecksums::of(0, &[7; 99], 64 << 10), ..Push::default() };
        let long = List { after: "n".repeat(RPC_LOG_MESSAGE_MAX), ..List::default() };
        let requests: [Request; 3] = [Probe::default().into(), push.clone().into(), long.into()];
        let mut bytes = Vec::new();
        request(1, &requests[0], b"", &mut bytes);
        request(2, &requests[1], &[7; 99], &mut bytes);
        request(3, &requests[2], b"", &mut bytes);
        let mut expected = requests.map(|it| encoded(&|out| it.encode(out)));
        expected[2].clear();
        for step in [41, 1009, bytes.len()] {
            let told = told_arrivals(Expecting::Requests, &bytes, step);
            let whole = told.iter().filter(|it| !matches!(it.0, Arrival::PushSegment { .. }));
            assert!(whole.map(|it| &it.1).eq(&expected), "in steps of {step}");
        }
        let response = Response::Read(ReadAnswer { readable: 5, ..ReadAnswer::default() });
        let (kind, encode) = (FrameKind::Response, |out: &mut Vec<u8>| response.encode(out));
        let mut bytes = Vec::new();
        encode_frame(response.kind(), kind, RequestId(7), &encode, 3_000, &mut bytes);
        bytes.extend_from_slice(&[3; 3_000]);
        for step in [41, 1009, bytes.len()] {
            let told = told_arrivals(Expecting::Answers, &bytes, step);
            assert!(told[0].1 == encoded(&encode) && told.len() == 1, "in steps of {step}");
        }
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_are_cut() {
        let payload: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
        let checksums = BlockChecksums::of(0, &payload, 64 << 10);
        let push = Push { checksums, ..Push::default() };
        let mut bytes = Vec::new();
        request(1, &Probe::default().into(), b"", &mut bytes);
        request(2, &push.clone().into(), &payload, &mut bytes);
        request(3, &Read { size: 9, ..Read::default() }.into(), b"", &mut bytes);
        for step in [1009, 39, 40_000, bytes.len()] {
            let mut seen = arrivals(Expecting::Requests, &bytes, step).into_iter();
            assert!(matches!(
                seen.next(),
                Some(Arrival::Request(RequestId(1), Request::Probe(_), _))
            ));
            let Some(Arrival::PushStarted { push: started, size: 100_000, .. }) = seen.next()
            else {
                panic!("the push starts")
            };
            assert_eq!(started, push);
            let Some(Arrival::PushSegment { bytes, last: true }) = seen.next() else {
                panic!("one segment")
            };
            assert!(bytes == payload);
            assert!(matches!(
                seen.next(),
                Some(Arrival::Request(RequestId(3), Request::Read(_), _))
            ));
            assert!(seen.next().is_none());
        }
    }

    #[test]
    fn an_answer_brings_its_payload_in_one_piece() {
        let payload = vec![3u8; 300_000];
        let response = Response::Read(ReadAnswer { readable: 5, ..ReadAnswer::default() });
        let mut bytes = Vec::new();
        let encode = |out: &mut Vec<u8>| response.encode(out);
        let kind = FrameKind::Response;
        encode_frame(response.kind(), kind, RequestId(7), &encode, payload.len(), &mut bytes);
        bytes.extend_from_slice(&payload);
        let seen = arrivals(Expecting::Answers, &bytes, 70_000);
        let [Arrival::Answered { id: RequestId(7), message: raw, result: Ok(answer), .. }] =
            &seen[..]
        else {
            panic!("one answer, not {seen:?}")
        };
        assert!(answer.response == response && answer.payload == payload);
        let mut message = Vec::new();
        response.encode(&mut message);
        assert_eq!(raw.size, message.len());
    }

    #[test]
    fn a_corrupt_push_is_skipped_and_the_next_frame_is_read() {
        let mut payload = vec![3u8; 700_000];
        let push = Push { checksums: BlockChecksums::of(0, &payload, 64 << 10), ..Push::default() };
        payload[5] = 4;
        let mut bytes = Vec::new();
        request(1, &push.into(), &payload, &mut bytes);
        request(2, &List::default().into(), b"", &mut bytes);
        let seen = arrivals(Expecting::Requests, &bytes, 50_000);
        assert!(matches!(
            seen[..],
            [Arrival::PushStarted { .. }, Arrival::PushCorrupt, Arrival::Request(RequestId(2), ..)]
        ));
    }

    #[test]
    fn nothing_that_is_not_a_frame_for_this_side_gets_further() {
        let mut good = Vec::new();
        let list = List { path: CellPath::default(), ..List::default() };
        request(1, &list.into(), b"", &mut good);
        let broken = |expecting, bytes: &[u8]| {
            let seen = arrivals(expecting, bytes, bytes.len());
            matches!(seen[..], [Arrival::Broken { .. }])
        };
        assert!(!broken(Expecting::Requests, &good));
        assert!(broken(Expecting::Answers, &good), "a request where answers belong");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x80;
            let seen = arrivals(Expecting::Requests, &bad, bad.len());
            let waits = seen.is_empty();
            assert!(waits || matches!(seen[..], [Arrival::Broken { .. }]), "byte {at}: {seen:?}");
        }
        let mut payload = Vec::new();
        request(1, &Probe::default().into(), b"unasked", &mut payload);
        assert!(broken(Expecting::Requests, &payload), "only a push brings a payload");
        assert!(broken(Expecting::Requests, b"GET / HTTP/1.1\r\nHost: cairn.example.org\r\n\r\n"));
    }
}
