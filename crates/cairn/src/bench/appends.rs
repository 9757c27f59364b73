//! `cairn bench append`: records appended to one file by all callers.

use crate::arguments::from_to;
use crate::bench::Shape;
use crate::bench::load::{Job, Load, Measured};
use crate::bench::own_cell::OwnCell;
use crate::bench::report::Series;
use crate::cli_error::CliError;
use crate::janitor::Janitor;
use crate::output::Output;
use cairn_client::Options;
use clap::Args;
use serde_json::json;
use std::path::Path;

/// The largest record: a quarter of a standard chunk, less room for its frame.
const RECORD_SIZE_MAX: u64 = 15 << 20;

/// Arguments of `bench append`.
#[derive(Args, Debug)]
pub(crate) struct Appends {
    /// Runs
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = from_to::<usize>(1..=1000))]
    rounds: usize,
    /// Operations of each caller in each run
    #[arg(long, default_value_t = 2_000, value_name = "COUNT")]
    #[arg(value_parser = from_to::<u64>(1..=1 << 30))]
    operations: u64,
    /// Bytes of each record
    #[arg(long, default_value_t = 1_024, value_name = "BYTES")]
    #[arg(value_parser = from_to::<usize>(1..=RECORD_SIZE_MAX))]
    record_size: usize,
    /// Chunkservers, which is also the replication level (at most 3)
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = from_to::<usize>(1..=3))]
    servers: usize,
    #[command(flatten)]
    pub(super) shape: Shape,
}

impl Appends {
    pub(super) fn run(
        &self,
        options: &Options,
        directory: &Path,
        janitor: &Janitor,
        output: &Output,
    ) -> Result<(), CliError> {
        let cell = OwnCell::start(self.servers, options, directory, janitor)?;
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            let (operations, record_size) = (self.operations, self.record_size);
            let job = Job::Append { root: format!("/bench-{round}"), operations, record_size };
            rounds.push(cell.run(&Load {
                job,
                processes: self.shape.processes.unwrap_or(8),
                callers: self.shape.callers.unwrap_or(8),
                deadline_s: options.deadline.as_secs(),
            })?);
        }
        tell(&rounds, output)
    }
}

fn tell(rounds: &[Measured], output: &Output) -> Result<(), CliError> {
    let series = |of: fn(&Measured) -> f64| Series::of(rounds.iter().map(of));
    let rate = series(Measured::rate);
    let (p50, p99) = (series(Measured::p50_us), series(Measured::p99_us));
    let (all, master) = (series(Measured::cpu_us), series(Measured::master_cpu_us));
    if output.json() {
        return output.value(&json!({
            "what": "append",
            "a_second": rate.median(),
            "p50_us": p50.median(),
            "p99_us": p99.median(),
            "cpu_us_each": all.median(),
            "master_cpu_us_each": master.median(),
        }));
    }
    output.line(&format!(
        "append: {} a second, p50 {:.0} µs, p99 {:.0} µs, CPU each {} µs, of it master {} µs",
        rate.spread(0),
        p50.median(),
        p99.median(),
        all.spread(1),
        master.spread(1)
    ))
}
