//! `cairn mv`: renames within a cell; readers and writers of the file notice nothing (R20).

use crate::cli_error::{CliError, Doing, Tally};
use crate::destination::{Destination, split_last};
use crate::doubled_targets::take_doubled;
use crate::exit_codes::Exit;
use crate::many_paths::sources;
use crate::output::Output;
use crate::session::{RemotePath, Session};
use cairn_protocol::ErrorCode;
use clap::Args;
use serde_json::json;

/// Arguments of `mv`.
#[derive(Args, Debug)]
pub(crate) struct MvArguments {
    /// Replace a file that is there
    #[arg(short, long)]
    force: bool,
    /// Say what was moved where
    #[arg(short, long)]
    verbose: bool,
    /// What to move, and where to: a directory that is there, or a new name
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "DESTINATION"])]
    arguments: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(
    mut mv: MvArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let (texts, destination) = split_last("mv", std::mem::take(&mut mv.arguments))?;
    let mut tally = Tally::default();
    let sources = sources(session, &texts, &mut tally).await?;
    let several = texts.len().max(sources.len()) > 1;
    let destination = Destination::find(session, &destination, several, false).await?;
    let mut moves = Vec::new();
    for from in sources {
        match name_of(&from).and_then(|name| destination.of(name)) {
            Ok(to) => moves.push((from, to)),
            Err(error) => tally.note(Err(error))?,
        }
    }
    let doubled = take_doubled(&mut moves, |(_, to)| to.path.clone());
    for (from, to) in &moves {
        tally.note(one(&mv, from, to, output).await)?;
    }
    // With -f it would take the place of what has just been moved there.
    for (from, to) in doubled {
        let why = "another one of these is moved there";
        let doing = format!("moving {from} to {to}");
        tally.note(Err(CliError::usage(doing, why, "move it to another name")))?;
    }
    tally.finish()
}

async fn one(
    mv: &MvArguments,
    from: &RemotePath,
    to: &RemotePath,
    output: &Output,
) -> Result<(), CliError> {
    if from.address != to.address {
        let advice = "cp -r copies it, then rm -r removes the old one";
        let why = "it is in another cell";
        return Err(CliError::usage(format!("moving {from} to {to}"), why, advice));
    }
    let moved = from.cell.rename(&from.path, &to.path, mv.force).await;
    let is_taken = moved.as_ref().is_err_and(|error| error.code() == ErrorCode::AlreadyExists);
    let moved = moved.doing(|| format!("moving {from} to {to}"));
    let advice = "choose another name, or -f to replace a file";
    moved.map_err(|it| if is_taken { it.advising(Exit::Exists, advice) } else { it })?;
    let value = json!({ "from": from.path.as_str(), "path": to.path.as_str() });
    output.done(mv.verbose, &value, || format!("{from} -> {to}"))
}

/// The last name of a path; the root has none.
///
/// # Errors
/// For the root.
fn name_of(place: &RemotePath) -> Result<&str, CliError> {
    place.path.name().ok_or_else(|| {
        let advice = "name something in it";
        CliError::usage(format!("taking {place}"), "the root has no name", advice)
    })
}
