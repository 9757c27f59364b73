//! What a run is asked for, and what it tells.

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
    /// A rule broken on purpose, in builds that can.
    pub planted: Option<Rule>,
    /// Tell each event on standard error.
    pub trace: bool,
    /// Which faults, and how often.
    pub faults: FaultMix,
    /// Whether names are asked for in batches too.
    pub batches: bool,
}

impl RunConfig {
    /// The usual run of a seed: a minute, and a cell whose size the seed chooses.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            seconds: 60,
            servers: 3 + usize::try_from(seed % 4).expect("below four"),
            planted: None,
            trace: false,
            faults: FaultMix::of(seed),
            batches: true,
        }
    }
}

/// Weights of the faults; zero: never. One is drawn every so often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultMix {
    /// The usual time between two faults, in milliseconds; zero: no faults at all.
    pub every_ms: u64,
    /// A chunkserver's process is killed.
    pub kill: u64,
    /// A chunkserver's process is killed in the middle of a disk write.
    pub kill_in_write: u64,
    /// A chunkserver's machine loses power.
    pub power_loss: u64,
    /// The master's process is killed.
    pub kill_master: u64,
    /// The master's machine loses power.
    pub power_loss_master: u64,
    /// All processes are killed at once.
    pub kill_all: u64,
    /// All chunkservers lose power at once.
    pub power_loss_all: u64,
    /// Two machines cannot reach each other, one way or both ways.
    pub partition: u64,
    /// A connection breaks after an unknown prefix.
    pub break_connection: u64,
    /// A process stands still.
    pub pause: u64,
    /// A machine's network is slow.
    pub slow: u64,
    /// A machine's disk is slow.
    pub slow_disk: u64,
    /// A wall clock jumps.
    pub jump_wall: u64,
    /// A stored bit flips.
    pub flip_bit: u64,
    /// Payloads are damaged on the wire for a while.
    pub corrupt: u64,
    /// A chunkserver comes back with an image of its disk that was taken earlier.
    pub old_image: u64,
    /// A disk is full for a while.
    pub full_disk: u64,
}

impl FaultMix {
    /// None.
    #[must_use]
    pub fn calm() -> Self {
        Self {
            every_ms: 0,
            kill: 0,
            kill_in_write: 0,
            power_loss: 0,
            kill_master: 0,
            power_loss_master: 0,
            kill_all: 0,
            power_loss_all: 0,
            partition: 0,
            break_connection: 0,
            pause: 0,
            slow: 0,
            slow_disk: 0,
            jump_wall: 0,
            flip_bit: 0,
            corrupt: 0,
            old_image: 0,
            full_disk: 0,
        }
    }

    /// All of them.
    #[must_use]
    pub fn stormy() -> Self {
        Self {
            every_ms: 700,
            kill: 20,
            kill_in_write: 10,
            power_loss: 6,
            kill_master: 6,
            power_loss_master: 2,
            kill_all: 1,
            power_loss_all: 1,
            partition: 20,
            break_connection: 30,
            pause: 15,
            slow: 6,
            slow_disk: 6,
            jump_wall: 4,
            flip_bit: 3,
            corrupt: 3,
            old_image: 2,
            full_disk: 2,
        }
    }

    /// What a seed's run has: mostly everything, at times one kind alone.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let calm = Self::calm();
        match seed % 10 {
            0 => Self { every_ms: 400, kill: 1, kill_in_write: 1, ..calm },
            1 => Self { every_ms: 300, partition: 3, break_connection: 3, pause: 2, ..calm },
            2 => Self { every_ms: 900, kill_master: 2, power_loss_master: 1, kill: 2, ..calm },
            3 => Self { every_ms: 900, power_loss: 1, pause: 1, break_connection: 1, ..calm },
            4 => Self { every_ms: 2_000, power_loss_all: 1, break_connection: 3, pause: 1, ..calm },
            _ => Self { every_ms: 400 + 200 * (seed % 7), ..Self::stormy() },
        }
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
