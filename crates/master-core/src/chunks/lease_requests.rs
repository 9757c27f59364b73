//! A client's request for a lease: answered at once, or taken into a job (Figure 2, steps 1 and 2).
//!
//! ```text
//!   Lease ─► does a lease serve? ─yes─► does the client doubt its primary? ─no─► ChunkGrant
//!                  │ no                          │ yes
//!                  ▼                             ▼
//!              join the place's job         probe the primary
//! ```
//! - Q1: only the master declares a primary failed, after a probe of its own (R18).
//! - Q2: appends go to the last chunk, and to the next place as soon as that is being closed.

use super::jobs::{Job, Phase, Waiter, Wish, no_file};
use super::leases::{Lease, LeaseStatus};
use super::{Chunks, Pending, Place};
use crate::state::{ChunkRecord, State};
use crate::step::Step;
use cairn_env::EffectId;
use cairn_protocol::{
    ChunkGrant, ErrorCode, Failure, Lease as LeaseRequest, LeasePurpose, Probe, Response,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, ReplicaAt};
use std::time::Duration;

impl Chunks {
    /// Answers a wish for a lease, or takes it into the job that will.
    pub(super) fn serve(&mut self, step: &mut Step<'_>, waiter: Waiter) {
        let Wish::Lease(request) = &waiter.wish else { return };
        let file = request.file;
        if !is_live_file(step.state, file) {
            step.out.reply(waiter.from, Err(no_file((file, request.index))));
            return;
        }
        let place = (file, self.index_wanted(step.state, request));
        let Some(handle) = step.state.chunk_at(file, place.1) else {
            if request.purpose == LeasePurpose::Level {
                let line = format!("chunk {} of file {} is a hole", place.1, file.short());
                let failure = Failure::refused(ErrorCode::NoSuchChunk, line);
                step.out.reply(waiter.from, Err(failure));
                return;
            }
            return self.join_job(step, place, waiter);
        };
        let Some(grant) = self.present_grant(step, handle, request.purpose) else {
            return self.join_job(step, place, waiter);
        };
        let doubted = request.failed == grant.primary.server
            && (request.failed_version == grant.version || request.failed_version.is_none());
        if doubted {
            return self.probe(step, place, handle, waiter);
        }
        step.out.reply(waiter.from, Ok(Response::Lease(grant)));
    }

    /// An append goes to the last chunk, or to the one after it where that is closed or being so.
    fn index_wanted(&self, state: &State, request: &LeaseRequest) -> ChunkIndex {
        if request.purpose != LeasePurpose::Append {
            return request.index;
        }
        let Some((last, handle)) = state.last_chunk(request.file) else {
            return ChunkIndex::default();
        };
        let closed = state.chunk(handle).is_none_or(|chunk| chunk.closed);
        match self.later_job((request.file, last)) {
            Some(later) => later,
            None if closed => last.next(),
            None => last,
        }
    }

    /// The next place of the file that a job is at work on: where it makes a chunk, the present
    /// last one is about to be closed.
    pub(super) fn later_job(&self, place: Place) -> Option<ChunkIndex> {
        let later = (place.0, place.1.next())..=(place.0, ChunkIndex::new(u64::MAX));
        self.jobs.range(later).next().map(|((_, index), _)| *index)
    }

    /// The grant that a client can be given at once.
    fn present_grant(
        &self,
        step: &Step<'_>,
        handle: ChunkHandle,
        purpose: LeasePurpose,
    ) -> Option<ChunkGrant> {
        let lease = self.leases.serving(handle, step.now.time)?;
        let chunk = step.state.chunk(handle)?;
        // Whether a lease of an earlier term takes appends is not known: they get a fresh one.
        if purpose == LeasePurpose::Append && (!lease.takes_appends || lease.adopted) {
            return None;
        }
        let secondaries = self.secondaries_of(handle, lease, &chunk)?;
        Some(ChunkGrant {
            index: chunk.index,
            handle,
            version: lease.version,
            lease: lease.id,
            primary: lease.holder.clone(),
            secondaries,
        })
    }

    /// The holder's secondaries. Under a lease from an earlier term: whoever stands at the logged
    /// version, once all of them have told (R8: nobody else ever saw it).
    pub(super) fn secondaries_of(
        &self,
        handle: ChunkHandle,
        lease: &Lease,
        chunk: &ChunkRecord,
    ) -> Option<Vec<ReplicaAt>> {
        if let Some(secondaries) = &lease.secondaries {
            return Some(secondaries.clone());
        }
        let others = self.locations.of(handle).filter(|(server, replica)| {
            replica.version == lease.version && *server != lease.holder.server
        });
        let others: Vec<ReplicaAt> =
            others.filter_map(|(server, _)| self.servers.at(server).cloned()).collect();
        (others.len() + 1 == chunk.set_size as usize).then_some(others)
    }

    /// Asks a doubted primary, unless something is under way already (N2).
    fn probe(&mut self, step: &mut Step<'_>, place: Place, handle: ChunkHandle, waiter: Waiter) {
        if self.jobs.contains_key(&place) || self.is_taken(place, handle) {
            return self.join_job(step, place, waiter);
        }
        let Some(lease) = self.leases.get(handle) else { return };
        let request = Probe { term: self.term, handle, lease: lease.id };
        let deadline = step.now.time + Duration::from_millis(2 * self.config.heartbeat_ms);
        let holder = lease.holder.clone();
        let effect = step.out.call(holder.address, holder.server, request, deadline);
        self.calls.insert(effect, Pending::Probe(place));
        let mut job = Job::new(step.now.time, Phase::Probing { effect, handle });
        job.waiters.push(waiter);
        self.jobs.insert(place, job);
    }

    pub(super) fn on_probe_answer(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        id: EffectId,
        result: Result<Response, Failure>,
    ) {
        let Some(job) = self.jobs.get(&place) else { return };
        let Phase::Probing { effect, handle } = job.phase else { return };
        if effect != id {
            return;
        }
        let lease = self.leases.get(handle).map(|lease| lease.id).unwrap_or_default();
        match result {
            Ok(Response::Probe(answer)) if answer.holds => return self.finish(step, place),
            Ok(Response::Probe(_)) => self.leases.set_status(handle, lease, LeaseStatus::Over),
            _ => self.leases.set_status(handle, lease, LeaseStatus::Doubted),
        }
        self.wait(place, "the primary does not answer as such".to_owned());
        self.advance(step, place);
    }
}

/// A file that is there and not hidden (R20).
pub(super) fn is_live_file(state: &State, file: EntryId) -> bool {
    let there = state.entry(file).is_some_and(|entry| entry.kind == EntryKind::File);
    there && (!state.is_hidden(file) || broken(Rule::R20))
}
