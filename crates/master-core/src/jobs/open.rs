//! Opening a chunk, which closes the one before it (R10, R18).
//!
//! ```text
//!   Creating: Raise(create) on fresh servers ─► Logging: OpenChunk{k+1, closes k} ─► granted
//!      │ ▲ fresh number, whoever did not answer is replaced (R8)
//!      └─┘
//! ```
//! - OC1: `OpenChunk` is proposed only when nobody can acknowledge an append in the chunk that it
//!   closes: its primary said so, one of its set took a later raise, or the lease is over
//!   (`next_step.rs`).

use super::acts::{Act, Acts};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaiseFrom, RaiseKind, RaiseMember, RaiseRound, RaisedReplica, again, set_size};
use super::wait_cause::WaitCause;
use crate::applied::Applied;
use crate::record::{CloseChunk, OpenChunk};
use crate::rules::charging::check_charge;
use crate::rules::closing::{is_hole, open_before};
use crate::rules::placement::{choose_servers, usable_count, with_room_count};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ReplicaAt, ServerId};
use std::collections::BTreeSet;

/// How far the opening is.
#[derive(Debug)]
enum OpenPhase {
    /// The replicas are being made.
    Creating(RaiseRound),
    /// The new chunk is on its way into the log.
    Logging(Vec<RaisedReplica>),
}

/// A new chunk.
#[derive(Debug)]
pub(crate) struct OpenJob {
    handle: ChunkHandle,
    /// Who was asked so far.
    tried: BTreeSet<ServerId>,
    phase: OpenPhase,
}

impl OpenJob {
    /// Makes a chunk on fresh servers; none where there are too few.
    pub(crate) fn start(at: &PlaceView<'_>, acts: &mut Acts<'_>) -> Option<Self> {
        let view = &at.view;
        if let Err(failure) = check_charge(view, at.place) {
            refused(at, failure, acts);
            return None;
        }
        let goal = goal(at);
        let mut tried = BTreeSet::new();
        let chosen = choose_servers(view, &[], &tried, goal, acts.random);
        let starting = view.term.is_starting(view.now.time);
        if chosen.len() < goal && starting && view.state.chunk_count() > 0 {
            acts.wait("chunkservers are still joining");
            return None;
        }
        if chosen.len() < least_created(at) {
            without_servers(at, chosen.len(), acts);
            return None;
        }
        let handle = acts.numbers.handle();
        // A chunk between others is full by definition from the start (R19).
        let close = is_hole(view.state, at.place);
        let kind = RaiseKind { handle, close, shrinks: false, keeps_lease: false };
        let raise = create(at, kind, (Vec::new(), chosen), &mut tried, acts);
        Some(Self { handle, tried, phase: OpenPhase::Creating(raise) })
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        match &self.phase {
            OpenPhase::Creating(raise) => format!("creating {} replicas", raise.size()),
            OpenPhase::Logging(_) => "logging the version".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (OpenPhase::Creating(raise), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_created(at, acts);
                }
            }
            (OpenPhase::Logging(raised), JobEvent::Applied(applied)) => match applied {
                Applied::Failed(failure) if failure.code == ErrorCode::QuotaExceeded => {
                    refused(at, failure.clone(), acts);
                }
                Applied::Failed(failure) => acts.push(Act::Fail(failure.clone())),
                Applied::ChunkOpened(opened) => {
                    let raised = std::mem::take(raised);
                    on_opened(at, (self.handle, opened.handle), raised, acts);
                }
                other => unreachable!("OpenChunk opens a chunk, or fails: {other:?}"),
            },
            (phase, event) => unreachable!("{event:?} is not waited for in {phase:?} (JB2)"),
        }
    }

    /// A round of the creation is over.
    fn on_created(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let OpenPhase::Creating(raise) = &self.phase else { unreachable!("a round was over") };
        let raised = raise.raised();
        let accepted = raise.all_answered() || (broken(Rule::R10) && !raised.is_empty());
        if accepted {
            let closes = open_before(at.view.state, at.place).map(|(before, _)| before);
            assert_ne!(closes, Some(self.handle), "a chunk does not close itself");
            assert!(!raised.is_empty(), "a chunk is made somewhere");
            let floor =
                at.view.underway.lowest_made().map_or(self.handle, |it| it.min(self.handle));
            acts.propose(OpenChunk {
                time: at.view.now.wall,
                file: at.place.file,
                index: at.place.index,
                handle: self.handle,
                version: raise.to(),
                set_size: set_size(&raised),
                closes,
                floor,
                charges: at.view.charges(),
            });
            self.phase = OpenPhase::Logging(raised);
            return;
        }
        // R10, R8: the number is spent; those that did not answer are replaced.
        let kind = raise.kind();
        let lacking = goal(at).saturating_sub(raised.len());
        let kept: Vec<&ReplicaAt> = raised.iter().map(|r| &r.at).collect();
        let fresh = choose_servers(&at.view, &kept, &self.tried, lacking, acts.random);
        let size = raised.len() + fresh.len();
        if size < least_created(at) {
            return without_servers(at, size, acts);
        }
        let raise = create(at, kind, (raised, fresh), &mut self.tried, acts);
        self.phase = OpenPhase::Creating(raise);
    }
}

pub(super) fn goal(at: &PlaceView<'_>) -> usize {
    at.view.state.entry(at.place.file).map_or(0, |entry| entry.replication) as usize
}

/// The fewest replicas that a chunk may be created with (R11).
pub(super) fn least_created(at: &PlaceView<'_>) -> usize {
    at.view.term.config.min_replicas.max(1) as usize
}

/// One round: those that stand already, and fresh ones beside those `tried` before.
pub(super) fn create(
    at: &PlaceView<'_>,
    kind: RaiseKind,
    (kept, fresh): (Vec<RaisedReplica>, Vec<ReplicaAt>),
    tried: &mut BTreeSet<ServerId>,
    acts: &mut Acts<'_>,
) -> RaiseRound {
    tried.extend(fresh.iter().map(|at| at.server));
    let fresh = fresh.into_iter().map(|at| RaiseMember { at, from: RaiseFrom::Nothing });
    RaiseRound::start(&at.view, kind, again(kept).chain(fresh), acts)
}

/// The record that opens a chunk is applied: `there` is the chunk that has the place now.
fn on_opened(
    at: &PlaceView<'_>,
    (made, there): (ChunkHandle, ChunkHandle),
    raised: Vec<RaisedReplica>,
    acts: &mut Acts<'_>,
) {
    acts.push(Act::AnswerClosed);
    if made != there {
        return acts.push(Act::Finish);
    }
    for replica in &raised {
        acts.push(Act::Placed(made, replica.at.server, replica.report.clone()));
    }
    if raised.iter().any(|r| r.report.closed) {
        acts.push(Act::Record(CloseChunk { time: at.view.now.wall, handle: made }.into()));
    }
    acts.push(if at.wants.lease { Act::GrantLease(made, raised) } else { Act::Finish });
}

/// A quota has no room for a new chunk (R36): who wants it is told at once. A primary that closed
/// the one before need not wait: its close is logged alone.
fn refused(at: &PlaceView<'_>, failure: Failure, acts: &mut Acts<'_>) {
    acts.push(Act::FailWriters(failure));
    if let Some((handle, _)) = open_before(at.view.state, at.place).filter(|_| at.wants.close) {
        acts.push(Act::CloseAlone(handle));
    }
}

/// Too few servers for a new chunk. A primary that closed the one before need not wait for them:
/// its close is logged alone.
fn without_servers(at: &PlaceView<'_>, size: usize, acts: &mut Acts<'_>) {
    match open_before(at.view.state, at.place) {
        Some((handle, _)) if at.wants.close => acts.push(Act::CloseAlone(handle)),
        _ => {
            let (least, live) = (least_created(at), usable_count(&at.view));
            let why = format!("{size} chunkservers have room for a chunk, {least} are needed");
            // Where those with room were asked, and did not make one, the disks are not to blame.
            let is_full = live >= least && with_room_count(&at.view) < least;
            let full = || format!("no space left: {live} chunkservers are live, {why}");
            acts.wait(if is_full { WaitCause::full(full()) } else { why.into() });
        }
    }
}
