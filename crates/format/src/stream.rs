//! A stream of checksummed records in one file: what logs and journals are made of.
//!
//! ```text
//!   0  size u32     4  CRC32C u32     8  synced u64     16  payload …     zeros to a multiple of 8
//! ```
//! The CRC covers size, synced and payload, and starts from a *seed* that belongs to the file, so
//! that bytes of another file, or of the same file's earlier life, are no records of it.
//!
//! `synced` is how much of the file was durable when the record was written. By it a torn tail is
//! told from corruption:
//! - S1: whoever writes a record with `synced = n` has flushed everything before n.
//! - S2: so a bad record at p, with a good one behind it that says `synced > p`, was good once:
//!   corruption. Otherwise nothing behind p was ever acknowledged: a torn tail, to be cut off.
//! - S3: before a stream is continued after a torn tail, the tail is made zeros on disk, so that
//!   nothing of it can be taken for a record later.

use crate::FormatError;
use crate::fields::FieldReader;
use cairn_types::crc32c_append;
use std::ops::Range;

/// Bytes before each payload.
pub const RECORD_HEADER_SIZE: usize = 16;
/// Bytes that one record's payload may have.
pub const RECORD_SIZE_MAX: usize = 64 << 20;

const ALIGNMENT: usize = 8;

/// A record that was good once and no longer is (S2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record at offset {offset} is damaged, and records behind it are not")]
pub struct Corruption {
    /// Where in the file.
    pub offset: usize,
}

/// What a file's bytes hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamScan {
    /// The payloads, as ranges of the file.
    pub payloads: Vec<Range<usize>>,
    /// Where the next record goes.
    pub end: usize,
    /// How much of the file some record proves to have been durable (S1). What lies between this
    /// and the end may stand in the page cache alone, after a flush that failed.
    pub proven: u64,
}

/// How many bytes a record with such a payload takes.
#[must_use]
pub const fn record_size(payload_size: usize) -> usize {
    (RECORD_HEADER_SIZE + payload_size).next_multiple_of(ALIGNMENT)
}

/// Appends a record whose payload is `parts`, one after the other; `synced` as S1 says.
///
/// # Panics
/// When the payload is empty or over [`RECORD_SIZE_MAX`].
pub fn put_record(seed: u32, synced: u64, parts: &[&[u8]], out: &mut Vec<u8>) {
    let size: usize = parts.iter().map(|part| part.len()).sum();
    assert!(size > 0 && size <= RECORD_SIZE_MAX, "a record of 1 byte to 64 MiB");
    let size_field = u32::try_from(size).expect("checked").to_le_bytes();
    let start = out.len();
    let mut checksum = crc32c_append(seed, &size_field);
    checksum = crc32c_append(checksum, &synced.to_le_bytes());
    for part in parts {
        checksum = crc32c_append(checksum, part);
    }
    out.extend_from_slice(&size_field);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&synced.to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.resize(start + record_size(size), 0);
}

/// Reads the records of `file` from `start` up to the first that is none.
#[must_use]
pub fn scan_front(file: &[u8], start: usize, seed: u32) -> StreamScan {
    let mut found = StreamScan { payloads: Vec::new(), end: start, proven: 0 };
    while let Ok(payload) = record_at(file, found.end, seed) {
        let synced = synced_at(file, found.end).unwrap_or_default();
        found.proven = found.proven.max(synced.min(found.end as u64));
        found.end += record_size(payload.len());
        found.payloads.push(payload);
    }
    found
}

/// Reads the records of `file` from `start` on.
///
/// # Errors
/// [`Corruption`]; a torn tail is none, it just ends the scan.
pub fn scan(file: &[u8], start: usize, seed: u32) -> Result<StreamScan, Corruption> {
    let found = scan_front(file, start, seed);
    let bad = found.end as u64;
    let was_synced = |at: usize| {
        synced_at(file, at).is_some_and(|synced| bad < synced && synced <= at as u64)
            && record_at(file, at, seed).is_ok()
    };
    let behind = (found.end..file.len()).step_by(ALIGNMENT).skip(1);
    for at in behind {
        if was_synced(at) {
            return Err(Corruption { offset: found.end });
        }
    }
    Ok(found)
}

/// The records of a damaged `file` that are good, from `start` on: what is not is passed over.
#[must_use]
pub fn salvage(file: &[u8], start: usize, seed: u32) -> Vec<Range<usize>> {
    let (mut payloads, mut at) = (Vec::new(), start);
    while at < file.len() {
        at += match record_at(file, at, seed) {
            Ok(payload) => {
                payloads.push(payload.clone());
                record_size(payload.len())
            }
            Err(_) => ALIGNMENT,
        };
    }
    payloads
}

fn synced_at(file: &[u8], at: usize) -> Option<u64> {
    FieldReader::of(file.get(at + 8..)?).u64().ok()
}

/// The payload of the record at `at`, if there is one.
fn record_at(file: &[u8], at: usize, seed: u32) -> Result<Range<usize>, FormatError> {
    let mut fields = FieldReader::of(file.get(at..).ok_or(FormatError::Truncated)?);
    let size = fields.u32()?;
    let checksum = fields.u32()?;
    let synced = fields.u64()?;
    let payload_size = usize::try_from(size).map_err(|_| FormatError::Malformed)?;
    if payload_size == 0 || payload_size > RECORD_SIZE_MAX {
        return Err(FormatError::Malformed);
    }
    let payload = fields.take(payload_size)?;
    let mut expected = crc32c_append(seed, &size.to_le_bytes());
    expected = crc32c_append(expected, &synced.to_le_bytes());
    if crc32c_append(expected, payload) != checksum {
        return Err(FormatError::Checksum);
    }
    // A record whose padding did not reach the disk is whole all the same.
    let start = at + RECORD_HEADER_SIZE;
    Ok(start..start + payload_size)
}

#[cfg(test)]
mod tests {
    use super::{Corruption, StreamScan, put_record, record_size, salvage, scan};
    use proptest::prelude::{any, proptest};

    /// Three records, each synced before the next.
    fn three() -> Vec<u8> {
        let mut file = Vec::new();
        for payload in [&b"one"[..], b"the second", b"3"] {
            put_record(7, file.len() as u64, &[payload], &mut file);
        }
        file
    }

    fn payloads<'a>(file: &'a [u8], found: &StreamScan) -> Vec<&'a [u8]> {
        found.payloads.iter().map(|range| &file[range.clone()]).collect()
    }

    #[test]
    fn a_tail_cut_anywhere_ends_the_scan_and_nothing_else() {
        let whole = three();
        let second_end = record_size(3) + record_size(10);
        for size in second_end..whole.len() - 7 {
            let found = scan(&whole[..size], 0, 7).expect("a torn tail");
            assert_eq!(payloads(&whole, &found), [&b"one"[..], b"the second"], "cut at {size}");
            assert_eq!(found.end, second_end);
        }
    }

    #[test]
    fn a_bad_record_with_a_later_synced_one_behind_it_is_corruption() {
        for at in record_size(3)..record_size(3) + 16 + 10 {
            let mut file = three();
            file[at] ^= 1;
            file.resize(4096, 0);
            assert_eq!(scan(&file, 0, 7), Err(Corruption { offset: record_size(3) }), "at {at}");
        }
    }

    #[test]
    fn of_a_damaged_file_all_records_are_salvaged_but_the_bad_one() {
        for at in record_size(3)..record_size(3) + 16 + 10 {
            let mut file = three();
            file[at] ^= 1;
            let found = salvage(&file, 0, 7);
            let found: Vec<&[u8]> = found.iter().map(|range| &file[range.clone()]).collect();
            assert_eq!(found, [&b"one"[..], b"3"], "at {at}");
        }
    }

    #[test]
    fn a_page_lost_out_of_one_unsynced_batch_is_a_torn_tail() {
        let mut file = Vec::new();
        put_record(7, 0, &[b"kept"], &mut file);
        let synced = file.len() as u64;
        put_record(7, synced, &[b"lost"], &mut file);
        put_record(7, synced, &[b"kept, and never acknowledged"], &mut file);
        file[record_size(4)..2 * record_size(4)].fill(0);
        let found = scan(&file, 0, 7).expect("a torn tail");
        assert_eq!(payloads(&file, &found), [b"kept"]);
    }

    #[test]
    fn records_of_another_file_are_none_of_this() {
        assert_eq!(scan(&three(), 0, 8), Ok(StreamScan::default()));
    }

    proptest! {
        #[test]
        fn what_was_put_is_found(items in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..50), 0..20), seed: u32) {
            let mut file = Vec::new();
            for item in &items {
                put_record(seed, file.len() as u64, &[item], &mut file);
            }
            file.extend_from_slice(&[0; 100]);
            let found = scan(&file, 0, seed).expect("nothing is damaged");
            assert_eq!(payloads(&file, &found), items);
        }

        #[test]
        fn no_bytes_make_it_panic(file in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = scan(&file, 0, 0);
            let _ = scan(&file, 1000, 0);
            let _ = salvage(&file, 0, 0);
        }
    }
}
