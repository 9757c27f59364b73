//! Granting a lease: raise, log, grant (§3.1; R7, R8, R29).
//!
//! ```text
//!   Raising ─► Logging (SetVersion) ─► Granting ─► waiters are answered
//!      │ ▲ fresh number                    └─► not taken: another primary is tried
//!      └─┘      └─► appends that the set may not take go on in the next chunk; writes wait
//! ```
//! - GR1: a version is logged only when every replica asked stands at it (R8) and they may be a set
//!   (`replica_set.rs`); only then does anybody get the lease.

use super::acts::{Act, Acts, Question};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaiseKind, RaiseMember, RaiseRound, RaisedReplica, again, lengths, set_size};
use crate::applied::Applied;
use crate::chunk_place::ChunkPlace;
use crate::fleet::{KnownReplica, behind};
use crate::leases::{GrantedLease, LeaseStatus};
use crate::record::SetVersion;
use crate::rules::decided_set::PlannedDecision;
use crate::rules::live_file::{is_live_file, no_file};
use crate::rules::lost_bytes;
use crate::rules::members::least_set;
use crate::rules::next_step::bears_a_wait;
use crate::rules::replica_set::{LiveMember, may_be_raised_set};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{
    ErrorCode, Failure, GrantLease, GrantLeaseAnswer, LevelSource, Outcome, ReplicaReport,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, LeaseId, ReplicaAt, SerialNumber, ServerId};
use std::cmp::Reverse;

/// How far a grant is.
#[derive(Debug)]
enum GrantPhase {
    /// The set is raised.
    Raising(RaiseRound, PlannedDecision),
    /// Its version is on its way into the log.
    Logging(Vec<RaisedReplica>),
    /// The new primary levels the replicas (R16).
    Granting { lease: LeaseId, primary: ServerId },
}

/// A lease on its way to one of a chunk's replicas.
#[derive(Debug)]
pub(crate) struct GrantJob {
    handle: ChunkHandle,
    phase: GrantPhase,
}

impl GrantJob {
    /// Raises these members; what they answer decides.
    pub(crate) fn start(
        view: &View<'_>,
        (handle, chunk): (ChunkHandle, &ChunkRecord),
        members: Vec<LiveMember>,
        acts: &mut Acts<'_>,
    ) -> Self {
        let servers: Vec<ServerId> = members.iter().map(|(at, _)| at.server).collect();
        let planned = PlannedDecision::on(view, (handle, chunk), &servers);
        let members: Vec<RaiseMember> = members.into_iter().map(RaiseMember::standing).collect();
        let raise = raise(view, (handle, chunk), members, acts);
        Self { handle, phase: GrantPhase::Raising(raise, planned) }
    }

    /// Goes on where all of a set stand at the version that they were raised to.
    pub(crate) fn start_logging(
        at: &PlaceView<'_>,
        (handle, version): (ChunkHandle, ChunkVersion),
        (raised, planned): (Vec<RaisedReplica>, PlannedDecision),
        acts: &mut Acts<'_>,
    ) -> Option<Self> {
        let Some(chunk) = at.view.state.chunk(handle) else {
            acts.wait("the chunk's record cannot be read");
            return None;
        };
        if at.view.state.chunk_at(at.place.file, chunk.index) != Some(handle) {
            acts.push(Act::LookAgain("the file has another chunk there".into()));
            return None;
        }
        let phase = log(at, (handle, &chunk, planned), version, raised, acts);
        Some(Self { handle, phase })
    }

    /// Grants a chunk that stands, raised and logged; none where its file is gone.
    pub(crate) fn start_granting(
        at: &PlaceView<'_>,
        handle: ChunkHandle,
        raised: Vec<RaisedReplica>,
        acts: &mut Acts<'_>,
    ) -> Option<Self> {
        let phase = grant(at, handle, raised, acts)?;
        Some(Self { handle, phase })
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        match &self.phase {
            GrantPhase::Raising(raise, _) => {
                format!("raising {} replicas for a lease", raise.size())
            }
            GrantPhase::Logging(_) => "logging the version".to_owned(),
            GrantPhase::Granting { .. } => "the primary levels the replicas".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (GrantPhase::Raising(raise, _), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_raised(at, acts);
                }
            }
            (GrantPhase::Logging(raised), JobEvent::Applied(applied)) => {
                let raised = std::mem::take(raised);
                if let Applied::Failed(failure) = applied {
                    acts.push(match failure.code {
                        ErrorCode::QuotaExceeded => Act::FailWriters(failure.clone()),
                        _ => Act::Fail(failure.clone()),
                    });
                } else if let Some(phase) = grant(at, self.handle, raised, acts) {
                    self.phase = phase;
                }
            }
            (GrantPhase::Granting { lease, primary }, JobEvent::GrantAnswered(result)) => {
                on_granted(self.handle, (*lease, *primary), result, acts);
            }
            (phase, event) => unreachable!("{event:?} is not waited for in {phase:?} (JB2)"),
        }
    }

    /// A round of the raise is over.
    fn on_raised(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let GrantPhase::Raising(raise, planned) = &self.phase else {
            unreachable!("a round was over")
        };
        let planned = *planned;
        let (view, handle) = (&at.view, self.handle);
        let Some(chunk) = view.state.chunk(handle) else {
            return acts.wait("the chunk's record cannot be read");
        };
        let answered = raise.raised();
        let replica = |r: &RaisedReplica| (r.at.server, KnownReplica::of(&r.report, view.now.time));
        let stale = behind(&answered.iter().map(replica).collect::<Vec<_>>());
        let good: Vec<RaisedReplica> =
            answered.into_iter().filter(|r| !stale.contains(&r.at.server)).collect();
        let servers: Vec<ServerId> = good.iter().map(|r| r.at.server).collect();
        let appends = appends(at, handle);
        let marked = good.iter().any(|r| r.report.closed);
        let least = if broken(Rule::R11) { 1 } else { least_set(&chunk) };
        match may_be_raised_set(view, (handle, &chunk), &servers, planned) {
            _ if appends && (marked || chunk.closed) => acts.push(Act::GoOnInNext),
            // A set that the master decided on takes no appends (R11).
            Ok(()) if appends && good.len() < least => acts.push(Act::GoOnInNext),
            Err(blocked) if appends && !bears_a_wait(view, at.place, at.since, &blocked) => {
                acts.push(Act::GoOnInNext);
            }
            Err(blocked) => acts.wait(blocked.why),
            // R8: whoever was asked and is not of the set may stand at this very version.
            Ok(()) if (raise.all_answered() && stale.is_empty()) || broken(Rule::R8) => {
                let chunk = (handle, &chunk, planned);
                self.phase = log(at, chunk, raise.to(), good, acts);
            }
            Ok(()) => {
                let members = again(good).collect();
                self.phase = GrantPhase::Raising(
                    self::raise(view, (handle, &chunk), members, acts),
                    planned,
                );
            }
        }
    }
}

fn raise(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    members: Vec<RaiseMember>,
    acts: &mut Acts<'_>,
) -> RaiseRound {
    let syncs = members.len() < chunk.set_size as usize;
    let kind = RaiseKind { handle, close: chunk.closed, syncs, keeps_lease: false };
    RaiseRound::start(view, kind, members, acts)
}

/// Puts the version that all of a set stand at into the log.
fn log(
    at: &PlaceView<'_>,
    (handle, chunk, planned): (ChunkHandle, &ChunkRecord, PlannedDecision),
    version: ChunkVersion,
    set: Vec<RaisedReplica>,
    acts: &mut Acts<'_>,
) -> GrantPhase {
    let above = version > chunk.version || broken(Rule::R1);
    assert!(above, "a raise's version is above the logged one (R7)");
    let servers: Vec<ServerId> = set.iter().map(|r| r.at.server).collect();
    let (held, committed) = lost_bytes::held(&at.view, (handle, chunk), &lengths(&set)).unzip();
    let reached = set.iter().map(|r| r.report.serial).max().expect("no set is empty (R11)");
    acts.propose(SetVersion {
        keeps_above: planned.keeps_above(&at.view, (handle, chunk), (&servers, reached)),
        time: at.view.now.wall,
        handle,
        version,
        set_size: set_size(&set),
        charges: charges(at, handle),
        held,
        committed,
    });
    GrantPhase::Logging(set)
}

/// Whether the file is charged what may be written under the lease: not of what other files have,
/// too, which nobody writes (R32). Who has come to write that gets a copy, and the copy is charged
/// to the file that it is made for; this record would charge whichever the chunk was made for.
fn charges(at: &PlaceView<'_>, handle: ChunkHandle) -> bool {
    at.view.charges() && at.wants.mutates && !at.view.state.sharing().is_shared(handle)
}

/// Whether the lease is for somebody who appends: not to what other files have, too (R32).
fn appends(at: &PlaceView<'_>, handle: ChunkHandle) -> bool {
    at.wants.appends && (!at.view.state.sharing().is_shared(handle) || broken(Rule::R32))
}

/// Makes one of the set its primary; the version is logged and applied.
fn grant(
    at: &PlaceView<'_>,
    handle: ChunkHandle,
    raised: Vec<RaisedReplica>,
    acts: &mut Acts<'_>,
) -> Option<GrantPhase> {
    let view = &at.view;
    // R20: the file may have been deleted while the record was on its way.
    if !is_live_file(view.state, at.place.file) {
        acts.push(Act::Fail(no_file(at.place.file)));
        return None;
    }
    let Some(chunk) = view.state.chunk(handle) else {
        acts.wait("the chunk's record cannot be read");
        return None;
    };
    // Here, or before the place that is to be opened (CW5).
    let place = ChunkPlace::new(at.place.file, chunk.index);
    // R34: whoever was raised can change nothing any more, and nobody else may now.
    if view.is_frozen(place.file) {
        acts.wait("a snapshot of it is being taken");
        return None;
    }
    // R5: who was raised may have come back elsewhere since, and only that process is known of now.
    if raised.iter().any(|r| view.fleet.at(r.at.server) != Some(&r.at)) {
        acts.wait("a member came back at another address");
        return None;
    }
    let marked = raised.iter().any(|r| r.report.closed);
    // R18: no append lease on a closed chunk, nor on one that is about to be.
    let open = !chunk.closed && !marked && view.underway.later(place).is_none();
    let takes_appends = open && appends(at, handle);
    assert!(!takes_appends || !chunk.closed, "no append lease on a closed chunk (R18)");
    let chosen = choose_primary(view, handle, &raised);
    let (primary, source) = (chosen.at.clone(), furthest_before(chosen, &raised));
    let length = raised.iter().map(|r| r.report.length).max().unwrap_or(0);
    let serial = first_serial(view, handle, &raised);
    assert!(serial.leaves_room(), "BE1, BE2: every word that it comes of was looked at");
    let secondaries: Vec<ReplicaAt> =
        raised.into_iter().map(|r| r.at).filter(|at| at.server != primary.server).collect();
    let request = GrantLease {
        term: view.term.number,
        handle,
        version: chunk.version,
        lease: acts.numbers.lease(),
        secondaries,
        length,
        serial,
        file: place.file,
        index: place.index,
        writes_only: !takes_appends,
        server: primary.server,
        source: source.map(Box::new),
    };
    acts.push(Act::InsertLease(handle, sent(view, &request, &primary)));
    let phase = GrantPhase::Granting { lease: request.lease, primary: primary.server };
    // Levelling asks the secondaries, each with a deadline of its own.
    let deadline = view.now.time + view.term.silent() + view.term.heartbeat();
    acts.ask(primary, Question::Grant(request), deadline);
    Some(phase)
}

/// The lease as it stands while its grant is on its way (G2).
fn sent(view: &View<'_>, request: &GrantLease, holder: &ReplicaAt) -> GrantedLease {
    let server = view.fleet.servers().get(holder.server);
    GrantedLease {
        id: request.lease,
        version: request.version,
        holder: holder.clone(),
        incarnation: server.map(|server| server.incarnation).unwrap_or_default(),
        secondaries: Some(request.secondaries.clone()),
        granted: view.now.time,
        until: view.now.time + view.term.config.lease(),
        status: LeaseStatus::Sent,
        confirmed: false,
        takes_appends: !request.writes_only,
        adopted: false,
        acknowledged: 0,
    }
}

/// Who has gone furthest: the others are levelled to its bytes, and what only it has may have been
/// acknowledged though its primary could tell nobody (R29). Of several, one whose bytes are not in
/// doubt; the former holder, whose lease is over by the raise; else whoever holds the fewest
/// leases. Before all that, whose leases came to nothing least often of late: each of the set gets
/// its turn, and first fetches what it lacks.
fn choose_primary<'a>(
    view: &View<'_>,
    handle: ChunkHandle,
    raised: &'a [RaisedReplica],
) -> &'a RaisedReplica {
    assert!(!raised.is_empty(), "a set has members (R11)");
    let former = view.leases.get(handle).map(|lease| lease.holder.server);
    let first = raised.iter().min_by_key(|raised| {
        let (server, report) = (raised.at.server, &raised.report);
        let failures = view.troubles.failures_of(handle, server);
        let (furthest, few) = (Reverse(report.serial), view.leases.count_of(server));
        (failures, furthest, report.suspect, Some(server) != former, few, server)
    });
    first.expect("a set has members")
}

/// The number that the lease begins with (R16): the highest there is; of a new life, where the
/// bytes that are spread are those of one that may have lost some, or of one that was decided on
/// while another has applied more (R28).
fn first_serial(view: &View<'_>, handle: ChunkHandle, raised: &[RaisedReplica]) -> SerialNumber {
    let furthest = raised.iter().max_by_key(|it| (it.report.serial, !it.report.suspect));
    let serial = furthest.map(|it| it.report.serial).unwrap_or_default();
    let known = view.fleet.locations().of(handle).map(|(_, replica)| replica.serial);
    // BE2: no lease begins behind a number that nobody can have counted up to.
    let known = known.filter(|serial| serial.is_usual()).max();
    if let (Some(_), Some(known)) = (view.state.kept_above(handle), known)
        && known > serial
        && !broken(Rule::R28)
    {
        return known.next_life();
    }
    match furthest.map(|it| &it.report) {
        Some(report) if report.suspect && !broken(Rule::R28) => report.serial.next_life(),
        Some(report) => report.serial,
        None => SerialNumber::default(),
    }
}

/// Whom one that is to be primary catches up with; nobody, where none has gone further (R16).
/// Mutations of a chunk are numbered through all its leases, so the number alone tells.
fn furthest_before(chosen: &RaisedReplica, raised: &[RaisedReplica]) -> Option<LevelSource> {
    let furthest = raised.iter().max_by_key(|it| (it.report.serial, !it.report.suspect))?;
    let ReplicaReport { mutated_version, serial, length, .. } = furthest.report;
    let at = furthest.at.clone();
    let source = LevelSource { at, mutated_version, serial, length };
    (serial > chosen.report.serial).then_some(source)
}

fn on_granted(
    handle: ChunkHandle,
    (lease, primary): (LeaseId, ServerId),
    result: Result<GrantLeaseAnswer, Failure>,
    acts: &mut Acts<'_>,
) {
    let failure = match result {
        Ok(_) => {
            acts.push(Act::ConfirmLease(handle, lease));
            return acts.push(Act::Finish);
        }
        Err(failure) => failure,
    };
    // Nothing was sent, or the holder itself said no: then it holds nothing.
    let unknown = failure.outcome == Outcome::Unknown;
    let status = if unknown { LeaseStatus::Doubted } else { LeaseStatus::Over };
    acts.push(Act::DoubtLease(handle, lease, status));
    if failure.code == ErrorCode::ChecksumMismatch {
        acts.push(Act::MarkDamaged(handle, primary));
    }
    let other = failure.code == ErrorCode::ReplicaFailed;
    let blamed = if other { failure.server } else { primary };
    acts.push(Act::BlameFor { handle, primary, blamed });
    // Another primary is tried at once; when each had its turn, after a while.
    acts.push(Act::LookAgain(format!("the lease was not taken: {}", failure.message).into()));
}
