//! What chunkservers tell masters that they hold when they join: of what a disk has kept that lies
//! of its syncs, that is the only word there is.

use cairn_env_sim::NodeId;
use cairn_protocol::Inventory;
use cairn_types::{ChunkHandle, ChunkVersion, JoinId};
use std::collections::BTreeMap;

/// What a process holds, at which versions, and whether it doubts it.
pub(crate) type HeldVersions = BTreeMap<ChunkHandle, (ChunkVersion, bool)>;

/// Inventories that are being told.
#[derive(Debug, Default)]
pub(crate) struct ToldInventories {
    begun: BTreeMap<NodeId, (JoinId, HeldVersions)>,
}

impl ToldInventories {
    /// Nothing that a node has told of itself holds any more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.begun.remove(&node);
    }

    /// A slice arrives; all that was told of that join, where it is the last.
    pub(crate) fn slice(&mut self, node: NodeId, slice: &Inventory) -> Option<HeldVersions> {
        if slice.number == 0 {
            self.begun.insert(node, (slice.join, HeldVersions::new()));
        }
        let (_, held) = self.begun.get_mut(&node).filter(|(join, _)| *join == slice.join)?;
        held.extend(slice.replicas.0.iter().map(|it| (it.handle, (it.version, it.suspect))));
        if slice.last { self.begun.remove(&node).map(|(_, held)| held) } else { None }
    }
}
