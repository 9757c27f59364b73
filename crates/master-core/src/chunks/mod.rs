//! Everything about chunkservers, replicas and leases: the master's soft state (design §4, §6, §9).
//!
//! ```text
//!   Lease, ChunkClosed, SecondaryFailed ──► one job per chunk ──► Raise · record · GrantLease
//!   Join, Inventory, Heartbeat ──► servers, locations, leases ──► extensions, garbage, rejoin
//! ```
//! - K1: nothing here is logged but through a record; all of it can be lost at any time, and is
//!   told anew by chunkservers (A10).
//! - K2: at most one raise of a chunk is under way (one job per place, and a fence looks).
//! - K3: a handle is *in the making* from before the first server hears of it until its record is
//!   applied or given up (R33).
//!
//! Knows the applied state, never changes it but by proposing records.

mod append_chunks;
mod bad_blocks;
mod close;
mod decided_set;
mod explain;
mod garbage;
mod grants;
mod jobs;
mod joining;
mod lease_requests;
mod leases;
mod lengths;
mod locations;
mod placement;
mod raise;
mod reading;
mod replica_set;
mod revoke;
mod servers;
mod shrink;
mod unknown_chunks;
mod wanted;

use crate::applied::{Applied, EntryMoved};
use crate::outbox::ProposalId;
use crate::step::Step;
use bad_blocks::Hints;
use cairn_env::{Caller, EffectId};
use cairn_protocol::{ChunkserverToMaster, Failure, Lease, ReportBadBlock, Response};
use cairn_types::planted::{Rule, broken};
use cairn_types::{
    CellConfig, ChunkHandle, ChunkIndex, EntryId, LeaseId, Random, ServerId, Term, Time,
};
use jobs::{Job, Waiter};
use leases::{LeaseStatus, Leases};
use locations::Locations;
use servers::Servers;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use unknown_chunks::UnknownChunks;
use wanted::Wanted;

/// A chunk's place in a file; jobs go by it, because a chunk that is being made has no handle yet.
type Place = (EntryId, ChunkIndex);

/// What a call that is on its way was for.
#[derive(Debug)]
enum Pending {
    Raise(Place, ServerId),
    Probe(Place),
    Grant(Place),
    /// A probe to learn how a replica stands that refused a raise.
    Refresh(ChunkHandle, ServerId),
    Revoke(ChunkHandle, LeaseId),
    Length(lengths::Asker),
}

/// What a record that is on its way was for.
#[derive(Debug)]
enum Proposed {
    /// A step of the job of this place.
    Job(Place),
    /// A recorded length, and who waits for it.
    Length(Option<lengths::Asker>),
}

/// The soft state of one term.
#[derive(Debug)]
pub(crate) struct Chunks {
    term: Term,
    random: Random,
    config: CellConfig,
    /// When this term began to be served.
    started: Time,
    servers: Servers,
    locations: Locations,
    leases: Leases,
    jobs: BTreeMap<Place, Job>,
    /// Handles in the making (K3).
    making: BTreeSet<ChunkHandle>,
    /// Chunks that this term has fenced, so that no former holder acknowledges appends (R18).
    fenced: BTreeSet<ChunkHandle>,
    /// What servers hold that no record knows.
    unknown: UnknownChunks,
    /// What somebody waits for while servers tell what they hold.
    wanted: Wanted,
    /// Bad blocks that clients reported.
    hints: Hints,
    calls: BTreeMap<EffectId, Pending>,
    proposals: BTreeMap<ProposalId, Proposed>,
    tick: Option<EffectId>,
}

impl Chunks {
    pub(crate) fn new(term: Term, random: Random) -> Self {
        Self {
            term,
            random,
            config: CellConfig::default(),
            started: Time::default(),
            servers: Servers::default(),
            locations: Locations::default(),
            leases: Leases::default(),
            jobs: BTreeMap::new(),
            making: BTreeSet::new(),
            fenced: BTreeSet::new(),
            unknown: UnknownChunks::default(),
            wanted: Wanted::default(),
            hints: Hints::default(),
            calls: BTreeMap::new(),
            proposals: BTreeMap::new(),
            tick: None,
        }
    }

    /// A record of this term is applied: from here on requests come, and time counts.
    pub(crate) fn on_term_begins(&mut self, step: &mut Step<'_>) {
        self.started = step.now.time;
        self.config = step.state.config().clone();
        self.servers.configure(&self.config);
        self.schedule_tick(step);
    }

    fn schedule_tick(&mut self, step: &mut Step<'_>) {
        let pause = Duration::from_millis(self.config.heartbeat_ms.div_ceil(2));
        self.tick = Some(step.out.wake(step.now.time + pause));
    }

    /// A client wants a lease.
    pub(crate) fn on_lease(&mut self, step: &mut Step<'_>, from: Caller, request: Lease) {
        let since = step.now.time;
        self.serve(step, Waiter::client(from, since, request));
    }

    /// A reader met bytes that fail their checksum (R31).
    pub(crate) fn on_report_bad_block(&mut self, hint: &ReportBadBlock) {
        // Of a replica that nobody knows of, a hint is of no use to anybody.
        if self.locations.get(hint.handle, hint.server).is_some() {
            self.hints.note(hint);
        }
    }

    /// Takes what a chunkserver says.
    pub(crate) fn on_chunkserver(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        request: ChunkserverToMaster,
    ) {
        let answer = match request {
            ChunkserverToMaster::SecondaryFailed(request) => {
                return self.on_secondary_failed(step, from, &request);
            }
            ChunkserverToMaster::ChunkClosed(request) => {
                return self.on_chunk_closed(step, from, &request);
            }
            ChunkserverToMaster::Join(join) => self.on_join(step, &join).map(Response::Join),
            ChunkserverToMaster::Inventory(inventory) => {
                self.on_inventory(step, &inventory).map(Response::Inventory)
            }
            ChunkserverToMaster::Heartbeat(beat) => {
                self.on_heartbeat(step, &beat).map(Response::Heartbeat)
            }
        };
        step.out.reply(from, answer);
    }

    /// A call is answered, or its fate is known to be unknown.
    pub(crate) fn on_answer(
        &mut self,
        step: &mut Step<'_>,
        id: EffectId,
        result: Result<Response, Failure>,
    ) {
        match self.calls.remove(&id) {
            Some(Pending::Raise(place, server)) => {
                let result = result.map(|response| match response {
                    Response::Raise(answer) => answer.replica,
                    _ => cairn_protocol::ReplicaReport::default(),
                });
                self.on_raise_answer(step, place, (id, server), result);
            }
            Some(Pending::Probe(place)) => self.on_probe_answer(step, place, id, result),
            Some(Pending::Grant(place)) => self.on_grant_answer(step, place, id, result),
            Some(Pending::Refresh(handle, server)) => {
                if let Ok(Response::Probe(answer)) = result {
                    self.note_replica(step, handle, server, &answer.replica);
                }
            }
            Some(Pending::Revoke(handle, lease)) => self.on_revoked(step, (handle, lease), result),
            Some(Pending::Length(asker)) => self.on_length(step, asker, result),
            None => {}
        }
    }

    /// Time has passed.
    pub(crate) fn on_wake(&mut self, step: &mut Step<'_>, id: EffectId) {
        if self.tick != Some(id) {
            return;
        }
        self.schedule_tick(step);
        for server in self.servers.bury(step.now.time) {
            self.locations.remove_server(server);
            self.unknown.remove_server(server);
            if broken(Rule::R6) {
                // R6 broken: dead comes before the end of the lease, yet counts as its end.
                for (handle, lease) in self.leases_of(server) {
                    self.leases.set_status(handle, lease.id, LeaseStatus::Over);
                }
            }
        }
        self.locations.sweep_some();
        self.forget_wanted(step.now.time);
        for (handle, lease) in self.leases.expire(step.now.time) {
            self.locations.quiet_since(handle, step.now.time);
            self.record_end_of_lease(step, handle, &lease);
        }
        self.go_on_waiting(step);
    }

    /// A record is applied, of this term or an earlier one.
    pub(crate) fn on_applied(
        &mut self,
        step: &mut Step<'_>,
        proposal: ProposalId,
        applied: &Applied,
    ) {
        match applied {
            Applied::EntryHidden(hidden) => self.revoke_hidden(step, hidden.id),
            Applied::EntryMoved(EntryMoved { replaced: Some(file) }) => {
                self.revoke_hidden(step, *file);
            }
            _ => {}
        }
        match self.proposals.remove(&proposal) {
            Some(Proposed::Job(place)) => self.on_job_applied(step, place, applied),
            Some(Proposed::Length(Some(asker))) => self.on_length_applied(step, &asker),
            Some(Proposed::Length(None)) | None => {}
        }
    }
}

#[cfg(test)]
mod chaos_tests;
#[cfg(test)]
mod test_world;
#[cfg(test)]
mod tests;
