//! When a checkpoint is made, and as of which record.
//!
//! - CP1: one is made at a time: after so many records, more where the last one was dear, or after
//!   a share of the bytes that the log may have; and whenever somebody takes a backup.

use crate::backups::Backups;
use crate::open::MasterConfig;
use cairn_env::{Caller, DiskError, Effect, EffectId, LogEvent};
use cairn_master_core::LogJob;
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
    backups: Backups,
}

impl CheckpointPace {
    pub(crate) fn new(last: LogIndex) -> Self {
        let (last, backups) = ((last, Term::default()), Backups::new(last));
        Self { under_way: None, last, logged: 0, size: 0, backups }
    }

    /// Somebody takes a backup of what is applied: the answer, where there is one already.
    pub(crate) fn back_up(&mut self, from: Caller, applied: LogIndex) -> Option<Effect<LogJob>> {
        self.backups.begin(from, applied)
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
        let is_wished = (is_wished && is_new) || self.backups.is_waited_for();
        self.under_way.is_none() && (is_by_count || is_by_size || is_wished)
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

    /// It is durable, and wrote so many bytes; who is to be told.
    pub(crate) fn made(&mut self, size: u64) -> Vec<Effect<LogJob>> {
        self.size = size;
        let event = LogEvent::info("checkpoint").with_number("index", self.last.0.get());
        self.tell(event.with_number("bytes", size))
    }

    /// It was not made; who is to be told.
    pub(crate) fn failed(&mut self, why: &DiskError) -> Vec<Effect<LogJob>> {
        let mut told = self.backups.failed(why);
        told.push(Effect::Log(LogEvent::error("checkpoint failed").with("why", why)));
        told
    }

    /// Another member's was taken over; who is to be told.
    pub(crate) fn take_over(&mut self, as_of: (LogIndex, Term)) -> Vec<Effect<LogJob>> {
        (self.last, self.logged) = (as_of, 0);
        let event = LogEvent::info("checkpoint of another master taken over");
        self.tell(event.with_number("index", as_of.0.get()))
    }

    fn tell(&mut self, event: LogEvent) -> Vec<Effect<LogJob>> {
        let mut told = self.backups.made(self.last.0);
        told.push(Effect::Log(event));
        told
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
}
