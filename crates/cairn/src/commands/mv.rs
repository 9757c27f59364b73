//! `cairn mv`: renames within a cell; readers and writers of the file notice nothing (R20).

use crate::cli_error::{CliError, Doing, Tally};
use crate::destination::Destination;
use crate::session::{RemotePath, Session};
use clap::Args;

/// Arguments of `mv`.
#[derive(Args, Debug)]
pub(crate) struct MvArguments {
    /// Replace a file that is there
    #[arg(short)]
    force: bool,
    /// What to move
    #[arg(required = true)]
    sources: Vec<String>,
    /// Where to: a directory that is there, or a new name
    destination: String,
}

/// Runs it.
pub(crate) async fn run(mv: MvArguments, session: &Session) -> Result<(), CliError> {
    let several = mv.sources.len() > 1;
    let destination = Destination::find(session, &mv.destination, several, false).await?;
    let mut tally = Tally::default();
    for text in &mv.sources {
        tally.note(one(text, &destination, mv.force, session).await)?;
    }
    tally.finish()
}

async fn one(
    text: &str,
    destination: &Destination,
    force: bool,
    session: &Session,
) -> Result<(), CliError> {
    let from = session.remote_path(text).await?;
    let to = destination.of(name_of(&from)?)?;
    if from.address != to.address {
        let advice = "cp -r copies it, then rm -r removes the old one";
        let why = "it is in another cell";
        return Err(CliError::usage(format!("moving {from} to {to}"), why, advice));
    }
    let moved = from.cell.rename(&from.path, &to.path, force).await;
    moved.doing(|| format!("moving {from} to {to}"))
}

/// The last name of a path; the root has none.
///
/// # Errors
/// For the root.
pub(crate) fn name_of(place: &RemotePath) -> Result<&str, CliError> {
    place.path.name().ok_or_else(|| {
        let advice = "name something in it";
        CliError::usage(format!("taking {place}"), "the root has no name", advice)
    })
}
