//! Settling (R45): small extents of sealed chunks are put together into whole chunks, in idle time.
//!
//! ```text
//!   files that have something sealed (state/settled_streams.rs), some at each tick
//!     └─► the window behind what is settled (window.rs)
//!           ├─ several extents ─► a job: AssembleJob ─► ReplaceRange
//!           ├─ nothing to be done ─► NoteSettled
//!           └─ a chunk that is written keeps much behind it ─► it is sealed
//! ```
//! - SZ1: of a file one window is copied at a time, of the cell as many as half its servers.
//! - SZ2: nothing here is needed after a fail-over: what is to be done is found by the rows of the
//!   state, and what was half done is garbage.
//! - SZ3: what one tick looks at is bounded, however many streams there are.

use super::window::{RANGES_MAX, SettleStep, next_window};
use crate::chunk_place::ChunkPlace;
use crate::chunks::Chunks;
use crate::job_pace::JobPace;
use crate::outbox::ProposalId;
use crate::record::RANGE_LEVEL;
use crate::scheduler::WrittenChunks;
use crate::step::Step;
use crate::stream_records::NoteSettled;
use crate::view::View;
use cairn_env::Now;
use cairn_protocol::{Failure, JobKind, JobState, JobStatus, JobUnit};
use cairn_types::{ChunkHandle, EntryId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Files that one tick looks at.
const LOOKED_AT_MAX: usize = 16;
/// Windows under way in a cell.
const WINDOWS_MAX: usize = 64;
/// Rests between tries of one file, at first and at most.
const REST_MIN: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_secs(60);

/// A window that is being copied.
#[derive(Debug)]
struct CopiedWindow {
    file: EntryId,
    size: u64,
}

/// A file that has something to be settled.
#[derive(Debug, Default)]
struct PendingFile {
    /// Bytes behind what is settled.
    left: u64,
    from: Time,
    rest: Duration,
    /// Since when that chunk keeps it from being settled.
    blocked: Option<(ChunkHandle, Time)>,
    /// Its last try came to nothing; why.
    failure: Option<String>,
}

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct StreamSettling {
    /// Behind which file the walk goes on.
    walk: EntryId,
    files: BTreeMap<EntryId, PendingFile>,
    under_way: BTreeMap<ChunkPlace, CopiedWindow>,
    noting: BTreeMap<ProposalId, EntryId>,
    pace: JobPace,
}

impl StreamSettling {
    fn is_busy(&self, file: EntryId) -> bool {
        self.under_way.values().any(|it| it.file == file)
            || self.noting.values().any(|it| *it == file)
    }

    pub(super) fn on_applied(&mut self, proposal: ProposalId) {
        self.noting.remove(&proposal);
    }

    /// What came of windows.
    pub(super) fn on_assembled(
        &mut self,
        now: Now,
        assembled: Vec<(ChunkPlace, Result<(), Failure>)>,
    ) {
        for (place, result) in assembled {
            let Some(window) = self.under_way.remove(&place) else { continue };
            let file = self.files.entry(window.file).or_default();
            match result {
                Ok(()) => {
                    self.pace.note(now, window.size);
                    (file.rest, file.from, file.failure) = Default::default();
                }
                Err(failure) => {
                    file.rest = (file.rest * 2).clamp(REST_MIN, REST_MAX);
                    file.from = now.time + file.rest;
                    file.failure = Some(failure.message);
                }
            }
        }
    }

    /// Begins what can be begun; gives chunks that are to be written no more.
    pub(super) fn on_tick(
        &mut self,
        step: &mut Step<'_>,
        chunks: &mut Chunks,
    ) -> BTreeSet<ChunkHandle> {
        let mut left = BTreeSet::new();
        let view = chunks.view(step.now, step.state);
        if !may_settle(&view) {
            if step.state.config().settle_rate == 0 {
                self.files.clear();
                self.pace.rests();
            }
            return left;
        }
        let settled = step.state.streams().settled();
        let some: Vec<EntryId> = settled.pending_after(self.walk).take(LOOKED_AT_MAX).collect();
        // All anew from the start.
        let last = some.last().filter(|_| some.len() == LOOKED_AT_MAX);
        self.walk = last.copied().unwrap_or_default();
        if self.walk.is_none() {
            self.files.retain(|file, _| settled.is_pending(*file));
        }
        if self.files.is_empty() && some.is_empty() {
            self.pace.rests();
        }
        for file in some {
            self.look_at(step, chunks, file, &mut left);
        }
        left
    }

    fn look_at(
        &mut self,
        step: &mut Step<'_>,
        chunks: &mut Chunks,
        file: EntryId,
        left: &mut BTreeSet<ChunkHandle>,
    ) {
        let view = chunks.view(step.now, step.state);
        let now = step.now.time;
        let is_busy = self.is_busy(file);
        let windows_max = (view.fleet.servers().live(now).count() / 2).clamp(1, WINDOWS_MAX);
        let known = self.files.entry(file).or_default();
        // A deleted one is looked at again if it comes back, and goes with its rows if not.
        let live = step.state.entry(file).filter(|_| !step.state.is_hidden(file));
        let settled_to = step.state.streams().settled().settled_to(file);
        known.left = live.map_or(0, |it| it.length.saturating_sub(settled_to));
        let Some(entry) = live.filter(|_| known.from <= now && !view.is_frozen(file)) else {
            return;
        };
        if is_busy || self.under_way.len() >= windows_max {
            return;
        }
        let waited = known.blocked.map(|(handle, since)| (handle, now.since(since)));
        let next = next_window(&view, (file, &entry), waited, step.random);
        if !matches!(next, SettleStep::Waits(_)) {
            known.blocked = None;
        }
        match next {
            SettleStep::Window(plan) => {
                assert!(plan.replaced.len() <= RANGES_MAX, "a window is one record");
                let size = plan.size;
                self.pace.is_at_work(step.now);
                let (mut chunk_step, scheduler) = chunks.for_streams(step);
                let place = WrittenChunks(scheduler).assemble(&mut chunk_step, (file, plan));
                self.under_way.insert(place, CopiedWindow { file, size });
            }
            SettleStep::Note { settled_to, done } => {
                let (time, length) = (step.now.wall, entry.length);
                let proposal =
                    step.out.propose(NoteSettled { time, file, settled_to, done, length });
                self.noting.insert(proposal, file);
            }
            SettleStep::Waits(handle) => {
                let since = known.blocked.filter(|(at, _)| *at == handle);
                known.blocked = since.or(Some((handle, now)));
            }
            SettleStep::Seal(handle) => {
                left.insert(handle);
            }
            SettleStep::Nothing => {}
        }
    }

    /// As a job, for a person; none while there is nothing to do.
    pub(super) fn job(&self, view: &View<'_>) -> Option<JobStatus> {
        if !may_settle(view) || (self.files.is_empty() && self.under_way.is_empty()) {
            return None;
        }
        let left = self.files.values().map(|it| it.left).fold(0, u64::saturating_add);
        let (files, windows) = (self.files.len(), self.under_way.len());
        let mut note = format!("{files} streams; {windows} chunks are being put together");
        let failed = self.files.values().find_map(|it| it.failure.as_ref());
        if let Some(failure) = failed {
            note += &format!("; the last that came to nothing: {failure}");
        }
        let state = if windows > 0 { JobState::Running } else { JobState::Waiting };
        let (id, kind, unit) = ("settle".to_owned(), JobKind::Settle, JobUnit::Bytes);
        let status = JobStatus { id, kind, note, unit, state, ..JobStatus::default() };
        Some(self.pace.tell(view.now, left, status))
    }
}

/// Whether anything is settled now.
fn may_settle(view: &View<'_>) -> bool {
    let now = view.now.time;
    let told = view.term.is_starting(now) || view.fleet.servers().is_gathering(now);
    view.state.level() >= RANGE_LEVEL && view.state.config().settle_rate > 0 && !told
}
