//! Who a chunkserver is, and what its cell has agreed on.

use crate::scrub::ScrubSettings;
use cairn_format::ScrubPosition;
use cairn_types::{
    Address, CellConfig, CellId, ChunkHandle, ChunkVersion, Incarnation, ReignId, ReplicaAt, Term,
};

/// Who this server is and whom it serves.
#[derive(Clone, Debug)]
pub struct ChunkCoreConfig {
    /// Its id, its address as others reach it, its rack.
    pub at: ReplicaAt,
    /// Drawn at this start (R5).
    pub incarnation: Incarnation,
    /// The cell's masters.
    pub masters: Vec<Address>,
    /// The cell it belongs to; none before its first join.
    pub cell: CellId,
    /// The highest term it has heard of (R2).
    pub term: Term,
    /// Whose term it was that took it in last (R1).
    pub reign: (Term, ReignId),
    /// The highest handle that its disks have ever seen (R1).
    pub highest_handle: ChunkHandle,
    /// The highest version that its disks have ever seen (R1).
    pub highest_version: ChunkVersion,
    /// How often its blocks are verified.
    pub scrub: ScrubSettings,
    /// How far they were verified in an earlier life.
    pub scrubbed: ScrubPosition,
}

/// The cell's settings, as the master tells them.
#[derive(Debug)]
pub(crate) struct CellSettings {
    config: CellConfig,
    told: bool,
}

impl CellSettings {
    /// Before a master has told them: what most cells have, good for nothing but waiting.
    pub(crate) fn untold() -> Self {
        Self { config: CellConfig::standard(), told: false }
    }

    pub(crate) fn learn(&mut self, config: CellConfig) {
        (self.config, self.told) = (config, true);
    }

    pub(crate) fn config(&self) -> &CellConfig {
        &self.config
    }

    /// Whether a master has told them; nothing is served before, for nobody knows yet how large a
    /// chunk is and how long a lease lasts.
    pub(crate) fn are_told(&self) -> bool {
        self.told
    }
}
