//! What `cairn bench streams` is asked for.

use crate::surroundings::LoadShape;
use clap::{Args, ValueEnum};

/// Arguments of `bench streams`.
#[derive(Args, Debug)]
pub(crate) struct SharedStreams {
    /// Only these steps, after commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STEP")]
    pub(super) only: Vec<StreamStep>,
    /// Rounds of what is compared, each with a fresh cell
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) pairs: u64,
    /// Megabytes in each run
    #[arg(long, default_value_t = 512, value_name = "MB")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(super) megabytes: u64,
    /// Bytes of each record
    #[arg(long, default_value_t = 1_024, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    pub(super) record_size: u64,
    /// Producers of a record a second each
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=100_000))]
    pub(super) producers: u64,
    /// Those who follow
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) followers: u64,
    /// Seconds of what is paced
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(super) seconds: u64,
    /// Operations of each client in each run of the chunk operations, and of the awaited appends
    #[arg(long, default_value_t = 2_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(super) operations: u64,
    #[command(flatten)]
    pub(crate) shape: LoadShape,
}

/// What is measured, in the order in which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum StreamStep {
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

impl SharedStreams {
    pub(super) fn processes(&self) -> u64 {
        self.shape.processes.unwrap_or(4)
    }

    pub(super) fn callers(&self) -> u64 {
        self.shape.callers.unwrap_or(16)
    }

    /// Records of each caller that are all megabytes together.
    pub(super) fn records_each(&self) -> u64 {
        let callers = self.processes() * self.callers();
        ((self.megabytes << 20) / self.record_size / callers).max(1)
    }
}
