//! Ten clients, each with its sequence of a whole cell's requests (GFS Table 6; TFS §3.1).

use super::arguments::Meta;
use super::figures::Figures;
use super::rates::tell_rounds;
use super::rig::Rig;
use crate::error::BenchError;
use crate::load::{CallerJob, RequestMix};

/// As in TFS §3.1.
const CLIENTS: u64 = 10;
const OPERATIONS_MAX: u64 = 42_000;

/// The step.
pub(super) fn measure(meta: &Meta, rig: &Rig, figures: &mut Figures<'_>) -> Result<(), BenchError> {
    let operations = OPERATIONS_MAX.min(meta.operations * 21);
    for (mix, what, wanted) in [
        (RequestMix::X, "mix of cluster X", "at least 30000"),
        (RequestMix::Y, "mix of cluster Y", ""),
    ] {
        let mut rounds = Vec::new();
        for round in 0..meta.rounds {
            let root = format!("/bench/mix-{mix:?}-{round}");
            let job = CallerJob::Mix { root, population: rig.population, mix, operations };
            rounds.push(rig.run(&rig.load(job, CLIENTS, 1))?);
        }
        tell_rounds(what, &rounds, (wanted, ""), figures)?;
    }
    Ok(())
}
