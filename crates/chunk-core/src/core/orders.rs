//! What a master orders: raises, leases, copies.

use super::ChunkCore;
use crate::assembling::sources_here;
use crate::local_copies::source_of;
use crate::outbox::DiskPurpose;
use crate::replica_change::WaitingChange;
use cairn_env::{Caller, Now};
use cairn_protocol::{ErrorCode, Failure, MasterToChunkserver};
use cairn_types::{ServerId, Term};

impl ChunkCore {
    /// A master's order, once it may give it: its term, and the server that is meant (R2, R5).
    pub(super) fn on_order(
        &mut self,
        now: Now,
        from: Caller,
        order: MasterToChunkserver,
    ) -> Result<(), Failure> {
        match order {
            MasterToChunkserver::Raise(raise) => {
                self.obey(raise.term, raise.server)?;
                let raise = self.clones.adopt(&mut self.table, raise)?;
                if raise.create {
                    self.table.create(raise.handle)?;
                }
                let (replica, mut cx) = self.replica_asked_for(now, raise.handle)?;
                replica.enqueue(&mut cx, from, WaitingChange::Raise(raise));
            }
            MasterToChunkserver::GrantLease(grant) => {
                self.obey(grant.term, grant.server)?;
                let (replica, mut cx) = self.replica_asked_for(now, grant.handle)?;
                replica.enqueue(&mut cx, from, WaitingChange::Grant(Box::new(grant)));
            }
            MasterToChunkserver::RevokeLease(revoke) => {
                self.obey(revoke.term, self.me.at.server)?;
                let (replica, mut cx) = self.replica_asked_for(now, revoke.handle)?;
                replica.on_revoke(&mut cx, from, &revoke);
            }
            MasterToChunkserver::Probe(probe) => {
                self.obey(probe.term, self.me.at.server)?;
                let (replica, mut cx) = self.replica_asked_for(now, probe.handle)?;
                replica.on_probe(&mut cx, from, &probe);
            }
            MasterToChunkserver::CloneChunk(clone) => {
                self.obey(clone.term, clone.server)?;
                self.table.check_absent(clone.handle)?;
                self.with_clones(now, |clones, cx| clones.order(cx, from, clone))?;
            }
            MasterToChunkserver::CopyChunk(copy) => {
                self.obey(copy.term, copy.server)?;
                let source = source_of(&self.table, &copy)?;
                self.with_clones(now, |clones, cx| clones.copy(cx, from, (copy, &source)))?;
            }
            MasterToChunkserver::AssembleChunk(order) => {
                self.obey(order.term, order.server)?;
                self.table.check_absent(order.handle)?;
                let here = sources_here(&self.table, &order);
                self.with_clones(now, |clones, cx| clones.assemble(cx, from, (order, here)))?;
            }
            MasterToChunkserver::DropClone(drop) => {
                self.obey(drop.term, drop.server)?;
                let (purpose, why) = (DiskPurpose::CloneDropped(from), "its master gave it up");
                self.clones.give_up(&mut self.out, drop.handle, purpose, why);
            }
        }
        Ok(())
    }

    fn obey(&mut self, term: Term, server: ServerId) -> Result<(), Failure> {
        check_meant(self.me.at.server, server)?;
        self.link.obey_term(term, &mut self.out)
    }
}

/// Whether this server is the one that is meant (R5).
fn check_meant(me: ServerId, server: ServerId) -> Result<(), Failure> {
    if server == me {
        return Ok(());
    }
    let line = format!("server {server} is meant, this is {me}");
    Err(Failure::refused(ErrorCode::WrongServer, line))
}
