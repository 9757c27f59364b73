//! A chunk that has more replicas than it needs goes on without one of them.
//!
//! ```text
//!   Revoking ─► Raising: the set but for the one ─► Logging ─► left out
//!      └──────────────┴─► not left out: the set is as it was
//! ```
//! - LO1: the smaller set is logged only where as many good replicas as the chunk's goal have taken
//!   its raise, on servers that are not being drained, with all that they hold on disk (E2). So
//!   nothing is left out before enough others are sound (R11). A bad one that stands in the way of
//!   a good one is left out where two good ones have (SP3).
//! - LO2: no lease is live meanwhile, and none is granted, because this job has the place: nobody
//!   acknowledges anything under the set that was.
//!
//! Who is left out is stale from then on, is told so, and goes as garbage (R33).

use super::acts::{Act, Acts, Question};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaiseKind, RaiseMember, RaiseRound, RaisedReplica, set_size};
use super::revoke::asked_back;
use crate::applied::Applied;
use crate::fleet::{KnownReplica, behind};
use crate::leases::LeaseStatus;
use crate::record::SetVersion;
use crate::rules::replica_set::LiveMember;
use crate::rules::surplus::{is_enough, plan_leave_out};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ServerId};

/// How far it is.
#[derive(Debug)]
enum LeaveOutPhase {
    /// The lease is asked back of its holder, which answers when it has drained.
    Revoking,
    /// The others are raised.
    Raising(RaiseRound),
    /// The smaller set is on its way into the log.
    Logging,
}

/// A set that goes on without a replica that it does not need.
#[derive(Debug)]
pub(crate) struct LeaveOutJob {
    handle: ChunkHandle,
    server: ServerId,
    phase: LeaveOutPhase,
}

impl LeaveOutJob {
    /// Asks for the lease back, or raises the others at once; none where neither can be.
    pub(crate) fn start(
        view: &View<'_>,
        (handle, chunk): (ChunkHandle, &ChunkRecord),
        server: ServerId,
        acts: &mut Acts<'_>,
    ) -> Option<Self> {
        let now = view.now.time;
        let phase = match view.leases.possible(handle, now) {
            Some(lease) if lease.status == LeaseStatus::Serving => {
                let (id, (holder, revoke)) = (lease.id, asked_back(view, handle, lease));
                acts.push(Act::DoubtLease(handle, id, LeaseStatus::AskedBack));
                acts.ask(holder, Question::Revoke(revoke), now + view.term.config.lease());
                LeaveOutPhase::Revoking
            }
            // It runs out by itself.
            Some(_) => return None,
            None => {
                let members = plan_leave_out(view, (handle, chunk), server).ok()?;
                raise(view, (handle, chunk), members, acts)
            }
        };
        Some(Self { handle, server, phase })
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        match &self.phase {
            LeaveOutPhase::Revoking => {
                "asking for the lease back, to go on without a replica too many".to_owned()
            }
            LeaveOutPhase::Raising(raise) => {
                format!("raising {} replicas without one too many", raise.size())
            }
            LeaveOutPhase::Logging => "logging the version".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (LeaveOutPhase::Revoking, JobEvent::RevokeAnswered(Ok(()))) => self.go_on(at, acts),
            (LeaveOutPhase::Revoking, JobEvent::RevokeAnswered(Err(failure))) => {
                self.end(Err(failure), acts);
            }
            (LeaveOutPhase::Raising(raise), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_raised(at, acts);
                }
            }
            (LeaveOutPhase::Logging, JobEvent::Applied(applied)) => match applied {
                Applied::Failed(failure) => self.end(Err(failure.clone()), acts),
                _ => self.end(Ok(()), acts),
            },
            (phase, event) => unreachable!("{event:?} is not waited for in {phase:?} (JB2)"),
        }
    }

    /// The lease is given back (LO2).
    fn go_on(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let Some(chunk) = at.view.state.chunk(self.handle) else {
            return self.give_up("it is gone", acts);
        };
        match plan_leave_out(&at.view, (self.handle, &chunk), self.server) {
            Ok(members) => self.phase = raise(&at.view, (self.handle, &chunk), members, acts),
            Err(blocked) => self.give_up(&blocked.why, acts),
        }
    }

    /// A round of the raise is over.
    fn on_raised(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let LeaveOutPhase::Raising(raise) = &self.phase else { unreachable!("a round was over") };
        let (view, handle) = (&at.view, self.handle);
        let Some(chunk) = view.state.chunk(handle) else { return self.give_up("it is gone", acts) };
        let raised = raise.raised();
        let replica = |r: &RaisedReplica| (r.at.server, KnownReplica::of(&r.report, view.now.time));
        let mut known: Vec<(ServerId, KnownReplica)> = raised.iter().map(replica).collect();
        let members: Vec<ServerId> = raised.iter().map(|r| r.at.server).collect();
        let sound = known.iter().all(|(_, replica)| replica.is_sound());
        let out = view.fleet.locations().get(handle, self.server);
        known.extend(out.map(|out| (self.server, out)));
        // R29: who lacks what another has, a bad one too, is none to go on with alone. A bad one
        // may lack what they have.
        let bad =
            |server: &ServerId| *server == self.server && out.is_some_and(|out| !out.is_sound());
        if behind(&known).iter().any(|server| !bad(server)) && !broken(Rule::R29) {
            return self.give_up("its replicas differ: the next lease levels them", acts);
        }
        if !(sound && is_enough(view, (handle, &chunk), self.server, &members)) {
            return self.give_up("too few replicas answered", acts);
        }
        // R8: the number is spent. It can wait, and nobody else is left out on its account.
        if !raise.all_answered() && !broken(Rule::R8) {
            return self.give_up("one of its replicas did not answer", acts);
        }
        assert!(!members.contains(&self.server), "who is left out is not asked (LO1)");
        let above = raise.to() > chunk.version || broken(Rule::R1);
        assert!(above && raise.kind().syncs, "a fresh version, on disk (R7, LO1)");
        let (version, set_size) = (raise.to(), set_size(&raised));
        let time = view.now.wall;
        let record = SetVersion { time, handle, version, set_size, ..SetVersion::default() };
        acts.propose(record);
        self.phase = LeaveOutPhase::Logging;
    }

    fn give_up(&self, why: &str, acts: &mut Acts<'_>) {
        let line = format!("chunk {}: {why}", self.handle.short());
        self.end(Err(Failure::not_done(ErrorCode::Busy, line)), acts);
    }

    /// Whoever waits for a lease is looked at anew.
    fn end(&self, result: Result<(), Failure>, acts: &mut Acts<'_>) {
        acts.push(Act::LeftOut(self.handle, result));
        acts.push(Act::Finish);
    }
}

fn raise(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    members: Vec<LiveMember>,
    acts: &mut Acts<'_>,
) -> LeaveOutPhase {
    let kind = RaiseKind { handle, close: chunk.closed, syncs: true, keeps_lease: false };
    let members = members.into_iter().map(RaiseMember::standing);
    LeaveOutPhase::Raising(RaiseRound::start(view, kind, members, acts))
}
