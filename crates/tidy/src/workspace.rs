//! Where the workspace is, and what cargo says of it.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the checkout in which it is run; of the one that it was built from, elsewhere.
#[must_use]
pub fn root() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    if let Some(root) = here.ancestors().find(|at| at.join("xtask/Cargo.toml").is_file()) {
        return root.to_owned();
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).expect("crates/tidy lies in the workspace's root").to_owned()
}

/// Cargo, the one that runs us, in the root.
#[must_use]
pub fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// The packages that `cargo metadata` tells: the workspace's alone, or all dependencies too.
///
/// # Errors
/// When cargo refuses, as it does where `Cargo.lock` is out of date.
pub fn packages(with_dependencies: bool) -> Result<Vec<Value>> {
    let mut command = cargo(&["metadata", "--format-version", "1", "--locked"]);
    if !with_dependencies {
        command.arg("--no-deps");
    }
    let output = command.output().context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let mut answer: Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata's answer is not JSON")?;
    match answer["packages"].take() {
        Value::Array(packages) => Ok(packages),
        other => bail!("cargo metadata's answer has no list of packages but {other}"),
    }
}
