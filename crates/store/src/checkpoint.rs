//! The checkpoints in a master's directory (GFS §2.6.3); docs/formats/checkpoint.md.
//!
//! ```text
//!   checkpoints/<number>.pages    grows; each checkpoint adds the pages that it lacks
//!   checkpoints/<index>.root      one per checkpoint; names a page file and how much of it
//! ```
//! - C1: a root has its name only when all of its pages, and it, are durable.
//! - C2: one that does not read is passed over; one before it, and the log since then, give the
//!   same state. So the log is kept back to the oldest checkpoint kept, and one of another page
//!   file is kept: no damage in one file is damage of all.
//! - C3: when garbage outweighs what is live, or the page file spans many records (what is kept of
//!   the log hangs on it), the next checkpoint goes whole into a fresh page file. A page file that
//!   no kept root names is removed, once every root reads: one that does not, perhaps for a moment,
//!   may name any of them.
//! - C4: after an error a page file is given up: what is in it is not known (`pagetree`'s C4).
//! - C5: a checkpoint in which damage was found keeps its bytes under another name, for a person,
//!   and is never read again; it goes when it would have gone. So it is with one whose pages the
//!   disk cannot read, which ended the process that looked at them.

use crate::checkpoint_transfer::INCOMING;
use crate::page_file::{MappedPages, PageFile, PageWriter, open_page_file, page_file_path};
use crate::whole_files::{disk_error, read_file, replace_file, sync_failure};
use cairn_env::{Disk, DiskError, IoFailure, OpenMode, UnreadableBytes};
use cairn_format::{CheckpointRoot, PageFileHeader};
use cairn_pagetree::{CheckpointError, Damaged, FileId};
use cairn_types::{CellId, LogIndex, Term};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checkpoints that are kept, beside one of another page file (C2).
pub const CHECKPOINTS_KEPT: usize = 2;

/// When a checkpoint goes whole into a fresh page file (C3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFileLimits {
    /// Garbage that a page file may have beside as many bytes as are live.
    pub garbage_max: u64,
    /// Records from its first checkpoint to its last.
    pub records_max: u64,
}

pub(crate) const DIRECTORY: &str = "checkpoints";
pub(crate) const ROOT: &str = ".root";
const DAMAGED: &str = ".damaged";
const PAGES: &str = ".pages";
const DRAFT: &str = ".draft";
/// A mapping that lacks less than one part in so many of what is live is not made anew.
const ADOPTION_SHARE: u64 = 8;

impl PageFileLimits {
    /// What suits a real machine.
    #[must_use]
    pub fn standard() -> Self {
        Self { garbage_max: 16 << 20, records_max: 2_000_000 }
    }
}

/// The checkpoints in a master's directory.
#[derive(Debug)]
pub struct Checkpoints {
    disk: Arc<dyn Disk>,
    cell: CellId,
    limits: PageFileLimits,
    /// What the next checkpoint adds to; none: a fresh one.
    current: Option<PageFile>,
    next_number: u64,
    /// Those that are not read again, where nothing may be changed on the disk.
    passed_over: Option<BTreeSet<LogIndex>>,
}

/// A checkpoint as it was found.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// What it says.
    pub root: CheckpointRoot,
    /// Its page file.
    pub mapped: MappedPages,
    pages: PageFile,
}

/// A state written into a page file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenImage {
    /// What opens it.
    pub root: Vec<u8>,
    /// Bytes of the pages that it reaches.
    pub live_bytes: u64,
}

/// What came of writing one.
pub type ImageResult = Result<WrittenImage, CheckpointError<DiskError>>;

/// A checkpoint that was made.
#[derive(Clone, Debug)]
pub struct WrittenCheckpoint {
    /// Bytes that it added to its page file.
    pub size: u64,
    /// The number of that page file.
    pub page_file: u64,
    /// Where the live state had better read its pages from now on: it gives memory back, and lets
    /// go of a page file that is to be removed.
    pub to_adopt: Option<MappedPages>,
}

pub(crate) fn path(index: LogIndex, suffix: &str) -> String {
    format!("{DIRECTORY}/{:016x}{suffix}", index.get())
}

/// The numbers in names that end in `suffix`.
fn numbered(names: &[String], suffix: &str) -> BTreeSet<u64> {
    let number = |name: &String| u64::from_str_radix(name.strip_suffix(suffix)?, 16).ok();
    names.iter().filter_map(number).collect()
}

/// Whether a directory has checkpoints in it, or what may have been some.
///
/// # Errors
/// [`DiskError`].
pub fn has_checkpoints(disk: &dyn Disk) -> Result<bool, DiskError> {
    Ok(!names_in(disk)?.is_empty())
}

fn names_in(disk: &dyn Disk) -> Result<Vec<String>, DiskError> {
    match disk.list(DIRECTORY) {
        Err(IoFailure::NotFound) => Ok(Vec::new()),
        listed => listed.map_err(disk_error),
    }
}

/// Whose the checkpoints in a directory are; none where no root reads.
///
/// # Errors
/// [`DiskError`].
pub fn cell_of_checkpoints(disk: &dyn Disk) -> Result<Option<CellId>, DiskError> {
    let names = names_in(disk)?;
    for index in numbered(&names, ROOT).into_iter().rev() {
        if let Some(root) = read_root(disk, &path(LogIndex::new(index), ROOT))? {
            return Ok(Some(root.cell));
        }
    }
    Ok(None)
}

/// The root in a file, if it reads.
fn read_root(disk: &dyn Disk, path: &str) -> Result<Option<CheckpointRoot>, DiskError> {
    let file = match read_file(disk, path) {
        // C2: what the disk cannot read is as good as damaged.
        Err(IoFailure::Device) => None,
        read => read.map_err(disk_error)?,
    };
    Ok(CheckpointRoot::decode(&file.unwrap_or_default()).ok())
}

impl Checkpoints {
    /// The checkpoints of `cell`'s master in this directory, whose lock the caller holds.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn open(
        disk: Arc<dyn Disk>,
        cell: CellId,
        limits: PageFileLimits,
    ) -> Result<Self, DiskError> {
        disk.make_dir(DIRECTORY).map_err(disk_error)?;
        disk.sync_dir("").map_err(sync_failure)?;
        // What was on its way from another master counts for nothing (CT1).
        match disk.remove(INCOMING) {
            Ok(()) | Err(IoFailure::NotFound) => {}
            Err(failure) => return Err(disk_error(failure)),
        }
        let (current, next_number, passed_over) = (None, 1, None);
        let mut checkpoints = Self { disk, cell, limits, current, next_number, passed_over };
        let names = checkpoints.names()?;
        // A number that a root names is not given again, even where the file is gone.
        let named = checkpoints.roots(&names)?.into_iter().flatten().map(|root| root.page_file);
        let highest = numbered(&names, PAGES).into_iter().chain(named).max();
        checkpoints.next_number = highest.unwrap_or_default() + 1;
        Ok(checkpoints)
    }

    /// The same, to be read alone: nothing is changed on the disk. What is found damaged is passed
    /// over by this value, and by no other.
    #[must_use]
    pub fn look(disk: Arc<dyn Disk>, cell: CellId) -> Self {
        let (limits, passed_over) = (PageFileLimits::standard(), Some(BTreeSet::new()));
        Self { disk, cell, limits, current: None, next_number: 1, passed_over }
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        names_in(self.disk.as_ref())
    }

    /// All roots there are, those of checkpoints found damaged too; none for each that does not
    /// read.
    fn roots(&self, names: &[String]) -> Result<Vec<Option<CheckpointRoot>>, DiskError> {
        let of = |suffix| numbered(names, suffix).into_iter().map(move |index| (index, suffix));
        let files = of(ROOT).chain(of(DAMAGED));
        files.map(|(index, suffix)| self.read_root(&path(LogIndex::new(index), suffix))).collect()
    }

    /// The root in a file, if it reads and is this cell's.
    fn read_root(&self, path: &str) -> Result<Option<CheckpointRoot>, DiskError> {
        let root = read_root(self.disk.as_ref(), path)?;
        Ok(root.filter(|root| root.cell == self.cell))
    }

    /// The checkpoints there are, newest first, whether they read or not.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn list(&self) -> Result<Vec<LogIndex>, DiskError> {
        let all = numbered(&self.names()?, ROOT).into_iter().rev().map(LogIndex::new);
        let is_passed = |it: &LogIndex| self.passed_over.as_ref().is_some_and(|to| to.contains(it));
        Ok(all.filter(|index| !is_passed(index)).collect())
    }

    /// The checkpoint as of `index`; none where its root does not read, or its page file is not
    /// there or too short (C2). Its pages show whether they are whole when they are touched.
    ///
    /// # Errors
    /// [`DiskError`] of the disk, never of a checkpoint's bytes.
    pub fn load(&self, index: LogIndex) -> Result<Option<FoundCheckpoint>, DiskError> {
        let root = self.read_root(&path(index, ROOT))?.filter(|root| root.index == index);
        let Some(root) = root else { return Ok(None) };
        let mode = if self.passed_over.is_some() { OpenMode::Read } else { OpenMode::Write };
        let opened = open_page_file(self.disk.as_ref(), (DIRECTORY, mode), self.cell, &root)?;
        Ok(opened.map(|(pages, mapped)| FoundCheckpoint { root, mapped, pages }))
    }

    /// From now on checkpoints add to the page file of this one, which the live state came from.
    pub fn go_on_from(&mut self, checkpoint: FoundCheckpoint) {
        self.current = Some(checkpoint.pages);
    }

    /// The next checkpoint goes into a fresh page file.
    pub fn begin_afresh(&mut self) {
        self.current = None;
    }

    /// Keeps all checkpoints that may have a page, found damaged in a page file, from being read
    /// again, durably (C5). The newest of that page file always is one, whatever its root says.
    ///
    /// # Errors
    /// [`DiskError`]; they may be read again then.
    pub fn mark_damaged(&mut self, page_file: u64, damaged: &Damaged) -> Result<(), DiskError> {
        self.mark_from(page_file, damaged.offset)
    }

    /// The same for pages that ended the process before, which could not read them; told where
    /// there are such.
    ///
    /// # Errors
    /// [`DiskError`]; they may end this process too.
    pub fn mark_unreadable(&mut self) -> Result<Option<UnreadableBytes>, DiskError> {
        let Some(unreadable) = self.disk.unreadable().map_err(disk_error)? else { return Ok(None) };
        let name = unreadable.path.strip_prefix(DIRECTORY).and_then(|rest| rest.strip_prefix('/'));
        let numbers = numbered(&name.map(str::to_owned).into_iter().collect::<Vec<_>>(), PAGES);
        for page_file in numbers {
            self.mark_from(page_file, unreadable.offset)?;
        }
        if self.passed_over.is_none() {
            self.disk.forget_unreadable().map_err(sync_failure)?;
        }
        Ok(Some(unreadable))
    }

    fn mark_from(&mut self, page_file: u64, offset: u64) -> Result<(), DiskError> {
        let mut is_newest = true;
        for index in self.list()? {
            let Some(root) = self.read_root(&path(index, ROOT))? else {
                // It may be that one, and no older one need have the page.
                is_newest = false;
                continue;
            };
            if root.page_file != page_file {
                continue;
            }
            if is_newest || offset < root.page_file_size {
                match &mut self.passed_over {
                    Some(passed_over) => drop(passed_over.insert(index)),
                    None => {
                        let (root, damaged) = (path(index, ROOT), path(index, DAMAGED));
                        self.disk.rename(&root, &damaged).map_err(disk_error)?;
                    }
                }
            }
            is_newest = false;
        }
        match self.passed_over {
            Some(_) => Ok(()),
            None => self.disk.sync_dir(DIRECTORY).map_err(sync_failure),
        }
    }

    /// Makes a checkpoint, durably (C1); `image` hands the pages that the file named to it lacks
    /// to the writer.
    ///
    /// # Errors
    /// The disk's as the sink's, and damage met in a page that was to be copied. No checkpoint was
    /// added then, and the next one goes into a fresh page file (C4).
    pub fn write(
        &mut self,
        term: Term,
        index: LogIndex,
        image: impl FnOnce(FileId, &mut PageWriter<'_>) -> ImageResult,
    ) -> Result<WrittenCheckpoint, CheckpointError<DiskError>> {
        let limits = self.limits;
        let current = self.current.take().filter(|pages| {
            let spans = index.get().saturating_sub(pages.begun.unwrap_or(index).get());
            let size_max = pages.live.saturating_mul(2).saturating_add(limits.garbage_max);
            spans <= limits.records_max && pages.end <= size_max
        });
        let mut pages = match current {
            Some(pages) => pages,
            None => self.fresh_file().map_err(CheckpointError::Sink)?,
        };
        let before = pages.end;
        let image = match write_pages(&mut pages, image) {
            Ok(image) => image,
            Err(error) => {
                self.give_up(&pages);
                return Err(error);
            }
        };
        let root = CheckpointRoot {
            cell: self.cell,
            term,
            index,
            page_file: pages.number,
            page_file_begun: *pages.begun.get_or_insert(index),
            page_file_size: pages.end,
            live_bytes: image.live_bytes,
            root: image.root,
        };
        // Where this fails, a crash may yet bring the root up: the pages are left to it.
        replace_file(self.disk.as_ref(), &path(index, ROOT), &root.encode())
            .map_err(CheckpointError::Sink)?;
        let to_adopt = adoption(&mut pages).map_err(CheckpointError::Sink)?;
        let (size, page_file) = (pages.end - before, pages.number);
        self.current = Some(pages);
        Ok(WrittenCheckpoint { size, page_file, to_adopt })
    }

    /// A number that no page file has or had.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    fn fresh_file(&mut self) -> Result<PageFile, DiskError> {
        let header = PageFileHeader { cell: self.cell, number: self.take_number() };
        PageFile::create(self.disk.as_ref(), DIRECTORY, &header)
    }

    /// Frees what a checkpoint that no root names has written. Nothing hangs on it: a page file
    /// that stays behind is removed later, and the error to be told is the one before.
    fn give_up(&self, pages: &PageFile) {
        let _ = match pages.durable_end {
            None => self.disk.remove(&page_file_path(DIRECTORY, pages.number)),
            Some(end) => pages.file.set_size(end),
        };
    }

    /// Removes all but the newest [`CHECKPOINTS_KEPT`] that read and the newest of another page
    /// file, and the page files that none needs any more; gives the oldest one kept, back to which
    /// the log is needed (C2), once all of these are there.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn remove_older(&self) -> Result<Option<LogIndex>, DiskError> {
        let mut kept: Vec<CheckpointRoot> = Vec::new();
        let mut has_other_file = false;
        for index in self.list()? {
            if kept.len() >= CHECKPOINTS_KEPT && has_other_file {
                self.remove(&path(index, ROOT))?;
                continue;
            }
            let Some(FoundCheckpoint { root, .. }) = self.load(index)? else { continue };
            let is_other = kept.first().is_some_and(|newest| newest.page_file != root.page_file);
            if kept.len() < CHECKPOINTS_KEPT || is_other {
                has_other_file |= is_other;
                kept.push(root);
            } else {
                self.remove(&path(index, ROOT))?;
            }
        }
        let complete = kept.len() >= CHECKPOINTS_KEPT && has_other_file;
        let oldest = kept.last().filter(|_| complete).map(|root| root.index);
        let names = self.names()?;
        if let Some(oldest) = oldest {
            for index in numbered(&names, DAMAGED).range(..oldest.get()) {
                self.remove(&path(LogIndex::new(*index), DAMAGED))?;
            }
        }
        for draft in names.iter().filter(|name| name.ends_with(DRAFT)) {
            self.remove(&format!("{DIRECTORY}/{draft}"))?;
        }
        self.remove_unnamed_pages()?;
        Ok(oldest)
    }

    /// The page files that no root names go (C3).
    fn remove_unnamed_pages(&self) -> Result<(), DiskError> {
        let names = self.names()?;
        let roots: Option<Vec<CheckpointRoot>> = self.roots(&names)?.into_iter().collect();
        // The root that does not read goes when its time has come (C2), or reads again before.
        let Some(roots) = roots else { return Ok(()) };
        let mut needed: BTreeSet<u64> = roots.iter().map(|root| root.page_file).collect();
        needed.extend(self.current.as_ref().map(|pages| pages.number));
        for number in numbered(&names, PAGES).difference(&needed) {
            self.remove(&page_file_path(DIRECTORY, *number))?;
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<(), DiskError> {
        self.disk.remove(path).map_err(disk_error)
    }
}

/// Writes an image behind what the file has, durably.
fn write_pages(
    pages: &mut PageFile,
    image: impl FnOnce(FileId, &mut PageWriter<'_>) -> ImageResult,
) -> ImageResult {
    let mut writer = PageWriter::new(pages.file.as_ref(), pages.end);
    let image = image(pages.id, &mut writer)?;
    let end = writer.finish().map_err(CheckpointError::Sink)?;
    (pages.end, pages.durable_end, pages.live) = (end, Some(end), image.live_bytes);
    Ok(image)
}

/// Maps the file anew where that pays.
fn adoption(pages: &mut PageFile) -> Result<Option<MappedPages>, DiskError> {
    let pays = |mapped| pages.end - mapped > pages.live / ADOPTION_SHARE;
    if !pages.mapped.is_none_or(pays) {
        return Ok(None);
    }
    pages.map(pages.end).map(Some)
}
