//! `cairn put`: local files and trees into the cell, several files at once.

use crate::cli_error::{Cause, CliError, Doing, Tally};
use crate::destination::Destination;
use crate::exit_codes::Exit;
use crate::many_paths::make_directories;
use crate::progress::WorkProgress;
use crate::session::{RemotePath, Session};
use crate::side_by_side::side_by_side;
use crate::storing::not_stored;
use cairn_client::CreateOptions;
use cairn_transfer::{
    LocalEntry, LocalProblem, LocalSource, LocalTree, LocalUpload, UploadOptions, groups, upload,
    upload_group,
};
use cairn_types::CellPath;
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `put`.
#[derive(Args, Debug)]
pub(crate) struct PutArguments {
    /// Directories with all that is in them
    #[arg(short)]
    recursive: bool,
    /// Replace files that are there
    #[arg(short)]
    force: bool,
    /// Make the directories above the destination
    #[arg(short)]
    parents: bool,
    /// Files at once
    #[arg(short, default_value_t = 4, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: u64,
    /// Replicas of each chunk [default: the cell's]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "COUNT")]
    replication: u32,
    /// Acknowledge bytes only once they are on disk on every replica
    #[arg(long)]
    synced: bool,
    /// Local files, directories with -r, or - for stdin
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// Where to: a directory that is there, or a new name
    destination: String,
}

/// All that is to be stored.
#[derive(Default)]
struct PutPlan {
    files: Vec<LocalUpload>,
    /// What stdin becomes.
    stdin: Vec<CellPath>,
}

/// What each upload needs of the command.
struct PutContext {
    /// The destination's, for its cell and how that is shown.
    root: RemotePath,
    options: UploadOptions,
    progress: WorkProgress,
}

/// Runs it.
pub(crate) async fn run(put: PutArguments, session: &Session) -> Result<(), CliError> {
    let several = put.sources.len() > 1;
    let destination = Destination::find(session, &put.destination, several, put.parents).await?;
    let create = CreateOptions {
        replication: put.replication,
        synced: put.synced,
        ..CreateOptions::default()
    };
    let options = UploadOptions { replace: put.force, create };
    let mut tally = Tally::default();
    let mut plan = PutPlan::default();
    for source in &put.sources {
        let planned = plan.add(&put, source, &destination, &mut tally).await;
        tally.note(planned)?;
    }
    let total = plan.files.iter().map(|file| file.from.size).sum();
    let progress = WorkProgress::new("put", (total > 0).then_some(total));
    let root = destination.place().clone();
    let context = Arc::new(PutContext { root, options, progress });
    for to in &plan.stdin {
        tally.note(context.store_stdin(to).await)?;
    }
    let jobs = usize::try_from(put.jobs).expect("at most 256");
    let done = side_by_side(jobs, groups(plan.files, jobs), |group| {
        let context = context.clone();
        async move { context.store(group).await }
    })
    .await;
    context.progress.finish();
    tally.note(done)?;
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
        let to = destination.of(&local_name(source)?)?;
        if metadata.is_dir() {
            if !put.recursive {
                let cause = Cause::new(Exit::WrongKind, "it is a directory", "put -r stores it");
                return Err(CliError::new(doing(), cause));
            }
            return self.add_tree(source, &to, tally).await;
        }
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
        if let Some(left_out) = left_out(&tree) {
            eprintln!("cairn: {left_out} below {}", source.display());
        }
        for problem in tree.problems {
            tally.note(Err(not_found_out(problem)))?;
        }
        let places = tree.directories.iter().map(|directory| below(to, &directory.relative));
        for made in make_directories(&places.collect::<Result<Vec<_>, _>>()?).await {
            made?;
        }
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

/// What was left out, as a person is told; nothing where nothing was.
fn left_out(tree: &LocalTree) -> Option<String> {
    let counts = [(tree.links.len(), "symbolic link"), (tree.special.len(), "special file")];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    (!parts.is_empty()).then(|| format!("skipped {}", parts.join(" and ")))
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

/// The name that a local path gives to what is made of it.
fn local_name(source: &Path) -> Result<String, CliError> {
    // `.` and `..` have no name of their own, but what they stand for has.
    let named = if source.file_name().is_some() {
        source.to_owned()
    } else {
        source.canonicalize().doing(|| format!("storing {}", source.display()))?
    };
    let name = named.file_name().unwrap_or("root".as_ref());
    name.to_str().map(str::to_owned).ok_or_else(|| name_not_utf8(source))
}

impl PutContext {
    async fn store_stdin(&self, to: &CellPath) -> Result<(), CliError> {
        let mut source = LocalSource::new(std::io::stdin());
        let (cell, options) = (&self.root.cell, &self.options);
        let done = upload(&mut source, cell, to, options, &self.progress).await;
        done.map_err(|error| not_stored(error, "stdin", &self.root.with_path(to.clone())))
    }

    async fn store(&self, mut group: Vec<LocalUpload>) -> Result<(), CliError> {
        let (cell, options) = (&self.root.cell, &self.options);
        let mut tally = Tally::default();
        if group.len() > 1 {
            for (file, done) in upload_group(cell, group, options, &self.progress).await {
                let place = || self.root.with_path(file.to.clone());
                let from = || file.from.path.display().to_string();
                tally.note(done.map_err(|error| not_stored(error, &from(), &place())))?;
            }
        } else if let Some(file) = group.pop() {
            let from = file.from.path.display().to_string();
            let mut source =
                LocalSource::open(&file.from.path).doing(|| format!("reading {from}"))?;
            let done = upload(&mut source, cell, &file.to, options, &self.progress).await;
            let place = || self.root.with_path(file.to.clone());
            tally.note(done.map_err(|error| not_stored(error, &from, &place())))?;
        }
        tally.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::left_out;
    use cairn_transfer::LocalTree;

    #[test]
    fn what_is_left_out_is_counted() {
        let tree = LocalTree {
            links: vec!["l".into(), "m".into()],
            special: vec!["s".into()],
            ..LocalTree::default()
        };
        let told = left_out(&tree);
        assert_eq!(told.as_deref(), Some("skipped 2 symbolic links and 1 special file"));
        assert_eq!(left_out(&LocalTree::default()), None);
    }
}
