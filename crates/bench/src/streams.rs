//! `cairn bench write` and `read`: streams, with the floor beside them.
//!
//! - B1: a comparison is worth what the floor gives against itself, so each round has two floors,
//!   and that ratio is told beside the cell's.
//! - B2: cell and floors have the same of everything that is not theirs: they take turns at going
//!   first, what they write goes when the round ends, the disk is at rest before each run, memory
//!   is warm before one that writes and all that is read is in memory before one that reads, and
//!   their processes are connected before the clock starts.
//! - B3: a run takes many times what its CPU time is counted in: a read is short and changes
//!   nothing, so each side reads several times in a round, in turns.

use crate::compared_round::{Side, compared, turns};
use crate::error::{BenchError, Doing};
use crate::floor::{Floor, warm_memory};
use crate::load::{CallerJob, Load};
use crate::own_cell::OwnCell;
use crate::page_cache::warm_files;
use crate::pairs::{ComparedRound, Comparison, Series, StreamRun};
use crate::surroundings::{LoadShape, Surroundings};
use clap::Args;
use serde_json::json;
use std::fs::File;

/// Megabytes that a fresh cell is given before it is measured: connections are made, leases asked
/// for.
const WARM_UP_MEGABYTES: u64 = 16;
/// How often each side reads in a round (B3).
const READS: u64 = 6;

/// Arguments of `bench write` and `bench read`.
#[derive(Args, Debug)]
pub(crate) struct Streams {
    /// Measure a bare chain of the same shape beside it, twice in each round
    #[arg(long)]
    floor: bool,
    /// Rounds, each with a fresh cell
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

/// Which way a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Write,
    Read,
}

impl Streams {
    pub(super) fn run(
        &self,
        direction: Direction,
        around: &Surroundings,
    ) -> Result<(), BenchError> {
        let (mut speed, mut cpu) = (Series::default(), Series::default());
        let mut comparison = Comparison::default();
        for round in 0..self.pairs {
            let bench = StreamRound::start(self, round, around)?;
            let cell = match self.floor {
                false => bench.alone(direction)?,
                true => {
                    let compared = bench.compared(direction, round)?;
                    comparison.push(compared);
                    compared.cell
                }
            };
            speed.push(cell.megabytes_per_second());
            cpu.push(cell.cpu_per_gib());
        }
        let printer = &around.printer;
        if printer.json() {
            return printer.value(&json!({
                "megabytes_a_second": speed.median(),
                "cpu_seconds_a_gib": cpu.median(),
                "pairs": comparison.to_json(),
            }));
        }
        let what = if direction == Direction::Read { "read" } else { "write" };
        let (speed, cpu) = (speed.spread(0), cpu.spread(2));
        printer.line(&format!("{what}: {speed} MB/s, {cpu} CPU s/GiB over all processes"))?;
        let lines = if self.floor { comparison.lines() } else { vec![] };
        lines.iter().try_for_each(|line| printer.line(line))
    }
}

/// One round: a fresh cell and fresh floors, which go with all that they wrote.
struct StreamRound<'a> {
    streams: &'a Streams,
    around: &'a Surroundings,
    cell: OwnCell,
    floors: [Floor; 2],
}

impl<'a> StreamRound<'a> {
    fn start(
        streams: &'a Streams,
        round: u64,
        around: &'a Surroundings,
    ) -> Result<Self, BenchError> {
        let cell = OwnCell::start(streams.servers, around)?;
        let floor = |name: &str| {
            Floor::new(&around.directory, &format!("{name}-{round}"), streams.megabytes)
        };
        let floors = [floor("floor"), floor("second-floor")];
        let bench = Self { streams, around, cell, floors };
        let root = "/warm-up".to_owned();
        bench.load(CallerJob::Write { root, megabytes: WARM_UP_MEGABYTES })?;
        Ok(bench)
    }

    /// The cell's run.
    fn alone(&self, direction: Direction) -> Result<StreamRun, BenchError> {
        if direction == Direction::Read {
            self.run(Side::Cell, Direction::Write)?;
        }
        self.measured(Side::Cell, direction)
    }

    /// The cell's run, and the floors'.
    fn compared(&self, direction: Direction, round: u64) -> Result<ComparedRound, BenchError> {
        if direction == Direction::Read {
            for side in turns(round) {
                self.run(side, Direction::Write)?;
            }
        }
        let times = if direction == Direction::Read { READS } else { 1 };
        compared(round, times, |side| self.measured(side, direction))
    }

    /// A run that pays neither for the one before nor for the machine's memory (B2).
    fn measured(&self, side: Side, direction: Direction) -> Result<StreamRun, BenchError> {
        let directory = &self.around.directory;
        if direction == Direction::Read {
            let path = match side {
                Side::Cell => directory.join("cell"),
                Side::Floor => self.floors[0].read_from().to_owned(),
                Side::SecondFloor => self.floors[1].read_from().to_owned(),
            };
            warm_files(&path).doing(|| format!("reading what is under {}", path.display()))?;
        }
        let written_back = File::open(directory).and_then(|file| Ok(rustix::fs::syncfs(file)?));
        written_back.doing(|| format!("writing back what is under {}", directory.display()))?;
        if direction == Direction::Write {
            let shape = &self.streams.shape;
            let streams = shape.processes.unwrap_or(1) * shape.callers.unwrap_or(1);
            warm_memory(self.streams.megabytes * self.streams.servers * streams)?;
        }
        self.run(side, direction)
    }

    fn run(&self, side: Side, direction: Direction) -> Result<StreamRun, BenchError> {
        let [first, second] = &self.floors;
        match (side, direction) {
            (Side::Cell, Direction::Write) => {
                let megabytes = self.streams.megabytes;
                self.load(CallerJob::Write { root: "/bench".to_owned(), megabytes })
            }
            (Side::Cell, Direction::Read) => {
                self.load(CallerJob::Read { root: "/bench".to_owned() })
            }
            (Side::Floor, Direction::Write) => first.write(),
            (Side::Floor, Direction::Read) => first.read(),
            (Side::SecondFloor, Direction::Write) => second.write(),
            (Side::SecondFloor, Direction::Read) => second.read(),
        }
    }

    fn load(&self, job: CallerJob) -> Result<StreamRun, BenchError> {
        let shape = &self.streams.shape;
        let load = Load {
            job,
            processes: shape.processes.unwrap_or(1),
            callers: shape.callers.unwrap_or(1),
            deadline_s: self.around.options.deadline.as_secs(),
            by: None,
        };
        Ok(self.cell.run(&load)?.as_run())
    }
}
