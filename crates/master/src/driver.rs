//! The driver: core, consensus and log, one event at a time.
//!
//! - D1: an answer that depends on a record leaves after the record is durable, committed and
//!   applied (R23).
//! - D2: one append is on its way at a time, taken when a turn ends; what is proposed meanwhile
//!   goes with the next one, so that one flush serves all who came together (group commit, §2.6.3).
//! - D3: when an append fails the process stops: what is on disk is not known.
//! - D4: when the state meets a damaged page, nothing of the event that met it leaves. The
//!   checkpoint is marked, durably, and the process stops; the next one takes another checkpoint.
//! - D5: while the disk has no room for the log, changes wait or are refused, and look-ups go on
//!   (`log_room`).

use crate::log_room::{Append, LogRoom, ROOM_PAUSE};
use crate::master_disk::{CHECKPOINT_LANE, LOG_LANE, MasterDisk};
use crate::open::MasterConfig;
use crate::recovery::TakenFrom;
use cairn_consensus::{CommittedRecord, Consensus, ConsensusError, LogBatch};
use cairn_env::{
    Completion, DiskError, Driver, Effect, EffectId, Event, Lane, LogEvent, Now, Resources,
};
use cairn_master_core::{
    Checkpointed, LogDone, LogJob, LogResult, MasterCore, MasterEffect, MasterOutbox, ProposalId,
    Record, State,
};
use cairn_pagetree::Damaged;
use cairn_protocol::{Hello, Request};
use cairn_types::planted::{Rule, broken};
use cairn_types::{LogIndex, Term, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A record pays for so many bytes of the next checkpoint: where changes are scattered over many
/// pages, checkpoints come later rather than fill the disk's time.
const CHECKPOINT_BYTES_PER_RECORD: u64 = 4096;

/// A flush of the operation log that takes longer is told of.
const SLOW_FLUSH: Duration = Duration::from_secs(1);

/// A checkpoint is made when so much of the bytes that the log may have came since the last one.
const CHECKPOINT_LOG_SHARE: u64 = 4;

/// A master as the worlds drive it.
#[derive(Debug)]
pub struct Master {
    core: MasterCore,
    consensus: Consensus,
    config: MasterConfig,
    hello: Hello,
    /// What each record on its way is, and who proposed it.
    proposed: BTreeMap<LogIndex, (ProposalId, Record)>,
    /// The append on its way (D2), and since when.
    appending: Option<(EffectId, Append)>,
    appending_since: Time,
    room: LogRoom,
    checkpointing: Option<EffectId>,
    /// The last checkpoint made or tried.
    last_checkpoint: LogIndex,
    /// Bytes of records since then.
    logged: u64,
    /// The number of the page file that the state reads from.
    page_file: Option<u64>,
    /// Bytes that the last checkpoint wrote.
    checkpoint_size: u64,
    last_effect: u64,
    /// What recovery found, to be told when it starts.
    pub(crate) told: Vec<LogEvent>,
    /// The checkpoint is being marked for this damage (D4).
    marking: Option<(EffectId, Damaged)>,
    halted: bool,
    /// Who measures what the process takes.
    resources: Option<Arc<dyn Resources>>,
}

impl Master {
    pub(crate) fn new(
        core: MasterCore,
        consensus: Consensus,
        config: MasterConfig,
        hello: Hello,
        from: TakenFrom,
    ) -> Self {
        Self {
            core,
            consensus,
            config,
            hello,
            proposed: BTreeMap::new(),
            appending: None,
            appending_since: Time::default(),
            room: LogRoom::default(),
            checkpointing: None,
            last_checkpoint: from.index,
            logged: 0,
            page_file: from.page_file,
            checkpoint_size: 0,
            last_effect: MasterOutbox::DRIVER_EFFECTS,
            told: Vec::new(),
            marking: None,
            halted: false,
            resources: None,
        }
    }

    /// The durable state as applied; for checkers and tests.
    #[must_use]
    pub fn state(&self) -> &State {
        self.core.state()
    }

    /// From now on it can say what the process takes.
    pub fn measure(&mut self, resources: Arc<dyn Resources>) {
        self.resources = Some(resources);
    }

    /// This term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.core.term()
    }

    fn on_event(&mut self, now: Now, event: Event<(), LogResult>, wishes: &mut Vec<MasterEffect>) {
        match event {
            Event::Started => {
                let told = self.told.drain(..).map(|event| MasterEffect::Env(Effect::Log(event)));
                wishes.extend(told);
                wishes.push(MasterEffect::Env(Effect::Identify(self.hello.clone())));
                let founding = (self.hello.cell, self.config.cluster.clone());
                self.core.begin(now, founding, wishes);
            }
            Event::Completed { id, result: Completion::Disk(result) } => {
                self.on_disk(now, id, result, wishes);
            }
            Event::Completed { id, result: Completion::Woken } if self.room.was_asked(id) => {
                self.look_for_room(now, wishes);
            }
            other => {
                if let (Event::Request { request: Request::Resources(_), .. }, Some(meter)) =
                    (&other, &self.resources)
                {
                    self.core.set_resources(meter.told());
                }
                self.core.step(now, other, wishes);
            }
        }
    }

    fn on_disk(
        &mut self,
        now: Now,
        id: EffectId,
        result: LogResult,
        wishes: &mut Vec<MasterEffect>,
    ) {
        if self.checkpointing == Some(id) {
            self.checkpointing = None;
            self.on_checkpoint(result, wishes);
        } else if let Some((_, append)) = self.appending.take_if(|(effect, _)| *effect == id) {
            self.tell_if_slow(now, wishes);
            let has_room = matches!(result, Ok(LogDone::Appended { has_room: true }));
            let durable = match result {
                Ok(_) => self
                    .consensus
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
                Err(reason) => self.halt(&reason, wishes),
            }
        } else if self.room.was_asked(id) {
            match result {
                Err(DiskError::SyncFailed(why)) => self.halt(&why.to_string(), wishes),
                told => self.set_room(now, matches!(told, Ok(LogDone::Room(true))), wishes),
            }
        }
    }

    /// Changes wait for as long as a flush takes: a disk that is slow is told of.
    fn tell_if_slow(&mut self, now: Now, wishes: &mut Vec<MasterEffect>) {
        let took = now.time.since(self.appending_since);
        if took >= SLOW_FLUSH {
            let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let event = LogEvent::warn("slow flush").with_number("took_ms", took);
            wishes.push(MasterEffect::Env(Effect::Log(event)));
        }
    }

    /// Whether the log has the room that it needs next (D5).
    fn set_room(&mut self, now: Now, has_room: bool, wishes: &mut Vec<MasterEffect>) {
        if self.room.set_full(!has_room) {
            self.core.set_full(!has_room);
            let event = if has_room {
                LogEvent::info("room for the operation log again")
            } else {
                LogEvent::error("no room for the operation log").with("what", "changes are refused")
            };
            wishes.push(MasterEffect::Env(Effect::Log(event)));
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
            self.appending_since = now.time;
            return wishes.push(MasterEffect::Env(self.append_effect(append)));
        }
        let (id, job) = self.disk_effect(LOG_LANE, LogJob::TakeRoom);
        self.room.ask(id);
        wishes.push(MasterEffect::Env(job));
    }

    fn append_effect(&mut self, append: Append) -> Effect<LogJob> {
        let (id, effect) = self.disk_effect(LOG_LANE, LogJob::Append(append.records.clone()));
        self.appending = Some((id, append));
        effect
    }

    fn on_checkpoint(&mut self, result: LogResult, wishes: &mut Vec<MasterEffect>) {
        match result {
            Ok(LogDone::Checkpointed(Checkpointed { size, page_file, to_adopt, .. })) => {
                self.checkpoint_size = size;
                let event = LogEvent::info("checkpoint")
                    .with_number("index", self.last_checkpoint.get())
                    .with_number("bytes", size);
                wishes.push(MasterEffect::Env(Effect::Log(event)));
                self.core.set_warning(None);
                let before = to_adopt.and_then(|(pages, file)| self.core.adopt(&pages, file));
                if let Some(before) = before {
                    self.page_file = Some(page_file);
                    let (_, free) = self.disk_effect(CHECKPOINT_LANE, LogJob::Free(before.into()));
                    wishes.push(MasterEffect::Env(free));
                }
            }
            Ok(LogDone::Damaged(damaged)) => self.damaged(damaged, wishes),
            Ok(_) => {}
            Err(DiskError::SyncFailed(why)) => self.halt(&why.to_string(), wishes),
            Err(error) => {
                let event = LogEvent::error("checkpoint failed").with("why", &error);
                wishes.push(MasterEffect::Env(Effect::Log(event)));
                self.core.set_warning(Some(format!("checkpoint: {error}")));
            }
        }
    }

    /// Marks the checkpoints with this page, and stops when that is done (D4). A checkpoint that
    /// is not adopted yet may be in another page file, and have no damage.
    fn damaged(&mut self, damaged: Damaged, wishes: &mut Vec<MasterEffect>) {
        let page_file = self.page_file.expect("a state that reads no file meets no damage");
        let mark = LogJob::MarkDamaged { page_file, damaged };
        let (id, mark) = self.disk_effect(CHECKPOINT_LANE, mark);
        wishes.push(MasterEffect::Env(mark));
        self.marking = Some((id, damaged));
    }

    /// Nothing is done any more but to stop, once the checkpoint is marked (D4).
    fn on_marked(&mut self, event: &Event<(), LogResult>) -> Option<Effect<LogJob>> {
        let (marking, damaged) = self.marking?;
        let Event::Completed { id, result: Completion::Disk(result) } = event else { return None };
        if *id != marking {
            return None;
        }
        self.halted = true;
        let next = match result {
            Ok(_) => "it will not be read again; start the master again, and it takes one before"
                .to_owned(),
            Err(error) => format!("it could not be set aside: {error}"),
        };
        Some(Effect::Halt(format!("the checkpoint in use is damaged: {damaged}; {next}")))
    }

    /// Stops the process (D3).
    fn halt(&mut self, reason: &str, wishes: &mut Vec<MasterEffect>) {
        self.halted = true;
        let line = format!("the operation log can no longer be trusted: {reason}");
        wishes.push(MasterEffect::Env(Effect::Halt(line)));
    }

    /// Proposes what is wished and applies what is committed, until nothing more can be done now.
    fn drive(
        &mut self,
        now: Now,
        wishes: &mut Vec<MasterEffect>,
        effects: &mut Vec<Effect<LogJob>>,
    ) -> Result<(), ConsensusError> {
        loop {
            for wish in wishes.drain(..) {
                match wish {
                    MasterEffect::Env(effect) => effects.push(effect),
                    MasterEffect::Propose(id, record) => {
                        let index = self.consensus.propose(record.to_bytes())?;
                        self.proposed.insert(index, (id, record));
                    }
                }
            }
            let committed = self.consensus.committed()?;
            if committed.is_empty() {
                return Ok(());
            }
            for one in committed {
                self.apply(now, one, wishes);
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
            self.halt(&error.to_string(), &mut wishes);
        }
        if self.marking.is_none()
            && let Some(damaged) = self.core.state().damage()
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
        if self.appending.is_some() || self.room.holds_back() {
            return Ok(());
        }
        let Some(LogBatch { number, records }) = self.consensus.take()? else { return Ok(()) };
        self.appending_since = now.time;
        self.logged += records.iter().map(|(_, record)| record.len() as u64).sum::<u64>();
        effects.push(self.append_effect(Append { number, records }));
        if broken(Rule::R23) {
            // R23 broken: what the disk has only been asked for counts as durable.
            self.consensus.durable(now.time, number)?;
        }
        Ok(())
    }

    fn apply(&mut self, now: Now, committed: CommittedRecord, wishes: &mut Vec<MasterEffect>) {
        let at = (committed.index, committed.term);
        match self.proposed.remove(&committed.index) {
            Some((id, record)) => self.core.applied(now, at, id, &record, wishes),
            None => {
                // Every record since the start was proposed here; the library's own are empty.
                assert!(committed.data.is_empty(), "a record that nobody proposed");
                self.core.skip(committed.index, committed.term);
            }
        }
    }

    fn checkpoint_if_due(&mut self, effects: &mut Vec<Effect<LogJob>>) {
        let index = self.core.state().applied();
        let paid = self.checkpoint_size / CHECKPOINT_BYTES_PER_RECORD;
        let due = self.config.checkpoint_every_records.max(paid);
        let due_at = self.last_checkpoint.get().saturating_add(due);
        if self.checkpointing.is_some() {
            return;
        }
        let is_wished = self.room.take_checkpoint_wish() && index > self.last_checkpoint;
        let is_long = self.logged >= self.config.log_size_max / CHECKPOINT_LOG_SHARE;
        let is_by_size = is_long && self.config.checkpoint_every_records < u64::MAX;
        if index.get() < due_at && !is_wished && !is_by_size {
            return;
        }
        self.logged = 0;
        self.last_checkpoint = index;
        let snapshot = LogJob::Checkpoint(self.core.state().clone().into());
        let (id, job) = self.disk_effect(CHECKPOINT_LANE, snapshot);
        effects.push(job);
        self.checkpointing = Some(id);
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
        if self.marking.is_some() {
            effects.extend(self.on_marked(&event));
            return;
        }
        if self.halted {
            return;
        }
        let mut wishes = Vec::new();
        self.on_event(now, event, &mut wishes);
        self.move_on(now, wishes, effects);
    }

    fn end_of_batch(&mut self, now: Now, effects: &mut Vec<Effect<LogJob>>) {
        if self.marking.is_some() || self.halted {
            return;
        }
        let mut wishes = Vec::new();
        if let Err(error) = self.append(now, effects) {
            self.halt(&error.to_string(), &mut wishes);
        }
        self.move_on(now, wishes, effects);
        if self.marking.is_none() && !self.halted {
            self.checkpoint_if_due(effects);
        }
    }
}
