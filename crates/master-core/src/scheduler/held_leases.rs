//! What chunkservers tell of the leases that they hold (R21, R22).

use super::Scheduler;
use crate::rules::lease_upkeep::{Holder, adopted, may_extend};
use crate::step::ChunkStep;
use crate::told::of_lease;
use cairn_protocol::{HeldLease, Inventory};
use cairn_types::{ChunkHandle, ReplicaAt, ServerId, Time};

impl Scheduler {
    /// A server started anew.
    pub(crate) fn doubt_holder(&mut self, server: ServerId) {
        self.leases.doubt_holder(server);
    }

    /// Until when a process of that server may hold a lease, of this term or of an earlier one.
    pub(crate) fn may_hold_until(&self, server: ServerId) -> Time {
        let earlier = self.term.started + self.term.config.longest_lease();
        self.leases.held_until(server).map_or(earlier, |held| held.max(earlier))
    }

    /// The new life of a server has told all it holds: what the old one had confirmed and this one
    /// does not name is over. At another address the old process may still run, and its leases run
    /// out by themselves.
    pub(crate) fn end_former_leases(&mut self, at: &ReplicaAt, inventory: &Inventory) {
        self.leases.end_where(at.server, |lease| {
            let former = lease.incarnation != inventory.incarnation;
            let named = inventory.leases.iter().any(|held| held.lease == lease.id);
            former && !named && lease.confirmed && lease.holder.address == at.address
        });
    }

    /// Whether the handle is in the making (R33).
    pub(crate) fn makes(&self, handle: ChunkHandle) -> bool {
        self.places.underway().makes(handle)
    }

    /// Takes over a lease that an earlier term granted (R22).
    pub(crate) fn adopt(&mut self, step: &mut ChunkStep<'_>, holder: Holder, held: &HeldLease) {
        let lease = adopted(&self.view(step.now, step.state, step.fleet), holder, held);
        // What nobody could have granted is none.
        let Some(lease) = lease else { return };
        step.out.debug(|| of_lease("lease adopted", held.handle, &lease));
        self.leases.insert(held.handle, lease);
    }

    /// Lets a lease go on for a whole lease time, if it is in use and nothing speaks against it.
    pub(crate) fn extend(
        &mut self,
        step: &mut ChunkStep<'_>,
        holder: Holder,
        held: &HeldLease,
    ) -> bool {
        if step.state.chunk(held.handle).is_some() {
            self.leases.note_acknowledged(held.handle, (held.lease, holder.0), held.acknowledged);
        }
        let extends = may_extend(&self.view(step.now, step.state, step.fleet), holder, held);
        if extends {
            self.leases.serves_on(held.handle, held.lease);
            let until = step.now.time + self.term.config.lease();
            self.leases.extend(held.handle, step.now.time, until);
        }
        extends
    }
}
