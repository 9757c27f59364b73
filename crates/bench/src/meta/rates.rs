//! How many look-ups and durable changes a second, and what each costs.

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::population::Naming;
use super::rig::Rig;
use crate::disk_floor;
use crate::error::{BenchError, Doing};
use crate::load::{CallerJob, LoadFigures};
use crate::pairs::Series;

fn median(rounds: &[LoadFigures], of: impl Fn(&LoadFigures) -> f64) -> f64 {
    Series::of(rounds.iter().map(of)).median()
}

/// Rate, latencies and cost of one kind of operation, as medians of its rounds.
pub(super) fn tell_rounds(
    what: &str,
    rounds: &[LoadFigures],
    wanted: (&str, &str),
    figures: &Figures<'_>,
) -> Result<(), BenchError> {
    let tell = |suffix: &str, value: f64, digits: usize, unit: &str, wanted: &str| {
        let what = format!("{what}{suffix}");
        figures.tell(&Figure { what: &what, value, digits, unit, wanted })
    };
    tell("", median(rounds, LoadFigures::rate), 0, "a second", wanted.0)?;
    tell(", p50", median(rounds, LoadFigures::p50_us), 0, "µs", "")?;
    tell(", p99", median(rounds, LoadFigures::p99_us), 0, "µs", "")?;
    tell(
        ", CPU of clients and master",
        median(rounds, LoadFigures::cpu_us),
        1,
        "µs each",
        wanted.1,
    )?;
    tell(", CPU of the master", median(rounds, LoadFigures::master_cpu_us), 1, "µs each", "")
}

/// Look-ups at random, in rounds.
pub(super) fn look_up_rounds(meta: &Meta, rig: &Rig) -> Result<Vec<LoadFigures>, BenchError> {
    let (population, operations) = (rig.population, meta.operations * 5);
    let job = CallerJob::LookUp { population, operations, at_most: None };
    let load = rig.load(job, meta.processes(), meta.callers());
    (0..meta.rounds).map(|_| rig.run(&load)).collect()
}

/// The step.
pub(super) fn look_ups(
    meta: &Meta,
    rig: &Rig,
    figures: &mut Figures<'_>,
) -> Result<(), BenchError> {
    let rounds = look_up_rounds(meta, rig)?;
    tell_rounds("look-ups", &rounds, ("at least 150000", "at most 10"), figures)
}

pub(super) fn create(naming: Naming, root: &str, meta: &Meta) -> CallerJob {
    let (operations, batch) = (meta.operations, meta.batch);
    CallerJob::Create { root: root.to_owned(), naming, operations, batch, at_most: None }
}

/// Rounds of creations alone.
pub(super) fn create_rounds(meta: &Meta, rig: &Rig) -> Result<Vec<LoadFigures>, BenchError> {
    let one = |round| {
        let job = create(meta.names, &format!("/bench/created-{round}"), meta);
        rig.run(&rig.load(job, meta.processes(), meta.callers()))
    };
    (0..meta.rounds).map(one).collect()
}

/// The step: what a round creates it renames and deletes again. The disk is measured in between.
pub(super) fn changes(meta: &Meta, rig: &Rig, figures: &mut Figures<'_>) -> Result<(), BenchError> {
    let (mut creates, mut renames, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
    let mut floors = Series::default();
    let run = |job| rig.run(&rig.load(job, meta.processes(), meta.callers()));
    for round in 0..meta.rounds {
        let (naming, operations) = (meta.names, meta.operations);
        let root = format!("/bench/changed-{round}");
        let waiters = meta.processes() * meta.callers();
        let floor = disk_floor::group_committed(&rig.scratch, waiters);
        floors.push(floor.doing(|| "measuring the disk".to_owned())?);
        creates.push(run(create(naming, &root, meta))?);
        renames.push(run(CallerJob::Rename { root: root.clone(), naming, operations })?);
        deletes.push(run(CallerJob::Delete { root, naming, operations })?);
    }
    let floor = floors.median();
    let (callers, wanted) = (meta.processes() * meta.callers(), (floor / 2.0).min(25_000.0));
    figures.tell(&Figure {
        what: &format!("disk: synced records with {callers} waiters"),
        value: floor,
        digits: 0,
        unit: "a second",
        wanted: "",
    })?;
    let wanted = format!("at least {wanted:.0}");
    for (what, rounds) in [("creates", creates), ("renames", renames), ("deletes", deletes)] {
        tell_rounds(what, &rounds, (&wanted, ""), figures)?;
    }
    Ok(())
}
