//! Chunks that may have fewer replicas than before: told one by one, or found by a walk over all
//! that is known, some at a time.
//!
//! ```text
//!   a replica is gone, or bad ───────────────────────────► told ──┬──► looked at, some with
//!   a server died, or has told what it holds now ─► the walk ─────┤    each tick
//!   a server is to be emptied, or no more ─► a walk of its own ───┘
//! ```
//! - TH1: a walk that begins after something has changed passes every chunk that it may have
//!   changed: one that is under way when more changes is followed by another.
//! - TH2: what a server to be emptied holds is looked for last: nothing is lacking yet.

use super::locations::{LocationTable, WalkPlace};
use cairn_types::{ChunkHandle, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// Chunks that are told at once; of more, the walk finds them.
const TOLD_MAX: usize = 65_536;
/// Steps of a walk at once.
const STEPS_MAX: usize = 3;

/// What is to be looked at.
#[derive(Debug, Default)]
pub(super) struct ThinnedChunks {
    told: BTreeSet<ChunkHandle>,
    walk: Option<WalkPlace>,
    /// Another walk is to follow (TH1).
    again: bool,
    /// Servers all of whose chunks are looked for, each with where that goes on.
    all_of: BTreeMap<ServerId, WalkPlace>,
}

impl ThinnedChunks {
    /// A replica of a chunk is gone, or is not what it was.
    pub(super) fn note(&mut self, handle: ChunkHandle) {
        if self.told.len() < TOLD_MAX {
            self.told.insert(handle);
        } else {
            self.note_many();
        }
    }

    /// Many chunks may have changed (TH1).
    pub(super) fn note_many(&mut self) {
        match self.walk {
            Some(_) => self.again = true,
            None => self.walk = Some(WalkPlace::default()),
        }
    }

    /// All that a server holds may have changed: looked for anew, however far that was.
    pub(super) fn note_all_of(&mut self, server: ServerId) {
        self.all_of.insert(server, WalkPlace::default());
    }

    pub(super) fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// About so many of them.
    pub(super) fn take(&mut self, locations: &LocationTable, count: usize) -> Vec<ChunkHandle> {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(handle) = self.told.pop_first()
        {
            taken.push(handle);
        }
        for _ in 0..STEPS_MAX {
            let Some(place) = self.walk.filter(|_| taken.len() < count) else { break };
            self.walk = locations.walk(place, None, count - taken.len(), &mut taken);
            if self.walk.is_none() && std::mem::take(&mut self.again) {
                self.walk = Some(WalkPlace::default());
            }
        }
        // TH2
        for _ in 0..STEPS_MAX {
            let Some((server, place)) = self.all_of.pop_first() else { break };
            let left = count.saturating_sub(taken.len());
            let next = match left {
                0 => Some(place),
                _ => locations.walk(place, Some(server), left, &mut taken),
            };
            next.into_iter().for_each(|next| {
                self.all_of.insert(server, next);
            });
        }
        taken
    }
}
