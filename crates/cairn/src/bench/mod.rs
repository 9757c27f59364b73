//! `cairn bench`: a cell of its own measured, and beside it, interleaved, a bare chain of the same
//! shape.
//!
//! ```text
//!   bench ── starts ──► master, chunkservers (processes of their own)   cpu: /proc/PID/stat
//!         ── starts ──► loads: client processes, several callers each
//!         ── starts ──► the floor: client ► S1 ► S2 ► S3, no metadata, no leases
//! ```
//! Machines are noisy: figures are quoted as ratios of neighbouring runs, as median and spread.

mod cpu;
mod disk_floor;
pub(crate) mod floor;
pub(crate) mod load;
mod own_cell;
mod report;

use crate::arguments::from_to;
use crate::complaint::{Complaint, Doing};
use crate::janitor::Janitor;
use crate::output::Output;
use cairn_client::Options;
use clap::Args;
use load::{Kind, Load, Measured};
use own_cell::OwnCell;
use report::{Pairs, Run, Series};
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// The largest record: a quarter of a standard chunk, less room for its frame.
const RECORD_SIZE_MAX: u64 = 15 << 20;

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// What to measure
    #[arg(value_enum)]
    kind: Measure,
    /// Measure a bare chain of the same shape beside it, in pairs (write, read)
    #[arg(long)]
    floor: bool,
    /// Runs, or pairs of runs with --floor
    #[arg(long, default_value_t = 9, value_name = "COUNT")]
    #[arg(value_parser = from_to::<usize>(1..=1000))]
    pairs: usize,
    /// Megabytes in each run (write, read)
    #[arg(long, default_value_t = 512, value_name = "MB")]
    #[arg(value_parser = from_to::<u64>(1..=1 << 20))]
    megabytes: u64,
    /// Operations of each caller in each run (append, meta)
    #[arg(long, default_value_t = 2_000, value_name = "COUNT")]
    #[arg(value_parser = from_to::<u64>(1..=1 << 30))]
    operations: u64,
    /// Names that are created by one request (meta)
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    #[arg(value_parser = from_to::<u64>(1..=1 << 20))]
    batch: u64,
    /// Bytes of each record (append)
    #[arg(long, default_value_t = 1_024, value_name = "BYTES")]
    #[arg(value_parser = from_to::<usize>(1..=RECORD_SIZE_MAX))]
    record_size: usize,
    /// Client processes [default: 1 for write and read, 8 for append and meta]
    #[arg(long, value_name = "COUNT", value_parser = from_to::<usize>(1..=256))]
    processes: Option<usize>,
    /// Callers in each process [default: 1 for write and read, 8 for append and meta]
    #[arg(long, value_name = "COUNT", value_parser = from_to::<u64>(1..=1000))]
    callers: Option<u64>,
    /// Chunkservers, which is also the replication level (at most 3)
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = from_to::<usize>(1..=3))]
    servers: usize,
    /// Where data is kept while it runs [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Measure {
    /// One stream written per caller
    Write,
    /// One warm stream read per caller
    Read,
    /// Records appended to one file by all callers
    Append,
    /// Look-ups and durable creates
    Meta,
}

/// Runs it.
pub(crate) fn run(bench: &Bench, options: &Options, json: bool) -> Result<(), Complaint> {
    let output = &Output::stdout(json)?;
    let doing = || "preparing the bench".to_owned();
    let name = format!("cairn-bench-{:016x}", RandomState::new().hash_one(std::process::id()));
    let directory = bench.data.clone().unwrap_or_else(std::env::temp_dir).join(name);
    std::fs::create_dir_all(&directory).doing(doing)?;
    let janitor = Janitor::start(Some(&directory))?;
    let cell = OwnCell::start(bench.servers, options, &directory, &janitor)?;
    let streams = matches!(bench.kind, Measure::Write | Measure::Read);
    let many = if streams { 1 } else { 8 };
    let load = Load {
        kind: Kind::Write,
        processes: bench.processes.unwrap_or(many),
        callers: bench.callers.unwrap_or(many as u64),
        megabytes: bench.megabytes,
        operations: bench.operations,
        batch: bench.batch,
        record_size: bench.record_size,
        deadline_s: options.deadline.as_secs(),
        path: "/bench".to_owned(),
    };
    match bench.kind {
        Measure::Write | Measure::Read => bench.streams(&cell, &load, &directory, output),
        Measure::Append => bench.appends(&cell, &load, output),
        Measure::Meta => bench.names(&cell, &load, &directory, output),
    }?;
    output.flush()
}

impl Bench {
    fn streams(
        &self,
        cell: &OwnCell<'_>,
        load: &Load,
        directory: &Path,
        output: &Output,
    ) -> Result<(), Complaint> {
        let read = self.kind == Measure::Read;
        let frames = self.megabytes;
        let mut pairs = Pairs::default();
        let mut alone = (Series::default(), Series::default());
        for round in 0..self.pairs {
            let path = format!("/bench-{round}");
            let write = Load { kind: Kind::Write, path, ..load.clone() };
            let mut ours = cell.run(&write)?.as_run();
            if read {
                ours = cell.run(&Load { kind: Kind::Read, ..write })?.as_run();
            }
            alone.0.push(ours.megabytes_per_second());
            alone.1.push(ours.cpu_per_gib());
            if self.floor {
                let beside = floor_run(directory, round, frames, read)?;
                pairs.push(ours, beside);
            }
        }
        if output.json() {
            return output.value(&json!({
                "megabytes_a_second": alone.0.median(),
                "cpu_seconds_a_gib": alone.1.median(),
                "pairs": pairs.to_json(),
            }));
        }
        let what = if read { "read" } else { "write" };
        output.line(&format!(
            "{what}: {} MB/s, {} CPU s/GiB over all processes",
            alone.0.spread(0),
            alone.1.spread(2)
        ))?;
        let lines = if self.floor { pairs.lines() } else { vec![] };
        lines.iter().try_for_each(|line| output.line(line))
    }

    fn appends(&self, cell: &OwnCell<'_>, load: &Load, output: &Output) -> Result<(), Complaint> {
        let mut rounds = Vec::new();
        for round in 0..self.pairs.min(3) {
            let path = format!("/bench-{round}");
            rounds.push(cell.run(&Load { kind: Kind::Append, path, ..load.clone() })?);
        }
        tell_rounds("append", &rounds, output)
    }

    fn names(
        &self,
        cell: &OwnCell<'_>,
        load: &Load,
        directory: &Path,
        output: &Output,
    ) -> Result<(), Complaint> {
        let (mut creates, mut look_ups) = (Vec::new(), Vec::new());
        for round in 0..self.pairs.min(3) {
            let path = format!("/bench-{round}");
            let create = Load { kind: Kind::Create, path, ..load.clone() };
            creates.push(cell.run(&create)?);
            look_ups.push(cell.run(&Load { kind: Kind::LookUp, ..create })?);
        }
        tell_rounds("look-up", &look_ups, output)?;
        tell_rounds("create", &creates, output)?;
        let callers = load.processes as u64 * load.callers;
        let limit = disk_floor::group_committed(directory, callers)
            .doing(|| "measuring the disk".to_owned())?;
        output.line(&format!(
            "disk: {limit:.0} group-committed synced records a second with {callers} waiters"
        ))
    }
}

fn floor_run(directory: &Path, round: usize, frames: u64, read: bool) -> Result<Run, Complaint> {
    let run = floor::write_floor(directory, round, frames).and_then(|write| {
        if read { floor::read_floor(directory, round, frames) } else { Ok(write) }
    });
    run.doing(|| "running the floor".to_owned())
}

fn tell_rounds(what: &str, rounds: &[Measured], output: &Output) -> Result<(), Complaint> {
    let series = |of: fn(&Measured) -> f64| {
        let mut series = Series::default();
        rounds.iter().for_each(|round| series.push(of(round)));
        series
    };
    let rate = series(Measured::rate);
    let (p50, p99) = (series(|m| m.p50_us), series(|m| m.p99_us));
    let (all, master) = (series(Measured::cpu_us), series(Measured::master_cpu_us));
    if output.json() {
        return output.value(&json!({
            "what": what,
            "a_second": rate.median(),
            "p50_us": p50.median(),
            "p99_us": p99.median(),
            "cpu_us_each": all.median(),
            "master_cpu_us_each": master.median(),
        }));
    }
    output.line(&format!(
        "{what}: {} a second, p50 {:.0} µs, p99 {:.0} µs, CPU each {} µs, of it master {} µs",
        rate.spread(0),
        p50.median(),
        p99.median(),
        all.spread(1),
        master.spread(1)
    ))
}
