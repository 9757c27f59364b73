//! Table 1 of TFS: what ten clients ask of the master for chunks, beside creations and look-ups of
//! the same run.

use super::arguments::SharedStreams;
use super::commits::rig;
use crate::error::BenchError;
use crate::load::{CallerJob, ChunkOperation};
use crate::meta::population::Naming;
use crate::meta::{Figure, Figures};
use crate::pairs::Series;
use crate::surroundings::Surroundings;

/// As in TFS §3.1.
const CLIENTS: u64 = 10;
/// Look-ups are so much faster.
const LOOK_UPS: u64 = 5;
/// What the paper's master answers of `getChunksInfo` a second, and times that it is asked for.
const INFOS: [(u32, f64); 5] =
    [(20, 2578.0), (50, 1225.0), (100, 683.0), (150, 453.0), (200, 350.0)];
const TIMES: f64 = 20.0;

pub(super) fn measure(
    streams: &SharedStreams,
    around: &Surroundings,
    figures: &Figures<'_>,
) -> Result<(), BenchError> {
    let rig = rig(around, "chunks", figures)?;
    let operations = streams.operations;
    let rate = |name: &str, job: &dyn Fn(String) -> CallerJob| {
        let (mut rates, mut costs) = (Series::default(), Series::default());
        for round in 0..streams.pairs {
            let load = rig.load(job(format!("/{name}-{round}")), CLIENTS, 1);
            let done = rig.run(&load)?;
            rates.push(done.rate());
            costs.push(done.master_cpu_us());
        }
        Ok::<(f64, f64), BenchError>((rates.median(), costs.median()))
    };
    let tell = |what: &str, value: f64, wanted: &str| {
        figures.tell(&Figure { what, value, digits: 0, unit: "a second", wanted })
    };
    let naming = Naming::C;
    let (created, costs) = rate("created", &|root| CallerJob::Create {
        root,
        naming,
        operations,
        batch: 1,
        at_most: None,
    })?;
    let population = rig.population;
    let (looked_up, _) = rate("looked-up", &|_| {
        let operations = operations * LOOK_UPS;
        CallerJob::LookUp { population, operations, at_most: None }
    })?;
    let tell_cost = |of: &str, value: f64| {
        let what = format!("{of}, the master's CPU");
        figures.tell(&Figure { what: &what, value, digits: 0, unit: "µs", wanted: "" })
    };
    tell("creations of files", created, "")?;
    tell_cost("creations of files", costs)?;
    tell("look-ups of files", looked_up, "")?;
    let operation = |what: ChunkOperation, operations: u64| {
        rate(&format!("{what:?}").to_lowercase().replace(['(', ')'], ""), &|root| {
            CallerJob::ChunkOperations { root, what, operations }
        })
    };
    let creates = format!("at least {created:.0}");
    for (what, asked) in [
        ("addChunk with abandonAddChunk", ChunkOperation::AddAndAbandon),
        ("completeWrittenChunk", ChunkOperation::Complete),
    ] {
        let (done, costs) = operation(asked, operations)?;
        tell(what, done, &creates)?;
        // Apart: the servers of the bench, which make the chunks, are on the same cores.
        tell_cost(what, costs)?;
    }
    for (count, paper) in INFOS {
        let (done, _) = operation(ChunkOperation::Info(count), operations)?;
        let wanted = format!("at least {:.0}", paper * TIMES);
        tell(&format!("getChunksInfo({count} chunks)"), done, &wanted)?;
    }
    Ok(())
}
