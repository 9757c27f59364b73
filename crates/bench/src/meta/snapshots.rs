//! Snapshots of all the files: how long one takes, and what others wait for it.
//!
//! ```text
//!   creates in the tree + creates beside it + look-ups ──────────────┐ p99 of those that the
//!   the same, and a snapshot of the tree when they have begun ───────┘ snapshot does not concern
//!   look-ups alone, and a snapshot ────────────────────────────────────► how long it takes then
//! ```
//! A run is one and a half times as long as a snapshot takes that nobody disturbs, so that what
//! others wait is not lost among what they did afterwards.

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::rig::Rig;
use crate::error::{BenchError, Doing};
use crate::latencies::Latencies;
use crate::load::{CallerJob, LoadFigures};
use crate::pairs::Series;
use cairn_client::CellPath;
use std::time::{Duration, Instant};

/// Callers of each of the three loads, in a process of its own.
const CALLERS: u64 = 4;
/// No run is shorter.
const RUN_MIN: Duration = Duration::from_millis(500);

/// Latencies of the three loads.
#[derive(Default)]
struct Waits {
    inside: Latencies,
    beside: Latencies,
    looks: Latencies,
}

/// What is run in each round: the second quiet run says what the ratio to the first is worth.
const SIDES: [&str; 3] = ["busy", "quiet", "again"];

/// The step.
pub(super) fn measure(meta: &Meta, rig: &Rig, figures: &mut Figures<'_>) -> Result<(), BenchError> {
    // A master that has just begun first waits for leases of the one before it.
    take(rig, "/snapshot-first")?;
    let alone = take(rig, "/snapshot-alone")?;
    let run = alone.mul_f64(1.5).max(RUN_MIN);
    let (mut took, mut waits) = (Series::default(), <[Waits; 3]>::default());
    let (mut looked, mut looks) = (Series::default(), Latencies::default());
    for round in 0..meta.rounds {
        let look = [rig.load(look_up(rig, run), 1, CALLERS)];
        let (load, span) =
            rig.run_beside(&look, || take(rig, &format!("/snapshot-look-{round}")))?;
        looked.push(span.as_secs_f64());
        load.iter().for_each(|load| looks.merge(&load.latencies));
        // None comes first always.
        let first = usize::try_from(round).unwrap_or_default() % SIDES.len();
        for side in (first..SIDES.len()).chain(0..first) {
            let name = format!("{}-{round}", SIDES[side]);
            let snapshots = side == 0;
            let work = || match snapshots {
                true => take(rig, &format!("/snapshot-{round}")).map(Some),
                false => Ok(None),
            };
            let (loads, span) = side_by_side(meta, rig, &name, run, work)?;
            span.iter().for_each(|span| took.push(span.as_secs_f64()));
            let [inside, beside, looks] = &loads;
            waits[side].inside.merge(&inside.latencies);
            waits[side].beside.merge(&beside.latencies);
            waits[side].looks.merge(&looks.latencies);
        }
    }
    let tell = |what: &str, value, unit| {
        figures.tell(&Figure { what, value, digits: 2, unit, wanted: "" })
    };
    let files = rig.population.files;
    tell(&format!("snapshot of {files} files, nothing else"), alone.as_secs_f64(), "s")?;
    let ms = |latencies: &Latencies, part| latencies.quantile_us(part) / 1e3;
    tell("the same beside look-ups", looked.median(), "s")?;
    tell("look-ups, p99 meanwhile", ms(&looks, 0.99), "ms")?;
    tell("the same beside creates and look-ups", took.median(), "s")?;
    let [busy, quiet, again] = &waits;
    tell("creates in the tree, longest wait", ms(&busy.inside, 1.0), "ms")?;
    let tell_others = |what: &str, sides: [&Latencies; 3]| {
        let [busy, quiet, again] = sides.map(|side| ms(side, 0.99));
        tell(&format!("{what}, p99 without a snapshot"), quiet, "ms")?;
        tell(&format!("{what}, p99 meanwhile"), busy, "ms")?;
        tell(&format!("{what}, p99 beside without"), busy / quiet, "times")?;
        tell(&format!("{what}, without beside without"), again / quiet, "times")
    };
    tell_others("creates beside it", [&busy.beside, &quiet.beside, &again.beside])?;
    tell_others("look-ups", [&busy.looks, &quiet.looks, &again.looks])?;
    Ok(())
}

/// Takes a snapshot of all the files.
fn take(rig: &Rig, to: &str) -> Result<Duration, BenchError> {
    let doing = || "taking a snapshot".to_owned();
    rig.with_cell(doing, async |cell| {
        let path = |text| CellPath::parse(text).expect("a path");
        let begun = Instant::now();
        cell.snapshot(&path("/fill"), &path(to)).await.doing(doing)?;
        Ok(begun.elapsed())
    })
}

fn side_by_side<T>(
    meta: &Meta,
    rig: &Rig,
    name: &str,
    run: Duration,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<([LoadFigures; 3], T), BenchError> {
    let (naming, operations, at_most) = (meta.names, u64::MAX >> 8, Some(run));
    let create = |root| CallerJob::Create { root, naming, operations, batch: 1, at_most };
    let [inside, beside] = ["fill", "bench"].map(|top| create(format!("/{top}/{name}")));
    let jobs = [inside, beside, look_up(rig, run)];
    let loads = jobs.map(|job| rig.load(job, 1, CALLERS));
    let (all, done) = rig.run_beside(&loads, work)?;
    Ok((<[LoadFigures; 3]>::try_from(all).expect("figures of each load"), done))
}

/// Looks names up for so long.
fn look_up(rig: &Rig, run: Duration) -> CallerJob {
    let (operations, at_most) = (u64::MAX >> 8, Some(run));
    CallerJob::LookUp { population: rig.population, operations, at_most }
}
