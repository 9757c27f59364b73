//! Records that say what they are: whoever reads one knows who wrote it and what it must hold.
//!
//! ```text
//!   "SOAK"  client (4)  number (8)  size (4)  CRC32C of all else (4)  pseudo-random bytes
//! ```

use cairn_types::{Random, crc32c, crc32c_append};

/// Which of the two files a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// 100 to 1 000 bytes.
    Small,
    /// 64 KiB.
    Large,
}

const MAGIC: &[u8; 4] = b"SOAK";
const HEAD_SIZE: usize = 24;
const CHECKSUM_AT: usize = 20;
const SMALL_SIZE_MIN: u64 = 100;
const SMALL_SIZE_MAX: u64 = 1_000;
const LARGE_SIZE: usize = 64 << 10;

/// Makes client `client`'s record `number`: always the same bytes.
pub(crate) fn make(kind: RecordKind, client: u32, number: u64) -> Vec<u8> {
    let seed = u64::from(client) << 40 ^ number << 1 ^ u64::from(kind == RecordKind::Large);
    let mut random = Random::new(seed);
    let size = match kind {
        RecordKind::Small => SMALL_SIZE_MIN + random.below(SMALL_SIZE_MAX - SMALL_SIZE_MIN + 1),
        RecordKind::Large => LARGE_SIZE as u64,
    };
    let mut bytes = Vec::with_capacity(size as usize + 8);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&client.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(size as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; HEAD_SIZE - CHECKSUM_AT]);
    while bytes.len() < size as usize {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(size as usize);
    let checksum = checksum(&bytes);
    bytes[CHECKSUM_AT..HEAD_SIZE].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Who wrote this record; nothing where it is not, byte for byte, one of ours.
pub(crate) fn parse(kind: RecordKind, bytes: &[u8]) -> Option<(u32, u64)> {
    if bytes.len() < HEAD_SIZE || &bytes[..4] != MAGIC {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let client = word(4);
    let number = u64::from(word(12)) << 32 | u64::from(word(8));
    let good = word(16) as usize == bytes.len()
        && word(CHECKSUM_AT) == checksum(bytes)
        && bytes == make(kind, client, number);
    good.then_some((client, number))
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&bytes[..CHECKSUM_AT]), &bytes[HEAD_SIZE..])
}

#[cfg(test)]
mod tests {
    use super::{RecordKind, make, parse};

    #[test]
    fn a_record_tells_who_wrote_it_and_one_with_a_changed_byte_does_not() {
        for (kind, client, number) in
            [(RecordKind::Small, 63, 3_124), (RecordKind::Large, 0, 1 << 33)]
        {
            let mut record = make(kind, client, number);
            assert_eq!(parse(kind, &record), Some((client, number)));
            assert_eq!(parse(kind, &record[..record.len() - 1]), None);
            let last = record.len() - 1;
            record[last] ^= 1;
            assert_eq!(parse(kind, &record), None);
        }
    }
}
