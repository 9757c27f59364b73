//! The tree's pages in memory: leaves are runs, inner pages are separators and children.
//!
//! ```text
//!   InnerPage { separators: run of s1 … sn │ children: c0, c1 … cn │ place }
//!                                          │
//!            ┌───────────────┬─────────────┴─┬─────────────────┐
//!         Leaf (Arc)    Inner (Arc)     StoredLeaf         StoredInner
//!         run, place                    place, verified?   place, decoded when first touched
//! ```
//! - N1: every key below child `i` is below separator `i + 1` and not below separator `i`.
//! - N2: pages are shared by snapshots. Only one that nobody else holds is changed in place; a
//!   shared one is copied first (`Arc::make_mut`).
//! - N3: a page that has a place in a file is, byte for byte, what lies there; to change a page is
//!   to forget its place.
//! - N4: level 1 has leaves below it, level `n` inner pages of level `n − 1`.
//! - N5: what is copied out of a stored page is verified then, however often it was before: what
//!   rots after it was first read would get a fresh checksum, and look good for ever.
//!
//! Readers never look at a page's place in a file; a checkpoint sets it while they read.

use crate::damaged::{Damage, Damaged};
use crate::entries::EntryList;
use crate::inner_page;
use crate::separators::Separators;
use crate::source::{FILE_ID_END, FileId, PagePlace, PageSource, SubtreePlace};
use cairn_types::Crc32c;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bits of an offset in a file; the file's id stands in the bits above.
const OFFSET_BITS: u32 = 40;
const _: () = assert!(FILE_ID_END as u64 == 1 << (u64::BITS - OFFSET_BITS));

/// A leaf in memory.
#[derive(Debug)]
pub(crate) struct LeafPage {
    /// Its entries.
    pub(crate) run: Vec<u8>,
    /// File and offset in one word, so that no one sees one of them without the other; or zero.
    place: AtomicU64,
    /// Of `run`; meaningful where `place` is set. It follows from the bytes alone, so it is the
    /// same in every file.
    checksum: AtomicU32,
}

impl LeafPage {
    /// A leaf that no file has.
    pub(crate) fn new(run: Vec<u8>) -> Self {
        Self { run, place: AtomicU64::new(0), checksum: AtomicU32::new(0) }
    }

    /// Where `file` has it.
    pub(crate) fn place_in(&self, file: FileId) -> Option<PagePlace> {
        let word = self.place.load(Ordering::Acquire);
        let size = u32::try_from(self.run.len()).expect("a page is far below 4 GiB");
        (word >> OFFSET_BITS == u64::from(file.get())).then(|| PagePlace {
            offset: word & ((1 << OFFSET_BITS) - 1),
            size,
            checksum: self.checksum.load(Ordering::Relaxed),
        })
    }

    /// Notes where `file` has it.
    pub(crate) fn set_place(&self, file: FileId, offset: u64, checksum: Crc32c) {
        assert!(offset >> OFFSET_BITS == 0, "a file of pages is smaller than 1 TiB");
        self.checksum.store(checksum, Ordering::Relaxed);
        self.place.store(u64::from(file.get()) << OFFSET_BITS | offset, Ordering::Release);
    }

    /// Its run, to be changed (N3).
    fn run_mut(&mut self) -> &mut Vec<u8> {
        *self.place.get_mut() = 0;
        &mut self.run
    }
}

impl Clone for LeafPage {
    /// A copy is made to be changed: no file has it.
    fn clone(&self) -> Self {
        Self::new(self.run.clone())
    }
}

/// An inner page in memory.
#[derive(Debug)]
pub(crate) struct InnerPage {
    /// Levels above the leaves.
    pub(crate) level: u8,
    /// The keys that part the children.
    pub(crate) separators: Separators,
    /// One more than separators; none in an empty tree's root.
    pub(crate) children: Vec<ChildPage>,
    /// Taken by checkpoints alone.
    place: Mutex<Option<(FileId, SubtreePlace)>>,
}

/// What an inner page has below it.
#[derive(Debug)]
pub(crate) enum ChildPage {
    /// In memory.
    Leaf(Arc<LeafPage>),
    /// In memory.
    Inner(Arc<InnerPage>),
    /// In the tree's source.
    StoredLeaf { offset: u64, size: u32, checksum: Crc32c, verified: AtomicBool },
    /// In the tree's source.
    StoredInner(Box<StoredInner>),
}
const _: () = assert!(size_of::<ChildPage>() == 24);

/// An inner page in the tree's source.
#[derive(Clone, Debug)]
pub(crate) struct StoredInner {
    pub(crate) place: SubtreePlace,
    /// Itself, once touched.
    pub(crate) touched: OnceLock<Arc<InnerPage>>,
}

/// A child that can be read.
#[derive(Debug)]
pub(crate) enum OpenedPage<'a> {
    /// Its run.
    Leaf(&'a [u8]),
    /// Itself.
    Inner(&'a InnerPage),
}

impl Clone for ChildPage {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(leaf) => Self::Leaf(Arc::clone(leaf)),
            Self::Inner(inner) => Self::Inner(Arc::clone(inner)),
            Self::StoredInner(stored) => Self::StoredInner(stored.clone()),
            Self::StoredLeaf { offset, size, checksum, verified } => Self::StoredLeaf {
                offset: *offset,
                size: *size,
                checksum: *checksum,
                verified: AtomicBool::new(verified.load(Ordering::Relaxed)),
            },
        }
    }
}

impl ChildPage {
    /// A leaf in memory.
    pub(crate) fn leaf(run: Vec<u8>) -> Self {
        Self::Leaf(Arc::new(LeafPage::new(run)))
    }

    /// A leaf in the source.
    pub(crate) fn stored_leaf(place: PagePlace) -> Self {
        let PagePlace { offset, size, checksum } = place;
        Self::StoredLeaf { offset, size, checksum, verified: AtomicBool::new(false) }
    }

    /// An inner page in the source.
    pub(crate) fn stored_inner(place: SubtreePlace) -> Self {
        Self::StoredInner(Box::new(StoredInner { place, touched: OnceLock::new() }))
    }

    /// Makes it readable. `level` is that of the page which has it.
    pub(crate) fn open<'a>(
        &'a self,
        level: u8,
        source: Option<&'a PageSource>,
    ) -> Result<OpenedPage<'a>, Damaged> {
        match self {
            Self::Leaf(leaf) => Ok(OpenedPage::Leaf(&leaf.run)),
            Self::Inner(inner) => Ok(OpenedPage::Inner(inner)),
            Self::StoredLeaf { offset, size, checksum, verified } => {
                let place = PagePlace { offset: *offset, size: *size, checksum: *checksum };
                let source = expect_source(source);
                if verified.load(Ordering::Relaxed) {
                    return Ok(OpenedPage::Leaf(source.page(&place)?));
                }
                let run = inner_page::verified_leaf(source, &place)?;
                verified.store(true, Ordering::Relaxed);
                Ok(OpenedPage::Leaf(run))
            }
            Self::StoredInner(stored) => {
                Ok(OpenedPage::Inner(stored.open(level - 1, expect_source(source))?))
            }
        }
    }

    /// A leaf's run, to be copied (N5).
    pub(crate) fn leaf_to_copy<'a>(
        &'a self,
        source: Option<&'a PageSource>,
    ) -> Result<&'a [u8], Damaged> {
        let run = match self.open(1, source)? {
            OpenedPage::Leaf(run) => run,
            OpenedPage::Inner(_) => unreachable!("level 1 has leaves below it (N4)"),
        };
        match self {
            Self::StoredLeaf { offset, size, checksum, .. } => {
                let place = PagePlace { offset: *offset, size: *size, checksum: *checksum };
                expect_source(source).verified_page(&place)
            }
            _ => Ok(run),
        }
    }

    /// A leaf's run, to be changed.
    pub(crate) fn leaf_mut(
        &mut self,
        source: Option<&PageSource>,
    ) -> Result<&mut Vec<u8>, Damaged> {
        if matches!(self, Self::StoredLeaf { .. }) {
            *self = Self::leaf(self.leaf_to_copy(source)?.to_vec());
        }
        match self {
            Self::Leaf(leaf) => Ok(Arc::make_mut(leaf).run_mut()),
            _ => unreachable!("level 1 has leaves below it (N4)"),
        }
    }

    /// An inner page, to be changed. `level` is its own.
    pub(crate) fn inner_mut(
        &mut self,
        level: u8,
        source: Option<&PageSource>,
    ) -> Result<&mut InnerPage, Damaged> {
        if let Self::StoredInner(stored) = self {
            stored.open(level, expect_source(source))?;
            let touched = stored.touched.take().expect("opened above");
            *self = Self::Inner(touched);
        }
        match self {
            Self::Inner(inner) => Ok(InnerPage::make_mut(inner)),
            _ => unreachable!("levels above 1 have inner pages below them (N4)"),
        }
    }

    /// That a leaf which was verified turns out to be no run: its file changed under us (S1).
    pub(crate) fn changed_leaf(&self) -> Damaged {
        match self {
            Self::StoredLeaf { offset, size, .. } => {
                Damaged { offset: *offset, size: *size, damage: Damage::Malformed }
            }
            _ => unreachable!("a leaf in memory is a run of our own"),
        }
    }

    /// Bytes of a leaf's run.
    pub(crate) fn leaf_size(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.run.len(),
            Self::StoredLeaf { size, .. } => *size as usize,
            _ => unreachable!("level 1 has leaves below it (N4)"),
        }
    }
}

/// The tree's source, which a tree that has stored pages has.
pub(crate) fn expect_source(source: Option<&PageSource>) -> &PageSource {
    source.expect("a tree with stored pages keeps their source")
}

impl StoredInner {
    /// The page itself, decoded when first touched.
    pub(crate) fn open(&self, level: u8, source: &PageSource) -> Result<&InnerPage, Damaged> {
        if let Some(inner) = self.touched.get() {
            return Ok(inner);
        }
        let inner = inner_page::decode(source, &self.place, level)?;
        if inner.children.is_empty() {
            return Err(self.place.place.damaged(Damage::Malformed));
        }
        Ok(self.touched.get_or_init(|| Arc::new(inner)))
    }
}

impl Clone for InnerPage {
    /// A copy is made to be changed: no file has it.
    fn clone(&self) -> Self {
        self.with_children(self.children.clone())
    }
}

impl InnerPage {
    /// A page that no file has; its children are parted by a run of our own or one that was
    /// checked, each group full but the last.
    pub(crate) fn new(level: u8, separators: Vec<u8>, children: Vec<ChildPage>) -> Self {
        let separators = Separators::new(separators).expect("ours or checked");
        assert!(level > 0, "leaves are no inner pages (N4)");
        assert_eq!(separators.count(), children.len().saturating_sub(1), "N1");
        Self { level, separators, children, place: Mutex::new(None) }
    }

    /// A page that no file has, with other children parted by the same keys.
    pub(crate) fn with_children(&self, children: Vec<ChildPage>) -> Self {
        assert_eq!(children.len(), self.children.len(), "N1");
        let (level, separators) = (self.level, self.separators.clone());
        Self { level, separators, children, place: Mutex::new(None) }
    }

    /// An empty tree's root.
    pub(crate) fn empty() -> Self {
        Self::new(1, EntryList::default().to_run(), Vec::new())
    }

    /// A page, to be changed (N2, N3).
    pub(crate) fn make_mut(inner: &mut Arc<Self>) -> &mut Self {
        let inner = Arc::make_mut(inner);
        *inner.place.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        inner
    }

    /// Where `file` has it.
    pub(crate) fn place_in(&self, file: FileId) -> Option<SubtreePlace> {
        let place = *self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.and_then(|(of, place)| (of == file).then_some(place))
    }

    /// Notes where `file` has it.
    pub(crate) fn set_place(&self, file: FileId, place: SubtreePlace) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some((file, place));
    }

    /// The child below which `key` is or would be; for a page that has children.
    pub(crate) fn index_of(&self, key: &[u8]) -> usize {
        self.separators.rank(key).min(self.children.len() - 1)
    }

    /// The separators, taken out.
    pub(crate) fn separator_list(&self) -> EntryList {
        let mut entries = EntryList::default();
        entries.append_run(self.separators.run()).expect("ours or checked");
        entries
    }

    /// Puts other children, parted by `between`, in the place of those of `range`. The separator
    /// before the range stays; with no new children, one beside the range goes too.
    pub(crate) fn replace(
        &mut self,
        range: Range<usize>,
        children: Vec<ChildPage>,
        between: &EntryList,
    ) {
        if children.len() != 1 || range.len() != 1 {
            let mut separators = self.separator_list();
            let gone = if children.is_empty() {
                let start = range.start.saturating_sub(1);
                start..(start + range.len()).min(separators.count())
            } else {
                range.start..range.end - 1
            };
            separators.splice(gone, between);
            self.separators = Separators::new(separators.to_run()).expect("ours");
        }
        // Vectors that grow by doubling would leave half of each page's slots unused.
        self.children.reserve_exact(children.len().saturating_sub(range.len()));
        self.children.splice(range, children);
        assert_eq!(self.separators.count(), self.children.len().saturating_sub(1), "N1");
    }
}

/// The shortest key above `left` and not above `right`, which is above `left`.
pub(crate) fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    &right[..crate::parts::shared_front(left, right) + 1]
}
