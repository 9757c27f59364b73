//! A file is about to change a chunk that other files have, too, since a snapshot (GFS §3.4, R32).
//!
//! ```text
//!   Raising: the chunk's set ─► Copying: each on its own disk ─► Adopting: Raise{adopt}
//!      │ ▲ fresh number              └─► too few: it waits          └─► not taken: it waits
//!      └─┘ └─► not alike: levelled, by a lease                      ▼
//!                                             Logging: CopyOnWrite ─► the copy is leased
//! ```
//! - CW1: what is copied stands still: its set is raised first, so that no lease of before changes
//!   anything, and this job has the chunk (K1). Whoever is not of the set is no source.
//! - CW2: the record is proposed when all of the copy's set hold it on disk, at one version that
//!   nobody else stands at (R8, R10).
//! - CW3: the chunk that was copied is logged at the version that it was raised to. So a reader
//!   that knows it as this file's is refused, and asks where the file's bytes are now (R12).
//! - CW4: the copy goes on with fewer replicas than the chunk has, where a server cannot copy, but
//!   not with fewer than a set may have (R11); the others are made as of any chunk that lacks some.
//! - CW5: what may have lost bytes, and what differs between replicas, is levelled before the
//!   two chunks part (R16). The writer does it again in its own; nobody would in the other, and
//!   whoever read it there would be given other bytes once a server is lost.

use super::acts::{Act, Acts, Question};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaiseFrom, RaiseKind, RaiseMember, RaiseRound, RaisedReplica, again, set_size};
use crate::applied::Applied;
use crate::chunk_place::ChunkPlace;
use crate::fleet::{KnownReplica, behind};
use crate::record::CopyOnWrite;
use crate::rules::decided_set::PlannedDecision;
use crate::rules::members::least_set;
use crate::rules::replica_set::{LiveMember, may_be_raised_set};
use crate::state::ChunkRecord;
use crate::underway::Activity;
use cairn_protocol::{CopyChunk, CopyChunkAnswer, ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt, ServerId};
use std::collections::BTreeMap;

/// Lease times that servers may take to copy a chunk.
const PATIENCE: u32 = 3;

/// How the chunk that is copied stands, once it is raised.
#[derive(Clone, Copy, Debug)]
struct SharedStands {
    version: ChunkVersion,
    set_size: u32,
}

/// What servers said of their copies; none: not yet.
type Copies = BTreeMap<ServerId, (ReplicaAt, Option<Result<CopyChunkAnswer, Failure>>)>;

/// How far the copy is.
#[derive(Debug)]
enum CopyPhase {
    /// The chunk's set is raised.
    Raising(RaiseRound, PlannedDecision),
    /// Its servers copy it.
    Copying(SharedStands, Copies),
    /// The copies become replicas.
    Adopting(SharedStands, RaiseRound),
    /// The file's new chunk is on its way into the log.
    Logging(Vec<RaisedReplica>),
}

/// A copy for one file.
#[derive(Debug)]
pub(crate) struct CopyOnWriteJob {
    shared: ChunkHandle,
    copy: ChunkHandle,
    /// Where the file has it: here, or before the place that is to be opened.
    place: ChunkPlace,
    phase: CopyPhase,
}

impl CopyOnWriteJob {
    /// Raises these members first.
    pub(crate) fn start(
        at: &PlaceView<'_>,
        (shared, chunk): (ChunkHandle, &ChunkRecord),
        members: Vec<LiveMember>,
        acts: &mut Acts<'_>,
    ) -> Self {
        assert!(at.view.state.sharing().is_shared(shared), "else it needs no copy (R32)");
        let copy = acts.numbers.handle();
        let place = ChunkPlace::new(at.place.file, chunk.index);
        let servers: Vec<ServerId> = members.iter().map(|(at, _)| at.server).collect();
        let planned = PlannedDecision::on(&at.view, (shared, chunk), &servers);
        let members: Vec<RaiseMember> = members.into_iter().map(RaiseMember::standing).collect();
        let phase = CopyPhase::Raising(raise(at, (shared, chunk), members, acts), planned);
        Self { shared, copy, place, phase }
    }

    pub(crate) fn doing(&self) -> Activity {
        Activity::Copying { shared: self.shared, copy: self.copy }
    }

    pub(crate) fn describe(&self) -> String {
        let others = "which other files have too";
        match &self.phase {
            CopyPhase::Raising(raise, _) => {
                format!("raising {} replicas of a chunk {others}, to copy it", raise.size())
            }
            CopyPhase::Copying(_, copies) => {
                format!("{} servers copy a chunk {others}", copies.len())
            }
            CopyPhase::Adopting(_, raise) => format!("{} copies become replicas", raise.size()),
            CopyPhase::Logging(_) => "logging the file's own copy".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (CopyPhase::Raising(raise, _), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_raised(at, acts);
                }
            }
            (CopyPhase::Copying(_, copies), JobEvent::CopyAnswered(server, result)) => {
                let known = copies.get_mut(&server).expect("who answers was asked");
                assert!(known.1.is_none(), "each call is answered once");
                known.1 = Some(result);
                if copies.values().all(|(_, result)| result.is_some()) {
                    self.on_copied(at, acts);
                }
            }
            (CopyPhase::Adopting(_, raise), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_adopted(at, acts);
                }
            }
            (CopyPhase::Logging(raised), JobEvent::Applied(applied)) => match applied {
                Applied::Failed(failure) if failure.code == ErrorCode::Busy => {
                    acts.push(Act::LookAgain(failure.message.clone().into()));
                }
                Applied::Failed(failure) if failure.code == ErrorCode::QuotaExceeded => {
                    acts.push(Act::FailWriters(failure.clone()));
                }
                Applied::Failed(failure) => acts.push(Act::Fail(failure.clone())),
                _ => {
                    let raised = std::mem::take(raised);
                    self.on_logged(at, raised, acts);
                }
            },
            (phase, event) => unreachable!("{event:?} is not waited for in {phase:?} (JB2)"),
        }
    }

    /// A round of the raise of the shared chunk is over.
    fn on_raised(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let CopyPhase::Raising(raise, planned) = &self.phase else {
            unreachable!("a round was over")
        };
        let planned = *planned;
        let Some(chunk) = at.view.state.chunk(self.shared) else {
            return acts.wait("the chunk's record cannot be read");
        };
        let answered = raise.raised();
        let replica =
            |r: &RaisedReplica| (r.at.server, KnownReplica::of(&r.report, at.view.now.time));
        let stale = behind(&answered.iter().map(replica).collect::<Vec<_>>());
        let good: Vec<RaisedReplica> =
            answered.into_iter().filter(|r| !stale.contains(&r.at.server)).collect();
        let servers: Vec<ServerId> = good.iter().map(|r| r.at.server).collect();
        let set = may_be_raised_set(&at.view, (self.shared, &chunk), &servers, planned);
        if let Err(blocked) = set {
            return acts.wait(blocked.why);
        }
        if !raise.all_answered() || !stale.is_empty() {
            let members = again(good).collect();
            let round = self::raise(at, (self.shared, &chunk), members, acts);
            self.phase = CopyPhase::Raising(round, planned);
            return;
        }
        // CW5
        let is_level = stand_alike(&good) && !good.iter().any(|r| r.report.suspect);
        if !is_level && !broken(Rule::R16) {
            return acts.push(Act::LevelFirst((self.shared, raise.to()), good, planned));
        }
        let stands = SharedStands { version: raise.to(), set_size: set_size(&good) };
        let deadline = at.view.now.time + PATIENCE * at.view.term.config.lease();
        let mut copies = Copies::new();
        for replica in good {
            let server = replica.at.server;
            let order = CopyChunk {
                term: at.view.term.number,
                handle: self.shared,
                version: stands.version,
                server,
                copy: self.copy,
            };
            acts.push(Act::Chosen(server));
            acts.ask(replica.at.clone(), Question::Copy(order), deadline);
            copies.insert(server, (replica.at, None));
        }
        self.phase = CopyPhase::Copying(stands, copies);
    }

    /// All servers have copied, or have not.
    fn on_copied(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let CopyPhase::Copying(stands, copies) = &self.phase else { unreachable!("they copied") };
        let (stands, mut failed) = (*stands, String::new());
        let mut members = Vec::new();
        for (server, (to, result)) in copies {
            match result.as_ref().expect("all have answered") {
                Ok(_) => members.push(RaiseMember { at: to.clone(), from: RaiseFrom::Clone }),
                Err(failure) => {
                    if failure.code == ErrorCode::ChecksumMismatch {
                        acts.push(Act::MarkDamaged(self.shared, *server));
                    }
                    failed.clone_from(&failure.message);
                }
            }
        }
        let Some(chunk) = at.view.state.chunk(self.shared) else {
            return acts.wait("the chunk's record cannot be read");
        };
        // CW4
        if members.len() < least_set(&chunk) || members.is_empty() {
            let all = copies.len();
            let failed_at = copies.iter().find(|(_, (_, result))| matches!(result, Some(Err(_))));
            failed_at.into_iter().for_each(|(server, _)| self.blame(*server, acts));
            let why = format!("{} of {all} servers copied the chunk: {failed}", members.len());
            return acts.wait(why);
        }
        let (handle, close) = (self.copy, chunk.closed);
        let kind = RaiseKind { handle, close, syncs: false, keeps_lease: false };
        let round = RaiseRound::start(&at.view, kind, members, acts);
        self.phase = CopyPhase::Adopting(stands, round);
    }

    /// All copies are replicas, or some are not.
    fn on_adopted(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let CopyPhase::Adopting(stands, raise) = &self.phase else {
            unreachable!("a round was over")
        };
        if !raise.all_answered() {
            let silent = raise.silent();
            silent.into_iter().for_each(|server| self.blame(server, acts));
            // The handle is spent: what there is of it is garbage once another one is logged.
            return acts.wait("a server did not say that its copy is a replica");
        }
        let raised = raise.raised();
        assert_ne!(self.copy, self.shared, "a copy is another chunk");
        let floor = at.view.underway.lowest_made().map_or(self.copy, |it| it.min(self.copy));
        acts.propose(CopyOnWrite {
            time: at.view.now.wall,
            file: self.place.file,
            index: self.place.index,
            shared: self.shared,
            shared_version: stands.version,
            shared_set_size: stands.set_size,
            handle: self.copy,
            version: raise.to(),
            set_size: set_size(&raised),
            floor,
            charges: at.view.charges() && at.wants.mutates,
        });
        self.phase = CopyPhase::Logging(raised);
    }

    /// The chunk rests, longer each time: what was copied in vain takes room for a while.
    fn blame(&self, server: ServerId, acts: &mut Acts<'_>) {
        acts.push(Act::BlameFor { handle: self.shared, primary: server, blamed: server });
    }

    /// The file has a chunk of its own.
    fn on_logged(&self, at: &PlaceView<'_>, raised: Vec<RaisedReplica>, acts: &mut Acts<'_>) {
        assert!(!raised.is_empty(), "a copy is somewhere");
        for replica in &raised {
            acts.push(Act::Placed(self.copy, replica.at.server, replica.report.clone()));
        }
        let is_here = at.place == self.place && at.wants.lease;
        acts.push(match is_here {
            true => Act::GrantLease(self.copy, raised),
            false => Act::LookAgain("the file has a chunk of its own".into()),
        });
    }
}

/// Whether all have applied the same: mutations are numbered through all leases of a chunk. One
/// that was levelled to another's bytes, and did not hear of its number, has changed under another
/// version.
fn stand_alike(set: &[RaisedReplica]) -> bool {
    let stands =
        |it: &RaisedReplica| (it.report.mutated_version, it.report.serial, it.report.length);
    set.windows(2).all(|pair| stands(&pair[0]) == stands(&pair[1]))
}

fn raise(
    at: &PlaceView<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    members: Vec<RaiseMember>,
    acts: &mut Acts<'_>,
) -> RaiseRound {
    let syncs = members.len() < chunk.set_size as usize;
    let kind = RaiseKind { handle, close: chunk.closed, syncs, keeps_lease: false };
    RaiseRound::start(&at.view, kind, members, acts)
}
