//! `cairn bench write` and `read`: streams, with the floor beside them.

use crate::error::{BenchError, Doing};
use crate::floor::Floor;
use crate::load::{CallerJob, Load};
use crate::own_cell::OwnCell;
use crate::pairs::{Pairs, Series, StreamRun};
use crate::surroundings::{LoadShape, Surroundings};
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::path::Path;

/// Arguments of `bench write` and `bench read`.
#[derive(Args, Debug)]
pub(crate) struct Streams {
    /// Measure a bare chain of the same shape beside it, in pairs
    #[arg(long)]
    floor: bool,
    /// Runs, or pairs of runs with --floor
    #[arg(long, default_value_t = 9, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pairs: u64,
    /// Megabytes in each run
    #[arg(long, default_value_t = 512, value_name = "MB")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    megabytes: u64,
    /// Chunkservers, which is also the replication level (at most 3)
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3))]
    servers: u64,
    #[command(flatten)]
    pub(super) shape: LoadShape,
}

impl Streams {
    pub(super) fn run(&self, read: bool, around: &Surroundings) -> Result<(), BenchError> {
        let Surroundings { options, directory, printer, .. } = around;
        let cell = OwnCell::start(self.servers, around)?;
        let load = |job| Load {
            job,
            processes: self.shape.processes.unwrap_or(1),
            callers: self.shape.callers.unwrap_or(1),
            deadline_s: options.deadline.as_secs(),
        };
        let mut pairs = Pairs::default();
        let mut alone = (Series::default(), Series::default());
        for round in 0..self.pairs {
            let root = format!("/bench-{round}");
            let write = CallerJob::Write { root: root.clone(), megabytes: self.megabytes };
            let floor = self.floor.then(|| Floor::new(directory, round, self.megabytes));
            let mut ours = at_rest(directory, || Ok(cell.run(&load(write))?.as_run()))?;
            let write = |floor: &Floor| at_rest(directory, || floor.write());
            let mut beside = floor.as_ref().map(write).transpose()?;
            if read {
                ours =
                    at_rest(directory, || Ok(cell.run(&load(CallerJob::Read { root }))?.as_run()))?;
                let read = |floor: &Floor| at_rest(directory, || floor.read());
                beside = floor.as_ref().map(read).transpose()?;
            }
            alone.0.push(ours.megabytes_per_second());
            alone.1.push(ours.cpu_per_gib());
            if let Some(beside) = beside {
                pairs.push(ours, beside);
            }
        }
        if printer.json() {
            return printer.value(&json!({
                "megabytes_a_second": alone.0.median(),
                "cpu_seconds_a_gib": alone.1.median(),
                "pairs": pairs.to_json(),
            }));
        }
        let what = if read { "read" } else { "write" };
        printer.line(&format!(
            "{what}: {} MB/s, {} CPU s/GiB over all processes",
            alone.0.spread(0),
            alone.1.spread(2)
        ))?;
        let lines = if self.floor { pairs.lines() } else { vec![] };
        lines.iter().try_for_each(|line| printer.line(line))
    }
}

/// Runs when the disk under `directory` has nothing to write back: no run pays for the one before.
fn at_rest(
    directory: &Path,
    run: impl FnOnce() -> Result<StreamRun, BenchError>,
) -> Result<StreamRun, BenchError> {
    let written_back = File::open(directory).and_then(|file| Ok(rustix::fs::syncfs(file)?));
    written_back.doing(|| format!("writing back what is under {}", directory.display()))?;
    run()
}
