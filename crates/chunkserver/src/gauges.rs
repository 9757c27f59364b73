//! What a chunkserver tells of itself while it runs: noted by its driver, and read by any thread.

use cairn_chunk_core::ChunkGauges;
use std::sync::{Mutex, PoisonError};

/// Shared by the driver and whoever asks. A reader holds the lock for as long as it takes to copy
/// what is told.
#[derive(Debug, Default)]
pub struct ChunkserverGauges {
    told: Mutex<ChunkGauges>,
}

impl ChunkserverGauges {
    /// As it was after the last batch of events.
    #[must_use]
    pub fn told(&self) -> ChunkGauges {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, told: ChunkGauges) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }
}
