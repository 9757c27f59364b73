//! What becomes of changes while the master's disk has no room for the operation log.
//!
//! ```text
//!   append: no room left after it ──► full: the core refuses changes, look-ups go on
//!                                      │  every second: is there room again? ──► as before
//!   append: no room for it ──────────► full, and it is tried again then, as it was
//! ```
//! - F1: the log knows that it is full a whole segment before it is (`OperationLog`'s L5), so what
//!   is on its way, and what the master has to write down for itself, still fits.
//! - F2: what could not be appended is answered by nobody and forgotten by nobody: it stays first.

use bytes::Bytes;
use cairn_env::EffectId;
use cairn_types::LogIndex;
use std::time::Duration;

/// How long until it is asked again whether there is room.
pub(crate) const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Records on their way to the log, and their number in the consensus.
#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) number: u64,
    pub(crate) records: Vec<(LogIndex, Bytes)>,
}

/// Whether the log has room.
#[derive(Debug, Default)]
pub(crate) struct LogRoom {
    is_full: bool,
    /// What did not fit (F2).
    refused: Option<Append>,
    /// It is asked again when this comes: the pause, or the answer.
    asking: Option<EffectId>,
    /// A checkpoint may let go of a part of the log; one is made each time that it gets full.
    wants_checkpoint: bool,
}

impl LogRoom {
    /// Whether something waits for room.
    pub(crate) fn holds_back(&self) -> bool {
        self.refused.is_some()
    }

    /// What was to be appended found no room.
    pub(crate) fn refuse(&mut self, append: Append) {
        self.refused = Some(append);
    }

    /// What to try again.
    pub(crate) fn take_refused(&mut self) -> Option<Append> {
        self.refused.take()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// What the log says; whether that is news.
    pub(crate) fn set_full(&mut self, is_full: bool) -> bool {
        let changed = self.is_full != is_full;
        self.wants_checkpoint |= changed && is_full;
        self.is_full = is_full;
        changed
    }

    /// Whether somebody has to ask again, and nobody does yet.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        self.is_full && self.asking.is_none()
    }

    /// Somebody asks, with this effect.
    pub(crate) fn ask(&mut self, id: EffectId) {
        self.asking = Some(id);
    }

    /// Whether this is what was asked.
    pub(crate) fn was_asked(&mut self, id: EffectId) -> bool {
        self.asking.take_if(|asked| *asked == id).is_some()
    }

    /// Whether a checkpoint is wanted, once.
    pub(crate) fn take_checkpoint_wish(&mut self) -> bool {
        std::mem::take(&mut self.wants_checkpoint)
    }
}
