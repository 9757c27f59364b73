//! `cargo xtask soak`: builds the soaks and the binary that they start, in release, and runs them.

use crate::fix::run;
use anyhow::Result;
use cairn_tidy::cargo;

/// Runs what the words after `soak` ask for; crates/soaks says what that may be.
///
/// # Errors
/// When the words make no sense, or the cell did not keep its word.
pub(crate) fn soak(words: &[&str]) -> Result<()> {
    let release = ["--release", "--locked", "--quiet", "--package", "cairn-soaks"];
    run(cargo(&["build"]).args(release).args(["--package", "cairn"]))?;
    run(cargo(&["run"]).args(release).arg("--").args(words))
}
