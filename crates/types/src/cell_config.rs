//! Settings that must agree in a whole cell. The master keeps them and hands them to all.

use crate::checksum::BLOCK_SIZE;
use crate::policy::REPLICATION_MAX;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The largest chunk. A quarter of it, the largest record, travels as one payload.
pub const CHUNK_SIZE_MAX: u64 = 64 << 20;
/// The largest block: what a receiver of pushed data sums and keeps in one piece.
pub const BLOCK_SIZE_MAX: u32 = 256 << 10;
/// The most blocks of a chunk: a checksum for each must fit into one message with room to spare,
/// and blocks of 4 KB in a chunk of 64 MB are as small as disks have use for.
pub const BLOCKS_PER_CHUNK_MAX: u64 = 1 << 14;

/// The most clones that a server may receive at once.
pub const CLONES_OF_SERVER_MAX: u32 = 64;
/// The least that a server may be held to for its clones.
const CLONE_RATE_MIN: u64 = 64 << 10;
const CLONE_RATE_MAX: u64 = 1 << 40;

const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600 * SECOND_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

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
    pub struct CellConfig {
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
        /// How long what was deleted can be brought back before it is purged. For whoever weighs
        /// disk space against second thoughts.
        13 => keep_deleted_ms: u64,
        /// Bytes a second that one server takes from others for all its clones together; 0: as
        /// fast as it goes. For whoever weighs how long a chunk lacks a replica against links that
        /// others use too; can be changed while the cell runs, as the next two.
        60 => clone_rate: u64,
        /// Clones that a server receives at once, and gives.
        61 => clones_per_server: u32,
        /// Clones of the cell at once.
        62 => clones_per_cell: u32,
        /// Bytes a second that one server copies for settling streams, in idle time; 0: nothing is
        /// settled. For whoever weighs how small the master's memory of streams is against disks
        /// that others use too; can be changed while the cell runs, as the next.
        63 => settle_rate: u64,
        /// How long a stream is quiet before the last small pieces of it are put together too, and
        /// how long a chunk that is being written may keep what is behind it from being settled.
        64 => settle_after_ms: u64,
        /// How long after its last commit a producer of a stream is given its cursor when it is
        /// opened (R47). For whoever has sources that are quiet for months; can be changed while
        /// the cell runs.
        65 => cursors_kept_ms: u64,
    }
}

impl CellConfig {
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
            keep_deleted_ms: 3 * DAY_MS,
            clone_rate: 64 << 20,
            clones_per_server: 2,
            clones_per_cell: 1024,
            settle_rate: 16 << 20,
            settle_after_ms: 10 * 60 * SECOND_MS,
            cursors_kept_ms: 30 * DAY_MS,
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
        let (trash_ms, keep_deleted_ms, settle_after_ms) = (10_000, 10_000, 3_000);
        let (chunk_size, block_size) = (4096, 64);
        Self { chunk_size, block_size, trash_ms, keep_deleted_ms, settle_after_ms, ..Self::small() }
    }

    /// The same, where a cell was founded before there were limits for clones, before streams were
    /// settled, or while all cursors were kept as long: as in a new one.
    #[must_use]
    pub fn completed(self) -> Self {
        if self == Self::default() {
            return self;
        }
        let standard = Self::standard();
        let mut completed = self;
        if completed.clones_per_server == 0 {
            completed.clone_rate = standard.clone_rate;
            completed.clones_per_server = standard.clones_per_server;
            completed.clones_per_cell = standard.clones_per_cell;
        }
        if completed.settle_after_ms == 0 {
            completed.settle_rate = standard.settle_rate;
            completed.settle_after_ms = standard.settle_after_ms;
        }
        if completed.cursors_kept_ms == 0 {
            completed.cursors_kept_ms = standard.cursors_kept_ms;
        }
        completed
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

    /// The longest that a lease may live that an earlier master granted, from the beginning of the
    /// present one's term (R22).
    #[must_use]
    pub fn longest_lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms + self.lease_ms * self.drift_permille / 1000)
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
        self.validate_each()?;
        let refuse = |setting, reason: String| Err(ConfigError { setting, reason });
        let block = u64::from(self.block_size);
        if !self.block_size.is_power_of_two() {
            return refuse("block_size", "a power of two".to_owned());
        }
        if self.chunk_size < 4 * block || !self.chunk_size.is_multiple_of(block) {
            let reason = "a multiple of the block size, at least four blocks";
            return refuse("chunk_size", reason.to_owned());
        }
        if self.chunk_size / block > BLOCKS_PER_CHUNK_MAX {
            let least = self.chunk_size.div_ceil(BLOCKS_PER_CHUNK_MAX).next_power_of_two();
            let reason = format!("at least {least} where a chunk has {} bytes", self.chunk_size);
            return refuse("block_size", reason);
        }
        if self.min_replicas > self.replication {
            return refuse("min_replicas", "at most the replication level".to_owned());
        }
        // R6: the pulse must fit several times into what is judged by it.
        if self.silent_ms < 3 * self.heartbeat_ms {
            return refuse("silent_ms", "at least three heartbeats".to_owned());
        }
        if self.lease_ms < 4 * self.heartbeat_ms {
            let reason = "at least four heartbeats, or no extension arrives in time";
            return refuse("lease_ms", reason.to_owned());
        }
        // A clone that does not get on for dead_ms is given up.
        let turns = 2 * u64::from(self.clones_per_server) * block * 1_000;
        let least = turns.div_ceil(self.dead_ms);
        if self.clone_rate != 0 && self.clone_rate < least {
            let of = self.clones_per_server;
            return refuse("clone_rate", format!("at least {least} with {of} clones of a server"));
        }
        if self.dead_ms < self.silent_ms || self.dead_ms < self.lease_ms {
            return refuse("dead_ms", "at least silent_ms and lease_ms".to_owned());
        }
        Ok(())
    }

    /// Each setting within what makes sense for it, whatever the others are.
    fn validate_each(&self) -> Result<(), ConfigError> {
        let (replication, min_replicas) = (self.replication.into(), self.min_replicas.into());
        // Less than a block or two a second looks like a clone that does not get on.
        let clone_rate = if self.clone_rate == 0 { CLONE_RATE_MAX } else { self.clone_rate };
        let (of_server, of_cell) = (self.clones_per_server.into(), self.clones_per_cell.into());
        let settle_rate = if self.settle_rate == 0 { CLONE_RATE_MAX } else { self.settle_rate };
        let limits: [(&'static str, u64, RangeInclusive<u64>); 19] = [
            ("chunk_size", self.chunk_size, 64..=CHUNK_SIZE_MAX),
            ("block_size", self.block_size.into(), 16..=BLOCK_SIZE_MAX.into()),
            ("replication", replication, 1..=REPLICATION_MAX.into()),
            ("min_replicas", min_replicas, 1..=16),
            ("lease_ms", self.lease_ms, 100..=HOUR_MS),
            ("heartbeat_ms", self.heartbeat_ms, 10..=60 * SECOND_MS),
            ("silent_ms", self.silent_ms, 30..=HOUR_MS),
            ("dead_ms", self.dead_ms, 100..=DAY_MS),
            // Without any drift a holder would use its lease to the master's last moment (L3).
            ("drift_permille", self.drift_permille, 1..=200),
            ("location_ttl_ms", self.location_ttl_ms, SECOND_MS..=DAY_MS),
            ("retry_window_ms", self.retry_window_ms, 10 * SECOND_MS..=7 * DAY_MS),
            ("trash_ms", self.trash_ms, SECOND_MS..=30 * DAY_MS),
            ("keep_deleted_ms", self.keep_deleted_ms, SECOND_MS..=365 * DAY_MS),
            ("clone_rate", clone_rate, CLONE_RATE_MIN..=CLONE_RATE_MAX),
            ("clones_per_server", of_server, 1..=CLONES_OF_SERVER_MAX.into()),
            ("clones_per_cell", of_cell, 1..=65_536),
            ("settle_rate", settle_rate, CLONE_RATE_MIN..=CLONE_RATE_MAX),
            ("settle_after_ms", self.settle_after_ms, 100..=DAY_MS),
            ("cursors_kept_ms", self.cursors_kept_ms, SECOND_MS..=3650 * DAY_MS),
        ];
        for (setting, value, range) in limits {
            if !range.contains(&value) {
                let reason = format!("{value} is not from {} to {}", range.start(), range.end());
                return Err(ConfigError { setting, reason });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_SIZE_MAX, BLOCKS_PER_CHUNK_MAX, CHUNK_SIZE_MAX, CellConfig};

    fn refused(config: &CellConfig) -> Option<&'static str> {
        config.validate().err().map(|error| error.setting)
    }

    #[test]
    fn the_settings_that_are_shipped_are_valid() {
        for config in [CellConfig::standard(), CellConfig::small(), CellConfig::tiny()] {
            assert_eq!(config.validate(), Ok(()));
        }
    }

    #[test]
    fn a_lease_shorter_than_its_extensions_is_refused() {
        let config = CellConfig { lease_ms: 500, ..CellConfig::small() };
        assert_eq!(config.validate().map_err(|e| e.setting), Err("lease_ms"));
    }

    #[test]
    fn no_setting_goes_without_a_least_and_a_most_value() {
        let standard = CellConfig::standard;
        type Set = fn(&mut CellConfig, u64);
        let all: [(&str, Set); 17] = [
            ("chunk_size", |config, value| config.chunk_size = value),
            ("block_size", |config, value| config.block_size = value as u32),
            ("replication", |config, value| config.replication = value as u32),
            ("min_replicas", |config, value| config.min_replicas = value as u32),
            ("lease_ms", |config, value| config.lease_ms = value),
            ("heartbeat_ms", |config, value| config.heartbeat_ms = value),
            ("silent_ms", |config, value| config.silent_ms = value),
            ("dead_ms", |config, value| config.dead_ms = value),
            ("drift_permille", |config, value| config.drift_permille = value),
            ("location_ttl_ms", |config, value| config.location_ttl_ms = value),
            ("retry_window_ms", |config, value| config.retry_window_ms = value),
            ("trash_ms", |config, value| config.trash_ms = value),
            ("keep_deleted_ms", |config, value| config.keep_deleted_ms = value),
            ("clones_per_server", |config, value| config.clones_per_server = value as u32),
            ("clones_per_cell", |config, value| config.clones_per_cell = value as u32),
            ("settle_after_ms", |config, value| config.settle_after_ms = value),
            ("cursors_kept_ms", |config, value| config.cursors_kept_ms = value),
        ];
        for (setting, set) in all {
            for value in [0, u64::MAX] {
                let mut config = standard();
                set(&mut config, value);
                assert_eq!(refused(&config), Some(setting), "{value}");
            }
        }
    }

    #[test]
    fn clones_have_a_rate_at_which_they_get_on_or_no_limit() {
        let of = |clone_rate| refused(&CellConfig { clone_rate, ..CellConfig::standard() });
        assert_eq!([0, 65_536, 6_250_000].map(of), [None; 3]);
        assert_eq!([1, 65_535, u64::MAX].map(of), [Some("clone_rate"); 3]);
        // Each of 64 has a block in half of four seconds.
        let clones_per_server = super::CLONES_OF_SERVER_MAX;
        let of = |clone_rate| {
            refused(&CellConfig { clone_rate, clones_per_server, ..CellConfig::small() })
        };
        assert_eq!([1 << 20, 2 << 20].map(of), [Some("clone_rate"), None]);
    }

    #[test]
    fn settling_has_a_rate_at_which_it_gets_on_or_is_off() {
        let of = |settle_rate| refused(&CellConfig { settle_rate, ..CellConfig::standard() });
        assert_eq!([0, 65_536, 8 << 20].map(of), [None; 3]);
        assert_eq!([1, 65_535, u64::MAX].map(of), [Some("settle_rate"); 3]);
    }

    #[test]
    fn the_checksums_of_a_chunk_are_not_more_than_a_message_takes() {
        let of = |chunk_size, block_size| {
            refused(&CellConfig { chunk_size, block_size, ..CellConfig::standard() })
        };
        assert_eq!(of(CHUNK_SIZE_MAX, 16), Some("block_size"));
        assert_eq!(of(CHUNK_SIZE_MAX, 2048), Some("block_size"));
        assert_eq!(of(CHUNK_SIZE_MAX, 4096), None);
        assert_eq!(of(64 * BLOCKS_PER_CHUNK_MAX, 64), None);
        assert_eq!(of(CHUNK_SIZE_MAX, BLOCK_SIZE_MAX), None);
        assert_eq!(of(CHUNK_SIZE_MAX, 2 * BLOCK_SIZE_MAX), Some("block_size"));
        assert_eq!(of(2 * CHUNK_SIZE_MAX, 65536), Some("chunk_size"));
    }

    #[test]
    fn a_holder_counts_its_longest_lease_without_overflow() {
        let config = CellConfig {
            lease_ms: super::HOUR_MS,
            dead_ms: super::DAY_MS,
            drift_permille: 200,
            ..CellConfig::standard()
        };
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.lease_of_holder(), config.lease() * 4 / 5);
    }
}
