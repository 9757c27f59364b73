//! What a mutation of a chunk is, where it ends up, and which failures are a primary's word on it.

use cairn_protocol::ErrorCode;
use cairn_types::ChunkIndex;

/// What is asked of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) enum MutationKind {
    /// At an offset of a chunk.
    Write { index: ChunkIndex, offset: u64, sync: bool },
    /// At the file's end.
    Append { sync: bool },
    /// Nothing new: everything so far on disk.
    Sync { index: ChunkIndex },
}

/// Where a mutation was applied: a range of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AppliedRange {
    pub(crate) index: ChunkIndex,
    /// Where in the chunk it begins.
    pub(crate) offset: u64,
    /// Where in the chunk it ends; of a sync, what of the chunk is on disk.
    pub(crate) end: u64,
    /// In which life of the chunk's unsynced bytes; of a sync, which life's are on disk.
    pub(crate) life: u64,
}

/// Whether it is the primary's answer to an order, and not one to the push that brings it. What
/// either may say, and what is not for good, has the data sent anew.
pub(super) fn answers_order(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PushMissing
            | ErrorCode::StaleVersion
            | ErrorCode::NoSuchChunk
            | ErrorCode::ChunkClosed
            | ErrorCode::NotPrimary
    )
}
