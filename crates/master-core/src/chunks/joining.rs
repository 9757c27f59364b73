//! What chunkservers say by themselves: joining, inventories, heartbeats (§2.6.2, §3.1).
//!
//! ```text
//!   Join ─┬─► Inventory 0 ─► Inventory 1 ─► … ─► Inventory{last}
//!     ▲   └─► Heartbeat ─► Heartbeat ─► Heartbeat ─► …
//!     └──────────────────────────────────── │ rejoin (unknown, dead, other incarnation)
//! ```
//! - J1: a server that has obeyed a later term, or heard of its numbers, is not this master's to
//!   command: this master is the past (R1, R3). So is one that has heard of a number of this very
//!   term which this master has not given out: there was another master of this term.
//! - J2: a lease of an earlier term goes on if its holder tells of it before anybody else got one
//!   (R22); only while it is told is it extended.
//! - J3: until the last slice of its inventory a server may hold what it has not told of: nothing
//!   is concluded from its silence about a chunk. Slices count in the order of their numbers, each
//!   once, and only those of its present join.
//! - J4: the next slice is sent when this one is answered. So each server has one slice waiting
//!   here, and where there are many servers each pauses between its slices.

use super::Chunks;
use super::leases::{Lease, LeaseStatus};
use crate::step::Step;
use cairn_protocol::{
    ErrorCode, Failure, Heartbeat, HeartbeatAnswer, HeldLease, Inventory, InventoryAnswer, Join,
    JoinAnswer, ReplicaReport,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, Incarnation, ServerId, Term};

/// Servers that may send slices as fast as they are answered; where there are more of them, each
/// pauses, so that so many slices come in a millisecond (J4).
const SLICES_AT_ONCE: usize = 16;
const SLICES_PER_MS: u64 = 2;

impl Chunks {
    pub(super) fn on_join(
        &mut self,
        step: &mut Step<'_>,
        join: &Join,
    ) -> Result<JoinAnswer, Failure> {
        let cell = step.state.cell();
        if !join.cell.is_none() && join.cell != cell {
            let line = format!(
                "server {} belongs to cell {}, this is cell {cell}; start it with an empty data \
                 directory, or point it at its own cell",
                join.at.server, join.cell
            );
            return Err(Failure::refused(ErrorCode::WrongCell, line));
        }
        let newest = join.term.max(join.highest_handle.term()).max(join.highest_version.term());
        self.check_term(newest, join.at.server)?;
        check_numbers(step, join)?;
        let former = self.servers.get(join.at.server).cloned();
        let id = step.numbers.join();
        self.servers.join(step.now.time, join, id)?;
        self.locations.remove_server(join.at.server);
        self.unknown.remove_server(join.at.server);
        if let Some(former) = former
            && former.incarnation != join.incarnation
        {
            self.doubt_holder(join.at.server);
        }
        let config = step.state.config().clone();
        Ok(JoinAnswer { term: self.term, cell, config, join: id })
    }

    /// J1. A group of one cannot win back a term that it does not remember.
    fn check_term(&self, heard: Term, server: ServerId) -> Result<(), Failure> {
        if heard <= self.term || broken(Rule::R1) {
            return Ok(());
        }
        let line = format!(
            "server {server} has obeyed a master of term {heard}, this one is of term {}: was the \
             master started from an old copy of its directory? start the newer one",
            self.term
        );
        Err(Failure::not_done(ErrorCode::NotPrimaryMaster, line))
    }

    /// A server started anew: what it held before, it holds no more. But a grant that is on its
    /// way may have reached its new life, so nothing is certain until that has told what it holds.
    fn doubt_holder(&mut self, server: ServerId) {
        for (handle, lease) in self.leases_of(server) {
            self.leases.set_status(handle, lease.id, LeaseStatus::Doubted);
        }
    }

    pub(super) fn leases_of(&self, server: ServerId) -> Vec<(ChunkHandle, Lease)> {
        let held = self.leases.iter().filter(|(_, lease)| lease.holder.server == server);
        held.map(|(handle, lease)| (handle, lease.clone())).collect()
    }

    /// The new life of a server has told all it holds: what the old one had confirmed and this one
    /// does not name is over. At another address the old process may still run, and its leases run
    /// out by themselves.
    fn end_former_leases(&mut self, inventory: &Inventory) {
        let Some(server) = self.servers.get(inventory.server) else { return };
        let address = server.at.address.clone();
        for (handle, lease) in self.leases_of(inventory.server) {
            let former = lease.incarnation != inventory.incarnation;
            let named = inventory.leases.iter().any(|held| held.lease == lease.id);
            if former && !named && lease.confirmed && lease.holder.address == address {
                self.leases.set_status(handle, lease.id, LeaseStatus::Over);
            }
        }
    }

    pub(super) fn on_inventory(
        &mut self,
        step: &mut Step<'_>,
        inventory: &Inventory,
    ) -> Result<InventoryAnswer, Failure> {
        let now = step.now.time;
        let id = inventory.server;
        let Some(server) = self.servers.present(id, inventory.incarnation) else {
            let line = format!("server {id} must join before it tells what it holds");
            return Err(Failure::not_done(ErrorCode::Busy, line));
        };
        if server.join != inventory.join || inventory.number > server.slices {
            let line = format!("server {id} has joined anew since: this is an older inventory");
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        server.heard = now;
        if inventory.number == server.slices {
            server.slices += 1;
            if inventory.last {
                server.inventoried = Some(now);
            }
            self.take_reports(step, id, &inventory.replicas.0);
            for held in &inventory.leases {
                self.adopt(step, (id, inventory.incarnation), held);
            }
            if inventory.last {
                self.end_former_leases(inventory);
            }
        }
        let pause = self.servers.telling_count().saturating_sub(SLICES_AT_ONCE);
        let pause_ms = pause as u64 / SLICES_PER_MS;
        let server = self.servers.present(id, inventory.incarnation);
        let wanted = server.map(|server| self.wanted.next(&mut server.asked)).unwrap_or_default();
        Ok(InventoryAnswer { wanted, pause_ms })
    }

    /// Takes in what a server answered of its replica of a chunk; nothing, where that is another's,
    /// or the table has no such chunk (L6 of the locations). Whether it is of that chunk, and the
    /// table has it.
    pub(super) fn note_replica(
        &mut self,
        step: &Step<'_>,
        handle: ChunkHandle,
        server: ServerId,
        report: &ReplicaReport,
    ) -> bool {
        let reports = std::slice::from_ref(report);
        report.handle == handle && self.report_all(step, server, reports).is_empty()
    }

    /// Takes in what a server says of its replicas, which mostly come in handle order.
    fn take_reports(&mut self, step: &Step<'_>, server: ServerId, reports: &[ReplicaReport]) {
        for report in self.report_all(step, server, reports) {
            if !self.making.contains(&report.handle) {
                self.unknown.note(server, report);
            }
        }
    }

    /// The same; answers those of chunks that the table has not.
    fn report_all<'a>(
        &mut self,
        step: &Step<'_>,
        server: ServerId,
        reports: &'a [ReplicaReport],
    ) -> Vec<&'a ReplicaReport> {
        let table = |handles| step.state.chunks_among(handles);
        self.locations.report_all(step.now.time, server, reports, table)
    }

    pub(super) fn on_heartbeat(
        &mut self,
        step: &mut Step<'_>,
        beat: &Heartbeat,
    ) -> Result<HeartbeatAnswer, Failure> {
        self.check_term(beat.term, beat.server)?;
        let now = step.now.time;
        let Some(server) = self.servers.present(beat.server, beat.incarnation) else {
            return Ok(HeartbeatAnswer {
                term: self.term,
                rejoin: true,
                ..HeartbeatAnswer::default()
            });
        };
        server.heard = now;
        server.capacity = beat.capacity;
        server.used = beat.used;
        server.creations /= 2;
        self.take_reports(step, beat.server, &beat.held);
        for handle in &beat.damaged {
            self.locations.mark_damaged(*handle, beat.server);
        }
        let holder = (beat.server, beat.incarnation);
        let mut extended = Vec::new();
        for held in &beat.leases {
            self.adopt(step, holder, held);
            if self.extend(step, holder, held) {
                extended.push(held.lease);
            }
        }
        let garbage = beat.held.iter().filter(|report| self.is_garbage(step, report));
        let garbage = garbage.map(super::garbage::named).collect();
        let verify = self.hints.take(beat.server);
        Ok(HeartbeatAnswer { term: self.term, extended, garbage, rejoin: false, verify })
    }

    /// Lets a lease go on for a whole lease time, if it is in use and nothing speaks against it.
    fn extend(
        &mut self,
        step: &Step<'_>,
        (server, incarnation): (ServerId, Incarnation),
        held: &HeldLease,
    ) -> bool {
        let now = step.now.time;
        let Some(chunk) = step.state.chunk(held.handle) else { return false };
        let place = (chunk.file, chunk.index);
        let shrinking = self.jobs.get(&place).is_some_and(super::jobs::Job::shrinks);
        let raising = self.jobs.get(&place).is_some_and(|job| job.phase.handle().is_some());
        let free = shrinking || !(raising || self.is_taken(place, held.handle));
        let hidden = step.state.is_hidden(chunk.file) && !broken(Rule::R20);
        let until = now + self.config.lease();
        let Some(lease) = self.leases.get_mut(held.handle) else { return false };
        if lease.id != held.lease || lease.holder.server != server {
            return false;
        }
        lease.acknowledged = lease.acknowledged.max(held.acknowledged);
        // G3: a live lease, this version of it, this life of its holder.
        let same = (lease.version == held.version || shrinking) && lease.incarnation == incarnation;
        if !(lease.serves(now) && same && held.wanted && free && !hidden) {
            return false;
        }
        lease.until = until;
        true
    }

    /// Takes over a lease that an earlier term granted (J2).
    fn adopt(
        &mut self,
        step: &Step<'_>,
        (server, incarnation): (ServerId, Incarnation),
        held: &HeldLease,
    ) {
        let Some(chunk) = step.state.chunk(held.handle) else { return };
        let place = (chunk.file, chunk.index);
        let busy = self.jobs.get(&place).is_some_and(|job| job.phase.handle().is_some());
        let known = self.leases.get(held.handle).is_some()
            || self.fenced.contains(&held.handle)
            || busy
            || self.is_taken(place, held.handle);
        let earlier = held.lease.term() < self.term && chunk.version == held.version;
        if known || !earlier || step.state.is_hidden(chunk.file) {
            return;
        }
        let Some(holder) = self.servers.at(server).cloned() else { return };
        let now = step.now.time;
        let lease = Lease {
            id: held.lease,
            version: held.version,
            holder,
            incarnation,
            secondaries: None,
            granted: now,
            until: now + self.config.lease(),
            status: LeaseStatus::Serving,
            confirmed: true,
            takes_appends: !chunk.closed,
            adopted: true,
            acknowledged: held.acknowledged,
        };
        self.leases.insert(held.handle, lease);
    }
}

/// J1: numbers of this term come from here alone.
fn check_numbers(step: &Step<'_>, join: &Join) -> Result<(), Failure> {
    let handles = join.highest_handle <= step.numbers.last_handle();
    let versions = join.highest_version <= step.numbers.last_version();
    if (handles && versions) || broken(Rule::R1) {
        return Ok(());
    }
    let line = format!(
        "server {} knows of numbers that this master has not given out yet: was the master \
         started from an old copy of its directory? start the newer one",
        join.at.server
    );
    Err(Failure::not_done(ErrorCode::NotPrimaryMaster, line))
}
