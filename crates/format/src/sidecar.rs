//! What lies beside each chunk file; docs/formats/chunk-sidecar.md.
//!
//! ```text
//!   0  head slot 0, 512 bytes     512  head slot 1     1024  CRC32C u32 of each whole block …
//! ```
//! The last block's checksum stands in the head while the block is partial, because it changes
//! with each append and must change with the length, at once.
//!
//! - H1: a head says how much of the array behind it counts: `length / block_size` checksums.
//! - H2: heads are numbered; the newest that is whole and fits its data is the chunk's (R26).

use crate::{FormatError, sealed};
use cairn_types::{ChunkHandle, ChunkVersion, Crc32c, SerialNumber};

/// Bytes of one head slot.
pub const HEAD_SLOT_SIZE: usize = 512;
/// Where the block checksums start.
pub const BLOCK_CHECKSUMS_OFFSET: u64 = 2 * HEAD_SLOT_SIZE as u64;

const MAGIC: [u8; 8] = *b"CAIRNCHK";
const VERSION: u32 = 1;

/// How a replica's bytes stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkHead {
    /// Which head of this chunk; each one written has a higher number (H2).
    pub sequence: u64,
    /// Which chunk.
    pub handle: ChunkHandle,
    /// Bytes under one checksum.
    pub block_size: u32,
    /// The version under which bytes last changed (R29).
    pub mutated_version: ChunkVersion,
    /// The mutation last applied.
    pub serial: SerialNumber,
    /// Stored bytes.
    pub length: u64,
    /// Acknowledged bytes, as far as this replica knows (R17).
    pub acknowledged: u64,
    /// The last serial number acknowledged, as far as this replica knows (R29).
    pub acknowledged_serial: SerialNumber,
    /// The checksum of the last block, while it is partial; else zero.
    pub tail_checksum: Crc32c,
}

impl ChunkHead {
    /// The head of a chunk without bytes.
    #[must_use]
    pub fn empty(handle: ChunkHandle, block_size: u32) -> Self {
        Self { handle, block_size, ..Self::default() }
    }

    /// Whole blocks.
    #[must_use]
    pub fn whole_blocks(&self) -> u64 {
        self.length / u64::from(self.block_size)
    }

    /// Bytes of the last block, while it is partial; else zero.
    #[must_use]
    pub fn tail_size(&self) -> u32 {
        u32::try_from(self.length % u64::from(self.block_size)).expect("less than a block")
    }

    /// The bytes of a slot.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = sealed::begin(MAGIC, VERSION);
        out.extend_from_slice(&self.block_size.to_le_bytes());
        for field in [
            self.sequence,
            self.handle.get(),
            self.mutated_version.get(),
            self.serial.get(),
            self.length,
            self.acknowledged,
            self.acknowledged_serial.get(),
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.tail_checksum.to_le_bytes());
        sealed::seal(out, HEAD_SLOT_SIZE)
    }

    /// Reads a slot.
    ///
    /// # Errors
    /// [`FormatError`]: the slot was never written, or not wholly.
    pub fn decode(slot: &[u8]) -> Result<Self, FormatError> {
        let mut fields = sealed::open(slot, HEAD_SLOT_SIZE, MAGIC, VERSION)?;
        let block_size = fields.u32()?;
        if !block_size.is_power_of_two() {
            return Err(FormatError::Malformed);
        }
        Ok(Self {
            block_size,
            sequence: fields.u64()?,
            handle: ChunkHandle::new(fields.u64()?),
            mutated_version: ChunkVersion::new(fields.u64()?),
            serial: SerialNumber::new(fields.u64()?),
            length: fields.u64()?,
            acknowledged: fields.u64()?,
            acknowledged_serial: SerialNumber::new(fields.u64()?),
            tail_checksum: fields.u32()?,
        })
    }
}

/// Where the checksum of whole block `block` stands.
#[must_use]
pub const fn block_checksum_offset(block: u64) -> u64 {
    BLOCK_CHECKSUMS_OFFSET + 4 * block
}

#[cfg(test)]
mod tests {
    use super::{ChunkHead, HEAD_SLOT_SIZE};
    use crate::FormatError;
    use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber};
    use proptest::prelude::{any, proptest};

    fn head() -> ChunkHead {
        ChunkHead {
            sequence: 9,
            handle: ChunkHandle::new(77),
            block_size: 64,
            mutated_version: ChunkVersion::new(5),
            serial: SerialNumber::new(31),
            length: 1000,
            acknowledged: 900,
            acknowledged_serial: SerialNumber::new(30),
            tail_checksum: 0xdead_beef,
        }
    }

    #[test]
    fn a_head_comes_back_as_it_went() {
        let raw = head().encode();
        assert_eq!(raw.len(), HEAD_SLOT_SIZE);
        assert_eq!(ChunkHead::decode(&raw), Ok(head()));
        assert_eq!((head().whole_blocks(), head().tail_size()), (15, 40));
    }

    #[test]
    fn a_slot_never_written_or_half_written_is_no_head() {
        assert_eq!(ChunkHead::decode(&[0; HEAD_SLOT_SIZE]), Err(FormatError::Magic));
        for bit in 0..HEAD_SLOT_SIZE * 8 {
            let mut raw = head().encode();
            raw[bit / 8] ^= 1 << (bit % 8);
            assert!(ChunkHead::decode(&raw).is_err(), "bit {bit} went unnoticed");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = ChunkHead::decode(&raw);
        }
    }
}
