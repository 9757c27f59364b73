//! A checkpoint of the master's state; docs/formats/checkpoint.md.
//!
//! ```text
//!   0  header, 64 bytes      64  items: size u32, CRC32C u32, bytes …      footer, 32 bytes
//! ```
//! - K1: a file without its whole footer, or whose items do not add up to it, is no checkpoint:
//!   whoever wrote it did not finish.

use crate::fields::Fields;
use crate::{FormatError, sealed};
use cairn_types::{CellId, LogIndex, Term, crc32c, crc32c_append};
use std::ops::Range;

/// Bytes of the header.
pub const CHECKPOINT_HEADER_SIZE: usize = 64;
/// Bytes of the footer.
pub const CHECKPOINT_FOOTER_SIZE: usize = 32;

const MAGIC: [u8; 8] = *b"CAIRNCKP";
const FOOTER_MAGIC: [u8; 8] = *b"CAIRNEND";
const VERSION: u32 = 1;

/// The first bytes of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// Whose state.
    pub cell: CellId,
    /// The term of the last record contained.
    pub term: Term,
    /// The last record contained.
    pub index: LogIndex,
}

impl CheckpointHeader {
    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = sealed::begin(MAGIC, VERSION);
        out.extend_from_slice(&self.cell.get().to_le_bytes());
        out.extend_from_slice(&self.term.get().to_le_bytes());
        out.extend_from_slice(&self.index.get().to_le_bytes());
        sealed::seal(out, CHECKPOINT_HEADER_SIZE)
    }

    /// Reads the header at the front of a checkpoint.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let mut fields = sealed::open(file, CHECKPOINT_HEADER_SIZE, MAGIC, VERSION)?;
        Ok(Self {
            cell: CellId::new(fields.u128()?),
            term: Term::new(fields.u64()?),
            index: LogIndex::new(fields.u64()?),
        })
    }
}

/// Adds up a checkpoint's items while it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointSum {
    count: u64,
    checksum: u32,
}

impl CheckpointSum {
    /// Appends one item.
    ///
    /// # Panics
    /// When the item has 4 GiB or more.
    pub fn put_item(&mut self, item: &[u8], out: &mut Vec<u8>) {
        let size = u32::try_from(item.len()).expect("an item of less than 4 GiB");
        let checksum = crc32c_append(crc32c(&size.to_le_bytes()), item);
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(item);
        self.add(checksum);
    }

    fn add(&mut self, item_checksum: u32) {
        self.count += 1;
        self.checksum = crc32c_append(self.checksum, &item_checksum.to_le_bytes());
    }

    /// The bytes that end the checkpoint.
    #[must_use]
    pub fn footer(&self) -> Vec<u8> {
        let mut out = sealed::begin(FOOTER_MAGIC, VERSION);
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
        sealed::seal(out, CHECKPOINT_FOOTER_SIZE)
    }
}

/// Reads a whole checkpoint: its header, and its items as ranges of the file.
///
/// # Errors
/// [`FormatError`]: it is none (K1).
pub fn scan_checkpoint(file: &[u8]) -> Result<(CheckpointHeader, Vec<Range<usize>>), FormatError> {
    let header = CheckpointHeader::decode(file)?;
    let body_size = file
        .len()
        .checked_sub(CHECKPOINT_HEADER_SIZE + CHECKPOINT_FOOTER_SIZE)
        .ok_or(FormatError::Truncated)?;
    let body_end = CHECKPOINT_HEADER_SIZE + body_size;
    let mut footer =
        sealed::open(&file[body_end..], CHECKPOINT_FOOTER_SIZE, FOOTER_MAGIC, VERSION)?;
    let expected = CheckpointSum { count: footer.u64()?, checksum: footer.u32()? };
    let mut sum = CheckpointSum::default();
    let mut items = Vec::new();
    let mut at = CHECKPOINT_HEADER_SIZE;
    while at < body_end {
        let mut fields = Fields::of(&file[at..body_end]);
        let size = fields.u32()?;
        let checksum = fields.u32()?;
        let item = fields.take(usize::try_from(size).map_err(|_| FormatError::Truncated)?)?;
        if crc32c_append(crc32c(&size.to_le_bytes()), item) != checksum {
            return Err(FormatError::Checksum);
        }
        sum.add(checksum);
        items.push(at + 8..at + 8 + item.len());
        at += 8 + item.len();
    }
    if sum == expected { Ok((header, items)) } else { Err(FormatError::Checksum) }
}

#[cfg(test)]
mod tests {
    use super::{CheckpointHeader, CheckpointSum, scan_checkpoint};
    use cairn_types::{CellId, LogIndex, Term};
    use proptest::prelude::{any, proptest};

    fn header() -> CheckpointHeader {
        CheckpointHeader { cell: CellId::new(5), term: Term::new(2), index: LogIndex::new(77) }
    }

    fn file(items: &[Vec<u8>]) -> Vec<u8> {
        let mut out = header().encode();
        let mut sum = CheckpointSum::default();
        for item in items {
            sum.put_item(item, &mut out);
        }
        out.extend_from_slice(&sum.footer());
        out
    }

    #[test]
    fn a_checkpoint_cut_anywhere_is_none() {
        let whole = file(&[b"one".to_vec(), Vec::new(), b"three".to_vec()]);
        assert_eq!(scan_checkpoint(&whole).expect("whole").1.len(), 3);
        for size in 0..whole.len() {
            assert!(scan_checkpoint(&whole[..size]).is_err(), "cut at {size}");
        }
    }

    #[test]
    fn a_checkpoint_without_one_of_its_items_is_none() {
        let whole = file(&[b"one".to_vec(), b"two".to_vec()]);
        let mut fewer = whole[..64].to_vec();
        fewer.extend_from_slice(&whole[64 + 11..]);
        assert!(scan_checkpoint(&fewer).is_err());
    }

    #[test]
    fn no_flipped_byte_passes() {
        let whole = file(&[b"one".to_vec(), b"two".to_vec()]);
        for at in 0..whole.len() {
            let mut raw = whole.clone();
            raw[at] ^= 0x10;
            assert!(scan_checkpoint(&raw).is_err(), "byte {at} went unnoticed");
        }
    }

    proptest! {
        #[test]
        fn items_come_back_as_they_went(items in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let whole = file(&items);
            let (found, ranges) = scan_checkpoint(&whole).expect("whole");
            assert_eq!(found, header());
            assert_eq!(ranges.into_iter().map(|r| whole[r].to_vec()).collect::<Vec<_>>(), items);
        }

        #[test]
        fn no_bytes_make_it_panic(file in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = scan_checkpoint(&file);
        }
    }
}
