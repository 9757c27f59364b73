//! Which replica of a chunk a read asks next.

use crate::nearness::nearest;
use cairn_protocol::ChunkLocations;
use cairn_types::{Rack, ReplicaAt, ServerId};
use std::collections::BTreeSet;

/// The replicas that will not do, among those now known.
#[derive(Debug, Default)]
pub(crate) struct ReplicaChoice {
    tried: BTreeSet<ServerId>,
    /// Only the primary knows what is wanted (R17).
    primary_only: bool,
}

impl ReplicaChoice {
    /// The nearest replica that has not been tried.
    pub(crate) fn pick<'a>(
        &self,
        rack: &Rack,
        salt: u64,
        chunk: &'a ChunkLocations,
    ) -> Option<&'a ReplicaAt> {
        let primary = chunk.primary.filter(|_| self.primary_only);
        nearest(rack, salt, &chunk.replicas, |replica| {
            !self.tried.contains(&replica.server)
                && primary.is_none_or(|primary| primary == replica.server)
        })
    }

    /// Whether any replica has not been tried, the primary or not.
    pub(crate) fn has_untried(&self, chunk: &ChunkLocations) -> bool {
        chunk.replicas.iter().any(|replica| !self.tried.contains(&replica.server))
    }

    /// This one did not do.
    pub(crate) fn rule_out(&mut self, server: ServerId) {
        self.tried.insert(server);
    }

    /// This one is to be asked once more.
    pub(crate) fn readmit(&mut self, server: ServerId) {
        self.tried.remove(&server);
    }

    /// Other locations will be known: everyone may be asked.
    pub(crate) fn forget_tried(&mut self) {
        self.tried.clear();
    }

    pub(crate) fn is_primary_only(&self) -> bool {
        self.primary_only
    }

    /// Asks the primary and nobody else, where there is one; or anyone again.
    pub(crate) fn set_primary_only(&mut self, primary_only: bool) {
        self.primary_only = primary_only;
    }
}
