//! Bringing what exists to what a policy says, slice by slice (design §4).
//!
//! ```text
//!   ChangePolicy applied: a job ─► ApplyPolicy, a slice ─► applied: its chunks are looked at
//!          the next master too ────────▲                         │ a pause
//!                                      └─────────────────────────┘ … no job is left
//! ```
//! - PX1: one slice is on its way at a time, of the jobs in turn, and each is small: others wait
//!   for a slice at most, however much lies below a directory.
//! - PX2: where a job is stands in the state alone: a master that starts goes on there, and what
//!   was never logged was never done.
//!
//! Chunks that have another goal lack replicas, or have too many: that is repair's business.

use crate::applied::{Applied, PolicyApplied, PolicyChanged};
use crate::job_pace::JobPace;
use crate::name_count::NameCount;
use crate::outbox::ProposalId;
use crate::record::{ApplyPolicy, EndPolicyJob};
use crate::state::{PolicyJob, SLICE_COUNT_MAX, State};
use crate::step::Step;
use crate::view::View;
use cairn_env::{Caller, EffectId};
use cairn_protocol::{CancelJobAnswer, JobKind, JobStatus, JobUnit, Response};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, JobId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two slices.
const SLICE_PAUSE: Duration = Duration::from_millis(5);
/// Names and chunks in a slice where chunks may have many files, each of which is looked at.
const SHARING_COUNT_MAX: u32 = 64;
/// Names that are counted with each slice: a millisecond.
const COUNTED_MAX: usize = 2048;

/// How a job gets on in this term.
#[derive(Debug)]
struct PolicyPace {
    pace: JobPace,
    /// What it had done when that was noted last.
    done: u64,
    /// How much there is to do.
    count: NameCount,
}

/// What becomes of the jobs in one term.
#[derive(Debug, Default)]
pub(crate) struct PolicyWork {
    /// The term has begun: slices may be proposed.
    begun: bool,
    /// The next slice begins then.
    wake: Option<EffectId>,
    /// A slice that is on its way into the log (PX1).
    slice: Option<ProposalId>,
    /// Of this job.
    last: JobId,
    paces: BTreeMap<JobId, PolicyPace>,
    /// Who gave up a job, which is on its way into the log.
    cancelling: BTreeMap<ProposalId, Caller>,
}

/// What a person calls a job.
pub(crate) fn job_name(id: JobId) -> String {
    format!("policy-{}", id.short())
}

impl PolicyWork {
    /// A record of this term is applied.
    pub(crate) fn on_term_begins(&mut self, step: &mut Step<'_>) {
        assert!(!self.begun, "a term begins once");
        self.begun = true;
        self.go_on(step, Duration::ZERO);
    }

    /// A slice will begin, where there is a job.
    fn go_on(&mut self, step: &mut Step<'_>, pause: Duration) {
        let may_begin = self.begun && self.wake.is_none() && self.slice.is_none();
        if may_begin && step.state.policies().jobs().next().is_some() {
            self.wake = Some(step.out.wake(step.now.time + pause));
        }
    }

    /// Time has passed; whether that was waited for here. `takes_changes`: whether the log does.
    pub(crate) fn on_wake(
        &mut self,
        step: &mut Step<'_>,
        id: EffectId,
        takes_changes: bool,
    ) -> bool {
        if self.wake != Some(id) {
            return false;
        }
        assert_eq!(self.slice, None, "one slice at a time (PX1)");
        self.wake = None;
        if !takes_changes {
            let pause = Duration::from_millis(step.state.config().heartbeat_ms);
            self.go_on(step, pause);
            return true;
        }
        if let Some(job) = step.state.policies().job_behind(self.last) {
            self.last = job.id;
            let shares = step.state.sharing().is_any_shared();
            let count = if shares { SHARING_COUNT_MAX } else { SLICE_COUNT_MAX };
            let (time, job) = (step.now.wall, job.id);
            self.slice = Some(step.out.propose(ApplyPolicy { time, job, count }));
        }
        true
    }

    /// A record is applied; gives the chunks that have another goal by it.
    pub(crate) fn on_applied(
        &mut self,
        step: &mut Step<'_>,
        proposal: ProposalId,
        applied: &Applied,
    ) -> Vec<ChunkHandle> {
        if self.slice == Some(proposal) {
            self.slice = None;
            self.note_pace(step);
            self.go_on(step, SLICE_PAUSE);
        }
        if let Some(from) = self.cancelling.remove(&proposal) {
            let answer = match applied {
                Applied::Failed(failure) => Err(failure.clone()),
                _ => Ok(Response::CancelJob(CancelJobAnswer {})),
            };
            step.out.reply(from, answer);
        }
        match applied {
            Applied::PolicyChanged(PolicyChanged { entry, .. }) => {
                self.go_on(step, Duration::ZERO);
                first_chunks(step.state, *entry)
            }
            Applied::PolicyApplied(PolicyApplied { chunks, .. }) => chunks.clone(),
            Applied::EntryPurged(purged) => purged.lowered.clone(),
            _ => Vec::new(),
        }
    }

    /// A slice of the last job is done.
    fn note_pace(&mut self, step: &Step<'_>) {
        let policies = step.state.policies();
        self.paces.retain(|id, _| policies.job(*id).is_some());
        if let Some(job) = policies.job(self.last) {
            let done = progress(step.state, job, None).0;
            let (pace, count) = (JobPace::default(), NameCount::below(job.top));
            let pace = self.paces.entry(job.id).or_insert(PolicyPace { pace, done, count });
            pace.pace.note(step.now, done.saturating_sub(pace.done));
            pace.done = done;
            pace.count.go_on(step.state, COUNTED_MAX);
        }
    }

    /// Somebody gives up a job; whether it is one of these.
    pub(crate) fn on_cancel(&mut self, step: &mut Step<'_>, from: Caller, name: &str) -> bool {
        let mut all = step.state.policies().jobs().map(|job| job.id);
        let Some(job) = all.find(|id| job_name(*id) == name) else { return false };
        let proposal = step.out.propose(EndPolicyJob { time: step.now.wall, job });
        let other = self.cancelling.insert(proposal, from);
        assert!(other.is_none(), "a record gives up one job");
        true
    }

    /// The jobs, for a person; which names they are about only for who may know all names.
    pub(crate) fn jobs(&self, view: &View<'_>, all_names: bool) -> Vec<JobStatus> {
        let rested = JobPace::default();
        let tell = |job: &PolicyJob| {
            let pace = self.paces.get(&job.id);
            let all = pace.and_then(|pace| pace.count.all());
            let (done, left, unit) = progress(view.state, job, all);
            let counting = if left.is_none() { ", names are being counted" } else { "" };
            let pace = pace.map_or(&rested, |pace| &pace.pace);
            let status = JobStatus {
                id: job_name(job.id),
                kind: JobKind::Policy,
                subject: view.state.path_of(job.top).filter(|_| all_names).unwrap_or_default(),
                unit,
                note: format!("{} files were otherwise{counting}", job.changed),
                ..JobStatus::default()
            };
            let told = pace.tell(view.now, left.unwrap_or(0), status);
            let left_ms = told.left_ms.filter(|_| left.is_some());
            // It may have begun before this term.
            let (total, began) = (done.saturating_add(left.unwrap_or(0)), job.began);
            JobStatus { done, total, began, left_ms, ..told }
        };
        view.state.policies().jobs().map(tell).collect()
    }
}

/// How far a job is, and how much is left where it is known how much there is: `names` below its
/// directory.
fn progress(state: &State, job: &PolicyJob, names: Option<u64>) -> (u64, Option<u64>, JobUnit) {
    match state.entry(job.top) {
        Some(file) if file.kind == EntryKind::File => {
            let done = job.chunk.get();
            (done, Some(file.chunk_count.saturating_sub(done)), JobUnit::Chunks)
        }
        _ => {
            let left = names.map(|names| names.saturating_sub(job.looked_at));
            (job.looked_at, left, JobUnit::Names)
        }
    }
}

/// What the very record of a file's change may have changed.
fn first_chunks(state: &State, file: EntryId) -> Vec<ChunkHandle> {
    let chunks = state.chunks_of(file, ChunkIndex::default());
    chunks.take(SLICE_COUNT_MAX as usize).map(|(_, handle)| handle).collect()
}
