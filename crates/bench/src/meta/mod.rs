//! `cairn bench meta`: everything that a master alone is asked to do, with as many files as wanted.
//!
//! ```text
//!   bench-seed     ──► a master's directory: records applied, one checkpoint
//!   bench-servers  ──► sixteen chunkservers without bytes: the real state machine over no disk
//!   bench-load     ──► client processes
//! ```
//! The steps, each in a file of its own: `memory`, `start`, `rates` (look-ups, changes), `mixes`,
//! `listing`, `checkpoints`, `growth`. HDFS is run beside by scripts (`hdfs`).

mod checkpoints;
mod figures;
mod growth;
mod hdfs;
mod hollow_servers;
mod listing;
mod memory;
mod mixes;
mod plot;
pub(crate) mod population;
mod rates;
mod rig;
mod seeding;
mod start;
mod watch;

use crate::LoadShape;
use crate::Surroundings;
use crate::error::BenchError;
use clap::{Args, ValueEnum};
pub(crate) use hollow_servers::ServersPart;
pub(crate) use seeding::SeedPart;

use figures::Figures;
use population::{Naming, Population};
use rig::Rig;
use std::path::{Path, PathBuf};

/// Files in a directory.
const PER_DIRECTORY: u64 = 1000;

/// Arguments of `bench meta`.
#[derive(Args, Debug)]
pub(crate) struct Meta {
    /// Files that the master knows, one chunk of three replicas each
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    files: u64,
    /// How they are called
    #[arg(long, value_enum, default_value_t = Naming::A)]
    names: Naming,
    /// Only these steps, after commas [default: all but growth]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STEP")]
    only: Vec<MetaStep>,
    /// Operations of each caller in each run
    #[arg(long, default_value_t = 2_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    operations: u64,
    /// Names that are created by one request
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    batch: u64,
    /// Runs of each step that has several
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Run this file system beside it
    #[arg(long, value_enum, requires = "peer_scripts")]
    peer: Option<Peer>,
    /// Where the scripts are that install and run it
    #[arg(long, value_name = "DIR")]
    peer_scripts: Option<PathBuf>,
    /// Where growth.md and growth.svg go
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    #[command(flatten)]
    pub(super) shape: LoadShape,
}

/// What is measured, in the order in which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum MetaStep {
    /// Resident bytes of the master for each file and each chunk
    Memory,
    /// From the master's start to its answers
    Start,
    /// Look-ups: entry and locations
    LookUps,
    /// Durable creations, renames and deletions
    Changes,
    /// The requests of a whole cell (GFS Table 6)
    Mix,
    /// One directory with a million names
    List,
    /// Look-ups and creations while checkpoints are made
    Checkpoint,
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
    /// What cannot be done is said before anything is begun.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.hdfs_scripts().map_or(Ok(()), hdfs::check)
    }

    /// Where the scripts of HDFS are, where it is to be run beside.
    fn hdfs_scripts(&self) -> Option<&Path> {
        match self.peer {
            Some(Peer::Hdfs) => self.peer_scripts.as_deref(),
            None => None,
        }
    }

    /// In the table's order, whatever order they were asked for in: memory is weighed in a master
    /// that no other step has used.
    fn steps(&self) -> Vec<MetaStep> {
        let mut steps = self.only.clone();
        if steps.is_empty() {
            return IN_THE_TABLE.to_vec();
        }
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    fn processes(&self) -> u64 {
        self.shape.processes.unwrap_or(8)
    }

    fn callers(&self) -> u64 {
        self.shape.callers.unwrap_or(8)
    }

    fn population(&self) -> Population {
        let (files, naming) = (self.files, self.names);
        Population { files, per_directory: PER_DIRECTORY, naming, chunks: true }
    }

    pub(super) fn run(&self, around: &Surroundings) -> Result<(), BenchError> {
        let mut figures = Figures::new(&around.printer);
        if let Some(scripts) = self.hdfs_scripts() {
            figures.beside(hdfs::measure(scripts, self.files)?);
        }
        figures.title(self.files, self.names)?;
        let figures = &mut figures;
        // One filled master serves all steps that only add to it.
        let shared = &mut SharedRig { meta: self, around, rig: None };
        for step in self.steps() {
            match step {
                MetaStep::Memory => shared.rig = Some(memory::measure(self, around, figures)?),
                MetaStep::Start => start::measure(shared.full(figures)?, figures)?,
                MetaStep::LookUps => rates::look_ups(self, shared.full(figures)?, figures)?,
                MetaStep::Changes => rates::changes(self, shared.full(figures)?, figures)?,
                MetaStep::Mix => mixes::measure(self, shared.full(figures)?, figures)?,
                MetaStep::List => listing::measure(self, around, figures)?,
                MetaStep::Checkpoint => checkpoints::measure(self, shared.full(figures)?, figures)?,
                MetaStep::Growth => growth::measure(self, around, figures)?,
            }
        }
        Ok(())
    }
}

/// The filled master that several steps have in common.
struct SharedRig<'a> {
    meta: &'a Meta,
    around: &'a Surroundings,
    rig: Option<Rig>,
}

impl SharedRig<'_> {
    /// It, filled when it is first asked for.
    fn full(&mut self, figures: &Figures<'_>) -> Result<&mut Rig, BenchError> {
        match &mut self.rig {
            Some(rig) => Ok(rig),
            none => {
                let population = self.meta.population();
                Ok(none.insert(Rig::filled(self.around, "cell", population, figures)?))
            }
        }
    }
}
