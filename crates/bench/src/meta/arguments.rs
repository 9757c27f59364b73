//! What `cairn bench meta` is told: how many files, which steps, how many operations.

use super::population::{Naming, Population};
use crate::surroundings::LoadShape;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// Files in a directory.
const PER_DIRECTORY: u64 = 1000;

/// Arguments of `bench meta`.
#[derive(Args, Debug)]
pub(crate) struct Meta {
    /// Files that the master knows, one chunk of three replicas each
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub(super) files: u64,
    /// How they are called
    #[arg(long, value_enum, default_value_t = Naming::A)]
    pub(super) names: Naming,
    /// Only these steps, after commas [default: all but quotas, snapshots, groups and growth]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STEP")]
    only: Vec<MetaStep>,
    /// Operations of each caller in each run
    #[arg(long, default_value_t = 2_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(super) operations: u64,
    /// Names that are created by one request
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) batch: u64,
    /// Runs of each step that has several
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) rounds: u64,
    /// Run this file system beside it
    #[arg(long, value_enum, requires = "peer_scripts")]
    peer: Option<Peer>,
    /// Where the scripts are that install and run it
    #[arg(long, value_name = "DIR")]
    peer_scripts: Option<PathBuf>,
    /// Where growth.md and growth.svg go
    #[arg(long, value_name = "DIR")]
    pub(super) plots: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shape: LoadShape,
}

/// What is measured, in the order in which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum MetaStep {
    /// Resident bytes of the master for each file and each chunk
    Memory,
    /// From the master's start to its answers
    Start,
    /// Look-ups: entry and locations
    LookUps,
    /// Durable creations, renames and deletions
    Changes,
    /// Creations and look-ups without quota and permissions, and with them, in turn
    Quotas,
    /// Snapshots of all the files; creations in and beside them and look-ups meanwhile
    Snapshots,
    /// The requests of a whole cell (GFS Table 6)
    Mix,
    /// One directory with a million names
    List,
    /// Look-ups and creations while checkpoints are made
    Checkpoint,
    /// A group of three masters beside one: its making, look-ups, creations, how far shadows are
    Groups,
    /// Memory and cost at a hundredth, a tenth and all of the files
    Growth,
}

const IN_THE_TABLE: [MetaStep; 7] = [
    MetaStep::Memory,
    MetaStep::Start,
    MetaStep::LookUps,
    MetaStep::Changes,
    MetaStep::Mix,
    MetaStep::List,
    MetaStep::Checkpoint,
];

/// Who can be measured beside us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    Hdfs,
}

impl Meta {
    /// Where the scripts of HDFS are, where it is to be run beside.
    pub(super) fn hdfs_scripts(&self) -> Option<&Path> {
        match self.peer {
            Some(Peer::Hdfs) => self.peer_scripts.as_deref(),
            None => None,
        }
    }

    /// In the table's order, whatever order they were asked for in: memory is weighed in a master
    /// that no other step has used.
    pub(super) fn steps(&self) -> Vec<MetaStep> {
        let mut steps = self.only.clone();
        if steps.is_empty() {
            return IN_THE_TABLE.to_vec();
        }
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    pub(super) fn processes(&self) -> u64 {
        self.shape.processes.unwrap_or(8)
    }

    pub(super) fn callers(&self) -> u64 {
        self.shape.callers.unwrap_or(8)
    }

    pub(super) fn population(&self) -> Population {
        let (files, naming) = (self.files, self.names);
        Population { files, per_directory: PER_DIRECTORY, naming, chunks: true }
    }
}
