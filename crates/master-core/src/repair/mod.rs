//! Repair: which chunks lack replicas, and what is being done about it (GFS §4.3, design §9).
//!
//! ```text
//!   survey ─► the most urgent ─► CloneChunk, mutations go on ─► scheduler: the clone joins (R30)
//!                  ▲                      │ a source or a receiver fails        │
//!                  └──────────────────────┴─────────────────────────────────────┘
//! ```
//! - RP1: of chunks that could be started, none is started while one with fewer good replicas
//!   waits (`candidates.rs`).
//! - RP2: a clone counts for nothing until the record of its set's version is applied; then it is a
//!   replica like any other, and this room forgets it.
//! - RP3: nothing begins while a server may still tell what it holds, nor before one that is away
//!   is declared dead.
//! - RP4: none is made of a chunk whose set waits for a decision: no copy could join it.
//!
//! Knows what is logged and what chunkservers told; decides nothing about leases.

mod candidates;
mod counts;
pub(crate) mod handle_set;
mod levels;
pub(crate) mod rests;
mod survey;
mod unasked_levels;
mod under_way;
pub(crate) mod undrained;

use crate::job_pace::JobPace;
use crate::jobs::PlaceJob;
use crate::jobs::grow::GrowJob;
use crate::record::Record;
use crate::rules::chunk_list::RepairOfChunk;
use crate::rules::cloning::{CloneLoad, FreePlaces, choose_source, plan_clone};
use crate::rules::condition::Undecided;
use crate::rules::lacking::Urgency;
use crate::rules::replica_set::LiveMember;
use crate::scheduler::Scheduler;
use crate::state::State;
use crate::step::ChunkStep;
use crate::view::View;
use cairn_env::EffectId;
use cairn_protocol::{
    BelowGoalCount, ChunkCounts, CloneChunk, CloneChunkAnswer, CloneProgress, CopyNeed, DropClone,
    ErrorCode, Failure, JobKind, JobState, JobStatus, RepairStatusAnswer, Response, Rpc,
    ServerState,
};
use cairn_types::{ChunkHandle, ReplicaAt, ServerId, Time};
use candidates::{Candidates, clones_max, considered_max, in_order, waited};
use handle_set::HandleSet;
use rests::Rests;
use std::collections::{BTreeMap, BTreeSet};
use survey::Survey;
use unasked_levels::UnaskedLevels;
use under_way::{CloneStage, CloneUnderWay, ClonesUnderWay, order};

/// Clones that a person is told of.
const CLONES_TOLD_MAX: usize = 256;
/// Orders to copy before it joins in any case, however much is mutated meanwhile.
const ROUNDS_MAX: u32 = 4;
/// Of a chunk, the part that may differ when it joins: its clients wait while that is fetched.
const DIFFERS_SHARE: u64 = 16;
/// Failures after which a clone is given up.
const FAILURES_MAX: u32 = 5;

/// What is known, and being done, about chunks that lack replicas.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    survey: Survey,
    levels: UnaskedLevels,
    clones: ClonesUnderWay,
    rests: Rests,
    /// Calls on their way, and of which chunk.
    calls: BTreeMap<EffectId, ChunkHandle>,
    candidates: Candidates,
    pace: JobPace,
}

impl Repair {
    /// A record has changed the state.
    pub(crate) fn note_logged(&mut self, state: &State, record: &Record) {
        self.survey.note_logged(state, record);
    }

    /// How these chunks stand is judged anew.
    pub(crate) fn look_at(&mut self, view: &View<'_>, chunks: &[ChunkHandle]) {
        for handle in chunks {
            self.survey.look_at(view, *handle);
        }
    }

    /// A receiver tells how far its clones are.
    pub(crate) fn note_progress(&mut self, now: Time, server: ServerId, told: &[CloneProgress]) {
        told.iter().for_each(|told| self.clones.note_progress(now, server, told));
    }

    /// Time has passed.
    pub(crate) fn pass(&mut self, step: &mut ChunkStep<'_>, scheduler: &mut Scheduler) {
        let thinned = step.fleet.take_thinned(self.survey.room());
        let view = scheduler.view(step.now, step.state, step.fleet);
        self.survey.pass(&view, thinned);
        self.rests.pass(step.now.time, view.term.dead());
        self.levels.pass(step, scheduler, &self.survey);
        self.tend(step, scheduler);
        self.start_some(step, scheduler);
        match counts::copies_lacking(&self.survey) {
            (0, _) if self.copies() == 0 => self.pace.rests(),
            _ => self.pace.is_at_work(step.now),
        }
    }

    /// Whether the answer was to one of its calls.
    pub(crate) fn on_answer(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        (id, result): (EffectId, &Result<Response, Failure>),
    ) -> bool {
        let Some(handle) = self.calls.remove(&id) else { return false };
        let clone = self.clones.get_mut(handle);
        // It may have been given up since; and what is given up is not waited for.
        if let Some(clone) = clone.filter(|clone| clone.stage == CloneStage::Copying(id)) {
            clone.moved = step.now.time;
            match CloneChunk::answer(result.clone()) {
                Ok(answer) => self.on_copied(step, scheduler, handle, &answer),
                Err(failure) => self.on_not_copied(step, scheduler, handle, &failure),
            }
            self.start_some(step, scheduler);
        }
        true
    }

    /// Clones have joined, or have not.
    pub(crate) fn on_grown(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        grown: Vec<(ChunkHandle, Result<(), Failure>)>,
    ) {
        let any = !grown.is_empty();
        for (handle, result) in grown {
            let Some(clone) = self.clones.get_mut(handle) else {
                unreachable!("one that joins is not given up (RP2)");
            };
            assert_eq!(clone.stage, CloneStage::Joining, "told once of each that joins");
            clone.moved = step.now.time;
            match result {
                Ok(()) => {
                    let clone = self.clones.remove(handle).expect("it was looked up just now");
                    clone.tell(step, ("clone joined", handle), None);
                    self.rests.forget(handle);
                    if !clone.moves {
                        self.pace.note(step.now, 1);
                    }
                    let view = scheduler.view(step.now, step.state, step.fleet);
                    self.survey.look_at(&view, handle);
                }
                Err(failure) => {
                    clone.stage = CloneStage::Copied;
                    self.not_joined(step, scheduler, handle, &failure);
                }
            }
        }
        if any {
            self.start_some(step, scheduler);
        }
    }

    fn on_copied(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        handle: ChunkHandle,
        answer: &CloneChunkAnswer,
    ) {
        let clone = self.clones.get_mut(handle).expect("it was looked up just now");
        (clone.copied, clone.total) = (answer.length, answer.length);
        let differs = answer.copied > scheduler.term().config.chunk_size / DIFFERS_SHARE;
        if differs && clone.rounds < ROUNDS_MAX {
            self.order_again(step, scheduler, handle);
        } else {
            clone.stage = CloneStage::Copied;
            self.join(step, scheduler, handle);
        }
    }

    fn on_not_copied(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        handle: ChunkHandle,
        failure: &Failure,
    ) {
        let clone = self.clones.get_mut(handle).expect("it was looked up just now");
        if failure.code == ErrorCode::ChecksumMismatch && failure.server == clone.source.server {
            // The source has met a bad block of its own: it is no replica to count on.
            let source = clone.source.server;
            step.fleet.mark_damaged(handle, source);
        }
        clone.stage = CloneStage::Copied;
        self.failed(step, scheduler, handle, failure);
    }

    /// A try came to nothing: another source is asked, or the clone is given up.
    fn failed(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        handle: ChunkHandle,
        failure: &Failure,
    ) {
        let clone = self.clones.get_mut(handle).expect("it was looked up just now");
        clone.tell(step, ("clone failed", handle), Some(failure));
        clone.failures += 1;
        let of_source = failure.server == clone.source.server;
        if of_source && clone.failures < FAILURES_MAX {
            return self.order_again(step, scheduler, handle);
        }
        let failed = if of_source { clone.source.server } else { clone.receiver.server };
        self.give_up(step, scheduler, handle, Some(failed));
    }

    /// A clone has not joined. Where neither who gave it nor who has it is to blame, it is there
    /// still and joins after a rest: a lease was not given back, a member was silent for a moment.
    fn not_joined(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        handle: ChunkHandle,
        failure: &Failure,
    ) {
        let clone = self.clones.get_mut(handle).expect("it was looked up just now");
        if [clone.source.server, clone.receiver.server].contains(&failure.server) {
            return self.failed(step, scheduler, handle, failure);
        }
        clone.tell(step, ("clone not joined", handle), Some(failure));
        clone.failures += 1;
        if clone.failures >= FAILURES_MAX {
            return self.give_up(step, scheduler, handle, None);
        }
        // Its clients were held up: they have the chunk for a while.
        self.rests.note((step.now.time, scheduler.term().silent()), handle, None);
    }

    /// Orders the receiver to go on with its copy, as the chunk stands now.
    fn order_again(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        handle: ChunkHandle,
    ) {
        let mut avoided = self.rests.avoided(handle);
        let (load, random) = (CloneLoad::default(), &mut *step.random);
        let clone = self.clones.get_mut(handle).expect("it was looked up just now");
        if clone.failures > 0 {
            avoided.insert(clone.source.server);
        }
        let view = scheduler.view(step.now, step.state, step.fleet);
        let chunk = step.state.chunk(handle);
        let none = BTreeSet::new();
        let source = chunk.and_then(|chunk| {
            let other = choose_source(&view, (handle, &chunk), (&load, &avoided), random);
            other.or_else(|| choose_source(&view, (handle, &chunk), (&load, &none), random))
        });
        let Some(source) = source else {
            return self.give_up(step, scheduler, handle, None);
        };
        let receiver = clone.receiver.clone();
        clone.rounds += 1;
        clone.source = source.0.clone();
        let call = order(step, scheduler, handle, (source, &receiver));
        self.calls.insert(call, handle);
        let clone = self.clones.get_mut(handle).expect("it was looked up just now");
        clone.stage = CloneStage::Copying(call);
    }

    /// Lets a clone join, if its chunk's place is free.
    fn join(&mut self, step: &mut ChunkStep<'_>, scheduler: &mut Scheduler, handle: ChunkHandle) {
        let clone = self.clones.get_mut(handle).expect("who joins is under way");
        assert_eq!(clone.stage, CloneStage::Copied, "what is not copied does not join");
        clone.stage = CloneStage::Joining;
        let receiver = clone.receiver.clone();
        let begun = scheduler.change_set(step, handle, |view, chunk, acts| {
            // R34: what is to be still is not stirred.
            if view.is_frozen(chunk.file) {
                return None;
            }
            GrowJob::start(view, (handle, chunk), &receiver, acts).map(PlaceJob::Grow)
        });
        if !begun && let Some(clone) = self.clones.get_mut(handle) {
            clone.stage = CloneStage::Copied;
        }
    }

    /// The clone is not made, or not to the end; on whose account, if on anybody's.
    fn give_up(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &Scheduler,
        handle: ChunkHandle,
        failed: Option<ServerId>,
    ) {
        let clone = self.clones.remove(handle).expect("it is under way");
        clone.tell(step, ("clone given up", handle), None);
        assert_ne!(clone.stage, CloneStage::Joining, "one that joins is not given up (RP2)");
        let (now, term) = (step.now.time, scheduler.term());
        self.rests.note((now, term.heartbeat()), handle, failed);
        let ReplicaAt { server, address, .. } = clone.receiver;
        let drop = DropClone { term: term.number, handle, server };
        let call = step.out.call(address, server, drop, now + term.dead());
        self.calls.insert(call, handle);
    }

    /// Looks after all clones: those that are not needed any more, or do not get on, are given up.
    fn tend(&mut self, step: &mut ChunkStep<'_>, scheduler: &mut Scheduler) {
        let now = step.now.time;
        let handles: Vec<ChunkHandle> = self.clones.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            let view = scheduler.view(step.now, step.state, step.fleet);
            let lacks = self.survey.look_at(&view, handle).is_some();
            let balances = view.state.known_servers().duties().balance().is_some()
                && view.state.chunk(handle).is_some();
            let state = |server| view.fleet.servers().state(now, server);
            let clone = self.clones.get(handle).expect("only this one is looked at");
            let gone = !matches!(
                state(clone.receiver.server),
                Some(ServerState::Live | ServerState::Silent)
            );
            // One that waits to join may wait for a member to come back, or to be dead.
            let patience = if clone.stage == CloneStage::Copied { 2 } else { 1 };
            let stuck = now >= clone.moved + view.term.dead() * patience;
            let joins = self.survey.undecided(handle) == Undecided::No;
            let wanted = joins && (lacks || (clone.moves && balances));
            let leaves = view.state.known_servers().duties().is_draining(clone.receiver.server);
            match clone.stage {
                CloneStage::Joining => {}
                _ if !wanted || leaves => self.give_up(step, scheduler, handle, None),
                CloneStage::Copied if stuck && !gone => {
                    self.give_up(step, scheduler, handle, None);
                }
                _ if gone || stuck => {
                    let receiver = clone.receiver.server;
                    self.give_up(step, scheduler, handle, Some(receiver));
                }
                CloneStage::Copied if self.rests.rests(now, handle) => {}
                CloneStage::Copied => self.join(step, scheduler, handle),
                CloneStage::Copying(_) => {}
            }
        }
    }

    /// Starts what can be started, the most urgent first (RP1).
    fn start_some(&mut self, step: &mut ChunkStep<'_>, scheduler: &mut Scheduler) {
        // RP3
        if step.fleet.servers().is_gathering(step.now.time) {
            return;
        }
        let load = self.clones.load();
        let places = FreePlaces::of(&scheduler.view(step.now, step.state, step.fleet), load);
        // While none is free nothing is looked at, and no place in the index is lost.
        if self.clones.count() >= clones_max(step.state) || places.is_none_free() {
            return;
        }
        let listed = self.candidates.list(self.survey.index());
        let worse = self.looks_for_worse(step, scheduler);
        let waited = waited(step, scheduler);
        let index = self.survey.index();
        let urgent = |handle: &ChunkHandle| Some((index.level_of(*handle)?, *handle));
        let mut front: Vec<(Urgency, ChunkHandle)> = waited.iter().filter_map(urgent).collect();
        front.extend(listed.front);
        let mut places = places;
        let (_, free) =
            self.start_of(step, scheduler, &mut places, in_order(front, &waited, worse));
        if !free {
            return;
        }
        let window = in_order(listed.window, &waited, worse);
        let (started, free) = self.start_of(step, scheduler, &mut places, window);
        if free && !started {
            self.candidates.go_on(listed.next);
        }
    }

    /// Starts those of these that can be started. Whether any was, and whether places are left.
    fn start_of(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        places: &mut FreePlaces,
        candidates: Vec<ChunkHandle>,
    ) -> (bool, bool) {
        let (now, before) = (step.now.time, self.clones.count());
        let mut left = considered_max(step.fleet.servers().count());
        for handle in candidates {
            if self.clones.count() >= clones_max(step.state) || places.is_none_free() {
                return (self.clones.count() > before, false);
            }
            if left == 0 {
                break;
            }
            let view = scheduler.view(step.now, step.state, step.fleet);
            if self.clones.get(handle).is_some()
                || self.rests.rests(now, handle)
                || self.survey.undecided(handle) != Undecided::No
                || !places.may_serve(&view, handle)
            {
                continue;
            }
            left -= 1;
            // Since it was written down it may have got what it lacked.
            let Some(urgency) = self.survey.look_at(&view, handle) else { continue };
            // RP4
            if self.survey.undecided(handle) != Undecided::No {
                continue;
            }
            let elsewhere = urgency.need == CopyNeed::Rack;
            let Some(chunk) = step.state.chunk(handle) else { continue };
            let avoided = self.rests.avoided(handle);
            let limits = (places.load(), &avoided);
            let plan = plan_clone(&view, (handle, &chunk), limits, elsewhere, step.random);
            if let Some(plan) = plan {
                places.take(&view, plan.source.0.server, plan.receiver.server);
                self.start(step, scheduler, handle, (plan.source, plan.receiver));
            }
        }
        (self.clones.count() > before, true)
    }

    /// Whether a server has died lately, and not all that it held is found yet.
    fn looks_for_worse(&self, step: &ChunkStep<'_>, scheduler: &Scheduler) -> bool {
        let now = step.now.time;
        let heard = step.fleet.servers().dead_heard(now, |_| true);
        let lately = heard.is_some_and(|heard| now < heard + 3 * scheduler.term().dead());
        lately && step.fleet.looks_for_thinned()
    }

    fn start(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &Scheduler,
        handle: ChunkHandle,
        (source, receiver): (LiveMember, ReplicaAt),
    ) {
        let now = step.now.time;
        let source_at = source.0.clone();
        let replica = step.fleet.locations().get(handle, source_at.server);
        let total = replica.map(|replica| replica.length).unwrap_or_default();
        let call = order(step, scheduler, handle, (source, &receiver));
        self.calls.insert(call, handle);
        step.fleet.placed_on(now, receiver.server);
        let clone = CloneUnderWay::ordered(now, call, (source_at, receiver), total);
        self.clones.insert(handle, clone);
    }

    /// The table has these chunks no more.
    pub(crate) fn forget_chunks(&mut self, purged: &[ChunkHandle]) {
        purged.iter().for_each(|handle| self.survey.forget(*handle));
    }

    /// How many chunks ail, and from what.
    pub(crate) fn counts(&self, view: &View<'_>) -> ChunkCounts {
        counts::counts(view, &self.survey, &self.clones, &self.rests)
    }

    /// Whether each chunk was looked at once in this term.
    pub(crate) fn has_seen_all(&self) -> bool {
        self.survey.has_seen_all()
    }

    /// Of each server, up-to-date replicas that are damaged or may have lost bytes.
    pub(crate) fn bad_replicas(&self, view: &View<'_>) -> BTreeMap<ServerId, u64> {
        counts::bad_replicas(view, &self.survey)
    }

    /// Chunks that can do without one of their replicas; who takes one from here looks again.
    pub(crate) fn surplus(&self) -> &HandleSet {
        self.survey.surplus()
    }

    /// Whether a chunk is being copied.
    pub(crate) fn is_cloning(&self, handle: ChunkHandle) -> bool {
        self.clones.get(handle).is_some()
    }

    /// Whether a server is to receive a copy of any.
    pub(crate) fn receives(&self, server: ServerId) -> bool {
        self.clones.iter().any(|(_, clone)| clone.receiver.server == server)
    }

    /// How many clones each server receives and gives.
    pub(crate) fn load(&self) -> CloneLoad {
        self.clones.load()
    }

    /// Whether chunks lack replicas that are being copied, or somebody could copy.
    pub(crate) fn is_needed(&self, view: &View<'_>) -> bool {
        let need = |handle| self.survey.index().level_of(handle).map(|it| it.need);
        let copies = self.clones.iter().any(|(handle, _)| need(handle) == Some(CopyNeed::Lack));
        copies || counts::is_any_startable(view, &self.survey)
    }

    /// Whether every chunk was looked at, and none lacks a replica for good.
    pub(crate) fn lacks_nothing(&self, view: &View<'_>) -> bool {
        let looks = view.fleet.looks_for_thinned();
        let is_unsure = looks || view.fleet.servers().is_gathering(view.now.time);
        let mut lacking = self.survey.index().counts().filter(|it| it.0.need == CopyNeed::Lack);
        self.survey.has_seen_all() && !is_unsure && lacking.next().is_none()
    }

    /// Of the chunks that are on servers to be emptied, and not yet on enough others: how many
    /// there are, and the highest goal.
    pub(crate) fn to_be_drained(&self) -> (u64, u32) {
        counts::to_be_drained(&self.survey)
    }

    /// Copies a chunk that has its goal to a server, so that another replica can go. Whether that
    /// has begun.
    pub(crate) fn start_move(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &Scheduler,
        handle: ChunkHandle,
        receiver: ReplicaAt,
    ) -> bool {
        let now = step.now.time;
        let full = self.clones.count() >= clones_max(step.state) || self.is_cloning(handle);
        if full || self.rests.rests(now, handle) {
            return false;
        }
        let (load, avoided) = (self.clones.load(), self.rests.avoided(handle));
        let view = scheduler.view(step.now, step.state, step.fleet);
        let Some(chunk) = step.state.chunk(handle) else { return false };
        let limits = (&load, &avoided);
        let source = choose_source(&view, (handle, &chunk), limits, step.random);
        let Some(source) = source.filter(|_| load.may_receive(&view, receiver.server)) else {
            return false;
        };
        self.start(step, scheduler, handle, (source, receiver));
        self.clones.get_mut(handle).expect("it was started just now").moves = true;
        true
    }

    /// For a person.
    pub(crate) fn status(&self, view: &View<'_>) -> RepairStatusAnswer {
        let count = |(urgency, count): (Urgency, u64)| BelowGoalCount {
            good: urgency.good,
            goal: urgency.goal(),
            deleted: urgency.hidden,
            count,
            need: urgency.need,
        };
        RepairStatusAnswer {
            below_goal: self.survey.index().counts().map(count).collect(),
            clone_count: self.clones.count() as u64,
            clones: self.clones.told(view, CLONES_TOLD_MAX),
        }
    }

    /// Copies that are being made of chunks that need one more.
    fn copies(&self) -> usize {
        self.clones.iter().filter(|(_, clone)| !clone.moves).count()
    }

    /// As a job, for a person; none while there is nothing to do.
    pub(crate) fn job(&self, view: &View<'_>) -> Option<JobStatus> {
        let ((left, lost), copies) = (counts::copies_lacking(&self.survey), self.copies());
        if left == 0 && copies == 0 {
            return None;
        }
        let mut note = format!("{copies} copies under way");
        if lost > 0 {
            note += &format!("; {lost} chunks have no good replica yet: cairn explain says why");
        } else if copies == 0 && view.fleet.servers().is_gathering(view.now.time) {
            note = "it waits until all servers have told what they hold".to_owned();
        } else if copies == 0 && !counts::is_any_startable(view, &self.survey) {
            note = "nothing can be copied now: a server with room and without a replica is lacking"
                .to_owned();
        }
        let state = if copies > 0 { JobState::Running } else { JobState::Waiting };
        let kind = JobKind::Repair;
        let status = JobStatus { id: "repair".into(), kind, state, note, ..JobStatus::default() };
        Some(self.pace.tell(view.now, left, status))
    }

    /// What is being done about a chunk, for a program.
    pub(crate) fn of_chunk(&self, now: Time, handle: ChunkHandle) -> RepairOfChunk {
        let clone = self.clones.get(handle).map(|clone| clone.status(now, handle));
        (clone, self.rests.left(now, handle))
    }

    /// What is being done about a chunk, for a person.
    pub(crate) fn line(&self, handle: ChunkHandle) -> Option<String> {
        self.clones.get(handle).map(CloneUnderWay::line)
    }
}
