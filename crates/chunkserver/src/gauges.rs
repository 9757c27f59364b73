//! What a chunkserver tells of itself while it runs: noted by its driver, and read by any thread.
//!
//! - CG1: who reads it waits for no disk: what a disk tells is as it was when a job came back that
//!   had looked at it. One that stands still leaves an old word, and its age.

use cairn_chunk_core::ChunkGauges;
use cairn_env::ServerSpace;
use cairn_types::Time;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The data directories and what the process held, as of some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceTold {
    /// As the last look found it.
    pub space: ServerSpace,
    /// When that came back; none: only the start has looked.
    pub at: Option<Time>,
}

/// Shared by the driver and whoever asks. A reader holds a lock for as long as it takes to copy
/// what is told.
#[derive(Debug, Default)]
pub struct ChunkserverGauges {
    told: Mutex<ChunkGauges>,
    space: Mutex<SpaceTold>,
}

impl ChunkserverGauges {
    /// Of a server that found its disks so when it started.
    pub(crate) fn starting(space: ServerSpace) -> Self {
        Self { space: Mutex::new(SpaceTold { space, at: None }), ..Self::default() }
    }

    /// As it was after the last batch of events.
    #[must_use]
    pub fn told(&self) -> ChunkGauges {
        *held(&self.told)
    }

    /// The disks as they were last looked at, which each heartbeat asks for (CG1).
    #[must_use]
    pub fn space(&self) -> SpaceTold {
        held(&self.space).clone()
    }

    pub(crate) fn note(&self, told: ChunkGauges) {
        *held(&self.told) = told;
    }

    pub(crate) fn note_space(&self, at: Time, space: ServerSpace) {
        *held(&self.space) = SpaceTold { space, at: Some(at) };
    }
}

fn held<T>(told: &Mutex<T>) -> MutexGuard<'_, T> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}
