//! What the master's process takes of the machine's memory: anonymous and mapped pages alike, after
//! a look-up of every name. Nothing is taken off.

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::population::{Naming, Population};
use super::rig::Rig;
use crate::error::{BenchError, Doing};
use crate::load::CallerJob;
use crate::surroundings::Surroundings;

/// Resident bytes of a process.
///
/// # Errors
/// Where it is gone.
pub(super) fn resident(pid: u32) -> Result<u64, BenchError> {
    let doing = || "reading the master's memory".to_owned();
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).doing(doing)?;
    let size = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kilobytes = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let strange = || std::io::Error::other("smaps_rollup has no Rss");
    Ok(1024 * kilobytes.ok_or_else(strange).doing(doing)?)
}

/// BytesEach for each file, for each chunk, and for both together.
pub(super) struct BytesEach {
    pub(super) file: f64,
    pub(super) chunk: f64,
    both: f64,
}

/// Looks up every name, then reads what is resident.
fn resident_after_look_ups(meta: &Meta, rig: &Rig) -> Result<u64, BenchError> {
    let job = CallerJob::LookUpAll { population: rig.population };
    let looked = rig.run(&rig.load(job, meta.processes(), meta.callers()))?;
    assert_eq!(looked.operations, rig.population.files, "the callers share all names");
    resident(rig.master_pid())
}

/// Files alone, then files with chunks; the second master is left running.
pub(super) fn weigh(
    meta: &Meta,
    around: &Surroundings,
    population: Population,
    name: &str,
    figures: &Figures<'_>,
) -> Result<(BytesEach, Rig), BenchError> {
    let files = population.files as f64;
    let alone = Population { chunks: false, ..population };
    let rig = Rig::filled(around, &format!("{name}-names"), alone, figures)?;
    let of_files = resident_after_look_ups(meta, &rig)? as f64;
    drop(rig);
    let rig = Rig::filled(around, name, population, figures)?;
    let of_both = resident_after_look_ups(meta, &rig)? as f64;
    let bytes = BytesEach {
        file: of_files / files,
        chunk: (of_both - of_files) / files,
        both: of_both / files,
    };
    Ok((bytes, rig))
}

/// The step.
pub(super) fn measure(
    meta: &Meta,
    around: &Surroundings,
    figures: &mut Figures<'_>,
) -> Result<Rig, BenchError> {
    let (bytes, rig) = weigh(meta, around, meta.population(), "cell", figures)?;
    let wanted = if meta.names == Naming::C { "at most 90" } else { "at most 64" };
    let tell = |what, value, wanted| {
        figures.tell(&Figure { what, value, digits: 1, unit: "bytes", wanted })
    };
    tell("memory for each file", bytes.file, wanted)?;
    tell("memory for each chunk, locations included", bytes.chunk, "at most 64")?;
    tell("memory for each file with its chunk", bytes.both, "")?;
    Ok(rig)
}
