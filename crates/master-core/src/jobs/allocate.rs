//! Making a chunk for a producer of a stream (R10, R40).
//!
//! ```text
//!   Creating: Raise(create) on fresh servers ─► Logging: AllocateChunk ─► the producer is told
//!      └─ fresh number, whoever did not answer is replaced (R8)
//! ```
//! - AL1: it waits for nothing: where it cannot be done now, the producer is told, and asks again.

use super::acts::{Act, Acts};
use super::events::{JobEvent, PlaceView};
use super::open::{create, goal, least_created};
use super::raise::{RaiseKind, RaiseRound, RaisedReplica, set_size};
use crate::applied::Applied;
use crate::rules::live_file::{is_live_file, no_file};
use crate::rules::placement::{choose_servers, with_room_count};
use crate::stream_records::AllocateChunk;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{ChunkHandle, Epoch, ProducerId, ReplicaAt, ServerId};
use std::collections::BTreeSet;

/// Who is to write a chunk.
#[derive(Clone, Debug)]
pub(crate) struct StreamWriter {
    pub(crate) producer: ProducerId,
    pub(crate) epoch: Epoch,
    /// Servers that it cannot reach: not chosen where others are there.
    pub(crate) unreachable: Vec<ServerId>,
}

/// How far it is.
#[derive(Debug)]
enum AllocatePhase {
    /// The replicas are being made.
    Creating(RaiseRound),
    /// The chunk is on its way into the log.
    Logging(Vec<RaisedReplica>),
}

/// A producer's chunk in the making.
#[derive(Debug)]
pub(crate) struct AllocateJob {
    handle: ChunkHandle,
    writer: StreamWriter,
    /// Who was asked so far.
    tried: BTreeSet<ServerId>,
    phase: AllocatePhase,
}

impl AllocateJob {
    /// Makes a chunk on fresh servers; none where there are too few, which is told.
    pub(crate) fn start(
        at: &PlaceView<'_>,
        writer: StreamWriter,
        acts: &mut Acts<'_>,
    ) -> Option<Self> {
        if !is_live_file(at.view.state, at.place.file) {
            give_up(no_file(at.place.file), acts);
            return None;
        }
        let mut tried = BTreeSet::new();
        let chosen = choose(at, &writer, &[], &tried, goal(at), acts);
        if chosen.len() < least_created(at) {
            give_up(without_servers(at, chosen.len()), acts);
            return None;
        }
        let handle = acts.numbers.handle();
        let kind = RaiseKind { handle, close: false, shrinks: false, keeps_lease: false };
        let raise = create(at, kind, (Vec::new(), chosen), &mut tried, acts);
        Some(Self { handle, writer, tried, phase: AllocatePhase::Creating(raise) })
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        match &self.phase {
            AllocatePhase::Creating(raise) => {
                format!("creating {} replicas for a producer", raise.size())
            }
            AllocatePhase::Logging(_) => "logging a producer's chunk".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (AllocatePhase::Creating(raise), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_created(at, acts);
                }
            }
            (AllocatePhase::Logging(raised), JobEvent::Applied(applied)) => {
                if let Applied::Failed(failure) = applied {
                    return give_up(failure.clone(), acts);
                }
                for replica in raised {
                    let (server, report) = (replica.at.server, replica.report.clone());
                    acts.push(Act::Placed(self.handle, server, report));
                }
                acts.push(Act::Allocated(Ok(self.handle)));
                acts.push(Act::Finish);
            }
            (phase, event) => unreachable!("{event:?} is not waited for in {phase:?} (JB2)"),
        }
    }

    /// A round of the creation is over.
    fn on_created(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let AllocatePhase::Creating(raise) = &self.phase else { unreachable!("a round was over") };
        let raised = raise.raised();
        if raise.all_answered() {
            assert!(!raised.is_empty(), "a chunk is made somewhere");
            let lowest = at.view.underway.lowest_made();
            acts.propose(AllocateChunk {
                time: at.view.now.wall,
                file: at.place.file,
                index: at.place.index,
                handle: self.handle,
                version: raise.to(),
                set_size: set_size(&raised),
                floor: lowest.map_or(self.handle, |it| it.min(self.handle)),
                producer: self.writer.producer,
                epoch: self.writer.epoch,
            });
            self.phase = AllocatePhase::Logging(raised);
            return;
        }
        // R10, R8: the number is spent; those that did not answer are replaced.
        let kind = raise.kind();
        let kept: Vec<&ReplicaAt> = raised.iter().map(|r| &r.at).collect();
        let lacking = goal(at).saturating_sub(kept.len());
        let fresh = choose(at, &self.writer, &kept, &self.tried, lacking, acts);
        let size = raised.len() + fresh.len();
        if size < least_created(at) {
            return give_up(without_servers(at, size), acts);
        }
        let raise = create(at, kind, (raised, fresh), &mut self.tried, acts);
        self.phase = AllocatePhase::Creating(raise);
    }
}

/// Servers for a chunk: of those that the producer can reach, if there are enough.
fn choose(
    at: &PlaceView<'_>,
    writer: &StreamWriter,
    kept: &[&ReplicaAt],
    tried: &BTreeSet<ServerId>,
    count: usize,
    acts: &mut Acts<'_>,
) -> Vec<ReplicaAt> {
    let mut avoided = tried.clone();
    avoided.extend(&writer.unreachable);
    let reached = choose_servers(&at.view, kept, &avoided, count, acts.random);
    if kept.len() + reached.len() >= least_created(at).max(2.min(goal(at))) {
        return reached;
    }
    choose_servers(&at.view, kept, tried, count, acts.random)
}

fn without_servers(at: &PlaceView<'_>, size: usize) -> Failure {
    let least = least_created(at);
    let line = format!("{size} chunkservers have room for a chunk, {least} are needed");
    let is_full = with_room_count(&at.view) < least;
    let code = if is_full { ErrorCode::DiskFull } else { ErrorCode::TooFewServers };
    Failure::not_done(code, line)
}

fn give_up(failure: Failure, acts: &mut Acts<'_>) {
    acts.push(Act::Allocated(Err(failure)));
    acts.push(Act::Finish);
}
