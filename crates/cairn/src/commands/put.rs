//! `cairn put`: local files and trees into the cell, many at once.

use crate::cli_error::{Cause, CliError, Doing, Tally, warn};
use crate::destination::{Destination, split_last};
use crate::doubled_targets::take_doubled;
use crate::exit_codes::Exit;
use crate::many_paths::make_directories;
use crate::output::Output;
use crate::preserve::{CLOSED_MODE, give_to_cell};
use crate::progress::WorkProgress;
use crate::session::{RemotePath, Session};
use crate::side_by_side::{InFlight, side_by_side};
use crate::storing::Storing;
use cairn_client::CreateOptions;
use cairn_transfer::{
    LocalEntry, LocalProblem, LocalSource, LocalTree, LocalUpload, UploadOptions, groups, upload,
    upload_group,
};
use cairn_types::{CellPath, REPLICATION_MAX};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `put`.
#[derive(Args, Debug)]
pub(crate) struct PutArguments {
    /// Directories with all that is in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// Replace files that are there
    #[arg(short, long)]
    force: bool,
    /// Keep modes and times; for the superuser, owners and groups too
    #[arg(short, long)]
    preserve: bool,
    /// Make the directories above the destination
    #[arg(long)]
    parents: bool,
    /// Say what was stored where
    #[arg(short, long)]
    verbose: bool,
    /// Files at once [default: as many as make sense by their sizes]
    #[arg(short, long, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: Option<u64>,
    /// Replicas of each chunk [default: as the directory's policy says]
    #[arg(long, visible_alias = "replicas", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(REPLICATION_MAX)))]
    replication: Option<u32>,
    /// Acknowledge bytes only once they are on disk on every replica
    #[arg(long)]
    synced: bool,
    /// Local files, directories with -r, or - for stdin; and where to: a directory that is there,
    /// or a new name
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "DESTINATION"])]
    arguments: Vec<OsString>,
}

/// All that is to be stored.
#[derive(Default)]
struct PutPlan {
    files: Vec<LocalUpload>,
    /// Directories of this machine, and what they are in the cell.
    directories: Vec<(PathBuf, RemotePath)>,
    /// What stdin becomes.
    stdin: Vec<CellPath>,
}

/// What each upload needs of the command.
struct PutContext {
    /// The destination's, for its cell and how that is shown.
    root: RemotePath,
    options: UploadOptions,
    progress: WorkProgress,
    storing: Storing,
    /// Attributes are kept, and owners where this is the superuser.
    preserve: Option<bool>,
}

/// Runs it.
pub(crate) async fn run(
    mut put: PutArguments,
    session: &Session,
    output: &Arc<Output>,
) -> Result<(), CliError> {
    let (sources, destination) = split_last("put", std::mem::take(&mut put.arguments))?;
    let destination = in_utf8(Path::new(&destination))?;
    let several = sources.len() > 1;
    let destination = Destination::find(session, &destination, several, put.parents).await?;
    let mut tally = Tally::default();
    let mut plan = PutPlan::default();
    for source in &sources {
        let planned = plan.add(&put, Path::new(source), &destination, &mut tally).await;
        tally.note(planned)?;
    }
    for doubled in take_doubled(&mut plan.files, |file| file.to.clone()) {
        let doing = format!("storing {}", doubled.from.path.display());
        let why = format!("another one of these goes to {}", doubled.to);
        tally.note(Err(CliError::usage(doing, why, "store it under another name")))?;
    }
    let create = CreateOptions {
        replication: put.replication.unwrap_or_default(),
        synced: put.synced,
        // Closed while it is copied: it may be a private file, and has its mode only in the end.
        mode: put.preserve.then_some(CLOSED_MODE),
        ..CreateOptions::default()
    };
    let total = plan.files.iter().map(|file| file.from.size).sum();
    let context = Arc::new(PutContext {
        root: destination.place().clone(),
        options: UploadOptions { replace: put.force, partials: session.partials()?, create },
        progress: WorkProgress::new("put", (total > 0).then_some(total)),
        storing: Storing::new(output, put.verbose, "put --parents or "),
        preserve: put.preserve.then(|| session.options().identity.is_superuser()),
    });
    for to in &plan.stdin {
        tally.note(context.store_stdin(to).await)?;
    }
    let limit = InFlight::of(put.jobs);
    // Files of a group go one after the other: what is in flight is the largest of them.
    let largest = |group: &[LocalUpload]| group.iter().map(|file| file.from.size).max();
    let files = std::mem::take(&mut plan.files);
    let groups = groups(files, limit.count_max()).into_iter();
    let groups = groups.map(|group| (largest(&group).unwrap_or(0), group));
    let done = side_by_side(limit, groups, |group| {
        let context = context.clone();
        async move { context.store(group).await }
    })
    .await;
    context.progress.finish();
    tally.note(done)?;
    if let Some(superuser) = context.preserve {
        // Those below first: what is made in a directory changes nothing of it, but who may make
        // it there may change with its mode.
        for (from, to) in plan.directories.iter().rev() {
            tally.note(give_to_cell(from, to, superuser).await)?;
        }
    }
    tally.finish()
}

impl PutPlan {
    async fn add(
        &mut self,
        put: &PutArguments,
        source: &Path,
        destination: &Destination,
        tally: &mut Tally,
    ) -> Result<(), CliError> {
        let doing = || format!("storing {}", source.display());
        if source == Path::new("-") {
            if destination.is_directory() {
                let advice = "name the file that stdin shall become";
                return Err(CliError::usage("storing stdin", "it has no name", advice));
            }
            self.stdin.push(destination.of("-")?.path);
            return Ok(());
        }
        let metadata = std::fs::metadata(source).doing(doing)?;
        if metadata.is_dir() {
            if !put.recursive {
                let cause = Cause::new(Exit::WrongKind, "it is a directory", "put -r stores it");
                return Err(CliError::new(doing(), cause));
            }
            let to = match own_name(source)? {
                Some(name) => destination.of(&name)?,
                None => destination.place().clone(),
            };
            return self.add_tree(source, &to, tally).await;
        }
        let to = destination.of(&own_name(source)?.unwrap_or_default())?;
        let (path, size) = (source.to_owned(), metadata.len());
        let from = LocalEntry { path, relative: String::new(), size };
        self.files.push(LocalUpload { from, to: to.path });
        Ok(())
    }

    async fn add_tree(
        &mut self,
        source: &Path,
        to: &RemotePath,
        tally: &mut Tally,
    ) -> Result<(), CliError> {
        let tree = LocalTree::walk(source);
        tell_left_out(&tree);
        for problem in tree.problems {
            tally.note(Err(not_found_out(problem)))?;
        }
        let places = tree.directories.iter().map(|directory| below(to, &directory.relative));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        for made in make_directories(&places).await {
            made?;
        }
        let local = tree.directories.iter().map(|directory| directory.path.clone());
        self.directories.extend(local.zip(places));
        for from in tree.files {
            match below(to, &from.relative) {
                Ok(place) => self.files.push(LocalUpload { from, to: place.path }),
                Err(error) => tally.note(Err(error))?,
            }
        }
        Ok(())
    }
}

fn below(place: &RemotePath, relative: &str) -> Result<RemotePath, CliError> {
    if relative.is_empty() { Ok(place.clone()) } else { place.join(relative) }
}

/// Names what a cell cannot hold.
fn tell_left_out(tree: &LocalTree) {
    let kinds = [(&tree.links, "a symbolic link"), (&tree.special, "neither file nor directory")];
    for (paths, what) in kinds {
        for path in paths {
            warn(&format!("skipping {}: it is {what}", path.display()));
        }
    }
}

fn not_found_out(problem: LocalProblem) -> CliError {
    match problem {
        LocalProblem::Unreadable { path, source } => {
            CliError::new(format!("reading the directory {}", path.display()), source)
        }
        LocalProblem::NameNotUtf8 { path } => name_not_utf8(&path),
    }
}

fn name_not_utf8(path: &Path) -> CliError {
    let cause = Cause::new(Exit::Local, "its name is not UTF-8", "rename it first");
    CliError::new(format!("storing {}", path.display()), cause)
}

fn in_utf8(path: &Path) -> Result<String, CliError> {
    path.to_str().map(str::to_owned).ok_or_else(|| name_not_utf8(path))
}

/// The name that a local path gives to what is made of it; none where it stands for what is in a
/// directory, as with `cp`: `.`, `..`, `d/.`, `/`.
fn own_name(source: &Path) -> Result<Option<String>, CliError> {
    let text = source.as_os_str().as_encoded_bytes();
    let name = source.file_name().filter(|_| !text.ends_with(b"/."));
    name.map(|name| name.to_str().map(str::to_owned).ok_or_else(|| name_not_utf8(source)))
        .transpose()
}

impl PutContext {
    async fn store_stdin(&self, to: &CellPath) -> Result<(), CliError> {
        let mut source = LocalSource::new(std::io::stdin());
        // It has no mode to be kept: its file is as any that is made.
        let create = CreateOptions { mode: None, ..self.options.create };
        let options = UploadOptions { create, ..self.options.clone() };
        let done = upload(&mut source, &self.root.cell, to, &options, &self.progress).await;
        let (to, length) = (self.root.with_path(to.clone()), *done.as_ref().unwrap_or(&0));
        self.storing.tell("stdin", &to, done).await?;
        self.storing.warn_of_few_replicas(&to, length).await;
        Ok(())
    }

    async fn store(&self, mut group: Vec<LocalUpload>) -> Result<(), CliError> {
        let (cell, options, progress) = (&self.root.cell, &self.options, &self.progress);
        let stored = match group.len() {
            1 => {
                let file = group.pop().expect("one");
                let from = || format!("reading {}", file.from.path.display());
                let mut source = LocalSource::open(&file.from.path).await.doing(from)?;
                let done = upload(&mut source, cell, &file.to, options, progress).await;
                vec![(file, done)]
            }
            _ => upload_group(cell, group, options, progress).await,
        };
        let mut tally = Tally::default();
        let mut last = None;
        for (file, done) in stored {
            let to = self.root.with_path(file.to);
            let length = *done.as_ref().unwrap_or(&0);
            let from = file.from.path.display().to_string();
            let is_stored = done.is_ok();
            tally.note(self.storing.tell(&from, &to, done).await)?;
            if let Some(superuser) = self.preserve.filter(|_| is_stored) {
                tally.note(give_to_cell(&file.from.path, &to, superuser).await)?;
            }
            if length > 0 {
                last = Some((to, length));
            }
        }
        // One file stands for its group.
        if let Some((to, length)) = last {
            self.storing.warn_of_few_replicas(&to, length).await;
        }
        tally.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::own_name;
    use std::path::Path;

    #[test]
    fn what_stands_for_its_content_has_no_name() {
        let name = |text: &str| own_name(Path::new(text)).expect("UTF-8");
        assert_eq!(name("d/e").as_deref(), Some("e"));
        assert_eq!(name("d/e/").as_deref(), Some("e"));
        for text in [".", "..", "d/.", "d/..", "/", "./."] {
            assert_eq!(name(text), None, "{text}");
        }
    }
}
