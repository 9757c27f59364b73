//! Opening a chunk, which closes the one before it (R10, R18).
//!
//! ```text
//!   Creating (`creation.rs`) ─► Logging: OpenChunk{k+1, closes k} ─► granted
//! ```
//! - OC1: `OpenChunk` is proposed only when nobody can acknowledge an append in the chunk that it
//!   closes: its primary said so, one of its set took a later raise, or the lease is over
//!   (`next_step.rs`).

use super::acts::{Act, Acts};
use super::creation::{Creation, CreationStep, MadeChunk, choose, goal, least_created, too_few};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaisedReplica, set_size};
use crate::applied::Applied;
use crate::record::{CloseChunk, OpenChunk};
use crate::rules::charging::check_charge;
use crate::rules::closing::{is_hole, open_before};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::ChunkHandle;
use std::collections::BTreeSet;

/// How far the opening is.
#[derive(Debug)]
enum OpenPhase {
    /// The replicas are being made.
    Creating(Creation),
    /// The new chunk is on its way into the log.
    Logging(Vec<RaisedReplica>),
}

/// A new chunk.
#[derive(Debug)]
pub(crate) struct OpenJob {
    handle: ChunkHandle,
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
        let chosen = choose(at, &[], (&BTreeSet::new(), &[]), acts);
        let starting = view.term.is_starting(view.now.time);
        if chosen.len() < goal(at) && starting && view.state.chunk_count() > 0 {
            acts.wait("chunkservers are still joining");
            return None;
        }
        if chosen.len() < least_created(at) {
            without_servers(at, chosen.len(), acts);
            return None;
        }
        // A chunk between others is full by definition from the start (R19).
        let close = is_hole(view.state, at.place);
        let creation = Creation::start(at, (chosen, Vec::new()), close, acts);
        Some(Self { handle: creation.handle(), phase: OpenPhase::Creating(creation) })
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        match &self.phase {
            OpenPhase::Creating(creation) => format!("creating {} replicas", creation.size()),
            OpenPhase::Logging(_) => "logging the version".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (OpenPhase::Creating(creation), JobEvent::RaiseAnswered(server, result)) => {
                match creation.on_answer(at, (server, result), acts) {
                    CreationStep::Asking => {}
                    CreationStep::Made(made) => self.log(at, made, acts),
                    CreationStep::TooFew(size) => without_servers(at, size, acts),
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

    /// All replicas of it stand (R10).
    fn log(&mut self, at: &PlaceView<'_>, made: MadeChunk, acts: &mut Acts<'_>) {
        let MadeChunk { version, raised, floor } = made;
        let closes = open_before(at.view.state, at.place).map(|(before, _)| before);
        assert_ne!(closes, Some(self.handle), "a chunk does not close itself");
        acts.propose(OpenChunk {
            time: at.view.now.wall,
            file: at.place.file,
            index: at.place.index,
            handle: self.handle,
            version,
            set_size: set_size(&raised),
            closes,
            floor,
            charges: at.view.charges(),
        });
        self.phase = OpenPhase::Logging(raised);
    }
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
        _ => acts.wait(too_few(at, size)),
    }
}
