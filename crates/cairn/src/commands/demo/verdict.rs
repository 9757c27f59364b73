//! The demo's own judgement.

use crate::cli_error::{Cause, CliError};
use crate::exit_codes::Exit;

/// It went against the cell.
pub(crate) fn failed(doing: &str, why: impl Into<String>) -> CliError {
    let advice = "run it again with --keep and look at the servers' logs";
    CliError::new(doing, Cause::new(Exit::Damaged, why, advice))
}
