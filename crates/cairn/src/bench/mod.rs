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
pub(crate) mod floor;
mod latencies;
pub(crate) mod load;
pub(crate) mod meta;
mod own_cell;
mod report;
mod streams;

use crate::arguments::from_to;
use crate::cli_error::{CliError, Doing};
use crate::janitor::Janitor;
use crate::output::Output;
use cairn_client::Options;
use clap::{Args, Subcommand};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(subcommand)]
    measure: Measure,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
enum Measure {
    /// One stream written per caller
    Write(streams::Streams),
    /// One warm stream read per caller
    Read(streams::Streams),
    /// Records appended to one file by all callers
    Append(appends::Appends),
    /// A master with millions of files: memory, start, look-ups, changes, listings, checkpoints
    Meta(meta::Meta),
}

/// How many clients, and where the cell lies.
#[derive(Args, Clone, Debug)]
struct Shape {
    /// Client processes [default: 1 for write and read, 8 for append and meta]
    #[arg(long, value_name = "COUNT", value_parser = from_to::<u64>(1..=256))]
    processes: Option<u64>,
    /// Callers in each process [default: 1 for write and read, 8 for append and meta]
    #[arg(long, value_name = "COUNT", value_parser = from_to::<u64>(1..=1000))]
    callers: Option<u64>,
    /// Where data is kept while it runs [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(bench: &Bench, options: &Options, json: bool) -> Result<(), CliError> {
    let output = &Output::stdout(json)?;
    let shape = match &bench.measure {
        Measure::Write(it) | Measure::Read(it) => &it.shape,
        Measure::Append(it) => &it.shape,
        Measure::Meta(it) => {
            it.check()?;
            &it.shape
        }
    };
    let directory = scratch(shape.data.as_deref())?;
    let janitor = Janitor::start(Some(&directory))?;
    match &bench.measure {
        Measure::Write(it) => it.run(false, options, &directory, &janitor, output),
        Measure::Read(it) => it.run(true, options, &directory, &janitor, output),
        Measure::Append(it) => it.run(options, &directory, &janitor, output),
        Measure::Meta(it) => it.run(options, &directory, &janitor, output),
    }?;
    output.flush()
}

/// A directory of its own, which the janitor removes.
fn scratch(data: Option<&Path>) -> Result<PathBuf, CliError> {
    let name = format!("cairn-bench-{:016x}", RandomState::new().hash_one(std::process::id()));
    let directory = data.map_or_else(std::env::temp_dir, Path::to_path_buf).join(name);
    std::fs::create_dir_all(&directory).doing(|| "preparing the bench".to_owned())?;
    Ok(directory)
}
