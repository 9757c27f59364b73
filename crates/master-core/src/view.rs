//! What the rules about chunks look at: all that is known, and nothing of it to be changed.

use crate::fleet::Fleet;
use crate::frozen_trees::FrozenTrees;
use crate::leases::Leases;
use crate::record::QUOTA_LEVEL;
use crate::state::State;
use crate::this_term::ThisTerm;
use crate::troubles::Troubles;
use crate::underway::Underway;
use cairn_env::Now;
use cairn_types::EntryId;
use cairn_types::planted::{Rule, broken};

/// The master's knowledge at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) now: Now,
    /// What is logged and applied.
    pub(crate) state: &'a State,
    pub(crate) term: &'a ThisTerm,
    /// What chunkservers told.
    pub(crate) fleet: &'a Fleet,
    pub(crate) leases: &'a Leases,
    /// What went wrong lately.
    pub(crate) troubles: &'a Troubles,
    /// What is being done.
    pub(crate) underway: &'a Underway,
    /// What nobody may change.
    pub(crate) frozen: &'a FrozenTrees,
}

impl View<'_> {
    /// Whether a snapshot is being taken in which this file is (R34).
    pub(crate) fn is_frozen(&self, file: EntryId) -> bool {
        self.frozen.holds(self.state, file) && !broken(Rule::R34)
    }
}

impl View<'_> {
    /// Whether records may charge files what they may grow to (R36).
    pub(crate) fn charges(&self) -> bool {
        self.state.level() >= QUOTA_LEVEL
    }
}
