//! A secondary failed: the set goes on without it, under the same lease (R14).
//!
//! ```text
//!   primary ── SecondaryFailed ──► raise primary and the rest ─► log ─► answer with the new set
//! ```
//! - H1: the primary is told of a version only when it is logged and all of the set stand at it.
//! - H2: a set is never shrunk below two, or below its goal of one (R11). Then the primary gives
//!   up; appends go on in a next chunk, writes wait until the replica is back.

use super::jobs::{Job, Phase, Shrink};
use super::leases::{Lease, LeaseStatus};
use super::raise::{Member, Raise, RaiseKind, Raised, again};
use super::replica_set::least_set;
use super::{Chunks, Place, Proposed};
use crate::applied::Applied;
use crate::record::SetVersion;
use crate::step::Step;
use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, Response, SecondaryFailed, SecondaryFailedAnswer};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt};

impl Chunks {
    /// A primary lost secondaries.
    pub(super) fn on_secondary_failed(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        request: &SecondaryFailed,
    ) {
        match self.start_shrink(step, from, request) {
            Ok(None) => {}
            Ok(Some(answer)) => step.out.reply(from, Ok(Response::SecondaryFailed(answer))),
            Err(failure) => step.out.reply(from, Err(failure)),
        }
    }

    /// Starts the raise; an answer at once where those that failed are out already.
    fn start_shrink(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        request: &SecondaryFailed,
    ) -> Result<Option<SecondaryFailedAnswer>, Failure> {
        let (handle, short) = (request.handle, request.handle.short());
        let refuse = |line: &str| {
            Err(Failure::not_done(ErrorCode::NotPrimary, format!("chunk {short}: {line}")))
        };
        let Some(chunk) = step.state.chunk(handle) else {
            return refuse("no such chunk");
        };
        let lease = self.leases.serving(handle, step.now.time);
        let Some(lease) = lease.filter(|lease| lease.id == request.lease).cloned() else {
            return refuse("the master does not count on that lease any more");
        };
        let Some(secondaries) = self.secondaries_of(handle, &lease, &chunk) else {
            return refuse("the replicas of its set are not all known yet");
        };
        let remaining: Vec<ReplicaAt> =
            secondaries.iter().filter(|at| !request.failed.contains(&at.server)).cloned().collect();
        if remaining.len() == secondaries.len() {
            let version = lease.version;
            return Ok(Some(SecondaryFailedAnswer { version, secondaries: remaining }));
        }
        if remaining.len() + 1 < least_set(&chunk) && !broken(Rule::R11) {
            // H2: it serves no more.
            self.leases.set_status(handle, lease.id, LeaseStatus::Doubted);
            let line = format!("chunk {short}: too few replicas would be left (R11)");
            return Err(Failure::not_done(ErrorCode::TooFewServers, line));
        }
        let place = (chunk.file, chunk.index);
        let job = self.jobs.get(&place);
        let free = job.is_none_or(|job| job.phase.handle().is_none());
        if !free || self.is_taken(place, handle) {
            return refuse("the set is being changed already");
        }
        let mut members = vec![self.member(handle, lease.holder.clone(), &lease)];
        members.extend(remaining.into_iter().map(|at| self.member(handle, at, &lease)));
        let kind = RaiseKind { term: self.term, handle, close: chunk.closed, shrinks: true };
        let raise = Raise::start(step, &mut self.calls, place, kind, members);
        let shrink = Shrink { from, lease: lease.id, primary: lease.holder.server };
        let fresh = || Job::new(step.now.time, Phase::Waiting(String::new()));
        self.jobs.entry(place).or_insert_with(fresh).phase = Phase::Shrinking { raise, shrink };
        Ok(None)
    }

    fn member(&self, handle: ChunkHandle, at: ReplicaAt, lease: &Lease) -> Member {
        let known = self.locations.get(handle, at.server);
        let from = known.map_or(lease.version, |replica| replica.version);
        Member { at, from: Some(from) }
    }

    /// A round of the raise is over.
    pub(super) fn on_shrunk(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        raise: &Raise,
        shrink: Shrink,
    ) {
        let (kind, raised) = (raise.kind(), raise.raised());
        let Some(chunk) = step.state.chunk(kind.handle) else { return };
        let enough = raised.len() >= least_set(&chunk) || broken(Rule::R11);
        if !raise.has_answered(shrink.primary) || !enough {
            let line = format!("chunk {}: too few replicas answered", kind.handle.short());
            return self.give_shrink_up(step, place, (kind.handle, &shrink), &line);
        }
        if !raise.all_answered() && !broken(Rule::R8) {
            let raise = Raise::start(step, &mut self.calls, place, kind, again(raised));
            return self.set_phase(place, Phase::Shrinking { raise, shrink });
        }
        let record = SetVersion {
            time: step.now.wall,
            handle: kind.handle,
            version: raise.to(),
            set_size: u32::try_from(raised.len()).expect("a set is small"),
        };
        let proposal = step.out.propose(record);
        self.proposals.insert(proposal, Proposed::Job(place));
        let (handle, version) = (kind.handle, raise.to());
        self.set_phase(place, Phase::LoggingShrunk { handle, version, raised, shrink });
    }

    /// The lease cannot go on: its primary gives it up, and the next request looks anew.
    fn give_shrink_up(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        (handle, shrink): (ChunkHandle, &Shrink),
        line: &str,
    ) {
        self.leases.set_status(handle, shrink.lease, LeaseStatus::Doubted);
        step.out.reply(shrink.from, Err(Failure::not_done(ErrorCode::TooFewServers, line)));
        self.wait(place, line.to_owned());
        self.advance(step, place);
    }

    /// The smaller set is logged: its primary goes on (H1).
    pub(super) fn on_shrink_applied(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        (handle, version): (ChunkHandle, ChunkVersion),
        (raised, shrink): (Vec<Raised>, Shrink),
        outcome: &Applied,
    ) {
        if let Applied::Failed(failure) = outcome {
            let line = failure.message.clone();
            return self.give_shrink_up(step, place, (handle, &shrink), &line);
        }
        let others = raised.into_iter().map(|r| r.at).filter(|at| at.server != shrink.primary);
        let secondaries: Vec<ReplicaAt> = others.collect();
        if let Some(lease) = self.leases.get_mut(handle)
            && lease.id == shrink.lease
        {
            lease.version = version;
            lease.secondaries = Some(secondaries.clone());
        }
        let answer = SecondaryFailedAnswer { version, secondaries };
        step.out.reply(shrink.from, Ok(Response::SecondaryFailed(answer)));
        self.finish(step, place);
    }
}
