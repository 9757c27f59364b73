//! Which machines' processes do not run, and since when; and which are not heard, for they stand
//! still, or are cut off.

use cairn_env_sim::{NodeId, WorldTime};
use std::collections::BTreeMap;
use std::time::Duration;

/// Machines whose processes have ended, or are not heard.
#[derive(Debug, Default)]
pub(crate) struct StoppedNodes {
    since: BTreeMap<NodeId, WorldTime>,
    /// When a master heard last of each.
    heard: BTreeMap<NodeId, WorldTime>,
    /// When the last term began: before that its master has heard nobody.
    term_began: WorldTime,
    /// After how long a server may count as dead.
    pub(crate) dead: Duration,
}

impl StoppedNodes {
    /// The process on a node has ended.
    pub(crate) fn note(&mut self, node: NodeId, at: WorldTime) {
        self.since.entry(node).or_insert(at);
    }

    /// A process starts on a node.
    pub(crate) fn started(&mut self, node: NodeId) {
        self.since.remove(&node);
    }

    /// A heartbeat of a node's process has come to a master.
    pub(crate) fn heard(&mut self, node: NodeId, at: WorldTime) {
        self.heard.insert(node, at);
    }

    /// A master takes charge.
    pub(crate) fn term_begins(&mut self, at: WorldTime) {
        self.term_began = at;
    }

    pub(crate) fn runs(&self, node: NodeId) -> bool {
        !self.since.contains_key(&node)
    }

    /// Whether a node's process has not run, or the master in charge has not heard it, for as long
    /// as a server takes to die (seed 3229).
    pub(crate) fn is_dead(&self, node: NodeId, now: WorldTime) -> bool {
        let is_long_ago = |since: &WorldTime| since.after(self.dead) <= now;
        let unheard_since = self.heard.get(&node).map(|at| *at.max(&self.term_began));
        self.since.get(&node).is_some_and(is_long_ago)
            || unheard_since.as_ref().is_some_and(is_long_ago)
    }
}
