//! The end of what was deleted: purged slice by slice once it is kept no longer (§4.4).
//!
//! ```text
//!   tick ──► due? ──► Purge, a slice ──► applied ──► a pause ──► the next slice … ──► nothing due
//! ```
//! - RE1: one slice is on its way at a time, and each is small: others wait for a slice at most,
//!   however much was deleted at once.
//! - RE2: what is due is judged again when the record is applied: what was brought back meanwhile
//!   stays (R23).
//! - RE3: in the first while of a term nothing is purged: servers are yet to say whether this log
//!   lacks what they know (R3).
//!
//! Chunks that are gone from the state go from the servers as garbage (`rules/garbage.rs`).

use crate::applied::{Applied, EntryPurged};
use crate::job_pace::JobPace;
use crate::name_count::NameCount;
use crate::outbox::ProposalId;
use crate::record::Purge;
use crate::step::Step;
use crate::view::View;
use cairn_env::EffectId;
use cairn_protocol::{JobKind, JobStatus, JobUnit};
use cairn_types::{ChunkHandle, EntryId};
use std::time::Duration;

/// Names and chunks of one slice: a millisecond or two.
const SLICE_COUNT: u32 = 256;
/// Between two slices.
const SLICE_PAUSE: Duration = Duration::from_millis(5);
/// Deleted entries that are counted for a person, of those that are due.
const COUNTED_MAX: usize = 1000;
/// Names below the one that goes now that are counted with each slice: a millisecond. It is more
/// than a slice takes, so that the count stays ahead.
const NAMES_COUNTED_MAX: usize = 2048;

const _: () = assert!(NAMES_COUNTED_MAX > SLICE_COUNT as usize);

/// How much is left of an entry that goes slice by slice.
#[derive(Debug)]
struct PurgedEntry {
    entry: EntryId,
    /// Of the names that were there when it began.
    count: NameCount,
    /// Names that are gone since.
    gone: u64,
}

/// What becomes of the deleted in one term.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    /// It is looked again then.
    wake: Option<EffectId>,
    /// A slice that is on its way into the log (RE1).
    slice: Option<ProposalId>,
    /// What goes now.
    going: Option<PurgedEntry>,
    pace: JobPace,
}

impl Reclaim {
    /// A record of this term is applied.
    pub(crate) fn on_term_begins(&mut self, step: &mut Step<'_>) {
        assert_eq!(self.wake, None, "a term begins once");
        // RE3
        let pause = Duration::from_millis(step.state.config().dead_ms);
        self.look_again(step, pause);
    }

    fn look_again(&mut self, step: &mut Step<'_>, pause: Duration) {
        self.wake = Some(step.out.wake(step.now.time + pause));
    }

    /// Time has passed; whether that was waited for here. `floor` is the lowest handle of this term
    /// that may still be opened; none: no change is taken now.
    pub(crate) fn on_wake(
        &mut self,
        step: &mut Step<'_>,
        id: EffectId,
        floor: Option<ChunkHandle>,
    ) -> bool {
        if self.wake != Some(id) {
            return false;
        }
        assert_eq!(self.slice, None, "one slice at a time (RE1)");
        self.wake = None;
        let due = step.state.deleted().due(step.state.log_time_at(step.now.wall));
        match due.zip(floor) {
            Some((entry, floor)) => {
                let (time, count) = (step.now.wall, SLICE_COUNT);
                self.pace.is_at_work(step.now);
                self.slice = Some(step.out.propose(Purge { time, entry, count, floor }));
            }
            None => {
                let pause = Duration::from_millis(step.state.config().heartbeat_ms);
                self.look_again(step, pause);
                if due.is_none() {
                    self.pace.rests();
                }
            }
        }
        true
    }

    /// A record is applied; gives the chunks that are in the state no more.
    pub(crate) fn on_applied<'a>(
        &mut self,
        step: &mut Step<'_>,
        proposal: ProposalId,
        applied: &'a Applied,
    ) -> &'a [ChunkHandle] {
        if self.slice == Some(proposal) {
            self.slice = None;
            self.look_again(step, SLICE_PAUSE);
        }
        match applied {
            Applied::EntryPurged(purged) => {
                self.pace.note(step.now, purged.names);
                self.count_on(step, purged);
                &purged.chunks
            }
            _ => &[],
        }
    }

    /// A slice has gone: what is left of its entry is counted on.
    fn count_on(&mut self, step: &Step<'_>, purged: &EntryPurged) {
        let EntryPurged { entry, whole, names, .. } = *purged;
        if whole {
            self.going = None;
            return;
        }
        match &mut self.going {
            Some(going) if going.entry == entry => going.gone += names,
            _ => self.going = Some(PurgedEntry { entry, count: NameCount::below(entry), gone: 0 }),
        }
        if let Some(going) = &mut self.going {
            going.count.go_on(step.state, NAMES_COUNTED_MAX);
        }
    }

    /// As a job, for a person; none while nothing is due.
    pub(crate) fn job(&self, view: &View<'_>) -> Option<JobStatus> {
        let log_time = view.state.log_time_at(view.now.wall);
        let due = view.state.deleted().due_count(log_time, COUNTED_MAX);
        if due == 0 {
            return None;
        }
        // Below the others nobody has counted yet.
        let below = |going: &PurgedEntry| going.count.so_far().saturating_sub(going.gone);
        let left = due as u64 + self.going.as_ref().map_or(0, below);
        let is_counted = self.going.as_ref().is_none_or(|going| going.count.all().is_some());
        let note = if due > 1 || !is_counted { "and perhaps more names" } else { "" };
        let (id, note, kind) = ("purge".to_owned(), note.to_owned(), JobKind::Purge);
        let status = JobStatus { id, kind, note, unit: JobUnit::Names, ..JobStatus::default() };
        Some(self.pace.tell(view.now, left, status))
    }
}
