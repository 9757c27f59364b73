//! Making a chunk for a producer of a stream (R10, R40).
//!
//! ```text
//!   Creating (`creation.rs`) ─► Logging: AllocateChunk ─► the producer is told
//! ```
//! - AL1: it waits for nothing: where it cannot be done now, the producer is told, and asks again.

use super::acts::{Act, Acts};
use super::creation::{Creation, CreationStep, MadeChunk, choose, least_created, too_few};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaisedReplica, set_size};
use crate::applied::Applied;
use crate::rules::live_file::{is_live_file, no_file};
use crate::stream_records::AllocateChunk;
use cairn_protocol::Failure;
use cairn_types::{ChunkHandle, Epoch, ProducerId, ServerId};
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
    Creating(Creation),
    /// The chunk is on its way into the log.
    Logging(Vec<RaisedReplica>),
}

/// A producer's chunk in the making.
#[derive(Debug)]
pub(crate) struct AllocateJob {
    handle: ChunkHandle,
    writer: StreamWriter,
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
        let avoided = writer.unreachable.clone();
        let chosen = choose(at, &[], (&BTreeSet::new(), &avoided), acts);
        if chosen.len() < least_created(at) {
            give_up(without_servers(at, chosen.len()), acts);
            return None;
        }
        let creation = Creation::start(at, (chosen, avoided), false, acts);
        Some(Self { handle: creation.handle(), writer, phase: AllocatePhase::Creating(creation) })
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        match &self.phase {
            AllocatePhase::Creating(creation) => {
                format!("creating {} replicas for a producer", creation.size())
            }
            AllocatePhase::Logging(_) => "logging a producer's chunk".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (AllocatePhase::Creating(creation), JobEvent::RaiseAnswered(server, result)) => {
                match creation.on_answer(at, (server, result), acts) {
                    CreationStep::Asking => {}
                    CreationStep::Made(made) => self.log(at, made, acts),
                    CreationStep::TooFew(size) => give_up(without_servers(at, size), acts),
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

    /// All replicas of it stand (R10).
    fn log(&mut self, at: &PlaceView<'_>, made: MadeChunk, acts: &mut Acts<'_>) {
        let MadeChunk { version, raised, floor } = made;
        acts.propose(AllocateChunk {
            time: at.view.now.wall,
            file: at.place.file,
            index: at.place.index,
            handle: self.handle,
            version,
            set_size: set_size(&raised),
            floor,
            producer: self.writer.producer,
            epoch: self.writer.epoch,
        });
        self.phase = AllocatePhase::Logging(raised);
    }
}

fn without_servers(at: &PlaceView<'_>, size: usize) -> Failure {
    too_few(at, size).failure("no chunk is made")
}

fn give_up(failure: Failure, acts: &mut Acts<'_>) {
    acts.push(Act::Allocated(Err(failure)));
    acts.push(Act::Finish);
}
