//! The driver: core, consensus and log, one event at a time.
//!
//! ```text
//!   shadow ── elected, and all records before its term applied ──► primary, with a core
//!      ▲                                                              │
//!      └────────── another term, or no majority answers ──────────────┘
//! ```
//! - D1: an answer that depends on a record leaves after the record is durable, committed and
//!   applied (R23).
//! - D2: one append is on its way at a time, taken when a turn ends; what is proposed meanwhile
//!   goes with the next one, so that one flush serves all who came together (group commit, §2.6.3).
//! - D3: when an append fails the process stops: what is on disk is not known.
//! - D4: when the state meets a damaged page, nothing of the event that met it leaves. The
//!   checkpoint is marked, durably, and the process stops; the next one takes another checkpoint.
//! - D5: while the disk has no room for the log, changes wait or are refused, and look-ups go on
//!   (`log_room`).
//! - D6: a member that is not in charge applies what is committed, and answers everyone but other
//!   members that it is not, and who may be (R23).
//! - D7: a primary whose disk hangs or is full hands over: another may be better off.
//! - D8: a turn applies a piece of what is committed, and takes requests before the next one
//!   (`backlog`): who looks something up waits for one piece, not for all that a flush committed.

mod fetching;
mod taking_charge;

use crate::backlog::Backlog;
use crate::busiest::BusyCounts;
use crate::checkpoint_fetch::CheckpointFetch;
use crate::checkpoint_pace::CheckpointPace;
use crate::checkpoint_reads::{CheckpointReads, PieceWish};
use crate::damage_mark::DamageMark;
use crate::gauges::{MasterGauges, MasterStanding};
use crate::group_member::{GroupAnswer, GroupMember};
use crate::log_room::{Append, AppendOnItsWay, LogRoom, ROOM_PAUSE};
use crate::master_disk::{CHECKPOINT_LANE, LOG_LANE, MasterDisk};
use crate::open::MasterConfig;
use crate::primary::reply;
use crate::recovery::TakenFrom;
use crate::reigns::Reigns;
use crate::role::Role;
use cairn_consensus::{Consensus, ConsensusError, LogBatch};
use cairn_env::{
    Caller, Completion, DiskError, Driver, Effect, EffectId, Event, Lane, LogEvent, Now, Resources,
};
use cairn_master_core::{
    Checkpointed, LogDone, LogJob, LogResult, MasterEffect, MasterOutbox, State, may_know_all_names,
};
use cairn_pagetree::Damaged;
use cairn_protocol::{Hello, Request, Response};
use cairn_types::planted::{Rule, broken};
use cairn_types::{Address, Members, Term, Time};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

const LOG_IN_DOUBT: &str = "the operation log can no longer be trusted";
const NO_CHECKPOINT: &str = "a checkpoint could not be made durable";
const STUCK: &str = "this master cannot go on";

/// A master as the worlds drive it.
#[derive(Debug)]
pub struct Master {
    role: Role,
    group: GroupMember,
    config: MasterConfig,
    reigns: Reigns,
    /// What a person should know of the last checkpoint.
    warning: Option<String>,
    appending: AppendOnItsWay,
    backlog: Backlog,
    room: LogRoom,
    pace: CheckpointPace,
    fetch: CheckpointFetch,
    reads: CheckpointReads,
    /// The number of the page file that the state reads from.
    page_file: Option<u64>,
    last_effect: u64,
    /// What recovery found, to be told when it starts.
    pub(crate) told: Vec<LogEvent>,
    mark: DamageMark,
    halted: bool,
    /// Who measures what the process takes.
    resources: Option<Arc<dyn Resources>>,
    /// Where it notes how it stands, for whoever asks.
    gauges: Arc<MasterGauges>,
    /// Who asks the most, and for what.
    busiest: BusyCounts,
}

impl Master {
    pub(crate) fn new(
        state: State,
        consensus: Consensus,
        config: MasterConfig,
        hello: Hello,
        from: TakenFrom,
    ) -> Self {
        Self {
            role: Role::Shadow(state.into()),
            group: GroupMember::new(consensus, hello),
            reigns: Reigns::new(config.seed),
            warning: None,
            config,
            appending: AppendOnItsWay::default(),
            backlog: Backlog::default(),
            room: LogRoom::default(),
            pace: CheckpointPace::new(from.index),
            fetch: CheckpointFetch::default(),
            reads: CheckpointReads::default(),
            page_file: from.page_file,
            last_effect: MasterOutbox::DRIVER_EFFECTS,
            told: Vec::new(),
            mark: DamageMark::default(),
            halted: false,
            resources: None,
            gauges: Arc::default(),
            busiest: BusyCounts::default(),
        }
    }

    /// The durable state as applied; for checkers and tests.
    #[must_use]
    pub fn state(&self) -> &State {
        self.role.state()
    }

    /// The first term that it is in charge of begins a history: a person says so (R3).
    pub(crate) fn begin_history(&mut self) {
        self.reigns.begin_history();
    }

    /// Others reach it there: the others of its group have to know, once there are some.
    pub fn reach_at(&mut self, address: Address) {
        self.group.reach_at(address);
    }

    /// Somebody looks for changes of state: they are told, as events of level debug.
    pub fn tell_debug(&mut self) {
        self.reigns.tell_debug();
    }

    /// From now on it can say what the process takes.
    pub fn measure(&mut self, resources: Arc<dyn Resources>) {
        self.resources = Some(resources);
    }

    /// Where it notes how it stands.
    #[must_use]
    pub fn gauges(&self) -> Arc<MasterGauges> {
        Arc::clone(&self.gauges)
    }

    /// Whether it never had company in its group.
    #[must_use]
    pub fn was_always_alone(&self) -> bool {
        self.group.consensus().was_always_alone()
    }

    /// Who belongs to its group, as far as it knows.
    #[must_use]
    pub fn members(&self) -> &Members {
        self.group.consensus().members()
    }

    /// The latest term that it has heard of.
    #[must_use]
    pub fn term(&self) -> Term {
        self.group.consensus().term()
    }

    fn on_event(
        &mut self,
        now: Now,
        event: Event<(), LogResult>,
        wishes: &mut Vec<MasterEffect>,
    ) -> Result<(), ConsensusError> {
        match event {
            Event::Started => {
                self.gauges.has_checkpoint(now.time, self.pace.last().0);
                let told = self.told.drain(..).map(Effect::Log);
                wishes.extend(told.map(MasterEffect::Env));
                wishes.push(MasterEffect::Env(Effect::Identify(self.group.hello().clone())));
            }
            Event::Completed { id, result: Completion::Woken } if self.room.was_asked(id) => {
                self.look_for_room(now, wishes);
            }
            // What is due is done behind every event.
            Event::Completed { id, result: Completion::Woken } if self.backlog.is_wake(id) => {}
            Event::Completed { id, result: Completion::Woken } if self.group.is_tick(id) => {
                self.group.consensus_mut().tick(now.time)?;
                let full = self.room.leaves_charge(now.time, matches!(self.role, Role::Primary(_)));
                self.group.leave_charge_if(full || self.appending.hangs(now.time))?;
            }
            Event::Completed { id, result: Completion::Answered(result) }
                if self.fetch.is_answer(id) =>
            {
                let step = self.fetch.on_answer(result);
                self.go_on_fetching(now, step, wishes)?;
            }
            Event::Completed { id, result: Completion::Disk(result) } if self.fetch.is_done(id) => {
                let step = self.fetch.on_disk(result);
                self.go_on_fetching(now, step, wishes)?;
            }
            Event::Completed { id, result: Completion::Answered(result) }
                if id.0 > MasterOutbox::DRIVER_EFFECTS =>
            {
                self.group.end_call(id, result)?;
            }
            Event::Completed { id, result: Completion::Disk(result) } => {
                self.on_disk(now, id, result, wishes);
            }
            Event::Command(()) => self.group.stop(now.time)?,
            Event::Request { from, request } => self.on_request(now, from, request, wishes)?,
            other => {
                self.group.note_caller(&other);
                if let Role::Primary(primary) = &mut self.role {
                    primary.step(now, other, wishes);
                }
            }
        }
        Ok(())
    }

    fn on_request(
        &mut self,
        now: Now,
        from: Caller,
        request: Request,
        wishes: &mut Vec<MasterEffect>,
    ) -> Result<(), ConsensusError> {
        self.busiest.asked(now.time, from, &request);
        if let Err(denied) = self.group.check(from, &request, self.role.state()) {
            wishes.push(reply(from, Err(denied)));
            return Ok(());
        } else if let Some(piece) = PieceWish::of(&request) {
            let id = self.fresh();
            wishes.push(MasterEffect::Env(self.reads.begin(id, (from, piece))));
            return Ok(());
        } else if let Request::BackUp(_) = request {
            let answer = self.pace.back_up(from, self.role.state().applied());
            wishes.extend(answer.map(MasterEffect::Env));
            return Ok(());
        } else if let Request::Busiest(_) = request {
            let state = self.role.state();
            let mut told = self.busiest.told(now.time, state, self.resources.as_deref());
            if !may_know_all_names(state, self.group.callers().who(from)) {
                told.files.clear();
            }
            wishes.push(reply(from, Ok(Response::Busiest(told))));
            return Ok(());
        }
        let full = self.room.space(self.group.has_company()).refusal();
        if let (Request::ChangeMasters(_), Some(full)) = (&request, full) {
            wishes.push(reply(from, Err(full)));
            return Ok(());
        }
        let request = match self.group.on_request(now, (from, request), &self.role)? {
            GroupAnswer::Waits => return Ok(()),
            GroupAnswer::Answered(answer) => {
                wishes.push(reply(from, answer));
                return Ok(());
            }
            GroupAnswer::NotOfGroup(request) => request,
        };
        let is_confirmed = self.is_confirmed(now);
        let Role::Primary(primary) = &mut self.role else {
            if broken(Rule::R23) && self.answer_unapplied(now, (from, request), wishes) {
                return Ok(());
            }
            wishes.push(reply(from, Err(self.group.not_in_charge())));
            return Ok(());
        };
        if let (Request::Resources(_), Some(meter)) = (&request, &self.resources) {
            primary.core_mut().set_resources(meter.told());
        }
        if self.group.consensus().is_alone() {
            primary.step(now, Event::Request { from, request }, wishes);
        } else {
            primary.on_request(now, (from, request), is_confirmed, wishes);
        }
        Ok(())
    }

    /// Whether no other member can have been elected yet (R21, R23).
    fn is_confirmed(&self, now: Now) -> bool {
        if broken(Rule::R23) {
            // R23 broken: who was elected once is asked by nobody whether it still is.
            return true;
        }
        let drift = self.role.state().config().drift_permille;
        self.group.consensus().is_confirmed(now.time, drift)
    }

    fn on_disk(
        &mut self,
        now: Now,
        id: EffectId,
        result: LogResult,
        wishes: &mut Vec<MasterEffect>,
    ) {
        if let Some(piece) = self.reads.end(id, &result) {
            wishes.push(MasterEffect::Env(piece));
        } else if self.pace.end(now.time, id) {
            self.on_checkpoint(now, result, wishes);
        } else if let Some(append) = self.appending.end(id) {
            wishes.extend(self.appending.slowness(now.time).map(MasterEffect::Env));
            let has_room = matches!(result, Ok(LogDone::Appended { has_room: true }));
            if result.is_ok() {
                self.gauges.flushed(self.appending.took(now.time), &append);
            }
            let durable = match result {
                Ok(_) => self
                    .group
                    .consensus_mut()
                    .durable(now.time, append.number)
                    .map_err(|error| error.to_string()),
                Err(DiskError::NoSpace) => {
                    self.room.refuse(append);
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            };
            match durable {
                Ok(()) => self.set_room(now, has_room, wishes),
                Err(reason) => self.halt(LOG_IN_DOUBT, &reason, wishes),
            }
        } else if self.room.was_asked(id) {
            match result {
                Err(DiskError::SyncFailed(why)) => self.halt(LOG_IN_DOUBT, &why, wishes),
                told => self.set_room(now, matches!(told, Ok(LogDone::Room(true))), wishes),
            }
        }
    }

    /// Whether the log has the room that it needs next (D5).
    fn set_room(&mut self, now: Now, has_room: bool, wishes: &mut Vec<MasterEffect>) {
        if let Some(news) = self.room.set_full(!has_room) {
            self.group.begin_anew_if(has_room);
            let space = self.room.space(self.group.has_company());
            self.role.with_core(|core| core.set_log_space(space));
            wishes.push(MasterEffect::Env(Effect::Log(news)));
        }
        if self.room.is_to_be_asked() {
            let id = self.fresh();
            self.room.ask(id);
            wishes.push(MasterEffect::Env(Effect::Wake { id, at: now.time + ROOM_PAUSE }));
        }
    }

    /// What waits for room is tried again; where nothing does, the log is asked.
    fn look_for_room(&mut self, now: Now, wishes: &mut Vec<MasterEffect>) {
        if let Some(append) = self.room.take_refused() {
            return wishes.push(MasterEffect::Env(self.append_effect(now, append)));
        }
        let (id, job) = self.disk_effect(LOG_LANE, LogJob::TakeRoom);
        self.room.ask(id);
        wishes.push(MasterEffect::Env(job));
    }

    fn append_effect(&mut self, now: Now, append: Append) -> Effect<LogJob> {
        let (id, effect) = self.disk_effect(LOG_LANE, LogJob::Append(append.records.clone()));
        self.appending.begin(now.time, (id, append));
        effect
    }

    fn on_checkpoint(&mut self, now: Now, result: LogResult, wishes: &mut Vec<MasterEffect>) {
        match result {
            Ok(LogDone::Checkpointed(Checkpointed { size, page_file, to_adopt, .. })) => {
                let (index, term) = self.pace.last();
                self.gauges.has_checkpoint(now.time, index);
                self.group.consensus_mut().has_checkpoint(index, term);
                wishes.extend(self.pace.made(size).into_iter().map(MasterEffect::Env));
                self.warn(None);
                if let Some(before) = to_adopt.and_then(|(it, file)| self.role.adopt(&it, file)) {
                    self.page_file = Some(page_file);
                    let (_, free) = self.disk_effect(CHECKPOINT_LANE, LogJob::Free(before.into()));
                    wishes.push(MasterEffect::Env(free));
                }
            }
            Ok(LogDone::Damaged(damaged)) => self.damaged(damaged, wishes),
            Ok(_) => {}
            Err(DiskError::SyncFailed(why)) => self.halt(NO_CHECKPOINT, &why, wishes),
            Err(error) => {
                wishes.extend(self.pace.failed(&error).into_iter().map(MasterEffect::Env));
                self.warn(Some(format!("checkpoint: {error}")));
            }
        }
    }

    fn warn(&mut self, warning: Option<String>) {
        self.warning.clone_from(&warning);
        self.role.with_core(|core| core.set_warning(warning));
    }

    /// Marks the checkpoints with this page, and stops when that is done (D4). A checkpoint that
    /// is not adopted yet may be in another page file, and have no damage.
    fn damaged(&mut self, damaged: Damaged, wishes: &mut Vec<MasterEffect>) {
        let page_file = self.page_file.expect("a state that reads no file meets no damage");
        let (id, job) =
            self.disk_effect(CHECKPOINT_LANE, LogJob::MarkDamaged { page_file, damaged });
        wishes.push(MasterEffect::Env(job));
        self.mark.set(id, damaged);
    }

    /// Stops the process (D3).
    fn halt(&mut self, what: &str, why: &dyn Display, wishes: &mut Vec<MasterEffect>) {
        self.halted = true;
        wishes.push(MasterEffect::Env(Effect::Halt(format!("{what}: {why}"))));
    }

    /// Proposes what is wished and applies what is committed, until nothing more can be done now,
    /// or this turn has done its piece (D8).
    fn drive(
        &mut self,
        now: Now,
        wishes: &mut Vec<MasterEffect>,
        effects: &mut Vec<Effect<LogJob>>,
    ) -> Result<(), ConsensusError> {
        loop {
            let changed = self.look_at_role(now, wishes);
            let level = self.group.record_level();
            self.role.with_core(|core| core.raise_level(now, level, wishes));
            if let Role::Primary(primary) = &mut self.role
                && primary.holds()
                && self.is_confirmed(now)
            {
                self.role.primary().take_held(now, wishes);
            }
            for wish in wishes.drain(..) {
                match wish {
                    MasterEffect::Env(effect) => {
                        if let (Effect::Reply { to, answer, .. }, Role::Primary(primary)) =
                            (&effect, &mut self.role)
                        {
                            self.busiest.answered(answer);
                            primary.answered(*to);
                        }
                        effects.push(effect);
                    }
                    MasterEffect::Propose(id, record) => {
                        let index = self.group.consensus_mut().propose(record.to_bytes())?;
                        self.role.primary().proposed(index, (id, record));
                    }
                }
            }
            self.backlog.add(self.group.consensus_mut().committed()?);
            let mut next = self.backlog.take();
            if next.is_none() && !changed {
                return Ok(());
            }
            while let Some(one) = next {
                next = self.backlog.take();
                match self.role.apply(now, &one, wishes) {
                    Ok(Some(file)) => {
                        let told = self.group.grown(now, self.role.state(), file);
                        wishes.extend(told.map(MasterEffect::Env));
                    }
                    Ok(None) => {}
                    Err(undecodable) => self.halt(STUCK, &undecodable, wishes),
                }
            }
        }
    }

    /// Does what is wished, and what follows from that; or stops (D3, D4).
    fn move_on(
        &mut self,
        now: Now,
        mut wishes: Vec<MasterEffect>,
        effects: &mut Vec<Effect<LogJob>>,
    ) {
        let before = effects.len();
        if let Err(error) = self.drive(now, &mut wishes, effects) {
            self.halt(STUCK, &error, &mut wishes);
        }
        if !self.mark.is_set()
            && let Some(damaged) = self.role.state().damage()
        {
            effects.truncate(before);
            wishes.clear();
            self.damaged(damaged, &mut wishes);
        }
        for wish in wishes {
            if let MasterEffect::Env(effect) = wish {
                effects.push(effect);
            }
        }
    }

    fn append(
        &mut self,
        now: Now,
        effects: &mut Vec<Effect<LogJob>>,
    ) -> Result<(), ConsensusError> {
        if self.appending.is_under_way() || self.room.holds_back() {
            return Ok(());
        }
        let Some(LogBatch { number, records }) = self.group.consensus_mut().take()? else {
            return Ok(());
        };
        self.pace.log(records.iter().map(|(_, record)| record.len() as u64).sum());
        effects.push(self.append_effect(now, Append { number, records }));
        if broken(Rule::R23) {
            // R23 broken: what the disk has only been asked for counts as durable.
            self.group.consensus_mut().durable(now.time, number)?;
        }
        Ok(())
    }

    fn checkpoint_if_due(&mut self, now: Time, effects: &mut Vec<Effect<LogJob>>) {
        let state = self.role.state();
        let as_of = (state.applied(), state.applied_term());
        let consensus = self.group.consensus();
        // A wish stands until it can be followed.
        let may_be = consensus.remembers_members() && !self.pace.is_under_way();
        let is_wished = may_be && (self.room.take_checkpoint_wish() | consensus.lacks_checkpoint());
        if !may_be || !self.pace.is_due(now, &self.config, (as_of.0, is_wished)) {
            return;
        }
        let snapshot = LogJob::Checkpoint(state.clone().into());
        let (id, job) = self.disk_effect(CHECKPOINT_LANE, snapshot);
        effects.push(job);
        self.pace.begin(now, id, as_of);
    }

    fn fresh(&mut self) -> EffectId {
        self.last_effect += 1;
        EffectId(self.last_effect)
    }

    fn disk_effect(&mut self, lane: Lane, job: LogJob) -> (EffectId, Effect<LogJob>) {
        let id = self.fresh();
        (id, Effect::Disk { id, lane, job })
    }
}

impl Driver for Master {
    type Service = MasterDisk;
    type Command = ();

    fn handle(&mut self, now: Now, event: Event<(), LogResult>, effects: &mut Vec<Effect<LogJob>>) {
        if self.mark.is_set() {
            let end = self.mark.on_marked(&event);
            self.halted |= end.is_some();
            effects.extend(end);
            return;
        } else if self.halted {
            return;
        }
        let mut wishes = Vec::new();
        if let Err(error) = self.on_event(now, event, &mut wishes) {
            self.halt(STUCK, &error, &mut wishes);
        }
        self.move_on(now, wishes, effects);
    }

    fn end_of_batch(&mut self, now: Now, effects: &mut Vec<Effect<LogJob>>) {
        if self.mark.is_set() || self.halted {
            return;
        }
        let mut wishes = Vec::new();
        if let Err(error) = self.append(now, effects) {
            self.halt(STUCK, &error, &mut wishes);
        }
        if let Some(offer) = self.group.consensus_mut().take_offer() {
            let step = self.fetch.offer(offer);
            if let Err(error) = self.go_on_fetching(now, step, &mut wishes) {
                self.halt(STUCK, &error, &mut wishes);
            }
        }
        let silence = Duration::from_millis(self.role.state().config().silent_ms);
        if let Some(why) = self.group.end(now.time, silence).filter(|_| !self.halted) {
            self.halted = true;
            wishes.push(MasterEffect::Env(Effect::Halt(why.to_owned())));
        }
        self.move_on(now, wishes, effects);
        if self.backlog.end_turn() {
            let id = self.fresh();
            self.backlog.asked(id);
            effects.push(Effect::Wake { id, at: now.time });
        }
        if !self.mark.is_set() && !self.halted {
            self.checkpoint_if_due(now.time, effects);
            let last = &mut self.last_effect;
            let fresh = || {
                *last += 1;
                EffectId(*last)
            };
            match self.group.talk(now, &self.role, fresh) {
                Ok(said) => effects.extend(said),
                Err(error) => {
                    let mut wishes = Vec::new();
                    self.halt(STUCK, &error, &mut wishes);
                    self.move_on(now, wishes, effects);
                }
            }
            self.gauges.stand(&MasterStanding::of(self.group.consensus(), &self.role));
        }
    }
}
