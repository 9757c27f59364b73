//! A secondary failed: the set goes on without it, under the same lease (R14).
//!
//! ```text
//!   primary ── SecondaryFailed ──► Raising: primary and the rest ─► Logging ─► answered
//! ```
//! - SH1: the primary is told of a version only when it is logged and all of the set stand at it.
//! - SH2: a set is never shrunk below two, or below its goal of one (R11). Then the primary gives
//!   up; appends go on in a next chunk, writes wait until the replica is back.
//! - SH3: those that failed are out only at a later version than the primary tells of. A server
//!   that came back under another id is not of the set by its former one, and its replica is: told
//!   that the set goes on without the former, a primary would acknowledge what that replica lacks.

use super::acts::{Act, Acts};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaiseKind, RaiseMember, RaiseRound, RaisedReplica, again, set_size};
use crate::applied::Applied;
use crate::chunk_place::ChunkPlace;
use crate::leases::{GrantedLease, LeaseStatus};
use crate::record::SetVersion;
use crate::rules::members::{least_set, secondaries_of};
use crate::state::{ChunkRecord, State};
use crate::underway::Activity;
use crate::view::View;
use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, SecondaryFailed, SecondaryFailedAnswer};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, LeaseId, ReplicaAt, ServerId};

/// The chunk whose secondaries failed, and its place.
pub(crate) fn place_of(
    state: &State,
    request: &SecondaryFailed,
) -> Result<(ChunkPlace, ChunkRecord), Failure> {
    let chunk = state.chunk(request.handle).ok_or_else(|| {
        let line = format!("chunk {}: no such chunk", request.handle.short());
        Failure::not_done(ErrorCode::NotPrimary, line)
    })?;
    Ok((ChunkPlace::new(chunk.file, chunk.index), chunk))
}

/// How far the shrinking is.
#[derive(Debug)]
enum ShrinkPhase {
    /// The set is raised without those that failed.
    Raising(RaiseRound),
    /// The smaller set is on its way into the log.
    Logging { version: ChunkVersion, raised: Vec<RaisedReplica> },
}

/// What can be done about secondaries that failed.
enum ShrinkPlan<'a> {
    /// Those that failed are out already.
    Done(SecondaryFailedAnswer),
    /// The set goes on under this lease with the secondaries that remain.
    Raise(&'a GrantedLease, Vec<ReplicaAt>),
}

/// A set that becomes smaller.
#[derive(Debug)]
pub(crate) struct ShrinkJob {
    handle: ChunkHandle,
    /// Who asked for it, and waits.
    from: Caller,
    lease: LeaseId,
    primary: ServerId,
    phase: ShrinkPhase,
}

impl ShrinkJob {
    /// Starts the raise; or answers at once, where those that failed are out already or nothing can
    /// be done.
    pub(crate) fn start(
        view: &View<'_>,
        (from, place): (Caller, ChunkPlace),
        (request, chunk): (&SecondaryFailed, ChunkRecord),
        acts: &mut Acts<'_>,
    ) -> Option<Self> {
        let answer = match plan(view, place, request, &chunk) {
            Ok(ShrinkPlan::Raise(lease, remaining)) => {
                let chunk = (request.handle, &chunk);
                return Some(Self::raise(view, from, chunk, (lease, remaining), acts));
            }
            Ok(ShrinkPlan::Done(answer)) => Ok(answer),
            Err(failure) => {
                if failure.code == ErrorCode::TooFewServers {
                    // SH2: it serves no more.
                    let (handle, lease) = (request.handle, request.lease);
                    acts.push(Act::DoubtLease(handle, lease, LeaseStatus::Doubted));
                    if let Some(primary) = view.leases.get(handle).map(|lease| lease.holder.server)
                        && let Some(blamed) = request.failed.first().copied()
                    {
                        acts.push(Act::BlameFor { handle, primary, blamed });
                    }
                }
                Err(failure)
            }
        };
        acts.push(Act::AnswerShrink(from, answer));
        None
    }

    fn raise(
        view: &View<'_>,
        from: Caller,
        (handle, chunk): (ChunkHandle, &ChunkRecord),
        (lease, remaining): (&GrantedLease, Vec<ReplicaAt>),
        acts: &mut Acts<'_>,
    ) -> Self {
        let member = |at: ReplicaAt| {
            let known = view.fleet.locations().get(handle, at.server);
            let version = known.map_or(lease.version, |replica| replica.version);
            RaiseMember::standing((at, version))
        };
        let set = std::iter::once(lease.holder.clone()).chain(remaining);
        let kind = RaiseKind { handle, close: chunk.closed, syncs: true, keeps_lease: true };
        let raise = RaiseRound::start(view, kind, set.map(member), acts);
        let (lease, primary) = (lease.id, lease.holder.server);
        let phase = ShrinkPhase::Raising(raise);
        Self { handle, from, lease, primary, phase }
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        match &self.phase {
            ShrinkPhase::Raising(raise) => {
                format!("raising {} replicas without one that failed", raise.size())
            }
            ShrinkPhase::Logging { .. } => "logging the version".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (ShrinkPhase::Raising(raise), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_raised(at, acts);
                }
            }
            (ShrinkPhase::Logging { version, raised }, JobEvent::Applied(applied)) => {
                if let Applied::Failed(failure) = applied {
                    return self.give_up(&failure.message, acts);
                }
                let (version, raised) = (*version, std::mem::take(raised));
                self.go_on(version, raised, acts);
            }
            (phase, event) => unreachable!("{event:?} is not waited for in {phase:?} (JB2)"),
        }
    }

    /// A round of the raise is over.
    fn on_raised(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let ShrinkPhase::Raising(raise) = &self.phase else { unreachable!("a round was over") };
        let (handle, raised) = (self.handle, raise.raised());
        let chunk = at.view.state.chunk(handle);
        let enough = chunk.is_some_and(|chunk| raised.len() >= least_set(&chunk));
        if !raise.has_answered(self.primary) || !(enough || broken(Rule::R11)) {
            let line = format!("chunk {}: too few replicas answered", handle.short());
            return self.give_up(&line, acts);
        }
        // R8: the number is spent.
        if !raise.all_answered() && !broken(Rule::R8) {
            let raise = RaiseRound::start(&at.view, raise.kind(), again(raised), acts);
            self.phase = ShrinkPhase::Raising(raise);
            return;
        }
        assert!(raise.kind().keeps_lease && raise.kind().syncs, "a lease goes on (R14)");
        let (version, set_size) = (raise.to(), set_size(&raised));
        acts.propose(SetVersion {
            time: at.view.now.wall,
            handle,
            version,
            set_size,
            keeps_above: None,
            charges: false,
            // Of a file that somebody writes: no stream.
            held: None,
            committed: None,
        });
        self.phase = ShrinkPhase::Logging { version, raised };
    }

    /// The lease cannot go on: its primary gives it up, and the next request looks anew.
    fn give_up(&self, line: &str, acts: &mut Acts<'_>) {
        acts.push(Act::DoubtLease(self.handle, self.lease, LeaseStatus::Doubted));
        let failure = Failure::not_done(ErrorCode::TooFewServers, line);
        acts.push(Act::AnswerShrink(self.from, Err(failure)));
        acts.push(Act::LookAgain(line.into()));
    }

    /// The smaller set is logged: its primary goes on (SH1).
    fn go_on(&self, version: ChunkVersion, raised: Vec<RaisedReplica>, acts: &mut Acts<'_>) {
        let others = raised.into_iter().map(|r| r.at).filter(|at| at.server != self.primary);
        let secondaries: Vec<ReplicaAt> = others.collect();
        let (handle, lease) = (self.handle, self.lease);
        acts.push(Act::ShrinkLease(handle, lease, version, secondaries.clone()));
        acts.push(Act::AnswerShrink(self.from, Ok(SecondaryFailedAnswer { version, secondaries })));
        acts.push(Act::Finish);
    }
}

/// What can be done about secondaries that failed.
fn plan<'a>(
    view: &View<'a>,
    place: ChunkPlace,
    request: &SecondaryFailed,
    chunk: &ChunkRecord,
) -> Result<ShrinkPlan<'a>, Failure> {
    let handle = request.handle;
    let refused = |line: &str| {
        let line = format!("chunk {}: {line}", handle.short());
        Failure::not_done(ErrorCode::NotPrimary, line)
    };
    let lease = view.leases.serving(handle, view.now.time);
    let lease = lease
        .filter(|lease| lease.id == request.lease)
        .ok_or_else(|| refused("the master does not count on that lease any more"))?;
    let secondaries = secondaries_of(view, handle, lease, chunk)
        .ok_or_else(|| refused("the replicas of its set are not all known yet"))?;
    let count = secondaries.len();
    let remaining: Vec<ReplicaAt> =
        secondaries.into_iter().filter(|at| !request.failed.contains(&at.server)).collect();
    if remaining.len() == count {
        // SH3
        if request.version >= lease.version {
            return Err(refused("who failed is not of the set as it stands at that version"));
        }
        let (version, secondaries) = (lease.version, remaining);
        let holder = lease.holder.server;
        assert!(secondaries.iter().all(|at| at.server != holder), "no secondary of its own");
        return Ok(ShrinkPlan::Done(SecondaryFailedAnswer { version, secondaries }));
    }
    if remaining.len() + 1 < least_set(chunk) && !broken(Rule::R11) {
        let line = format!("chunk {}: too few replicas would be left (R11)", handle.short());
        return Err(Failure::not_done(ErrorCode::TooFewServers, line));
    }
    if view.underway.at(place) != Activity::Nothing || view.underway.is_taken(place, handle) {
        return Err(refused("the set is being changed already"));
    }
    Ok(ShrinkPlan::Raise(lease, remaining))
}
