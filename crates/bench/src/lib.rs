//! `cairn bench`: a cell of its own measured, and beside it, interleaved, a bare chain of the same
//! shape.
//!
//! ```text
//!   bench ── starts ──► master, chunkservers (processes of their own)   cpu: /proc/PID/stat
//!         ── starts ──► loads: client processes, several callers each
//!         ── starts ──► the floor: client ► S1 ► S2 ► S3, no metadata, no leases
//! ```
//! Machines are noisy: figures are quoted as ratios of neighbouring runs, as median and spread.

mod appends;
mod compared_round;
mod cpu;
mod disk_floor;
mod error;
mod floor;
mod floor_part;
mod latencies;
mod load;
mod meta;
mod own_cell;
mod page_cache;
mod pairs;
mod printer;
mod producers;
mod runtime;
mod streams;
mod surroundings;

pub use error::{BenchCause, BenchError};
pub use load::LoadProcess;

use cairn_client::Options;
use clap::{Args, Subcommand};
use streams::Direction;
use surroundings::{LoadShape, Surroundings};

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub struct Bench {
    #[command(subcommand)]
    measurement: Measurement,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
enum Measurement {
    /// One stream written per caller
    Write(streams::Streams),
    /// One warm stream read per caller
    Read(streams::Streams),
    /// Records appended to one file by all callers
    Append(appends::Appends),
    /// Records put to one stream by many producers, beside the bare chain and appends to a file;
    /// what a master does for streams
    Streams(producers::SharedStreams),
    /// A master with millions of files: memory, start, look-ups, changes, listings, checkpoints
    Meta(meta::Meta),
}

/// The hidden commands of the processes that a bench is made of, but for the load's.
#[derive(Debug, Subcommand)]
pub enum BenchPart {
    /// One part of the bare chain
    #[command(hide = true)]
    FloorPart(floor_part::FloorPart),
    /// Makes a master's directory
    #[command(hide = true)]
    BenchSeed(meta::SeedPart),
    /// The chunkservers, which hold no bytes
    #[command(hide = true)]
    BenchServers(meta::ServersPart),
}

impl BenchPart {
    /// Runs it.
    ///
    /// # Errors
    /// With what was in its way.
    pub fn run(&self) -> Result<(), BenchError> {
        match self {
            Self::FloorPart(it) => it.run(),
            Self::BenchSeed(it) => it.run(),
            Self::BenchServers(it) => it.run(),
        }
    }
}

impl Bench {
    /// Measures, and says what came of it on stdout.
    ///
    /// # Errors
    /// With what was in the way.
    pub fn run(&self, options: &Options, json: bool) -> Result<(), BenchError> {
        if let Measurement::Meta(it) = &self.measurement {
            meta::check(it)?;
        }
        let around = Surroundings::prepare(self.shape(), options, json)?;
        match &self.measurement {
            Measurement::Write(it) => it.run(Direction::Write, &around),
            Measurement::Read(it) => it.run(Direction::Read, &around),
            Measurement::Append(it) => it.run(&around),
            Measurement::Streams(it) => it.run(&around),
            Measurement::Meta(it) => meta::run(it, &around),
        }
    }

    fn shape(&self) -> &LoadShape {
        match &self.measurement {
            Measurement::Write(it) | Measurement::Read(it) => &it.shape,
            Measurement::Append(it) => &it.shape,
            Measurement::Streams(it) => &it.shape,
            Measurement::Meta(it) => &it.shape,
        }
    }
}
