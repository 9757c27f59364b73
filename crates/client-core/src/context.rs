//! What every task may use: time, settings, caches, the way out.
//!
//! The numbers of calls grow for ever, so they also tell which of two questions is the younger.

use crate::driver::NoJob;
use crate::file_state::FileState;
use crate::locations::Locations;
use crate::mutation_window::MutationWindow;
use crate::settings::ClientSettings;
use crate::shared_asks::{Want, Wanted};
use crate::task::{Me, OperationId, TaskId};
use crate::timers::Timers;
use crate::write_order::WriteOrder;
use bytes::Bytes;
use cairn_env::{Effect, EffectId};
use cairn_protocol::{LeasePurpose, ReportBadBlock, Request};
use cairn_types::{
    Address, CellConfig, ChunkIndex, EntryId, MutationNumber, PushId, Random, ServerId, SessionId,
    Time,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Files that are remembered without being in use.
const FILES_MAX: usize = 4096;

/// What an alarm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    Task(TaskId),
    Deadline(OperationId),
    Pause(OperationId),
}

/// Everything that tasks share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) now: Time,
    pub(crate) settings: ClientSettings,
    /// The cell's, once a master has told them.
    pub(crate) config: Option<CellConfig>,
    pub(crate) random: Random,
    pub(crate) wants: VecDeque<Wanted>,
    pub(crate) write_order: WriteOrder,
    pub(crate) timers: Timers<Alarm>,
    pub(crate) effects: Vec<Effect<NoJob>>,
    files: BTreeMap<EntryId, Box<FileState>>,
    calls: BTreeMap<EffectId, TaskId>,
    pub(crate) session: SessionId,
    master: usize,
    next_effect: u64,
    next_push: MutationNumber,
    pub(crate) mutations: MutationWindow,
}

impl Context {
    pub(crate) fn new(settings: ClientSettings) -> Self {
        let fold = (settings.seed >> 64) as u64 ^ settings.seed as u64;
        Self {
            now: Time::default(),
            config: None,
            random: Random::new(fold),
            wants: VecDeque::new(),
            write_order: WriteOrder::default(),
            timers: Timers::default(),
            effects: Vec::new(),
            files: BTreeMap::new(),
            calls: BTreeMap::new(),
            session: SessionId::new(settings.seed),
            master: 0,
            next_effect: 0,
            next_push: MutationNumber::default(),
            mutations: MutationWindow::default(),
            settings,
        }
    }

    /// The cell's settings. Tasks that need them begin only once they are known.
    pub(crate) fn cell(&self) -> &CellConfig {
        self.config.as_ref().expect("an operation on a file begins once the settings are known")
    }

    /// What is kept of a file; from now on something is.
    pub(crate) fn file(&mut self, file: EntryId) -> &mut FileState {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&file) {
            let idle = self.files.iter().find(|(_, state)| state.is_idle()).map(|(id, _)| *id);
            if let Some(idle) = idle {
                self.files.remove(&idle);
            }
        }
        self.files.entry(file).or_default()
    }

    /// A file is opened: what was known of its locations no longer counts (§2.7.1).
    pub(crate) fn opened(&mut self, file: EntryId) -> &mut FileState {
        let state = self.file(file);
        state.locations = Locations::default();
        state.opens += 1;
        state
    }

    /// A file is closed; after the last time nothing is kept of it.
    pub(crate) fn closed(&mut self, file: EntryId) {
        if let Some(state) = self.files.get_mut(&file) {
            state.opens = state.opens.saturating_sub(1);
            if state.opens == 0 {
                self.files.remove(&file);
            }
        }
    }

    /// The number of the last call: what is asked later has a higher one.
    pub(crate) fn last_call(&self) -> u64 {
        self.next_effect
    }

    pub(crate) fn effect_id(&mut self) -> EffectId {
        self.next_effect += 1;
        EffectId(self.next_effect)
    }

    /// Asks a chunkserver.
    pub(crate) fn call(
        &mut self,
        me: Me,
        to: (Address, ServerId),
        request: impl Into<Request>,
        payload: Bytes,
        patience: Duration,
    ) -> EffectId {
        let id = self.effect_id();
        self.calls.insert(id, me.id);
        let deadline = me.deadline.min(self.now + patience);
        let (to, server) = to;
        let request = request.into();
        self.effects.push(Effect::Call { id, to, server, request, payload, deadline });
        id
    }

    /// Asks the master that answered last.
    pub(crate) fn call_master(&mut self, me: Me, request: Request, patience: Duration) -> EffectId {
        let to = self.master_address();
        self.call(me, (to, ServerId::default()), request, Bytes::new(), patience)
    }

    fn master_address(&self) -> Address {
        self.settings.masters.get(self.master).cloned().unwrap_or_default()
    }

    /// The master asked last does not answer, or is not the primary master.
    pub(crate) fn next_master(&mut self) {
        self.master = (self.master + 1) % self.settings.masters.len().max(1);
    }

    /// Tells the master of bytes that fail their checksum (R31); nobody waits for the answer.
    pub(crate) fn report_bad_block(&mut self, report: ReportBadBlock) {
        let id = self.effect_id();
        self.effects.push(Effect::Call {
            id,
            to: self.master_address(),
            server: ServerId::default(),
            request: report.into(),
            payload: Bytes::new(),
            deadline: self.now + self.patience(),
        });
    }

    /// Whose call this was; each completes once (E1).
    pub(crate) fn take_call(&mut self, id: EffectId) -> Option<TaskId> {
        self.calls.remove(&id)
    }

    pub(crate) fn alarm(&mut self, me: Me, after: Duration) {
        let at = self.now + after;
        self.timers.set(at, Alarm::Task(me.id));
    }

    /// Wants to know where a chunk lies, by a question younger than `newer_than`.
    pub(crate) fn want_location(
        &mut self,
        me: Me,
        file: EntryId,
        index: ChunkIndex,
        newer_than: u64,
    ) {
        let want = Want::Location { file, index };
        let (waiter, deadline) = (Some(me.id), me.deadline);
        self.wants.push_back(Wanted { want, newer_than, waiter, deadline });
    }

    /// Would like to know where the chunks from `index` on lie; nobody waits for it (A7).
    pub(crate) fn prefetch(&mut self, me: Me, file: EntryId, index: ChunkIndex) {
        let want = Want::Location { file, index };
        self.wants.push_back(Wanted { want, newer_than: 0, waiter: None, deadline: me.deadline });
    }

    /// Wants a lease on a chunk; `failed`: a primary that did not do, and under which version.
    pub(crate) fn want_grant(
        &mut self,
        me: Me,
        file: EntryId,
        index: ChunkIndex,
        purpose: LeasePurpose,
        failed: Option<(ServerId, cairn_types::ChunkVersion)>,
    ) {
        let want = Want::Grant { file, index, purpose, failed };
        let (waiter, deadline) = (Some(me.id), me.deadline);
        self.wants.push_back(Wanted { want, newer_than: 0, waiter, deadline });
    }

    pub(crate) fn next_push(&mut self) -> PushId {
        self.next_push = self.next_push.next();
        PushId { session: self.session, number: self.next_push }
    }

    pub(crate) fn rest(&mut self, attempt: u32) -> Duration {
        crate::retry::rest(attempt, &mut self.random)
    }

    /// How long a chunkserver's answer is waited for: half a lease, so that the master still can
    /// act within one, but never less than half a second or more than five.
    pub(crate) fn patience(&self) -> Duration {
        let lease_ms = self.config.as_ref().map_or(10_000, |config| config.lease_ms);
        Duration::from_millis((lease_ms / 2).clamp(500, 5_000))
    }
}
