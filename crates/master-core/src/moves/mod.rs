//! Chunks that are to be elsewhere: what servers to be emptied hold, what full ones have too much
//! of, what a chunk has more of than it needs (GFS §4.3, design §9).
//!
//! ```text
//!   drain, balance: a person's orders, logged (state/duties.rs)
//!     drain:    replicas there count for nothing ─► repair copies ──┐
//!     balance:  a copy on an emptier server (repair) ───────────────┤
//!     returned servers, a lower goal ───────────────────────────────┴─► surplus ─► one is left out
//! ```
//! - MV1: an order is answered when its record is applied, and goes on after a restart; whatever
//!   else is here is soft.

mod balance;
mod drains;
mod surplus;

use crate::applied::Applied;
use crate::outbox::ProposalId;
use crate::record::{Record, SetBalance, SetDrain};
use crate::repair::Repair;
use crate::scheduler::Scheduler;
use crate::step::{ChunkStep, Step};
use crate::view::View;
use balance::Balancing;
use cairn_env::Caller;
use cairn_protocol::{
    Balance, CancelJob, CancelJobAnswer, ClientToMaster, Drain, ErrorCode, Failure, JobStatus,
    Response, ServerDuty, Undrain, UndrainAnswer,
};
use cairn_types::{ChunkHandle, ServerId};
use drains::Drains;
use std::collections::BTreeMap;
use surplus::SurplusReplicas;

/// What a person asks for.
#[derive(Debug)]
pub(crate) enum MoveRequest {
    Drain(Drain),
    Undrain(Undrain),
    Balance(Balance),
    Cancel(CancelJob),
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    surplus: SurplusReplicas,
    drains: Drains,
    balancing: Balancing,
    /// Orders on their way into the log, who gave them, and what they are told.
    ordered: BTreeMap<ProposalId, (Caller, Response)>,
}

impl MoveRequest {
    /// Out of what clients ask of a master.
    pub(crate) fn of(request: ClientToMaster) -> Self {
        match request {
            ClientToMaster::Drain(it) => Self::Drain(it),
            ClientToMaster::Undrain(it) => Self::Undrain(it),
            ClientToMaster::Balance(it) => Self::Balance(it),
            ClientToMaster::CancelJob(it) => Self::Cancel(it),
            other => unreachable!("{other:?} moves no chunks"),
        }
    }
}

/// What a person is told, and what is to be logged for it.
pub(crate) type Decided = Result<(Response, Option<Record>), Failure>;

/// What comes of a request.
pub(crate) fn decide(view: &View<'_>, request: &MoveRequest) -> Decided {
    let time = view.now.wall;
    let drain = |server, drains| Record::from(SetDrain { time, server, drains });
    match request {
        MoveRequest::Drain(Drain { server, dry_run }) => {
            known(view, *server)?;
            drains::may_begin(view, *server)?;
            let answer = Response::Drain(Drains::plan(view, *server));
            Ok((answer, (!dry_run).then(|| drain(*server, true))))
        }
        MoveRequest::Undrain(Undrain { server }) => {
            known(view, *server)?;
            Ok((Response::Undrain(UndrainAnswer {}), Some(drain(*server, false))))
        }
        MoveRequest::Balance(Balance { threshold_permille, dry_run }) => {
            let threshold_permille = *threshold_permille;
            if !(1..=1000).contains(&threshold_permille) {
                let line = "the threshold is to be between 0.1 and 100 percent";
                return Err(Failure::refused(ErrorCode::Invalid, line));
            }
            let answer = Response::Balance(Balancing::plan(view, threshold_permille));
            let order = SetBalance { time, balances: true, threshold_permille };
            Ok((answer, (!dry_run).then(|| order.into())))
        }
        MoveRequest::Cancel(CancelJob { id }) => {
            let off = SetBalance { time, balances: false, threshold_permille: 0 };
            let balance = || {
                (id == "balance").then_some(view.state.known_servers().duties().balance()).flatten()
            };
            let record = match drains::server_of(view, id) {
                Some(server) => Some(drain(server, false)),
                None => balance().map(|_| off.into()),
            };
            let record = record.ok_or_else(|| {
                let line = format!(
                    "{id}: no job that could be cancelled: what the cell does by itself cannot be"
                );
                Failure::refused(ErrorCode::NotFound, line)
            })?;
            Ok((Response::CancelJob(CancelJobAnswer {}), Some(record)))
        }
    }
}

fn known(view: &View<'_>, server: ServerId) -> Result<(), Failure> {
    let line = || format!("server {server}: no such chunkserver; 'cairn servers' lists them");
    let known = view.state.server(server);
    known.map(|_| ()).ok_or_else(|| Failure::refused(ErrorCode::NotFound, line()))
}

impl Moves {
    /// An order goes into the log; then it is answered (MV1).
    pub(crate) fn order(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        (answer, record): (Response, Record),
    ) {
        let proposal = step.out.propose(record);
        let other = self.ordered.insert(proposal, (from, answer));
        assert!(other.is_none(), "a record is one order's");
    }

    /// A record is applied.
    pub(crate) fn on_applied(
        &mut self,
        step: &mut Step<'_>,
        proposal: ProposalId,
        applied: &Applied,
    ) {
        self.balancing.on_applied(proposal);
        let Some((from, answer)) = self.ordered.remove(&proposal) else { return };
        let answer = match applied {
            Applied::Failed(failure) => Err(failure.clone()),
            _ => Ok(answer),
        };
        step.out.reply(from, answer);
    }

    /// Time has passed.
    pub(crate) fn pass(
        &mut self,
        step: &mut ChunkStep<'_>,
        (scheduler, repair): (&mut Scheduler, &mut Repair),
    ) {
        self.drains.pass(&scheduler.view(step.now, step.state, step.fleet), repair);
        self.balancing.pass(step, (&*scheduler, &mut *repair));
        let preferred = |handle| self.balancing.leaves(handle);
        self.surplus.pass(step, (scheduler, repair), preferred);
    }

    /// Replicas have been left out, or have not.
    pub(crate) fn on_left_out(
        &mut self,
        step: &mut ChunkStep<'_>,
        (scheduler, repair): (&Scheduler, &mut Repair),
        left_out: Vec<(ChunkHandle, Result<(), Failure>)>,
    ) {
        self.surplus.on_left_out(step, (scheduler, repair), left_out);
    }

    /// What a server is, for people.
    pub(crate) fn duty(&self, view: &View<'_>, repair: &Repair, server: ServerId) -> ServerDuty {
        self.drains.duty(view, repair, server)
    }

    /// Whether a server that is away was emptied before, so that nobody misses it.
    pub(crate) fn is_off(&self, server: ServerId) -> bool {
        self.drains.is_off(server)
    }

    /// What a person should know of: a code and a line each.
    pub(crate) fn warnings(&self, view: &View<'_>, repair: &Repair) -> Vec<String> {
        self.drains.warnings(view, repair)
    }

    /// As jobs, for a person.
    pub(crate) fn jobs(&self, view: &View<'_>, repair: &Repair) -> Vec<JobStatus> {
        let mut jobs = self.drains.jobs(view, repair);
        jobs.extend(self.balancing.job(view, repair));
        jobs.extend(self.surplus.job(view, repair));
        jobs
    }
}
