//! Who a chunkserver is, and what its cell has agreed on.

use crate::scrub::ScrubSettings;
use cairn_format::ScrubPosition;
use cairn_protocol::Request;
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

/// Who told the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToldBy {
    Nobody,
    /// A master that is not in charge: good for readers who take what may be behind.
    Shadow,
    /// The one that has taken this server in.
    Master,
}

/// The cell's settings, as masters tell them.
#[derive(Debug)]
pub(crate) struct CellSettings {
    config: CellConfig,
    told_by: ToldBy,
}

impl CellSettings {
    /// Before a master has told them: what most cells have, good for nothing but waiting.
    pub(crate) fn untold() -> Self {
        Self { config: CellConfig::standard(), told_by: ToldBy::Nobody }
    }

    pub(crate) fn learn(&mut self, config: CellConfig) {
        (self.config, self.told_by) = (config, ToldBy::Master);
    }

    /// A master that is not in charge tells them, while no other has.
    pub(crate) fn learn_of_shadow(&mut self, config: CellConfig) {
        let config = config.completed();
        if self.told_by != ToldBy::Master && config.validate().is_ok() {
            (self.config, self.told_by) = (config, ToldBy::Shadow);
        }
    }

    pub(crate) fn config(&self) -> &CellConfig {
        &self.config
    }

    /// Whether the master that has taken this server in has told them.
    pub(crate) fn are_told(&self) -> bool {
        self.told_by == ToldBy::Master
    }

    /// Whether that may be served: nothing before they are known, for nobody knows yet how large a
    /// chunk is and how long a lease lasts; and before a master has taken this server in, only a
    /// reader whom a shadow master sent.
    pub(crate) fn allow(&self, request: &Request) -> bool {
        let takes_behind = matches!(request, Request::Read(read) if read.takes_behind);
        self.are_told() || (takes_behind && self.told_by == ToldBy::Shadow)
    }
}
