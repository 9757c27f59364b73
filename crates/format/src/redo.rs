//! An entry of a chunk's redo journal: an overwrite, before it is done;
//! docs/formats/redo-journal.md.
//!
//! An overwrite changes bytes whose checksum is on disk already; torn, it would look like damage.
//! So what it will have changed is flushed first: whole, it is done again after a crash; torn, the
//! overwrite never began.
//!
//! - O1: entries of one chunk are replayed in order; the head's number only ever rises.

use crate::FormatError;
use crate::fields::{FieldReader, put_sized};
use crate::sidecar::{ChunkHead, HEAD_SLOT_SIZE};
use bytes::Bytes;
use cairn_types::{ChunkHandle, Crc32c, crc32c_append};

/// What one entry changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedoEntry {
    /// The head afterwards: handle, version, serial number, length, last block's checksum.
    pub head: ChunkHead,
    /// Bytes and where they go, in order.
    pub writes: Vec<(u64, Vec<Bytes>)>,
    /// Whole blocks that change, and their checksums afterwards.
    pub checksums: Vec<(u64, Crc32c)>,
}

impl RedoEntry {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head.encode());
        put_count(self.writes.len(), out);
        for (offset, segments) in &self.writes {
            out.extend_from_slice(&offset.to_le_bytes());
            put_sized(&segments.concat(), out);
        }
        put_count(self.checksums.len(), out);
        for (block, checksum) in &self.checksums {
            out.extend_from_slice(&block.to_le_bytes());
            out.extend_from_slice(&checksum.to_le_bytes());
        }
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(payload: &[u8]) -> Result<Self, FormatError> {
        let mut fields = FieldReader::of(payload);
        let mut entry =
            Self { head: ChunkHead::decode(fields.take(HEAD_SLOT_SIZE)?)?, ..Self::default() };
        for _ in 0..fields.u32()? {
            let offset = fields.u64()?;
            entry.writes.push((offset, vec![Bytes::copy_from_slice(fields.sized()?)]));
        }
        for _ in 0..fields.u32()? {
            entry.checksums.push((fields.u64()?, fields.u32()?));
        }
        fields.end()?;
        Ok(entry)
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    let count = u32::try_from(count).expect("fewer mutations and blocks than fit into memory");
    out.extend_from_slice(&count.to_le_bytes());
}

/// What the checksums of this chunk's redo records start from.
#[must_use]
pub fn redo_seed(handle: ChunkHandle) -> u32 {
    crc32c_append(0, &[&b"CAIRNRDO"[..], &handle.get().to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::RedoEntry;
    use crate::sidecar::ChunkHead;
    use bytes::Bytes;
    use cairn_types::ChunkHandle;
    use proptest::prelude::{any, proptest};

    #[test]
    fn an_entry_comes_back_as_it_went_and_never_cut() {
        let entry = RedoEntry {
            head: ChunkHead { length: 77, ..ChunkHead::empty(ChunkHandle::new(3), 64) },
            writes: vec![(5, vec![Bytes::from_static(b"bytes")]), (70, vec![Bytes::new()])],
            checksums: vec![(0, 1), (1, 2)],
        };
        let mut raw = Vec::new();
        entry.encode(&mut raw);
        assert_eq!(RedoEntry::decode(&raw), Ok(entry));
        for size in 0..raw.len() {
            assert!(RedoEntry::decode(&raw[..size]).is_err(), "cut at {size}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            start in 0usize..2, raw in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut payload = ChunkHead::empty(ChunkHandle::new(1), 64).encode().repeat(start);
            payload.extend_from_slice(&raw);
            let _ = RedoEntry::decode(&payload);
        }
    }
}
