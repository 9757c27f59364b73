//! A segment of the operation log; docs/formats/operation-log.md.
//!
//! ```text
//!   0  header, 64 bytes      64  records (stream.rs): index u64, opaque bytes …      zeros
//! ```
//! - G1: segment n+1 is begun only when all of segment n is durable; its header says where n ended,
//!   so whatever is missing before that end is corruption and no torn tail.

use crate::fields::FieldReader;
use crate::{Corruption, FormatError, sealed, stream};
use cairn_types::{CellId, LogIndex, crc32c};
use std::ops::Range;

/// Bytes of the header.
pub const SEGMENT_HEADER_SIZE: usize = 64;

const MAGIC: [u8; 8] = *b"CAIRNLOG";
const VERSION: u32 = 1;

/// The first bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Whose log.
    pub cell: CellId,
    /// Which segment; consecutive, from 1.
    pub number: u64,
    /// Where the records of the segment before ended (G1).
    pub previous_end: u64,
    /// The highest index before this segment.
    pub after: LogIndex,
}

/// One record as it stands in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// Its index.
    pub index: LogIndex,
    /// Its bytes, as a range of the file.
    pub range: Range<usize>,
}

/// The records of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentScan {
    /// Up to the first that is none.
    pub records: Vec<SegmentRecord>,
    /// Where they end.
    pub end: usize,
    /// How much of the file some record proves to have been durable (`stream`, S1).
    pub proven: u64,
}

impl SegmentHeader {
    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = sealed::begin(MAGIC, VERSION);
        out.extend_from_slice(&self.cell.get().to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.previous_end.to_le_bytes());
        out.extend_from_slice(&self.after.get().to_le_bytes());
        sealed::seal(out, SEGMENT_HEADER_SIZE)
    }

    /// Reads the header at the front of a segment.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let mut fields = sealed::open(file, SEGMENT_HEADER_SIZE, MAGIC, VERSION)?;
        Ok(Self {
            cell: CellId::new(fields.u128()?),
            number: fields.u64()?,
            previous_end: fields.u64()?,
            after: LogIndex::new(fields.u64()?),
        })
    }
}

/// What the checksums of this segment's records start from.
#[must_use]
pub fn segment_seed(cell: CellId, number: u64) -> u32 {
    let mut identity = [0; 24];
    identity[..16].copy_from_slice(&cell.get().to_le_bytes());
    identity[16..].copy_from_slice(&number.to_le_bytes());
    crc32c(&identity)
}

/// How many bytes of a segment a record takes.
#[must_use]
pub const fn log_record_size(size: usize) -> usize {
    stream::record_size(8 + size)
}

/// Appends one record.
pub fn put_log_record(seed: u32, synced: u64, index: LogIndex, record: &[u8], out: &mut Vec<u8>) {
    stream::put_record(seed, synced, &[&index.get().to_le_bytes(), record], out);
}

/// Reads the records of a segment.
///
/// # Errors
/// [`Corruption`].
pub fn scan_segment(file: &[u8], seed: u32) -> Result<SegmentScan, Corruption> {
    let found = stream::scan(file, SEGMENT_HEADER_SIZE, seed)?;
    let mut records = Vec::with_capacity(found.payloads.len());
    for range in found.payloads {
        let damaged = |_| Corruption { offset: range.start };
        let index = FieldReader::of(&file[range.clone()]).u64().map_err(damaged)?;
        records
            .push(SegmentRecord { index: LogIndex::new(index), range: range.start + 8..range.end });
    }
    Ok(SegmentScan { records, end: found.end, proven: found.proven })
}

#[cfg(test)]
mod tests {
    use super::{SegmentHeader, SegmentScan, put_log_record, scan_segment, segment_seed};
    use crate::FormatError;
    use cairn_types::{CellId, LogIndex};
    use proptest::prelude::{any, proptest};

    fn header() -> SegmentHeader {
        let (cell, after) = (CellId::new(9), LogIndex::new(41));
        SegmentHeader { cell, number: 3, previous_end: 100, after }
    }

    #[test]
    fn a_segment_comes_back_as_it_went() {
        let mut file = header().encode();
        let seed = segment_seed(header().cell, 3);
        put_log_record(seed, 64, LogIndex::new(42), b"record", &mut file);
        put_log_record(seed, 64, LogIndex::new(43), b"", &mut file);
        assert_eq!(SegmentHeader::decode(&file), Ok(header()));
        let SegmentScan { records, end, proven } = scan_segment(&file, seed).expect("sound");
        assert_eq!(records.len(), 2);
        assert_eq!(
            (records[0].index, &file[records[0].range.clone()]),
            (LogIndex::new(42), &b"record"[..])
        );
        assert_eq!((records[1].index, records[1].range.len()), (LogIndex::new(43), 0));
        assert_eq!((end, proven), (file.len(), 64));
    }

    #[test]
    fn no_flipped_bit_of_the_header_passes() {
        for bit in 0..64 * 8 {
            let mut raw = header().encode();
            raw[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&raw).is_err(), "bit {bit} went unnoticed");
        }
        assert_eq!(SegmentHeader::decode(b"CAIRN"), Err(FormatError::Truncated));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(file in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = SegmentHeader::decode(&file);
            let _ = scan_segment(&file, 0);
        }
    }
}
