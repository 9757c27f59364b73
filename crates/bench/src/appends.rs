//! `cairn bench append`: records appended to one file by all callers.

use crate::error::BenchError;
use crate::load::{CallerJob, Load, LoadFigures};
use crate::own_cell::OwnCell;
use crate::pairs::Series;
use crate::printer::Printer;
use crate::surroundings::{LoadShape, Surroundings};
use clap::Args;
use serde_json::json;

/// The largest record: a quarter of a standard chunk, less room for its frame.
const RECORD_SIZE_MAX: u64 = 15 << 20;

/// Arguments of `bench append`.
#[derive(Args, Debug)]
pub(crate) struct Appends {
    /// Runs
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Operations of each caller in each run
    #[arg(long, default_value_t = 2_000, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    operations: u64,
    /// Bytes of each record
    #[arg(long, default_value_t = 1_024, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=RECORD_SIZE_MAX))]
    record_size: u64,
    /// Chunkservers, which is also the replication level (at most 3)
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3))]
    servers: u64,
    #[command(flatten)]
    pub(super) shape: LoadShape,
}

impl Appends {
    pub(super) fn run(&self, around: &Surroundings) -> Result<(), BenchError> {
        let Surroundings { options, printer, .. } = around;
        let cell = OwnCell::start(self.servers, around)?;
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            let (operations, record_size) = (self.operations, self.record_size);
            let job = CallerJob::Append {
                root: format!("/bench-{round}"),
                operations,
                batch: 1,
                record_size,
            };
            rounds.push(cell.run(&Load {
                job,
                processes: self.shape.processes.unwrap_or(8),
                callers: self.shape.callers.unwrap_or(8),
                deadline_s: options.deadline.as_secs(),
                by: None,
            })?);
        }
        tell(&rounds, printer)
    }
}

fn tell(rounds: &[LoadFigures], printer: &Printer) -> Result<(), BenchError> {
    let series = |of: fn(&LoadFigures) -> f64| Series::of(rounds.iter().map(of));
    let rate = series(LoadFigures::rate);
    let (p50, p99) = (series(LoadFigures::p50_us), series(LoadFigures::p99_us));
    let (all, master) = (series(LoadFigures::cpu_us), series(LoadFigures::master_cpu_us));
    if printer.json() {
        return printer.value(&json!({
            "what": "append",
            "a_second": rate.median(),
            "p50_us": p50.median(),
            "p99_us": p99.median(),
            "cpu_us_each": all.median(),
            "master_cpu_us_each": master.median(),
        }));
    }
    printer.line(&format!(
        "append: {} a second, p50 {:.0} µs, p99 {:.0} µs, CPU each {} µs, of it master {} µs",
        rate.spread(0),
        p50.median(),
        p99.median(),
        all.spread(1),
        master.spread(1)
    ))
}
