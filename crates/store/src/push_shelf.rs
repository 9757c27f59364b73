//! Pushed data that waits for the mutations that name it.
//!
//! - P1: pushed data that was applied is kept a little longer, for a mutation that comes again
//!   after the set was changed (R14); then its memory goes to those still waiting.

use crate::mutation::ReadyMutation;
use cairn_env::{
    ApplyMutation, ChunkError, PUSH_OVERHEAD, PushBuffer, PushLookupError, PushedData,
};
use cairn_types::PushId;
use std::collections::VecDeque;

/// Bytes of applied pushes that are kept (P1).
const APPLIED_KEPT: u64 = 4 << 20;

/// The buffer of pushed data, and which of it was applied.
#[derive(Debug)]
pub(crate) struct PushShelf {
    buffer: PushBuffer,
    /// Applied ones and their sizes, oldest first (P1).
    applied: VecDeque<(PushId, u64)>,
    applied_size: u64,
}

impl PushShelf {
    /// An empty one with room for so many bytes.
    pub(crate) fn new(size_max: u64) -> Self {
        let (buffer, applied) = (PushBuffer::new(size_max), VecDeque::new());
        Self { buffer, applied, applied_size: 0 }
    }

    /// Bytes of memory that it takes, and may take.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.buffer.size(), self.buffer.size_max())
    }

    /// Takes pushed data.
    pub(crate) fn keep(&mut self, push: PushId, data: PushedData) {
        self.buffer.keep(push, data);
    }

    /// A mutation of a chunk of such blocks, with what it names (R15). Data cut at other blocks
    /// than the chunk's is not what it means: its checksums would become those of blocks that they
    /// are not of.
    pub(crate) fn ready(
        &mut self,
        mutation: &ApplyMutation,
        block_size: u32,
    ) -> Result<ReadyMutation, ChunkError> {
        let ApplyMutation { serial, offset, size, push, ref checksums } = *mutation;
        let find = |push| match self.buffer.get(push, size, checksums) {
            Ok(data) if data.block_size == block_size => Ok(data),
            Ok(_) | Err(PushLookupError::Differs) => Err(ChunkError::PushDiffers { push }),
            Err(PushLookupError::Missing) => Err(ChunkError::PushMissing { push }),
        };
        Ok(ReadyMutation { serial, offset, size, data: push.map(find).transpose()? })
    }

    /// These were applied, and give way to others soon (P1).
    pub(crate) fn applied(&mut self, pushes: Vec<(PushId, u64)>) {
        for (push, size) in pushes {
            // The least that a push takes, however few its bytes are.
            let size = size.max(PUSH_OVERHEAD);
            self.applied_size += size;
            self.applied.push_back((push, size));
        }
        while self.applied_size > APPLIED_KEPT
            && let Some((push, size)) = self.applied.pop_front()
        {
            self.applied_size -= size;
            self.buffer.remove(push);
        }
    }
}
