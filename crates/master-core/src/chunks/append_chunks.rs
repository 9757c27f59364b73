//! Opening a chunk, and closing the one before it (R10, R18).
//!
//! ```text
//!   place without a chunk
//!     ├─ the last chunk may still take appends ─► fence: Raise(close) to whoever can be reached
//!     └─ else ─► Raise(create) on fresh servers ─► OpenChunk{k+1, closes k} ─► grant
//! ```
//! - O1: `OpenChunk` is proposed only when nobody can acknowledge an append in the chunk that it
//!   closes: its primary said so, one of its set took a later raise, or the lease is over.
//! - O2: fencing changes neither the logged version nor the set. It stops acknowledgements and
//!   nothing else: members that were not reached hold every acknowledged byte, and those that were
//!   stand above the logged version, which is as good (R9).

use super::jobs::{Job, Phase, Wish};
use super::leases::LeaseStatus;
use super::placement::{Candidate, choose};
use super::raise::{Member, Raise, RaiseKind, Raised, again};
use super::{Chunks, Place, Proposed};
use crate::record::{CloseChunk, OpenChunk};
use crate::state::ChunkRecord;
use crate::step::Step;
use cairn_protocol::{ChunkClosedAnswer, Response};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, Rack, ReplicaAt, ServerId, Time};
use std::collections::BTreeSet;
use std::time::Duration;

impl Chunks {
    /// The next step towards a chunk where there is none.
    pub(super) fn advance_missing(&mut self, step: &mut Step<'_>, place: Place) {
        if let Some((handle, chunk)) = open_before(step, place) {
            if self.is_taken(place, handle) {
                return self.wait(place, "the chunk before is being changed".to_owned());
            }
            if self.may_take_appends(step.now.time, handle, &chunk) && !broken(Rule::R18) {
                return self.fence(step, place, handle, &chunk);
            }
        }
        self.create(step, place);
    }

    /// Whether anybody can acknowledge an append in this chunk (O1).
    fn may_take_appends(&self, now: Time, handle: ChunkHandle, chunk: &ChunkRecord) -> bool {
        if self.fenced.contains(&handle) {
            return false;
        }
        match self.leases.get(handle) {
            Some(lease) => lease.may_live(now) && lease.takes_appends,
            None => self.former_holder_unknown(now, handle, chunk),
        }
    }

    /// Takes the waiters that append to the place after this one.
    pub(super) fn go_on_in_next(&mut self, step: &mut Step<'_>, place: Place) {
        let Some(mut job) = self.jobs.remove(&place) else { return };
        let (appends, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut job.waiters).into_iter().partition(|waiter| waiter.goes_on());
        if !others.is_empty() {
            job.waiters = others;
            job.phase = Phase::Waiting("the chunk is being closed".to_owned());
            self.jobs.insert(place, job);
        }
        let next = (place.0, place.1.next());
        let fresh = || Job::new(step.now.time, Phase::Waiting(String::new()));
        self.jobs.entry(next).or_insert_with(fresh).waiters.extend(appends);
        self.advance(step, next);
    }

    /// Raises, with the close mark, whoever of the set can be reached: one is enough to keep the
    /// primary from ever acknowledging again (R18).
    fn fence(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
    ) {
        let now = step.now.time;
        let members: Vec<Member> = self
            .current(handle, chunk)
            .filter(|(server, _)| self.servers.is_live(now, *server))
            .filter_map(|(server, replica)| {
                let at = self.servers.at(server)?.clone();
                Some(Member { at, from: Some(replica.version) })
            })
            .collect();
        if members.is_empty() {
            let why = "no replica of the chunk before can be reached to close it; its lease runs";
            return self.wait(place, why.to_owned());
        }
        let kind = RaiseKind { term: self.term, handle, close: true, shrinks: false };
        let raise = Raise::start(step, &mut self.calls, place, kind, members);
        self.set_phase(place, Phase::Fencing(raise));
    }

    /// The round of the fence is over.
    pub(super) fn on_fenced(&mut self, step: &mut Step<'_>, place: Place, raise: &Raise) {
        if raise.raised().is_empty() {
            return self.wait(place, "no replica of the chunk before answered".to_owned());
        }
        let handle = raise.kind().handle;
        self.fenced.insert(handle);
        if let Some(id) = self.leases.get(handle).map(|lease| lease.id) {
            self.leases.set_status(handle, id, LeaseStatus::Doubted);
        }
        self.advance(step, place);
    }

    /// Makes a chunk on fresh servers.
    fn create(&mut self, step: &mut Step<'_>, place: Place) {
        let now = step.now.time;
        let goal = step.state.entry(place.0).map_or(0, |entry| entry.replication) as usize;
        let chosen = self.choose_servers(now, &[], &BTreeSet::new(), goal);
        let starting = now < self.started + Duration::from_millis(self.config.silent_ms);
        if chosen.len() < goal && starting && step.state.chunk_count() > 0 {
            return self.wait(place, "chunkservers are still joining".to_owned());
        }
        if chosen.len() < self.least_created() {
            return self.without_servers(step, place, chosen.len());
        }
        let handle = step.numbers.handle();
        self.making.insert(handle);
        // A chunk between others is full by definition from the start (R19).
        let close = is_hole(step, place);
        let kind = RaiseKind { term: self.term, handle, close, shrinks: false };
        self.ask_to_create(step, place, kind, Vec::new(), (chosen, BTreeSet::new()));
    }

    fn least_created(&self) -> usize {
        self.config.min_replicas.max(1) as usize
    }

    /// One round: those that stand already, and `fresh` ones beside those `tried` before.
    fn ask_to_create(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        kind: RaiseKind,
        kept: Vec<Raised>,
        (fresh, mut tried): (Vec<ReplicaAt>, BTreeSet<ServerId>),
    ) {
        tried.extend(fresh.iter().map(|at| at.server));
        let mut members = again(kept);
        members.extend(fresh.into_iter().map(|at| Member { at, from: None }));
        let raise = Raise::start(step, &mut self.calls, place, kind, members);
        self.set_phase(place, Phase::Creating { raise, tried });
    }

    /// Live servers with room that were not tried yet, the best first.
    fn choose_servers(
        &mut self,
        now: Time,
        kept: &[Raised],
        tried: &BTreeSet<ServerId>,
        count: usize,
    ) -> Vec<ReplicaAt> {
        let room = self.config.chunk_size;
        let fits =
            |used: u64, capacity: u64| capacity == 0 || capacity.saturating_sub(used) >= room;
        let candidates: Vec<Candidate> = self
            .servers
            .live(now)
            .filter(|s| !tried.contains(&s.at.server) && fits(s.used, s.capacity))
            .map(|s| Candidate {
                server: s.at.server,
                rack: s.at.rack.clone(),
                used_permille: s.used.saturating_mul(1000) / s.capacity.max(1),
                creations: s.creations,
            })
            .collect();
        let racks: Vec<Rack> = kept.iter().map(|r| r.at.rack.clone()).collect();
        let chosen = choose(&candidates, racks, count, &mut self.random);
        chosen.into_iter().filter_map(|server| self.servers.at(server).cloned()).collect()
    }

    /// A round of the creation is over.
    pub(super) fn on_created(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        raise: &Raise,
        tried: BTreeSet<ServerId>,
    ) {
        let raised = raise.raised();
        let accepted = raise.all_answered() || (broken(Rule::R10) && !raised.is_empty());
        if accepted {
            return self.log_opened(step, place, raise, raised);
        }
        // R10, R8: the number is spent; those that did not answer are replaced.
        let goal = step.state.entry(place.0).map_or(0, |entry| entry.replication) as usize;
        let lacking = goal.saturating_sub(raised.len());
        let fresh = self.choose_servers(step.now.time, &raised, &tried, lacking);
        let size = raised.len() + fresh.len();
        if size < self.least_created() {
            self.making.remove(&raise.kind().handle);
            return self.without_servers(step, place, size);
        }
        self.ask_to_create(step, place, raise.kind(), raised, (fresh, tried));
    }

    fn log_opened(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        raise: &Raise,
        raised: Vec<Raised>,
    ) {
        let handle = raise.kind().handle;
        let record = OpenChunk {
            time: step.now.wall,
            file: place.0,
            index: place.1,
            handle,
            version: raise.to(),
            set_size: u32::try_from(raised.len()).expect("a set is small"),
            closes: open_before(step, place).map(|(before, _)| before),
        };
        let proposal = step.out.propose(record);
        self.proposals.insert(proposal, Proposed::Job(place));
        self.set_phase(place, Phase::Logging { handle, raised });
    }

    /// The record that opens a chunk is applied: `there` is the chunk that has the place now.
    pub(super) fn on_opened(
        &mut self,
        step: &mut Step<'_>,
        place: Place,
        (made, there): (ChunkHandle, ChunkHandle),
        raised: Vec<Raised>,
    ) {
        self.making.remove(&made);
        self.answer_closed(step, place);
        if made != there {
            return self.finish(step, place);
        }
        for replica in &raised {
            self.note_replica(step, made, replica.at.server, &replica.report);
            self.servers.placed_on(replica.at.server);
        }
        if raised.iter().any(|r| r.report.closed) {
            let proposal = step.out.propose(CloseChunk { time: step.now.wall, handle: made });
            self.proposals.insert(proposal, Proposed::Length(None));
        }
        let wants_lease = self.jobs.get(&place).is_some_and(Job::wants_lease);
        if wants_lease { self.grant(step, place, made, raised) } else { self.finish(step, place) }
    }

    /// Tells the primary that its chunk's close is logged.
    pub(super) fn answer_closed(&mut self, step: &mut Step<'_>, place: Place) {
        let Some(job) = self.jobs.get_mut(&place) else { return };
        let waiters = std::mem::take(&mut job.waiters);
        for waiter in waiters {
            if let Wish::Closed = waiter.wish {
                let answer = Response::ChunkClosed(ChunkClosedAnswer {});
                step.out.reply(waiter.from, Ok(answer));
            } else {
                job.waiters.push(waiter);
            }
        }
    }

    /// Too few servers for a new chunk. A primary that closed the one before need not wait for
    /// them: its close is logged alone.
    fn without_servers(&mut self, step: &mut Step<'_>, place: Place, size: usize) {
        let least = self.least_created();
        let why = format!("{size} chunkservers have room for a chunk, {least} are needed");
        let Some(job) = self.jobs.get_mut(&place) else { return };
        let closes = job.waiters.iter().any(|waiter| matches!(waiter.wish, Wish::Closed));
        match open_before(step, place) {
            Some((handle, _)) if closes => {
                job.phase = Phase::LoggingClose { handle };
                let proposal = step.out.propose(CloseChunk { time: step.now.wall, handle });
                self.proposals.insert(proposal, Proposed::Job(place));
            }
            _ => job.phase = Phase::Waiting(why),
        }
    }
}

/// The file's last chunk, where it lies before this place and is not closed.
fn open_before(step: &Step<'_>, place: Place) -> Option<(ChunkHandle, ChunkRecord)> {
    let (last, handle) = step.state.last_chunk(place.0)?;
    let chunk = step.state.chunk(handle)?;
    (last < place.1 && !chunk.closed).then_some((handle, chunk))
}

/// Whether the file has a chunk behind this place.
fn is_hole(step: &Step<'_>, place: Place) -> bool {
    step.state.last_chunk(place.0).is_some_and(|(last, _)| last > place.1)
}
