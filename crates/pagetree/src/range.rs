//! Walking a tree in order.

use crate::damaged::Damaged;
use crate::node::{ChildPage, InnerPage, OpenedPage};
use crate::run::{EntryRun, GroupFirst, KeySpot, RunGroup, RunGroups};
use crate::tree::Tree;

/// A key, until the next is asked for, and its value.
pub type Lent<'key, 'tree> = (&'key [u8], &'tree [u8]);

/// The entries of a tree from some key on, in order.
///
/// As an iterator it hands out each key as a vector; [`TreeRange::advance`] lends it instead. After
/// an error there is nothing more.
#[derive(Debug)]
pub struct TreeRange<'a> {
    tree: &'a Tree,
    /// Where it starts, until it has.
    from: Option<Vec<u8>>,
    /// The pages above the leaf, each with the index of the child to visit next.
    path: Vec<(&'a InnerPage, usize)>,
    leaf: Option<LeafCursor<'a>>,
    key: Vec<u8>,
}

/// A place in a leaf.
#[derive(Debug)]
pub(crate) struct LeafCursor<'a> {
    child: &'a ChildPage,
    run: EntryRun<'a>,
    first_key: &'a [u8],
    group: RunGroup<'a>,
    after: RunGroups<'a>,
    /// The group's first key; up to date once the place is past it.
    reference: Vec<u8>,
    at: usize,
}

impl<'a> LeafCursor<'a> {
    /// At the first entry that is not below `from`.
    pub(crate) fn new(child: &'a ChildPage, bytes: &'a [u8], from: &[u8]) -> Option<Self> {
        let run = EntryRun::new(bytes);
        let KeySpot { group, after, at, reference: parts, .. } = run.seek(from)?;
        let first_key = run.groups()?.take()?.middle;
        let mut reference = Vec::new();
        parts.append_to(&mut reference);
        Some(Self { child, run, first_key, group, after, reference, at })
    }

    /// The value of the next entry, its key put into `key`. The inner nothing at the end, the
    /// outer where the bytes are no run.
    pub(crate) fn step(&mut self, key: &mut Vec<u8>) -> Option<Option<&'a [u8]>> {
        if self.at == self.group.body_end {
            if self.after.left == 0 {
                return Some(None);
            }
            self.group = self.after.take()?;
            self.at = self.group.body;
            self.reference.clear();
            self.group.key(self.first_key)?.append_to(&mut self.reference);
        }
        key.clear();
        if self.at == self.group.body {
            let GroupFirst { value, end } = self.run.first(&self.group)?;
            self.at = end;
            if value.is_some() {
                key.extend_from_slice(&self.reference);
                return Some(value);
            }
        }
        let entry = self.run.entry(self.at)?;
        let tail = self.reference.len().checked_sub(entry.back)?;
        key.extend_from_slice(self.reference.get(..entry.front)?);
        key.extend_from_slice(entry.middle);
        key.extend_from_slice(self.reference.get(tail..)?);
        self.at = entry.end;
        Some(Some(entry.value))
    }
}

impl<'a> TreeRange<'a> {
    pub(crate) fn new(tree: &'a Tree, from: &[u8]) -> Self {
        let from = Some(from.to_vec());
        Self { tree, from, path: Vec::new(), leaf: None, key: Vec::new() }
    }

    /// The next key and its value.
    ///
    /// # Errors
    /// When a page on the way is not what was written.
    pub fn advance(&mut self) -> Result<Option<Lent<'_, 'a>>, Damaged> {
        match self.step() {
            Ok(Some(value)) => Ok(Some((&self.key, value))),
            Ok(None) => Ok(None),
            Err(damaged) => {
                (self.from, self.leaf) = (None, None);
                self.path.clear();
                Err(damaged)
            }
        }
    }

    fn step(&mut self) -> Result<Option<&'a [u8]>, Damaged> {
        if let Some(from) = self.from.take()
            && !self.tree.root.children.is_empty()
        {
            let root: &'a InnerPage = &self.tree.root;
            self.path.push((root, root.index_of(&from)));
            self.descend(&from)?;
        }
        loop {
            if let Some(leaf) = &mut self.leaf {
                let child = leaf.child;
                let step = leaf.step(&mut self.key).ok_or_else(|| child.changed_leaf())?;
                if step.is_some() {
                    return Ok(step);
                }
                self.leaf = None;
            }
            match self.path.last() {
                None => return Ok(None),
                Some((inner, next)) if *next == inner.children.len() => {
                    self.path.pop();
                }
                // The empty key is the lowest: the descent takes the first child each time.
                Some(_) => self.descend(&[])?,
            }
        }
    }

    /// Goes from the next child of the lowest page on the path down to the leaf for `from`.
    fn descend(&mut self, from: &[u8]) -> Result<(), Damaged> {
        while let Some((inner, next)) = self.path.last_mut() {
            let inner: &'a InnerPage = inner;
            let child = &inner.children[*next];
            *next += 1;
            match child.open(inner.level, self.tree.source.as_deref())? {
                OpenedPage::Inner(below) => self.path.push((below, below.index_of(from))),
                OpenedPage::Leaf(bytes) => {
                    let cursor = LeafCursor::new(child, bytes, from);
                    self.leaf = Some(cursor.ok_or_else(|| child.changed_leaf())?);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl<'a> Iterator for TreeRange<'a> {
    type Item = Result<(Vec<u8>, &'a [u8]), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(Some((key, value))) => {
                let key = key.to_vec();
                Some(Ok((key, value)))
            }
            Ok(None) => None,
            Err(damaged) => Some(Err(damaged)),
        }
    }
}
