//! Inserting, and what happens to a leaf that gets too large.
//!
//! ```text
//!   ascending inserts      [ full ][ n ]            the leaf stays full, the new entry starts one;
//!                                                   descending ones likewise
//!   room beside            [■■■■■■■■][■■■   ] → [■■■■■   ][■■■■■■  ]
//!   no room beside         [■■■■■■■■][■■■■■■■■] → [■■■■■■  ][■■■■■■  ][■■■■■■  ]
//! ```
//! So leaves are full after ascending and descending inserts, and at least two thirds full after
//! any others, as far as their parent has other leaves.

use crate::damaged::Damaged;
use crate::entries::EntryList;
use crate::limits::{CHILD_COUNT_MAX, KEY_SIZE_MAX, LEAF_SIZE_MAX, VALUE_SIZE_MAX};
use crate::node::{ChildPage, InnerPage, separator};
use crate::run_edit::{self, Edit};
use crate::source::PageSource;
use crate::tree::{EditError, Tree};
use cairn_types::crc32c;
use std::ops::Range;
use std::sync::Arc;

/// Two leaves with at most so many bytes together share them anew; with more, they become three.
const SHARE_SIZE_MAX: usize = 2 * LEAF_SIZE_MAX * 9 / 10;
/// What a merged leaf has at most, so that it is not split again at once.
pub(crate) const MERGED_SIZE_MAX: usize = LEAF_SIZE_MAX * 7 / 8;

/// An insert on its way down.
struct Insert<'a> {
    source: Option<&'a PageSource>,
    key: &'a [u8],
    value: &'a [u8],
    last_inserted: u32,
}

impl Tree {
    /// Sets the value of `key`. Answers whether the key is new.
    ///
    /// # Errors
    /// When a page on the way is not what was written, or key or value are too long.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, EditError> {
        if key.len() > KEY_SIZE_MAX {
            return Err(EditError::KeySize(key.len()));
        }
        if value.len() > VALUE_SIZE_MAX {
            return Err(EditError::ValueSize(value.len()));
        }
        let source = self.source.as_deref();
        let insert = Insert { source, key, value, last_inserted: self.last_inserted };
        let root = InnerPage::make_mut(&mut self.root);
        let added = insert.insert_below(root)?;
        if root.children.len() > CHILD_COUNT_MAX {
            let old = std::mem::replace(root, InnerPage::empty());
            root.level = old.level + 1;
            root.children.push(ChildPage::Inner(Arc::new(old)));
            split_inner(root, 0, insert.key);
        }
        if added {
            // A new value for an old key says nothing about where the next key comes.
            self.last_inserted = crc32c(key);
            self.count += 1;
        }
        Ok(added)
    }
}

impl Insert<'_> {
    /// Inserts below a page, which may come to have one child too many.
    fn insert_below(&self, inner: &mut InnerPage) -> Result<bool, Damaged> {
        if inner.children.is_empty() {
            let mut entries = EntryList::default();
            entries.push(self.key, self.value);
            inner.children.push(ChildPage::leaf(entries.to_run()));
            return Ok(true);
        }
        let index = inner.index_of(self.key);
        if inner.level == 1 {
            return self.insert_in_leaf(inner, index);
        }
        let level = inner.level - 1;
        let below = inner.children[index].inner_mut(level, self.source)?;
        let added = self.insert_below(below)?;
        if below.children.len() > CHILD_COUNT_MAX {
            split_inner(inner, index, self.key);
        }
        Ok(added)
    }

    fn insert_in_leaf(&self, inner: &mut InnerPage, index: usize) -> Result<bool, Damaged> {
        let run = inner.children[index].leaf_mut(self.source)?;
        match run_edit::insert(run, self.key, self.value, LEAF_SIZE_MAX).expect("checked or ours") {
            Edit::Rebuild => {}
            edit => return Ok(edit == Edit::Added),
        }
        let mut entries = EntryList::default();
        entries.append_run(run).expect("checked or ours");
        let old_size = run.len();
        let (at, added) = match entries.search(self.key) {
            Ok(at) => (at, false),
            Err(at) => (at, true),
        };
        let mut new = EntryList::default();
        new.push(self.key, self.value);
        entries.splice(at..at + usize::from(!added), &new);
        if old_size + self.key.len() + self.value.len() <= LEAF_SIZE_MAX {
            let rebuilt = entries.to_run();
            if rebuilt.len() <= LEAF_SIZE_MAX {
                *run = rebuilt;
                return Ok(added);
            }
        } else {
            let runs = entries.to_full_runs(0..entries.count());
            if let [(rebuilt, _)] = runs.as_slice() {
                run.clone_from(rebuilt);
                return Ok(added);
            }
        }
        self.spill(inner, index, entries, at);
        Ok(added)
    }

    /// Spreads the entries of a leaf that are too many for it, the new one at `at`.
    fn spill(&self, inner: &mut InnerPage, index: usize, entries: EntryList, at: usize) {
        let is_last = |at: usize| crc32c(entries.key(at)) == self.last_inserted;
        if (at > 0 && is_last(at - 1)) || (at + 1 < entries.count() && is_last(at + 1)) {
            split_behind(inner, index, (entries, at), self.source);
            return;
        }
        let size = inner.children[index].leaf_size() + self.key.len() + self.value.len();
        spread(inner, index, (entries, size), self.source);
    }
}

/// Parts a leaf behind the new entry: the next ones will come there, or just before it.
pub(crate) fn split_behind(
    inner: &mut InnerPage,
    index: usize,
    (mut entries, at): (EntryList, usize),
    source: Option<&PageSource>,
) {
    let cut = if at + 1 == entries.count() { at } else { at + 1 };
    let mut runs = entries.to_full_runs(0..cut);
    // Taken out and put in again, entries may need a few bytes more.
    runs.truncate(1);
    let cut = runs[0].1;
    let mut range = index..index + 1;
    let rest: usize = (cut..entries.count())
        .map(|index| entries.get(index))
        .map(|(key, value)| key.len() + value.len())
        .sum();
    let next = inner.children.get(index + 1);
    if let Some(next) = next.filter(|next| next.leaf_size() + rest <= MERGED_SIZE_MAX)
        && let Ok(run) = next.leaf_to_copy(source)
        && entries.append_run(run).is_some()
    {
        range.end += 1;
    }
    runs.extend(entries.to_full_runs(cut..entries.count()));
    replace_leaves(inner, range, &entries, runs);
}

/// Spreads the entries of a leaf, about so many bytes, too many for one, over leaves there.
pub(crate) fn spread(
    inner: &mut InnerPage,
    index: usize,
    (entries, size): (EntryList, usize),
    source: Option<&PageSource>,
) {
    let Some((range, entries, size)) = with_sibling(inner, index, (&entries, size), source) else {
        let runs = entries.to_runs(0..entries.count(), (2, size / 2), LEAF_SIZE_MAX);
        replace_leaves(inner, index..index + 1, &entries, runs);
        return;
    };
    let pages = if size <= SHARE_SIZE_MAX { 2 } else { 3 };
    let runs = entries.to_runs(0..entries.count(), (pages, size / pages), LEAF_SIZE_MAX);
    replace_leaves(inner, range, &entries, runs);
}

/// A leaf's entries with those of the smaller sibling, which leaves these are, and about how
/// many bytes. A sibling that cannot be read is left alone.
fn with_sibling(
    inner: &InnerPage,
    index: usize,
    (entries, size): (&EntryList, usize),
    source: Option<&PageSource>,
) -> Option<(Range<usize>, EntryList, usize)> {
    let left = index.checked_sub(1);
    let siblings = left.into_iter().chain([index + 1]);
    let (sibling_size, sibling) = siblings
        .filter_map(|sibling| Some((inner.children.get(sibling)?.leaf_size(), sibling)))
        .filter(|(size, _)| *size <= LEAF_SIZE_MAX)
        .min()?;
    let run = inner.children[sibling].leaf_to_copy(source).ok()?;
    let mut all = EntryList::default();
    all.append_run(run)?;
    let place = if sibling < index { all.count() } else { 0 };
    all.splice(place..place, entries);
    let first = sibling.min(index);
    Some((first..first + 2, all, size + sibling_size))
}

/// Parts an inner page that has children too many, `key` being the last that was inserted there.
pub(crate) fn split_inner(parent: &mut InnerPage, index: usize, key: &[u8]) {
    let ChildPage::Inner(inner) = &mut parent.children[index] else {
        unreachable!("it was just changed")
    };
    let inner = InnerPage::make_mut(inner);
    let count = inner.children.len();
    // Ascending inserts come to the end: leave the page full.
    let at_end = inner.index_of(key) + 2 >= count;
    let cut = if at_end { (count - 2).min(CHILD_COUNT_MAX) } else { count / 2 };
    let separators = inner.separator_list();
    let mut between = EntryList::default();
    between.push(separators.key(cut - 1), &[]);
    let mut left: Vec<ChildPage> = inner.children.drain(..).collect();
    let right = left.split_off(cut);
    left.shrink_to_fit();
    let pages = [
        (separators.range_to_run(0..cut - 1), left),
        (separators.range_to_run(cut..count - 1), right),
    ];
    let level = inner.level;
    let pages = pages.into_iter().map(|(separators, children)| {
        ChildPage::Inner(Arc::new(InnerPage::new(level, separators, children)))
    });
    parent.replace(index..index + 1, pages.collect(), &between);
}

/// Puts runs, each with the index after its last entry, in the place of leaves.
pub(crate) fn replace_leaves(
    inner: &mut InnerPage,
    range: Range<usize>,
    entries: &EntryList,
    runs: Vec<(Vec<u8>, usize)>,
) {
    let mut between = EntryList::default();
    for (_, end) in &runs[..runs.len() - 1] {
        between.push(separator(entries.key(end - 1), entries.key(*end)), &[]);
    }
    let leaves = runs.into_iter().map(|(run, _)| ChildPage::leaf(run)).collect();
    inner.replace(range, leaves, &between);
}
