//! Deleting a file takes its leases back (R20).

use super::leases::Standing;
use super::{Chunks, Pending};
use crate::step::Step;
use cairn_protocol::{Failure, Response, RevokeLease};
use cairn_types::{Address, ChunkHandle, LeaseId, ServerId};
use std::time::Duration;

impl Chunks {
    /// A name was hidden: asks for the leases below it back. Whether the holders hear it or not,
    /// none of these leases is extended or handed out any more.
    pub(super) fn revoke_hidden(&mut self, step: &mut Step<'_>) {
        let hidden: Vec<(ChunkHandle, LeaseId, ServerId, Address)> = self
            .leases
            .iter()
            .filter(|(handle, lease)| {
                let file = step.state.chunk(*handle).map(|chunk| chunk.file);
                lease.standing == Standing::Serving
                    && file
                        .is_some_and(|file| !super::lease_requests::is_live_file(step.state, file))
            })
            .map(|(handle, lease)| {
                (handle, lease.id, lease.holder.server, lease.holder.address.clone())
            })
            .collect();
        for (handle, lease, server, address) in hidden {
            self.leases.judge(handle, lease, Standing::Doubted);
            let request = RevokeLease { term: self.term, handle, lease };
            // The holder answers when it has drained.
            let deadline = step.now.time + Duration::from_millis(self.config.lease_ms);
            let effect = step.out.call(address, server, request, deadline);
            self.calls.insert(effect, Pending::Revoke(handle, lease));
        }
    }

    pub(super) fn on_revoked(
        &mut self,
        step: &mut Step<'_>,
        (handle, id): (ChunkHandle, LeaseId),
        result: Result<Response, Failure>,
    ) {
        let Ok(Response::RevokeLease(answer)) = result else { return };
        let Some(lease) = self.leases.get(handle).filter(|lease| lease.id == id) else { return };
        self.locations.report(step.now.time, lease.holder.server, &answer.replica);
        self.leases.remove(handle);
        self.locations.quiet_since(handle, step.now.time);
    }
}
