//! What a `Fetch` brought, looked at before anything is done with it: whole blocks of another
//! server's replica, where they were asked for.
//!
//! - FB1: bytes pass by as they came; the disk verifies them before it stores them.

use bytes::Bytes;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{BlockChecksums, CellConfig};

/// Blocks of which each has a checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchedBlocks {
    pub(crate) offset: u64,
    pub(crate) checksums: BlockChecksums,
    pub(crate) bytes: Bytes,
}

impl FetchedBlocks {
    /// Blocks that came for a question from `asked` on; none: there are none that differ.
    pub(crate) fn of(
        asked: u64,
        (offset, checksums): (u64, BlockChecksums),
        bytes: Bytes,
        config: &CellConfig,
    ) -> Result<Option<Self>, Failure> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let end = offset.checked_add(bytes.len() as u64);
        if offset < asked || end.is_none_or(|end| end > config.chunk_size) {
            let why = format!("{} bytes at {offset} were not asked for", bytes.len());
            return Err(Failure::not_done(ErrorCode::Invalid, why));
        }
        Ok(Some(Self { offset, checksums, bytes }))
    }

    /// Where they end.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}
