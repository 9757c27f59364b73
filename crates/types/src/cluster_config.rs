//! Settings that must agree in a whole cell. The master keeps them and hands them to all.

use crate::checksum::BLOCK_SIZE;
use std::time::Duration;

/// Why settings do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {setting}: {reason}")]
pub struct ConfigError {
    /// Which setting.
    pub setting: &'static str,
    /// What is wrong with it, and what would do.
    pub reason: String,
}

crate::message! {
    /// What master, chunkservers and clients of one cell must agree on.
    ///
    /// Sizes in bytes, times in milliseconds. Written by the master at its first start; whoever
    /// joins takes them over.
    pub struct ClusterConfig {
        /// The size of a full chunk. For the founder of a cell; the paper's 64 MB suits nearly
        /// everyone, tests use a few KB so that rare paths are common.
        1 => chunk_size: u64,
        /// Bytes under one checksum. For tests; a power of two that divides the chunk.
        2 => block_size: u32,
        /// Replicas of a new file. For whoever weighs disk space against machines lost.
        3 => replication: u32,
        /// Replicas a chunk may be created with where there are not enough servers. For whoever
        /// would rather wait than write with fewer.
        4 => min_replicas: u32,
        /// How long a lease lasts unless extended. For whoever weighs pauses against a longer
        /// wait after a primary's death.
        5 => lease_ms: u64,
        /// How often a chunkserver reports.
        6 => heartbeat_ms: u64,
        /// Silence after which a server is avoided.
        7 => silent_ms: u64,
        /// Silence after which a server counts as dead.
        8 => dead_ms: u64,
        /// How many parts in a thousand two clocks may drift apart (R4).
        9 => drift_permille: u64,
        /// How long a client may use cached locations.
        10 => location_ttl_ms: u64,
        /// How long the outcome of a namespace mutation is kept for a retry (R24).
        11 => retry_window_ms: u64,
        /// How long bytes deleted by garbage collection stay in a server's trash.
        12 => trash_ms: u64,
    }
}

impl ClusterConfig {
    /// The settings of a cell on real machines.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            chunk_size: 64 << 20,
            block_size: BLOCK_SIZE,
            replication: 3,
            min_replicas: 1,
            lease_ms: 10_000,
            heartbeat_ms: 1_000,
            silent_ms: 3_000,
            dead_ms: 30_000,
            drift_permille: 10,
            location_ttl_ms: 60_000,
            retry_window_ms: 600_000,
            trash_ms: 3_600_000,
        }
    }

    /// A cell on one machine (`cairn dev`, `cairn demo`): deaths are believed sooner.
    #[must_use]
    pub fn small() -> Self {
        Self {
            lease_ms: 2_000,
            heartbeat_ms: 250,
            silent_ms: 1_000,
            dead_ms: 4_000,
            ..Self::standard()
        }
    }

    /// 4 KB chunks and 64-byte blocks: in tests the rare paths become common.
    #[must_use]
    pub fn tiny() -> Self {
        Self { chunk_size: 4096, block_size: 64, trash_ms: 10_000, ..Self::small() }
    }

    /// The most that one appended record may have: a quarter of a chunk (§3.3).
    #[must_use]
    pub fn append_size_max(&self) -> u64 {
        self.chunk_size / 4
    }

    /// The lease as the master counts it.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The lease as its holder counts it: shorter by the drift that two clocks may have (R4).
    #[must_use]
    pub fn lease_of_holder(&self) -> Duration {
        Duration::from_millis(self.lease_ms - self.lease_ms * self.drift_permille / 1000)
    }

    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// [`ConfigError`] names the first that does not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse =
            |setting, reason: &str| Err(ConfigError { setting, reason: reason.to_owned() });
        let block = u64::from(self.block_size);
        if !self.block_size.is_power_of_two() || self.block_size < 16 {
            return refuse("block_size", "a power of two, at least 16");
        }
        if self.chunk_size < 4 * block || !self.chunk_size.is_multiple_of(block) {
            return refuse("chunk_size", "a multiple of the block size, at least four blocks");
        }
        if self.chunk_size > 1 << 32 {
            return refuse("chunk_size", "at most 4 GiB");
        }
        if self.replication == 0 || self.replication > 16 {
            return refuse("replication", "from 1 to 16");
        }
        if self.min_replicas == 0 || self.min_replicas > self.replication {
            return refuse("min_replicas", "from 1 to the replication level");
        }
        if self.drift_permille > 200 {
            return refuse("drift_permille", "at most 200");
        }
        // R6: the pulse must fit several times into what is judged by it.
        if self.heartbeat_ms == 0 || self.silent_ms < 3 * self.heartbeat_ms {
            return refuse("silent_ms", "at least three heartbeats");
        }
        if self.lease_ms < 4 * self.heartbeat_ms {
            return refuse("lease_ms", "at least four heartbeats, or no extension arrives in time");
        }
        if self.dead_ms < self.silent_ms || self.dead_ms < self.lease_ms {
            return refuse("dead_ms", "at least silent_ms and lease_ms");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ClusterConfig;

    #[test]
    fn the_settings_that_are_shipped_are_valid() {
        for config in [ClusterConfig::standard(), ClusterConfig::small(), ClusterConfig::tiny()] {
            assert_eq!(config.validate(), Ok(()));
        }
    }

    #[test]
    fn a_lease_shorter_than_its_extensions_is_refused() {
        let config = ClusterConfig { lease_ms: 500, ..ClusterConfig::small() };
        assert_eq!(config.validate().map_err(|e| e.setting), Err("lease_ms"));
    }
}
