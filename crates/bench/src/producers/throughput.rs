//! Producers on one stream as fast as they are served, beside the bare chain and beside appends to
//! one GFS file.
//!
//! ```text
//!   stream, floor, second floor, GFS file    take turns at going first, on a fresh cell each round
//! ```

use super::arguments::SharedStreams;
use crate::error::{BenchError, Doing};
use crate::floor::{Floor, warm_memory};
use crate::load::{CallerJob, Load, LoadFigures};
use crate::meta::{Figure, Figures};
use crate::own_cell::OwnCell;
use crate::pairs::{Series, StreamRun};
use crate::surroundings::Surroundings;
use std::fs::File;

const SERVERS: u64 = 3;
/// The GFS file is slower: a part of the records will do.
const FILE_PART: u64 = 8;
/// What `cairn append` sends at once, at most.
const FILE_BATCH: u64 = 1024;
/// Records that warm a fresh cell up.
const WARM_UP: u64 = 64;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppendSide {
    Stream,
    Floor,
    SecondFloor,
    File,
    /// One record at once, each awaited.
    FileAwaited,
}

const SIDES: [AppendSide; 5] = [
    AppendSide::Stream,
    AppendSide::Floor,
    AppendSide::SecondFloor,
    AppendSide::File,
    AppendSide::FileAwaited,
];

/// One round: a fresh cell and fresh floors, which go with all that they wrote.
struct AppendRound<'a> {
    streams: &'a SharedStreams,
    around: &'a Surroundings,
    cell: OwnCell,
    floors: [Floor; 2],
}

impl<'a> AppendRound<'a> {
    fn start(
        streams: &'a SharedStreams,
        around: &'a Surroundings,
        round: u64,
    ) -> Result<Self, BenchError> {
        let cell = OwnCell::start(SERVERS, around)?;
        let floor = |name: &str| {
            Floor::new(&around.directory, &format!("{name}-{round}"), streams.megabytes)
        };
        let floors = [floor("stream-floor"), floor("second-stream-floor")];
        let it = Self { streams, around, cell, floors };
        let record_size = streams.record_size;
        let root = "/warm-up".to_owned();
        it.load(CallerJob::Produce { root, operations: WARM_UP, record_size })?;
        Ok(it)
    }

    fn run(&self, side: AppendSide) -> Result<StreamRun, BenchError> {
        let directory = &self.around.directory;
        let written_back = File::open(directory).and_then(|file| Ok(rustix::fs::syncfs(file)?));
        written_back.doing(|| format!("writing back what is under {}", directory.display()))?;
        warm_memory(self.streams.megabytes * SERVERS)?;
        let (operations, record_size) = (self.streams.records_each(), self.streams.record_size);
        let part = (operations / FILE_PART).max(1);
        let append = |root: &str, operations, batch| {
            let root = root.to_owned();
            self.load(CallerJob::Append { root, operations, batch, record_size })
        };
        let figures = match side {
            AppendSide::Floor => return self.floors[0].write(),
            AppendSide::SecondFloor => return self.floors[1].write(),
            AppendSide::Stream => {
                let root = "/stream".to_owned();
                self.load(CallerJob::Produce { root, operations, record_size })?
            }
            AppendSide::File => append("/file", part, FILE_BATCH)?,
            AppendSide::FileAwaited => append("/file-awaited", (part / 4).max(1), 1)?,
        };
        Ok(figures.as_run())
    }

    fn load(&self, job: CallerJob) -> Result<LoadFigures, BenchError> {
        self.cell.run(&Load {
            job,
            processes: self.streams.processes(),
            callers: self.streams.callers(),
            deadline_s: self.around.options.deadline.as_secs(),
            by: None,
        })
    }
}

pub(super) fn appends(
    streams: &SharedStreams,
    around: &Surroundings,
    figures: &Figures<'_>,
) -> Result<(), BenchError> {
    let mut rounds = Vec::new();
    for round in 0..streams.pairs {
        let cell = AppendRound::start(streams, around, round)?;
        let mut sides = SIDES;
        sides.rotate_left(usize::try_from(round).unwrap_or_default() % SIDES.len());
        let mut runs = Vec::new();
        for side in sides {
            runs.push((side, cell.run(side)?));
        }
        rounds.push(runs);
    }
    let of = |side: AppendSide, what: fn(&StreamRun) -> f64| {
        let run = move |runs: &Vec<(AppendSide, StreamRun)>| {
            what(&runs.iter().find(|(whose, _)| *whose == side).expect("each has its turn").1)
        };
        rounds.iter().map(run).collect::<Vec<f64>>()
    };
    let over = |side, other, what: fn(&StreamRun) -> f64| {
        let pairs = of(side, what).into_iter().zip(of(other, what));
        Series::of(pairs.map(|(one, other)| one / other))
    };
    let tell = |what: &str, series: &Series, digits: usize, unit: &str, wanted: &str| {
        let value = series.median();
        figures.tell(&Figure { what, value, digits, unit, wanted })?;
        let (least, most) = (series.quantile(0.0), series.quantile(1.0));
        figures.tell(&Figure {
            what: &format!("{what}, least"),
            value: least,
            digits,
            unit,
            wanted: "",
        })?;
        figures.tell(&Figure {
            what: &format!("{what}, most"),
            value: most,
            digits,
            unit,
            wanted: "",
        })
    };
    use AppendSide as A;
    let (speed, cost) = (StreamRun::megabytes_per_second, StreamRun::cpu_per_gib);
    let callers = streams.processes() * streams.callers();
    tell(
        &format!("{callers} producers, one stream"),
        &Series::of(of(A::Stream, speed).into_iter()),
        0,
        "MB/s",
        "",
    )?;
    tell("their CPU", &Series::of(of(A::Stream, cost).into_iter()), 2, "s/GiB", "")?;
    tell("bare chain", &Series::of(of(A::Floor, speed).into_iter()), 0, "MB/s", "")?;
    tell("one stream / bare chain", &over(A::Stream, A::Floor, speed), 2, "×", "at least 0.6")?;
    tell("bare chain / bare chain", &over(A::SecondFloor, A::Floor, speed), 2, "×", "1.00")?;
    tell("CPU, one stream / bare chain", &over(A::Stream, A::Floor, cost), 2, "×", "")?;
    tell("GFS file as 'cairn append'", &Series::of(of(A::File, speed).into_iter()), 1, "MB/s", "")?;
    tell("one stream / GFS file", &over(A::Stream, A::File, speed), 1, "×", "at least 10")?;
    let awaited = over(A::Stream, A::FileAwaited, speed);
    tell("one stream / GFS file, each awaited", &awaited, 1, "×", "")
}

/// One producer, and beside it one who appends to a GFS file.
pub(super) fn awaited(
    streams: &SharedStreams,
    around: &Surroundings,
    figures: &Figures<'_>,
) -> Result<(), BenchError> {
    let cell = OwnCell::start(SERVERS, around)?;
    let run = |job| {
        let deadline_s = around.options.deadline.as_secs();
        cell.run(&Load { job, processes: 1, callers: 1, deadline_s, by: None })
    };
    let (operations, record_size) = (streams.operations, streams.record_size);
    let (mut stream, mut file) = (Vec::new(), Vec::new());
    for round in 0..streams.pairs {
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                let root = format!("/stream-{round}");
                stream.push(run(CallerJob::ProduceAwaited { root, operations, record_size })?);
            } else {
                let (root, batch) = (format!("/file-{round}"), 1);
                file.push(run(CallerJob::Append { root, operations, batch, record_size })?);
            }
        }
    }
    let tell = |what: &str, value: f64, wanted: &str| {
        figures.tell(&Figure { what, value, digits: 0, unit: "µs", wanted })
    };
    let median = |of: &[LoadFigures], what: fn(&LoadFigures) -> f64| {
        Series::of(of.iter().map(what)).median()
    };
    tell("one producer, awaited, p50", median(&stream, LoadFigures::p50_us), "under 1000")?;
    tell("one producer, awaited, p99", median(&stream, LoadFigures::p99_us), "")?;
    tell("one producer, CPU of all", median(&stream, LoadFigures::cpu_us), "")?;
    tell("GFS file, awaited, p50", median(&file, LoadFigures::p50_us), "")?;
    tell("GFS file, awaited, p99", median(&file, LoadFigures::p99_us), "")?;
    tell("GFS file, CPU of all", median(&file, LoadFigures::cpu_us), "")
}
