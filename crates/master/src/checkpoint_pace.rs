//! When a checkpoint is made, and as of which record.
//!
//! - CP1: one is made at a time: after so many records, more where the last one was dear, or after
//!   a share of the bytes that the log may have.

use crate::open::MasterConfig;
use cairn_env::{EffectId, LogEvent};
use cairn_types::{LogIndex, Term};

/// A record pays for so many bytes of the next checkpoint: where changes are scattered over many
/// pages, checkpoints come later rather than fill the disk's time.
const CHECKPOINT_BYTES_PER_RECORD: u64 = 4096;

/// A checkpoint is made when so much of the bytes that the log may have came since the last one.
const CHECKPOINT_LOG_SHARE: u64 = 4;

/// The last checkpoint, and what came since.
#[derive(Debug)]
pub(crate) struct CheckpointPace {
    under_way: Option<EffectId>,
    /// The last checkpoint made or tried.
    last: (LogIndex, Term),
    /// Bytes of records since then.
    logged: u64,
    /// Bytes that the last one wrote.
    size: u64,
}

impl CheckpointPace {
    pub(crate) fn new(last: LogIndex) -> Self {
        Self { under_way: None, last: (last, Term::default()), logged: 0, size: 0 }
    }

    /// So many bytes are on their way to the log.
    pub(crate) fn log(&mut self, bytes: u64) {
        self.logged += bytes;
    }

    /// Whether one is to be made of the state as of this record (CP1); `is_wished`: for want of
    /// room, or because a member needs one.
    pub(crate) fn is_due(&self, config: &MasterConfig, index: LogIndex, is_wished: bool) -> bool {
        let due = config.checkpoint_every_records.max(self.size / CHECKPOINT_BYTES_PER_RECORD);
        let is_long = self.logged >= config.log_size_max / CHECKPOINT_LOG_SHARE;
        let is_by_size = is_long && config.checkpoint_every_records < u64::MAX;
        let is_by_count = index.get() >= self.last.0.get().saturating_add(due);
        let is_new = index > self.last.0;
        self.under_way.is_none() && (is_by_count || is_by_size || (is_wished && is_new))
    }

    /// One is being made by this effect.
    pub(crate) fn begin(&mut self, id: EffectId, as_of: (LogIndex, Term)) {
        assert!(self.under_way.is_none(), "one is made at a time (CP1)");
        (self.under_way, self.last, self.logged) = (Some(id), as_of, 0);
    }

    /// Whether this is the effect that makes it; it is over.
    pub(crate) fn end(&mut self, id: EffectId) -> bool {
        self.under_way.take_if(|under_way| *under_way == id).is_some()
    }

    /// As of which record the last one was made or tried.
    pub(crate) fn last(&self) -> (LogIndex, Term) {
        self.last
    }

    /// It wrote so many bytes; an event of that.
    pub(crate) fn wrote(&mut self, size: u64) -> LogEvent {
        self.size = size;
        let event = LogEvent::info("checkpoint").with_number("index", self.last.0.get());
        event.with_number("bytes", size)
    }

    /// Another member's was taken over; an event of that.
    pub(crate) fn take_over(&mut self, as_of: (LogIndex, Term)) -> LogEvent {
        (self.last, self.logged) = (as_of, 0);
        let event = LogEvent::info("checkpoint of another master taken over");
        event.with_number("index", as_of.0.get())
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
}
