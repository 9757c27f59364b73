//! Granting leases: raise, log, grant (§3.1; R7, R8, R29).
//!
//! ```text
//!   may the set be raised? ─yes─► Raise all ─► SetVersion ─► GrantLease ─► waiters are answered
//!            │ no
//!            └─► append: close and go on in the next chunk;  write: wait
//! ```
//! - N1: a version is logged only when every replica asked stands at it (R8) and they may be a set
//!   (`replica_set.rs`); only then does anybody get the lease.

use super::decided_set::Decision;
use super::jobs::{Phase, no_file};
use super::lease_requests::is_live_file;
use super::leases::{Lease, LeaseStatus};
use super::locations::{Replica, behind};
use super::raise::{Member, Raise, RaiseKind, Raised, again};
use super::replica_set::{Blocked, least_set};
use super::{Chunks, Pending, Place, Proposed};
use crate::applied::Applied;
use crate::record::SetVersion;
use crate::state::EntryRecord;
use crate::step::Step;
use cairn_env::EffectId;
use cairn_protocol::{ErrorCode, Failure, GrantLease, Outcome, Probe, ReplicaReport, Response};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, Content, LeaseId, ReplicaAt, ServerId};
use std::cmp::Reverse;
use std::time::Duration;

impl Chunks {
    /// Takes the next step of a job that waits.
    pub(super) fn advance(&mut self, step: &mut Step<'_>, place: Place) {
        let waits = self.jobs.get(&place).is_some_and(|job| matches!(job.phase, Phase::Waiting(_)));
        if !waits {
            return;
        }
        if !is_live_file(step.state, place.0) {
            return self.fail_job(step, place, &no_file(place));
        }
        match step.state.chunk_at(place.0, place.1) {
            Some(handle) => self.advance_existing(step, place, handle),
            None => self.advance_missing(step, place),
        }
    }

    fn advance_existing(&mut self, step: &mut Step<'_>, place: Place, handle: ChunkHandle) {
        let (Some(chunk), Some(job)) = (step.state.chunk(handle), self.jobs.get(&place)) else {
            return;
        };
        let appends = job.appends();
        if (appends && chunk.closed) || !job.wants_lease() {
            return self.finish(step, place);
        }
        if self.is_taken(place, handle) {
            return self.wait(place, "the chunk is being closed".to_owned());
        }
        let lease = self.leases.possible(handle, step.now.time);
        if appends && lease.is_some_and(|lease| lease.status == LeaseStatus::Doubted) {
            return self.go_on_in_next(step, place);
        }
        let decided = self.decide(step.now.time, handle, &chunk) != Decision::NotNeeded;
        if appends && decided && !broken(Rule::R11) {
            return self.go_on_in_next(step, place);
        }
        let has_mark = self.current(handle, &chunk).any(|(_, replica)| replica.closed);
        match self.plan_raise(step.now.time, handle, &chunk) {
            // A primary closed it and its word was lost: no append lease any more (R18).
            Ok(_) if appends && has_mark => self.go_on_in_next(step, place),
            Ok(members) => self.start_raise(step, place, handle, members),
            Err(blocked) if appends && !self.bears_a_wait(step, place, &blocked) => {
                self.go_on_in_next(step, place);
            }
            Err(blocked) => {
                self.want(step.now.time, handle);
                self.wait(place, blocked.why);
            }
        }
    }

    /// Whether appends wait where the chunk is blocked, rather than go on in the next one. What
    /// is left of this one then reads as zeros: record readers skip them, but a file of bytes has
    /// a hole that nobody meant. So there a server that is late with its heartbeat is waited for.
    fn bears_a_wait(&self, step: &Step<'_>, place: Place, blocked: &Blocked) -> bool {
        let of_bytes = |file: EntryRecord| file.content == Content::Bytes;
        // Less than what a request may take, or it would begin anew each time.
        let patience = self.config.lease() / 4;
        let since = self.jobs.get(&place).map_or(step.now.time, |job| job.since);
        blocked.starting
            || step.state.entry(place.0).is_some_and(of_bytes) && step.now.time < since + patience
    }

    fn start_raise(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        handle: ChunkHandle,
        members: Vec<Member>,
    ) {
        let Some(chunk) = step.state.chunk(handle) else { return };
        let shrinks = members.len() < chunk.set_size as usize;
        let kind = RaiseKind { term: self.term, handle, close: chunk.closed, shrinks };
        let raise = Raise::start(step, &mut self.calls, place, kind, members);
        self.set_phase(place, Phase::Raising(raise));
    }

    /// A replica has answered a raise, or has not; at the end of the round its job goes on.
    pub(super) fn on_raise_answer(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        (effect, server): (EffectId, ServerId),
        result: Result<ReplicaReport, Failure>,
    ) {
        let Some(mut job) = self.jobs.remove(&place) else { return };
        let (Phase::Raising(raise)
        | Phase::Fencing(raise)
        | Phase::Creating { raise, .. }
        | Phase::Shrinking { raise, .. }) = &mut job.phase
        else {
            self.jobs.insert(place, job);
            return;
        };
        let handle = raise.kind().handle;
        let heard = result.clone();
        let over = raise.on_answer(effect, server, result);
        let shrinks = matches!(job.phase, Phase::Shrinking { .. });
        self.note_raised(step, (handle, server), &heard, shrinks);
        if !over {
            self.jobs.insert(place, job);
            return;
        }
        let phase = std::mem::replace(&mut job.phase, Phase::Waiting(String::new()));
        self.jobs.insert(place, job);
        match phase {
            Phase::Raising(raise) => self.on_raised(step, place, &raise),
            Phase::Fencing(raise) => self.on_fenced(step, place, &raise),
            Phase::Creating { raise, tried } => self.on_created(step, place, &raise, tried),
            Phase::Shrinking { raise, shrink } => self.on_shrunk(step, place, &raise, shrink),
            other => self.set_phase(place, other),
        }
    }

    /// Learns from one replica's answer to a raise.
    fn note_raised(
        &mut self,
        step: &mut Step<'_>,
        (handle, server): (ChunkHandle, ServerId),
        result: &Result<ReplicaReport, Failure>,
        shrinks: bool,
    ) {
        match result {
            // Of a chunk that is being made, or was not made in the end, nothing is noted.
            Ok(report) => {
                if self.note_replica(step, handle, server, report) && !shrinks {
                    self.leases.raised_at(handle, server);
                }
            }
            Err(failure) if failure.code == ErrorCode::NoSuchChunk => {
                self.locations.remove(handle, server);
            }
            // It stands elsewhere than it last told: ask, so that the next raise fits.
            Err(failure) if failure.code == ErrorCode::StaleVersion => {
                let Some(at) = self.servers.at(server).cloned() else { return };
                let request = Probe { term: self.term, handle, lease: LeaseId::default() };
                let deadline = step.now.time + Duration::from_millis(2 * self.config.heartbeat_ms);
                let effect = step.out.call(at.address, server, request, deadline);
                self.calls.insert(effect, Pending::Refresh(handle, server));
            }
            Err(_) => {}
        }
    }

    /// A round of the raise for a lease is over.
    fn on_raised(&mut self, step: &mut Step<'_>, place: Place, raise: &Raise) {
        let handle = raise.kind().handle;
        let Some(chunk) = step.state.chunk(handle) else { return };
        let answered = raise.raised();
        let fresh: Vec<(ServerId, Replica)> =
            answered.iter().map(|r| (r.at.server, Replica::of(&r.report, step.now.time))).collect();
        let stale = behind(&fresh);
        let good: Vec<Raised> =
            answered.into_iter().filter(|r| !stale.contains(&r.at.server)).collect();
        let servers: Vec<ServerId> = good.iter().map(|r| r.at.server).collect();
        let appends = self.jobs.get(&place).is_some_and(|job| job.appends());
        let marked = good.iter().any(|r| r.report.closed);
        let least = if broken(Rule::R11) { 1 } else { least_set(&chunk) };
        match self.may_be_set(step.now.time, handle, &chunk, &servers) {
            _ if appends && (marked || chunk.closed) => self.go_on_in_next(step, place),
            // A set that the master decided on takes no appends (R11).
            Ok(()) if appends && good.len() < least => self.go_on_in_next(step, place),
            Err(blocked) if appends && !self.bears_a_wait(step, place, &blocked) => {
                self.go_on_in_next(step, place);
            }
            Err(blocked) => self.wait(place, blocked.why),
            Ok(()) => {
                // R8: whoever was asked and is not of the set may stand at this very version.
                let complete = raise.all_answered() && stale.is_empty();
                if complete || broken(Rule::R8) {
                    self.log_version(step, place, raise, good);
                } else {
                    self.start_raise(step, place, handle, again(good));
                }
            }
        }
    }

    fn log_version(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        raise: &Raise,
        raised: Vec<Raised>,
    ) {
        let handle = raise.kind().handle;
        let record = SetVersion {
            time: step.now.wall,
            handle,
            version: raise.to(),
            set_size: u32::try_from(raised.len()).expect("a set is small"),
        };
        let proposal = step.out.propose(record);
        self.proposals.insert(proposal, Proposed::Job(place));
        self.set_phase(place, Phase::Logging { handle, raised });
    }

    /// A record of a job is applied.
    pub(super) fn on_job_applied(&mut self, step: &mut Step<'_>, place: Place, outcome: &Applied) {
        let Some(job) = self.jobs.get_mut(&place) else { return };
        let phase = std::mem::replace(&mut job.phase, Phase::Waiting(String::new()));
        match (phase, outcome) {
            (Phase::LoggingShrunk { handle, version, raised, shrink }, _) => {
                self.on_shrink_applied(step, place, (handle, version), (raised, shrink), outcome);
            }
            (Phase::Logging { handle, .. }, Applied::Failed(failure)) => {
                self.making.remove(&handle);
                self.fail_job(step, place, failure);
            }
            (Phase::Logging { handle, raised }, Applied::ChunkOpened(opened)) => {
                self.on_opened(step, place, (handle, opened.handle), raised);
            }
            (Phase::Logging { handle, raised }, _) => self.grant(step, place, handle, raised),
            (Phase::LoggingClose { .. }, _) => self.on_closed_alone(step, place),
            (phase, _) => self.set_phase(place, phase),
        }
    }

    /// Makes one of the set its primary; the version is logged and applied.
    pub(super) fn grant(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        handle: ChunkHandle,
        raised: Vec<Raised>,
    ) {
        // R20: the file may have been deleted while the record was on its way.
        if !is_live_file(step.state, place.0) {
            return self.fail_job(step, place, &no_file(place));
        }
        let (Some(job), Some(chunk)) = (self.jobs.get(&place), step.state.chunk(handle)) else {
            return;
        };
        let marked = raised.iter().any(|r| r.report.closed);
        // R18: no append lease on a closed chunk, nor on one that is about to be.
        let open = !chunk.closed && !marked && self.later_job(place).is_none();
        let takes_appends = open && job.appends();
        let Some(primary) = self.choose_primary(handle, &raised, job.failed_grants) else { return };
        let longest = raised.iter().map(|r| r.report.length).max().unwrap_or(0);
        let highest = raised.iter().map(|r| r.report.serial).max().unwrap_or_default();
        let secondaries: Vec<ReplicaAt> =
            raised.into_iter().map(|r| r.at).filter(|at| at.server != primary.server).collect();
        let lease = step.numbers.lease();
        let request = GrantLease {
            term: self.term,
            handle,
            version: chunk.version,
            lease,
            secondaries: secondaries.clone(),
            length: longest,
            serial: highest,
            file: place.0,
            index: place.1,
            writes_only: !takes_appends,
            server: primary.server,
        };
        let incarnation =
            self.servers.get(primary.server).map(|s| s.incarnation).unwrap_or_default();
        let granted = Lease {
            id: lease,
            version: chunk.version,
            holder: primary.clone(),
            incarnation,
            secondaries: Some(secondaries),
            granted: step.now.time,
            until: step.now.time + self.config.lease(),
            status: LeaseStatus::Sent,
            confirmed: false,
            takes_appends,
            adopted: false,
            acknowledged: 0,
        };
        self.fenced.remove(&handle);
        self.leases.insert(handle, granted);
        // Levelling asks the secondaries, each with a deadline of its own.
        let patience = self.config.silent_ms + self.config.heartbeat_ms;
        let deadline = step.now.time + Duration::from_millis(patience);
        let effect = step.out.call(primary.address, primary.server, request, deadline);
        self.calls.insert(effect, Pending::Grant(place));
        self.set_phase(place, Phase::Granting { effect, handle, lease });
    }

    /// Who has gone furthest: it levels the others, and what only it has may have been acknowledged
    /// though its primary could tell nobody (R29). Of several, the former holder, whose lease is
    /// over by the raise; else whoever holds the fewest leases. After grants that failed, another
    /// one each time.
    fn choose_primary(
        &self,
        handle: ChunkHandle,
        raised: &[Raised],
        failed_grants: usize,
    ) -> Option<ReplicaAt> {
        let former = self.leases.get(handle).map(|lease| lease.holder.server);
        let mut order: Vec<&Raised> = raised.iter().collect();
        order.sort_by_key(|raised| {
            let (server, report) = (raised.at.server, &raised.report);
            let furthest = Reverse((report.mutated_version, report.serial));
            (furthest, Some(server) != former, self.leases.count_of(server), server)
        });
        order.get(failed_grants % order.len().max(1)).map(|raised| raised.at.clone())
    }

    pub(super) fn on_grant_answer(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        id: EffectId,
        result: Result<Response, Failure>,
    ) {
        let Some(job) = self.jobs.get_mut(&place) else { return };
        let Phase::Granting { effect, handle, lease } = job.phase else { return };
        if effect != id {
            return;
        }
        let failure = match result {
            Ok(_) => {
                self.leases.confirm(handle, lease);
                return self.finish(step, place);
            }
            Err(failure) => failure,
        };
        job.failed_grants += 1;
        let attempts = job.failed_grants;
        // Nothing was sent, or the holder itself said no: then it holds nothing.
        let fate = if failure.outcome == Outcome::Unknown {
            LeaseStatus::Doubted
        } else {
            LeaseStatus::Over
        };
        self.leases.set_status(handle, lease, fate);
        if failure.code == ErrorCode::ChecksumMismatch
            && let Some(lease) = self.leases.get(handle)
        {
            self.locations.mark_damaged(handle, lease.holder.server);
        }
        self.wait(place, format!("the lease was not taken: {}", failure.message));
        // Another primary at once; when each had its turn, with the next tick.
        if attempts % 3 != 0 {
            self.advance(step, place);
        }
    }
}
