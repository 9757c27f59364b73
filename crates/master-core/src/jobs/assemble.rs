//! Making one chunk of ranges of others, and putting it in their place in a stream (R45).
//!
//! ```text
//!   Assembling: each of its servers by itself ─► Adopting: Raise{adopt} ─► Logging: ReplaceRange
//!        └─► one did not, or has other bytes          └─► one did not
//!            └───────────────────────────────────────────┴─► it came to nothing; again, later
//! ```
//! - AM1: the record is proposed when all that were asked hold the same bytes on disk, at one
//!   version that nobody else stands at (R8, R10); they are as many as the chunk shall have, or as
//!   the best kept of its sources has.
//! - AM2: the record names each range as it stood when the job began; where something else stands
//!   there by then, it changes nothing.
//! - AM3: it waits for nothing: whoever began it is told, and begins another.

use super::acts::{Act, Acts, Question};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaiseFrom, RaiseKind, RaiseMember, RaiseRound, RaisedReplica, set_size};
use crate::applied::Applied;
use crate::stream_records::{ReplaceRange, ReplacedRange};
use crate::underway::Activity;
use cairn_protocol::{
    AssembleChunk, AssembleChunkAnswer, AssembledRange, AssembledSource, DropClone, ErrorCode,
    Failure,
};
use cairn_types::{ChunkHandle, ReplicaAt, ServerId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Times that a chunk takes at its rate, after which a server is not waited for.
const PATIENCE: u64 = 16;
/// And so long besides.
const PATIENCE_MIN: Duration = Duration::from_secs(60);

/// What is to be made, and where.
#[derive(Clone, Debug)]
pub(crate) struct AssemblyPlan {
    /// Where in the file.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) replaced: Vec<ReplacedRange>,
    /// The chunks of these, each once.
    pub(crate) sources: Vec<AssembledSource>,
    pub(crate) servers: Vec<ReplicaAt>,
    /// The file is settled up to there then.
    pub(crate) settled_to: Option<u64>,
}

/// What servers said of theirs; none: not yet.
type Made = BTreeMap<ServerId, (ReplicaAt, Option<Result<AssembleChunkAnswer, Failure>>)>;

/// How far it is.
#[derive(Debug)]
enum AssemblePhase {
    /// Its servers put it together.
    Assembling(Made),
    /// What they have becomes replicas.
    Adopting(RaiseRound),
    /// The record is on its way into the log.
    Logging(Vec<RaisedReplica>),
}

/// A chunk that is being made so.
#[derive(Debug)]
pub(crate) struct AssembleJob {
    handle: ChunkHandle,
    plan: AssemblyPlan,
    phase: AssemblePhase,
}

impl AssembleJob {
    /// Asks its servers.
    pub(crate) fn start(at: &PlaceView<'_>, plan: AssemblyPlan, acts: &mut Acts<'_>) -> Self {
        assert!(!plan.servers.is_empty() && !plan.replaced.is_empty(), "of something, somewhere");
        let handle = acts.numbers.handle();
        let mutated_version = acts.numbers.version();
        let config = at.view.state.config();
        let seconds = plan.size * PATIENCE / config.settle_rate.max(1);
        let patience = PATIENCE_MIN + Duration::from_secs(seconds);
        let deadline = at.view.now.time + patience;
        let ranges = plan.ranges();
        let mut made = Made::new();
        for server in &plan.servers {
            let order = AssembleChunk {
                term: at.view.term.number,
                server: server.server,
                handle,
                mutated_version,
                sources: plan.sources.clone(),
                ranges: ranges.clone(),
                rate: config.settle_rate,
                keep_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            };
            acts.push(Act::Chosen(server.server));
            acts.ask(server.clone(), Question::Assemble(order), deadline);
            made.insert(server.server, (server.clone(), None));
        }
        Self { handle, plan, phase: AssemblePhase::Assembling(made) }
    }

    /// A snapshot waits for the record alone: nothing of a file is another before that.
    pub(crate) fn doing(&self) -> Activity {
        match self.phase {
            AssemblePhase::Assembling(_) | AssemblePhase::Adopting(_) => {
                Activity::Assembling(self.handle)
            }
            AssemblePhase::Logging(_) => Activity::Making(self.handle),
        }
    }

    pub(crate) fn describe(&self) -> String {
        let (count, size) = (self.plan.replaced.len(), self.plan.size);
        match &self.phase {
            AssemblePhase::Assembling(made) => {
                let servers = made.len();
                format!("settling: {servers} servers put {count} extents of {size} bytes together")
            }
            AssemblePhase::Adopting(raise) => {
                format!("settling: {count} extents became one on {} servers", raise.size())
            }
            AssemblePhase::Logging(_) => {
                format!("settling: logging one chunk for {count} extents")
            }
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match (&mut self.phase, event) {
            (AssemblePhase::Assembling(made), JobEvent::AssembleAnswered(server, result)) => {
                let known = made.get_mut(&server).expect("who answers was asked");
                assert!(known.1.is_none(), "each call is answered once");
                known.1 = Some(result);
                if made.values().all(|(_, result)| result.is_some()) {
                    self.on_assembled(at, acts);
                }
            }
            (AssemblePhase::Adopting(raise), JobEvent::RaiseAnswered(server, result)) => {
                if raise.on_answer(server, result) {
                    self.on_adopted(at, acts);
                }
            }
            (AssemblePhase::Logging(raised), JobEvent::Applied(applied)) => {
                if let Applied::Failed(failure) = applied {
                    return self.give_up(at, failure.clone(), acts);
                }
                for replica in raised {
                    let (server, report) = (replica.at.server, replica.report.clone());
                    acts.push(Act::Placed(self.handle, server, report));
                }
                acts.push(Act::Assembled(Ok(())));
                acts.push(Act::Finish);
            }
            (phase, event) => unreachable!("{event:?} is not waited for in {phase:?} (JB2)"),
        }
    }

    /// All servers have put it together, or have not.
    fn on_assembled(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let AssemblePhase::Assembling(made) = &self.phase else { unreachable!("they made it") };
        let answers: Vec<_> =
            made.values().filter_map(|(at, it)| Some((at, it.as_ref()?))).collect();
        let failed = answers.iter().find_map(|(_, result)| result.as_ref().err());
        if let Some(failure) = failed {
            return self.give_up(at, failure.clone(), acts);
        }
        let sums = || answers.iter().filter_map(|(_, result)| result.as_ref().ok());
        let first = sums().next().map(|it| (it.length, it.checksum));
        if sums().any(|it| Some((it.length, it.checksum)) != first || it.length != self.plan.size) {
            let why = format!("chunk {}: its servers have other bytes", self.handle.short());
            return self.give_up(at, Failure::not_done(ErrorCode::ReplicaFailed, why), acts);
        }
        let clone = |at: &ReplicaAt| RaiseMember { at: at.clone(), from: RaiseFrom::Clone };
        let members: Vec<RaiseMember> = answers.iter().map(|(at, _)| clone(at)).collect();
        let kind = RaiseKind { handle: self.handle, close: true, syncs: false, keeps_lease: false };
        self.phase = AssemblePhase::Adopting(RaiseRound::start(&at.view, kind, members, acts));
    }

    /// All of them are replicas, or some are not.
    fn on_adopted(&mut self, at: &PlaceView<'_>, acts: &mut Acts<'_>) {
        let AssemblePhase::Adopting(raise) = &self.phase else { unreachable!("a round was over") };
        // AM1
        if !raise.all_answered() {
            let why = format!("chunk {}: a server did not take it", self.handle.short());
            return self.give_up(at, Failure::not_done(ErrorCode::ReplicaFailed, why), acts);
        }
        if at.view.is_frozen(at.place.file) {
            let why = "a snapshot of its file is being taken";
            return self.give_up(at, Failure::not_done(ErrorCode::Busy, why), acts);
        }
        let raised = raise.raised();
        let floor = at.view.underway.lowest_made().map_or(self.handle, |it| it.min(self.handle));
        acts.propose(ReplaceRange {
            time: at.view.now.wall,
            file: at.place.file,
            offset: self.plan.offset,
            replaced: self.plan.replaced.clone(),
            index: at.place.index,
            handle: self.handle,
            version: raise.to(),
            set_size: set_size(&raised),
            floor,
            settled_to: self.plan.settled_to,
        });
        self.phase = AssemblePhase::Logging(raised);
    }

    /// It came to nothing: what there is of it goes.
    fn give_up(&self, at: &PlaceView<'_>, failure: Failure, acts: &mut Acts<'_>) {
        let (term, handle) = (at.view.term.number, self.handle);
        let deadline = at.view.now.time + at.view.term.dead();
        for to in &self.plan.servers {
            let drop = DropClone { term, handle, server: to.server };
            acts.ask(to.clone(), Question::Drop(drop), deadline);
        }
        acts.push(Act::Assembled(Err(failure)));
        acts.push(Act::Finish);
    }
}

impl AssemblyPlan {
    /// Its ranges as servers are told them.
    fn ranges(&self) -> Vec<AssembledRange> {
        let named = self.sources.iter().zip(0u32..).map(|(it, source)| (it.handle, source));
        let named: BTreeMap<ChunkHandle, u32> = named.collect();
        let range = |it: &ReplacedRange| {
            let source = *named.get(&it.handle).expect("each range is of a source");
            AssembledRange { source, offset: it.offset, size: it.size }
        };
        self.replaced.iter().map(range).collect()
    }
}
