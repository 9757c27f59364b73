//! Runs the workspace's tests and counts them from what cargo prints.

use crate::workspace::cargo;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::process::Stdio;

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestCount {
    /// Passed.
    pub(crate) passed: u64,
    /// Failed.
    pub(crate) failed: u64,
}

impl AddAssign for TestCount {
    fn add_assign(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
    }
}

impl TestCount {
    /// Reads `test result: ok. 3 passed; 0 failed; …`; nothing of any other line.
    fn of_line(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let number = |what: &str| {
            let part = counts.split(';').map(str::trim).find(|part| part.ends_with(what))?;
            part.split(' ').next()?.parse().ok()
        };
        Some(Self { passed: number("passed")?, failed: number("failed")? })
    }
}

/// Runs all tests of the workspace, also after a failure, and echoes what they print.
///
/// # Errors
/// When cargo fails without a failed test: something does not compile, or a test ended the
/// process.
pub(crate) fn run_all() -> Result<TestCount> {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let output = child.stdout.take().expect("stdout is piped");
    let mut sum = TestCount::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("cargo test's output is not text")?;
        println!("{line}");
        if let Some(count) = TestCount::of_line(&line) {
            sum += count;
        }
    }
    let status = child.wait().context("waiting for cargo test")?;
    if !status.success() && sum.failed == 0 {
        bail!("cargo test failed ({status}) without a failed test");
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::TestCount;

    #[test]
    fn counts_come_from_the_result_line_alone() {
        let line = "test result: FAILED. 41 passed; 2 failed; 1 ignored; 0 measured; 0 filtered \
                    out; finished in 0.07s";
        assert_eq!(TestCount::of_line(line), Some(TestCount { passed: 41, failed: 2 }));
        assert_eq!(TestCount::of_line("test a::b ... ok"), None);
        assert_eq!(TestCount::of_line("41 passed; 2 failed"), None);
    }
}
