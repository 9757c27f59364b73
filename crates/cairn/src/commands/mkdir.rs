//! `cairn mkdir`: makes directories.

use crate::cli_error::{CliError, Doing, Tally};
use crate::many_paths::{make_directories, places};
use crate::session::{RemotePath, Session};
use clap::Args;

/// Arguments of `mkdir`.
#[derive(Args, Debug)]
pub(crate) struct MkdirArguments {
    /// Those above it too; an existing directory is no error
    #[arg(short)]
    parents: bool,
    /// What to make
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Runs it: a directory before those in it, as they were written, so without `-p` one by one.
pub(crate) async fn run(mkdir: MkdirArguments, session: &Session) -> Result<(), CliError> {
    let mut tally = Tally::default();
    let mut together = Vec::new();
    for (_, place) in places(session, &mkdir.paths).await {
        match place {
            Ok(place) if mkdir.parents => together.push(place),
            Ok(place) => tally.note(one(&place).await)?,
            Err(complaint) => tally.note(Err(complaint))?,
        }
    }
    for made in make_directories(&together).await {
        tally.note(made)?;
    }
    tally.finish()
}

async fn one(place: &RemotePath) -> Result<(), CliError> {
    let made = place.cell.make_directory(&place.path, false).await;
    made.map(drop).doing(|| format!("making the directory {place}"))
}
