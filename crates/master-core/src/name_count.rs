//! How many names lie below a directory, counted some at a time: for a person who wants to know
//! how much of a job is left.
//!
//! - NC1: one step is bounded. What is made or moved meanwhile may be counted or not.

use crate::state::State;
use cairn_types::{EntryId, EntryKind};

/// A count, and where it is.
#[derive(Debug, Default)]
pub(crate) struct NameCount {
    /// The directories down to where it is, each with the last name counted.
    way: Vec<(EntryId, String)>,
    counted: u64,
}

impl NameCount {
    /// Of all below `top`.
    pub(crate) fn below(top: EntryId) -> Self {
        Self { way: vec![(top, String::new())], counted: 0 }
    }

    /// Counts so many more at most.
    pub(crate) fn go_on(&mut self, state: &State, mut left: usize) {
        while let Some((directory, after)) = self.way.last_mut() {
            let mut deeper = None;
            for (name, id, kind) in state.children(*directory, after) {
                if left == 0 {
                    return;
                }
                (left, self.counted, *after) = (left - 1, self.counted + 1, name);
                if kind == EntryKind::Directory {
                    deeper = Some((id, String::new()));
                    break;
                }
            }
            match deeper {
                Some(step) => self.way.push(step),
                None => drop(self.way.pop()),
            }
        }
    }

    /// How many were counted so far.
    pub(crate) fn so_far(&self) -> u64 {
        self.counted
    }

    /// How many there are; none while they are being counted.
    pub(crate) fn all(&self) -> Option<u64> {
        self.way.is_empty().then_some(self.counted)
    }
}
