//! `cairn bench streams`: many producers and one stream.
//!
//! | step | what it is compared with |
//! |---|---|
//! | `appends` | the bare chain, and appends to one GFS file, in rounds |
//! | `awaited` | appends to a GFS file, each awaited |
//! | `commits` | what half a core of the master may do; no bytes |
//! | `followers` | from a record's append to each of its readers |
//! | `chunks` | Table 1 of TFS; creations and look-ups of the same run |

mod chunk_operations;
mod commits;
mod followers;
mod throughput;

use crate::error::BenchError;
use crate::meta::Figures;
use crate::surroundings::{LoadShape, Surroundings};
use clap::{Args, ValueEnum};

/// Arguments of `bench streams`.
#[derive(Args, Debug)]
pub(crate) struct SharedStreams {
    /// Only these steps, after commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STEP")]
    only: Vec<StreamStep>,
    /// Rounds of what is compared, each with a fresh cell
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pairs: u64,
    /// Megabytes in each run
    #[arg(long, default_value_t = 512, value_name = "MB")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    megabytes: u64,
    /// Bytes of each record
    #[arg(long, default_value_t = 1_024, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    record_size: u64,
    /// Producers of a record a second each
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=100_000))]
    producers: u64,
    /// Those who follow
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    followers: u64,
    /// Seconds of what is paced
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// Operations of each client in each run of the chunk operations, and of the awaited appends
    #[arg(long, default_value_t = 2_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    operations: u64,
    #[command(flatten)]
    pub(super) shape: LoadShape,
}

/// What is measured, in the order in which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum StreamStep {
    /// Producers on one stream, beside the bare chain and a GFS file
    Appends,
    /// One producer, each record awaited
    Awaited,
    /// Commits a second, and what they cost the master
    Commits,
    /// From the append of a record to those who follow
    Followers,
    /// What is asked of the master for chunks (TFS Table 1)
    Chunks,
}

const ALL_STEPS: [StreamStep; 5] = [
    StreamStep::Appends,
    StreamStep::Awaited,
    StreamStep::Commits,
    StreamStep::Followers,
    StreamStep::Chunks,
];

impl SharedStreams {
    pub(super) fn run(&self, around: &Surroundings) -> Result<(), BenchError> {
        let mut steps = self.only.clone();
        if steps.is_empty() {
            steps = ALL_STEPS.to_vec();
        }
        steps.sort_unstable();
        steps.dedup();
        let figures = &Figures::new(&around.printer);
        figures.head("streams")?;
        for step in steps {
            match step {
                StreamStep::Appends => throughput::appends(self, around, figures)?,
                StreamStep::Awaited => throughput::awaited(self, around, figures)?,
                StreamStep::Commits => commits::measure(self, around, figures)?,
                StreamStep::Followers => followers::measure(self, around, figures)?,
                StreamStep::Chunks => chunk_operations::measure(self, around, figures)?,
            }
        }
        Ok(())
    }

    fn processes(&self) -> u64 {
        self.shape.processes.unwrap_or(4)
    }

    fn callers(&self) -> u64 {
        self.shape.callers.unwrap_or(16)
    }

    /// Records of each caller that are all megabytes together.
    fn records_each(&self) -> u64 {
        let callers = self.processes() * self.callers();
        ((self.megabytes << 20) / self.record_size / callers).max(1)
    }
}
