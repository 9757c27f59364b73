//! The bytes of a piece as they come in.
//!
//! - V1: what is kept has passed its checksums here (§5.2).

use bytes::Bytes;
use cairn_protocol::ReadAnswer;

/// Bytes of zeros that are shared by all who read a hole.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// What a piece came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PieceRead {
    pub(crate) bytes: Vec<Bytes>,
    pub(crate) size: u64,
    /// Nothing lies behind these bytes.
    pub(crate) end: bool,
    /// Some of them came from a replica that may have lost acknowledged bytes (R28).
    pub(crate) suspect: bool,
    /// Readable bytes of the chunk, where `end` and somebody knew.
    pub(crate) readable: Option<u64>,
}

/// The part of an answer that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VerifiedBytes {
    data: Bytes,
    /// Zeros by definition behind it (R19).
    zeros: u64,
}

impl PieceRead {
    /// Takes in what comes next; tells how many bytes that is.
    pub(crate) fn extend(&mut self, VerifiedBytes { data, zeros }: VerifiedBytes) -> u64 {
        let size = data.len() as u64;
        if !data.is_empty() {
            self.bytes.push(data);
        }
        self.size += size;
        self.extend_with_zeros(zeros);
        size + zeros
    }

    pub(crate) fn extend_with_zeros(&mut self, size: u64) {
        let mut rest = size;
        while rest > 0 {
            let part = usize::try_from(rest).unwrap_or(usize::MAX).min(ZEROS.len());
            self.bytes.push(Bytes::from_static(&ZEROS[..part]));
            rest -= part as u64;
        }
        self.size += size;
    }
}

/// Why nothing of an answer is taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnfitAnswer {
    /// A block fails its checksum: where in the chunk it begins, and the bytes before it.
    Rotten { offset: u64, good: VerifiedBytes },
    /// The bytes stand elsewhere than those that were asked for.
    Misplaced,
}

/// The bytes of an answer from `offset` on, at most `size` (V1).
///
/// # Errors
/// They fail their checksums, or are not what was asked for.
pub(crate) fn verified(
    answer: &ReadAnswer,
    payload: &Bytes,
    block_size: u32,
    offset: u64,
    size: u64,
) -> Result<VerifiedBytes, UnfitAnswer> {
    let rotten = answer.checksums.first_mismatch(answer.offset, payload, block_size);
    let within = |place: u64| {
        let at = place.checked_sub(answer.offset).and_then(|at| usize::try_from(at).ok());
        at.filter(|at| *at <= payload.len()).ok_or(UnfitAnswer::Misplaced)
    };
    let (skip, wanted) = (within(offset)?, usize::try_from(size).unwrap_or(usize::MAX));
    if let Some(start) = rotten {
        let end = within(start)?.clamp(skip, skip.saturating_add(wanted));
        let good = VerifiedBytes { data: payload.slice(skip..end), zeros: 0 };
        return Err(UnfitAnswer::Rotten { offset: start, good });
    }
    let data = payload.slice(skip..);
    let data = data.slice(..data.len().min(wanted));
    let zeros = answer.zeros.min(size - data.len() as u64);
    Ok(VerifiedBytes { data, zeros })
}
