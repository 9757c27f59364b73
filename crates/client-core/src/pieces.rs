//! How ranges of a file are cut into pieces.

use cairn_types::ChunkIndex;

/// Bytes that one read, push or write carries at most; ends lie on multiples of it.
pub(crate) const PIECE_SIZE: u64 = 1 << 20;
/// Pieces of one operation under way at once.
pub(crate) const PIECES_IN_FLIGHT: usize = 8;
/// The piece of `offset..end` that lies in one chunk and ends on a multiple of the piece size:
/// chunk, offset in it, size.
pub(crate) fn first_piece(offset: u64, end: u64, chunk_size: u64) -> (ChunkIndex, u64, u64) {
    assert!(offset < end, "nothing of {offset}..{end} is left");
    let within = offset % chunk_size;
    let piece_end = (within / PIECE_SIZE + 1).saturating_mul(PIECE_SIZE).min(chunk_size);
    let size = (piece_end - within).min(end - offset);
    assert!(size > 0 && within + size <= chunk_size, "a piece lies in one chunk");
    (ChunkIndex::new(offset / chunk_size), within, size)
}

#[cfg(test)]
mod tests {
    use super::first_piece;
    use cairn_types::ChunkIndex;

    #[test]
    fn pieces_end_at_chunk_boundaries_and_on_multiples_of_a_mebibyte() {
        let mib = 1 << 20;
        let piece = |offset, end| first_piece(offset, end, 4 * mib);
        assert_eq!(piece(0, 10), (ChunkIndex::new(0), 0, 10));
        assert_eq!(piece(5, 8 * mib), (ChunkIndex::new(0), 5, mib - 5));
        assert_eq!(piece(4 * mib - 1, 8 * mib), (ChunkIndex::new(0), 4 * mib - 1, 1));
        assert_eq!(piece(4 * mib, 8 * mib), (ChunkIndex::new(1), 0, mib));
        assert_eq!(first_piece(100, 9999, 4096), (ChunkIndex::new(0), 100, 3996));
    }
}
