//! The survey: keeps the index of chunks below their goal as servers come and go.
//!
//! ```text
//!   told by the fleet: a replica is gone, or bad ──┐
//!   logged: a set below its goal ──────────────────┼──► looked at, some with each tick ─► index
//!   the walk over the table ───────────────────────┤
//!   the index itself, in turn ─────────────────────┘
//! ```
//! - SV1: what one tick looks at is bounded, however many chunks there are: the index is never made
//!   of the whole table in one step.
//! - SV2: all of it is soft. What was missed is found by the walk over the table, which begins when
//!   the servers have told what they hold, and never ends.

use super::below_goal::BelowGoal;
use crate::record::{OpenChunk, Record, SetVersion};
use crate::rules::lacking::{Urgency, lacking};
use crate::state::State;
use crate::view::View;
use cairn_types::ChunkHandle;
use std::collections::BTreeSet;

/// Chunks that one tick looks at: a few milliseconds (SV1).
const LOOKED_AT_MAX: usize = 2048;
/// Of these, chunks of the index.
const LOOKED_AGAIN_MAX: usize = 256;
/// Of these, chunks of the table, once each was looked at in this term.
const WALKED_MAX: usize = 256;

const _: () = assert!(LOOKED_AGAIN_MAX + WALKED_MAX < LOOKED_AT_MAX);

/// The index, and what keeps it.
#[derive(Debug, Default)]
pub(super) struct Survey {
    index: BelowGoal,
    /// Chunks whose set was logged, below the goal or no more.
    logged: BTreeSet<ChunkHandle>,
    /// Where the walk over the table goes on.
    walked: ChunkHandle,
    /// It has passed all of it once.
    walked_all: bool,
    /// Where the index is looked at again.
    again: (Urgency, ChunkHandle),
}

impl Survey {
    pub(super) fn index(&self) -> &BelowGoal {
        &self.index
    }

    /// A record has changed the state.
    pub(super) fn note_logged(&mut self, state: &State, record: &Record) {
        let (handle, set_size) = match *record {
            Record::SetVersion(SetVersion { handle, set_size, .. })
            | Record::OpenChunk(OpenChunk { handle, set_size, .. }) => (handle, set_size),
            _ => return,
        };
        // Of two that open one place the second makes no chunk.
        let Some(chunk) = state.chunk(handle) else { return };
        if set_size < chunk.goal || self.index.urgency_of(handle).is_some() {
            self.logged.insert(handle);
        }
    }

    /// How many chunks the fleet may name now.
    pub(super) fn room(&self) -> usize {
        LOOKED_AT_MAX - LOOKED_AGAIN_MAX - WALKED_MAX
    }

    /// Time has passed: looks at some of what may have changed; `thinned` was named by the fleet.
    pub(super) fn pass(&mut self, view: &View<'_>, thinned: Vec<ChunkHandle>) {
        let mut left = self.room().saturating_sub(thinned.len());
        for handle in thinned {
            self.look_at(view, handle);
        }
        while left > 0
            && let Some(handle) = self.logged.pop_first()
        {
            self.look_at(view, handle);
            left -= 1;
        }
        self.look_again(view);
        if !view.fleet.servers().is_gathering(view.now.time) {
            self.walk(view, if self.walked_all { WALKED_MAX } else { WALKED_MAX + left });
        }
    }

    /// Writes down how a chunk stands, and tells it.
    pub(super) fn look_at(&mut self, view: &View<'_>, handle: ChunkHandle) -> Option<Urgency> {
        let chunk = view.state.chunk(handle);
        let urgency = chunk.and_then(|chunk| lacking(view, handle, &chunk));
        self.index.set(handle, urgency);
        urgency
    }

    /// Replicas come back.
    fn look_again(&mut self, view: &View<'_>) {
        let rest = self.index.from(self.again);
        let mut some: Vec<(Urgency, ChunkHandle)> = rest.take(LOOKED_AGAIN_MAX + 1).collect();
        self.again = match some.len() > LOOKED_AGAIN_MAX {
            true => some.pop().expect("there are more than that"),
            false => Default::default(),
        };
        for (_, handle) in some {
            self.look_at(view, handle);
        }
    }

    /// SV2
    fn walk(&mut self, view: &View<'_>, count: usize) {
        let mut last = None;
        for (handle, chunk) in view.state.chunks_after(self.walked).take(count) {
            self.index.set(handle, lacking(view, handle, &chunk));
            last = Some(handle);
        }
        self.walked_all |= last.is_none();
        self.walked = last.unwrap_or_default();
    }
}
