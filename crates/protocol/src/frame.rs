//! One frame: header, message, payload.
//!
//! ```text
//!   0  magic "CAIR"      4  protocol version u16   6  kind u16     8  flags u32
//!  12  request id u64   20  message size u32      24  payload size u32
//!  28  reserved u64     36  CRC32C of bytes 0..36 and of the message
//!  40  message …            payload …
//! ```
//! Little-endian. The payload's own checksums stand in the message, so the frame's CRC covers
//! them and stops there: bulk bytes are summed once, where they are born.

use cairn_types::{BLOCKS_PER_CHUNK_MAX, CHUNK_SIZE_MAX, crc32c, crc32c_append};

/// Bytes of the fixed header.
pub const FRAME_HEADER_SIZE: usize = 40;
/// Bytes that a message may have.
pub const MESSAGE_SIZE_MAX: u32 = 4 << 20;
/// Bytes that a payload may have: a record of a quarter of a standard chunk travels whole. Memory
/// for it is taken piece by piece, as it arrives.
pub const PAYLOAD_SIZE_MAX: u32 = 16 << 20;
// A record of a quarter of the largest chunk fits into a payload, and whatever a message says of
// a mutation beside its checksums, which are no more than those of a whole chunk, has room left.
const _: () = assert!(CHUNK_SIZE_MAX / 4 <= PAYLOAD_SIZE_MAX as u64);
const _: () = assert!(BLOCKS_PER_CHUNK_MAX * 4 * 4 < MESSAGE_SIZE_MAX as u64);
/// The version this build speaks.
pub const PROTOCOL_VERSION: u16 = 1;
/// The oldest version this build still speaks (N − 1; there is none before 1).
pub const PROTOCOL_VERSION_OLDEST: u16 = 1;
/// The version in frames of the handshake, from before one is agreed on.
pub const VERSION_ANY: u16 = 0;

/// The rpc of the handshake: its frames can be read whatever the two sides speak.
const HANDSHAKE_RPC: u16 = 1;
const MAGIC: [u8; 4] = *b"CAIR";
const FLAG_RESPONSE: u32 = 1;
const FLAG_FAILURE: u32 = 2;

/// Matches an answer to its request within one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A request.
    Request,
    /// Its answer.
    Response,
    /// Its failure.
    Failure,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first bytes are no Cairn frame's.
    #[error("not a Cairn frame (is something else listening on this port?)")]
    Magic,
    /// A version that was not agreed on.
    #[error("frame of protocol version {theirs}; this build speaks {oldest} to {newest}",
        oldest = PROTOCOL_VERSION_OLDEST, newest = PROTOCOL_VERSION)]
    Version {
        /// The frame's version.
        theirs: u16,
    },
    /// A length over its limit.
    #[error("frame announces {size} bytes; the limit is {limit}")]
    TooLarge {
        /// The announced length.
        size: u32,
        /// Its limit.
        limit: u32,
    },
    /// The header or message does not match its checksum.
    #[error("frame header does not match its checksum")]
    Checksum,
    /// Undefined flags.
    #[error("frame with unknown flags {flags:#x}")]
    Flags {
        /// The flags.
        flags: u32,
    },
}

/// A frame's header, checked but for the checksum, which needs the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Protocol version.
    pub version: u16,
    /// Which rpc; see [`Request::kind`](crate::Request::kind).
    pub rpc: u16,
    /// Request, answer or failure.
    pub kind: FrameKind,
    /// Which request of this connection.
    pub request: RequestId,
    /// Bytes of the message.
    pub message_size: u32,
    /// Bytes of the payload.
    pub payload_size: u32,
    checksum: u32,
    head_checksum: u32,
}

impl FrameHeader {
    /// Reads a header; lengths are checked here, before anyone takes memory for them (P1).
    ///
    /// # Errors
    /// [`FrameError`]: the connection is of no further use.
    pub fn decode(raw: &[u8; FRAME_HEADER_SIZE]) -> Result<Self, FrameError> {
        let u16_at = |at: usize| u16::from_le_bytes([raw[at], raw[at + 1]]);
        let u32_at =
            |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        if raw[..4] != MAGIC {
            return Err(FrameError::Magic);
        }
        let version = u16_at(4);
        if version != VERSION_ANY
            && !(PROTOCOL_VERSION_OLDEST..=PROTOCOL_VERSION).contains(&version)
        {
            return Err(FrameError::Version { theirs: version });
        }
        let kind = match u32_at(8) {
            0 => FrameKind::Request,
            FLAG_RESPONSE => FrameKind::Response,
            flags if flags == FLAG_RESPONSE | FLAG_FAILURE => FrameKind::Failure,
            flags => return Err(FrameError::Flags { flags }),
        };
        let request = u64::from(u32_at(12)) | u64::from(u32_at(16)) << 32;
        let (message_size, payload_size) = (u32_at(20), u32_at(24));
        for (size, limit) in [(message_size, MESSAGE_SIZE_MAX), (payload_size, PAYLOAD_SIZE_MAX)] {
            if size > limit {
                return Err(FrameError::TooLarge { size, limit });
            }
        }
        Ok(Self {
            version,
            rpc: u16_at(6),
            kind,
            request: RequestId(request),
            message_size,
            payload_size,
            checksum: u32_at(36),
            head_checksum: crc32c(&raw[..36]),
        })
    }

    /// Checks header and message against the header's checksum.
    ///
    /// # Errors
    /// [`FrameError::Checksum`].
    pub fn verify(&self, message: &[u8]) -> Result<(), FrameError> {
        if crc32c_append(self.head_checksum, message) == self.checksum {
            Ok(())
        } else {
            Err(FrameError::Checksum)
        }
    }
}

/// Appends header and message of a frame whose payload of `payload_size` bytes follows.
///
/// # Panics
/// When message or payload are over their limits: whoever builds them keeps to the limits.
pub fn encode_frame(
    rpc: u16,
    kind: FrameKind,
    request: RequestId,
    message: &impl Fn(&mut Vec<u8>),
    payload_size: usize,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.resize(start + FRAME_HEADER_SIZE, 0);
    message(out);
    let message_size = out.len() - start - FRAME_HEADER_SIZE;
    assert!(message_size <= MESSAGE_SIZE_MAX as usize, "a message over its limit");
    assert!(payload_size <= PAYLOAD_SIZE_MAX as usize, "a payload over its limit");
    let (head, body) = out[start..].split_at_mut(FRAME_HEADER_SIZE);
    let flags = match kind {
        FrameKind::Request => 0,
        FrameKind::Response => FLAG_RESPONSE,
        FrameKind::Failure => FLAG_RESPONSE | FLAG_FAILURE,
    };
    head[..4].copy_from_slice(&MAGIC);
    let version = if rpc == HANDSHAKE_RPC { VERSION_ANY } else { PROTOCOL_VERSION };
    head[4..6].copy_from_slice(&version.to_le_bytes());
    head[6..8].copy_from_slice(&rpc.to_le_bytes());
    head[8..12].copy_from_slice(&flags.to_le_bytes());
    head[12..20].copy_from_slice(&request.0.to_le_bytes());
    head[20..24].copy_from_slice(&(message_size as u32).to_le_bytes());
    head[24..28].copy_from_slice(&(payload_size as u32).to_le_bytes());
    let checksum = crc32c_append(crc32c(&head[..36]), body);
    head[36..40].copy_from_slice(&checksum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::{
        FRAME_HEADER_SIZE, FrameError, FrameHeader, FrameKind, MAGIC, MESSAGE_SIZE_MAX,
        PAYLOAD_SIZE_MAX, PROTOCOL_VERSION, RequestId, encode_frame,
    };
    use crate::Request;
    use crate::rpc::sample_each;
    use cairn_types::Random;
    use cairn_types::sample::{Sample, damaged};
    use proptest::prelude::{any, proptest};

    fn frame() -> Vec<u8> {
        let mut out = Vec::new();
        let message = |out: &mut Vec<u8>| out.extend_from_slice(b"body");
        encode_frame(7, FrameKind::Failure, RequestId(u64::MAX - 1), &message, 9, &mut out);
        out
    }

    fn decode(raw: &[u8]) -> Result<FrameHeader, FrameError> {
        FrameHeader::decode(raw[..FRAME_HEADER_SIZE].try_into().expect("whole header"))
    }

    #[test]
    fn a_frame_comes_back_as_it_went() {
        let header = decode(&frame()).expect("a good header");
        assert_eq!((header.rpc, header.kind), (7, FrameKind::Failure));
        assert_eq!(header.request, RequestId(u64::MAX - 1));
        assert_eq!((header.message_size, header.payload_size), (4, 9));
        assert_eq!(header.verify(b"body"), Ok(()));
        assert_eq!(header.verify(b"bodz"), Err(FrameError::Checksum));
    }

    #[test]
    fn no_flipped_bit_of_the_header_passes() {
        for bit in 0..FRAME_HEADER_SIZE * 8 {
            let mut raw = frame();
            raw[bit / 8] ^= 1 << (bit % 8);
            let passed = decode(&raw).and_then(|header| header.verify(b"body")).is_ok();
            assert!(!passed, "bit {bit} went unnoticed");
        }
    }

    #[test]
    fn an_oversized_length_is_refused_by_the_header_alone() {
        let mut raw = frame();
        raw[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(decode(&raw), Err(FrameError::TooLarge { size: u32::MAX, .. })));
    }

    /// The header and message at the front of `raw`; none where they are no good or not all there.
    fn read(raw: &[u8]) -> Option<(FrameHeader, &[u8])> {
        let (head, rest) = raw.split_first_chunk()?;
        let header = FrameHeader::decode(head).ok()?;
        let message = rest.get(..header.message_size as usize)?;
        header.verify(message).ok()?;
        Some((header, message))
    }

    fn any_request(random: &mut Random) -> Request {
        let all = sample_each(random);
        random.pick(&all).expect("there are some").0.clone()
    }

    fn framed(request: &Request, random: &mut Random) -> Vec<u8> {
        let mut raw = Vec::new();
        let id = RequestId(random.next_u64());
        let encode = |out: &mut Vec<u8>| request.encode(out);
        encode_frame(request.kind(), FrameKind::Request, id, &encode, 0, &mut raw);
        raw
    }

    proptest! {
        #[test]
        fn a_frame_cut_or_changed_anywhere_is_none_or_the_one_it_was(seed: u64) {
            let random = &mut Random::new(seed);
            let request = any_request(random);
            let raw = framed(&request, random);
            let (header, message) = read(&raw).expect("whole");
            assert_eq!(Request::decode(header.rpc, message), Ok(Some(request)));
            for size in 0..raw.len() {
                assert!(read(&raw[..size]).is_none(), "cut at {size}");
            }
            for _ in 0..16 {
                let changed = damaged(&raw, random);
                let passed = read(&changed).is_some();
                assert!(!passed || changed.starts_with(&raw), "{changed:x?} for {raw:x?}");
            }
        }

        #[test]
        fn two_frames_spliced_are_none(seed: u64) {
            let random = &mut Random::new(seed);
            let requests = [any_request(random), any_request(random)];
            let [one, other] = requests.map(|request| framed(&request, random));
            let spliced = [&one[..FRAME_HEADER_SIZE], &other[FRAME_HEADER_SIZE..]].concat();
            // Of messages that have both no field, or are the same, nothing is spliced.
            let same = spliced.starts_with(&one);
            assert!(same || read(&spliced).is_none());
        }

        #[test]
        fn whatever_a_header_says_it_is_refused_or_keeps_to_the_limits(
            mut raw in any::<[u8; FRAME_HEADER_SIZE]>(), believable: bool, seed: u64,
        ) {
            if believable {
                let random = &mut Random::new(seed);
                raw[..4].copy_from_slice(&MAGIC);
                raw[4..6].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
                raw[8..12].copy_from_slice(&(random.below(5) as u32).to_le_bytes());
                raw[20..24].copy_from_slice(&u32::sample(random).to_le_bytes());
                raw[24..28].copy_from_slice(&u32::sample(random).to_le_bytes());
            }
            if let Ok(header) = FrameHeader::decode(&raw) {
                assert!(header.message_size <= MESSAGE_SIZE_MAX);
                assert!(header.payload_size <= PAYLOAD_SIZE_MAX);
                let _ = header.verify(&raw);
            }
        }
    }
}
