//! The payload of one push as it arrives: cut into segments, each verified before anyone sees it.
//!
//! ```text
//!   block boundaries   |       |       |       |
//!   pieces             [--][---][---]…[---][-]       one checksum each
//!   segments           [──────────────][─────]       at most 256 KiB, ending where pieces end
//! ```
//! - V1: a segment is handed out only once all its pieces match their checksums (E5).

use bytes::Bytes;
use cairn_env::buffer_pool::{Buffer, BufferPool, SEGMENT_SIZE};
use cairn_protocol::{ErrorCode, Failure, Push};
use cairn_types::{BLOCK_SIZE, BlockChecksums, Crc32c, crc32c};

/// What receiving bytes led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// The segment is not yet full.
    Part,
    /// A verified segment; `last` ends the push.
    Segment { bytes: Bytes, last: bool },
    /// A segment that does not match; this many bytes of the push are still to come.
    Corrupt { left: usize },
}

/// The size of a push's blocks: the standard one where it says none.
pub(crate) fn block_size(push: &Push) -> u32 {
    if push.block_size == 0 { BLOCK_SIZE } else { push.block_size }
}

/// A push half received.
#[derive(Debug)]
pub(crate) struct PushReceiver {
    block_size: usize,
    checksums: Vec<Crc32c>,
    /// The checksum of the segment's first piece.
    next_checksum: usize,
    /// Where the segment starts, counted from the start of the push's first block.
    position: usize,
    /// Bytes of the whole push.
    size: usize,
    /// Bytes of the push behind the segment.
    left: usize,
    segment: Buffer,
    filled: usize,
}

impl PushReceiver {
    /// Ready for the first byte.
    ///
    /// # Errors
    /// A [`Failure`] where the message cannot be true of a payload of `size` bytes.
    pub(crate) fn new(push: &Push, size: usize, pool: &BufferPool) -> Result<Self, Failure> {
        let refuse = |why| Err(Failure::refused(ErrorCode::Invalid, why));
        let block_size = block_size(push);
        if block_size as usize > SEGMENT_SIZE || push.block_offset >= block_size {
            return refuse(format!(
                "pushed data at {} of a block of {block_size} bytes; this build takes blocks of \
                 up to {SEGMENT_SIZE}",
                push.block_offset
            ));
        }
        let count = BlockChecksums::count(u64::from(push.block_offset), size as u64, block_size);
        if size == 0 || push.checksums.0.len() as u64 != count {
            return refuse(format!(
                "{size} pushed bytes have {count} pieces, the message {} checksums",
                push.checksums.0.len()
            ));
        }
        push.check_order(size)?;
        let (block_size, position) = (block_size as usize, push.block_offset as usize);
        let first = segment_size(position, size, block_size);
        Ok(Self {
            block_size,
            checksums: push.checksums.0.clone(),
            next_checksum: 0,
            position,
            size,
            left: size - first,
            segment: pool.take(first),
            filled: 0,
        })
    }

    /// Bytes of the whole push, and of its checksums.
    pub(crate) fn size(&self) -> usize {
        self.size + size_of_val(self.checksums.as_slice())
    }

    /// How many of its bytes are here.
    pub(crate) fn received(&self) -> usize {
        let ahead = self.left + self.segment.as_ref().len() - self.filled;
        self.size - ahead + size_of_val(self.checksums.as_slice())
    }

    /// Where the next bytes go; never empty, never beyond the segment.
    pub(crate) fn target(&mut self) -> &mut [u8] {
        &mut self.segment.to_fill()[self.filled..]
    }

    /// `count` bytes have been put into the target.
    pub(crate) fn advance(&mut self, count: usize, pool: &BufferPool) -> Received {
        self.filled += count;
        if self.filled < self.segment.as_ref().len() {
            return Received::Part;
        }
        if !self.segment_matches() {
            return Received::Corrupt { left: self.left };
        }
        self.position += self.filled;
        self.filled = 0;
        let next = segment_size(self.position, self.left, self.block_size);
        self.left -= next;
        let done = std::mem::replace(&mut self.segment, pool.take(next));
        Received::Segment { bytes: done.freeze(), last: next == 0 }
    }

    fn segment_matches(&mut self) -> bool {
        let bytes = self.segment.as_ref();
        let mut start = 0;
        while start < bytes.len() {
            let lead = (self.position + start) % self.block_size;
            let end = (start + self.block_size - lead).min(bytes.len());
            if self.checksums.get(self.next_checksum) != Some(&crc32c(&bytes[start..end])) {
                return false;
            }
            self.next_checksum += 1;
            start = end;
        }
        true
    }
}

/// As many whole pieces as fit into a segment that starts at `position`.
fn segment_size(position: usize, left: usize, block_size: usize) -> usize {
    let lead = position % block_size;
    ((lead + SEGMENT_SIZE) / block_size * block_size - lead).min(left)
}

#[cfg(test)]
mod tests {
    use super::{PushReceiver, Received};
    use bytes::Bytes;
    use cairn_env::buffer_pool::{BufferPool, SEGMENT_SIZE};
    use cairn_protocol::Push;
    use cairn_types::{BLOCK_SIZE, BlockChecksums};

    fn push(offset: u32, bytes: &[u8], block_size: u32) -> Push {
        Push {
            block_offset: offset,
            checksums: BlockChecksums::of(u64::from(offset), bytes, block_size),
            block_size,
            ..Push::default()
        }
    }

    /// Feeds `bytes` in steps; the segments, and how many bytes were left at a corrupt one.
    fn receive(push: &Push, bytes: &[u8], step: usize) -> (Vec<Bytes>, Option<usize>) {
        let pool = BufferPool::default();
        let mut receiver = PushReceiver::new(push, bytes.len(), &pool).expect("a good push");
        let (mut rest, mut segments) = (bytes, Vec::new());
        loop {
            let target = receiver.target();
            let count = step.min(target.len()).min(rest.len());
            assert!(count > 0, "the receiver waits for bytes that never come");
            target[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            match receiver.advance(count, &pool) {
                Received::Part => {}
                Received::Segment { bytes, last } => {
                    segments.push(bytes);
                    if last {
                        assert!(rest.is_empty());
                        return (segments, None);
                    }
                }
                Received::Corrupt { left } => {
                    assert_eq!(left, rest.len());
                    return (segments, Some(left));
                }
            }
        }
    }

    #[test]
    fn segments_end_on_piece_boundaries_and_hold_all_the_bytes() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| at as u8).collect();
        for (offset, block) in [(0, BLOCK_SIZE), (100, BLOCK_SIZE), (65_535, BLOCK_SIZE), (7, 64)] {
            let (segments, corrupt) = receive(&push(offset, &bytes, block), &bytes, 9999);
            assert_eq!(corrupt, None);
            assert_eq!(segments.concat(), bytes);
            let mut end = offset as usize;
            for segment in &segments[..segments.len() - 1] {
                end += segment.len();
                assert!(segment.len() <= SEGMENT_SIZE && end.is_multiple_of(block as usize));
            }
        }
    }

    #[test]
    fn a_flipped_byte_stops_its_segment_and_lets_the_ones_before_pass() {
        let mut bytes = vec![5u8; 3 * SEGMENT_SIZE];
        let push = push(0, &bytes, BLOCK_SIZE);
        bytes[SEGMENT_SIZE + 1] ^= 1;
        let (segments, corrupt) = receive(&push, &bytes, 1 << 20);
        assert_eq!((segments.len(), corrupt), (1, Some(SEGMENT_SIZE)));
    }

    #[test]
    fn a_message_that_cannot_be_true_of_its_payload_is_refused() {
        let pool = BufferPool::default();
        let good = push(10, &[1; 100], 64);
        assert!(PushReceiver::new(&good, 100, &pool).is_ok());
        assert!(PushReceiver::new(&good, 0, &pool).is_err());
        assert!(PushReceiver::new(&good, 300, &pool).is_err(), "too few checksums");
        let outside = Push { block_offset: 64, ..good.clone() };
        assert!(PushReceiver::new(&outside, 100, &pool).is_err());
        let huge = Push { block_size: 1 << 30, ..good };
        assert!(PushReceiver::new(&huge, 100, &pool).is_err());
    }
}
