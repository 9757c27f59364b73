//! `cargo xtask sim`: whole cells under faults, a seed each, on all processors.
//!
//! ```text
//!   --seeds N [--from K]    seeds K … K+N−1
//!   --seed N [--trace]      one of them, event by event
//!   --planted               each rule broken on purpose: a checker must notice
//! ```
//! - M1: a run's seed is all there is to it; a failure is printed with the command that repeats it.

use crate::workspace::root;
use anyhow::{Context, Error, Result, anyhow, bail};
use cairn_sim::{CheckFailure, PlantedReport, RunConfig, RunReport};
use cairn_types::planted::Rule;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Runs what the words after `sim` ask for.
///
/// # Errors
/// When they make no sense, or something failed that should not, or did not that should.
pub(crate) fn sim(words: &[&str]) -> Result<()> {
    match words {
        ["--planted"] => planted(),
        ["--seed", seed] => one(number(seed)?, false),
        ["--seed", seed, "--trace"] => one(number(seed)?, true),
        ["--seeds", count] => seeds(1, number(count)?),
        ["--seeds", count, "--from", from] => seeds(number(from)?, number(count)?),
        _ => bail!("sim --seeds N [--from K] | --seed N [--trace] | --planted"),
    }
}

fn number(word: &str) -> Result<u64> {
    word.parse().with_context(|| format!("not a number: {word}"))
}

/// One seed, told in full; its last line but for a failure is the trace's hash.
fn one(seed: u64, trace: bool) -> Result<()> {
    let report = run_seed(seed, trace).map_err(|panic| failed(seed, &panic))?;
    println!("{} operations", report.operations);
    print_reached(&report.reached);
    println!("trace {:016x}", report.trace_hash);
    report.failure.map_or(Ok(()), |failure| Err(failed(seed, &describe(&failure))))
}

/// Many seeds; every failure is printed, and counted at the end.
pub(crate) fn seeds(from: u64, count: u64) -> Result<()> {
    let start = Instant::now();
    let all: Vec<u64> = (from..from + count).collect();
    let results = on_all_processors(&all, |seed| {
        let result = run_seed(*seed, false);
        let failure = match &result {
            Ok(report) => report.failure.as_ref().map(describe),
            Err(panic) => Some(panic.clone()),
        };
        if let Some(failure) = &failure {
            println!("{:#}", failed(*seed, failure));
        }
        (result.ok(), failure.is_some())
    });
    let failures = results.iter().filter(|(_, failed)| *failed).count();
    let mut operations = 0;
    let mut reached = BTreeMap::new();
    for report in results.into_iter().filter_map(|(report, _)| report) {
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
    let ours = run_seed(seed, false).map_err(|panic| failed(seed, &panic))?;
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

/// Breaks each rule on purpose.
///
/// # Errors
/// When a rule's loss goes unnoticed.
pub(crate) fn planted() -> Result<()> {
    if cfg!(not(feature = "planted-bugs")) {
        bail!("this build has no planted bugs: run it as `cargo xtask sim --planted`");
    }
    let unnoticed: Vec<String> = on_all_processors(Rule::ALL, |rule| {
        let report = catch(|| cairn_sim::planted(*rule));
        let by = match report {
            Ok(PlantedReport { caught: Some(failure), .. }) => describe(&failure),
            Ok(PlantedReport { caught: None, .. }) => return Some(format!("{rule:?}")),
            Err(panic) => panic,
        };
        println!("{rule:?} broken: {by}");
        None
    })
    .into_iter()
    .flatten()
    .collect();
    if unnoticed.is_empty() {
        println!("{} rules, each one's loss noticed", Rule::ALL.len());
        Ok(())
    } else {
        bail!("no checker notices the loss of {}", unnoticed.join(", "))
    }
}

fn run_seed(seed: u64, trace: bool) -> Result<RunReport, String> {
    catch(|| cairn_sim::run(RunConfig { trace, ..RunConfig::of(seed) }))
}

/// Runs something in which asserts may fire; one that does is a finding like any other.
fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("an assert fired: {}", text.unwrap_or_default())
    })
}

fn describe(failure: &CheckFailure) -> String {
    let seconds = failure.at.seconds();
    format!("checker {} at {seconds:.3} s: {}", failure.checker, failure.message)
}

/// What to print of a failed seed: what, where, and how to see it again.
fn failed(seed: u64, what: &str) -> Error {
    let commit = commit();
    anyhow!(
        "seed {seed} at commit {commit}: {what}\n  again: cargo xtask sim --seed {seed} --trace"
    )
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
fn on_all_processors<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
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
    use super::{catch, on_all_processors};

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(on_all_processors(&items, |item| item * 2)[99], 198);
    }

    #[test]
    fn an_assert_that_fires_is_a_finding_and_not_the_end() {
        let caught = catch(|| assert!(items() > 3, "only {}", items()));
        assert_eq!(caught, Err("an assert fired: only 0".to_owned()));
        assert_eq!(catch(|| 4), Ok(4));
    }

    fn items() -> usize {
        std::hint::black_box(0)
    }
}
