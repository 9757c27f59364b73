//! The tree: an ordered map whose clones are snapshots.
//!
//! ```text
//!   Tree ──► root (InnerPage, level n) ──► … ──► InnerPage, level 1 ──► leaves
//!     └────► source: the file that stored pages are read from
//! ```
//! - T1: a clone costs two counters and sees what the tree was; changes to either are not seen by
//!   the other (N2).
//! - T2: an operation that answers an error has changed nothing.
//! - T3: a result is right or an error, whatever the source's bytes were when first touched.

use crate::damaged::{Damage, Damaged};
use crate::inner_page;
use crate::limits::{KEY_SIZE_MAX, VALUE_SIZE_MAX};
use crate::node::{ChildPage, InnerPage, OpenedPage};
use crate::range::TreeRange;
use crate::root_record::RootRecord;
use crate::run;
use crate::source::{Backing, FileId, PagePlace, PageSource, SubtreePlace};
use std::sync::Arc;

/// An ordered map from byte strings to byte strings.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(crate) root: Arc<InnerPage>,
    pub(crate) source: Option<Arc<PageSource>>,
    pub(crate) count: u64,
    /// The checksum of the key inserted last: tells a run of ascending inserts from others.
    pub(crate) last_inserted: u32,
}

/// Why a change was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// A page on the way is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// Longer than [`KEY_SIZE_MAX`].
    #[error("a key of {0} bytes; at most {KEY_SIZE_MAX}")]
    KeySize(usize),
    /// Longer than [`VALUE_SIZE_MAX`].
    #[error("a value of {0} bytes; at most {VALUE_SIZE_MAX}")]
    ValueSize(usize),
}

/// What a tree is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// Leaves in memory.
    pub leaf_pages: u64,
    /// Bytes of their runs.
    pub leaf_bytes: u64,
    /// Inner pages in memory, those decoded from the source included.
    pub inner_pages: u64,
    /// Bytes of their separators and children's slots.
    pub inner_bytes: u64,
    /// Pages that are in the source alone, as far as inner pages in memory tell.
    pub stored_pages: u64,
    /// Bytes of these; of an inner page, with all below it.
    pub stored_bytes: u64,
}

impl TreeUsage {
    /// Bytes of memory that pages take, with what the allocator and counters add to each.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        /// Counters, place, vector, and what the allocator adds to two blocks.
        const LEAF_OVERHEAD: u64 = 64 + 16;
        /// The same for four blocks.
        const INNER_OVERHEAD: u64 = 184 + 32;
        self.leaf_bytes
            + self.leaf_pages * LEAF_OVERHEAD
            + self.inner_bytes
            + self.inner_pages * INNER_OVERHEAD
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

impl Tree {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self { root: Arc::new(InnerPage::empty()), source: None, count: 0, last_inserted: 0 }
    }

    /// The tree that `record` is the root of, in a file's bytes. Only the root is looked at: each
    /// other page is when first touched.
    ///
    /// `file` is to name the file in later checkpoints into it; a fresh id does, where there will
    /// be none.
    ///
    /// # Errors
    /// When the root is not what was written.
    pub fn open(
        backing: Arc<dyn Backing>,
        file: FileId,
        record: &RootRecord,
    ) -> Result<Self, Damaged> {
        let source = PageSource::new(backing, file);
        let place =
            PagePlace { offset: record.offset, size: record.size, checksum: record.page_checksum };
        let place = SubtreePlace { place, subtree_size: record.live_bytes };
        let root = inner_page::decode(&source, &place, record.level)?;
        let empty = root.children.is_empty();
        if empty != (record.count == 0) || (empty && record.level > 1) {
            return Err(place.place.damaged(Damage::Malformed));
        }
        Ok(Self {
            root: Arc::new(root),
            source: Some(Arc::new(source)),
            count: record.count,
            last_inserted: 0,
        })
    }

    /// How many entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// When a page on the way is not what was written.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, Damaged> {
        let Some((child, bytes)) = self.leaf_of(key)? else { return Ok(None) };
        run::find(bytes, key).ok_or_else(|| child.changed_leaf())
    }

    /// The leaf that has `key`, if any has, and its run; nothing in an empty tree.
    pub(crate) fn leaf_of(&self, key: &[u8]) -> Result<Option<(&ChildPage, &[u8])>, Damaged> {
        if self.root.children.is_empty() {
            return Ok(None);
        }
        let mut inner: &InnerPage = &self.root;
        loop {
            let child = &inner.children[inner.index_of(key)];
            match child.open(inner.level, self.source.as_deref())? {
                OpenedPage::Inner(below) => inner = below,
                OpenedPage::Leaf(bytes) => return Ok(Some((child, bytes))),
            }
        }
    }

    /// Whether there is an entry for `key`.
    ///
    /// # Errors
    /// When a page on the way is not what was written.
    pub fn contains(&self, key: &[u8]) -> Result<bool, Damaged> {
        Ok(self.get(key)?.is_some())
    }

    /// The entries from `from` on, in order.
    #[must_use]
    pub fn range(&self, from: &[u8]) -> TreeRange<'_> {
        TreeRange::new(self, from)
    }

    /// What the tree is made of, pages shared with snapshots included. Walks all inner pages that
    /// are in memory.
    #[must_use]
    pub fn usage(&self) -> TreeUsage {
        let mut usage = TreeUsage::default();
        add_usage(&self.root, &mut usage);
        usage
    }
}

fn add_usage(inner: &InnerPage, usage: &mut TreeUsage) {
    usage.inner_pages += 1;
    let slots = inner.children.capacity() * size_of::<ChildPage>();
    usage.inner_bytes += (inner.separators.memory_size() + slots) as u64;
    for child in &inner.children {
        match child {
            ChildPage::Leaf(leaf) => {
                usage.leaf_pages += 1;
                usage.leaf_bytes += leaf.run.capacity() as u64;
            }
            ChildPage::Inner(inner) => add_usage(inner, usage),
            ChildPage::StoredLeaf { size, .. } => {
                usage.stored_pages += 1;
                usage.stored_bytes += u64::from(*size);
            }
            ChildPage::StoredInner(stored) => match stored.touched.get() {
                Some(inner) => add_usage(inner, usage),
                None => {
                    usage.stored_pages += 1;
                    usage.stored_bytes += stored.place.subtree_size;
                }
            },
        }
    }
}
