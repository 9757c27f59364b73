//! Giving memory back after a checkpoint: pages that the file has are read from it from now on.
//!
//! ```text
//!   before   root ──► inner ──► leaf in memory           after   root ──► stored, in `file`
//!              └────► inner, changed since ──► leaf                └────► inner ──► stored
//!                                    └───────► leaf, changed               └──────► leaf
//! ```
//! After a rewrite this is also how a tree lets go of the file that it was opened from.

use crate::node::{ChildPage, InnerPage};
use crate::source::{Backing, FileId, PageSource};
use crate::tree::Tree;
use std::sync::Arc;

/// A stored page of the tree is not in the file: the last rewrite was not into that one, or not
/// of this tree or a snapshot of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tree has pages of another file")]
pub struct NotInFile;

impl Tree {
    /// Reads from `file`, which has these bytes now, whatever it has of this tree, and lets go of
    /// the memory and of the file used so far. Changes since the last checkpoint stay in memory.
    ///
    /// Each page is verified again when first touched, so a page that the file lost is noticed.
    ///
    /// # Errors
    /// When a page is neither in memory nor in `file`; the tree is as it was then.
    pub fn adopt(&mut self, backing: Arc<dyn Backing>, file: FileId) -> Result<(), NotInFile> {
        let root = adopted_page(&self.root, self.source.as_deref(), file)?;
        self.root = Arc::new(root);
        self.source = Some(Arc::new(PageSource::new(backing, file)));
        Ok(())
    }
}

/// A page whose children are stored where the file has them.
fn adopted_page(
    inner: &InnerPage,
    old: Option<&PageSource>,
    file: FileId,
) -> Result<InnerPage, NotInFile> {
    let children = inner.children.iter().map(|child| adopted(child, old, file));
    let children = children.collect::<Result<Vec<_>, _>>()?;
    let page = inner.with_children(children);
    if let Some(place) = inner.place_in(file) {
        page.set_place(file, place);
    }
    Ok(page)
}

fn adopted(
    child: &ChildPage,
    old: Option<&PageSource>,
    file: FileId,
) -> Result<ChildPage, NotInFile> {
    let same_file = old.is_some_and(|old| old.file == file);
    let moved = |offset| old.and_then(|old| old.moved(file, offset)).ok_or(NotInFile);
    match child {
        ChildPage::Leaf(leaf) => {
            Ok(leaf.place_in(file).map_or(child.clone(), ChildPage::stored_leaf))
        }
        ChildPage::Inner(inner) => match inner.place_in(file) {
            Some(place) => Ok(ChildPage::stored_inner(place)),
            None => Ok(ChildPage::Inner(Arc::new(adopted_page(inner, old, file)?))),
        },
        ChildPage::StoredLeaf { .. } if same_file => Ok(child.clone()),
        ChildPage::StoredLeaf { offset, .. } => Ok(ChildPage::stored_leaf(moved(*offset)?.place)),
        ChildPage::StoredInner(stored) if same_file => Ok(ChildPage::stored_inner(stored.place)),
        ChildPage::StoredInner(stored) => {
            Ok(ChildPage::stored_inner(moved(stored.place.place.offset)?))
        }
    }
}
