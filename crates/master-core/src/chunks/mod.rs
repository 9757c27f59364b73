//! Everything about chunkservers, replicas and leases: the master's soft state (design §4, §6, §9).
//!
//! ```text
//!   Join, Inventory, Heartbeat ──► fleet/     what is known
//!                                    │ ▲
//!                                    ▼ │ what servers answered
//!   Lease, ChunkClosed, … ──► scheduler/  what is being done (jobs/) and what holds (leases)
//!                                    │
//!                                    └──► rules/  decide, over a view of it all
//! ```
//! Knows the applied state, never changes it but by proposing records.

mod chunkservers;
mod reach_probes;
mod told_records;

use crate::applied::Applied;
use crate::fleet::Fleet;
use crate::moves::{MoveRequest, Moves, decide};
use crate::outbox::ProposalId;
use crate::record::{CopyOnWrite, LetGo, Record, SetDrain, SetLength, SetVersion};
use crate::repair::Repair;
use crate::rules::chosen_replica::recover;
use crate::rules::chunk_list;
use crate::rules::explain::explain;
use crate::rules::health::{self, Health};
use crate::scheduler::{Fences, Scheduler, SetNews, TreeStilling};
use crate::state::State;
use crate::step::{ChunkStep, Step};
use crate::stream_records::SealChunk;
use crate::view::View;
use cairn_env::{Caller, EffectId, LogEvent, Now};
use cairn_protocol::{
    ErrorCode, LetGoOfLostAnswer, ListChunks, ListChunksAnswer, ListLost, ListLostAnswer, Recover,
    RecoverAnswer,
};
use cairn_protocol::{
    ExplainAnswer, Failure, JobStatus, Lease, LeftOut, RecordLength, RepairStatusAnswer,
    ReportBadBlock, Response, ServersAnswer,
};
use cairn_types::{ChunkHandle, EntryId, ReignId, ReplicaAt, ServerId, Term, Time};
use reach_probes::ReachProbes;
use std::collections::BTreeMap;
use std::time::Duration;
use told_records::tell_record;

/// The soft state of one term.
#[derive(Debug)]
pub(crate) struct Chunks {
    fleet: Fleet,
    scheduler: Scheduler,
    repair: Repair,
    moves: Moves,
    reach_probes: ReachProbes,
    tick: Option<EffectId>,
    /// Tells this master from any other of its term (R1).
    reign: ReignId,
    /// Servers whose forgetting is on its way into the log, and who asked for it.
    forgetting: BTreeMap<ProposalId, (Caller, ServerId)>,
    /// Who let go of a lost chunk, which is on its way into the log.
    letting_go: BTreeMap<ProposalId, Caller>,
}

impl Chunks {
    pub(crate) fn new(term: Term) -> Self {
        Self {
            fleet: Fleet::default(),
            scheduler: Scheduler::new(term),
            repair: Repair::default(),
            moves: Moves::default(),
            reach_probes: ReachProbes::default(),
            tick: None,
            reign: ReignId::default(),
            forgetting: BTreeMap::new(),
            letting_go: BTreeMap::new(),
        }
    }

    /// The reign that servers are told of from now on.
    pub(crate) fn reign(&mut self, reign: ReignId) {
        self.reign = reign;
    }

    /// All that is known.
    pub(crate) fn view<'a>(&'a self, now: Now, state: &'a State) -> View<'a> {
        self.scheduler.view(now, state, &self.fleet)
    }

    /// A record of this term is applied: from here on requests come, and time counts.
    pub(crate) fn on_term_begins(&mut self, step: &mut Step<'_>) {
        assert_eq!(self.tick, None, "a term begins once");
        let (now, config) = (step.now.time, step.state.config());
        self.scheduler.begin(now, config);
        self.fleet.begin(now, config, step.state.servers());
        self.schedule_tick(step);
    }

    fn schedule_tick(&mut self, step: &mut Step<'_>) {
        let pause = Duration::from_millis(step.state.config().heartbeat_ms.div_ceil(2));
        self.tick = Some(step.out.wake(step.now.time + pause));
    }

    /// A client wants a lease.
    pub(crate) fn on_lease(&mut self, step: &mut Step<'_>, from: Caller, request: Lease) {
        let from = (from, step.now.time);
        self.scheduler.on_lease(&mut step.with(&mut self.fleet), from, request);
    }

    /// A client wants a file's length to be recorded.
    pub(crate) fn on_record_length(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        wish: &RecordLength,
    ) {
        self.scheduler.on_record_length(&mut step.with(&mut self.fleet), from, wish);
    }

    /// Nothing changes below that entry from now on (R34).
    pub(crate) fn freeze(&mut self, top: EntryId) {
        TreeStilling(&mut self.scheduler).freeze(top);
    }

    /// That is over.
    pub(crate) fn thaw(&mut self, step: &mut Step<'_>, top: EntryId) {
        TreeStilling(&mut self.scheduler).thaw(&mut step.with(&mut self.fleet), top);
        self.tell_changed(step);
    }

    /// Takes the next steps towards nothing being changed below that entry; then gives the lengths
    /// of files that are longer than recorded.
    ///
    /// # Errors
    /// What is waited for.
    pub(crate) fn still(
        &mut self,
        step: &mut Step<'_>,
        top: EntryId,
        fences: &mut Fences,
    ) -> Result<Vec<SetLength>, String> {
        let chunk_step = &mut step.with(&mut self.fleet);
        let mut stilling = TreeStilling(&mut self.scheduler);
        stilling.still(chunk_step, top, fences)?;
        Ok(stilling.lengths(chunk_step, fences))
    }

    /// What the room of streams works with.
    pub(crate) fn for_streams<'a>(
        &'a mut self,
        step: &'a mut Step<'_>,
    ) -> (ChunkStep<'a>, &'a mut Scheduler) {
        (step.with(&mut self.fleet), &mut self.scheduler)
    }

    /// A reader met bytes that fail their checksum (R31).
    pub(crate) fn on_report_bad_block(&mut self, hint: &ReportBadBlock) {
        self.fleet.note_bad_block(hint);
    }

    /// Somebody asked for a chunk of which no replica is known.
    pub(crate) fn want(&mut self, now: Time, handle: ChunkHandle) {
        self.fleet.want(now, handle);
    }

    /// Which chunks lack replicas, and what is being done about it.
    pub(crate) fn repair_status(&self, now: Now, state: &State) -> RepairStatusAnswer {
        self.repair.status(&self.view(now, state))
    }

    /// What is being done for chunks, as jobs.
    pub(crate) fn jobs(&self, now: Now, state: &State) -> impl Iterator<Item = JobStatus> {
        let view = self.view(now, state);
        let moves = self.moves.jobs(&view, &self.repair);
        self.repair.job(&view).into_iter().chain(moves)
    }

    /// What a person should know of what is being done: a code and a line each.
    pub(crate) fn warnings(&self, view: &View<'_>) -> Vec<String> {
        self.moves.warnings(view, &self.repair)
    }

    /// A person wants chunks to be elsewhere, or not any more.
    pub(crate) fn on_move_request(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        request: &MoveRequest,
    ) {
        match decide(&self.view(step.now, step.state), request) {
            Ok((answer, Some(record))) => self.moves.order(step, from, (answer, record)),
            Ok((answer, None)) => step.out.reply(from, Ok(answer)),
            Err(failure) => step.out.reply(from, Err(failure)),
        }
    }

    /// Chunks with their replicas, page by page.
    pub(crate) fn list_chunks(
        &self,
        view: &View<'_>,
        wish: &ListChunks,
    ) -> Result<ListChunksAnswer, Failure> {
        chunk_list::list(view, wish, |handle| self.repair.of_chunk(view.now.time, handle))
    }

    /// How the cell stands as a whole. The view is of all that is known here.
    pub(crate) fn health(&self, view: &View<'_>) -> Health {
        let gathering = view.fleet.is_gathering_first(view.now.time);
        let seen = (self.repair.has_seen_all(), view.fleet.looks_for_thinned());
        let counts = (!gathering).then(|| self.repair.counts(view));
        health::health(view, counts, seen, |server| self.moves.is_off(server))
    }

    /// All chunkservers.
    pub(crate) fn servers(&self, view: &View<'_>) -> ServersAnswer {
        let mut servers = health::servers(view, &self.repair.bad_replicas(view));
        for status in &mut servers {
            status.duty = self.moves.duty(view, &self.repair, status.at.server);
        }
        ServersAnswer { servers }
    }

    /// Why a path's chunks, or one chunk, are as they are.
    pub(crate) fn explain(
        &self,
        now: Now,
        state: &State,
        subject: &str,
    ) -> Result<ExplainAnswer, Failure> {
        let jobs_of = |file| self.scheduler.job_lines(now.time, file);
        let repair_of = |handle| self.repair.line(handle);
        explain(&self.view(now, state), subject, (jobs_of, repair_of))
    }

    /// A call is answered, or its fate is known to be unknown.
    pub(crate) fn on_answer(
        &mut self,
        step: &mut Step<'_>,
        id: EffectId,
        result: Result<Response, Failure>,
    ) {
        let chunk_step = &mut step.with(&mut self.fleet);
        if self.reach_probes.on_answer(chunk_step, self.scheduler.term(), (id, &result)) {
            return;
        }
        if !self.repair.on_answer(chunk_step, &mut self.scheduler, (id, &result)) {
            self.scheduler.on_answer(chunk_step, id, result);
        }
        self.tell_changed(step);
    }

    /// Tells who waits for them of sets that have changed, or have not.
    fn tell_changed(&mut self, step: &mut Step<'_>) {
        let grown = std::mem::take(&mut SetNews::of(&mut self.scheduler).grown);
        self.repair.on_grown(&mut step.with(&mut self.fleet), &mut self.scheduler, grown);
        let left_out = std::mem::take(&mut SetNews::of(&mut self.scheduler).left_out);
        let rooms = (&self.scheduler, &mut self.repair);
        self.moves.on_left_out(&mut step.with(&mut self.fleet), rooms, left_out);
    }

    /// The master does something: before anything is decided by what it has not heard.
    pub(crate) fn wake(&mut self, now: Time) {
        self.fleet.wake(now);
    }

    /// Time has passed.
    pub(crate) fn on_wake(&mut self, step: &mut Step<'_>, id: EffectId) {
        assert_eq!(self.tick, Some(id), "one tick is set at a time");
        self.schedule_tick(step);
        for at in self.fleet.newly_silent(step.now.time) {
            step.out.log(told_of(LogEvent::warn("chunkserver silent"), &at));
        }
        let dead = self.fleet.pass(step.now.time);
        for at in dead.iter().filter_map(|server| self.fleet.at(*server)) {
            step.out.log(told_of(LogEvent::error("chunkserver dead"), at));
        }
        self.reach_probes.pass(&mut step.with(&mut self.fleet), self.scheduler.term());
        self.scheduler.on_tick(&mut step.with(&mut self.fleet), &dead);
        self.repair.pass(&mut step.with(&mut self.fleet), &mut self.scheduler);
        self.moves.pass(&mut step.with(&mut self.fleet), (&mut self.scheduler, &mut self.repair));
        self.tell_changed(step);
    }

    /// A record has changed the state: a set may go on without some who were of it, or somebody let
    /// go of a lost chunk.
    pub(crate) fn note_logged(&mut self, step: &mut Step<'_>, record: &Record) {
        tell_record(step, &self.fleet, record);
        self.repair.note_logged(step.state, record);
        match *record {
            Record::SetVersion(SetVersion { handle, version, .. })
            | Record::SealChunk(SealChunk { handle, version, .. }) => {
                self.fleet.leave_out_all_below(LeftOut { handle, version });
                self.fleet.choice_carried_out(handle);
            }
            Record::CopyOnWrite(CopyOnWrite { shared, shared_version, .. }) => {
                self.fleet.leave_out_all_below(LeftOut { handle: shared, version: shared_version });
                self.fleet.choice_carried_out(shared);
            }
            Record::LetGo(LetGo { handle, .. }) => self.fleet.let_go(handle),
            // What counts for a goal is not what it was.
            Record::SetDrain(SetDrain { server, .. }) => self.fleet.look_at_all_of(server),
            _ => {}
        }
    }

    /// Chunks that servers keep and the log does not know.
    pub(crate) fn lost_after(&self, wish: &ListLost) -> ListLostAnswer {
        self.fleet.lost_after(wish)
    }

    /// A person chooses which replicas chunks go on with, of a file or a single one (R28).
    pub(crate) fn recover(
        &mut self,
        now: Now,
        state: &State,
        wish: &Recover,
    ) -> Result<RecoverAnswer, Failure> {
        let (answer, choices) = recover(&self.view(now, state), wish)?;
        for (handle, word) in choices {
            self.fleet.choose(now.time, handle, word).ok_or_else(|| {
                let line = "too many choices wait to be carried out; try again in a minute";
                Failure::not_done(ErrorCode::Busy, line)
            })?;
        }
        Ok(answer)
    }

    /// A person lets go of one of them: only one that is told of, so that nothing is named that is
    /// yet to be made.
    pub(crate) fn on_let_go(&mut self, step: &mut Step<'_>, from: Caller, handle: ChunkHandle) {
        if self.fleet.holders_of_unknown(handle).next().is_none() {
            let line = format!("chunk {}: no server keeps a lost chunk of it", handle.short());
            let failure = Failure::refused(ErrorCode::NotFound, line);
            return step.out.reply(from, Err(failure));
        }
        let proposal = step.out.propose(LetGo { time: step.now.wall, handle });
        let other = self.letting_go.insert(proposal, from);
        assert!(other.is_none(), "a record lets go of one chunk");
    }

    /// The state has these chunks no more.
    pub(crate) fn forget_chunks(&mut self, purged: &[ChunkHandle]) {
        purged.iter().for_each(|handle| self.fleet.forget_chunk(*handle));
        self.repair.forget_chunks(purged);
    }

    /// These chunks have another goal: whether they lack replicas is judged anew.
    pub(crate) fn look_at(&mut self, now: Now, state: &State, chunks: &[ChunkHandle]) {
        self.repair.look_at(&self.scheduler.view(now, state, &self.fleet), chunks);
    }

    /// A record is applied, of this term or an earlier one.
    pub(crate) fn on_applied(
        &mut self,
        step: &mut Step<'_>,
        proposal: ProposalId,
        applied: &Applied,
    ) {
        if let Some(from) = self.letting_go.remove(&proposal) {
            let answer = match applied {
                Applied::Failed(failure) => Err(failure.clone()),
                _ => Ok(Response::LetGoOfLost(LetGoOfLostAnswer {})),
            };
            step.out.reply(from, answer);
        }
        if let Some((from, server)) = self.forgetting.remove(&proposal) {
            self.on_forgotten(step, from, server, applied);
        }
        self.moves.on_applied(step, proposal, applied);
        self.scheduler.on_applied(&mut step.with(&mut self.fleet), proposal, applied);
        self.tell_changed(step);
    }
}

/// An event about a server.
fn told_of(event: LogEvent, at: &ReplicaAt) -> LogEvent {
    event.with("address", &at.address).with("server", at.server).with("rack", &at.rack)
}

#[cfg(test)]
mod chaos_tests;
#[cfg(test)]
pub(crate) mod test_world;
#[cfg(test)]
mod tests;
