//! A root record: all that must be kept, beside the file of pages, to open a tree again.
//!
//! ```text
//!   magic │ version │ page: offset, size, CRC32C │ level │ count │ generation │ live bytes
//!         │ size of metadata │ metadata │ CRC32C of all before
//! ```

use cairn_types::{Crc32c, crc32c};

const MAGIC: [u8; 8] = *b"CAIRNTRE";
const VERSION: u32 = 2;
/// Bytes before the metadata.
const HEAD_SIZE: usize = 8 + 4 + 8 + 4 + 4 + 4 + 8 + 8 + 8 + 4;

/// A checkpoint's root, and what the caller wants kept with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootRecord {
    /// Where the root page lies.
    pub offset: u64,
    /// Its bytes.
    pub size: u32,
    /// Their checksum.
    pub page_checksum: Crc32c,
    /// Levels above the leaves.
    pub level: u8,
    /// Entries of the tree.
    pub count: u64,
    /// The caller's number of the checkpoint.
    pub generation: u64,
    /// Bytes of all pages that the root reaches, itself included. The rest of the file is what
    /// earlier checkpoints needed, or other trees do.
    pub live_bytes: u64,
    /// The caller's.
    pub metadata: Vec<u8>,
}

/// Why bytes are no root record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// They begin otherwise.
    #[error("not a root record")]
    Magic,
    /// Another build wrote it.
    #[error("a root record of version {0}; this build reads version {VERSION}")]
    Version(u32),
    /// They are not as many as the record says, or fewer than any has.
    #[error("a root record of another size")]
    Size,
    /// They do not match their checksum.
    #[error("a root record that does not match its checksum")]
    Checksum,
}

impl RootRecord {
    /// The record's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.page_checksum.to_le_bytes());
        out.extend_from_slice(&u32::from(self.level).to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.live_bytes.to_le_bytes());
        let size = u32::try_from(self.metadata.len()).expect("metadata is far below 4 GiB");
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&self.metadata);
        let checksum = crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads a record that is all of `bytes`.
    ///
    /// # Errors
    /// When they are none, or not what was written.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut fields = RecordFields(bytes);
        if fields.take::<8>()? != MAGIC {
            return Err(RecordError::Magic);
        }
        let version = fields.u32()?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let body = bytes.split_last_chunk::<4>().ok_or(RecordError::Size)?;
        if crc32c(body.0) != u32::from_le_bytes(*body.1) {
            return Err(RecordError::Checksum);
        }
        let (offset, size, page_checksum) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let level = u8::try_from(fields.u32()?).map_err(|_| RecordError::Size)?;
        let (count, generation, live_bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let metadata_size = fields.u32()? as usize;
        let metadata = body.0.get(HEAD_SIZE..).ok_or(RecordError::Size)?.to_vec();
        if metadata.len() != metadata_size {
            return Err(RecordError::Size);
        }
        Ok(Self { offset, size, page_checksum, level, count, generation, live_bytes, metadata })
    }
}

/// Bytes not yet read.
struct RecordFields<'a>(&'a [u8]);

impl RecordFields<'_> {
    fn take<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], RecordError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(RecordError::Size)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, RecordError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, RecordError> {
        Ok(u64::from_le_bytes(self.take()?))
    }
}

#[cfg(test)]
mod tests {
    use super::RootRecord;

    #[test]
    fn a_record_is_read_back_and_one_altered_or_cut_anywhere_is_refused() {
        let record = RootRecord {
            offset: 1 << 33,
            size: 77,
            page_checksum: 0xdead_beef,
            level: 3,
            count: 10_000_000,
            generation: 12,
            live_bytes: 1 << 29,
            metadata: b"term 4, index 99".to_vec(),
        };
        let bytes = record.encode();
        assert_eq!(RootRecord::decode(&bytes), Ok(record));
        for at in 0..bytes.len() {
            assert!(RootRecord::decode(&bytes[..at]).is_err());
            for bit in 0..8 {
                let mut altered = bytes.clone();
                altered[at] ^= 1 << bit;
                assert!(RootRecord::decode(&altered).is_err(), "byte {at} bit {bit}");
            }
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(RootRecord::decode(&longer).is_err());
    }
}
