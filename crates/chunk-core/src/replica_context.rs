//! What a decision about a replica may look at besides the replica, and where its effects go.

use crate::outbox::{CallPurpose, Outbox, ReplicaCall};
use crate::standing::Standing;
use cairn_protocol::Request;
use cairn_types::planted::{Rule, broken};
use cairn_types::{Address, CellConfig, ChunkHandle, Incarnation, ReplicaAt, ServerId, Time};
use std::time::Duration;

pub(crate) struct ReplicaContext<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a CellConfig,
    pub(crate) out: &'a mut Outbox,
    /// This server.
    pub(crate) me: &'a ReplicaAt,
    /// This life of it (R5).
    pub(crate) incarnation: Incarnation,
    /// The primary master, as far as known.
    pub(crate) master: &'a Address,
    /// Whether it would hear if a set went on without it.
    pub(crate) standing: Standing,
    /// Clients are busy with this server.
    pub(crate) clients_busy: bool,
}

impl ReplicaContext<'_> {
    /// How long a replica may take before it counts as failed.
    pub(crate) fn replica_deadline(&self) -> Time {
        self.now + Duration::from_millis(self.config.silent_ms)
    }

    /// How long the master may take to ask the replicas of a set before it answers.
    pub(crate) fn raise_deadline(&self) -> Time {
        self.replica_deadline() + Duration::from_millis(self.config.silent_ms)
    }

    /// Until when a lease lasts for its holder that counts from `since` on (R4).
    pub(crate) fn holder_expiry(&self, since: Time) -> Time {
        if broken(Rule::R4) {
            self.now + 3 * self.config.lease()
        } else {
            since + self.config.lease_of_holder()
        }
    }

    /// Asks the master something about `handle`.
    pub(crate) fn call_master(
        &mut self,
        handle: ChunkHandle,
        what: ReplicaCall,
        request: impl Into<Request>,
        deadline: Time,
    ) {
        let purpose = CallPurpose::Replica(handle, what);
        self.out.call(purpose, self.master.clone(), ServerId::default(), request, deadline);
    }
}
