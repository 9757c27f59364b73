//! `cargo xtask soak`: builds the soaks and the binary that they start, in release, and runs them.

use crate::fix::run;
use crate::version_before;
use anyhow::{Context, Result};
use cairn_tidy::cargo;

/// Runs what the words after `soak` ask for; crates/soaks says what that may be.
///
/// # Errors
/// When the words make no sense, or the cell did not keep its word.
pub(crate) fn soak(words: &[&str]) -> Result<()> {
    let release = ["--release", "--locked", "--quiet", "--package", "cairn-soaks"];
    run(cargo(&["build"]).args(release).args(["--package", "cairn"]))?;
    let mut soak = cargo(&["run"]);
    soak.args(release).arg("--").args(words);
    if words.first() == Some(&"upgrade") && !words.contains(&"--against") {
        let before = version_before::build().context("building the version before")?;
        soak.arg("--against").arg(before);
    }
    run(&mut soak)
}
