//! `cairn put`: local files and trees into the cell, several files at once.

use crate::arguments::from_to;
use crate::cli_error::{Cause, CliError, Doing, Tally};
use crate::destination::Destination;
use crate::exit_codes::Exit;
use crate::local_tree::{LocalEntry, LocalTree};
use crate::places::make_directories;
use crate::progress::Progress;
use crate::session::{Place, Session};
use crate::side_by_side::side_by_side;
use crate::upload::{LocalSource, UploadOptions, upload};
use crate::upload_group::{Job, groups, upload_group};
use cairn_client::CreateOptions;
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `put`.
#[derive(Args, Debug)]
pub(crate) struct Put {
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
    #[arg(value_parser = from_to::<usize>(1..=256))]
    jobs: usize,
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

/// Runs it.
pub(crate) async fn run(put: Put, session: &Session) -> Result<(), CliError> {
    let several = put.sources.len() > 1;
    let destination = Destination::find(session, &put.destination, several, put.parents).await?;
    let create = CreateOptions {
        replication: put.replication,
        synced: put.synced,
        ..CreateOptions::default()
    };
    let options = Arc::new(UploadOptions { replace: put.force, create });
    let mut tally = Tally::default();
    let mut jobs = Vec::new();
    for source in &put.sources {
        let planned = plan(&put, source, &destination, &mut tally, &mut jobs).await;
        tally.note(planned)?;
    }
    let total = jobs.iter().map(|(entry, _)| entry.size).sum();
    let progress = Arc::new(Progress::new("put", (total > 0).then_some(total)));
    let done = side_by_side(put.jobs, groups(jobs, put.jobs), |group| {
        store(group, options.clone(), progress.clone())
    })
    .await;
    progress.finish();
    tally.note(done)?;
    tally.finish()
}

async fn plan(
    put: &Put,
    source: &Path,
    destination: &Destination,
    tally: &mut Tally,
    jobs: &mut Vec<Job>,
) -> Result<(), CliError> {
    let doing = || format!("storing {}", source.display());
    if source == Path::new("-") {
        if destination.is_directory() {
            let advice = "name the file that stdin shall become";
            return Err(CliError::usage("storing stdin", "it has no name", advice));
        }
        let entry = LocalEntry { path: source.to_owned(), relative: String::new(), size: 0 };
        jobs.push((entry, destination.of("-")?));
        return Ok(());
    }
    let metadata = std::fs::metadata(source).doing(doing)?;
    let to = destination.of(&local_name(source)?)?;
    if metadata.is_dir() {
        if !put.recursive {
            let cause = Cause::new(Exit::WrongKind, "it is a directory", "put -r stores it");
            return Err(CliError::new(doing(), cause));
        }
        return plan_tree(source, &to, tally, jobs).await;
    }
    let entry =
        LocalEntry { path: source.to_owned(), relative: String::new(), size: metadata.len() };
    jobs.push((entry, to));
    Ok(())
}

async fn plan_tree(
    source: &Path,
    to: &Place,
    tally: &mut Tally,
    jobs: &mut Vec<Job>,
) -> Result<(), CliError> {
    let tree = LocalTree::walk(source);
    if let Some(left_out) = tree.left_out() {
        eprintln!("cairn: {left_out} below {}", source.display());
    }
    for complaint in tree.complaints {
        tally.note(Err(complaint))?;
    }
    let places = tree.directories.iter().map(|directory| below(to, &directory.relative));
    for made in make_directories(&places.collect::<Result<Vec<_>, _>>()?).await {
        made?;
    }
    for file in tree.files {
        match below(to, &file.relative) {
            Ok(place) => jobs.push((file, place)),
            Err(complaint) => tally.note(Err(complaint))?,
        }
    }
    Ok(())
}

fn below(place: &Place, relative: &str) -> Result<Place, CliError> {
    if relative.is_empty() { Ok(place.clone()) } else { place.join(relative) }
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
    name.to_str().map(str::to_owned).ok_or_else(|| {
        let cause = Cause::new(Exit::Local, "its name is not UTF-8", "rename it first");
        CliError::new(format!("storing {}", source.display()), cause)
    })
}

async fn store(
    mut group: Vec<Job>,
    options: Arc<UploadOptions>,
    progress: Arc<Progress>,
) -> Result<(), CliError> {
    if group.len() > 1 {
        return upload_group(group, &options, &progress).await;
    }
    let Some((entry, to)) = group.pop() else { return Ok(()) };
    if entry.path == Path::new("-") {
        let mut source = LocalSource::new(std::io::stdin(), "stdin".to_owned());
        return upload(&mut source, &to, &options, &progress).await;
    }
    upload(&mut LocalSource::open(&entry.path)?, &to, &options, &progress).await
}
