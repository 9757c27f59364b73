//! The machines of the world: what each is, and the process that runs on it.

use crate::clock::{SimClock, WorldTime};
use crate::disk::SimDisk;
use crate::process::Process;
use cairn_env::Lane;
use cairn_protocol::Hello;
use cairn_types::Address;
use std::collections::BTreeSet;

/// One machine of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// What a process is started with.
pub struct ProcessBoot<'a> {
    /// Which machine.
    pub node: NodeId,
    /// Its disks.
    pub disks: &'a [SimDisk],
    /// Drawn at each start.
    pub seed: u64,
}

/// Starts a process on a machine; an error is what a person would read.
pub type ProcessFactory = Box<dyn FnMut(ProcessBoot<'_>) -> Result<Box<dyn Process>, String>>;

/// A machine to be.
pub struct NodePlan {
    /// For people.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// Its disks, which outlive its processes.
    pub disks: Vec<SimDisk>,
    /// Starts its process.
    pub factory: ProcessFactory,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathCause {
    /// The process alone (kill −9, a halt): the page cache stays, its peers are told at once.
    Killed,
    /// The machine: unsynced writes are lost in any order, nobody is told.
    PowerLoss,
}

/// A machine and its process, if one runs.
pub(crate) struct NodeState {
    pub(crate) name: String,
    pub(crate) disks: Vec<SimDisk>,
    pub(crate) factory: ProcessFactory,
    pub(crate) process: Option<Box<dyn Process>>,
    /// Counts its processes; the present one's number.
    pub(crate) life: u64,
    pub(crate) death: Option<DeathCause>,
    pub(crate) clock: SimClock,
    pub(crate) hello: Option<Hello>,
    pub(crate) paused_until: WorldTime,
    /// A long batch of it is not over yet (W3).
    pub(crate) in_batch: bool,
    /// Its network and disk take this many times as long.
    pub(crate) slow: u32,
    pub(crate) slow_disk: u32,
    pub(crate) busy_lanes: BTreeSet<Lane>,
}

impl NodeState {
    /// Whether the process of this life still runs.
    pub(crate) fn lives(&self, life: u64) -> bool {
        self.process.is_some() && self.life == life
    }
}
