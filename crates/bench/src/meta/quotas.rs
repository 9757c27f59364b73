//! What a quota costs: creations and look-ups without one and with one, in turn.
//!
//! The quota is the root's and reached by nothing, so that all that is created is checked against
//! it and counted in it.

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::rates::{create, tell_rounds};
use super::rig::Rig;
use crate::error::{BenchError, Doing};
use crate::load::CallerJob;
use crate::pairs::Series;
use cairn_client::{CellPath, QuotaChange};

fn limit(rig: &Rig, change: QuotaChange) -> Result<(), BenchError> {
    let doing = || "setting a quota".to_owned();
    rig.with_cell(doing, |cell| async move {
        let root = CellPath::parse("/").expect("a path");
        cell.set_quota(&root, change).await.doing(doing)
    })
}

/// The step.
pub(super) fn measure(meta: &Meta, rig: &Rig, figures: &mut Figures<'_>) -> Result<(), BenchError> {
    let (population, operations) = (rig.population, meta.operations * 5);
    let run = |job| rig.run(&rig.load(job, meta.processes(), meta.callers()));
    let [mut creates, mut looks] = [(); 2].map(|()| [Vec::new(), Vec::new()]);
    for round in 0..meta.rounds {
        // Neither comes first always: what the first leaves behind would be the other's alone.
        let mut kinds = [(0, "free"), (1, "limited")];
        if round % 2 == 1 {
            kinds.reverse();
        }
        for (at, kind) in kinds {
            let most = Some(1 << 50);
            limit(
                rig,
                match at {
                    0 => QuotaChange { clears: true, ..QuotaChange::default() },
                    _ => QuotaChange { names: most, bytes: most, clears: false },
                },
            )?;
            creates[at].push(run(create(meta.names, &format!("/bench/{kind}-{round}"), meta))?);
            looks[at].push(run(CallerJob::LookUp { population, operations, at_most: None })?);
        }
    }
    limit(rig, QuotaChange { clears: true, ..QuotaChange::default() })?;
    for (what, [free, limited]) in [("creates", creates), ("look-ups", looks)] {
        tell_rounds(&format!("{what}, no quota"), &free, ("", ""), figures)?;
        tell_rounds(&format!("{what}, with a quota"), &limited, ("", ""), figures)?;
        // Of each round alone: a disk that is slow for some of them is so for both sides.
        let pairs = limited.iter().zip(&free).map(|(with, without)| with.rate() / without.rate());
        figures.tell(&Figure {
            what: &format!("{what} with a quota, beside without"),
            value: Series::of(pairs).median(),
            digits: 2,
            unit: "times",
            wanted: "at least 0.95",
        })?;
    }
    Ok(())
}
