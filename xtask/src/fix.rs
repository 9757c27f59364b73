//! `cargo xtask fix`: writes what a machine can write better than a person.

use crate::workspace::{cargo, run};
use crate::{code_map, proto};
use anyhow::Result;

/// Applies lints' suggestions, formats, rewrites what is generated and golden texts.
///
/// # Errors
/// When a step fails; what was written until then stays.
pub(crate) fn fix() -> Result<()> {
    let lint =
        ["clippy", "--fix", "--workspace", "--all-targets", "--allow-dirty", "--allow-staged"];
    run(&mut cargo(&lint))?;
    run(&mut cargo(&["fmt", "--all"]))?;
    proto::write()?;
    code_map::write()?;
    run(cargo(&["test", "--workspace", "--quiet"]).env("UPDATE", "1"))
}
