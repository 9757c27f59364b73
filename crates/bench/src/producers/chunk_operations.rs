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
        let mut rates = Series::default();
        for round in 0..streams.pairs {
            let load = rig.load(job(format!("/{name}-{round}")), CLIENTS, 1);
            rates.push(rig.run(&load)?.rate());
        }
        Ok::<f64, BenchError>(rates.median())
    };
    let tell = |what: &str, value: f64, wanted: &str| {
        figures.tell(&Figure { what, value, digits: 0, unit: "a second", wanted })
    };
    let naming = Naming::C;
    let created = rate("created", &|root| CallerJob::Create {
        root,
        naming,
        operations,
        batch: 1,
        at_most: None,
    })?;
    let population = rig.population;
    let looked_up = rate("looked-up", &|_| {
        let operations = operations * LOOK_UPS;
        CallerJob::LookUp { population, operations, at_most: None }
    })?;
    tell("creations of files", created, "")?;
    tell("look-ups of files", looked_up, "")?;
    let operation = |what: ChunkOperation, operations: u64| {
        rate(&format!("{what:?}").to_lowercase().replace(['(', ')'], ""), &|root| {
            CallerJob::ChunkOperations { root, what, operations }
        })
    };
    let creates = format!("at least {created:.0}");
    let done = operation(ChunkOperation::AddAndAbandon, operations)?;
    tell("addChunk with abandonAddChunk", done, &creates)?;
    let done = operation(ChunkOperation::Complete, operations)?;
    tell("completeWrittenChunk", done, &creates)?;
    for (count, paper) in INFOS {
        let done = operation(ChunkOperation::Info(count), operations)?;
        let wanted = format!("at least {:.0}", paper * TIMES);
        tell(&format!("getChunksInfo({count} chunks)"), done, &wanted)?;
    }
    Ok(())
}
