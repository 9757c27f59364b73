//! A checkpoint of the master's state: a root, and the file of pages that it names;
//! docs/formats/checkpoint.md.
//!
//! ```text
//!   page file   header, 64 bytes │ pages …           root file   fields │ root bytes │ CRC32C
//! ```
//! - K1: a root that is not whole to the last bit is no checkpoint: whoever wrote it did not
//!   finish. Of the pages it vouches for their extent alone; each page has a checksum of its own.

use crate::fields::put_sized;
use crate::{FormatError, sealed};
use cairn_types::{CellId, LogIndex, Term};

/// Bytes of a page file's header.
pub const PAGE_FILE_HEADER_SIZE: usize = 64;

const ROOT_MAGIC: [u8; 8] = *b"CAIRNCKP";
/// Version 1 was a file of items.
const ROOT_VERSION: u32 = 2;
const PAGES_MAGIC: [u8; 8] = *b"CAIRNPGS";
const PAGES_VERSION: u32 = 1;
/// Bytes of a root file beside the root.
const ROOT_FRAME_SIZE: usize = 12 + 16 + 6 * 8 + 4 + 4;

/// The first bytes of a file of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFileHeader {
    /// Whose state.
    pub cell: CellId,
    /// The file's number; no other of this directory ever has it.
    pub number: u64,
}

impl PageFileHeader {
    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = sealed::begin(PAGES_MAGIC, PAGES_VERSION);
        out.extend_from_slice(&self.cell.get().to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        sealed::seal(out, PAGE_FILE_HEADER_SIZE)
    }

    /// Reads the header at the front of a page file.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let mut fields = sealed::open(file, PAGE_FILE_HEADER_SIZE, PAGES_MAGIC, PAGES_VERSION)?;
        Ok(Self { cell: CellId::new(fields.u128()?), number: fields.u64()? })
    }
}

/// A root file: all that is needed, beside the pages, to have the state again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointRoot {
    /// Whose state.
    pub cell: CellId,
    /// The term of the last record contained.
    pub term: Term,
    /// The last record contained.
    pub index: LogIndex,
    /// The page file.
    pub page_file: u64,
    /// The last record contained in the page file's first checkpoint.
    pub page_file_begun: LogIndex,
    /// How much of the page file is durable: every page of this checkpoint lies before it.
    pub page_file_size: u64,
    /// Bytes of the pages that the root reaches; the rest is garbage, or other checkpoints'.
    pub live_bytes: u64,
    /// What the state opens its pages with.
    pub root: Vec<u8>,
}

impl CheckpointRoot {
    /// The bytes.
    ///
    /// # Panics
    /// When the root has 4 GiB or more.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = sealed::begin(ROOT_MAGIC, ROOT_VERSION);
        out.extend_from_slice(&self.cell.get().to_le_bytes());
        out.extend_from_slice(&self.term.get().to_le_bytes());
        out.extend_from_slice(&self.index.get().to_le_bytes());
        out.extend_from_slice(&self.page_file.to_le_bytes());
        out.extend_from_slice(&self.page_file_begun.get().to_le_bytes());
        out.extend_from_slice(&self.page_file_size.to_le_bytes());
        out.extend_from_slice(&self.live_bytes.to_le_bytes());
        put_sized(&self.root, &mut out);
        let size = out.len() + 4;
        sealed::seal(out, size)
    }

    /// Reads a root file, which is all of `file`.
    ///
    /// # Errors
    /// [`FormatError`]: it is none (K1).
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let size = file.len().max(ROOT_FRAME_SIZE);
        let mut fields = sealed::open(file, size, ROOT_MAGIC, ROOT_VERSION)?;
        let root = Self {
            cell: CellId::new(fields.u128()?),
            term: Term::new(fields.u64()?),
            index: LogIndex::new(fields.u64()?),
            page_file: fields.u64()?,
            page_file_begun: LogIndex::new(fields.u64()?),
            page_file_size: fields.u64()?,
            live_bytes: fields.u64()?,
            root: fields.sized()?.to_vec(),
        };
        fields.end()?;
        Ok(root)
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckpointRoot, PageFileHeader};
    use cairn_types::{CellId, LogIndex, Term};
    use proptest::prelude::{any, proptest};

    fn root(root: Vec<u8>) -> CheckpointRoot {
        CheckpointRoot {
            cell: CellId::new(5),
            term: Term::new(2),
            index: LogIndex::new(77),
            page_file: 3,
            page_file_begun: LogIndex::new(70),
            page_file_size: 1 << 33,
            live_bytes: 1 << 32,
            root,
        }
    }

    #[test]
    fn a_root_cut_or_altered_anywhere_or_longer_is_none() {
        let whole = root(b"where the pages begin".to_vec()).encode();
        for at in 0..whole.len() {
            assert!(CheckpointRoot::decode(&whole[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut altered = whole.clone();
                altered[at] ^= 1 << bit;
                assert!(CheckpointRoot::decode(&altered).is_err(), "byte {at} bit {bit}");
            }
        }
        assert!(CheckpointRoot::decode(&[whole.as_slice(), &[0]].concat()).is_err());
    }

    #[test]
    fn a_page_file_says_whose_it_is_and_which() {
        let header = PageFileHeader { cell: CellId::new(9), number: 4 };
        let file = [header.encode(), vec![1, 2, 3]].concat();
        assert_eq!(PageFileHeader::decode(&file), Ok(header));
        assert!(PageFileHeader::decode(&file[..63]).is_err());
    }

    proptest! {
        #[test]
        fn a_root_comes_back_as_it_went(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let root = root(bytes);
            assert_eq!(CheckpointRoot::decode(&root.encode()), Ok(root));
        }

        #[test]
        fn no_bytes_make_it_panic(file in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = CheckpointRoot::decode(&file);
            let _ = PageFileHeader::decode(&file);
        }
    }
}
