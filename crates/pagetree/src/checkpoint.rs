//! Writing a tree out: the pages that a file does not have yet, children before parents.
//!
//! ```text
//!   file:   … pages of earlier checkpoints … │ leaf │ leaf │ inner │ leaf │ inner │ root │
//!                     └────────── still referred to ──────────────────┘
//! ```
//! - C1: a page is in the file before any page that refers to it, and the root record is the
//!   caller's to store last: a checkpoint cut short changes nothing.
//! - C2: what a page says of its children (place, checksum) is of bytes that the sink took.
//! - C3: only one checkpoint at a time has pages in common with another (the caller's part). A
//!   writer and readers may go on meanwhile: they never look at a page's place.
//! - C4: after a sink's error the file is given up: pages may be noted as in it that are not. The
//!   next checkpoint takes a fresh file, with a fresh [`FileId`].

use crate::damaged::{Damage, Damaged};
use crate::inner_page;
use crate::node::{ChildPage, InnerPage, LeafPage, StoredInner, expect_source};
use crate::root_record::RootRecord;
use crate::source::{FileId, PagePlace, PageSource, SubtreePlace};
use crate::tree::Tree;
use cairn_types::crc32c;

/// Takes pages at the end of a file.
pub trait PageSink {
    /// Why it could not.
    type Error;

    /// Appends a page and answers its offset, counted as the file's [`crate::Backing`] will.
    ///
    /// # Errors
    /// When the page cannot be taken.
    fn append(&mut self, page: &[u8]) -> Result<u64, Self::Error>;
}

impl PageSink for Vec<u8> {
    type Error = std::convert::Infallible;

    fn append(&mut self, page: &[u8]) -> Result<u64, Self::Error> {
        let offset = self.len() as u64;
        self.extend_from_slice(page);
        Ok(offset)
    }
}

/// Why a checkpoint was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError<E> {
    /// A page that had to be copied is not what was written.
    #[error(transparent)]
    Damaged(Damaged),
    /// The sink's error; give the file up (C4).
    #[error("could not write a page")]
    Sink(E),
}

/// A checkpoint that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeCheckpoint {
    /// To be stored once the file is durable.
    pub record: RootRecord,
    /// Pages that the file did not have.
    pub pages_written: u64,
    /// Their bytes.
    pub bytes_written: u64,
}

/// Writes those of the tree's pages that `file` does not have to `sink`, which appends to it.
///
/// `tree` is best a clone of its own, so that changes to the live tree go on meanwhile, in
/// another thread. With a file's id fresh, all pages are written: see [`rewrite`].
///
/// # Errors
/// When the sink fails, or a page that must be copied from the source is damaged.
pub fn checkpoint<S: PageSink>(
    tree: &Tree,
    file: FileId,
    sink: &mut S,
    generation: u64,
    metadata: &[u8],
) -> Result<TreeCheckpoint, CheckpointError<S::Error>> {
    let source = tree.source.as_deref();
    let mut writer = CheckpointWriter { source, file, sink, pages_written: 0, bytes_written: 0 };
    let root = writer.inner(&tree.root)?;
    let record = RootRecord {
        offset: root.place.offset,
        size: root.place.size,
        page_checksum: root.place.checksum,
        level: tree.root.level,
        count: tree.count,
        generation,
        live_bytes: root.subtree_size,
        metadata: metadata.to_vec(),
    };
    let CheckpointWriter { pages_written, bytes_written, .. } = writer;
    Ok(TreeCheckpoint { record, pages_written, bytes_written })
}

/// Writes all of the tree's pages to a fresh file, which later checkpoints may go on with.
///
/// It pays once a file's size is a multiple of the live bytes of the trees in it.
///
/// # Errors
/// As [`checkpoint`].
pub fn rewrite<S: PageSink>(
    tree: &Tree,
    sink: &mut S,
    generation: u64,
    metadata: &[u8],
) -> Result<(FileId, TreeCheckpoint), CheckpointError<S::Error>> {
    let file = FileId::fresh();
    Ok((file, checkpoint(tree, file, sink, generation, metadata)?))
}

/// A checkpoint on its way.
struct CheckpointWriter<'a, S> {
    source: Option<&'a PageSource>,
    file: FileId,
    sink: &'a mut S,
    pages_written: u64,
    bytes_written: u64,
}

impl<S: PageSink> CheckpointWriter<'_, S> {
    fn inner(&mut self, inner: &InnerPage) -> Result<SubtreePlace, CheckpointError<S::Error>> {
        if let Some(place) = inner.place_in(self.file) {
            return Ok(place);
        }
        let mut children = Vec::with_capacity(inner.children.len());
        for child in &inner.children {
            children.push(self.child(child, inner.level)?);
        }
        let (page, subtree_size) = inner_page::encode(inner, &children);
        let place = SubtreePlace { place: self.append(&page)?, subtree_size };
        inner.set_place(self.file, place);
        Ok(place)
    }

    fn child(
        &mut self,
        child: &ChildPage,
        level: u8,
    ) -> Result<SubtreePlace, CheckpointError<S::Error>> {
        match child {
            ChildPage::Leaf(leaf) => self.leaf(leaf).map(of_leaf),
            ChildPage::Inner(inner) => self.inner(inner),
            ChildPage::StoredLeaf { offset, size, checksum, .. } => {
                self.stored_leaf(PagePlace { offset: *offset, size: *size, checksum: *checksum })
            }
            ChildPage::StoredInner(stored) => self.stored_inner(stored, level - 1),
        }
    }

    fn leaf(&mut self, leaf: &LeafPage) -> Result<PagePlace, CheckpointError<S::Error>> {
        if let Some(place) = leaf.place_in(self.file) {
            return Ok(place);
        }
        let place = self.append(&leaf.run)?;
        leaf.set_place(self.file, place.offset, place.checksum);
        Ok(place)
    }

    /// Copies a leaf from another file, unless that has been done.
    fn stored_leaf(&mut self, place: PagePlace) -> Result<SubtreePlace, CheckpointError<S::Error>> {
        let source = expect_source(self.source);
        if source.file == self.file {
            return Ok(of_leaf(place));
        }
        if let Some(moved) = source.moved(self.file, place.offset) {
            return Ok(moved);
        }
        let page = source.verified_page(&place).map_err(CheckpointError::Damaged)?;
        let moved = of_leaf(self.append(page)?);
        source.remember_moved(self.file, place.offset, moved);
        Ok(moved)
    }

    /// Copies an inner page, and what is below it, from another file, unless that has been done.
    fn stored_inner(
        &mut self,
        stored: &StoredInner,
        level: u8,
    ) -> Result<SubtreePlace, CheckpointError<S::Error>> {
        let source = expect_source(self.source);
        if source.file == self.file {
            return Ok(stored.place);
        }
        if let Some(moved) = source.moved(self.file, stored.place.place.offset) {
            return Ok(moved);
        }
        let moved = match stored.touched.get() {
            Some(inner) => self.inner(inner)?,
            None => {
                // Not kept: a rewrite should not bring all inner pages into memory.
                let inner = inner_page::decode(source, &stored.place, level);
                let inner = inner.map_err(CheckpointError::Damaged)?;
                if inner.children.is_empty() {
                    let damaged = stored.place.place.damaged(Damage::Malformed);
                    return Err(CheckpointError::Damaged(damaged));
                }
                self.inner(&inner)?
            }
        };
        source.remember_moved(self.file, stored.place.place.offset, moved);
        Ok(moved)
    }

    fn append(&mut self, page: &[u8]) -> Result<PagePlace, CheckpointError<S::Error>> {
        let offset = self.sink.append(page).map_err(CheckpointError::Sink)?;
        self.pages_written += 1;
        self.bytes_written += page.len() as u64;
        let size = u32::try_from(page.len()).expect("a page is far below 4 GiB");
        Ok(PagePlace { offset, size, checksum: crc32c(page) })
    }
}

/// A leaf's subtree is itself.
fn of_leaf(place: PagePlace) -> SubtreePlace {
    SubtreePlace { place, subtree_size: u64::from(place.size) }
}
