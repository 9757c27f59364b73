//! `cairn cp`: copies files and trees within a cell or between cells; the bytes pass through
//! this client. A file of records stays one: its records are copied as they are stored.

use crate::cli_error::{Cause, CliError, Doing, Tally};
use crate::commands::mv::name_of;
use crate::destination::Destination;
use crate::exit_codes::Exit;
use crate::progress::WorkProgress;
use crate::reading::{open, warn_of_doubts};
use crate::session::{RemotePath, Session};
use crate::side_by_side::side_by_side;
use crate::storing::not_stored;
use cairn_client::CreateOptions;
use cairn_transfer::{CellSource, CellWalk, UploadOptions, upload};
use cairn_types::EntryKind;
use clap::Args;
use std::sync::Arc;

/// Arguments of `cp`.
#[derive(Args, Debug)]
pub(crate) struct CpArguments {
    /// Directories with all that is in them
    #[arg(short)]
    recursive: bool,
    /// Replace files that are there
    #[arg(short)]
    force: bool,
    /// Files at once
    #[arg(short, default_value_t = 4, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: u64,
    /// What to copy
    #[arg(required = true)]
    sources: Vec<String>,
    /// Where to: a directory that is there, or a new name
    destination: String,
}

/// Runs it.
pub(crate) async fn run(cp: CpArguments, session: &Session) -> Result<(), CliError> {
    let several = cp.sources.len() > 1;
    let destination = Destination::find(session, &cp.destination, several, false).await?;
    let (mut tally, mut jobs, mut total) = (Tally::default(), Vec::new(), 0);
    for text in &cp.sources {
        let planned = plan(&cp, text, &destination, session, &mut jobs).await;
        total += *planned.as_ref().unwrap_or(&0);
        tally.note(planned.map(drop))?;
    }
    let progress = Arc::new(WorkProgress::new("cp", Some(total)));
    let force = cp.force;
    let limit = usize::try_from(cp.jobs).expect("at most 256");
    let done =
        side_by_side(limit, jobs, |(from, to)| copy(from, to, force, progress.clone())).await;
    progress.finish();
    tally.note(done)?;
    tally.finish()
}

/// Makes the directories and adds the files; answers how many bytes they have.
async fn plan(
    cp: &CpArguments,
    text: &str,
    destination: &Destination,
    session: &Session,
    jobs: &mut Vec<(RemotePath, RemotePath)>,
) -> Result<u64, CliError> {
    let from = session.remote_path(text).await?;
    let root = destination.of(name_of(&from)?)?;
    let doing = || format!("copying {from} to {root}");
    let entry = from.cell.stat(&from.path).await.doing(doing)?;
    let tree = entry.kind == EntryKind::Directory;
    if tree && !cp.recursive {
        let cause = Cause::new(Exit::WrongKind, "it is a directory", "cp -r copies it");
        return Err(CliError::new(doing(), cause));
    }
    if from.address == root.address
        && (from.path == root.path || tree && root.path.is_within(&from.path))
    {
        let why = "a copy cannot lie in what is copied";
        return Err(CliError::usage(doing(), why, "name another destination"));
    }
    let mut total = 0;
    for below in CellWalk::new(&from.cell, &from.path, entry).rest().await.doing(doing)? {
        let to = if below.relative.is_empty() { root.clone() } else { root.join(&below.relative)? };
        if below.entry.kind == EntryKind::Directory {
            let made = to.cell.make_directory(&to.path, true).await;
            made.doing(|| format!("making the directory {to}"))?;
        } else {
            total += below.entry.length;
            jobs.push((from.with_path(below.path), to));
        }
    }
    Ok(total)
}

async fn copy(
    from: RemotePath,
    to: RemotePath,
    force: bool,
    progress: Arc<WorkProgress>,
) -> Result<(), CliError> {
    let file = open(&from).await?;
    let entry = file.entry();
    let create = CreateOptions {
        replication: entry.replication,
        content: entry.content,
        synced: entry.synced,
        ..CreateOptions::default()
    };
    let options = UploadOptions { replace: force, create };
    let mut source = CellSource(file.reader(0));
    let done = upload(&mut source, &to.cell, &to.path, &options, &*progress).await;
    done.map_err(|error| not_stored(error, &from.to_string(), &to))?;
    warn_of_doubts(&from, &file);
    Ok(())
}
