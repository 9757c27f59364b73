//! Building a tree from entries that come in order: pages are filled once, from the left.

use crate::node::{Child, Inner, separator};
use crate::run_builder::RunBuilder;
use crate::tree::{CHILD_COUNT_MAX, EditError, KEY_SIZE_MAX, LEAF_SIZE_MAX, Tree, VALUE_SIZE_MAX};
use std::sync::Arc;

/// How far a leaf is filled: a few inserts go in before it must be split.
const LEAF_SIZE_FILLED: usize = LEAF_SIZE_MAX * 95 / 100;
/// How far an inner page is.
const CHILD_COUNT_FILLED: usize = CHILD_COUNT_MAX * 95 / 100;

/// A tree under construction.
#[derive(Debug, Default)]
pub struct TreeBuilder {
    leaf: RunBuilder,
    /// The separator before the leaf under construction; empty before the first.
    leaf_separator: Vec<u8>,
    last_key: Vec<u8>,
    count: u64,
    /// Lowest first.
    levels: Vec<Level>,
}

/// An inner page under construction.
#[derive(Debug, Default)]
struct Level {
    /// The separator before its first child.
    before: Vec<u8>,
    separators: RunBuilder,
    children: Vec<Child>,
}

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Its key is not above the last one.
    #[error("a key that is not above the one before it")]
    Order,
    /// It is too long.
    #[error(transparent)]
    Size(#[from] EditError),
}

impl TreeBuilder {
    /// Appends an entry.
    ///
    /// # Errors
    /// When its key is not above the last one, or key or value are too long; it is left out then.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), BuildError> {
        if self.count > 0 && key <= self.last_key.as_slice() {
            return Err(BuildError::Order);
        }
        if key.len() > KEY_SIZE_MAX {
            return Err(EditError::KeySize(key.len()).into());
        }
        if value.len() > VALUE_SIZE_MAX {
            return Err(EditError::ValueSize(value.len()).into());
        }
        if !self.leaf.push_within(LEAF_SIZE_FILLED, key, value) {
            self.end_leaf();
            self.leaf_separator.extend_from_slice(separator(&self.last_key, key));
            self.leaf.push(key, value);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.count += 1;
        Ok(())
    }

    /// The tree.
    #[must_use]
    pub fn finish(mut self) -> Tree {
        let mut tree = Tree::new();
        tree.count = self.count;
        if self.count == 0 {
            return tree;
        }
        self.end_leaf();
        let mut index = 0;
        while index + 1 < self.levels.len() {
            self.end_inner(index);
            index += 1;
        }
        let (_, mut root) = self.take_inner(index);
        while let (true, [Child::Inner(only)]) = (root.level > 1, root.children.as_slice()) {
            let only = Arc::clone(only);
            root = only;
        }
        tree.root = root;
        tree
    }

    fn end_leaf(&mut self) {
        let before = std::mem::take(&mut self.leaf_separator);
        let leaf = Child::leaf(self.leaf.finish());
        self.push_child(0, before, leaf);
    }

    fn push_child(&mut self, index: usize, before: Vec<u8>, child: Child) {
        if self.levels.len() == index {
            self.levels.push(Level::default());
        }
        if self.levels[index].children.len() == CHILD_COUNT_FILLED {
            self.end_inner(index);
        }
        let level = &mut self.levels[index];
        if level.children.is_empty() {
            level.before = before;
        } else {
            level.separators.push(&before, &[]);
        }
        level.children.push(child);
    }

    /// Ends the page of a level, where it has children, and hands it to the level above.
    fn end_inner(&mut self, index: usize) {
        if !self.levels[index].children.is_empty() {
            let (before, inner) = self.take_inner(index);
            self.push_child(index + 1, before, Child::Inner(inner));
        }
    }

    fn take_inner(&mut self, index: usize) -> (Vec<u8>, Arc<Inner>) {
        let mut level = std::mem::take(&mut self.levels[index]);
        let number = u8::try_from(index + 1).expect("a tree of 60^255 leaves is too large");
        level.children.shrink_to_fit();
        let inner = Inner::new(number, level.separators.finish(), level.children);
        (level.before, Arc::new(inner))
    }
}
