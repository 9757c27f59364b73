//! The end of producers' chunks: what is committed of them is sealed, the rest abandoned (R42).
//!
//! ```text
//!   the walk over what is open ──┐
//!   left by its producer ────────┴─► wanted ─┬─ nothing committed ─► AbandonChunk
//!      (tried at once, then with ticks)      └─ some ─► a seal; again after a rest
//! ```
//! - SE1: what one tick looks at and begins is bounded, however many chunks are open.
//! - SE2: what is left is soft: after a fail-over the producer is offered it again, and leaves it
//!   again; or its epoch is over some day.

use crate::chunk_place::ChunkPlace;
use crate::chunks::Chunks;
use crate::outbox::ProposalId;
use crate::rules::good_replicas::{counted, good};
use crate::rules::members::current;
use crate::rules::placement::is_room_beside;
use crate::scheduler::WrittenChunks;
use crate::state::OpenStreamChunkRow;
use crate::step::Step;
use crate::stream_records::AbandonChunk;
use crate::underway::Activity;
use crate::view::View;
use cairn_protocol::{Failure, OpenStreamChunk};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ReplicaAt, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Open chunks that one tick looks at.
const LOOKED_AT_MAX: usize = 512;
/// Ends that one tick begins.
const BEGUN_MAX: usize = 64;
/// Rests between tries of one chunk, at first and at most.
const REST_MIN: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(5);

/// What is to be ended.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    /// Behind which chunk the walk goes on.
    walk: ChunkHandle,
    /// Its producer left it, or it is not to be written any more; and when it is tried next.
    wanted: BTreeMap<ChunkHandle, Wanted>,
    under_way: BTreeSet<ChunkHandle>,
    abandoning: BTreeMap<ProposalId, ChunkHandle>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    from: Time,
    rest: Duration,
}

impl Sealing {
    /// Nobody writes these any more.
    pub(super) fn leave(&mut self, left: &BTreeSet<ChunkHandle>) {
        for handle in left {
            self.wanted.entry(*handle).or_default();
        }
    }

    /// Its producer left these, and waits for others: they are ended at once (SE1: a producer has a
    /// few).
    pub(super) fn end_left(
        &mut self,
        step: &mut Step<'_>,
        chunks: &mut Chunks,
        left: &BTreeSet<ChunkHandle>,
    ) {
        for handle in left {
            let now = step.now.time;
            let is_due = self.wanted.get(handle).is_some_and(|wanted| wanted.from <= now);
            if is_due && !self.under_way.contains(handle) {
                self.end(step, chunks, *handle);
            }
        }
    }

    pub(super) fn is_left(&self, handle: ChunkHandle) -> bool {
        self.wanted.contains_key(&handle)
    }

    pub(super) fn on_applied(&mut self, proposal: ProposalId) {
        if let Some(handle) = self.abandoning.remove(&proposal) {
            self.under_way.remove(&handle);
        }
    }

    pub(super) fn on_sealed(&mut self, now: Time, sealed: Vec<(ChunkHandle, Result<(), Failure>)>) {
        for (handle, result) in sealed {
            self.under_way.remove(&handle);
            if result.is_err() {
                self.rest(now, handle);
            }
        }
    }

    /// It is tried again, later and later.
    fn rest(&mut self, now: Time, handle: ChunkHandle) {
        if let Some(wanted) = self.wanted.get_mut(&handle) {
            wanted.rest = (wanted.rest * 2).clamp(REST_MIN, REST_MAX);
            wanted.from = now + wanted.rest;
        }
    }

    pub(super) fn on_tick(&mut self, step: &mut Step<'_>, chunks: &mut Chunks) {
        let view = chunks.view(step.now, step.state);
        let streams = step.state.streams();
        let some: Vec<(ChunkHandle, OpenStreamChunkRow)> =
            streams.open_after(self.walk).take(LOOKED_AT_MAX).collect();
        for (handle, row) in &some {
            if is_over(&view, *handle, row) {
                self.wanted.entry(*handle).or_default();
            }
        }
        // All anew from the start.
        let last = some.last().map(|(handle, _)| *handle);
        self.walk = last.filter(|_| some.len() == LOOKED_AT_MAX).unwrap_or_default();
        self.wanted.retain(|handle, _| streams.open_chunk(*handle).is_some());
        let now = step.now.time;
        let due = self.wanted.iter().filter(|(_, wanted)| wanted.from <= now);
        let due = due.map(|(handle, _)| *handle).filter(|it| !self.under_way.contains(it));
        let due: Vec<ChunkHandle> = due.take(BEGUN_MAX).collect();
        assert!(due.len() <= BEGUN_MAX, "one tick begins a few (SE1)");
        for handle in due {
            self.end(step, chunks, handle);
        }
    }

    fn end(&mut self, step: &mut Step<'_>, chunks: &mut Chunks, handle: ChunkHandle) {
        let Some(row) = step.state.streams().open_chunk(handle) else { return };
        if row.length == 0 {
            let record = AbandonChunk { time: step.now.wall, handle };
            let proposal = step.out.propose(record);
            self.abandoning.insert(proposal, handle);
            self.under_way.insert(handle);
            return;
        }
        let now = step.now.time;
        let (mut chunk_step, scheduler) = chunks.for_streams(step);
        if WrittenChunks(scheduler).seal(&mut chunk_step, handle) {
            self.under_way.insert(handle);
        } else {
            self.rest(now, handle);
        }
    }
}

/// Whether nobody is to write a chunk any more.
fn is_over(view: &View<'_>, handle: ChunkHandle, row: &OpenStreamChunkRow) -> bool {
    // R42 broken: it may be written to for ever.
    if broken(Rule::R42) {
        return false;
    }
    let Some(producer) = view.state.streams().producer(row.file, row.producer) else {
        return true;
    };
    if producer.epoch != row.epoch || producer.closed || !producer.chunks.contains(&handle) {
        return true;
    }
    let is_silent = producer.is_silent(view.now.wall);
    is_silent || (!view.term.is_starting(view.now.time) && is_wanted_whole(view, handle, row))
}

/// Whether the master wants it whole: one of its set is dead, bad, or about to go; or it was made
/// on too few servers, more have come since, and none can join what is being written.
fn is_wanted_whole(view: &View<'_>, handle: ChunkHandle, row: &OpenStreamChunkRow) -> bool {
    let Some(chunk) = view.state.chunk(handle) else { return false };
    if view.fleet.servers().is_gathering(view.now.time) {
        return false;
    }
    let has_lost_one = counted(view, &good(view, handle, &chunk)).len() < chunk.set_size as usize;
    // Without bytes there is nothing to lose: as long as new chunks are made on as few servers,
    // each has something committed, and no chunk is made for nothing.
    let is_small = row.length > 0 && chunk.set_size < chunk.goal;
    let holders = || view.fleet.locations().of(handle).map(|(server, _)| server).collect();
    has_lost_one || (is_small && is_room_beside(view, &holders()))
}

/// Whether its producer can go on with a chunk: all of its set are there.
pub(super) fn is_usable(view: &View<'_>, handle: ChunkHandle) -> bool {
    let told =
        view.fleet.servers().is_gathering(view.now.time) || view.term.is_starting(view.now.time);
    told || described(view, handle).is_some()
}

/// A chunk as its producer needs to know it; none while not all of its set are known to be there.
pub(super) fn described(view: &View<'_>, handle: ChunkHandle) -> Option<OpenStreamChunk> {
    let row = view.state.streams().open_chunk(handle)?;
    let chunk = view.state.chunk(handle)?;
    let servers = view.fleet.servers();
    let stands = current(view, handle, &chunk).filter(|(server, replica)| {
        servers.is_live(view.now.time, *server)
            && replica.version == chunk.version
            && replica.is_sound()
    });
    let replicas: Vec<ReplicaAt> =
        stands.filter_map(|(server, _)| view.fleet.at(server).cloned()).collect();
    let place = ChunkPlace::new(row.file, chunk.index);
    let is_changed =
        view.underway.is_taken(place, handle) || view.underway.at(place) != Activity::Nothing;
    if replicas.len() < chunk.set_size as usize || is_changed || chunk.closed {
        return None;
    }
    Some(OpenStreamChunk {
        index: chunk.index,
        handle,
        version: chunk.version,
        replicas,
        length: row.length,
        serial: row.serial,
        commit_replicas: 0,
    })
}
