//! What a run is asked for, and what it tells.

use crate::fault_mix::{FaultKind, FaultMix};
use cairn_env_sim::WorldTime;
use cairn_types::planted::Rule;
use std::collections::BTreeMap;

/// One run: everything random in it comes out of `seed`.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The seed.
    pub seed: u64,
    /// Simulated seconds of faults, before all of them stop and the cell must heal.
    pub seconds: u64,
    /// Chunkservers.
    pub servers: usize,
    /// Members of the group of masters, at first.
    pub masters: usize,
    /// Masters beside them whose disks are empty.
    pub spare_masters: usize,
    /// Whether each clock runs as fast as any may, or as slow.
    pub clocks_at_bounds: bool,
    /// A rule broken on purpose, in builds that can.
    pub planted: Option<Rule>,
    /// Tell each event on standard error.
    pub trace: bool,
    /// Which faults, and how often.
    pub faults: FaultMix,
    /// Whether names are asked for in batches too.
    pub batches: bool,
    /// Whether a client says levels of replication, and others.
    pub levels: bool,
    /// Whether snapshots are taken, and the copies written to.
    pub snapshots: bool,
    /// Whether people of different names use the same files and directories.
    pub people: bool,
    /// Whether producers write a stream, and readers follow it.
    pub streams: bool,
    /// Whether a client has to get on while faults last, and every replica is read at the end.
    pub strict: bool,
    /// Whether the cell has to heal when the faults are over.
    pub heals: bool,
    /// Of which checker alone complaints count; of each, without.
    pub only: Option<&'static str>,
}

impl RunConfig {
    /// The usual run of a seed: a minute, and a cell whose size the seed chooses.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            seconds: 60,
            servers: 3 + usize::try_from(seed % 4).expect("below four"),
            masters: 1,
            spare_masters: 0,
            clocks_at_bounds: false,
            planted: None,
            trace: false,
            faults: FaultMix::of(seed),
            batches: true,
            levels: true,
            snapshots: true,
            people: false,
            streams: false,
            strict: false,
            heals: false,
            only: None,
        }
    }

    /// The hard run of a seed: with the faults of issue 15. Where a server is cut off from its
    /// peers, one run in three lasts for minutes, with fewer faults, so that enough servers are
    /// well for long enough to have to get on without it. One run in four has three masters.
    #[must_use]
    pub fn hard(seed: u64) -> Self {
        let mut faults = FaultMix::hard(seed);
        let long = faults.has(FaultKind::CutOffFromPeers) && seed.is_multiple_of(3);
        let seconds = if long { 180 } else { 60 };
        if long {
            faults.every_ms *= 8;
        }
        let masters = if seed % 4 == 2 { 3 } else { 1 };
        Self { seconds, faults, masters, strict: true, people: true, ..Self::of(seed) }
    }

    /// The same with three masters and a spare one, and what befalls groups.
    #[must_use]
    pub fn with_group(self) -> Self {
        let faults = self.faults.with_group(self.seed);
        let clocks_at_bounds = self.seed / 4 % 2 == 1;
        Self { faults, masters: 3, spare_masters: 1, clocks_at_bounds, ..self }
    }

    /// The same with a stream that producers write, each record once.
    #[must_use]
    pub fn with_streams(self) -> Self {
        Self { streams: true, ..self }
    }

    /// The run of a seed that has to heal in full when the faults are over: with those of issue 16,
    /// several data directories on some servers, and a person who tends the cell. People who share
    /// names change nothing of that.
    #[must_use]
    pub fn healing(seed: u64) -> Self {
        let faults = FaultMix::heals(seed);
        Self { faults, heals: true, masters: 1, people: false, ..Self::hard(seed) }
    }
}

/// A checker's complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    /// Which checker.
    pub checker: &'static str,
    /// What is wrong.
    pub message: String,
    /// True time.
    pub at: WorldTime,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Operations that clients finished, whatever their outcome.
    pub operations: u64,
    /// Each fault fired and each rare branch taken, how often.
    pub reached: BTreeMap<&'static str, u64>,
    /// One number for all that happened.
    pub trace_hash: u64,
    /// The first complaint, if any.
    pub failure: Option<CheckFailure>,
}
