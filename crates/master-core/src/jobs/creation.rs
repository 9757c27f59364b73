//! Making the replicas of a new chunk, on fresh servers (R10): behind a file's next chunk and a
//! producer's.
//!
//! ```text
//!   Raise(create) on fresh servers ─► all have answered ─► the version may be logged
//!      └─ a fresh number, whoever did not answer is replaced (R8)
//! ```

use super::acts::{Act, Acts};
use super::events::PlaceView;
use super::raise::{RaiseFrom, RaiseKind, RaiseMember, RaiseRound, RaisedReplica, again};
use super::wait_cause::WaitCause;
use crate::rules::commit_replicas::{least_allocated, replicas_needed};
use crate::rules::placement::{choose_servers, usable_count, with_room_count};
use cairn_protocol::{Failure, ReplicaReport};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt, ServerId};
use std::collections::BTreeSet;

/// Replicas in the making.
#[derive(Debug)]
pub(super) struct Creation {
    handle: ChunkHandle,
    /// Servers that are not chosen where others are there.
    avoided: Vec<ServerId>,
    /// Who was asked so far.
    tried: BTreeSet<ServerId>,
    round: RaiseRound,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum CreationStep {
    /// Somebody has yet to answer.
    Asking,
    /// All of them stand: the chunk may be logged.
    Made(MadeChunk),
    /// So many could make one, and that is too few.
    TooFew(usize),
}

/// A chunk that is made and not logged yet.
#[derive(Debug)]
pub(super) struct MadeChunk {
    pub(super) version: ChunkVersion,
    pub(super) raised: Vec<RaisedReplica>,
    /// The lowest handle that may still be opened, its own or one below it (GN1).
    pub(super) floor: ChunkHandle,
}

impl Creation {
    /// Asks these servers, which `choose` gave.
    pub(super) fn start(
        at: &PlaceView<'_>,
        (chosen, avoided): (Vec<ReplicaAt>, Vec<ServerId>),
        close: bool,
        acts: &mut Acts<'_>,
    ) -> Self {
        let handle = acts.numbers.handle();
        let kind = RaiseKind { handle, close, syncs: false, keeps_lease: false };
        let tried = chosen.iter().map(|at| at.server).collect();
        let round = ask(at, kind, (Vec::new(), chosen), acts);
        Self { handle, avoided, tried, round }
    }

    pub(super) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    /// How many are asked.
    pub(super) fn size(&self) -> usize {
        self.round.size()
    }

    /// A server has answered.
    pub(super) fn on_answer(
        &mut self,
        at: &PlaceView<'_>,
        (server, result): (ServerId, Result<ReplicaReport, Failure>),
        acts: &mut Acts<'_>,
    ) -> CreationStep {
        if !self.round.on_answer(server, result) {
            return CreationStep::Asking;
        }
        let raised = self.round.raised();
        if self.round.all_answered() || (broken(Rule::R10) && !raised.is_empty()) {
            assert!(!raised.is_empty(), "a chunk is made somewhere");
            let lowest = at.view.underway.lowest_made();
            let floor = lowest.map_or(self.handle, |it| it.min(self.handle));
            return CreationStep::Made(MadeChunk { version: self.round.to(), raised, floor });
        }
        // R10, R8: the number is spent; those that did not answer are replaced.
        let kept: Vec<&ReplicaAt> = raised.iter().map(|r| &r.at).collect();
        let fresh = choose(at, &kept, (&self.tried, &self.avoided), acts);
        let size = raised.len() + fresh.len();
        if size < least_created(at) {
            return CreationStep::TooFew(size);
        }
        self.tried.extend(fresh.iter().map(|at| at.server));
        self.round = ask(at, self.round.kind(), (raised, fresh), acts);
        CreationStep::Asking
    }
}

/// One round: those that stand already, and fresh ones.
fn ask(
    at: &PlaceView<'_>,
    kind: RaiseKind,
    (kept, fresh): (Vec<RaisedReplica>, Vec<ReplicaAt>),
    acts: &mut Acts<'_>,
) -> RaiseRound {
    // Whoever is chosen at the same time takes others.
    fresh.iter().for_each(|at| acts.push(Act::Chosen(at.server)));
    let fresh = fresh.into_iter().map(|at| RaiseMember { at, from: RaiseFrom::Nothing });
    RaiseRound::start(&at.view, kind, again(kept).chain(fresh), acts)
}

/// Servers that a chunk lacks beside those kept: none that was tried, and none to be avoided where
/// as many as a write needs are there without them.
pub(super) fn choose(
    at: &PlaceView<'_>,
    kept: &[&ReplicaAt],
    (tried, avoided): (&BTreeSet<ServerId>, &[ServerId]),
    acts: &mut Acts<'_>,
) -> Vec<ReplicaAt> {
    let lacking = goal(at).saturating_sub(kept.len());
    if !avoided.is_empty() {
        let without = tried.iter().chain(avoided).copied().collect();
        let reached = choose_servers(&at.view, kept, &without, lacking, acts.random);
        if kept.len() + reached.len() >= enough(at) {
            return reached;
        }
    }
    choose_servers(&at.view, kept, tried, lacking, acts.random)
}

/// Replicas that the chunk shall have.
pub(super) fn goal(at: &PlaceView<'_>) -> usize {
    at.view.state.entry(at.place.file).map_or(0, |entry| entry.replication) as usize
}

/// The fewest replicas that a chunk may be created with (R11), a stream's at least with as many as
/// have to hold what is committed of it.
pub(super) fn least_created(at: &PlaceView<'_>) -> usize {
    let file = at.view.state.entry(at.place.file);
    let least = at.view.term.config.min_replicas.max(1);
    least.max(file.map_or(1, |file| least_allocated(&file))) as usize
}

/// As many as a write needs.
fn enough(at: &PlaceView<'_>) -> usize {
    let file = at.view.state.entry(at.place.file);
    let needed = file.map_or(1, |file| replicas_needed(&file, file.replication));
    least_created(at).max(needed as usize)
}

/// Why no chunk is made where so many servers would make one.
pub(super) fn too_few(at: &PlaceView<'_>, size: usize) -> WaitCause {
    let (least, live) = (least_created(at), usable_count(&at.view));
    let why = format!("{size} chunkservers have room for a chunk, {least} are needed");
    // Where those with room were asked, and did not make one, the disks are not to blame.
    if live >= least && with_room_count(&at.view) < least {
        return WaitCause::full(format!("no space left: {live} chunkservers are live, {why}"));
    }
    why.into()
}
