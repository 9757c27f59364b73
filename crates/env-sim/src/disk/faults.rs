//! What a disk does wrong on purpose, beyond forgetting what was not synced.
//!
//! ```text
//!   while they last: reads, writes and opens fail; syncs answer and save nothing, or some pages
//!   at once:         a sector cannot be read any more; a page lies in another page's place;
//!                    the page cache is gone and the machine goes on
//! ```
//! Each kind is counted where it bites, so that a run can tell what it reached.

use super::inode::{InodeNumber, PAGE_SIZE, page_of};
use super::{DiskState, NameTarget, SimDisk};
use cairn_env::{IoFailure, Mapping, UnreadableBytes};
use cairn_types::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

/// What a disk does wrong until it is told otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// Of a thousand reads, how many fail.
    pub read_errors_permille: u64,
    /// Of a thousand writes of a page, how many fail.
    pub write_errors_permille: u64,
    /// Of a thousand syncs, how many answer that all is saved and have saved some pages at most.
    pub lying_syncs_permille: u64,
    /// No file can be opened: the process has no descriptors left.
    pub no_descriptors: bool,
}

/// The faults of a disk, and where they have bitten.
#[derive(Debug)]
pub(super) struct FaultState {
    faults: DiskFaults,
    random: Random,
    /// Syncs that succeed before those that fail.
    good_syncs: u64,
    failing_syncs: u64,
    /// Files that can be opened before those that cannot.
    good_opens: u64,
    failing_opens: u64,
    /// Pages that cannot be read.
    unreadable: BTreeSet<(InodeNumber, u64)>,
    /// A power failure may save a page in parts.
    pub(super) tears_pages: bool,
    fired: BTreeMap<&'static str, u64>,
    /// The process that runs was given a failure of the device.
    has_failed: bool,
}

/// What a sync does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOutcome {
    Saves,
    /// Fails, and what it was to save is never saved.
    Fails,
    /// Answers, and saves this many of a thousand pages.
    Lies {
        kept_permille: u64,
    },
}

impl FaultState {
    pub(super) fn new() -> Self {
        Self {
            faults: DiskFaults::default(),
            random: Random::new(0),
            good_syncs: 0,
            failing_syncs: 0,
            good_opens: 0,
            failing_opens: 0,
            unreadable: BTreeSet::new(),
            tears_pages: false,
            fired: BTreeMap::new(),
            has_failed: false,
        }
    }

    /// Another process: syncs that were to fail do not fail any more.
    pub(super) fn begin_session(&mut self) {
        (self.good_syncs, self.failing_syncs) = (0, 0);
        self.has_failed = false;
    }

    /// The device fails the process.
    fn fail(&mut self, what: &'static str) {
        self.has_failed = true;
        self.fire(what);
    }

    fn fire(&mut self, what: &'static str) {
        *self.fired.entry(what).or_default() += 1;
    }

    /// Whether nothing goes wrong from now on.
    pub(super) fn is_over(&self) -> bool {
        self.faults == DiskFaults::default() && self.failing_syncs == 0
    }

    /// Draws only where there is something to draw: a disk without faults takes nothing from its
    /// generator.
    fn chance(&mut self, permille: u64) -> bool {
        permille > 0 && self.random.chance(permille)
    }

    pub(super) fn on_open(&mut self) -> Result<(), IoFailure> {
        let fails = self.good_opens == 0 && self.failing_opens > 0;
        self.failing_opens -= u64::from(fails);
        self.good_opens = self.good_opens.saturating_sub(1);
        if !fails && !self.faults.no_descriptors {
            return Ok(());
        }
        self.fire("disk: no descriptor left");
        Err(IoFailure::NoDescriptors)
    }

    /// Before these pages of a file are read.
    pub(super) fn on_read(
        &mut self,
        inode: InodeNumber,
        pages: RangeInclusive<u64>,
    ) -> Result<(), IoFailure> {
        if self.chance(self.faults.read_errors_permille) {
            self.fail("disk: read failed");
            return Err(IoFailure::Device);
        }
        let bad = (inode, *pages.start())..=(inode, *pages.end());
        if self.unreadable.range(bad).next().is_some() {
            self.fail("disk: unreadable sector read");
            return Err(IoFailure::Device);
        }
        Ok(())
    }

    /// The first of these pages that cannot be read, which is looked at under a mapping.
    pub(super) fn unreadable_under_mapping(
        &mut self,
        inode: InodeNumber,
        pages: RangeInclusive<u64>,
    ) -> Option<u64> {
        let bad = (inode, *pages.start())..=(inode, *pages.end());
        let page = self.unreadable.range(bad).next().map(|(_, page)| *page)?;
        self.fail("disk: unreadable sector under a mapping");
        Some(page)
    }

    /// Before a part of a page is written; a sector that is written anew can be read again.
    pub(super) fn on_write(&mut self, inode: InodeNumber, page: u64) -> Result<(), IoFailure> {
        if self.chance(self.faults.write_errors_permille) {
            self.fail("disk: write failed");
            return Err(IoFailure::Device);
        }
        self.unreadable.remove(&(inode, page));
        Ok(())
    }

    /// A file has the pages of another.
    pub(super) fn share(&mut self, from: InodeNumber, to: InodeNumber) {
        self.fire("disk: file cloned");
        let bad = self.unreadable.range((from, 0)..=(from, u64::MAX));
        let bad: Vec<_> = bad.map(|(_, page)| (to, *page)).collect();
        self.unreadable.extend(bad);
    }

    /// All of the disk is written anew.
    pub(super) fn written_anew(&mut self) {
        self.unreadable.clear();
    }

    pub(super) fn on_sync(&mut self) -> SyncOutcome {
        if self.good_syncs > 0 {
            self.good_syncs -= 1;
            return SyncOutcome::Saves;
        }
        if self.failing_syncs > 0 {
            self.failing_syncs -= 1;
            self.fail("disk: sync failed");
            return SyncOutcome::Fails;
        }
        if self.chance(self.faults.lying_syncs_permille) {
            self.fire("disk: sync lied");
            let kept_permille = if self.random.chance(500) { 0 } else { 700 };
            return SyncOutcome::Lies { kept_permille };
        }
        SyncOutcome::Saves
    }

    /// Whether a page is among those that a lying sync saves.
    pub(super) fn keeps_page(&mut self, kept_permille: u64) -> bool {
        self.chance(kept_permille)
    }
}

impl DiskState {
    fn look_at(&mut self, session: u64, inode: InodeNumber, pages: RangeInclusive<u64>) {
        if self.alive(session).is_err() {
            return;
        }
        let Some(page) = self.faults.unreadable_under_mapping(inode, pages) else { return };
        // A file without a name is read by nobody after this process.
        self.unreadable = self.names.path_of(inode).map(|path| {
            let offset = page * PAGE_SIZE as u64;
            UnreadableBytes { path: path.to_owned(), offset }
        });
        self.fuse_blown = true;
    }

    fn inode_of(&self, path: &str) -> Option<InodeNumber> {
        match self.names.get(path) {
            Some(NameTarget::File(inode)) => Some(inode),
            _ => None,
        }
    }
}

/// What the file held when it was mapped; whoever maps promises not to change it.
pub(super) struct SimMapping {
    pub(super) state: Arc<Mutex<DiskState>>,
    pub(super) session: u64,
    pub(super) inode: InodeNumber,
    pub(super) bytes: Vec<u8>,
}

impl fmt::Debug for SimMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimMapping").field("size", &self.bytes.len()).finish()
    }
}

impl Mapping for SimMapping {
    /// Where a page cannot be read, the process is as good as dead: its disk takes nothing more,
    /// and its world drops what it does in the rest of its turn, with the bytes as they were.
    fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let bytes = self.bytes.get(range.clone())?;
        if let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let pages = page_of(range.start as u64)..=page_of(last as u64);
            state.look_at(self.session, self.inode, pages);
        }
        Some(bytes)
    }
}

impl SimDisk {
    /// From now on the disk does this wrong; what is random in it comes out of `seed`.
    pub fn set_faults(&self, faults: DiskFaults, seed: u64) {
        let mut state = self.state();
        state.faults.faults = faults;
        state.faults.random = Random::new(seed);
    }

    /// Whether some of its reads fail.
    #[must_use]
    pub fn fails_reads(&self) -> bool {
        self.state().faults.faults.read_errors_permille > 0
    }

    /// Whether the device has failed the process that runs, which may have given it up.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state().faults.has_failed
    }

    /// The next `count` syncs fail, and what they were to save is never saved.
    pub fn fail_syncs(&self, count: u64) {
        self.fail_syncs_after(0, count);
    }

    /// For want of descriptors, so many files cannot be opened, after the next `good` ones.
    pub fn fail_opens_after(&self, good: u64, count: u64) {
        let faults = &mut self.state().faults;
        (faults.good_opens, faults.failing_opens) = (good, count);
    }

    /// The same for the `count` syncs after the next `good` ones.
    pub fn fail_syncs_after(&self, good: u64, count: u64) {
        let faults = &mut self.state().faults;
        (faults.good_syncs, faults.failing_syncs) = (good, count);
    }

    /// From now on a power failure may save a page in parts, sector by sector.
    pub fn tear_pages(&self) {
        self.state().faults.tears_pages = true;
    }

    /// What has bitten since this was asked last, and how often.
    pub fn take_fired(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.state().faults.fired)
    }

    /// The disk goes away and comes back while the machine goes on (a storage outage): each
    /// unsynced page and name is kept or lost at random, whoever had it open is dead, and it is
    /// the same boot, and another mount.
    pub fn outage(&self, random: &mut Random) {
        let mut state = self.state();
        state.lose_unsynced(random);
        state.mount += 1;
        state.begin_session();
    }

    /// Whether it was pulled out.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.state().absent
    }

    /// Whether somebody holds a lock on it.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        !self.state().locks.is_empty()
    }

    /// Empties it while nobody runs on it.
    pub fn wipe(&self) {
        self.pull_out();
        self.put_in();
        self.crash();
    }

    /// A file's name is gone, durably, and its bytes with it.
    pub fn lose_file(&self, path: &str) {
        let mut state = self.state();
        if let Some(NameTarget::File(number)) = state.names.get(path) {
            state.names.lose(path);
            state.unlink(number);
        }
    }

    /// The page at an offset of a file cannot be read any more, until it is written again; says
    /// whether there is such a page.
    pub fn make_unreadable(&self, path: &str, offset: u64) -> bool {
        let mut state = self.state();
        let Some(number) = state.inode_of(path) else { return false };
        let there = state.files.get(number).is_some_and(|inode| offset < inode.size());
        if there {
            state.faults.unreadable.insert((number, page_of(offset)));
        }
        there
    }

    /// All of it can be read again.
    pub fn make_readable(&self) {
        self.state().faults.written_anew();
    }

    /// What was last written to a page of one file lies in a page of another one, and the first
    /// one's is what it was before anything was written; says whether there are such pages.
    pub fn misdirect(&self, (from, page): (&str, u64), (to, victim): (&str, u64)) -> bool {
        let mut state = self.state();
        let (Some(from), Some(to)) = (state.inode_of(from), state.inode_of(to)) else {
            return false;
        };
        let Some(content) = state.files.get(from).and_then(|inode| inode.page(page)) else {
            return false;
        };
        let Some(victim_file) = state.files.get(to) else { return false };
        if victim_file.page(victim).is_none() || (from, page) == (to, victim) {
            return false;
        }
        state.files.change(to, |inode| inode.replace_page(victim, Some(content)));
        state.files.change(from, |inode| inode.replace_page(page, None));
        true
    }
}
