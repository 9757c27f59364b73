//! The master's one entrance: events in, effects out (design §2).
//!
//! ```text
//!   request ──► reads      answered at once from applied state
//!           ├─► mutations  path locks ─► record ─► applied ─► answer
//!           └─► chunks     leases, raises, servers (soft state)
//! ```
//! - M1: no request is taken before a record of this term is applied (R23).
//! - M2: the answer to a mutation leaves when its record is applied (R23).
//! - M3: within a term, wall time goes on as the boot-time clock does: setting the wall clock
//!   changes nothing (R4).

mod debug_events;
mod for_snapshots;
mod for_streams;

use crate::applied::Applied;
use crate::batch_looks::BatchLooks;
use crate::callers::Callers;
use crate::chunks::Chunks;
use crate::log_jobs::LogResult;
use crate::moves::MoveRequest;
use crate::mutations::Mutations;
use crate::name_mutation::NameMutation;
use crate::numbers::TermNumbers;
use crate::outbox::{MasterEffect, MasterOutbox, ProposalId};
use crate::permissions::Asker;
use crate::policy_of::policy_of;
use crate::policy_work::PolicyWork;
use crate::quota_of::quota_of;
use crate::reads;
use crate::reclaim::Reclaim;
use crate::record::{Begin, FoundCell, RaiseLevel, Record};
use crate::room::{LogSpace, NO_ROOM};
use crate::rules::{behind, degraded};
use crate::setting_changes::SettingChanges;
use crate::snapshot_work::SnapshotWork;
use crate::state::State;
use crate::step::Step;
use crate::streams::StreamWork;
use crate::view::View;
use cairn_env::{Caller, Completion, EffectId, Event, Now};
use cairn_pagetree::{Backing, FileId};
use cairn_protocol::{
    Balance, Batch, BatchEntry, CancelJob, CellInfoAnswer, ChangeSettings, ClientToMaster,
    Directed, Drain, ErrorCode, Failure, FindPrimaryAnswer, ForgetServer, ListJobsAnswer,
    MasterRole, ReasonCode, ReportBadBlockAnswer, Request, ResourceUse, Response,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellConfig, CellId, ChunkHandle, LogIndex, Random, ReignId, Term, WallTime};
use std::sync::Arc;

/// Whether a record of the log may come of it; changes of names look for room themselves (MU3).
fn is_change(request: &ClientToMaster) -> bool {
    matches!(
        request,
        ClientToMaster::Lease(_)
            | ClientToMaster::ForgetServer(_)
            | ClientToMaster::ChangeSettings(_)
            | ClientToMaster::LetGoOfLost(_)
            | ClientToMaster::Drain(Drain { dry_run: false, .. })
            | ClientToMaster::Undrain(_)
            | ClientToMaster::Balance(Balance { dry_run: false, .. })
            | ClientToMaster::Recover(_)
            | ClientToMaster::CancelJob(_)
            | ClientToMaster::RecordLength(_)
    )
}

/// Whether it is to change names, or any of a batch is.
fn changes_names(request: &ClientToMaster) -> bool {
    let is_look = |entry: &BatchEntry| entry.as_stat().is_some() || entry.as_open().is_some();
    match request {
        ClientToMaster::MakeDirectory(_)
        | ClientToMaster::Create(_)
        | ClientToMaster::Rename(_)
        | ClientToMaster::Delete(_)
        | ClientToMaster::Undelete(_)
        | ClientToMaster::SetPolicy(_)
        | ClientToMaster::SetQuota(_)
        | ClientToMaster::Snapshot(_)
        | ClientToMaster::SetAttributes(_) => true,
        ClientToMaster::Batch(batch) => !batch.entries.iter().all(is_look),
        _ => false,
    }
}

/// The primary master of one term.
#[derive(Debug)]
pub struct MasterCore {
    state: State,
    term: Term,
    /// When the term began.
    began: Now,
    /// A record of this term is applied (M1).
    serving: bool,
    numbers: TermNumbers,
    random: Random,
    callers: Callers,
    mutations: Mutations,
    chunks: Chunks,
    reclaim: Reclaim,
    policy_work: PolicyWork,
    setting_changes: SettingChanges,
    snapshots: SnapshotWork,
    streams: StreamWork,
    /// Of the driver, for a person.
    warning: Option<String>,
    /// This term begins a history (R3).
    begins_history: bool,
    /// The record level that the log is being raised to, or has.
    level_asked: u32,
    /// What this process takes, as the driver told last.
    resources: ResourceUse,
    /// Without room in the log what would go into it is refused; look-ups are answered.
    log_space: LogSpace,
    out: MasterOutbox,
}

impl MasterCore {
    /// The master of term `term` over `state`; `seed` feeds its choices.
    #[must_use]
    pub fn new(state: State, term: Term, seed: u64) -> Self {
        Self {
            state,
            term,
            began: Now::default(),
            serving: false,
            numbers: TermNumbers::new(term),
            random: Random::new(seed),
            callers: Callers::default(),
            mutations: Mutations::default(),
            chunks: Chunks::new(term),
            reclaim: Reclaim::default(),
            policy_work: PolicyWork::default(),
            setting_changes: SettingChanges::default(),
            snapshots: SnapshotWork::default(),
            streams: StreamWork::default(),
            warning: None,
            begins_history: false,
            level_asked: 0,
            resources: ResourceUse::default(),
            log_space: LogSpace::Enough,
            out: MasterOutbox::default(),
        }
    }

    /// With this term a history begins: whatever earlier terms logged that is not here is lost, a
    /// person says so (R3).
    pub fn begin_history(&mut self) {
        assert!(!self.serving, "a history begins with a term");
        self.begins_history = true;
    }

    /// Who is connected already, when the term begins.
    pub fn know_callers(&mut self, callers: Callers) {
        self.callers = callers;
    }

    /// Its effects are numbered on from `last`: what was asked by the core of an earlier term, and
    /// comes back in this one, is not taken for its own.
    pub fn number_effects_after(&mut self, last: EffectId) {
        self.out.number_after(last);
    }

    /// The last effect that it numbered.
    #[must_use]
    pub fn last_effect(&self) -> EffectId {
        self.out.last_effect()
    }

    /// The term is over for this master: what is left of it is the state as applied.
    #[must_use]
    pub fn into_state(self) -> State {
        self.state
    }

    /// The durable state as applied.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// This term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// Begins the term, and founds the cell where there is none: `founding` is the id and the
    /// settings that it would get.
    pub fn begin(
        &mut self,
        now: Now,
        founding: (CellId, CellConfig),
        effects: &mut Vec<MasterEffect>,
    ) {
        assert!(!self.serving, "a term begins once");
        self.began = now;
        if self.state.cell().is_none() {
            let (cell, config) = founding;
            self.out.propose(FoundCell { time: now.wall, cell, config });
        }
        let reign = ReignId::new(self.random.next_u64().max(1));
        self.chunks.reign(reign);
        let new_history = self.begins_history;
        self.out.propose(Begin { time: now.wall, term: self.term, reign, new_history });
        effects.extend(self.out.drain());
    }

    /// Takes one event.
    pub fn step(&mut self, now: Now, event: Event<(), LogResult>, effects: &mut Vec<MasterEffect>) {
        let now = self.steady(now);
        self.chunks.wake(now.time);
        match event {
            Event::Request { from, request } => self.on_request(now, from, request),
            Event::Completed { id, result: Completion::Answered(result) } => {
                let result = result.map(|answer| answer.response);
                let (mut step, _, chunks) = self.parts(now);
                chunks.on_answer(&mut step, id, result);
                self.with_streams(now, StreamWork::go_on);
            }
            Event::Completed { id, result: Completion::Woken } => {
                let view = self.chunks.view(now, &self.state);
                let made = view.underway.lowest_made();
                let floor = made.unwrap_or_else(|| self.numbers.next_handle());
                let takes_changes = !self.log_space.is_none() && behind::refusal(&view).is_none();
                let floor = takes_changes.then_some(floor);
                let (state, out) = (&self.state, &mut self.out);
                let (numbers, random) = (&mut self.numbers, &mut self.random);
                let mut step = Step { now, state, numbers, random, out };
                if !self.reclaim.on_wake(&mut step, id, floor)
                    && !self.policy_work.on_wake(&mut step, id, takes_changes)
                {
                    self.chunks.on_wake(&mut step, id);
                    self.with_streams(now, StreamWork::on_tick);
                }
            }
            // Disk jobs are the driver's own; the world drops what is answered to a lost caller.
            Event::Identified { connection, credentials } => {
                self.callers.identified(connection, &credentials);
            }
            Event::Disconnected { connection } => self.callers.disconnected(connection),
            Event::Completed { result: Completion::Disk(_), .. }
            | Event::Started
            | Event::Command(()) => {}
        }
        self.go_on_with_snapshots(now);
        effects.extend(self.out.drain());
    }

    /// A record is committed: applies it, and answers whoever waited for it (M2).
    pub fn applied(
        &mut self,
        now: Now,
        (index, term): (LogIndex, Term),
        proposal: ProposalId,
        record: &Record,
        effects: &mut Vec<MasterEffect>,
    ) {
        let now = self.steady(now);
        let applied = self.state.apply(index, term, record);
        assert!(self.state.term() <= self.term, "a term that has passed applies no more (R2)");
        let begins = !self.serving && self.state.term() == self.term;
        self.serving |= begins;
        let (mut step, mutations, chunks) = self.parts(now);
        if begins {
            chunks.on_term_begins(&mut step);
            mutations.on_term_begins(&step);
        }
        mutations.on_applied(&mut step, proposal, &applied);
        if !matches!(applied, Applied::Failed(_)) {
            chunks.note_logged(&mut step, record);
        }
        chunks.on_applied(&mut step, proposal, &applied);
        let (state, out) = (&self.state, &mut self.out);
        let (numbers, random) = (&mut self.numbers, &mut self.random);
        let mut step = Step { now, state, numbers, random, out };
        if begins {
            self.reclaim.on_term_begins(&mut step);
            self.policy_work.on_term_begins(&mut step);
        }
        self.setting_changes.on_applied(&mut step, proposal, &applied);
        self.snapshots.on_applied(&mut step, &mut self.chunks, proposal, &applied);
        let purged = self.reclaim.on_applied(&mut step, proposal, &applied);
        let regoaled = self.policy_work.on_applied(&mut step, proposal, &applied);
        self.streams.on_applied(&mut step, &mut self.chunks, proposal, &applied);
        match &applied {
            Applied::ChunkAbandoned(gone) => self.chunks.forget_chunks(&[gone.handle]),
            Applied::RangeReplaced(gone) => self.chunks.forget_chunks(&gone.chunks),
            Applied::BundlesCommitted(committed) => self.chunks.forget_chunks(&committed.gone),
            // Of what else takes chunks away, `purged` tells.
            _ => {}
        }
        self.chunks.forget_chunks(purged);
        self.chunks.look_at(now, &self.state, &regoaled);
        self.go_on_with_snapshots(now);
        effects.extend(self.out.drain());
    }

    /// All members can apply records of this level: from now on the log may have them.
    pub fn raise_level(&mut self, now: Now, level: u32, effects: &mut Vec<MasterEffect>) {
        if self.serving && level > self.level_asked.max(self.state.level()) {
            self.level_asked = level;
            self.out.propose(RaiseLevel { time: self.steady(now).wall, level });
            effects.extend(self.out.drain());
        }
    }

    /// Passes an entry of the log that holds no record.
    pub fn skip(&mut self, index: LogIndex, term: Term) {
        self.state.skip_to(index, term);
    }

    /// The state reads from a checkpoint's file what that has of it; gives the state as it was,
    /// whose memory another thread may free. None where the file is not of this state.
    pub fn adopt(&mut self, backing: &Arc<dyn Backing>, file: FileId) -> Option<State> {
        self.state.adopt_image(backing, file)
    }

    /// What a person should know of the driver's work; shown by `Status` until it is taken back.
    pub fn set_warning(&mut self, warning: Option<String>) {
        self.warning = warning;
    }

    /// What this process takes: for `Resources`.
    pub fn set_resources(&mut self, resources: ResourceUse) {
        self.resources = resources;
    }

    /// Whether the operation log has room: without it clients' changes are refused.
    pub fn set_log_space(&mut self, space: LogSpace) {
        self.log_space = space;
        self.mutations.set_log_space(space);
    }

    /// The time as this term counts it (M3).
    fn steady(&self, now: Now) -> Now {
        let passed = now.time.since(self.began.time).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let wall = self.began.wall.as_millis().saturating_add(passed);
        Now { time: now.time, wall: WallTime::from_millis(wall) }
    }

    fn parts(&mut self, now: Now) -> (Step<'_>, &mut Mutations, &mut Chunks) {
        let (state, out) = (&self.state, &mut self.out);
        let (numbers, random) = (&mut self.numbers, &mut self.random);
        (Step { now, state, numbers, random, out }, &mut self.mutations, &mut self.chunks)
    }

    fn on_request(&mut self, now: Now, from: Caller, request: Request) {
        if let Request::FindPrimary(_) = request {
            return self.out.reply(from, Ok(self.find_primary()));
        }
        // R23 broken: requests are taken before a record of this term is applied.
        if !self.serving && !broken(Rule::R23) {
            let line = "the master is starting: its term is not in the log yet";
            self.out.reply(from, Err(Failure::not_done(ErrorCode::Busy, line)));
            return;
        }
        match request.directed() {
            Directed::ClientToMaster(request) => self.on_client(now, from, request),
            Directed::ClientToStreams(request) => self.on_streams(now, from, request),
            Directed::ChunkserverToMaster(request) => {
                let (mut step, _, chunks) = self.parts(now);
                chunks.on_chunkserver(&mut step, from, request);
            }
            other @ (Directed::Handshake(_)
            | Directed::MasterToChunkserver(_)
            | Directed::ClientToMember(_)
            | Directed::ClientToServer(_)
            | Directed::MasterToMaster(_)
            | Directed::ClientToChunkserver(_)
            | Directed::PrimaryToSecondary(_)
            | Directed::ReplicaToReplica(_)) => {
                let line = format!("a master does not serve {}", Request::from(other).name());
                self.out.reply(from, Err(Failure::refused(ErrorCode::Invalid, line)));
            }
        }
    }

    /// Why no change is taken now, if this asks for one.
    fn refusal(&self, now: Now, request: &ClientToMaster) -> Option<Failure> {
        let changes = is_change(request);
        if let Some(refusal) = self.log_space.refusal().filter(|_| changes) {
            return Some(refusal);
        }
        let refusal = behind::refusal(&self.chunks.view(now, &self.state));
        refusal.filter(|_| changes || changes_names(request))
    }

    /// How the cell stands, and this master.
    fn status(&self, view: &View<'_>) -> Response {
        let mut status = reads::status(view, self.chunks.health(view));
        let full = format!("{}: {NO_ROOM}", ReasonCode::MasterDiskFull.code());
        let failed =
            |warning: &String| format!("{}: {warning}", ReasonCode::CheckpointFailed.code());
        let warning = self.warning.as_ref().map(failed);
        let own = [behind::warning(view), warning, self.log_space.is_none().then_some(full)];
        // A person is shown the first few: what ails the master says why the rest does.
        status.reasons.splice(0..0, own.into_iter().flatten());
        status.reasons.extend(self.chunks.warnings(view));
        Response::Status(status.into())
    }

    /// What the cell is at.
    fn jobs(&self, view: &View<'_>, asker: Asker<'_>) -> ListJobsAnswer {
        let of_chunks = self.chunks.jobs(view.now, view.state);
        let policies = self.policy_work.jobs(view, asker.may_all());
        let others = self.reclaim.job(view).into_iter().chain(self.streams.job(view));
        ListJobsAnswer { jobs: of_chunks.chain(others).chain(policies).collect() }
    }

    /// Whether its term has begun (R23).
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.serving
    }

    /// What a master of a group of one is: whoever asks knows the masters of others.
    fn find_primary(&self) -> Response {
        let role = if self.serving { MasterRole::Primary } else { MasterRole::Starting };
        let answer = FindPrimaryAnswer { role, term: self.term, ..FindPrimaryAnswer::default() };
        Response::FindPrimary(answer)
    }

    fn repair_status(&self, now: Now) -> Response {
        Response::RepairStatus(self.chunks.repair_status(now, &self.state))
    }

    fn cell_info(&self) -> Response {
        let (cell, config) = (self.state.cell(), self.state.config().clone().into());
        Response::CellInfo(CellInfoAnswer { cell, config, term: self.term })
    }

    /// What clients ask: answered at once from what is known, or taken into a room of its own.
    fn on_client(&mut self, now: Now, from: Caller, request: ClientToMaster) {
        if let Some(refusal) = self.refusal(now, &request) {
            return self.out.reply(from, Err(refusal));
        }
        let (state, view) = (&self.state, self.chunks.view(now, &self.state));
        let asker = Asker { state, who: self.callers.who(from) };
        if let Err(denied) = asker.check_client(&request) {
            return self.out.reply(from, Err(denied));
        }
        let answer = match request {
            ClientToMaster::Stat(stat) => reads::stat(&view, &stat).map(Response::Stat),
            ClientToMaster::Open(open) => reads::open(asker, &view, &open).map(Response::Open),
            ClientToMaster::Locate(wish) => reads::locate(&view, &wish).map(Response::Locate),
            ClientToMaster::List(list) => reads::list(state, &list).map(Response::List),
            ClientToMaster::ListDeleted(wish) => {
                crate::undelete::list(now, asker, &wish).map(Response::ListDeleted)
            }
            ClientToMaster::Find(find) => crate::find::find(asker, &find).map(Response::Find),
            ClientToMaster::GetPolicy(wish) => policy_of(state, &wish).map(Response::GetPolicy),
            ClientToMaster::GetQuota(wish) => quota_of(state, &wish).map(Response::GetQuota),
            ClientToMaster::CountShared(it) => reads::shared(state, &it).map(Response::CountShared),
            ClientToMaster::CellInfo(_) => Ok(self.cell_info()),
            ClientToMaster::FindPrimary(_) => Ok(self.find_primary()),
            ClientToMaster::Servers(_) => Ok(Response::Servers(self.chunks.servers(&view))),
            ClientToMaster::Status(_) => Ok(self.status(&view)),
            ClientToMaster::RepairStatus(_) => Ok(self.repair_status(now)),
            ClientToMaster::ListJobs(_) => Ok(Response::ListJobs(self.jobs(&view, asker))),
            ClientToMaster::CancelJob(it) => return self.cancel_job(now, from, it),
            ClientToMaster::Resources(_) => Ok(reads::resources(&view, self.resources)),
            ClientToMaster::ListDisks(wish) => Ok(Response::ListDisks(reads::disks(&view, &wish))),
            ClientToMaster::ListDegraded(wish) => {
                Ok(Response::ListDegraded(degraded::list(&view, &wish)))
            }
            ClientToMaster::ListChunks(wish) => {
                self.chunks.list_chunks(&view, &wish).map(Response::ListChunks)
            }
            ClientToMaster::Explain(explain) => {
                self.chunks.explain(now, state, &explain.subject).map(Response::Explain)
            }
            ClientToMaster::ReportBadBlock(hint) => {
                self.chunks.on_report_bad_block(&hint);
                Ok(Response::ReportBadBlock(ReportBadBlockAnswer {}))
            }
            ClientToMaster::MakeDirectory(it) => return self.change_names(now, from, it),
            ClientToMaster::Create(it) => return self.change_names(now, from, it),
            ClientToMaster::Rename(it) => return self.change_names(now, from, it),
            ClientToMaster::Delete(it) => return self.change_names(now, from, it),
            ClientToMaster::Undelete(it) => return self.change_names(now, from, it),
            ClientToMaster::SetPolicy(it) => return self.change_names(now, from, it),
            ClientToMaster::SetQuota(it) => return self.change_names(now, from, it),
            ClientToMaster::Snapshot(it) => return self.change_names(now, from, it),
            ClientToMaster::SetAttributes(it) => return self.change_names(now, from, it),
            ClientToMaster::Batch(batch) => return self.on_batch(now, from, batch),
            ClientToMaster::Lease(lease) => return self.lease(now, from, lease),
            moves @ (ClientToMaster::Drain(_)
            | ClientToMaster::Undrain(_)
            | ClientToMaster::Balance(_)) => return self.move_chunks(now, from, moves),
            ClientToMaster::ListLost(wish) => Ok(Response::ListLost(self.chunks.lost_after(&wish))),
            ClientToMaster::Recover(wish) => {
                self.chunks.recover(now, state, &wish).map(Response::Recover)
            }
            ClientToMaster::LetGoOfLost(it) => return self.let_go(now, from, it.handle),
            ClientToMaster::ForgetServer(it) => return self.forget_server(now, from, &it),
            ClientToMaster::ChangeSettings(it) => return self.change_settings(now, from, it),
            ClientToMaster::RecordLength(wish) => return self.record_length(now, from, wish),
        };
        for chunk in answer.iter().flat_map(reads::unlocated) {
            self.chunks.want(now.time, chunk);
        }
        self.out.reply(from, answer);
    }

    /// Ends a job that a person began.
    fn cancel_job(&mut self, now: Now, from: Caller, request: CancelJob) {
        let (state, out) = (&self.state, &mut self.out);
        let (numbers, random) = (&mut self.numbers, &mut self.random);
        let mut step = Step { now, state, numbers, random, out };
        if !self.policy_work.on_cancel(&mut step, from, &request.id) {
            self.move_chunks(now, from, ClientToMaster::CancelJob(request));
        }
    }

    fn move_chunks(&mut self, now: Now, from: Caller, request: ClientToMaster) {
        let (mut step, _, chunks) = self.parts(now);
        chunks.on_move_request(&mut step, from, &MoveRequest::of(request));
    }

    fn record_length(&mut self, now: Now, from: Caller, wish: cairn_protocol::RecordLength) {
        let heeded = Asker { state: &self.state, who: self.callers.who(from) }.heeded(wish);
        let (mut step, _, chunks) = self.parts(now);
        chunks.on_record_length(&mut step, from, &heeded);
    }

    fn lease(&mut self, now: Now, from: Caller, lease: cairn_protocol::Lease) {
        let (mut step, _, chunks) = self.parts(now);
        chunks.on_lease(&mut step, from, lease);
    }

    fn let_go(&mut self, now: Now, from: Caller, lost: ChunkHandle) {
        let (mut step, _, chunks) = self.parts(now);
        chunks.on_let_go(&mut step, from, lost);
    }

    fn forget_server(&mut self, now: Now, from: Caller, request: &ForgetServer) {
        let (mut step, _, chunks) = self.parts(now);
        chunks.on_forget_server(&mut step, from, request);
    }

    fn change_settings(&mut self, now: Now, from: Caller, wish: ChangeSettings) {
        let (state, out) = (&self.state, &mut self.out);
        let (numbers, random) = (&mut self.numbers, &mut self.random);
        let mut step = Step { now, state, numbers, random, out };
        self.setting_changes.on_request(&mut step, from, wish);
    }

    fn change_names(&mut self, now: Now, from: Caller, change: impl Into<NameMutation>) {
        let who = Arc::clone(self.callers.who(from));
        let (mut step, mutations, _) = self.parts(now);
        mutations.on_request(&mut step, (from, &who), change.into());
    }

    /// What a batch asks for is read at once, all of it from one state.
    fn on_batch(&mut self, now: Now, from: Caller, batch: Batch) {
        if let Some(failure) = batch.oversized() {
            return self.out.reply(from, Err(failure));
        }
        let view = self.chunks.view(now, &self.state);
        let mut looks = BatchLooks::of(&view, &batch);
        for chunk in looks.nowhere() {
            self.chunks.want(now.time, chunk);
        }
        let asker = Asker { state: &self.state, who: self.callers.who(from) };
        let entries = batch.entries.into_iter().map(|entry| looks.item(asker, entry)).collect();
        looks.end();
        let who = Arc::clone(self.callers.who(from));
        let (mut step, mutations, _) = self.parts(now);
        mutations.on_batch(&mut step, (from, &who), entries);
    }
}
