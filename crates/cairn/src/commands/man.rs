//! `cairn man`: manual pages, written by the definitions that read the command line.

use crate::cli_error::{CliError, Doing};
use crate::output::Output;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `man`.
#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// Write a page for each command into this directory, made where there is none
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes the first page to stdout, or all of them into a directory.
pub(crate) fn run(man: &ManArguments, commands: clap::Command) -> Result<(), CliError> {
    // Building makes a `help` below each command that has commands, and one below that for each of
    // them: a hundred pages that say nothing.
    let mut commands = commands.disable_help_subcommand(true);
    // What stands everywhere is told to every command's page.
    commands.build();
    let Some(dir) = &man.dir else {
        let mut page = Vec::new();
        let writing = || "writing the manual page".to_owned();
        clap_mangen::Man::new(commands).render(&mut page).doing(writing)?;
        let output = Output::stdout(false)?;
        output.bytes(&page)?;
        return output.flush();
    };
    let writing = || format!("writing manual pages into {}", dir.display());
    std::fs::create_dir_all(dir).doing(writing)?;
    clap_mangen::generate_to(commands, dir).doing(writing)
}
