//! A clone joins its chunk's set (R30).
//!
//! ```text
//!   Revoking ─► Finishing: CloneChunk{finish} ─► Raising: the set ─► Raise{adopt} ─► Logging
//!      └────────────┴──────────────────────────────┴─► not grown        └─► not taken: the set is
//!                                                                           raised without it
//! ```
//! - GW1: from before the clone is told to be equal until the set is raised with it, nobody may
//!   mutate the chunk: no lease is live, and none is granted, because this job has the place.
//! - GW2: a version is logged only when all that were asked stand at it, the clone as well (R8).
//!   Then and only then is it counted; one that did not answer is left out by a fresh version.
//! - GW3: no member that is good is left out for a clone before it is dead or given up.
//! - GW4: the clone is raised last, when all others stand at the version and the set may be: where
//!   it comes to nothing before that, no server has a replica that no record knows. Else it would
//!   pass for the member that is missing, and hold what that one had for all there is (R30).

use super::acts::{Act, Acts, Question};
use super::events::{JobEvent, PlaceView};
use super::raise::{
    RaiseFrom, RaiseKind, RaiseMember, RaiseRound, RaisedReplica, again, lengths, set_size,
};
use super::revoke::asked_back;
use crate::applied::Applied;
use crate::fleet::{KnownReplica, behind};
use crate::leases::LeaseStatus;
use crate::record::SetVersion;
use crate::rules::decided_set::may_be_outdone;
use crate::rules::good_replicas::good;
use crate::rules::lost_bytes;
use crate::rules::replica_set::{
    LiveMember, growth_sheds, live_members, may_be_grown_set, plan_growth,
};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{CloneChunk, CloneChunkAnswer, ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ReplicaAt, ServerId};

/// How far the joining is.
#[derive(Debug)]
enum GrowPhase {
    /// The lease is asked back of its holder, which answers when it has drained.
    Revoking,
    /// The clone fetches what differs from this server's replica.
    Finishing(ServerId),
    /// The set is raised, and then the clone to the same version.
    Raising(RaiseRound, CloneTurn, PlannedSet),
    /// The version is on its way into the log; whether the clone is of it.
    Logging { joined: bool },
}

/// Whether the clone was raised (GW4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloneTurn {
    /// When the others have answered.
    Next,
    Asked,
    /// It did not take it: the set goes on without it.
    Over,
}

/// Those whom the clone joins, as they were before any was raised: after that the clone passes for
/// one of them, and what the dead held is forgotten.
#[derive(Clone, Copy, Debug)]
struct PlannedSet {
    size: usize,
    /// Somebody may hold more than they.
    outdone: bool,
}

/// A set that becomes larger.
#[derive(Debug)]
pub(crate) struct GrowJob {
    handle: ChunkHandle,
    receiver: ReplicaAt,
    phase: GrowPhase,
}

impl GrowJob {
    /// Asks for the lease back, or has the clone finished at once; none where neither can be.
    pub(crate) fn start(
        view: &View<'_>,
        (handle, chunk): (ChunkHandle, &ChunkRecord),
        receiver: &ReplicaAt,
        acts: &mut Acts<'_>,
    ) -> Option<Self> {
        let now = view.now.time;
        // GW3: it waits, rather than ask for a lease back and find that out then.
        let live = live_members(view, good(view, handle, chunk));
        let live: Vec<ServerId> = live.iter().map(|(at, _)| at.server).collect();
        if growth_sheds(view, (handle, chunk), &live) {
            return None;
        }
        let phase = match view.leases.possible(handle, now) {
            Some(lease) if lease.status == LeaseStatus::Serving && !broken(Rule::R30) => {
                let (id, (holder, revoke)) = (lease.id, asked_back(view, handle, lease));
                acts.push(Act::DoubtLease(handle, id, LeaseStatus::AskedBack));
                acts.ask(holder, Question::Revoke(revoke), now + view.term.config.lease());
                GrowPhase::Revoking
            }
            // It runs out by itself.
            Some(_) if !broken(Rule::R30) => return None,
            _ => {
                let members = plan_growth(view, handle, chunk).ok()?;
                finish(view, (handle, receiver), &members, acts)
            }
        };
        Some(Self { handle, receiver: receiver.clone(), phase })
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        let to = &self.receiver.address;
        match &self.phase {
            GrowPhase::Revoking => format!("asking for the lease back, for a clone on {to}"),
            GrowPhase::Finishing(_) => format!("the clone on {to} fetches what differs"),
            GrowPhase::Raising(raise, ..) => {
                format!("raising {} replicas with the clone on {to}", raise.size())
            }
            GrowPhase::Logging { .. } => "logging the version".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (GrowPhase::Revoking, JobEvent::RevokeAnswered(Ok(()))) => self.finish(at, acts),
            (GrowPhase::Revoking, JobEvent::RevokeAnswered(Err(failure))) => {
                self.give_up(failure, acts);
            }
            (GrowPhase::Finishing(source), JobEvent::CloneAnswered(result)) => {
                let source = *source;
                self.on_finished(at, source, result, acts);
            }
            (GrowPhase::Raising(raise, ..), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_raised(at, acts);
                }
            }
            (GrowPhase::Logging { joined }, JobEvent::Applied(applied)) => {
                let result = match applied {
                    Applied::Failed(failure) => Err(failure.clone()),
                    _ if *joined => Ok(()),
                    _ => Err(left_out(self.handle, self.receiver.server)),
                };
                acts.push(Act::Grown(self.handle, result));
                acts.push(Act::Finish);
            }
            (phase, event) => unreachable!("{event:?} is not waited for in {phase:?} (JB2)"),
        }
    }

    /// Nobody can mutate the chunk: the clone is to become equal (GW1).
    fn finish(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        match self.plan(at) {
            Ok((_, members)) => {
                let clone = (self.handle, &self.receiver);
                self.phase = finish(&at.view, clone, &members, acts);
            }
            Err(failure) => self.give_up(failure, acts),
        }
    }

    fn on_finished(
        &mut self,
        at: &PlaceView<'_>,
        source: ServerId,
        result: Result<CloneChunkAnswer, Failure>,
        acts: &mut Acts<'_>,
    ) {
        if let Err(mut failure) = result {
            if failure.code == ErrorCode::ChecksumMismatch {
                acts.push(Act::MarkDamaged(self.handle, source));
            }
            if failure.server == ServerId::default() {
                // Who was asked did not answer.
                failure.server = self.receiver.server;
            }
            return self.give_up(failure, acts);
        }
        let (chunk, members) = match self.plan(at) {
            Ok(planned) => planned,
            Err(failure) => return self.give_up(failure, acts),
        };
        let syncs = members.len() < chunk.set_size as usize;
        let (handle, close) = (self.handle, chunk.closed);
        let kind = RaiseKind { handle, close, syncs, keeps_lease: false };
        let servers: Vec<ServerId> = members.iter().map(|(at, _)| at.server).collect();
        let outdone = may_be_outdone(&at.view, (handle, &chunk), &servers);
        let planned = PlannedSet { size: members.len(), outdone };
        let members = members.into_iter().map(RaiseMember::standing);
        let round = RaiseRound::start(&at.view, kind, members, acts);
        self.phase = GrowPhase::Raising(round, CloneTurn::Next, planned);
    }

    /// The members that the clone is to join, which does not include its own server: one that has a
    /// replica of the chunk makes no clone of it.
    fn plan(&self, at: &PlaceView<'_>) -> Result<(ChunkRecord, Vec<LiveMember>), Failure> {
        let blocked = |why: &str| {
            let line = format!("chunk {}: {why}", self.handle.short());
            Failure::not_done(ErrorCode::Busy, line)
        };
        let chunk = at.view.state.chunk(self.handle).ok_or_else(|| blocked("it is gone"))?;
        let members = plan_growth(&at.view, self.handle, &chunk);
        let members = members.map_err(|it| blocked(&it.why))?;
        if members.iter().any(|(at, _)| at.server == self.receiver.server) {
            return Err(blocked("the clone's server has a replica already"));
        }
        Ok((chunk, members))
    }

    /// All that were asked have answered, or will not.
    fn on_raised(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let (view, handle, receiver) = (&at.view, self.handle, self.receiver.server);
        let GrowPhase::Raising(raise, turn, planned) = &mut self.phase else {
            unreachable!("a round was over")
        };
        let Some(chunk) = view.state.chunk(handle) else {
            let gone = Failure::not_done(ErrorCode::NoSuchChunk, "the chunk is gone");
            return self.give_up(gone, acts);
        };
        let answered = raise.raised();
        let replica = |r: &RaisedReplica| (r.at.server, KnownReplica::of(&r.report, view.now.time));
        let mut stale = behind(&answered.iter().map(replica).collect::<Vec<_>>());
        stale.retain(|server| *server != receiver || !broken(Rule::R30));
        let good: Vec<RaisedReplica> =
            answered.into_iter().filter(|r| !stale.contains(&r.at.server)).collect();
        let joined = good.iter().any(|r| r.at.server == receiver);
        let members: Vec<ServerId> =
            good.iter().map(|r| r.at.server).filter(|server| *server != receiver).collect();
        let joins = joined || *turn == CloneTurn::Next;
        let set = may_be_grown_set(view, (handle, &chunk), &members, usize::from(joins));
        if let Err(blocked) = set {
            return self.give_up(Failure::not_done(ErrorCode::TooFewServers, blocked.why), acts);
        }
        let mut stay = members.clone();
        stay.push(receiver);
        if growth_sheds(view, (handle, &chunk), &stay) {
            let why = "a member did not take its raise";
            return self.give_up(Failure::not_done(ErrorCode::TooFewServers, why), acts);
        }
        // R8: whoever was asked and is not of the set may stand at this very version.
        let all_stand = raise.all_answered() && stale.is_empty();
        if !all_stand && !broken(Rule::R8) {
            let syncs = members.len() < chunk.set_size as usize;
            let kind = RaiseKind { syncs, ..raise.kind() };
            let over = *turn == CloneTurn::Asked && !joined;
            let turn = if over { CloneTurn::Over } else { *turn };
            let planned = *planned;
            let round = RaiseRound::start(view, kind, again(good), acts);
            self.phase = GrowPhase::Raising(round, turn, planned);
        } else if *turn == CloneTurn::Next {
            // GW4
            let clone = RaiseMember { at: self.receiver.clone(), from: RaiseFrom::Clone };
            raise.ask(view, clone, acts);
            *turn = CloneTurn::Asked;
        } else {
            let above = raise.to() > chunk.version || broken(Rule::R1);
            assert!(above, "a raise's version is above the logged one (R7)");
            let (version, set_size) = (raise.to(), set_size(&good));
            // Who dropped out meanwhile may hold more as well.
            let outdone = planned.outdone || members.len() < planned.size;
            let of_set = good.iter().filter(|it| members.contains(&it.at.server));
            let reached = of_set.map(|it| it.report.serial).max();
            let keeps_above = reached.filter(|_| outdone);
            let time = view.now.wall;
            let (held, committed) =
                lost_bytes::held(view, (handle, &chunk), &lengths(&good)).unzip();
            acts.propose(SetVersion {
                time,
                handle,
                version,
                set_size,
                keeps_above,
                charges: false,
                held,
                committed,
            });
            self.phase = GrowPhase::Logging { joined };
        }
    }

    /// The set is as it was; whoever waits for a lease is looked at anew.
    fn give_up(&self, failure: Failure, acts: &mut Acts<'_>) {
        acts.push(Act::Grown(self.handle, Err(failure)));
        acts.push(Act::Finish);
    }
}

/// Orders the clone to become equal to the member that has gone furthest.
fn finish(
    view: &View<'_>,
    (handle, receiver): (ChunkHandle, &ReplicaAt),
    members: &[LiveMember],
    acts: &mut Acts<'_>,
) -> GrowPhase {
    let serial = |server| view.fleet.locations().get(handle, server).map(|replica| replica.serial);
    let furthest = members.iter().max_by_key(|(at, _)| serial(at.server));
    let (source, version) = furthest.expect("no set is empty (T2)").clone();
    let from = source.server;
    let clone = CloneChunk {
        term: view.term.number,
        handle,
        version,
        server: receiver.server,
        source,
        rate: 0,
        finish: true,
    };
    // Clients wait meanwhile, and most of it is there.
    let deadline = view.now.time + view.term.config.lease();
    acts.ask(receiver.clone(), Question::Clone(clone), deadline);
    GrowPhase::Finishing(from)
}

fn left_out(handle: ChunkHandle, server: ServerId) -> Failure {
    let line = format!("chunk {}: the clone did not take its raise", handle.short());
    Failure { server, ..Failure::not_done(ErrorCode::ReplicaFailed, line) }
}
