//! What lies beside each chunk file; docs/formats/chunk-sidecar.md.
//!
//! ```text
//!   0  head slot 0, 512 bytes     512  head slot 1     1024  bound CRC32C u32 of each whole block
//! ```
//! The last block's checksum stands in the head while the block is partial, because it changes
//! with each append and must change with the length, at once.
//!
//! - H1: a head says how much of the array behind it counts: `length / block_size` checksums.
//! - H2: heads are numbered; the newest that is whole and fits its data is the chunk's (R26).
//! - H3: a block's checksum is bound to its place: what a disk wrote to a wrong one, bytes and
//!   checksums alike, does not match there.

use crate::{FormatError, sealed};
use cairn_types::{ChunkHandle, ChunkVersion, Crc32c, SerialNumber};

/// Bytes of one head slot.
pub const HEAD_SLOT_SIZE: usize = 512;
/// Where the block checksums start.
pub const BLOCK_CHECKSUMS_OFFSET: u64 = 2 * HEAD_SLOT_SIZE as u64;

const MAGIC: [u8; 8] = *b"CAIRNCHK";
const VERSION: u32 = 2;

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
    /// Its file was made as a clone of another's, with whose it may share bytes on the disk.
    pub reflinked: bool,
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
        out.extend_from_slice(&u32::from(self.reflinked).to_le_bytes());
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
            reflinked: fields.u32()? & 1 == 1,
        })
    }
}

/// What tells this block's place from all others, as far as 32 bits can.
fn place_of(handle: ChunkHandle, block: u64) -> u32 {
    let mixed = handle.get().wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(block);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 32) as u32
}

/// The array's bytes for these checksums of whole blocks from `first` on (H3).
#[must_use]
pub fn encode_block_checksums(handle: ChunkHandle, first: u64, checksums: &[Crc32c]) -> Vec<u8> {
    let bound = |(block, sum): (u64, &Crc32c)| (sum ^ place_of(handle, block)).to_le_bytes();
    (first..).zip(checksums).flat_map(bound).collect()
}

/// The checksums of whole blocks from `first` on, out of the array's bytes (H3).
#[must_use]
pub fn decode_block_checksums(handle: ChunkHandle, first: u64, raw: &[u8]) -> Vec<Crc32c> {
    let (sums, _) = raw.as_chunks::<4>();
    (first..).zip(sums).map(|(block, sum)| decode_block_checksum(handle, block, *sum)).collect()
}

/// The checksum of a whole block, as it stands in the sidecar.
#[must_use]
pub fn decode_block_checksum(handle: ChunkHandle, block: u64, raw: [u8; 4]) -> Crc32c {
    Crc32c::from_le_bytes(raw) ^ place_of(handle, block)
}

/// Where the checksum of whole block `block` stands.
#[must_use]
pub const fn block_checksum_offset(block: u64) -> u64 {
    BLOCK_CHECKSUMS_OFFSET + 4 * block
}

#[cfg(test)]
mod tests {
    use super::{ChunkHead, HEAD_SLOT_SIZE, decode_block_checksums, encode_block_checksums};
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
            reflinked: false,
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

    #[test]
    fn checksums_come_back_at_their_place_and_at_no_other() {
        let (chunk, other) = (ChunkHandle::new(77), ChunkHandle::new(78));
        let sums = [1, 2, 3];
        let raw = encode_block_checksums(chunk, 5, &sums);
        assert_eq!(decode_block_checksums(chunk, 5, &raw), sums);
        for (handle, first) in [(chunk, 4), (chunk, 6), (other, 5), (other, 4)] {
            let moved = decode_block_checksums(handle, first, &raw);
            assert!(
                moved.iter().zip(sums).all(|(there, here)| *there != here),
                "{handle:?} {first}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = ChunkHead::decode(&raw);
        }
    }
}
