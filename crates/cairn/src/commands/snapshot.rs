//! `cairn snapshot`: a copy of a file or a tree at one instant, made without copying a byte (GFS
//! §3.4).

use crate::cli_error::{CliError, Doing, Tally};
use crate::destination::{Destination, split_last};
use crate::many_paths::sources;
use crate::output::Output;
use crate::session::{RemotePath, Session};
use clap::Args;
use serde_json::json;

/// Arguments of `snapshot`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotArguments {
    /// Say what was copied where
    #[arg(short, long)]
    verbose: bool,
    /// What is to be as it is now, and where: in a directory that is there, or under a new name
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "DESTINATION"])]
    arguments: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(
    mut snapshot: SnapshotArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let arguments = std::mem::take(&mut snapshot.arguments);
    let (texts, destination) = split_last("snapshot", arguments)?;
    let mut tally = Tally::default();
    let sources = sources(session, &texts, &mut tally).await?;
    let several = texts.len().max(sources.len()) > 1;
    let destination = Destination::find(session, &destination, several, false).await?;
    for from in &sources {
        tally.note(one(&snapshot, from, &destination, output).await)?;
    }
    tally.finish()
}

async fn one(
    snapshot: &SnapshotArguments,
    from: &RemotePath,
    destination: &Destination,
    output: &Output,
) -> Result<(), CliError> {
    let to = destination.of(from.path.name().unwrap_or_default())?;
    if from.address != to.address {
        let advice = "cp -r copies it with its bytes";
        let why = "a snapshot is in the cell of what it is of";
        let doing = format!("taking a snapshot of {from} as {to}");
        return Err(CliError::usage(doing, why, advice));
    }
    let taken = from.cell.snapshot(&from.path, &to.path).await;
    let taken = taken.doing(|| format!("taking a snapshot of {from} as {to}"))?;
    let entries = taken.entries;
    let value = json!({ "from": from.path.as_str(), "path": to.path.as_str(), "entries": entries });
    output.done(snapshot.verbose, &value, || format!("{from} -> {to}"))
}
