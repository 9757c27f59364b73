//! Which machines' processes do not run, and since when.

use cairn_env_sim::{NodeId, WorldTime};
use std::collections::BTreeMap;
use std::time::Duration;

/// Machines whose processes have ended.
#[derive(Debug, Default)]
pub(crate) struct StoppedNodes {
    since: BTreeMap<NodeId, WorldTime>,
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

    pub(crate) fn runs(&self, node: NodeId) -> bool {
        !self.since.contains_key(&node)
    }

    /// Whether a node's process has not run for as long as a server takes to die.
    pub(crate) fn is_dead(&self, node: NodeId, now: WorldTime) -> bool {
        self.since.get(&node).is_some_and(|since| since.after(self.dead) <= now)
    }
}
