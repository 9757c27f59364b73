//! A file of the diagnostic log (GFS §5.3); docs/formats/rpclog.md.
//!
//! ```text
//!   header (64 bytes, sealed) ─ batch ─ batch ─ …          a batch: one record of `stream`
//!   batch:  head (who writes, from when on) ─ entry ─ entry ─ …
//!   entry:  tag, time step, fields as varints ─ the message as it travelled, without the payload
//! ```
//! - RL1: a batch says by itself whose it is and when it begins: one that is read alone, from
//!   memory or behind damage, can be understood.
//! - RL2: what a connection is stands in an entry of its own, before or after the entries that
//!   name it, under a number that is never used again in the life of its writer.
//! - RL3: numbers and messages are kept as they travelled; this page knows no rpc.

use crate::stream::{put_record, salvage};
use crate::{FormatError, sealed};
use cairn_types::varint;
use cairn_types::{CellId, ServerId};

/// The name of a log's directory within a server's data directory.
pub const RPC_LOG_DIRECTORY: &str = "rpclog";
/// How the names of its files end.
pub const RPC_LOG_EXTENSION: &str = "rpclog";
/// Bytes of a file's header.
pub const RPC_LOG_HEADER_SIZE: usize = 64;
/// Bytes that a message may have to be kept; of a longer one its size is.
pub const RPC_LOG_MESSAGE_MAX: usize = 4 << 10;
/// Bytes that any text of an entry may have.
pub const RPC_LOG_TEXT_MAX: usize = 4 << 10;

const MAGIC: [u8; 8] = *b"CAIRNRPC";
const VERSION: u32 = 1;

/// How a file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcLogHeader {
    /// One life of one server, drawn at its start: connections are numbered within it.
    pub run: u64,
    /// Which file of this life, from 1.
    pub number: u64,
}

impl RpcLogHeader {
    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = sealed::begin(MAGIC, VERSION);
        out.extend_from_slice(&self.run.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        sealed::seal(out, RPC_LOG_HEADER_SIZE)
    }

    /// Reads the header at the front of a file.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let mut fields = sealed::open(file, RPC_LOG_HEADER_SIZE, MAGIC, VERSION)?;
        Ok(Self { run: fields.u64()?, number: fields.u64()? })
    }

    /// Whether a file that is too short for a header may be one whose writer was ended in it.
    #[must_use]
    pub fn may_begin(file: &[u8]) -> bool {
        let told = &file[..file.len().min(MAGIC.len())];
        file.len() < RPC_LOG_HEADER_SIZE && MAGIC.starts_with(told)
    }

    /// What the checksums of its batches start from: those of another file are none of it.
    fn seed(&self) -> u32 {
        let mixed = self.run ^ self.number.rotate_left(32);
        u32::try_from((mixed ^ (mixed >> 32)) & u64::from(u32::MAX)).expect("32 bits")
    }

    /// Appends a batch as a record of this file.
    pub fn put_batch(&self, batch: &[u8], out: &mut Vec<u8>) {
        put_record(self.seed(), 0, &[batch], out);
    }

    /// The batches of a file that are whole. What is torn, damaged or of another file is passed
    /// over: a log that tells what went wrong is worth reading whatever went wrong with it.
    #[must_use]
    pub fn batches<'a>(&self, file: &'a [u8]) -> Vec<&'a [u8]> {
        let ranges = salvage(file, RPC_LOG_HEADER_SIZE, self.seed());
        ranges.into_iter().map(|range| &file[range]).collect()
    }
}

/// Whose batch it is, and from when on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchHead {
    /// See [`RpcLogHeader::run`].
    pub run: u64,
    /// What its writer is: a role's number, zero before it has said.
    pub role: u8,
    /// The writer.
    pub server: ServerId,
    /// Its cell.
    pub cell: CellId,
    /// Microseconds since 1970.
    pub begins_us: u64,
}

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RpcWay {
    /// A request came in.
    RequestReceived,
    /// Its reply went out.
    ReplySent,
    /// A request went out.
    RequestSent,
    /// Its reply came in, or what became of it instead.
    ReplyReceived,
}

impl RpcWay {
    const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ReplySent, Self::RequestSent, Self::ReplyReceived];

    /// Whether it answers a request.
    #[must_use]
    pub fn is_reply(self) -> bool {
        matches!(self, Self::ReplySent | Self::ReplyReceived)
    }
}

/// One request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcLine<'a> {
    /// Which way it went.
    pub way: RpcWay,
    /// By which connection (RL2).
    pub link: u64,
    /// The request's number on it.
    pub request: u64,
    /// Which rpc; zero where that is not known.
    pub rpc: u16,
    /// The reply is a failure: the message is that.
    pub is_failure: bool,
    /// Bytes of the message, kept or not.
    pub message_size: u64,
    /// Bytes of file data that went with it, none of which is here.
    pub payload_size: u64,
    /// Of a reply: microseconds since its request.
    pub duration_us: u64,
    /// The message; nothing where it is longer than [`RPC_LOG_MESSAGE_MAX`].
    pub message: Option<&'a [u8]>,
}

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLine<'a> {
    /// Its number (RL2).
    pub link: u64,
    /// The writer dialled; else it was dialled.
    pub is_dialled: bool,
    /// What the other side is: a role's number, zero where it has not said.
    pub role: u8,
    /// The other side; zero for a client.
    pub server: ServerId,
    /// This side's address as the network has it; empty before it is connected.
    pub local: &'a str,
    /// The other side's address.
    pub peer: &'a str,
}

/// One entry of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcLogEntry<'a> {
    /// A connection.
    Link(LinkLine<'a>),
    /// A request or reply.
    Rpc(RpcLine<'a>),
    /// A significant event, as a line of text.
    Event {
        /// How urgent: 0 is the most.
        level: u8,
        /// Its name and fields.
        text: &'a str,
    },
    /// The writer fell behind: so many entries are not here.
    Dropped(u64),
}

const TAG_LINK: u8 = 1;
const TAG_EVENT: u8 = 2;
const TAG_DROPPED: u8 = 3;
/// The first of eight: the way in the two lowest bits, a failure in the third.
const TAG_RPC: u8 = 8;

/// A batch that is being filled.
#[derive(Clone, Debug, Default)]
pub struct BatchWriter {
    bytes: Vec<u8>,
    last_us: u64,
    count: u64,
}

impl BatchWriter {
    /// Begins a batch, in memory that an earlier one had.
    pub fn begin(&mut self, head: &BatchHead) {
        self.bytes.clear();
        self.count = 0;
        self.last_us = head.begins_us;
        self.bytes.extend_from_slice(&head.run.to_le_bytes());
        self.bytes.push(head.role);
        self.bytes.extend_from_slice(&head.server.get().to_le_bytes());
        self.bytes.extend_from_slice(&head.cell.get().to_le_bytes());
        self.bytes.extend_from_slice(&head.begins_us.to_le_bytes());
    }

    /// Whether nothing was put since it was begun.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Entries put, connections left out.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Gives the bytes away; [`begin`](Self::begin) comes next. They are kept for long by whoever
    /// counts them: so they have no room beyond their end, and the room stays here.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.bytes.as_slice().to_vec()
    }

    /// The bytes so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn open(&mut self, tag: u8, at_us: u64) {
        self.bytes.push(tag);
        varint::put(&mut self.bytes, varint::step(self.last_us, at_us));
        self.last_us = at_us;
        self.count += u64::from(tag != TAG_LINK);
    }

    fn text(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(RPC_LOG_TEXT_MAX)];
        varint::put(&mut self.bytes, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Puts what a connection is.
    pub fn link(&mut self, at_us: u64, line: &LinkLine<'_>) {
        self.open(TAG_LINK, at_us);
        varint::put(&mut self.bytes, line.link);
        self.bytes.push(line.role << 1 | u8::from(line.is_dialled));
        varint::put(&mut self.bytes, line.server.get());
        self.text(line.local);
        self.text(line.peer);
    }

    /// Puts an event.
    pub fn event(&mut self, at_us: u64, level: u8, text: &str) {
        self.open(TAG_EVENT, at_us);
        self.bytes.push(level);
        self.text(text);
    }

    /// Puts how many entries were dropped.
    pub fn dropped(&mut self, at_us: u64, count: u64) {
        self.open(TAG_DROPPED, at_us);
        varint::put(&mut self.bytes, count);
    }

    /// Puts a request or reply with its message, which is kept where it may be; `line.message` says
    /// nothing here.
    pub fn rpc(&mut self, at_us: u64, line: &RpcLine<'_>, message: &[u8]) {
        let way = match line.way {
            RpcWay::RequestReceived => 0,
            RpcWay::ReplySent => 1,
            RpcWay::RequestSent => 2,
            RpcWay::ReplyReceived => 3,
        };
        self.open(TAG_RPC | way | u8::from(line.is_failure) << 2, at_us);
        let out = &mut self.bytes;
        varint::put(out, line.link);
        varint::put(out, line.request);
        varint::put(out, u64::from(line.rpc));
        varint::put(out, line.payload_size);
        if line.way.is_reply() {
            varint::put(out, line.duration_us);
        }
        varint::put(out, line.message_size);
        if line.message_size <= RPC_LOG_MESSAGE_MAX as u64 {
            assert_eq!(line.message_size, message.len() as u64, "it is as long as was said");
            out.extend_from_slice(message);
        }
    }
}

/// The entries of a batch, in their order; each with its microseconds since 1970.
#[derive(Clone, Debug)]
pub struct BatchReader<'a> {
    head: BatchHead,
    rest: &'a [u8],
    last_us: u64,
}

impl<'a> BatchReader<'a> {
    /// Reads a batch's head.
    ///
    /// # Errors
    /// [`FormatError::Truncated`].
    pub fn open(batch: &'a [u8]) -> Result<Self, FormatError> {
        let mut fields = crate::fields::FieldReader::of(batch);
        let head = BatchHead {
            run: fields.u64()?,
            role: fields.u8()?,
            server: ServerId::new(fields.u64()?),
            cell: CellId::new(fields.u128()?),
            begins_us: fields.u64()?,
        };
        Ok(Self { head, rest: &batch[BATCH_HEAD_SIZE..], last_us: head.begins_us })
    }

    /// Whose it is.
    #[must_use]
    pub fn head(&self) -> BatchHead {
        self.head
    }

    fn number(&mut self) -> Result<u64, FormatError> {
        varint::take(&mut self.rest).ok_or(FormatError::Malformed)
    }

    fn byte(&mut self) -> Result<u8, FormatError> {
        let (byte, rest) = self.rest.split_first().ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn bytes(&mut self, size: u64) -> Result<&'a [u8], FormatError> {
        let size = usize::try_from(size).map_err(|_| FormatError::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(size).ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str, FormatError> {
        let size = self.number()?;
        std::str::from_utf8(self.bytes(size)?).map_err(|_| FormatError::Malformed)
    }

    fn entry(&mut self) -> Result<(u64, RpcLogEntry<'a>), FormatError> {
        let tag = self.byte()?;
        self.last_us = varint::stepped(self.last_us, self.number()?);
        let entry = match tag {
            TAG_LINK => {
                let (link, flags) = (self.number()?, self.byte()?);
                RpcLogEntry::Link(LinkLine {
                    link,
                    is_dialled: flags & 1 != 0,
                    role: flags >> 1,
                    server: ServerId::new(self.number()?),
                    local: self.text()?,
                    peer: self.text()?,
                })
            }
            TAG_EVENT => RpcLogEntry::Event { level: self.byte()?, text: self.text()? },
            TAG_DROPPED => RpcLogEntry::Dropped(self.number()?),
            TAG_RPC..16 => self.rpc(tag)?,
            _ => return Err(FormatError::Malformed),
        };
        Ok((self.last_us, entry))
    }

    fn rpc(&mut self, tag: u8) -> Result<RpcLogEntry<'a>, FormatError> {
        let way = RpcWay::ALL[usize::from(tag & 3)];
        let (link, request) = (self.number()?, self.number()?);
        let rpc = u16::try_from(self.number()?).map_err(|_| FormatError::Malformed)?;
        let payload_size = self.number()?;
        let duration_us = if way.is_reply() { self.number()? } else { 0 };
        let message_size = self.number()?;
        let is_kept = message_size <= RPC_LOG_MESSAGE_MAX as u64;
        let message = if is_kept { Some(self.bytes(message_size)?) } else { None };
        let is_failure = tag & 4 != 0;
        Ok(RpcLogEntry::Rpc(RpcLine {
            way,
            link,
            request,
            rpc,
            is_failure,
            message_size,
            payload_size,
            duration_us,
            message,
        }))
    }
}

const BATCH_HEAD_SIZE: usize = 8 + 1 + 8 + 16 + 8;

impl<'a> Iterator for BatchReader<'a> {
    type Item = Result<(u64, RpcLogEntry<'a>), FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BatchHead, BatchReader, BatchWriter, LinkLine, RPC_LOG_HEADER_SIZE, RPC_LOG_MESSAGE_MAX,
        RPC_LOG_TEXT_MAX, RpcLine, RpcLogEntry, RpcLogHeader, RpcWay,
    };
    use crate::FormatError;
    use cairn_types::sample::{Sample, damaged};
    use cairn_types::{CellId, Random, ServerId};
    use proptest::prelude::{ProptestConfig, any, proptest};

    fn head(random: &mut Random) -> BatchHead {
        BatchHead {
            run: random.next_u64(),
            role: 3,
            server: ServerId::sample(random),
            cell: CellId::sample(random),
            begins_us: random.next_u64(),
        }
    }

    fn line<'a>(random: &mut Random, message: &'a [u8]) -> RpcLine<'a> {
        let way = RpcWay::ALL[usize::try_from(random.below(4)).expect("small")];
        RpcLine {
            way,
            link: random.next_u64(),
            request: random.next_u64(),
            rpc: u16::try_from(random.below(300)).expect("small"),
            is_failure: way.is_reply() && random.below(2) == 0,
            message_size: message.len() as u64,
            payload_size: random.next_u64() >> random.below(64),
            duration_us: if way.is_reply() { random.next_u64() } else { 0 },
            message: (message.len() <= RPC_LOG_MESSAGE_MAX).then_some(message),
        }
    }

    fn drawn_message(random: &mut Random) -> Vec<u8> {
        let size = random.below(2 * RPC_LOG_MESSAGE_MAX as u64) >> random.below(13);
        vec![7; usize::try_from(size).expect("small")]
    }

    /// A batch with one entry of each kind, and what it says.
    fn check_round_trip(random: &mut Random) -> Vec<u8> {
        let mut writer = BatchWriter::default();
        let head = head(random);
        writer.begin(&head);
        let message = drawn_message(random);
        let line = line(random, &message);
        let link = LinkLine {
            link: random.next_u64(),
            is_dialled: true,
            role: 2,
            server: ServerId::sample(random),
            local: "127.0.0.1:1",
            peer: "[::1]:2",
        };
        let at = random.next_u64();
        writer.link(at, &link);
        assert!(writer.is_empty(), "a connection alone is nothing to tell");
        writer.rpc(at, &line, &message);
        writer.event(3, 1, "WARN it happened");
        writer.dropped(u64::MAX, 9);
        assert_eq!(writer.count(), 3);
        let raw = writer.bytes().to_vec();
        let reader = BatchReader::open(&raw).expect("whole");
        assert_eq!(reader.head(), head);
        let read: Vec<_> = reader.map(|entry| entry.expect("good")).collect();
        let text = "WARN it happened";
        let expected = [
            (at, RpcLogEntry::Link(link)),
            (at, RpcLogEntry::Rpc(line)),
            (3, RpcLogEntry::Event { level: 1, text }),
            (u64::MAX, RpcLogEntry::Dropped(9)),
        ];
        assert_eq!(read, expected);
        raw
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_at_a_character() {
        let mut writer = BatchWriter::default();
        writer.begin(&BatchHead::default());
        writer.event(1, 0, &"ü".repeat(RPC_LOG_TEXT_MAX));
        writer.dropped(3, 4);
        let raw = writer.take();
        let read: Vec<_> = BatchReader::open(&raw).expect("whole").collect();
        let Ok((1, RpcLogEntry::Event { text, .. })) = read[0] else { panic!("{read:?}") };
        assert_eq!(text.len(), RPC_LOG_TEXT_MAX);
        assert_eq!(read[1], Ok((3, RpcLogEntry::Dropped(4))));
    }

    #[test]
    fn a_batch_that_is_given_away_has_the_room_that_it_needs_whatever_went_before() {
        let mut writer = BatchWriter::default();
        writer.begin(&BatchHead::default());
        (0..64).for_each(|_| writer.event(1, 0, &"e".repeat(RPC_LOG_TEXT_MAX)));
        assert!(writer.take().len() > 64 * RPC_LOG_TEXT_MAX);
        writer.begin(&BatchHead::default());
        writer.event(1, 0, "small");
        let small = writer.take();
        assert!(small.len() < 100 && small.capacity() < 200, "{}", small.capacity());
    }

    #[test]
    fn a_file_of_a_later_build_and_a_file_of_another_kind_say_so() {
        let raw = RpcLogHeader { run: 1, number: 2 }.encode();
        let mut later = raw.clone();
        later[8] = 9;
        let checksum = cairn_types::crc32c(&later[..RPC_LOG_HEADER_SIZE - 4]);
        later[RPC_LOG_HEADER_SIZE - 4..].copy_from_slice(&checksum.to_le_bytes());
        let version = FormatError::Version { found: 9, newest: 1 };
        assert_eq!(RpcLogHeader::decode(&later), Err(version));
        let mut other = raw;
        other[0] ^= 1;
        assert_eq!(RpcLogHeader::decode(&other), Err(FormatError::Magic));
        let begins = |size: usize| RpcLogHeader::may_begin(&later[..size]);
        assert!([0, 5, 63].into_iter().all(begins) && !begins(RPC_LOG_HEADER_SIZE));
        assert!(!RpcLogHeader::may_begin(&other[..5]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn what_is_put_comes_back_and_a_torn_or_damaged_file_gives_its_whole_batches(seed: u64) {
            let random = &mut Random::new(seed);
            let header = RpcLogHeader { run: random.next_u64(), number: random.next_u64() };
            let batches: Vec<_> = (0..3).map(|_| check_round_trip(random)).collect();
            let mut file = header.encode();
            let mut ends = Vec::new();
            for batch in &batches {
                header.put_batch(batch, &mut file);
                ends.push(file.len());
            }
            assert_eq!(RpcLogHeader::decode(&file), Ok(header));
            assert_eq!(header.batches(&file), batches);
            let cut = usize::try_from(random.below(file.len() as u64)).expect("small");
            let cut = cut.max(RPC_LOG_HEADER_SIZE);
            let whole = ends.iter().filter(|end| **end <= cut + 7).count();
            let found = header.batches(&file[..cut]).len();
            assert!(found == whole || found + 1 == whole, "{found} of {whole}");
            let bent = damaged(&file, random);
            if let Ok(header) = RpcLogHeader::decode(&bent) {
                for batch in header.batches(&bent) {
                    assert!(batches.iter().any(|good| good == batch), "only what was written");
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = RpcLogHeader::decode(&raw);
            let _ = RpcLogHeader { run: 0, number: 0 }.batches(&raw);
            if let Ok(reader) = BatchReader::open(&raw) {
                reader.for_each(drop);
            }
        }
    }
}
