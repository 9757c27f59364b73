//! A finger: looking up keys that mostly lie close behind one another.
//!
//! It stays where the last key was found, and goes on from there where the next one is only a few
//! entries away; else it comes down from the root again.

use crate::damaged::Damaged;
use crate::range::Range;
use crate::tree::Tree;
use std::cmp::Ordering;

/// Entries that are passed by before the way down from the root is taken instead.
const STEP_COUNT_MAX: usize = 8;

/// Looks up keys, soonest those close behind the last one.
#[derive(Debug)]
pub struct Finger<'a> {
    tree: &'a Tree,
    range: Range<'a>,
    /// The value of the entry that the range stands at.
    at: Option<&'a [u8]>,
}

impl Tree {
    /// A finger, at no key yet.
    #[must_use]
    pub fn finger(&self) -> Finger<'_> {
        Finger { tree: self, range: self.range(&[]), at: None }
    }
}

impl<'a> Finger<'a> {
    /// The value of `key`.
    ///
    /// # Errors
    /// When a page on the way is not what was written.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&'a [u8]>, Damaged> {
        let mut at = self.at.take();
        for _ in 0..STEP_COUNT_MAX {
            let Some(value) = at else { break };
            match self.range.key().cmp(key) {
                Ordering::Equal => {
                    self.at = at;
                    return Ok(Some(value));
                }
                Ordering::Greater => break,
                Ordering::Less => at = self.range.advance()?.map(|(_, value)| value),
            }
        }
        self.range = self.tree.range(key);
        self.at = self.range.advance()?.map(|(_, value)| value);
        Ok(self.at.filter(|_| self.range.key() == key))
    }
}
