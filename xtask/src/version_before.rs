//! The binary of the version before this one: what a rolling upgrade begins with.
//!
//! `xtask/version-before.txt` names its commit: stored formats and messages change only so that it
//! and this build get on with each other, server by server.

use crate::fix::run;
use anyhow::{Context, Result, ensure};
use cairn_tidy::{cargo, root};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Builds it, in release, below `target/version-before`; where it then is.
///
/// # Errors
/// Where the commit is not in this clone, or it does not build.
pub(crate) fn build() -> Result<PathBuf> {
    let named = std::fs::read_to_string(root().join("xtask/version-before.txt"));
    let commit = named.context("reading xtask/version-before.txt")?.trim().to_owned();
    let place = root().join("target/version-before");
    let source = place.join(&commit);
    if !source.join("Cargo.toml").is_file() {
        std::fs::create_dir_all(&source)?;
        let mut archive = Command::new("git")
            .current_dir(root())
            .args(["archive", &commit])
            .stdout(Stdio::piped())
            .spawn()
            .context("starting git")?;
        let files = archive.stdout.take().expect("it is piped");
        let unpacked = Command::new("tar").arg("-x").current_dir(&source).stdin(files).status()?;
        let archived = archive.wait()?;
        ensure!(archived.success() && unpacked.success(), "commit {commit} is not in this clone");
    }
    let target = place.join("target");
    let mut build = cargo(&["build", "--release", "--locked", "--quiet", "--package", "cairn"]);
    run(build.current_dir(&source).env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("release/cairn"))
}
