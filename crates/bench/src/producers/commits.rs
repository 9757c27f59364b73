//! Thousands of producers, a bundle a second each, and who waits for the stream to grow: what that
//! costs the master. Chunkservers of the bench hold no bytes.

use super::arguments::SharedStreams;
use crate::error::BenchError;
use crate::load::CallerJob;
use crate::meta::population::{Naming, Population};
use crate::meta::{Figure, Figures, Rig};
use crate::surroundings::Surroundings;

/// Files that the master has besides.
const FILES: u64 = 1_000;
const PROCESSES: u64 = 2;
const CALLERS: u64 = 5;

/// A master with a few files, and its hollow servers.
pub(super) fn rig(
    around: &Surroundings,
    name: &str,
    figures: &Figures<'_>,
) -> Result<Rig, BenchError> {
    let population =
        Population { files: FILES, per_directory: 1_000, naming: Naming::A, chunks: true };
    Rig::filled(around, name, population, figures)
}

pub(super) fn measure(
    streams: &SharedStreams,
    around: &Surroundings,
    figures: &Figures<'_>,
) -> Result<(), BenchError> {
    let rig = rig(around, "commits", figures)?;
    let tell = |what: &str, value: f64, digits: usize, unit: &str, wanted: &str| {
        figures.tell(&Figure { what, value, digits, unit, wanted })
    };
    let seconds = streams.seconds;
    for (root, waiters) in [("/alone", 0), ("/followed", streams.followers)] {
        let root = root.to_owned();
        let producers = streams.producers.div_ceil(PROCESSES * CALLERS);
        let commits = CallerJob::Commits { root: root.clone(), producers, seconds };
        let mut loads = vec![rig.load(commits, PROCESSES, CALLERS)];
        if waiters > 0 {
            loads.push(rig.load(CallerJob::WaitLength { root, waiters, seconds }, 1, 1));
        }
        let told = rig.run_together(&loads)?;
        let done = &told[0];
        let each = |what: &str| match waiters {
            0 => format!("{} producers, {what}", streams.producers),
            _ => format!("beside {waiters} followers, {what}"),
        };
        let wanted = format!("{}", streams.producers);
        tell(&each("commits"), done.rate(), 0, "a second", &wanted)?;
        tell(&each("p50"), done.p50_us(), 0, "µs", "")?;
        tell(&each("p99"), done.p99_us(), 0, "µs", "")?;
        let cores = done.master_cpu_seconds / done.seconds;
        tell(&each("the master"), cores, 2, "cores", if waiters == 0 { "under 0.5" } else { "" })?;
        if let Some(waited) = told.get(1) {
            tell(&each("told after a commit, p50"), waited.p50_us() / 1e3, 2, "ms", "")?;
            tell(&each("told after a commit, p99"), waited.p99_us() / 1e3, 2, "ms", "under 20")?;
        }
    }
    Ok(())
}
