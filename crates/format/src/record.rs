//! Record framing: self-identifying, checksummed records in a file of records (GFS §2.7.2).
//!
//! ```text
//!   marker C5 A1 9E 52 | escaped( head, 40 bytes | payload )
//!   head:  0 version u8   1 flags u8   2 reserved u16   4 payload size u32   8 producer u128
//!         24 number u64  32 CRC32C of the payload      36 CRC32C of head bytes 0..36
//!   escaped: after every C5 A1 9E a byte 00 is put in; behind it all an end byte 00
//! ```
//! - F1: the marker stands nowhere but at the start of a frame; so a reader that starts anywhere,
//!   or meets a fragment, finds the next frame by looking for the marker.
//! - F2: a frame is believed only if both checksums hold.
//! - F3: the end byte stands in no marker, so a torn frame is never completed by the next one.
//!
//! Little-endian. Knows bytes alone; which records were seen before is `record_window`'s.

use bytes::{Bytes, BytesMut};
use cairn_types::{SessionId, crc32c, crc32c_append};
use memchr::memchr;
use std::fmt;

/// Bytes of marker, head and end together, unescaped.
pub const RECORD_OVERHEAD: usize = MARKER.len() + HEAD_SIZE + 1;
/// Payload bytes that a record may have at most; a quarter of the largest chunk is less.
pub const RECORD_SIZE_MAX: u32 = 1 << 30;

pub(crate) const MARKER: [u8; 4] = [0xc5, 0xa1, 0x9e, 0x52];
/// The part of the marker that is escaped. All bytes of the marker differ, so that no end of a
/// frame and start of another can make one together (F1).
const LEAD: [u8; 3] = [MARKER[0], MARKER[1], MARKER[2]];
const ESCAPE: u8 = 0;
const HEAD_SIZE: usize = 40;
/// What every frame ends with (F3).
const END: u8 = 0;
const VERSION: u8 = 1;

const _: () = assert!(ESCAPE != MARKER[3]);

/// Who wrote a record, as its frame says: drawn from a name that the application chose and a
/// session, random or that of a producer of a stream (R37).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordSource(u128);

impl RecordSource {
    /// Who has this name in this session (FNV-1a over both).
    #[must_use]
    pub fn of(name: &str, session: SessionId) -> Self {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        let session = session.get().to_le_bytes();
        let bytes = name.bytes().chain(session);
        Self(bytes.fold(start, |hash: u128, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME)))
    }

    /// From stored bits.
    #[must_use]
    pub const fn new(raw: u128) -> Self {
        Self(raw)
    }
}

impl fmt::Display for RecordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Appends one framed record to `out`. A single append may hold many.
///
/// # Panics
/// When the payload is over [`RECORD_SIZE_MAX`]: callers keep to a quarter of a chunk.
pub fn encode_record(producer: RecordSource, number: u64, payload: &[u8], out: &mut Vec<u8>) {
    assert!(payload.len() <= RECORD_SIZE_MAX as usize, "a record over its limit");
    let mut head = [0u8; HEAD_SIZE];
    head[0] = VERSION;
    head[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[8..24].copy_from_slice(&producer.0.to_le_bytes());
    head[24..32].copy_from_slice(&number.to_le_bytes());
    head[32..36].copy_from_slice(&crc32c(payload).to_le_bytes());
    let sum = crc32c_append(0, &head[..36]);
    head[36..].copy_from_slice(&sum.to_le_bytes());
    out.reserve(RECORD_OVERHEAD + payload.len());
    out.extend_from_slice(&MARKER);
    let body = out.len();
    escape(&head, body, out);
    escape(payload, body, out);
    out.push(END);
}

/// Appends `bytes`, putting in an escape after each lead (F1). The stream began at `start`, so
/// that a lead which straddles two calls is seen.
fn escape(bytes: &[u8], start: usize, out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = memchr(LEAD[2], rest) {
        out.extend_from_slice(&rest[..=at]);
        rest = &rest[at + 1..];
        if out[start..].ends_with(&LEAD) {
            out.push(ESCAPE);
        }
    }
    out.extend_from_slice(rest);
}

/// What stands at the start of a frame's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A whole, good record of so many raw bytes.
    Whole {
        /// Raw bytes of the frame.
        size: usize,
        /// Who wrote it.
        producer: RecordSource,
        /// Its number.
        number: u64,
        /// Its payload.
        payload: Bytes,
    },
    /// So far so good, but at least so many raw bytes are needed.
    Short {
        /// Raw bytes.
        needed: usize,
    },
    /// Not a record: torn, damaged, or never one (F2).
    Bad,
}

/// Judges `raw`, which starts with the marker.
pub(crate) fn judge_frame(raw: &[u8]) -> Frame {
    let body = &raw[MARKER.len()..];
    let head = match unescape(body, HEAD_SIZE) {
        Unescaped::Whole { bytes, .. } => bytes,
        Unescaped::Short => return Frame::Short { needed: RECORD_OVERHEAD },
        Unescaped::Bad => return Frame::Bad,
    };
    let u32_at =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let payload_size = u32_at(4);
    if head[0] != VERSION
        || crc32c_append(0, &head[..36]) != u32_at(36)
        || payload_size > RECORD_SIZE_MAX
    {
        return Frame::Bad;
    }
    let needed = RECORD_OVERHEAD + payload_size as usize;
    if raw.len() < needed {
        return Frame::Short { needed };
    }
    match unescape(body, HEAD_SIZE + payload_size as usize) {
        Unescaped::Whole { bytes, taken } => {
            let payload = bytes.slice(HEAD_SIZE..);
            if crc32c(&payload) != u32_at(32) {
                return Frame::Bad;
            }
            match body.get(taken) {
                None => return Frame::Short { needed: raw.len() + 1 },
                Some(&END) => {}
                Some(_) => return Frame::Bad,
            }
            Frame::Whole {
                size: MARKER.len() + taken + 1,
                producer: RecordSource(u128::from_le_bytes(
                    head[8..24].try_into().expect("sixteen bytes of a whole head"),
                )),
                number: u64::from_le_bytes(
                    head[24..32].try_into().expect("eight bytes of a whole head"),
                ),
                payload,
            }
        }
        Unescaped::Short => Frame::Short { needed: raw.len() + 1 },
        Unescaped::Bad => Frame::Bad,
    }
}

enum Unescaped {
    Whole { bytes: Bytes, taken: usize },
    Short,
    Bad,
}

/// The first `want` bytes behind the escaping, and how many raw bytes they took, the escape after
/// a lead at their very end included.
fn unescape(raw: &[u8], want: usize) -> Unescaped {
    let mut bytes = BytesMut::with_capacity(want);
    let mut at = 0;
    loop {
        let left = want - bytes.len();
        let part = &raw[at..raw.len().min(at + left)];
        let Some(stop) = memchr(LEAD[2], part) else {
            bytes.extend_from_slice(part);
            let whole = part.len() == left;
            let taken = at + part.len();
            return if whole {
                Unescaped::Whole { bytes: bytes.freeze(), taken }
            } else {
                Unescaped::Short
            };
        };
        bytes.extend_from_slice(&part[..=stop]);
        at += stop + 1;
        if bytes.ends_with(&LEAD) {
            match raw.get(at) {
                Some(&ESCAPE) => at += 1,
                Some(_) => return Unescaped::Bad,
                None => return Unescaped::Short,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, LEAD, MARKER, RECORD_OVERHEAD, RecordSource, encode_record, judge_frame};
    use bytes::Bytes;
    use cairn_types::SessionId;

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_record(RecordSource::new(7), 9, payload, &mut out);
        out
    }

    #[test]
    fn a_record_without_the_lead_costs_the_overhead_alone() {
        let raw = framed(b"hello");
        assert_eq!(raw.len(), RECORD_OVERHEAD + 5);
        let whole = Frame::Whole {
            size: raw.len(),
            producer: RecordSource::new(7),
            number: 9,
            payload: Bytes::from_static(b"hello"),
        };
        assert_eq!(judge_frame(&raw), whole);
    }

    #[test]
    fn the_marker_in_a_payload_is_escaped_wherever_it_stands() {
        for payload in
            [&MARKER[..], &LEAD[..], b"a\xc5\xa1\x9e", b"\xc5\xa1\x9e\x00\xc5\xa1\x9e\x52"]
        {
            let raw = framed(payload);
            assert!(!raw[1..].windows(4).any(|window| window == MARKER));
            let Frame::Whole { size, payload: back, .. } = judge_frame(&raw) else {
                panic!("{payload:x?} did not come back");
            };
            assert_eq!((size, &back[..]), (raw.len(), payload));
        }
    }

    #[test]
    fn a_frame_cut_anywhere_is_short_and_with_a_flipped_bit_no_record() {
        let raw = framed(b"some \xc5\xa1\x9e payload");
        for size in MARKER.len()..raw.len() {
            assert!(matches!(judge_frame(&raw[..size]), Frame::Short { needed } if needed > size));
        }
        for bit in MARKER.len() * 8..raw.len() * 8 {
            let mut flipped = raw.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(judge_frame(&flipped), Frame::Whole { .. }), "bit {bit}");
        }
    }

    #[test]
    fn a_producer_is_its_name_and_its_session() {
        let id = |name, session| RecordSource::of(name, SessionId::new(session));
        assert_eq!(id("a", 1), id("a", 1));
        assert_ne!(id("a", 1), id("b", 1));
        assert_ne!(id("a", 1), id("a", 2));
    }
}
