//! `cargo xtask sim`: whole cells under faults, a seed each, on all processors.
//!
//! ```text
//!   --seeds N [--from K]    seeds K … K+N−1
//!   --seed N [--trace]      one of them, event by event
//!   … --mild                without the rarer faults, and less strictly judged
//!   … --heals               those that have to heal in full when the faults are over
//!   … --masters             with three masters, and what befalls groups of them
//!   … --streams             with producers and readers of a stream
//!   --planted [RULE]        each rule broken on purpose, or one: a checker must notice
//! ```
//! - M1: a run's seed is all there is to it; a failure is printed with the command that repeats it.

use anyhow::{Context, Error, Result, anyhow, bail};
use cairn_sim::{CheckFailure, RunConfig, RunReport};
use cairn_tidy::root;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Which runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// With all that disks, networks and machines do.
    Hard,
    /// Without the rarer faults.
    Mild,
    /// That have to heal in full.
    Heals,
    /// With three masters whose disks are lost and whose group is changed.
    Masters,
    /// With producers and readers of a stream.
    Streams,
}

/// Runs what the words after `sim` ask for.
///
/// # Errors
/// When they make no sense, or something failed that should not, or did not that should.
pub(crate) fn sim(words: &[&str]) -> Result<()> {
    keep_freed_memory()?;
    let (words, kind) = match words {
        [words @ .., "--mild"] => (words, RunKind::Mild),
        [words @ .., "--heals"] => (words, RunKind::Heals),
        [words @ .., "--masters"] => (words, RunKind::Masters),
        [words @ .., "--streams"] => (words, RunKind::Streams),
        words => (words, RunKind::Hard),
    };
    match words {
        ["--planted", rules @ ..] if kind == RunKind::Hard => planted(rules),
        ["--seed", seed] => one(number(seed)?, kind, false),
        ["--seed", seed, "--trace"] => one(number(seed)?, kind, true),
        ["--seeds", count] => seeds(1, number(count)?, kind),
        ["--seeds", count, "--from", from] => seeds(number(from)?, number(count)?, kind),
        _ => {
            bail!(
                "sim --seeds N [--from K] | --seed N [--trace], each \
                 [--mild|--heals|--masters|--streams]; --planted [RULE]"
            )
        }
    }
}

/// Whoever simulates keeps the memory that it frees: runs take it again at once, and to have it
/// cleared each time was a tenth of theirs. The allocator reads that before `main`, so this process
/// becomes one that is told.
///
/// # Errors
/// When it cannot.
fn keep_freed_memory() -> Result<()> {
    const NEVER: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "-1");
    if std::env::var_os(NEVER.0).is_some() {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe().context("finding this program")?);
    let failure = again.args(std::env::args_os().skip(1)).env(NEVER.0, NEVER.1).exec();
    Err(failure).context("starting this program anew")
}

fn number(word: &str) -> Result<u64> {
    word.parse().with_context(|| format!("not a number: {word}"))
}

/// One seed, told in full; its last line but for a failure is the trace's hash.
fn one(seed: u64, kind: RunKind, trace: bool) -> Result<()> {
    let report = run_seed(seed, kind, trace);
    println!("{} operations", report.operations);
    print_reached(&report.reached);
    println!("trace {:016x}", report.trace_hash);
    report.failure.map_or(Ok(()), |failure| Err(failed(seed, kind, &failure)))
}

/// Many seeds; every failure is printed, and counted at the end.
pub(crate) fn seeds(from: u64, count: u64, kind: RunKind) -> Result<()> {
    let start = Instant::now();
    let all: Vec<u64> = (from..from + count).collect();
    let reports = on_all_processors(&all, |seed| {
        let report = run_seed(*seed, kind, false);
        if let Some(failure) = &report.failure {
            println!("{:#}", failed(*seed, kind, failure));
        }
        report
    });
    let failures = reports.iter().filter(|report| report.failure.is_some()).count();
    let mut operations = 0;
    let mut reached = BTreeMap::new();
    for report in reports {
        operations += report.operations;
        for (what, times) in report.reached {
            *reached.entry(what).or_insert(0) += times;
        }
    }
    print_reached(&reached);
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} seeds from {from}: {operations} operations in {seconds:.0} s");
    if failures > 0 { bail!("{failures} of {count} seeds failed") } else { Ok(()) }
}

/// The same seed in this process and in another one must leave the same trace.
///
/// # Errors
/// When it does not.
pub(crate) fn same_trace_in_two_processes(seed: u64) -> Result<()> {
    let ours = run_seed(seed, RunKind::Hard, false);
    let mut other = Command::new(std::env::current_exe().context("finding this program")?);
    let output = other.args(["sim", "--seed", &seed.to_string()]).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let trace = format!("trace {:016x}", ours.trace_hash);
    if said.lines().any(|line| line == trace) {
        println!("seed {seed} in two processes: {trace}");
        Ok(())
    } else {
        bail!("seed {seed}: {trace} here, in another process it printed:\n{said}")
    }
}

/// Breaks each rule on purpose; of some, those alone.
///
/// # Errors
/// When a rule's loss goes unnoticed, or this build has no planted bugs.
pub(crate) fn planted(some: &[&str]) -> Result<()> {
    #[cfg(feature = "planted-bugs")]
    return crate::planted::break_each(some);
    #[cfg(not(feature = "planted-bugs"))]
    bail!("this build has no planted bugs: run it as `cargo xtask`: {some:?}");
}

/// Runs that failed once, for a bug that is mended.
///
/// # Errors
/// When one fails again.
pub(crate) fn pinned() -> Result<()> {
    let scenarios = cairn_sim::scenarios::pinned();
    let failures = on_all_processors(&scenarios, |scenario| {
        let failure = cairn_sim::run(&scenario.config).failure?;
        println!("{}: {}", scenario.name, describe(&failure));
        Some(failure)
    });
    let count = failures.iter().flatten().count();
    println!("{} pinned scenarios", scenarios.len());
    if count > 0 { bail!("{count} bugs are back") } else { Ok(()) }
}

fn run_seed(seed: u64, kind: RunKind, trace: bool) -> RunReport {
    let config = match kind {
        RunKind::Hard => RunConfig::hard(seed),
        RunKind::Mild => RunConfig::of(seed),
        RunKind::Heals => RunConfig::healing(seed),
        RunKind::Masters => RunConfig::hard(seed).with_group(),
        RunKind::Streams => RunConfig::hard(seed).with_streams(),
    };
    cairn_sim::run(&RunConfig { trace, ..config })
}

pub(crate) fn describe(failure: &CheckFailure) -> String {
    let seconds = failure.at.seconds();
    format!("checker {} at {seconds:.3} s: {}", failure.checker, failure.message)
}

/// What to print of a failed seed: what, where, and how to see it again.
fn failed(seed: u64, kind: RunKind, failure: &CheckFailure) -> Error {
    let what = describe(failure);
    let commit = commit();
    let kind = match kind {
        RunKind::Hard => "",
        RunKind::Mild => " --mild",
        RunKind::Heals => " --heals",
        RunKind::Masters => " --masters",
        RunKind::Streams => " --streams",
    };
    let again = format!("cargo xtask sim --seed {seed} --trace{kind}");
    anyhow!("seed {seed} at commit {commit}: {what}\n  again: {again}")
}

fn commit() -> String {
    let output =
        Command::new("git").current_dir(root()).args(["rev-parse", "--short", "HEAD"]).output();
    let hash = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&hash).trim().to_owned()
}

fn print_reached(reached: &BTreeMap<&'static str, u64>) {
    for (what, times) in reached {
        println!("  {times:9}  {what}");
    }
}

/// Does one piece of work for each item, a thread per processor; results in the items' order.
pub(crate) fn on_all_processors<I: Sync, T: Send>(
    items: &[I],
    work: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    done.lock().expect("work does not panic").insert(at, result);
                }
            });
        }
    });
    done.into_inner().expect("work does not panic").into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::on_all_processors;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(on_all_processors(&items, |item| item * 2)[99], 198);
    }
}
