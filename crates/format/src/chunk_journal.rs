//! The journal of a data directory: versions, close marks, dirty marks;
//! docs/formats/chunk-journal.md.
//!
//! ```text
//!   0  header, 64 bytes      64  records (stream.rs), one line each: kind u8, fields
//! ```
//! - J1: a journal begins with lines that say how all stood when it was begun, so the one before
//!   is not needed.

use crate::fields::{FieldReader, put_sized};
use crate::{FormatError, sealed};
use cairn_types::{ChunkHandle, ChunkVersion, ReignId, Term, crc32c};

/// Bytes of the header.
pub const JOURNAL_HEADER_SIZE: usize = 64;

const MAGIC: [u8; 8] = *b"CAIRNJNL";
/// From version 2 on, a chunk's files and its first head are written before the line that makes it;
/// from version 3 on there are lines that say whose a term is; from version 4 on, what is damaged,
/// and how far blocks were verified.
const VERSION: u32 = 4;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalLine {
    /// A replica stands at `version`, perhaps newly made; its bytes may change from here on.
    Raise {
        /// Which chunk.
        handle: ChunkHandle,
        /// The version it stands at.
        version: ChunkVersion,
        /// There was nothing before.
        create: bool,
        /// Takes the close mark.
        close: bool,
    },
    /// The highest term heard of (R2).
    Term(Term),
    /// Whose term that is (R1).
    Reign(Term, ReignId),
    /// The dirty mark: bytes that are not on disk yet may be acknowledged from here on (R27).
    Dirty(ChunkHandle),
    /// All of the chunk is on disk, as of the head of this number: no dirty mark.
    Clean {
        /// Which chunk.
        handle: ChunkHandle,
        /// The head's number.
        sequence: u64,
    },
    /// A suspect replica became current by a logged decision (R28).
    Cleared(ChunkHandle),
    /// The replica is in the trash.
    Gone(ChunkHandle),
    /// A block of the replica does not match its checksum: it is to be replaced.
    Damaged(ChunkHandle),
    /// How far the blocks of the server's replicas were verified, in the order of handles.
    Scrubbed(ScrubPosition),
    /// How a replica stood when this journal was begun (J1).
    Stood(ReplicaLine),
    /// The life of the page cache in which what follows was written (R27), and the highest handle
    /// and version ever seen (R1).
    Begun {
        /// Names it.
        page_cache: String,
        /// The highest handle.
        handle: ChunkHandle,
        /// The highest version.
        version: ChunkVersion,
    },
}

/// A round in which the blocks of all replicas are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScrubPosition {
    /// Wall time at which it began, in milliseconds; zero: there was none.
    pub began_ms: u64,
    /// Replicas up to here are verified; the highest of all: the round is over.
    pub handle: ChunkHandle,
}

/// A replica as a journal knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaLine {
    /// Which chunk.
    pub handle: ChunkHandle,
    /// Its version.
    pub version: ChunkVersion,
    /// The number of the head as of which all was on disk; zero: never.
    pub clean_sequence: u64,
    /// Has the close mark.
    pub closed: bool,
    /// Has the dirty mark.
    pub dirty: bool,
    /// May have lost bytes.
    pub suspect: bool,
    /// A block does not match its checksum.
    pub damaged: bool,
}

impl JournalLine {
    /// Appends the line's payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let numbers = |kind: u8, numbers: &[u64], flags: u8, out: &mut Vec<u8>| {
            out.push(kind);
            out.push(flags);
            numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        };
        match self {
            Self::Raise { handle, version, create, close } => {
                let flags = u8::from(*create) | u8::from(*close) << 1;
                numbers(1, &[handle.get(), version.get()], flags, out);
            }
            Self::Term(term) => numbers(2, &[term.get()], 0, out),
            Self::Reign(term, reign) => numbers(9, &[term.get(), reign.get()], 0, out),
            Self::Dirty(handle) => numbers(3, &[handle.get()], 0, out),
            Self::Clean { handle, sequence } => numbers(4, &[handle.get(), *sequence], 0, out),
            Self::Cleared(handle) => numbers(5, &[handle.get()], 0, out),
            Self::Gone(handle) => numbers(6, &[handle.get()], 0, out),
            Self::Damaged(handle) => numbers(10, &[handle.get()], 0, out),
            Self::Scrubbed(at) => numbers(11, &[at.began_ms, at.handle.get()], 0, out),
            Self::Stood(line) => {
                let flags = [line.closed, line.dirty, line.suspect, line.damaged];
                let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag));
                let fields = [line.handle.get(), line.version.get(), line.clean_sequence];
                numbers(7, &fields, flags, out);
            }
            Self::Begun { page_cache, handle, version } => {
                numbers(8, &[handle.get(), version.get()], 0, out);
                put_sized(page_cache.as_bytes(), out);
            }
        }
    }

    /// Reads a line's payload.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(payload: &[u8]) -> Result<Self, FormatError> {
        let mut fields = FieldReader::of(payload);
        let (kind, flags) = (fields.u8()?, fields.u8()?);
        let mut handle = || -> Result<_, FormatError> { Ok(ChunkHandle::new(fields.u64()?)) };
        let line = match kind {
            1 => Self::Raise {
                handle: handle()?,
                version: ChunkVersion::new(fields.u64()?),
                create: flags & 1 != 0,
                close: flags & 2 != 0,
            },
            2 => Self::Term(Term::new(fields.u64()?)),
            9 => Self::Reign(Term::new(fields.u64()?), ReignId::new(fields.u64()?)),
            3 => Self::Dirty(handle()?),
            4 => Self::Clean { handle: handle()?, sequence: fields.u64()? },
            5 => Self::Cleared(handle()?),
            6 => Self::Gone(handle()?),
            10 => Self::Damaged(handle()?),
            11 => Self::Scrubbed(ScrubPosition {
                began_ms: fields.u64()?,
                handle: ChunkHandle::new(fields.u64()?),
            }),
            7 => Self::Stood(ReplicaLine {
                handle: handle()?,
                version: ChunkVersion::new(fields.u64()?),
                clean_sequence: fields.u64()?,
                closed: flags & 1 != 0,
                dirty: flags & 2 != 0,
                suspect: flags & 4 != 0,
                damaged: flags & 8 != 0,
            }),
            8 => Self::Begun {
                handle: handle()?,
                version: ChunkVersion::new(fields.u64()?),
                page_cache: str::from_utf8(fields.sized()?)
                    .map_err(|_| FormatError::Malformed)?
                    .to_owned(),
            },
            _ => return Err(FormatError::Malformed),
        };
        fields.end()?;
        Ok(line)
    }
}

/// The bytes that begin the `generation`-th journal of a data directory.
#[must_use]
pub fn encode_journal_header(generation: u64) -> Vec<u8> {
    let mut out = sealed::begin(MAGIC, VERSION);
    out.extend_from_slice(&generation.to_le_bytes());
    sealed::seal(out, JOURNAL_HEADER_SIZE)
}

/// The first bytes of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// How often the directory's journal was begun.
    pub generation: u64,
    /// A chunk's first head was written before the line that makes it.
    pub heads_from_creation: bool,
}

/// Reads a journal's header.
///
/// # Errors
/// [`FormatError`].
pub fn decode_journal_header(file: &[u8]) -> Result<JournalHeader, FormatError> {
    let (version, mut fields) = sealed::open_versioned(file, JOURNAL_HEADER_SIZE, MAGIC, VERSION)?;
    Ok(JournalHeader { generation: fields.u64()?, heads_from_creation: version > 1 })
}

/// What a journal's header may have said that does not match its checksum any more: its lines tell
/// whether it did.
#[must_use]
pub fn guess_journal_header(file: &[u8]) -> JournalHeader {
    let generation = file.get(12..).and_then(|raw| FieldReader::of(raw).u64().ok());
    JournalHeader { generation: generation.unwrap_or_default(), heads_from_creation: false }
}

/// What the checksums of this journal's records start from.
#[must_use]
pub fn journal_seed(generation: u64) -> u32 {
    crc32c(&generation.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::{
        JournalHeader, JournalLine, ReplicaLine, ScrubPosition, decode_journal_header,
        encode_journal_header,
    };
    use cairn_types::{ChunkHandle, ChunkVersion, ReignId, Term};
    use proptest::prelude::{any, proptest};

    fn lines() -> Vec<JournalLine> {
        let (handle, version) = (ChunkHandle::new(8), ChunkVersion::new(9));
        vec![
            JournalLine::Raise { handle, version, create: true, close: false },
            JournalLine::Raise { handle, version, create: false, close: true },
            JournalLine::Term(Term::new(4)),
            JournalLine::Reign(Term::new(4), ReignId::new(77)),
            JournalLine::Dirty(handle),
            JournalLine::Clean { handle, sequence: 17 },
            JournalLine::Cleared(handle),
            JournalLine::Gone(handle),
            JournalLine::Damaged(handle),
            JournalLine::Scrubbed(ScrubPosition { began_ms: 5, handle }),
            JournalLine::Stood(ReplicaLine {
                handle,
                version,
                clean_sequence: 3,
                closed: true,
                dirty: false,
                suspect: true,
                damaged: true,
            }),
            JournalLine::Begun { page_cache: "a life".to_owned(), handle, version },
        ]
    }

    #[test]
    fn each_line_comes_back_as_it_went_and_none_comes_back_cut() {
        for line in lines() {
            let mut raw = Vec::new();
            line.encode(&mut raw);
            assert_eq!(JournalLine::decode(&raw), Ok(line));
            for size in 0..raw.len() {
                assert!(JournalLine::decode(&raw[..size]).is_err());
            }
        }
    }

    #[test]
    fn the_header_comes_back_as_it_went() {
        let header = JournalHeader { generation: 6, heads_from_creation: true };
        assert_eq!(decode_journal_header(&encode_journal_header(6)), Ok(header));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = JournalLine::decode(&raw);
            let _ = decode_journal_header(&raw);
        }
    }
}
