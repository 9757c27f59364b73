//! CRC32C, and one checksum per 64 KB block (GFS §5.2).
//!
//! A payload is cut into *pieces* at the block boundaries of the chunk it belongs to: the first
//! and the last piece may be partial, all between are whole blocks. [`BlockChecksums`] holds one
//! CRC32C per piece. They are computed where the bytes are born and checked where they are used.

use crate::wire::{Field, WireError, WireType, encode_slice, take_slice};
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes that one checksum covers. The paper's 64 KB; a setting only in tests' tiny cells.
pub const BLOCK_SIZE: u32 = 64 * 1024;

/// A CRC32C value.
pub type Crc32c = u32;

/// The CRC32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> Crc32c {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC32C of the bytes that `before` covers, followed by `more`.
#[must_use]
pub fn crc32c_append(before: Crc32c, more: &[u8]) -> Crc32c {
    // The library's state is the register before the final inversion.
    let state = u64::from(before ^ u32::MAX);
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state);
    digest.update(more);
    u32::try_from(digest.finalize() & 0xffff_ffff).expect("masked to 32 bits")
}

/// One CRC32C per piece of a payload; little-endian, four bytes each, on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockChecksums(pub Vec<Crc32c>);

impl BlockChecksums {
    /// The checksums of `bytes` that start at `offset` of a chunk with blocks of `block_size`.
    #[must_use]
    pub fn of(offset: u64, bytes: &[u8], block_size: u32) -> Self {
        Self(pieces(offset, bytes.len(), block_size).map(|piece| crc32c(&bytes[piece])).collect())
    }

    /// Whether `bytes` at `offset` are the ones that were summed.
    #[must_use]
    pub fn verify(&self, offset: u64, bytes: &[u8], block_size: u32) -> bool {
        self.first_mismatch(offset, bytes, block_size).is_none()
    }

    /// Where the first piece of `bytes` begins that is not the one that was summed, counted as
    /// `offset` is; none where all are. With more sums than pieces, it is where the bytes end.
    #[must_use]
    pub fn first_mismatch(&self, offset: u64, bytes: &[u8], block_size: u32) -> Option<u64> {
        let mut sums = self.0.iter();
        for piece in pieces(offset, bytes.len(), block_size) {
            let start = piece.start as u64;
            if sums.next() != Some(&crc32c(&bytes[piece])) {
                // Saturating: who sends the bytes says where they stand.
                return Some(offset.saturating_add(start));
            }
        }
        sums.next().map(|_| offset.saturating_add(bytes.len() as u64))
    }

    /// How many pieces `size` bytes at `offset` have.
    #[must_use]
    pub fn count(offset: u64, size: u64, block_size: u32) -> u64 {
        if size == 0 {
            return 0;
        }
        let block = u64::from(block_size);
        (offset + size).div_ceil(block) - offset / block
    }
}

/// The ranges within a payload of `size` bytes at `offset` that lie in one block each.
pub(crate) fn pieces(
    offset: u64,
    size: usize,
    block_size: u32,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let block = block_size as usize;
    let lead = usize::try_from(offset % u64::from(block_size)).expect("less than a block");
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= size {
            return None;
        }
        let end = ((start + lead) / block * block + block - lead).min(size);
        let piece = start..end;
        start = end;
        Some(piece)
    })
}

impl Field for BlockChecksums {
    const PROTO: &'static str = "bytes";
    fn is_default(&self) -> bool {
        self.0.is_empty()
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        let raw: Vec<u8> = self.0.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        encode_slice(tag, &raw, out);
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        let raw = take_slice(wire, input)?;
        let (sums, rest) = raw.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(WireError::Malformed);
        }
        self.0 = sums.iter().map(|sum| Crc32c::from_le_bytes(*sum)).collect();
        Ok(())
    }
}

crate::for_samples! {
    impl crate::sample::Sample for BlockChecksums {
        fn sample(random: &mut crate::Random) -> Self {
            Self(crate::sample::Sample::sample(random))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockChecksums, crc32c, crc32c_append, pieces};

    #[test]
    fn crc32c_has_the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn appending_gives_the_checksum_of_the_whole() {
        let whole = crc32c(b"the quick brown fox");
        assert_eq!(crc32c_append(crc32c(b"the quick"), b" brown fox"), whole);
        assert_eq!(crc32c_append(0, b"123456789"), crc32c(b"123456789"));
    }

    #[test]
    fn pieces_end_at_block_boundaries_of_the_chunk() {
        let cut = |offset, size| pieces(offset, size, 8).collect::<Vec<_>>();
        assert_eq!(cut(0, 20), [0..8, 8..16, 16..20]);
        assert_eq!(cut(6, 20), [0..2, 2..10, 10..18, 18..20]);
        assert_eq!(cut(8, 8), std::slice::from_ref(&(0..8)));
        assert_eq!(cut(3, 0), []);
    }

    #[test]
    fn one_flipped_bit_or_a_missing_sum_does_not_verify() {
        let mut bytes = vec![7u8; 30];
        let sums = BlockChecksums::of(5, &bytes, 8);
        assert_eq!(sums.0.len() as u64, BlockChecksums::count(5, 30, 8));
        assert!(sums.verify(5, &bytes, 8));
        assert!(!BlockChecksums(sums.0[1..].to_vec()).verify(5, &bytes, 8));
        bytes[29] ^= 1;
        assert!(!sums.verify(5, &bytes, 8));
    }

    #[test]
    fn the_first_piece_that_is_not_the_one_summed_is_told() {
        let bytes = [7u8; 30];
        let sums = BlockChecksums::of(5, &bytes, 8);
        let flipped = |at: usize| {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            sums.first_mismatch(5, &bytes, 8)
        };
        assert_eq!(sums.first_mismatch(5, &bytes, 8), None);
        assert_eq!(
            [flipped(0), flipped(2), flipped(3), flipped(12)].map(Option::unwrap),
            [5, 5, 8, 16]
        );
        let more = BlockChecksums([&sums.0[..], &[0]].concat());
        assert_eq!(more.first_mismatch(5, &bytes, 8), Some(35));
        assert_eq!(sums.first_mismatch(u64::MAX, &[8; 30], 8), Some(u64::MAX));
    }
}
