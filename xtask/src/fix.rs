//! `cargo xtask fix` and `proto`: write what a machine can write better than a person.

use anyhow::{Context, Result, bail};
use cairn_tidy::cargo;
use std::process::Command;

/// Applies lints' suggestions, formats, rewrites what is generated.
///
/// # Errors
/// When a step fails; what was written until then stays.
pub(crate) fn fix() -> Result<()> {
    let lint =
        ["clippy", "--fix", "--workspace", "--all-targets", "--allow-dirty", "--allow-staged"];
    run(&mut cargo(&lint))?;
    run(&mut cargo(&["fmt", "--all"]))?;
    cairn_tidy::write_map()?;
    proto()
}

/// Writes docs/formats/cairn.proto: the test that holds it does.
///
/// # Errors
/// When a message is missing from the test's list, or the file cannot be written.
pub(crate) fn proto() -> Result<()> {
    let test = ["test", "--quiet", "--package", "cairn-protocol", "--test", "format_pages"];
    run(cargo(&test).env("UPDATE", "1"))
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("failed ({status}): {command:?}") }
}
