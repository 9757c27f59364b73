//! Replicas that their chunks do not need are left out, some at a time.
//!
//! - SU1: of a chunk one is left out at a time, and of a cell so many; each is looked at again
//!   right before (`rules/surplus.rs`).
//! - SU2: a lease in use is left alone for a while and asked back then, once for each while: nobody
//!   is interrupted again and again for what can wait.

use crate::job_pace::JobPace;
use crate::jobs::PlaceJob;
use crate::jobs::leave_out::LeaveOutJob;
use crate::repair::Repair;
use crate::repair::rests::Rests;
use crate::rules::surplus::who_goes;
use crate::scheduler::Scheduler;
use crate::step::ChunkStep;
use crate::view::View;
use cairn_protocol::{Failure, JobKind, JobState, JobStatus};
use cairn_types::{ChunkHandle, ServerId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Replicas that are being left out at once (SU1).
const LEAVE_OUTS_MAX: usize = 64;
/// Chunks that one look considers.
const CONSIDERED_MAX: usize = 256;
/// Leases after which one in use is asked back: where a server is to be emptied or a replica is
/// bad, and else (SU2).
const LEASES_IN_HURRY: u32 = 4;
const LEASES_ELSE: u32 = 40;
/// Chunks whose leases are waited for at once; others are looked at when these are done.
const LEASED_MAX: usize = 65_536;

/// What is known, and being done, about them.
#[derive(Debug, Default)]
pub(super) struct SurplusReplicas {
    under_way: BTreeSet<ChunkHandle>,
    rests: Rests,
    /// Since when a lease is waited for.
    leased: BTreeMap<ChunkHandle, Time>,
    /// Where the look goes on.
    looked: ChunkHandle,
    pace: JobPace,
}

impl SurplusReplicas {
    /// Time has passed; `preferred`: who of a chunk's had better go.
    pub(super) fn pass(
        &mut self,
        step: &mut ChunkStep<'_>,
        (scheduler, repair): (&mut Scheduler, &mut Repair),
        preferred: impl Fn(ChunkHandle) -> Option<ServerId>,
    ) {
        let now = step.now.time;
        self.rests.pass(now, scheduler.term().dead());
        self.leased.retain(|handle, _| repair.surplus().contains(*handle));
        if repair.surplus().count() == 0 && self.under_way.is_empty() {
            self.pace.rests();
            return;
        }
        self.pace.is_at_work(step.now);
        if step.fleet.servers().is_gathering(now) {
            return;
        }
        let mut some: Vec<ChunkHandle> =
            repair.surplus().from(self.looked).take(CONSIDERED_MAX + 1).collect();
        self.looked = match some.len() > CONSIDERED_MAX {
            true => some.pop().expect("there are more than that"),
            false => ChunkHandle::default(),
        };
        for handle in some {
            if self.under_way.len() >= LEAVE_OUTS_MAX {
                self.looked = handle;
                break;
            }
            let busy = self.under_way.contains(&handle) || repair.is_cloning(handle);
            if !busy && !self.rests.rests(now, handle) {
                self.leave_out(step, (scheduler, repair), handle, preferred(handle));
            }
        }
        assert!(self.under_way.len() <= LEAVE_OUTS_MAX, "so many at once (SU1)");
    }

    fn leave_out(
        &mut self,
        step: &mut ChunkStep<'_>,
        (scheduler, repair): (&mut Scheduler, &mut Repair),
        handle: ChunkHandle,
        preferred: Option<ServerId>,
    ) {
        let now = step.now.time;
        let view = scheduler.view(step.now, step.state, step.fleet);
        // Since it was written down it may have come to need it.
        repair.look_at(&view, &[handle]);
        let Some(chunk) = step.state.chunk(handle) else { return };
        let Some(server) = who_goes(&view, (handle, &chunk), preferred) else { return };
        if view.leases.possible(handle, now).is_some()
            && !self.is_patient_enough(&view, handle, server)
        {
            return;
        }
        let begun = scheduler.change_set(step, handle, |view, chunk, acts| {
            // R34: what is to be still is not stirred.
            if view.is_frozen(chunk.file) {
                return None;
            }
            LeaveOutJob::start(view, (handle, chunk), server, acts).map(PlaceJob::LeaveOut)
        });
        if begun {
            let fresh = self.under_way.insert(handle);
            assert!(fresh, "one of a chunk at a time (SU1)");
        } else {
            self.rests.note((now, scheduler.term().heartbeat()), handle, None);
        }
    }

    /// Whether a lease has been in the way for so long that it is asked back (SU2).
    fn is_patient_enough(
        &mut self,
        view: &View<'_>,
        handle: ChunkHandle,
        server: ServerId,
    ) -> bool {
        let now = view.now.time;
        if self.leased.len() >= LEASED_MAX && !self.leased.contains_key(&handle) {
            return false;
        }
        let since = self.leased.entry(handle).or_insert(now);
        let replica = view.fleet.locations().get(handle, server);
        let hurries = view.state.known_servers().duties().is_draining(server)
            || replica.is_some_and(|replica| !replica.is_sound());
        let leases = if hurries { LEASES_IN_HURRY } else { LEASES_ELSE };
        let is_over = now >= *since + view.term.config.lease() * leases;
        if is_over {
            *since = now;
        }
        is_over
    }

    /// Replicas have been left out, or have not.
    pub(super) fn on_left_out(
        &mut self,
        step: &mut ChunkStep<'_>,
        (scheduler, repair): (&Scheduler, &mut Repair),
        left_out: Vec<(ChunkHandle, Result<(), Failure>)>,
    ) {
        for (handle, result) in left_out {
            let known = self.under_way.remove(&handle);
            assert!(known, "told once of each that is left out");
            match result {
                Ok(()) => {
                    self.pace.note(step.now, 1);
                    self.rests.forget(handle);
                    self.leased.remove(&handle);
                }
                Err(_) => {
                    let heartbeat = scheduler.term().heartbeat();
                    self.rests.note((step.now.time, heartbeat), handle, None);
                }
            }
            let view = scheduler.view(step.now, step.state, step.fleet);
            repair.look_at(&view, &[handle]);
        }
    }

    /// As a job, for a person; none while there is nothing to do.
    pub(super) fn job(&self, view: &View<'_>, repair: &Repair) -> Option<JobStatus> {
        let left = repair.surplus().count();
        if left == 0 && self.under_way.is_empty() {
            return None;
        }
        let (state, note) = match (self.under_way.len(), self.leased.len()) {
            (0, 0) => (JobState::Waiting, String::new()),
            (0, leased) => {
                (JobState::Waiting, format!("{leased} chunks are in use: clients go first"))
            }
            (count, _) => (JobState::Running, format!("{count} are being left out")),
        };
        let (id, kind) = ("surplus".to_owned(), JobKind::Surplus);
        let status = JobStatus { id, kind, state, note, ..JobStatus::default() };
        Some(self.pace.tell(view.now, left, status))
    }
}
