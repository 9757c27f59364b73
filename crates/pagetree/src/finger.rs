//! A finger: looking up keys that mostly lie close behind one another.
//!
//! It stays where the last key was found, or would be, and goes on from there within its leaf;
//! else it comes down from the root again.

use crate::damaged::Damaged;
use crate::node::ChildPage;
use crate::run::{EntryRun, KeySpot};
use crate::tree::Tree;

/// Looks up keys, soonest those close behind the last one.
#[derive(Debug)]
pub struct Finger<'a> {
    tree: &'a Tree,
    leaf: Option<FingerLeaf<'a>>,
    /// The key that was sought last.
    sought: Vec<u8>,
}

/// Where the finger stands.
#[derive(Debug)]
struct FingerLeaf<'a> {
    child: &'a ChildPage,
    run: EntryRun<'a>,
    spot: KeySpot<'a>,
}

impl<'a> FingerLeaf<'a> {
    /// The value of `key`, which is not below the one before; the inner nothing where another leaf
    /// may have it, the outer where the bytes are no run.
    fn get(&mut self, key: &[u8]) -> Option<Option<Option<&'a [u8]>>> {
        let spot = self.run.seek_on(&self.spot, key)?;
        let is_at_end = spot.after.left == 0 && spot.at == spot.group.body_end;
        self.spot = spot;
        Some((!is_at_end).then(|| spot.found.map(|entry| entry.value)))
    }
}

impl<'a> Finger<'a> {
    /// A finger on `tree`, at no key yet.
    #[must_use]
    pub fn new(tree: &'a Tree) -> Self {
        Self { tree, leaf: None, sought: Vec::new() }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// When a page on the way is not what was written.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&'a [u8]>, Damaged> {
        let near = self.leaf.as_mut().filter(|_| self.sought.as_slice() <= key);
        let within = match near {
            Some(leaf) => leaf.get(key).ok_or_else(|| leaf.child.changed_leaf())?,
            None => None,
        };
        let found = match within {
            Some(found) => found,
            None => self.descend(key)?,
        };
        self.sought.clear();
        self.sought.extend_from_slice(key);
        Ok(found)
    }

    fn descend(&mut self, key: &[u8]) -> Result<Option<&'a [u8]>, Damaged> {
        self.leaf = None;
        let Some((child, bytes)) = self.tree.leaf_of(key)? else { return Ok(None) };
        let run = EntryRun::new(bytes);
        let spot = run.seek(key).ok_or_else(|| child.changed_leaf())?;
        self.leaf = Some(FingerLeaf { child, run, spot });
        Ok(spot.found.map(|entry| entry.value))
    }
}
