//! A tree of the state: what it cannot read is noted once for all, and answered as if not there.
//!
//! - DM1: the first damage of any of a state's trees is kept, for the state and all its clones;
//!   whoever asks the state looks at it before believing an answer.

use cairn_pagetree::{Damage, Damaged, EditError, Finger, Tree, TreeRange, multi_get};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Where damage is noted; clones share it (DM1).
#[derive(Clone, Debug, Default)]
pub(super) struct DamageMark(Arc<OnceLock<Damaged>>);

impl DamageMark {
    /// The first damage.
    pub(super) fn get(&self) -> Option<Damaged> {
        self.0.get().copied()
    }

    fn note(&self, damaged: Damaged) {
        // A later damage says nothing that the first did not.
        let _ = self.0.set(damaged);
    }

    /// The value, or nothing and a mark.
    fn passed<T>(&self, result: Result<Option<T>, Damaged>) -> Option<T> {
        result.unwrap_or_else(|damaged| {
            self.note(damaged);
            None
        })
    }

    /// Notes that an entry's bytes make no sense though their page is as it was written.
    fn note_malformed(&self, value: &[u8]) {
        let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.note(Damaged { offset: 0, size, damage: Damage::Malformed });
    }

    /// What `value` unpacks to.
    fn unpacked<'a, T>(
        &self,
        value: &'a [u8],
        unpack: impl FnOnce(&'a [u8]) -> Option<T>,
    ) -> Option<T> {
        let unpacked = unpack(value);
        if unpacked.is_none() {
            self.note_malformed(value);
        }
        unpacked
    }
}

/// A tree and the mark of its state.
#[derive(Clone)]
pub(super) struct Map {
    tree: Tree,
    mark: DamageMark,
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map of {}", self.tree.len())
    }
}

impl PartialEq for Map {
    /// Compares all entries: for checkers and tests.
    fn eq(&self, other: &Self) -> bool {
        let (mut one, mut other) = (self.walk(&[]), other.walk(&[]));
        loop {
            match (one.next(), other.next()) {
                (None, None) => return true,
                (one, other) if one != other => return false,
                _ => {}
            }
        }
    }
}

impl Map {
    /// An empty map.
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self::of(Tree::new(), mark)
    }

    /// A tree as a map.
    pub(super) fn of(tree: Tree, mark: &DamageMark) -> Self {
        Self { tree, mark: mark.clone() }
    }

    /// The tree.
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The tree, to be read from another file.
    pub(super) fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    pub(super) fn len(&self) -> u64 {
        self.tree.len()
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.mark.passed(self.tree.get(key)).is_some()
    }

    /// What is at `key`.
    pub(super) fn get<'a, T>(
        &'a self,
        key: &[u8],
        unpack: impl FnOnce(&'a [u8]) -> Option<T>,
    ) -> Option<T> {
        let value = self.mark.passed(self.tree.get(key))?;
        self.mark.unpacked(value, unpack)
    }

    /// What is at each key, in their order, looked up together; `unpack` is told which it is.
    pub(super) fn get_each<'a, T>(
        &'a self,
        keys: &[impl AsRef<[u8]>],
        mut unpack: impl FnMut(usize, &'a [u8]) -> Option<T>,
    ) -> impl Iterator<Item = Option<T>> {
        multi_get(&self.tree, keys).into_iter().enumerate().map(move |(index, found)| {
            let value = self.mark.passed(found)?;
            self.mark.unpacked(value, |value| unpack(index, value))
        })
    }

    /// The lowest entry.
    pub(super) fn first<T>(&self, unpack: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let mut range = self.tree.range(&[]);
        let (key, _) = self.mark.passed(range.advance())?;
        self.mark.unpacked(key, unpack)
    }

    /// Sets what is at `key`. Keys and values are far smaller than a tree's limits.
    pub(super) fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.tree.insert(key, value) {
            Ok(_) => {}
            Err(EditError::Damaged(damaged)) => self.mark.note(damaged),
            Err(error) => unreachable!("names and outcomes are bounded before: {error}"),
        }
    }

    /// The same of keys that ascend strictly, which costs less where they are neighbours.
    pub(super) fn set_sorted(&mut self, entries: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) {
        match self.tree.insert_sorted(entries) {
            Ok(_) => {}
            Err(EditError::Damaged(damaged)) => self.mark.note(damaged),
            Err(error) => unreachable!("names and outcomes are bounded before: {error}"),
        }
    }

    /// Whether nothing is at `first`, `last` or between them.
    pub(super) fn is_free(&self, first: &[u8], last: &[u8]) -> bool {
        let mut walk = self.walk(first);
        walk.next().is_none_or(|(key, _)| key > last)
    }

    /// Takes out what is at `key`.
    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Err(damaged) = self.tree.remove(key) {
            self.mark.note(damaged);
        }
    }

    /// The entries from `from` on.
    pub(super) fn walk(&self, from: &[u8]) -> Walk<'_> {
        Walk { range: self.tree.range(from), mark: &self.mark }
    }

    /// For looking up keys that mostly lie close behind one another.
    pub(super) fn finger(&self) -> MapFinger<'_> {
        MapFinger { finger: Finger::new(&self.tree), mark: &self.mark }
    }
}

/// Entries in order.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    range: TreeRange<'a>,
    mark: &'a DamageMark,
}

impl<'a> Walk<'a> {
    /// The next key and value; the key until the one after is asked for.
    pub(super) fn next(&mut self) -> Option<(&[u8], &'a [u8])> {
        self.mark.passed(self.range.advance())
    }

    /// What the next entry unpacks to: the outer nothing where it makes no sense, the inner one
    /// where it is no longer of those that are asked for.
    pub(super) fn unpack<T>(
        &mut self,
        unpack: impl FnOnce(&[u8], &'a [u8]) -> Option<Option<T>>,
    ) -> Option<T> {
        let mark = self.mark;
        let (key, value) = self.next()?;
        let unpacked = unpack(key, value);
        if unpacked.is_none() {
            mark.note_malformed(value);
        }
        unpacked.flatten()
    }
}

/// Looks up keys that mostly lie close behind one another.
#[derive(Debug)]
pub(super) struct MapFinger<'a> {
    finger: Finger<'a>,
    mark: &'a DamageMark,
}

impl<'a> MapFinger<'a> {
    /// What is at `key`.
    pub(super) fn get<T>(
        &mut self,
        key: &[u8],
        unpack: impl FnOnce(&'a [u8]) -> Option<T>,
    ) -> Option<T> {
        let value = self.mark.passed(self.finger.get(key))?;
        self.mark.unpacked(value, unpack)
    }
}
