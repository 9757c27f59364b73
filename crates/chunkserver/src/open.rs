//! Starting a chunkserver on its data directories.

use crate::Chunkserver;
use crate::gauges::ChunkserverGauges;
use cairn_chunk_core::{ChunkCore, ChunkCoreConfig, ScrubSettings};
use cairn_env::Disk;
use cairn_store::{ChunkDisk, StoreOpenError};
use cairn_types::{Address, CellId, Incarnation, Rack, Random, ReplicaAt, ServerId};
use std::sync::Arc;

/// Settings of one chunkserver.
#[derive(Clone, Debug)]
pub struct ChunkserverConfig {
    /// `host:port` by which others reach it.
    pub address: Address,
    /// Where it stands, for placement: `/dc1/r7`.
    pub rack: Rack,
    /// The cell's masters; at least one.
    pub masters: Vec<Address>,
    /// Random bits of this start; ids are drawn from them (R5).
    pub seed: u64,
    /// Bytes of pushed data that may wait for their mutation. For whoever has many clients and
    /// little memory.
    pub push_buffer_size: u64,
    /// How often its blocks are verified, and how fast.
    pub scrub: ScrubSettings,
}

/// Why a chunkserver cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkserverOpenError {
    /// A data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    /// The settings make no sense.
    #[error("{0}")]
    Config(&'static str),
}

impl Chunkserver {
    /// Recovers what the directories hold, and makes the driver and its disk work.
    ///
    /// # Errors
    /// [`ChunkserverOpenError`] says which directory, what is wrong with it and what to do.
    pub fn open(
        disks: Vec<Arc<dyn Disk>>,
        config: ChunkserverConfig,
    ) -> Result<(Self, Arc<ChunkDisk>), ChunkserverOpenError> {
        if config.masters.is_empty() {
            return Err(ChunkserverOpenError::Config(
                "a chunkserver needs the address of a master",
            ));
        }
        if disks.is_empty() {
            return Err(ChunkserverOpenError::Config("a chunkserver needs a data directory"));
        }
        let (disk, found) = ChunkDisk::open(disks, config.push_buffer_size)?;
        let mut random = Random::new(config.seed);
        // A server that never joined draws its id; joining writes it down.
        let drawn = (CellId::default(), ServerId::new(random.next_u64().max(1)));
        let (cell, server) = found.identity.unwrap_or(drawn);
        let settings = ChunkCoreConfig {
            at: ReplicaAt { server, address: config.address, rack: config.rack },
            incarnation: Incarnation::new(random.next_u64().max(1)),
            masters: config.masters,
            cell,
            term: found.term,
            reign: found.reign,
            highest_handle: found.highest_handle,
            highest_version: found.highest_version,
            scrub: config.scrub,
            scrubbed: found.scrub,
        };
        let space = disk.server_space();
        let gauges = Arc::new(ChunkserverGauges::starting(space.clone()));
        let mut core = ChunkCore::new(settings, &found.replicas, space);
        core.mark_bad(&found.bad);
        core.mark_damaged(&found.damaged);
        core.mark_unread(&found.unread);
        let disk = Arc::new(disk);
        let (directories, warnings) = (disk.directories(), found.warnings);
        let block_size = 0;
        let server = Self { core, disk: disk.clone(), directories, block_size, warnings, gauges };
        Ok((server, disk))
    }
}
