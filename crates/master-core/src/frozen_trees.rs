//! Trees of which a snapshot is being taken: nothing below them changes meanwhile (R34).
//!
//! - FT1: soft: whoever becomes master has taken none yet, and gives up what was begun.

use crate::state::State;
use cairn_types::EntryId;
use std::collections::BTreeMap;

/// The tops of such trees, and how many snapshots each is in.
#[derive(Debug, Default)]
pub(crate) struct FrozenTrees(BTreeMap<EntryId, u32>);

impl FrozenTrees {
    /// Whether no snapshot is being taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A snapshot of it begins.
    pub(crate) fn freeze(&mut self, top: EntryId) {
        *self.0.entry(top).or_default() += 1;
    }

    /// That is over.
    pub(crate) fn thaw(&mut self, top: EntryId) {
        let count = self.0.get_mut(&top).expect("what is over has begun");
        assert!(*count > 0, "a tree thaws as often as it was frozen");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&top);
        }
    }

    /// Whether an entry stands in one of them.
    pub(crate) fn holds(&self, state: &State, entry: EntryId) -> bool {
        !self.is_empty() && state.sharing().stands_in(entry, |id| self.0.contains_key(&id))
    }
}
