//! `cairn get`: files and trees of the cell onto this machine, several files at once.
//!
//! A file is written under a name of its own and renamed when it is whole.

use crate::arguments::from_to;
use crate::cell_tree::walk;
use crate::cli_error::{Cause, CliError, Doing, Tally};
use crate::commands::mv::name_of;
use crate::download::{RecordFlags, download, open};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::progress::Progress;
use crate::session::{Place, Session};
use crate::side_by_side::side_by_side;
use cairn_types::EntryKind;
use clap::Args;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `get`.
#[derive(Args, Debug)]
pub(crate) struct Get {
    /// Directories with all that is in them
    #[arg(short)]
    recursive: bool,
    /// Replace local files that are there
    #[arg(short)]
    force: bool,
    /// Files at once
    #[arg(short, default_value_t = 4, value_name = "COUNT")]
    #[arg(value_parser = from_to::<usize>(1..=256))]
    jobs: usize,
    #[command(flatten)]
    records: RecordFlags,
    /// Paths in the cell, and where to: a local directory that is there, a new name, or - for
    /// stdout [default for a single path: this directory]
    #[arg(required = true)]
    arguments: Vec<String>,
}

/// One file that is to be fetched.
struct Job {
    from: Place,
    to: PathBuf,
    force: bool,
    records: RecordFlags,
}

/// Runs it.
pub(crate) async fn run(mut get: Get, session: &Session, output: &Output) -> Result<(), CliError> {
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
    let progress = Arc::new(Progress::new("get", Some(total)));
    let done = side_by_side(get.jobs, jobs, |job| fetch(job, progress.clone())).await;
    progress.finish();
    tally.note(done)?;
    tally.finish()
}

async fn to_stdout(get: &Get, session: &Session, output: &Output) -> Result<(), CliError> {
    let progress = Progress::new("get", None);
    for text in &get.arguments {
        let from = session.place(text).await?;
        let file = open(&from).await?;
        download(&from, &file, get.records, |bytes| output.bytes(bytes), &progress).await?;
    }
    progress.finish();
    Ok(())
}

/// Makes the directories and adds the files; answers how many bytes they have.
async fn plan(
    get: &Get,
    text: &str,
    destination: &Path,
    into: bool,
    session: &Session,
    jobs: &mut Vec<Job>,
) -> Result<u64, CliError> {
    let from = session.place(text).await?;
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
    for below in walk(&from, entry).await? {
        let to = if below.relative.is_empty() { root.clone() } else { root.join(&below.relative) };
        if below.entry.kind == EntryKind::Directory {
            std::fs::create_dir_all(&to).doing(|| format!("making {}", to.display()))?;
        } else {
            total += below.entry.length;
            jobs.push(Job { from: below.place, to, force: get.force, records: get.records });
        }
    }
    Ok(total)
}

async fn fetch(job: Job, progress: Arc<Progress>) -> Result<(), CliError> {
    let doing = || format!("fetching {} to {}", job.from, job.to.display());
    if !job.force && job.to.symlink_metadata().is_ok() {
        let cause = Cause::new(Exit::Exists, "a local file is there already", "-f replaces it");
        return Err(CliError::new(doing(), cause));
    }
    let source = open(&job.from).await?;
    let passing = passing_name(&job.to, name_of(&job.from)?);
    let mut file = File::create_new(&passing).doing(doing)?;
    let write = |bytes: &[u8]| file.write_all(bytes).doing(doing);
    let mut done = download(&job.from, &source, job.records, write, &progress).await;
    if done.is_ok() {
        done = std::fs::rename(&passing, &job.to).doing(doing);
    }
    if done.is_err() {
        // The failure that is told is the first one.
        let _ = std::fs::remove_file(&passing);
    }
    done
}

/// `.name.get-1f3a…` beside the target: no two gets meet there.
fn passing_name(target: &Path, name: &str) -> PathBuf {
    // A local name may have 255 bytes.
    let kept: String = name.chars().take(50).collect();
    target.with_file_name(format!(".{kept}.get-{:016x}", RandomState::new().hash_one(name)))
}

#[cfg(test)]
mod tests {
    use super::passing_name;
    use std::path::Path;

    #[test]
    fn names_that_begin_alike_do_not_meet_on_their_way_and_the_longest_still_fits() {
        let (one, two) = ("𝕏".repeat(63), "𝕏".repeat(62));
        let [one, two] = [one, two].map(|name| passing_name(Path::new("/d/x"), &name));
        assert_ne!(one, two);
        assert!(one.as_os_str().len() <= "/d/".len() + 255);
    }
}
