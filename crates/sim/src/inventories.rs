//! What chunkservers tell masters that they hold when they join: of what a disk has kept that lost
//! power, or lies of its syncs, that is the only word there is.

use cairn_env_sim::NodeId;
use cairn_protocol::{Inventory, ReplicaReport};
use cairn_types::{ChunkHandle, Incarnation, JoinId};
use std::collections::BTreeMap;

/// What a process holds.
pub(crate) type HeldReplicas = BTreeMap<ChunkHandle, ReplicaReport>;

/// Inventories that are being told.
#[derive(Debug, Default)]
pub(crate) struct ToldInventories {
    begun: BTreeMap<NodeId, (JoinId, HeldReplicas)>,
    /// Which process of a node told last.
    tellers: BTreeMap<NodeId, Incarnation>,
    /// Which one is over, and its word with it, however late that comes.
    over: BTreeMap<NodeId, Incarnation>,
}

impl ToldInventories {
    /// Nothing that a node has told of itself holds any more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.begun.remove(&node);
        self.over.extend(self.tellers.get(&node).map(|process| (node, *process)));
    }

    /// A slice arrives; all that was told of that join, where it is the last.
    pub(crate) fn slice(&mut self, node: NodeId, slice: &Inventory) -> Option<HeldReplicas> {
        if self.over.get(&node) == Some(&slice.incarnation) {
            return None;
        }
        self.tellers.insert(node, slice.incarnation);
        if slice.number == 0 {
            self.begun.insert(node, (slice.join, HeldReplicas::new()));
        }
        let (_, held) = self.begun.get_mut(&node).filter(|(join, _)| *join == slice.join)?;
        held.extend(slice.replicas.0.iter().map(|report| (report.handle, report.clone())));
        if slice.last { self.begun.remove(&node).map(|(_, held)| held) } else { None }
    }
}
