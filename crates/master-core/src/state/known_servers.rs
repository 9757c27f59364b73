//! The chunkservers that have joined the cell: who they are and where they were last, so that a
//! master that starts misses by name those that do not come back.
//!
//! - W1: what they hold is not here: locations are asked of them (§2.6.2, A10).
//! - W2: no more than a cell may have; one that is not needed any more is forgotten by a record.

use super::duties::Duties;
use cairn_protocol::SERVER_COUNT_MAX;
use cairn_types::{ReplicaAt, ServerId, Term};
use std::collections::BTreeMap;
use std::sync::Arc;

cairn_types::message! {
    /// One of them. What it holds of terms before `since` may be of another history (R3).
    pub struct KnownServer { 1 => at: ReplicaAt, 2 => since: Term }
}

/// All of them, and what they are told to be; clones share it until one of them changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownServers {
    by_id: Arc<BTreeMap<ServerId, KnownServer>>,
    duties: Duties,
}

impl KnownServers {
    /// From what an image has.
    pub(super) fn of(servers: Vec<KnownServer>, duties: Duties) -> Self {
        let by_id = servers.into_iter().map(|known| (known.at.server, known)).collect();
        Self { by_id: Arc::new(by_id), duties }
    }

    /// What a person has told the cell to do with them.
    pub(crate) fn duties(&self) -> &Duties {
        &self.duties
    }

    pub(super) fn duties_mut(&mut self) -> &mut Duties {
        &mut self.duties
    }

    /// What one holds of terms before this one may be of another history (R3); none where it is
    /// not known.
    pub(crate) fn since(&self, server: ServerId) -> Option<Term> {
        self.get(server).map(|known| known.since)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &KnownServer> {
        self.by_id.values()
    }

    pub(super) fn get(&self, server: ServerId) -> Option<&KnownServer> {
        self.by_id.get(&server)
    }

    /// Takes one in, or its new place; whether there was room for it (W2).
    pub(super) fn know(&mut self, at: &ReplicaAt, since: Term) -> bool {
        if self.by_id.len() >= SERVER_COUNT_MAX && !self.by_id.contains_key(&at.server) {
            return false;
        }
        Arc::make_mut(&mut self.by_id).insert(at.server, KnownServer { at: at.clone(), since });
        assert!(self.by_id.len() <= SERVER_COUNT_MAX, "no more than a cell may have (W2)");
        true
    }

    /// Whether it was known.
    pub(super) fn forget(&mut self, server: ServerId) -> bool {
        self.duties.forget(server);
        self.by_id.contains_key(&server) && Arc::make_mut(&mut self.by_id).remove(&server).is_some()
    }
}
