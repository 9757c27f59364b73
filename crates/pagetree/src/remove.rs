//! Removing, and what happens to pages that get too small.
//!
//! A leaf below half its size joins a sibling, if both together are not nearly too large again; an
//! inner page likewise below a quarter. A page without entries goes. A sibling that cannot be read
//! is left alone.

use crate::damaged::Damaged;
use crate::entries::EntryList;
use crate::insert::{MERGED_SIZE_MAX, replace_leaves};
use crate::limits::{CHILD_COUNT_MAX, LEAF_SIZE_MAX};
use crate::node::{ChildPage, InnerPage, OpenedPage};
use crate::run_edit::{self, Edit};
use crate::source::PageSource;
use crate::tree::Tree;
use std::sync::Arc;

/// Below this, a leaf looks for a sibling to join.
const LEAF_SIZE_MIN: usize = LEAF_SIZE_MAX / 2;
/// Below this, an inner page does.
const CHILD_COUNT_MIN: usize = CHILD_COUNT_MAX / 4;
/// What a joined inner page has at most.
const JOINED_CHILD_COUNT_MAX: usize = CHILD_COUNT_MAX * 3 / 4;

impl Tree {
    /// Takes out the entry of `key`. Answers whether there was one.
    ///
    /// # Errors
    /// When a page on the way is not what was written.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Damaged> {
        // Looking first keeps a miss from copying shared pages, and verifies the way down.
        if !self.contains(key)? {
            return Ok(false);
        }
        let source = self.source.as_deref();
        let root = InnerPage::make_mut(&mut self.root);
        remove_below(root, key, source)?;
        assert!(self.count > 0, "what is taken out was counted");
        self.count -= 1;
        self.lower_root();
        Ok(true)
    }

    /// Takes away roots that have nothing to part.
    fn lower_root(&mut self) {
        while self.root.level > 1 && self.root.children.len() <= 1 {
            let source = self.source.as_deref();
            let root = InnerPage::make_mut(&mut self.root);
            let level = root.level - 1;
            let Some(child) = root.children.first_mut() else {
                self.root = Arc::new(InnerPage::empty());
                return;
            };
            // One that cannot be read stays below: its damage is for its readers to see.
            if child.inner_mut(level, source).is_err() {
                return;
            }
            let ChildPage::Inner(lower) = child else {
                unreachable!("made an inner page in memory above")
            };
            let lower = Arc::clone(lower);
            self.root = lower;
        }
    }
}

/// Removes a key that is below `inner`, which may be left without children.
fn remove_below(
    inner: &mut InnerPage,
    key: &[u8],
    source: Option<&PageSource>,
) -> Result<(), Damaged> {
    let index = inner.index_of(key);
    if inner.level == 1 {
        return remove_from_leaf(inner, index, key, source);
    }
    let level = inner.level - 1;
    let below = inner.children[index].inner_mut(level, source)?;
    remove_below(below, key, source)?;
    let count = below.children.len();
    if count == 0 {
        inner.replace(index..index + 1, Vec::new(), &EntryList::default());
    } else if count < CHILD_COUNT_MIN {
        join_inner(inner, index, source);
    }
    Ok(())
}

fn remove_from_leaf(
    inner: &mut InnerPage,
    index: usize,
    key: &[u8],
    source: Option<&PageSource>,
) -> Result<(), Damaged> {
    let run = inner.children[index].leaf_mut(source)?;
    if run_edit::remove(run, key, LEAF_SIZE_MAX).expect("the key was found in it") == Edit::Rebuild
    {
        let mut entries = EntryList::default();
        entries.append_run(run).expect("checked or ours");
        let at = entries.search(key).expect("the key was found in it");
        entries.splice(at..at + 1, &EntryList::default());
        if entries.count() == 0 {
            inner.replace(index..index + 1, Vec::new(), &EntryList::default());
            return Ok(());
        }
        let runs = entries.to_full_runs(0..entries.count());
        if runs.len() > 1 {
            // Others share less with the new first key than they did with the old one.
            replace_leaves(inner, index..index + 1, &entries, runs);
            return Ok(());
        }
        *run = entries.to_run();
    }
    if run.capacity() > 2 * run.len() {
        run.shrink_to_fit();
    }
    if run.len() < LEAF_SIZE_MIN {
        join_leaf(inner, index, source);
    }
    Ok(())
}

/// Joins a leaf with a sibling where both fit into one.
fn join_leaf(inner: &mut InnerPage, index: usize, source: Option<&PageSource>) {
    for first in [Some(index), index.checked_sub(1)].into_iter().flatten() {
        let Some([left, right]) = inner.children.get(first..first + 2) else { continue };
        if left.leaf_size() + right.leaf_size() > MERGED_SIZE_MAX {
            continue;
        }
        let mut entries = EntryList::default();
        let appended = [left, right]
            .map(|leaf| leaf.leaf_to_copy(source).ok().and_then(|run| entries.append_run(run)));
        if appended.contains(&None) {
            continue;
        }
        let runs = entries.to_full_runs(0..entries.count());
        if runs.len() == 1 {
            replace_leaves(inner, first..first + 2, &entries, runs);
            return;
        }
    }
}

/// Joins an inner page with a sibling where both fit into one.
fn join_inner(parent: &mut InnerPage, index: usize, source: Option<&PageSource>) {
    let level = parent.level - 1;
    for first in [Some(index), index.checked_sub(1)].into_iter().flatten() {
        let Some([left, right]) = parent.children.get(first..first + 2) else { continue };
        let opened = [left.open(parent.level, source), right.open(parent.level, source)];
        let [Ok(OpenedPage::Inner(left)), Ok(OpenedPage::Inner(right))] = opened else { continue };
        if left.children.len() + right.children.len() > JOINED_CHILD_COUNT_MAX {
            continue;
        }
        let mut separators = left.separator_list();
        separators.push(parent.separator_list().key(first), &[]);
        let place = separators.count();
        separators.splice(place..place, &right.separator_list());
        let children = left.children.iter().chain(&right.children).cloned().collect();
        let joined = Arc::new(InnerPage::new(level, separators.to_run(), children));
        parent.replace(first..first + 2, vec![ChildPage::Inner(joined)], &EntryList::default());
        return;
    }
}
