//! Many small files into a cell: each step of theirs is one request for all of them.
//!
//! ```text
//!   look at all targets ─► create all under partial names ─► fill, one by one ─► rename all
//! ```
//! What holds for one file (upload.rs) holds for each: nothing under its name before all of it is
//! there (U1), nothing replaced unasked (U2). A file that fails keeps none of the others.

use crate::byte_source::{LocalSource, PIECE_SIZE, Progress};
use crate::local_tree::LocalEntry;
use crate::partial_files;
use crate::partial_name::cell_partial_name;
use crate::upload::{UploadError, UploadOptions, fill, must_be_free};
use cairn_client::{Cell, File};
use cairn_types::CellPath;
use std::io;

/// Files of one group: as many as the client sends in one request.
const GROUP_COUNT_MAX: usize = 256;
/// Bytes of one group, so that none goes on long after the others have finished.
const GROUP_SIZE_MAX: u64 = 8 << 20;

/// One local file that is to be stored, and where.
#[derive(Clone, Debug)]
pub struct LocalUpload {
    /// From where.
    pub from: LocalEntry,
    /// Under which name.
    pub to: CellPath,
}

/// Cuts uploads into groups, so that `jobs` have something to do at once; files larger than a
/// piece stay alone.
#[must_use]
pub fn groups(all: Vec<LocalUpload>, jobs: usize) -> Vec<Vec<LocalUpload>> {
    let is_small = |file: &LocalUpload| file.from.size <= PIECE_SIZE as u64;
    let (small, large): (Vec<LocalUpload>, Vec<LocalUpload>) = all.into_iter().partition(is_small);
    let sizes = small.iter().map(|file| file.from.size).collect::<Vec<_>>();
    let mut small = small.into_iter();
    let mut groups: Vec<Vec<LocalUpload>> = large.into_iter().map(|file| vec![file]).collect();
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

/// A file on its way.
struct Pending {
    upload: LocalUpload,
    /// Open under its partial name, once that is made.
    partial: Option<(CellPath, File)>,
    /// Bytes stored so far, or why no more will be.
    outcome: Result<u64, UploadError<io::Error>>,
}

/// The files of one group, on their way together.
struct Group<'a> {
    cell: &'a Cell,
    options: &'a UploadOptions,
    files: Vec<Pending>,
}

/// Stores a group; each file with how many bytes it had, or why it was not stored, in order.
pub async fn upload_group(
    cell: &Cell,
    group: Vec<LocalUpload>,
    options: &UploadOptions,
    progress: &impl Progress,
) -> Vec<(LocalUpload, Result<u64, UploadError<io::Error>>)> {
    let pending = |upload| Pending { upload, partial: None, outcome: Ok(0) };
    let mut group = Group { cell, options, files: group.into_iter().map(pending).collect() };
    if !options.replace {
        group.look().await;
    }
    group.create().await;
    for file in group.good() {
        file.outcome = file.fill(progress).await;
    }
    group.rename().await;
    group.clean_up().await;
    group.files.into_iter().map(|file| (file.upload, file.outcome)).collect()
}

impl Group<'_> {
    /// Those that nothing has happened to.
    fn good(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.files.iter_mut().filter(|file| file.outcome.is_ok())
    }

    /// Targets must be free (U2).
    async fn look(&mut self) {
        let targets: Vec<CellPath> = self.good().map(|file| file.upload.to.clone()).collect();
        let seen = self.cell.look_many(&targets).await;
        for (file, seen) in self.good().zip(seen) {
            file.outcome = must_be_free(seen).map(|()| 0);
        }
    }

    /// Makes the files under their partial names (U1).
    async fn create(&mut self) {
        let mut partials = Vec::with_capacity(self.files.len());
        for file in self.good() {
            match cell_partial_name(&file.upload.to) {
                Ok(name) => partials.push(name),
                Err(error) => file.outcome = Err(error.into()),
            }
        }
        self.options.partials.note_in_cell(self.cell, &partials).await;
        let made = self.cell.create_many(&partials, self.options.to_write()).await;
        for (file, (name, made)) in self.good().zip(partials.into_iter().zip(made)) {
            match made {
                Ok(made) => file.partial = Some((name, made)),
                Err(error) => file.outcome = Err(error.into()),
            }
        }
    }

    /// Gives their names to all that are filled.
    async fn rename(&mut self) {
        let replace = self.options.replace;
        let moves: Vec<_> =
            self.good().map(|file| (file.partial(), file.upload.to.clone())).collect();
        let renamed = self.cell.rename_many(&moves, replace).await;
        for (file, renamed) in self.good().zip(renamed) {
            if let Err(error) = renamed {
                file.outcome = Err(error.into());
            }
        }
    }

    /// Takes away what was made and did not get its name.
    async fn clean_up(&self) {
        let failed = self.files.iter().filter(|file| file.outcome.is_err());
        let left = failed.filter_map(|file| file.partial.as_ref().map(|(name, _)| name.clone()));
        partial_files::clean_up(self.cell, left.collect(), &self.options.partials).await;
        let made = self.files.iter().filter_map(|file| file.partial.as_ref());
        self.options.partials.forget_in_cell(made.map(|(name, _)| name));
    }
}

impl Pending {
    fn partial(&self) -> CellPath {
        self.partial.as_ref().map(|(name, _)| name.clone()).expect("made, as nothing has failed")
    }

    async fn fill(&self, progress: &impl Progress) -> Result<u64, UploadError<io::Error>> {
        let (_, file) = self.partial.as_ref().expect("made, as nothing has failed");
        let mut source =
            LocalSource::open(&self.upload.from.path).await.map_err(UploadError::Source)?;
        fill(&mut source, file, progress).await
    }
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
