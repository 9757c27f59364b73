//! The chunkservers that have joined the cell: who they are and where they were last, so that a
//! master that starts misses by name those that do not come back.
//!
//! - W1: what they hold is not here: locations are asked of them (§2.6.2, A10).
//! - W2: no more than a cell may have; one that is not needed any more is forgotten by a record.

use cairn_protocol::SERVER_COUNT_MAX;
use cairn_types::{ReplicaAt, ServerId, Term};
use std::collections::BTreeMap;
use std::sync::Arc;

cairn_types::message! {
    /// One of them. What it holds of terms before `since` may be of another history (R3).
    pub struct KnownServer { 1 => at: ReplicaAt, 2 => since: Term }
}

/// By id; clones share it until one of them changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownServers(Arc<BTreeMap<ServerId, KnownServer>>);

impl KnownServers {
    /// From what an image has.
    pub(super) fn of(servers: Vec<KnownServer>) -> Self {
        Self(Arc::new(servers.into_iter().map(|known| (known.at.server, known)).collect()))
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &KnownServer> {
        self.0.values()
    }

    pub(super) fn get(&self, server: ServerId) -> Option<&KnownServer> {
        self.0.get(&server)
    }

    /// Takes one in, or its new place; whether there was room for it (W2).
    pub(super) fn know(&mut self, at: &ReplicaAt, since: Term) -> bool {
        if self.0.len() >= SERVER_COUNT_MAX && !self.0.contains_key(&at.server) {
            return false;
        }
        Arc::make_mut(&mut self.0).insert(at.server, KnownServer { at: at.clone(), since });
        assert!(self.0.len() <= SERVER_COUNT_MAX, "no more than a cell may have (W2)");
        true
    }

    /// Whether it was known.
    pub(super) fn forget(&mut self, server: ServerId) -> bool {
        self.0.contains_key(&server) && Arc::make_mut(&mut self.0).remove(&server).is_some()
    }
}
