//! Creations and look-ups while checkpoints are made, and the same without.
//!
//! ```text
//!   master without checkpoints:   creates + look-ups ──┐ ratio of the creates' rates,
//!   master, checkpoint after few: creates + look-ups ──┘ pair by pair
//! ```
//! The second master makes a checkpoint each time an eighth of a run's usual creations is done,
//! one after the other: more often than any master that is not measured. The records of one that
//! takes longer than that wait in the log as always.

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::rig::Rig;
use crate::error::BenchError;
use crate::latencies::Latencies;
use crate::load::{CallerJob, LoadFigures};
use crate::pairs::Series;
use std::time::Duration;

/// Milliseconds of a run for each operation that a caller does in other steps.
const MILLIS_PER_OPERATION: u64 = 4;
/// Processes and callers that look up files meanwhile.
const LOOKERS: (u64, u64) = (1, 4);
const NEVER: u64 = u64::MAX;

/// The step.
pub(super) fn measure(
    meta: &Meta,
    rig: &mut Rig,
    figures: &mut Figures<'_>,
) -> Result<(), BenchError> {
    let usual = meta.operations * meta.processes() * meta.callers();
    let (mut without, mut with, mut ratio) = <(Series, Series, Series)>::default();
    let (mut quiet, mut busy) = <(Latencies, Latencies)>::default();
    for round in 0..meta.rounds {
        rig.restart(Some(NEVER))?;
        let [creates, looks] = pair(meta, rig, &format!("/bench/quiet-{round}"))?;
        quiet.merge(&looks.latencies);
        without.push(creates.rate());
        let before = creates.rate();

        rig.restart(Some((usual / 8).max(1)))?;
        let [creates, looks] = pair(meta, rig, &format!("/bench/busy-{round}"))?;
        busy.merge(&looks.latencies);
        with.push(creates.rate());
        ratio.push(100.0 * creates.rate() / before);
    }
    rig.restart(None)?;
    let tell = |what, value, digits, unit, wanted| {
        figures.tell(&Figure { what, value, digits, unit, wanted })
    };
    tell("creates beside look-ups, no checkpoint", without.median(), 0, "a second", "")?;
    tell("creates beside look-ups and checkpoints", with.median(), 0, "a second", "")?;
    tell("creates' rate with checkpoints", ratio.median(), 0, "%", "at least 80")?;
    tell("look-ups without a checkpoint, p99", quiet.quantile_us(0.99) / 1e3, 2, "ms", "")?;
    tell("look-ups with checkpoints, p99", busy.quantile_us(0.99) / 1e3, 2, "ms", "at most 5")
}

/// Creations and look-ups side by side.
fn pair(meta: &Meta, rig: &Rig, root: &str) -> Result<[LoadFigures; 2], BenchError> {
    rig.wait_until_told()?;
    let at_most = Some(Duration::from_millis(meta.operations * MILLIS_PER_OPERATION));
    let (root, naming, operations) = (root.to_owned(), meta.names, u64::MAX >> 8);
    let create = CallerJob::Create { root, naming, operations, batch: meta.batch, at_most };
    let look = CallerJob::LookUp { population: rig.population, operations, at_most };
    let creates = rig.load(create, meta.processes(), meta.callers());
    let looks = rig.load(look, LOOKERS.0, LOOKERS.1);
    let both = rig.run_together(&[creates, looks])?;
    Ok(<[LoadFigures; 2]>::try_from(both).expect("figures of each load"))
}
