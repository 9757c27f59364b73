//! `cargo xtask verify`: everything that CI checks. It never writes to the work tree.
//!
//! Every step runs, whatever became of the ones before it, so that one run tells all that is
//! wrong. The last line sums up: tests passed, and tests or other steps failed.

use crate::fix::run;
use crate::simulation::RunKind;
use crate::{licences, simulation};
use anyhow::{Context, Result, bail};
use cairn_tidy::cargo;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

/// Seeds of the simulator that every verification runs, from 1 on.
const SEED_COUNT: u64 = 60;
/// Of those that have to heal in full.
const HEALING_SEED_COUNT: u64 = 30;
/// Of those with a group of masters.
const GROUP_SEED_COUNT: u64 = 8;
/// Of those with producers and readers of a stream.
const STREAM_SEED_COUNT: u64 = 10;

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TestCount {
    passed: u64,
    failed: u64,
}

impl TestCount {
    /// Reads `test result: ok. 3 passed; 0 failed; …`; nothing of any other line.
    fn of_line(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let number = |what: &str| {
            let part = counts.split("; ").find(|part| part.ends_with(what))?;
            part.split(' ').next()?.parse().ok()
        };
        Some(Self { passed: number("passed")?, failed: number("failed")? })
    }
}

/// What has been done so far.
#[derive(Default)]
struct Progress {
    tests: TestCount,
    failed_steps: Vec<&'static str>,
}

impl Progress {
    /// A step that counts tests; it fails with each of them, or as a whole where it cannot run.
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<TestCount>) {
        println!("── {name}");
        let start = Instant::now();
        let result = work();
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(count) => {
                self.tests.passed += count.passed;
                self.tests.failed += count.failed;
                let verdict = if count.failed == 0 { "good" } else { "FAILED" };
                println!("── {name}: {verdict}, {seconds:.1} s");
            }
            Err(error) => {
                self.failed_steps.push(name);
                println!("── {name}: FAILED after {seconds:.1} s: {error:#}");
            }
        }
    }

    /// A step that counts no tests.
    fn check(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) {
        self.step(name, || work().map(|()| TestCount::default()));
    }

    fn failed_count(&self) -> u64 {
        self.tests.failed + self.failed_steps.len() as u64
    }

    fn summary(&self) -> String {
        format!("{} passed, {} failed", self.tests.passed, self.failed_count())
    }
}

/// Runs every step; tells whether all is good.
pub(crate) fn verify() -> bool {
    let start = Instant::now();
    let mut progress = Progress::default();
    progress.check("fmt", || run(&mut cargo(&["fmt", "--all", "--check"])));
    progress.check("tidy", || cairn_tidy::report(false));
    progress.check("licences", licences::report);
    progress.check("clippy", || {
        let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        run(&mut cargo(&lint))
    });
    progress.step("tests", run_tests);
    progress.check("docs", || {
        let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
        run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    });
    progress.check("simulation", || {
        simulation::same_trace_in_two_processes(1)?;
        simulation::pinned()?;
        simulation::seeds(1, SEED_COUNT, RunKind::Hard)?;
        simulation::seeds(1, HEALING_SEED_COUNT, RunKind::Heals)?;
        simulation::seeds(1, GROUP_SEED_COUNT, RunKind::Masters)?;
        simulation::seeds(1, STREAM_SEED_COUNT, RunKind::Streams)
    });
    progress.check("planted bugs", || simulation::planted(&[]));
    if !progress.failed_steps.is_empty() {
        println!("failed steps: {}", progress.failed_steps.join(", "));
    }
    println!("all steps: {:.0} s", start.elapsed().as_secs_f64());
    println!("{}", progress.summary());
    progress.failed_count() == 0
}

/// Runs all tests of the workspace, also after a failure, and echoes what they print.
fn run_tests() -> Result<TestCount> {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let output = child.stdout.take().expect("stdout is piped");
    let mut sum = TestCount::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("cargo test's output is not text")?;
        println!("{line}");
        let count = TestCount::of_line(&line).unwrap_or_default();
        sum.passed += count.passed;
        sum.failed += count.failed;
    }
    let status = child.wait().context("waiting for cargo test")?;
    if !status.success() && sum.failed == 0 {
        bail!("cargo test failed ({status}) without a failed test");
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::{Progress, TestCount};
    use anyhow::bail;

    #[test]
    fn counts_come_from_the_result_line_alone() {
        let line = "test result: FAILED. 41 passed; 2 failed; 1 ignored; finished in 0.07s";
        assert_eq!(TestCount::of_line(line), Some(TestCount { passed: 41, failed: 2 }));
        assert_eq!(TestCount::of_line("test a::b ... ok"), None);
        assert_eq!(TestCount::of_line("41 passed; 2 failed"), None);
    }

    #[test]
    fn each_failed_test_counts_and_a_step_that_cannot_run_counts_once() {
        let mut progress = Progress::default();
        progress.step("tests", || Ok(TestCount { passed: 7, failed: 0 }));
        assert_eq!(progress.summary(), "7 passed, 0 failed");
        progress.step("tests", || Ok(TestCount { passed: 2, failed: 3 }));
        progress.check("fmt", || bail!("one line too long"));
        assert_eq!(progress.summary(), "9 passed, 4 failed");
    }
}
