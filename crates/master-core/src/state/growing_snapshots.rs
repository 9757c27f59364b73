//! Snapshots that are being made: what of them is logged stands in the hidden directory.
//!
//! ```text
//!   CopyEntries … CopyEntries ─► SnapshotTree: it has its name
//!                     └─► DiscardSnapshot, or another term: purged as what is deleted
//! ```
//! - GS1: nobody brings one of these back: it counts as begun to be purged, and is, once it is
//!   given up.
//! - GS2: one that was begun in an earlier term is given up (R34).

use cairn_types::EntryId;

cairn_types::message! {
    /// One of them.
    #[derive(Copy)]
    pub struct GrowingSnapshot {
        /// The top of what has been copied.
        1 => top: EntryId,
        /// How many entries of records have gone into it.
        2 => entries: u64,
    }
}

/// All of them: one for each snapshot that somebody waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GrowingSnapshots(Vec<GrowingSnapshot>);

impl GrowingSnapshots {
    /// From what an image has.
    pub(super) fn of(all: Vec<GrowingSnapshot>) -> Self {
        Self(all)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &GrowingSnapshot> {
        self.0.iter()
    }

    pub(super) fn get(&self, top: EntryId) -> Option<GrowingSnapshot> {
        self.0.iter().find(|it| it.top == top).copied()
    }

    /// So many more entries are in it.
    pub(super) fn grow(&mut self, top: EntryId, entries: u64) {
        assert!(!top.is_none() && entries > 0, "what grows has a top and becomes more");
        match self.0.iter_mut().find(|it| it.top == top) {
            Some(known) => known.entries = known.entries.saturating_add(entries),
            None => self.0.push(GrowingSnapshot { top, entries }),
        }
    }

    /// It is none of these any more; whether it was.
    pub(super) fn remove(&mut self, top: EntryId) -> bool {
        let before = self.0.len();
        self.0.retain(|it| it.top != top);
        self.0.len() < before
    }

    /// All of them, which are none any more.
    pub(super) fn take_all(&mut self) -> Vec<GrowingSnapshot> {
        std::mem::take(&mut self.0)
    }
}
