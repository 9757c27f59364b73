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
mod cpu;
mod disk_floor;
mod error;
mod floor;
mod latencies;
mod load;
mod meta;
mod own_cell;
mod pairs;
mod printer;
mod streams;

pub use error::{BenchCause, BenchError};
pub use load::LoadProcess;

use cairn_client::Options;
use cairn_testkit::{Janitor, Program};
use clap::{Args, Subcommand};
use error::Doing;
use printer::Printer;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

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
    /// A master with millions of files: memory, start, look-ups, changes, listings, checkpoints
    Meta(meta::Meta),
}

/// The hidden commands of the processes that a bench is made of, but for the load's.
#[derive(Debug, Subcommand)]
pub enum BenchPart {
    /// One part of the bare chain
    #[command(hide = true)]
    FloorPart(floor::FloorPart),
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

/// How many clients, and where the cell lies.
#[derive(Args, Clone, Debug)]
struct LoadShape {
    /// Client processes [default: 1 for write and read, 8 for append and meta]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=256))]
    processes: Option<u64>,
    /// Callers in each process [default: 1 for write and read, 8 for append and meta]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    callers: Option<u64>,
    /// Where data is kept while it runs [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What every measurement needs.
struct Surroundings {
    options: Options,
    printer: Printer,
    /// Where its files go, until the janitor removes them.
    directory: PathBuf,
    program: Program,
    janitor: Arc<Janitor>,
}

impl Bench {
    /// Measures, and says what came of it on stdout.
    ///
    /// # Errors
    /// With what was in the way.
    pub fn run(&self, options: &Options, json: bool) -> Result<(), BenchError> {
        if let Measurement::Meta(it) = &self.measurement {
            it.check()?;
        }
        let around = Surroundings::prepare(self.shape(), options, json)?;
        match &self.measurement {
            Measurement::Write(it) => it.run(false, &around),
            Measurement::Read(it) => it.run(true, &around),
            Measurement::Append(it) => it.run(&around),
            Measurement::Meta(it) => it.run(&around),
        }
    }

    fn shape(&self) -> &LoadShape {
        match &self.measurement {
            Measurement::Write(it) | Measurement::Read(it) => &it.shape,
            Measurement::Append(it) => &it.shape,
            Measurement::Meta(it) => &it.shape,
        }
    }
}

impl Surroundings {
    fn prepare(shape: &LoadShape, options: &Options, json: bool) -> Result<Self, BenchError> {
        let doing = || "preparing the bench".to_owned();
        let name = format!("cairn-bench-{:016x}", RandomState::new().hash_one(std::process::id()));
        let above = shape.data.clone().unwrap_or_else(std::env::temp_dir);
        let directory = above.join(name);
        std::fs::create_dir_all(&directory).doing(doing)?;
        let program = Program::this().doing(doing)?;
        let janitor = Arc::new(Janitor::start(&program, Some(&directory)).doing(doing)?);
        let printer = Printer::stdout(json);
        Ok(Self { options: options.clone(), printer, directory, program, janitor })
    }
}

/// A runtime of one thread, the client's loop on it: for whoever does nothing else meanwhile.
fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
