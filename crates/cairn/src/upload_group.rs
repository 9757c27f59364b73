//! Many small files into a cell: each step of theirs is one request for all of them.
//!
//! ```text
//!   look at all targets ─► create all under passing names ─► fill, one by one ─► name all
//! ```
//! What holds for one file (upload.rs) holds for each: nothing under its name before all of it is
//! there (U1), nothing replaced unasked (U2). A file that fails is told; the others go on.

use crate::cli_error::{Cause, CliError, Doing, Tally};
use crate::exit_codes::Exit;
use crate::local_tree::LocalEntry;
use crate::places::ask_many;
use crate::progress::Progress;
use crate::session::Place;
use crate::upload::{LocalSource, PIECE_SIZE, UploadOptions, fill, passing_name};
use cairn_client::{Cell, File};
use cairn_types::CellPath;

/// Files of one group: as many as the client sends in one request.
const GROUP_COUNT_MAX: usize = 256;
/// Bytes of one group, so that none keeps a job long after the others have finished.
const GROUP_SIZE_MAX: u64 = 8 << 20;

/// One file that is to be stored, and where.
pub(crate) type Job = (LocalEntry, Place);

/// Cuts small files into groups, so that `jobs` have something to do at once; others stay alone.
pub(crate) fn groups(all: Vec<Job>, jobs: usize) -> Vec<Vec<Job>> {
    let is_small = |job: &Job| job.0.size <= PIECE_SIZE as u64 && job.0.path.as_os_str() != "-";
    let (small, large): (Vec<Job>, Vec<Job>) = all.into_iter().partition(is_small);
    let sizes = small.iter().map(|(entry, _)| entry.size).collect::<Vec<_>>();
    let mut small = small.into_iter();
    let mut groups: Vec<Vec<Job>> = large.into_iter().map(|job| vec![job]).collect();
    let counts = group_counts(&sizes, jobs);
    groups.extend(counts.into_iter().map(|count| small.by_ref().take(count).collect()));
    groups
}

/// How many files each group takes of files of these sizes, in order.
fn group_counts(sizes: &[u64], jobs: usize) -> Vec<usize> {
    let count_max = sizes.len().div_ceil(jobs.max(1)).clamp(1, GROUP_COUNT_MAX);
    let mut counts = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    for size in sizes {
        if count == count_max || (count > 0 && bytes + size > GROUP_SIZE_MAX) {
            counts.push(std::mem::take(&mut count));
            bytes = 0;
        }
        count += 1;
        bytes += size;
    }
    counts.extend((count > 0).then_some(count));
    counts
}

/// A file on its way: what it is called meanwhile, and how far it has come.
struct Passing {
    job: Job,
    name: CellPath,
    filled: Result<(), CliError>,
}

/// Stores a group. What failed is told.
///
/// # Errors
/// The first failure.
pub(crate) async fn upload_group(
    group: Vec<Job>,
    options: &UploadOptions,
    progress: &Progress,
) -> Result<(), CliError> {
    let mut tally = Tally::default();
    let group = if options.replace { group } else { free(group, &mut tally).await? };
    let mut passing = Vec::with_capacity(group.len());
    for (job, name, file) in created(group, options, &mut tally).await? {
        let filled = fill_one(&job, &file, progress).await;
        passing.push(Passing { job, name, filled });
    }
    name_all(passing, options.replace, &mut tally).await?;
    tally.finish()
}

/// Those whose targets are free (U2).
async fn free(group: Vec<Job>, tally: &mut Tally) -> Result<Vec<Job>, CliError> {
    let targets: Vec<&Place> = group.iter().map(|(_, to)| to).collect();
    let look = |cell: Cell, paths: Vec<CellPath>| async move { cell.look_many(&paths).await };
    let seen = ask_many(&targets, "looking up", look).await;
    let mut free = Vec::with_capacity(group.len());
    for (job, seen) in group.into_iter().zip(seen) {
        match seen {
            Err(nothing) if nothing.exit() == Exit::NotFound => free.push(job),
            Err(complaint) => tally.note(Err(complaint))?,
            Ok(_) => {
                let cause = Cause::new(Exit::Exists, "it is there already", "-f replaces a file");
                tally.note(Err(CliError::new(format!("storing {}", job.1), cause)))?;
            }
        }
    }
    Ok(free)
}

/// Makes the files under their passing names (U1).
async fn created(
    group: Vec<Job>,
    options: &UploadOptions,
    tally: &mut Tally,
) -> Result<Vec<(Job, CellPath, File)>, CliError> {
    let mut named = Vec::with_capacity(group.len());
    for job in group {
        match passing_name(&job.1.path).doing(|| format!("storing {}", job.1)) {
            Ok(name) => {
                let place = job.1.with_path(name);
                named.push((job, place));
            }
            Err(complaint) => tally.note(Err(complaint))?,
        }
    }
    let places: Vec<&Place> = named.iter().map(|(_, place)| place).collect();
    let create = |cell: Cell, paths: Vec<CellPath>| async move {
        cell.create_many(&paths, options.create).await
    };
    let files = ask_many(&places, "storing", create).await;
    let mut made = Vec::with_capacity(named.len());
    for ((job, place), file) in named.into_iter().zip(files) {
        match file {
            Ok(file) => made.push((job, place.path, file)),
            Err(complaint) => tally.note(Err(complaint))?,
        }
    }
    Ok(made)
}

async fn fill_one((entry, to): &Job, file: &File, progress: &Progress) -> Result<(), CliError> {
    let mut source = LocalSource::open(&entry.path)?;
    fill(&mut source, file, to, progress).await
}

/// Gives their names to all that are filled, and takes the others away.
async fn name_all(passing: Vec<Passing>, replace: bool, tally: &mut Tally) -> Result<(), CliError> {
    let Some(cell) = passing.first().map(|one| one.job.1.cell.clone()) else { return Ok(()) };
    let filled = passing.iter().filter(|one| one.filled.is_ok());
    let moves: Vec<_> = filled.map(|one| (one.name.clone(), one.job.1.path.clone())).collect();
    let mut renamed = cell.rename_many(&moves, replace).await.into_iter();
    let mut left = Vec::new();
    for Passing { job: (_, to), name, filled } in passing {
        let done = filled.and_then(|()| {
            let done = renamed.next().expect("an answer for each that is filled");
            done.doing(|| format!("storing {to}"))
        });
        if done.is_err() {
            left.push(name);
        }
        tally.note(done)?;
    }
    // The failures are told; what is left over here too has a telling name.
    cell.delete_many(&left, false).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{GROUP_COUNT_MAX, group_counts};

    #[test]
    fn groups_are_as_large_as_they_may_be_while_every_job_has_one() {
        assert_eq!(group_counts(&[], 4), [0; 0]);
        assert_eq!(group_counts(&[1; 6], 4), [2, 2, 2]);
        assert_eq!(group_counts(&[1; 600], 1), [GROUP_COUNT_MAX, GROUP_COUNT_MAX, 88]);
        assert_eq!(group_counts(&[1 << 20; 20], 1), [8, 8, 4]);
    }
}
