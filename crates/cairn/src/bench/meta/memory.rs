//! What the master's process takes of the machine's memory: anonymous and mapped pages alike, after
//! a look-up of every name. Nothing is taken off.

use super::Meta;
use super::figures::{Figure, Figures};
use super::population::Population;
use super::rig::{Rig, Surroundings};
use crate::bench::load::Job;
use crate::cli_error::{CliError, Doing};

/// Resident bytes of a process.
///
/// # Errors
/// Where it is gone.
pub(super) fn resident(pid: u32) -> Result<u64, CliError> {
    let doing = || "reading the master's memory".to_owned();
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).doing(doing)?;
    let size = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kilobytes = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let strange = || std::io::Error::other("smaps_rollup has no Rss");
    Ok(1024 * kilobytes.ok_or_else(strange).doing(doing)?)
}

/// Bytes for each file, for each chunk, and for both together.
pub(super) struct Bytes {
    pub(super) file: f64,
    pub(super) chunk: f64,
    both: f64,
}

/// Looks up every name, then reads what is resident.
fn resident_after_look_ups(meta: &Meta, rig: &Rig<'_>) -> Result<u64, CliError> {
    let job = Job::LookUpAll { population: rig.population };
    let looked = rig.run(&rig.load(job, meta.processes(), meta.callers()))?;
    debug_assert_eq!(looked.operations, rig.population.files);
    resident(rig.master.pid)
}

/// Files alone, then files with chunks; the second master is left running.
pub(super) fn weigh<'j>(
    meta: &Meta,
    surroundings: &Surroundings<'j>,
    population: Population,
    name: &str,
    figures: &Figures<'_>,
) -> Result<(Bytes, Rig<'j>), CliError> {
    let files = population.files as f64;
    let alone = Population { chunks: false, ..population };
    let rig = Rig::filled(surroundings, &format!("{name}-names"), alone, figures)?;
    let of_files = resident_after_look_ups(meta, &rig)? as f64;
    drop(rig);
    let rig = Rig::filled(surroundings, name, population, figures)?;
    let of_both = resident_after_look_ups(meta, &rig)? as f64;
    let bytes = Bytes {
        file: of_files / files,
        chunk: (of_both - of_files) / files,
        both: of_both / files,
    };
    Ok((bytes, rig))
}

/// The step.
pub(super) fn measure<'j>(
    meta: &Meta,
    surroundings: &Surroundings<'j>,
    figures: &mut Figures<'_>,
) -> Result<Rig<'j>, CliError> {
    let (bytes, rig) = weigh(meta, surroundings, meta.population(), "cell", figures)?;
    let wanted = if meta.names == super::Naming::C { "at most 90" } else { "at most 64" };
    let tell = |what, value, wanted| {
        figures.tell(&Figure { what, value, digits: 1, unit: "bytes", wanted })
    };
    tell("memory for each file", bytes.file, wanted)?;
    tell("memory for each chunk, locations included", bytes.chunk, "at most 64")?;
    tell("memory for each file with its chunk", bytes.both, "")?;
    Ok(rig)
}
