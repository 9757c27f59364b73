//! Deleting a file takes its leases back (R20).

use super::lease_requests::is_live_file;
use super::leases::LeaseStatus;
use super::{Chunks, Pending};
use crate::state::State;
use crate::step::Step;
use cairn_protocol::{Failure, Response, RevokeLease};
use cairn_types::{Address, ChunkHandle, ChunkIndex, EntryId, EntryKind, LeaseId, ServerId};
use std::time::Duration;

impl Chunks {
    /// An entry was hidden: asks for the leases below it back. Whether the holders hear it or not,
    /// none of these leases is extended or handed out any more.
    pub(super) fn revoke_hidden(&mut self, step: &mut Step<'_>, entry: EntryId) {
        let hidden: Vec<(ChunkHandle, LeaseId, ServerId, Address)> = self
            .handles_below(step.state, entry)
            .filter_map(|handle| {
                let lease = self.leases.get(handle)?;
                let holder = &lease.holder;
                let serves = lease.status == LeaseStatus::Serving;
                serves.then(|| (handle, lease.id, holder.server, holder.address.clone()))
            })
            .collect();
        for (handle, lease, server, address) in hidden {
            self.leases.set_status(handle, lease, LeaseStatus::Doubted);
            let request = RevokeLease { term: self.term, handle, lease };
            // The holder answers when it has drained.
            let deadline = step.now.time + Duration::from_millis(self.config.lease_ms);
            let effect = step.out.call(address, server, request, deadline);
            self.calls.insert(effect, Pending::Revoke(handle, lease));
        }
    }

    /// The chunks of a hidden file; of a hidden directory, those of its files that have leases.
    fn handles_below<'a>(
        &'a self,
        state: &'a State,
        entry: EntryId,
    ) -> Box<dyn Iterator<Item = ChunkHandle> + 'a> {
        // Of most files nothing is leased, and nothing is to be found out then.
        let nothing = || Box::new(std::iter::empty());
        if self.leases.is_empty() {
            return nothing();
        }
        let record = state.entry(entry);
        let file = record.filter(|record| record.kind == EntryKind::File);
        if file.is_some_and(|file| file.chunk_count == 0) || is_live_file(state, entry) {
            // Without chunks; or restored since, or R20 is broken on purpose.
            return nothing();
        }
        if file.is_some() {
            return Box::new(state.chunks_of(entry, ChunkIndex::default()).map(|(_, at)| at));
        }
        Box::new(self.leases.iter().map(|(handle, _)| handle).filter(|handle| {
            let file = state.chunk(*handle).map(|chunk| chunk.file);
            file.is_some_and(|file| !is_live_file(state, file))
        }))
    }

    pub(super) fn on_revoked(
        &mut self,
        step: &mut Step<'_>,
        (handle, id): (ChunkHandle, LeaseId),
        result: Result<Response, Failure>,
    ) {
        let Ok(Response::RevokeLease(answer)) = result else { return };
        let Some(lease) = self.leases.get(handle).filter(|lease| lease.id == id) else { return };
        let server = lease.holder.server;
        self.note_replica(step, handle, server, &answer.replica);
        self.leases.remove(handle);
        self.locations.quiet_since(handle, step.now.time);
    }
}
