//! One simulated file: what the page cache says, what is durable, and what is between.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Which file it is, whatever its names.
pub(super) type InodeNumber = u64;

/// Bytes that are written, kept or lost together.
pub(super) const PAGE_SIZE: usize = 4096;
/// Bytes that a disk writes at once: a page that is being written may be torn between two.
const SECTOR_SIZE: usize = 512;
/// Unsynced changes of a file after which the oldest are written back, as a kernel does.
const UNSYNCED_MAX: usize = 256;

pub(super) type CachedPage = Arc<[u8; PAGE_SIZE]>;

#[derive(Clone, Debug, Default)]
struct FileContents {
    size: u64,
    /// Pages that were written; the others are zeros.
    pages: BTreeMap<u64, CachedPage>,
}

#[derive(Clone, Debug)]
enum FileChange {
    Page { number: u64, content: CachedPage, end: u64 },
    Size(u64),
}

/// What becomes of an unsynced change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Whole,
    /// Of a page, the sectors whose bit is set.
    Sectors(u8),
    Nothing,
}

impl Kept {
    pub(super) fn whole(kept: bool) -> Self {
        if kept { Self::Whole } else { Self::Nothing }
    }
}

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    cached: FileContents,
    durable: FileContents,
    unsynced: Vec<FileChange>,
    reserved_pages: u64,
    /// No name leads here any more.
    pub(super) unlinked: bool,
}

/// The parts of a write of `size` bytes at `offset` that lie in one page each: start and size.
pub(super) fn page_parts(offset: u64, size: usize) -> impl Iterator<Item = (usize, usize)> {
    let lead = within_page(offset);
    let mut start = 0;
    std::iter::from_fn(move || {
        let part = (PAGE_SIZE - (lead + start) % PAGE_SIZE).min(size - start);
        start += part;
        (part > 0).then_some((start - part, part))
    })
}

fn within_page(offset: u64) -> usize {
    usize::try_from(offset % PAGE_SIZE as u64).expect("less than a page")
}

pub(super) fn page_of(offset: u64) -> u64 {
    offset / PAGE_SIZE as u64
}

impl FileContents {
    fn apply(&mut self, change: &FileChange) {
        match change {
            FileChange::Page { number, content, end } => {
                self.pages.insert(*number, Arc::clone(content));
                self.size = self.size.max(*end);
            }
            FileChange::Size(size) => self.set_size(*size),
        }
    }

    /// Takes over some sectors of a page; a file that grows by it grows as far as they go.
    fn apply_sectors(&mut self, (number, content): (u64, &CachedPage), end: u64, sectors: u8) {
        let page = self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE_SIZE]));
        let page = Arc::make_mut(page);
        for sector in (0..PAGE_SIZE / SECTOR_SIZE).filter(|sector| sectors >> sector & 1 == 1) {
            let bytes = sector * SECTOR_SIZE..(sector + 1) * SECTOR_SIZE;
            page[bytes.clone()].copy_from_slice(&content[bytes]);
            let reached = number * PAGE_SIZE as u64 + ((sector + 1) * SECTOR_SIZE) as u64;
            self.size = self.size.max(end.min(reached));
        }
    }

    fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.pages.split_off(&size.div_ceil(PAGE_SIZE as u64));
            if let Some(last) = self.pages.get_mut(&page_of(size)) {
                Arc::make_mut(last)[within_page(size)..].fill(0);
            }
        }
        self.size = size;
    }
}

impl Inode {
    pub(super) fn size(&self) -> u64 {
        self.cached.size
    }

    /// Pages that it takes on the disk.
    pub(super) fn footprint(&self) -> u64 {
        self.reserved_pages.max(self.cached.pages.len() as u64)
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let left = self.cached.size.saturating_sub(offset);
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        for (at, part) in page_parts(offset, size) {
            let place = offset + at as u64;
            let target = &mut buffer[at..at + part];
            match self.cached.pages.get(&page_of(place)) {
                Some(page) => {
                    let start = within_page(place);
                    target.copy_from_slice(&page[start..start + part]);
                }
                None => target.fill(0),
            }
        }
        size
    }

    /// Whether a write at `offset` takes another page of the disk.
    pub(super) fn grows_at(&self, offset: u64) -> bool {
        let number = page_of(offset);
        number >= self.reserved_pages && !self.cached.pages.contains_key(&number)
    }

    /// Writes bytes that lie in one page.
    pub(super) fn write_in_page(&mut self, bytes: &[u8], offset: u64) {
        let (number, start) = (page_of(offset), within_page(offset));
        let page = self.cached.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE_SIZE]));
        Arc::make_mut(page)[start..start + bytes.len()].copy_from_slice(bytes);
        let content = Arc::clone(page);
        let end = offset + bytes.len() as u64;
        self.cached.size = self.cached.size.max(end);
        self.note(FileChange::Page { number, content, end });
    }

    pub(super) fn set_size(&mut self, size: u64) {
        self.cached.set_size(size);
        self.reserved_pages = self.reserved_pages.min(size.div_ceil(PAGE_SIZE as u64));
        self.note(FileChange::Size(size));
    }

    pub(super) fn missing_pages(&self, size: u64) -> u64 {
        size.div_ceil(PAGE_SIZE as u64).saturating_sub(self.footprint())
    }

    pub(super) fn allocate(&mut self, size: u64) {
        self.reserved_pages = self.reserved_pages.max(size.div_ceil(PAGE_SIZE as u64));
        if size > self.cached.size {
            self.cached.size = size;
            self.note(FileChange::Size(size));
        }
    }

    fn note(&mut self, change: FileChange) {
        self.unsynced.push(change);
        if self.unsynced.len() > UNSYNCED_MAX {
            for old in self.unsynced.drain(..UNSYNCED_MAX / 2) {
                self.durable.apply(&old);
            }
        }
    }

    /// Makes each change durable that `saved` says, and forgets of the others that they are not.
    pub(super) fn sync(&mut self, saved: &mut dyn FnMut() -> bool) {
        for change in self.unsynced.drain(..) {
            if saved() {
                self.durable.apply(&change);
            }
        }
    }

    /// Whatever is in the page cache is on the disk, also what a sync that failed or lied dropped.
    pub(super) fn write_back(&mut self) {
        self.unsynced.clear();
        self.durable = self.cached.clone();
    }

    /// Keeps of each unsynced change what `kept` says; the page cache is empty afterwards.
    pub(super) fn lose_unsynced(&mut self, kept: &mut dyn FnMut() -> Kept) {
        for change in self.unsynced.drain(..) {
            match (kept(), &change) {
                (Kept::Nothing, _) => {}
                (Kept::Sectors(sectors), FileChange::Page { number, content, end }) => {
                    self.durable.apply_sectors((*number, content), *end, sectors);
                }
                (Kept::Whole | Kept::Sectors(_), _) => self.durable.apply(&change),
            }
        }
        self.cached = self.durable.clone();
    }

    /// The pages that were written.
    pub(super) fn pages(&self) -> Vec<(u64, CachedPage)> {
        self.cached.pages.iter().map(|(number, page)| (*number, Arc::clone(page))).collect()
    }

    /// What a page holds, if it was ever written.
    pub(super) fn page(&self, number: u64) -> Option<CachedPage> {
        self.cached.pages.get(&number).cloned()
    }

    /// Puts another page in the place of one, in the cache and on the disk; none: never written.
    pub(super) fn replace_page(&mut self, number: u64, content: Option<CachedPage>) {
        for contents in [&mut self.cached, &mut self.durable] {
            match &content {
                Some(page) => drop(contents.pages.insert(number, Arc::clone(page))),
                None => drop(contents.pages.remove(&number)),
            }
        }
    }

    pub(super) fn flip(&mut self, offset: u64) -> bool {
        if offset >= self.cached.size {
            return false;
        }
        for contents in [&mut self.cached, &mut self.durable] {
            if let Some(page) = contents.pages.get_mut(&page_of(offset)) {
                Arc::make_mut(page)[within_page(offset)] ^= 0xff;
            }
        }
        true
    }
}
