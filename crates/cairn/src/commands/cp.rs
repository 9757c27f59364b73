//! `cairn cp`: copies files and trees within a cell or between cells. Within a cell a copy has the
//! chunks of what it is of, where both are kept alike; else the bytes pass through this client. A
//! file of records stays one: its records are copied as they are stored.

use crate::cli_error::{Cause, CliError, Doing, Tally, warn};
use crate::destination::{Destination, split_last};
use crate::doubled_targets::take_doubled;
use crate::exit_codes::Exit;
use crate::many_paths::sources;
use crate::output::Output;
use crate::progress::WorkProgress;
use crate::reading::{open, warn_of_doubts};
use crate::session::{RemotePath, Session};
use crate::side_by_side::{InFlight, side_by_side};
use crate::storing::{CopiedBy, Storing};
use cairn_client::CreateOptions;
use cairn_transfer::{
    CellSource, CellWalk, PartialFiles, Progress, SharedCopy, UploadOptions, copy_shared, upload,
};
use cairn_types::{Content, EntryKind, Layout};
use clap::Args;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Mutex;

/// Arguments of `cp`.
#[derive(Args, Debug)]
pub(crate) struct CpArguments {
    /// Directories with all that is in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// Replace files that are there
    #[arg(short, long)]
    force: bool,
    /// Copy the bytes, also where the copy could have the same chunks until one of the two is
    /// written to
    #[arg(long)]
    data: bool,
    /// Say what was copied where, and how
    #[arg(short, long)]
    verbose: bool,
    /// Files at once [default: as many as make sense by their sizes]
    #[arg(short, long, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: Option<u64>,
    /// What to copy, and where to: a directory that is there, or a new name
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "DESTINATION"])]
    arguments: Vec<String>,
}

/// Files that are no larger are copied with their bytes, many at once: for the master to make one
/// still and to write its copy down takes longer (docs/decisions/2026-11-25-snapshots.md).
const SMALL_SIZE_MAX: u64 = 1 << 20;

/// One file that is to be copied.
struct Copy {
    from: RemotePath,
    to: RemotePath,
    length: u64,
    /// It shares the chunks, where it can.
    is_shared: bool,
}

/// What each copy needs of the command.
struct CpContext {
    force: bool,
    data: bool,
    partials: Arc<PartialFiles>,
    /// A master takes one snapshot at a time.
    one_at_a_time: Mutex<()>,
    progress: WorkProgress,
    storing: Storing,
    /// Where one copy of a stream is none others will be none too: it is told once.
    has_told_of_stream: AtomicBool,
}

/// Runs it.
pub(crate) async fn run(
    mut cp: CpArguments,
    session: &Session,
    output: &Arc<Output>,
) -> Result<(), CliError> {
    let (texts, destination) = split_last("cp", std::mem::take(&mut cp.arguments))?;
    let mut tally = Tally::default();
    let sources = sources(session, &texts, &mut tally).await?;
    let several = texts.len().max(sources.len()) > 1;
    let destination = Destination::find(session, &destination, several, false).await?;
    let mut copies = Vec::new();
    for from in &sources {
        tally.note(plan(&cp, from, &destination, &mut copies).await)?;
    }
    for doubled in take_doubled(&mut copies, |copy| copy.to.path.clone()) {
        let Copy { from, to, .. } = doubled;
        let why = "another one of these is copied there";
        let doing = format!("copying {from} to {to}");
        tally.note(Err(CliError::usage(doing, why, "copy it to another name")))?;
    }
    let total = copies.iter().map(|copy| copy.length).sum();
    let context = Arc::new(CpContext {
        force: cp.force,
        data: cp.data,
        partials: session.partials()?,
        one_at_a_time: Mutex::new(()),
        progress: WorkProgress::new("cp", Some(total)),
        storing: Storing::new(output, cp.verbose, ""),
        has_told_of_stream: AtomicBool::new(false),
    });
    let copies = copies.into_iter().map(|copy| (copy.length, copy));
    let done = side_by_side(InFlight::of(cp.jobs), copies, |copy| {
        let context = context.clone();
        async move { context.copy(copy).await }
    })
    .await;
    context.progress.finish();
    tally.note(done)?;
    tally.finish()
}

/// Makes the directories and adds the files.
async fn plan(
    cp: &CpArguments,
    from: &RemotePath,
    destination: &Destination,
    copies: &mut Vec<Copy>,
) -> Result<(), CliError> {
    let root = match from.path.name() {
        Some(name) if !from.content => destination.of(name)?,
        // The root of a cell has no name, and of `/d/.` the content is meant.
        _ => destination.place().clone(),
    };
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
    for below in CellWalk::new(&from.cell, &from.path, entry).rest().await.doing(doing)? {
        let to = if below.relative.is_empty() { root.clone() } else { root.join(&below.relative)? };
        if below.entry.kind == EntryKind::Directory {
            let made = to.cell.make_directory(&to.path, true).await;
            made.doing(|| format!("making the directory {to}"))?;
        } else {
            let (length, layout) = (below.entry.length, below.entry.layout);
            // A copy of a stream's bytes would be none.
            let is_shared = layout == Layout::Stream || length > SMALL_SIZE_MAX;
            copies.push(Copy { from: from.with_path(below.path), to, length, is_shared });
        }
    }
    Ok(())
}

impl CpContext {
    async fn copy(&self, Copy { from, to, is_shared, .. }: Copy) -> Result<(), CliError> {
        let may_share = !self.data && is_shared && from.address == to.address;
        if may_share && self.share(&from, &to).await? {
            return Ok(());
        }
        let file = open(&from).await?;
        // What is made is kept as the policy of the place says where it is made.
        let create = CreateOptions { content: file.entry().content, ..CreateOptions::default() };
        let options = UploadOptions { create, ..self.options() };
        let mut source = CellSource(file.reader(0));
        let done = upload(&mut source, &to.cell, &to.path, &options, &self.progress).await;
        let length = *done.as_ref().unwrap_or(&0);
        let told = (done, CopiedBy::Bytes);
        self.storing.tell_copy(&from.to_string(), &to, told).await?;
        if file.entry().layout == Layout::Stream {
            self.tell_of_stream(&from, &to, file.entry().content);
        }
        self.storing.warn_of_few_replicas(&to, length).await;
        warn_of_doubts(&from, &file);
        Ok(())
    }

    /// What is appended to the copy is there at least once, and not exactly: nobody shall think
    /// otherwise.
    fn tell_of_stream(&self, from: &RemotePath, to: &RemotePath, content: Content) {
        if self.has_told_of_stream.swap(true, Ordering::Relaxed) {
            return;
        }
        let kind =
            if content == Content::Records { "a file of records" } else { "a file of bytes" };
        warn(&format!(
            "{to} is {kind}, and no stream as {from} is: its bytes were copied, and no producers; \
             within a cell 'cairn snapshot' makes a stream"
        ));
    }

    fn options(&self) -> UploadOptions {
        let (replace, partials) = (self.force, self.partials.clone());
        UploadOptions { replace, partials, ..UploadOptions::default() }
    }

    /// Makes a copy that has the same chunks; whether that could be done.
    async fn share(&self, from: &RemotePath, to: &RemotePath) -> Result<bool, CliError> {
        let done = {
            let _one = self.one_at_a_time.lock().await;
            copy_shared(&to.cell, (&from.path, &to.path), &self.options()).await
        };
        let done = match done {
            Ok(SharedCopy::NotSo) => return Ok(false),
            Ok(SharedCopy::Made(length)) => {
                self.progress.add(length);
                Ok(length)
            }
            Err(error) => Err(error),
        };
        let told = (done, CopiedBy::Snapshot);
        self.storing.tell_copy(&from.to_string(), to, told).await?;
        Ok(true)
    }
}
