//! `cairn get`: files and trees of the cell onto this machine, several files at once.
//!
//! A file is written under a name of its own and renamed when it is whole.

use crate::cli_error::{Cause, CliError, Doing, Tally};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::progress::WorkProgress;
use crate::reading::{RecordFlags, deliver, open};
use crate::session::{RemotePath, Session};
use crate::side_by_side::side_by_side;
use cairn_transfer::{CellWalk, local_partial_name};
use cairn_types::EntryKind;
use clap::Args;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `get`.
#[derive(Args, Debug)]
pub(crate) struct GetArguments {
    /// Directories with all that is in them
    #[arg(short)]
    recursive: bool,
    /// Replace local files that are there
    #[arg(short)]
    force: bool,
    /// Files at once
    #[arg(short, default_value_t = 4, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: u64,
    #[command(flatten)]
    records: RecordFlags,
    /// Paths in the cell, and where to: a local directory that is there, a new name, or - for
    /// stdout [default for a single path: this directory]
    #[arg(required = true)]
    arguments: Vec<String>,
}

/// One file that is to be fetched.
struct Fetch {
    from: RemotePath,
    to: PathBuf,
    force: bool,
    records: RecordFlags,
}

/// Runs it.
pub(crate) async fn run(
    mut get: GetArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let destination = match get.arguments.len() {
        1 => ".".to_owned(),
        _ => get.arguments.pop().unwrap_or_default(),
    };
    if destination == "-" {
        return to_stdout(&get, session, output).await;
    }
    let destination = PathBuf::from(destination);
    let into = destination.is_dir();
    if !into && get.arguments.len() > 1 {
        let doing = format!("fetching into {}", destination.display());
        let cause = Cause::new(Exit::WrongKind, "it is no directory", "make it first");
        return Err(CliError::new(doing, cause));
    }
    let (mut tally, mut jobs, mut total) = (Tally::default(), Vec::new(), 0);
    for text in &get.arguments {
        let planned = plan(&get, text, &destination, into, session, &mut jobs).await;
        total += *planned.as_ref().unwrap_or(&0);
        tally.note(planned.map(drop))?;
    }
    let progress = Arc::new(WorkProgress::new("get", Some(total)));
    let limit = usize::try_from(get.jobs).expect("at most 256");
    let done = side_by_side(limit, jobs, |job| fetch(job, progress.clone())).await;
    progress.finish();
    tally.note(done)?;
    tally.finish()
}

async fn to_stdout(get: &GetArguments, session: &Session, output: &Output) -> Result<(), CliError> {
    let progress = WorkProgress::new("get", None);
    for text in &get.arguments {
        let from = session.remote_path(text).await?;
        let file = open(&from).await?;
        deliver(&from, &file, get.records, |bytes| output.bytes(bytes), &progress).await?;
    }
    progress.finish();
    Ok(())
}

/// Makes the directories and adds the files; answers how many bytes they have.
async fn plan(
    get: &GetArguments,
    text: &str,
    destination: &Path,
    into: bool,
    session: &Session,
    jobs: &mut Vec<Fetch>,
) -> Result<u64, CliError> {
    let from = session.remote_path(text).await?;
    let doing = || format!("fetching {from}");
    let entry = from.cell.stat(&from.path).await.doing(doing)?;
    let root = match from.path.name() {
        Some(name) if into => destination.join(name),
        None if into => destination.to_owned(),
        _ => destination.to_owned(),
    };
    if entry.kind == EntryKind::Directory && !get.recursive {
        let cause = Cause::new(Exit::WrongKind, "it is a directory", "get -r fetches it");
        return Err(CliError::new(doing(), cause));
    }
    let mut total = 0;
    for below in CellWalk::new(&from.cell, &from.path, entry).rest().await.doing(doing)? {
        let to = if below.relative.is_empty() { root.clone() } else { root.join(&below.relative) };
        if below.entry.kind == EntryKind::Directory {
            std::fs::create_dir_all(&to).doing(|| format!("making {}", to.display()))?;
        } else {
            total += below.entry.length;
            jobs.push(Fetch {
                from: from.with_path(below.path),
                to,
                force: get.force,
                records: get.records,
            });
        }
    }
    Ok(total)
}

async fn fetch(fetch: Fetch, progress: Arc<WorkProgress>) -> Result<(), CliError> {
    let Fetch { from, to, force, records } = fetch;
    let doing = || format!("fetching {from} to {}", to.display());
    if !force && to.symlink_metadata().is_ok() {
        let cause = Cause::new(Exit::Exists, "a local file is there already", "-f replaces it");
        return Err(CliError::new(doing(), cause));
    }
    let source = open(&from).await?;
    let partial = local_partial_name(&to);
    let mut file = File::create_new(&partial).doing(doing)?;
    let write = |bytes: &[u8]| file.write_all(bytes).doing(doing);
    let mut done = deliver(&from, &source, records, write, &*progress).await;
    if done.is_ok() {
        done = std::fs::rename(&partial, &to).doing(doing);
    }
    if done.is_err() {
        // The failure that is told is the first one.
        let _ = std::fs::remove_file(&partial);
    }
    done
}
