//! Where the workspace is, and cargo run in it.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the checkout in which it is run; of the one that it was built from, elsewhere.
pub(crate) fn root() -> PathBuf {
    let is_root = |at: &&Path| at.join("xtask/tidy-exceptions.txt").is_file();
    let here = std::env::current_dir().unwrap_or_default();
    if let Some(root) = here.ancestors().find(is_root) {
        return root.to_owned();
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("xtask lies in the workspace's root").to_owned()
}

/// Cargo, the one that runs us, in the root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("failed ({status}): {command:?}") }
}

/// What `cargo metadata` says: of the workspace alone, or of all dependencies too.
///
/// # Errors
/// When cargo refuses, as it does where `Cargo.lock` is out of date.
pub(crate) fn metadata(with_dependencies: bool) -> Result<Value> {
    let mut command = cargo(&["metadata", "--format-version", "1", "--locked"]);
    if !with_dependencies {
        command.arg("--no-deps");
    }
    let output = command.output().context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata's answer is not JSON")
}

/// The packages of a metadata answer.
pub(crate) fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().map_or(&[], Vec::as_slice)
}
