//! Files of pages: which one, its bytes, and where a page lies in it.
//!
//! - S1: a file only grows while trees use it; bytes that a root record reaches never change.
//! - S2: a [`FileId`] is never used again in a process, so a page's place in a file that was given
//!   up is never taken for one in the file after it.

use crate::damaged::{Damage, Damaged};
use cairn_types::{Crc32c, crc32c};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes of a file of pages, such as a mapped file.
pub trait Backing: Send + Sync {
    /// Some of them, counted from the file's first byte; the same bytes at each call. None where
    /// the file ends before they do.
    fn bytes(&self, range: Range<usize>) -> Option<&[u8]>;
}

impl Backing for Vec<u8> {
    fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.get(range)
    }
}

/// Names a file of pages within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(u32);

/// The first number that does not fit beside an offset in one word (`node::Leaf`).
pub(crate) const FILE_ID_END: u32 = 1 << 24;
static NEXT_FILE_ID: AtomicU32 = AtomicU32::new(1);

impl FileId {
    /// A name that no file of this process had (S2).
    ///
    /// # Panics
    /// At the sixteen-millionth file of a process.
    #[must_use]
    pub fn fresh() -> Self {
        let id = NEXT_FILE_ID.fetch_add(1, Ordering::Relaxed);
        assert!(id < FILE_ID_END, "a process opens few checkpoint files");
        Self(id)
    }

    /// As a number, never zero.
    pub(crate) fn get(self) -> u32 {
        self.0
    }
}

/// Where a page lies in a file, and the checksum of its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PagePlace {
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) checksum: Crc32c,
}

impl PagePlace {
    /// That what lies there is not what was written.
    pub(crate) fn damaged(&self, damage: Damage) -> Damaged {
        Damaged { offset: self.offset, size: self.size, damage }
    }
}

/// Where a tree's lowest page below which all is stored lies, and how many bytes that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubtreePlace {
    pub(crate) place: PagePlace,
    /// Bytes of the page and of all pages below it.
    pub(crate) subtree_size: u64,
}

/// The file that a tree was opened from.
pub(crate) struct PageSource {
    backing: Arc<dyn Backing>,
    pub(crate) file: FileId,
    moved: Mutex<MovedPages>,
}

/// Where the source's pages have been copied to, by their offset in the source.
#[derive(Debug, Default)]
struct MovedPages {
    file: Option<FileId>,
    places: BTreeMap<u64, SubtreePlace>,
}

impl fmt::Debug for PageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageSource").field("file", &self.file).finish_non_exhaustive()
    }
}

impl PageSource {
    /// A file and its bytes.
    pub(crate) fn new(backing: Arc<dyn Backing>, file: FileId) -> Self {
        Self { backing, file, moved: Mutex::default() }
    }

    /// The bytes of a page, unverified.
    pub(crate) fn page(&self, place: &PagePlace) -> Result<&[u8], Damaged> {
        let start = usize::try_from(place.offset).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(place.size as usize)?));
        range.and_then(|range| self.backing.bytes(range)).ok_or(place.damaged(Damage::Outside))
    }

    /// The bytes of a page, which are those that were written.
    pub(crate) fn verified_page(&self, place: &PagePlace) -> Result<&[u8], Damaged> {
        let bytes = self.page(place)?;
        if crc32c(bytes) != place.checksum {
            return Err(place.damaged(Damage::Checksum));
        }
        Ok(bytes)
    }

    /// Where the page at `offset` was copied to in `file`.
    pub(crate) fn moved(&self, file: FileId, offset: u64) -> Option<SubtreePlace> {
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        if moved.file == Some(file) { moved.places.get(&offset).copied() } else { None }
    }

    /// Remembers where the page at `offset` was copied to in `file`.
    pub(crate) fn remember_moved(&self, file: FileId, offset: u64, place: SubtreePlace) {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        if moved.file != Some(file) {
            *moved = MovedPages { file: Some(file), places: BTreeMap::new() };
        }
        moved.places.insert(offset, place);
    }
}
