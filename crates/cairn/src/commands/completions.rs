//! `cairn completions`: what a shell needs to complete our commands and flags, written by the
//! definitions that read the command line.

use crate::cli_error::CliError;
use crate::output::Output;
use clap::Args;
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// For which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Writes them to stdout.
pub(crate) fn run(
    arguments: &CompletionsArguments,
    mut commands: clap::Command,
) -> Result<(), CliError> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut commands, "cairn", &mut text);
    let output = Output::stdout(false)?;
    output.bytes(&text)?;
    output.flush()
}
