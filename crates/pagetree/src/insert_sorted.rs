//! Inserting many entries that come in order: a leaf is taken apart once for all that go into it.
//!
//! ```text
//!   leaf [a b c · · x y]   entries [d e f g]   →   [a b c d e f g][x y]
//! ```
//! What one insert costs is mostly its way down and the search in the leaf; a run of neighbours
//! shares both. Where there is room for all of them in one place, only the group in which that lies
//! is taken apart.

use crate::damaged::Damaged;
use crate::entries::EntryList;
use crate::insert::{replace_leaves, split_behind, split_inner, spread};
use crate::limits::{CHILD_COUNT_MAX, KEY_SIZE_MAX, LEAF_SIZE_MAX, VALUE_SIZE_MAX};
use crate::node::{ChildPage, InnerPage};
use crate::run_edit;
use crate::source::PageSource;
use crate::tree::{EditError, Tree};
use cairn_types::crc32c;
use std::sync::Arc;

/// Fewer in one leaf are cheaper to insert one by one.
const TOGETHER_MIN: usize = 4;
/// About the most bytes that go into one leaf at once: with what it has, they are two leaves.
const TOGETHER_SIZE: usize = LEAF_SIZE_MAX * 2 / 3;
/// An entry that takes so much room itself goes in alone.
const SMALL_SIZE_MAX: usize = TOGETHER_SIZE / TOGETHER_MIN;

fn size((key, value): &(impl AsRef<[u8]>, impl AsRef<[u8]>)) -> usize {
    key.as_ref().len() + value.as_ref().len()
}

impl Tree {
    /// Sets the values of keys that ascend strictly. Answers how many of them are new.
    ///
    /// # Errors
    /// As [`Tree::insert`]; those before the one that met it are set.
    ///
    /// # Panics
    /// Where the keys do not ascend.
    pub fn insert_sorted<K, V>(&mut self, entries: &[(K, V)]) -> Result<u64, EditError>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let ascend = entries.windows(2).all(|two| two[0].0.as_ref() < two[1].0.as_ref());
        assert!(ascend, "keys that are inserted together ascend");
        const { assert!(SMALL_SIZE_MAX < KEY_SIZE_MAX && SMALL_SIZE_MAX < VALUE_SIZE_MAX) };
        let (mut rest, mut added) = (entries, 0);
        while let Some((key, value)) = rest.first() {
            let (taken, new) = self.insert_together(rest)?;
            if taken == 0 {
                added += u64::from(self.insert(key.as_ref(), value.as_ref())?);
            }
            added += new;
            rest = &rest[taken.max(1)..];
        }
        Ok(added)
    }

    /// Inserts as many of the first entries as one leaf takes, where that is worth it: how many,
    /// and how many of them are new.
    fn insert_together<K, V>(&mut self, entries: &[(K, V)]) -> Result<(usize, u64), Damaged>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut sum = 0;
        let fits = |entry: &&(K, V)| {
            sum += size(entry);
            size(entry) <= SMALL_SIZE_MAX && sum <= TOGETHER_SIZE
        };
        let entries = &entries[..entries.iter().take_while(fits).count()];
        if entries.len() < TOGETHER_MIN || self.root.children.is_empty() {
            return Ok((0, 0));
        }
        let source = self.source.as_deref();
        let root = InnerPage::make_mut(&mut self.root);
        let (taken, added) = insert_below(root, entries, source)?;
        if taken == 0 {
            return Ok((0, 0));
        }
        let last = entries[taken - 1].0.as_ref();
        if root.children.len() > CHILD_COUNT_MAX {
            let old = std::mem::replace(root, InnerPage::empty());
            root.level = old.level + 1;
            root.children.push(ChildPage::Inner(Arc::new(old)));
            split_inner(root, 0, last);
        }
        if added > 0 {
            self.last_inserted = crc32c(last);
            self.count += added;
        }
        Ok((taken, added))
    }
}

/// Inserts those of the first entries that go below one child, if they are enough.
fn insert_below<K, V>(
    inner: &mut InnerPage,
    entries: &[(K, V)],
    source: Option<&PageSource>,
) -> Result<(usize, u64), Damaged>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    let index = inner.index_of(entries[0].0.as_ref());
    let goes_there = |entry: &(K, V)| inner.index_of(entry.0.as_ref()) == index;
    let count = match entries.last().is_some_and(goes_there) {
        true => entries.len(),
        false => entries.partition_point(goes_there),
    };
    let entries = &entries[..count];
    if count < TOGETHER_MIN {
        return Ok((0, 0));
    }
    if inner.level == 1 {
        return Ok((count, insert_in_leaf(inner, index, entries, source)?));
    }
    let below = inner.children[index].inner_mut(inner.level - 1, source)?;
    let (taken, added) = insert_below(below, entries, source)?;
    if below.children.len() > CHILD_COUNT_MAX {
        split_inner(inner, index, entries[taken - 1].0.as_ref());
    }
    Ok((taken, added))
}

/// Inserts entries that all go into one leaf; how many are new.
fn insert_in_leaf<K, V>(
    inner: &mut InnerPage,
    index: usize,
    new: &[(K, V)],
    source: Option<&PageSource>,
) -> Result<u64, Damaged>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    let child = &inner.children[index];
    let mut block = EntryList::default();
    new.iter().for_each(|(key, value)| block.push(key.as_ref(), value.as_ref()));
    let run = child.leaf_to_copy(source)?;
    if let Some(run) = run_edit::inserted_between(run, &block, LEAF_SIZE_MAX) {
        inner.children[index] = ChildPage::leaf(run);
        return Ok(block.count() as u64);
    }
    let mut entries = EntryList::default();
    entries.append_run(run).ok_or_else(|| child.changed_leaf())?;
    let old_size = child.leaf_size();
    let old_count = entries.count();
    let (first, last) = (block.key(0), block.key(block.count() - 1));
    // Where they all come between two neighbours, or behind all.
    let between = entries.search(first).err();
    let between = between.filter(|at| *at == old_count || last < entries.key(*at));
    // The last new one, then.
    let at_last = between.map_or(0, |at| at + block.count() - 1);
    entries.merge(&block);
    let added = entries.count() - old_count;
    let added_size: usize = new.iter().map(size).sum();
    let runs = entries.to_full_runs(0..entries.count());
    if runs.len() == 1 || between == Some(old_count) {
        replace_leaves(inner, index..index + 1, &entries, runs);
    } else if between.is_some() {
        split_behind(inner, index, (entries, at_last), source);
    } else {
        spread(inner, index, (entries, old_size + added_size), source);
    }
    Ok(added as u64)
}
