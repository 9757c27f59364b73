//! `cargo xtask verify`: everything that CI checks. It never writes to the work tree.
//!
//! Every step runs, whatever became of the ones before it, so that one run tells all that is
//! wrong. The last line sums up: tests passed, and tests or other steps failed.

use crate::test_run::TestCount;
use crate::workspace::{cargo, run};
use crate::{licences, simulation, test_run, tidy};
use anyhow::Result;
use std::time::Instant;

/// Seeds of the simulator that every verification runs, from 1 on.
const SEED_COUNT: u64 = 60;

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
                self.tests += count;
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

    fn is_good(&self) -> bool {
        self.tests.failed == 0 && self.failed_steps.is_empty()
    }

    fn summary(&self) -> String {
        let failed = self.tests.failed + self.failed_steps.len() as u64;
        format!("{} passed, {failed} failed", self.tests.passed)
    }
}

/// Runs every step; tells whether all is good.
pub(crate) fn verify() -> bool {
    let start = Instant::now();
    let mut progress = Progress::default();
    progress.check("fmt", || run(&mut cargo(&["fmt", "--all", "--check"])));
    progress.check("tidy", || tidy::report(false));
    progress.check("licences", licences::report);
    progress.check("clippy", || {
        let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        run(&mut cargo(&lint))
    });
    progress.step("tests", test_run::run_all);
    progress.check("docs", || {
        let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
        run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    });
    progress.check("simulation", || {
        simulation::same_trace_in_two_processes(1)?;
        simulation::pinned()?;
        simulation::seeds(1, SEED_COUNT)
    });
    progress.check("planted bugs", simulation::planted);
    if !progress.failed_steps.is_empty() {
        println!("failed steps: {}", progress.failed_steps.join(", "));
    }
    println!("all steps: {:.0} s", start.elapsed().as_secs_f64());
    println!("{}", progress.summary());
    progress.is_good()
}

#[cfg(test)]
mod tests {
    use super::Progress;
    use crate::test_run::TestCount;
    use anyhow::bail;

    #[test]
    fn failed_tests_are_summed_up_one_by_one() {
        let mut progress = Progress::default();
        progress.step("tests", || Ok(TestCount { passed: 7, failed: 0 }));
        assert_eq!(progress.summary(), "7 passed, 0 failed");
        assert!(progress.is_good());
        progress.step("tests", || Ok(TestCount { passed: 2, failed: 3 }));
        assert_eq!(progress.summary(), "9 passed, 3 failed");
        assert!(!progress.is_good());
    }

    #[test]
    fn a_step_that_cannot_run_counts_as_one_failure() {
        let mut progress = Progress::default();
        progress.check("fmt", || bail!("one line too long"));
        assert_eq!(progress.summary(), "0 passed, 1 failed");
        assert!(!progress.is_good());
    }
}
