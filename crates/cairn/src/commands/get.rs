//! `cairn get`: files and trees of the cell onto this machine, many at once.

use crate::cli_error::{Cause, CliError, Doing, Tally};
use crate::doubled_targets::take_doubled;
use crate::exit_codes::Exit;
use crate::many_paths::sources;
use crate::output::Output;
use crate::preserve::{CLOSED_MODE, give_to_local};
use crate::progress::WorkProgress;
use crate::reading::{RecordFlags, deliver_or_salvage, open, tell_lost};
use crate::session::{RemotePath, Session};
use crate::side_by_side::{InFlight, side_by_side};
use cairn_transfer::{CellWalk, LocalTarget, LocalTargetError, PartialFiles};
use cairn_types::{Entry, EntryKind};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `get`.
#[derive(Args, Debug)]
pub(crate) struct GetArguments {
    /// Directories with all that is in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// Replace local files that are there
    #[arg(short, long)]
    force: bool,
    /// Keep modes and times; for the superuser, owners and groups too
    #[arg(short, long)]
    preserve: bool,
    /// Say what was fetched where
    #[arg(short, long)]
    verbose: bool,
    /// Files at once [default: as many as make sense by their sizes]
    #[arg(short, long, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: Option<u64>,
    #[command(flatten)]
    records: RecordFlags,
    /// What can be read of files that are damaged; zeros stand for the rest, and where is told
    #[arg(long)]
    pub(crate) salvage: bool,
    /// Paths in the cell, and where to: a local directory that is there, a new name, or - for
    /// stdout [default for a single path: this directory]
    #[arg(required = true, value_names = ["PATH", "DESTINATION"], num_args = 1..)]
    arguments: Vec<String>,
}

/// One file that is to be fetched.
struct Fetch {
    from: RemotePath,
    to: PathBuf,
    entry: Entry,
}

/// All that is to be fetched.
#[derive(Default)]
struct FetchPlan {
    files: Vec<Fetch>,
    /// Directories of this machine, and what they are in the cell; each before those in it.
    directories: Vec<(PathBuf, Entry)>,
}

/// What each fetch needs of the command.
struct GetContext {
    force: bool,
    preserve: bool,
    verbose: bool,
    records: RecordFlags,
    salvage: bool,
    partials: Arc<PartialFiles>,
    progress: WorkProgress,
    output: Arc<Output>,
}

/// Runs it.
pub(crate) async fn run(
    mut get: GetArguments,
    session: &Session,
    output: &Arc<Output>,
) -> Result<(), CliError> {
    let destination = match get.arguments.len() {
        1 => ".".to_owned(),
        _ => get.arguments.pop().expect("several"),
    };
    let mut tally = Tally::default();
    let sources = sources(session, &get.arguments, &mut tally).await?;
    if destination == "-" {
        tally.note(to_stdout(&get, &sources, output).await)?;
        return tally.finish();
    }
    let into = check_destination(&destination, sources.len() > 1)?;
    let mut fetches = FetchPlan::default();
    for from in sources {
        let planned = plan(&get, &from, Path::new(&destination), into, &mut fetches).await;
        tally.note(planned)?;
    }
    let FetchPlan { mut files, directories } = fetches;
    for doubled in take_doubled(&mut files, |fetch| fetch.to.clone()) {
        let doing = format!("fetching {}", doubled.from);
        let why = format!("another one of these goes to {}", doubled.to.display());
        tally.note(Err(CliError::usage(doing, why, "fetch it under another name")))?;
    }
    let total = files.iter().map(|fetch| fetch.entry.length).sum();
    let context = Arc::new(GetContext {
        force: get.force,
        preserve: get.preserve,
        verbose: get.verbose,
        records: get.records,
        salvage: get.salvage,
        partials: session.partials()?,
        progress: WorkProgress::new("get", Some(total)),
        output: output.clone(),
    });
    let fetches = files.into_iter().map(|fetch| (fetch.entry.length, fetch));
    let done = side_by_side(InFlight::of(get.jobs), fetches, |fetch| {
        let context = context.clone();
        async move { context.fetch(fetch).await }
    })
    .await;
    context.progress.finish();
    tally.note(done)?;
    // When all is in them, those below first: by then nobody has to write there.
    for (to, entry) in directories.iter().rev().filter(|_| get.preserve) {
        tally.note(give_to_local(entry, to))?;
    }
    tally.finish()
}

/// Whether the destination is a directory to put things into, which it must be where several go
/// there or it ends with a `/`.
fn check_destination(text: &str, several: bool) -> Result<bool, CliError> {
    let into = Path::new(text).is_dir();
    if into || (!several && !text.ends_with('/')) {
        return Ok(into);
    }
    let (why, exit) = match Path::new(text).symlink_metadata() {
        Ok(_) => ("it is no directory", Exit::WrongKind),
        Err(_) => ("there is no such directory on this machine", Exit::Local),
    };
    let cause = Cause::new(exit, why, format!("'mkdir -p {text}' makes one"));
    Err(CliError::new(format!("fetching into {text}"), cause))
}

async fn to_stdout(
    get: &GetArguments,
    sources: &[RemotePath],
    output: &Output,
) -> Result<(), CliError> {
    let (progress, mut tally) = (WorkProgress::new("get", None), Tally::default());
    for from in sources {
        let how = (get.records, get.salvage);
        let delivered = async {
            let file = open(from).await?;
            let sink = |bytes: &[u8]| output.bytes(bytes);
            let lost = deliver_or_salvage(from, &file, how, sink, &progress).await?;
            tell_lost(from, &lost)
        };
        tally.note(delivered.await)?;
    }
    progress.finish();
    tally.finish()
}

/// Makes the directories and adds the files.
async fn plan(
    get: &GetArguments,
    from: &RemotePath,
    destination: &Path,
    into: bool,
    fetches: &mut FetchPlan,
) -> Result<(), CliError> {
    let doing = || format!("fetching {from}");
    let entry = from.cell.stat(&from.path).await.doing(doing)?;
    if entry.kind == EntryKind::Directory && !get.recursive {
        let cause = Cause::new(Exit::WrongKind, "it is a directory", "get -r fetches it");
        return Err(CliError::new(doing(), cause));
    }
    let root = match from.path.name() {
        Some(name) if into && !from.content => destination.join(name),
        // The root of the cell has no name, and of `/d/.` the content is meant.
        _ => destination.to_owned(),
    };
    for below in CellWalk::new(&from.cell, &from.path, entry).rest().await.doing(doing)? {
        let to = if below.relative.is_empty() { root.clone() } else { root.join(&below.relative) };
        if below.entry.kind == EntryKind::Directory {
            std::fs::create_dir_all(&to).doing(|| format!("making {}", to.display()))?;
            fetches.directories.push((to, below.entry));
        } else {
            let (from, entry) = (from.with_path(below.path), below.entry);
            fetches.files.push(Fetch { from, to, entry });
        }
    }
    Ok(())
}

impl From<LocalTargetError> for Cause {
    fn from(error: LocalTargetError) -> Self {
        let why = error.to_string();
        match error {
            LocalTargetError::Taken => Self::new(Exit::Exists, why, "-f replaces it"),
            LocalTargetError::IsADirectory => Self::new(Exit::WrongKind, why, "name a file"),
            LocalTargetError::NoDirectory(at) => {
                Self::new(Exit::Local, why, format!("'mkdir -p {}' makes it", at.display()))
            }
            LocalTargetError::Local(error) => error.into(),
        }
    }
}

impl GetContext {
    async fn fetch(&self, fetch: Fetch) -> Result<(), CliError> {
        let Fetch { from, to, entry } = fetch;
        let doing = || format!("fetching {from} to {}", to.display());
        let source = open(&from).await?;
        // Closed while it is copied: it may be a private file, and has its mode only in the end.
        let mode = self.preserve.then_some(CLOSED_MODE);
        let opened = LocalTarget::open(&to, (self.force, mode), &self.partials).await;
        let mut target = opened.doing(doing)?;
        let mut length = 0;
        let write = |bytes: &[u8]| {
            length += bytes.len() as u64;
            target.write(bytes).doing(doing)
        };
        let how = (self.records, self.salvage);
        let lost = deliver_or_salvage(&from, &source, how, write, &self.progress).await?;
        let is_kept = !target.is_written_through();
        target.finish().await.doing(doing)?;
        if self.preserve && is_kept {
            give_to_local(&entry, &to)?;
        }
        let to = to.display().to_string();
        let value = json!({ "path": from.path.as_str(), "to": to, "length": length });
        self.output.done(self.verbose, &value, || format!("{from} -> {to}"))?;
        tell_lost(&from, &lost)
    }
}
