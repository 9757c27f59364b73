//! When a checkpoint is made, and as of which record.
//!
//! - CP1: one is made at a time: after so many records, more where the last one was dear, or after
//!   a share of the bytes that the log may have; and whenever somebody takes a backup.
//! - CP2: however many backups are taken, one is made for them after a rest of four times as long
//!   as the last one took, and of a second at least: other times are the cell's.

use crate::backups::Backups;
use crate::open::MasterConfig;
use cairn_env::{Caller, DiskError, Effect, EffectId, LogEvent};
use cairn_master_core::LogJob;
use cairn_types::{LogIndex, Term, Time};
use std::time::Duration;

/// A record pays for so many bytes of the next checkpoint: where changes are scattered over many
/// pages, checkpoints come later rather than fill the disk's time.
const CHECKPOINT_BYTES_PER_RECORD: u64 = 4096;

/// A checkpoint is made when so much of the bytes that the log may have came since the last one.
const CHECKPOINT_LOG_SHARE: u64 = 4;

/// For backups one is made after a rest of so many times as long as the last one took (CP2).
const REST_PER_WORK: u32 = 4;
const REST_MIN: Duration = Duration::from_secs(1);

/// The last checkpoint, and what came since.
#[derive(Debug)]
pub(crate) struct CheckpointPace {
    under_way: Option<(EffectId, Time)>,
    /// None is made for backups before (CP2).
    rests_until: Time,
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
        let rests_until = Time::default();
        Self { under_way: None, rests_until, last, logged: 0, size: 0, backups }
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
    pub(crate) fn is_due(
        &self,
        now: Time,
        config: &MasterConfig,
        (index, is_wished): (LogIndex, bool),
    ) -> bool {
        let due = config.checkpoint_every_records.max(self.size / CHECKPOINT_BYTES_PER_RECORD);
        let is_long = self.logged >= config.log_size_max / CHECKPOINT_LOG_SHARE;
        let is_by_size = is_long && config.checkpoint_every_records < u64::MAX;
        let is_by_count = index.get() >= self.last.0.get().saturating_add(due);
        let is_new = index > self.last.0;
        let is_for_backup = self.backups.is_waited_for() && now >= self.rests_until;
        let is_wished = (is_wished && is_new) || is_for_backup;
        self.under_way.is_none() && (is_by_count || is_by_size || is_wished)
    }

    /// One is being made by this effect.
    pub(crate) fn begin(&mut self, now: Time, id: EffectId, as_of: (LogIndex, Term)) {
        assert!(self.under_way.is_none(), "one is made at a time (CP1)");
        (self.under_way, self.last, self.logged) = (Some((id, now)), as_of, 0);
    }

    /// Whether this is the effect that makes it; it is over.
    pub(crate) fn end(&mut self, now: Time, id: EffectId) -> bool {
        let Some((_, began)) = self.under_way.take_if(|(it, _)| *it == id) else { return false };
        self.rests_until = now + (now.since(began) * REST_PER_WORK).max(REST_MIN);
        true
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

#[cfg(test)]
mod tests {
    use super::CheckpointPace;
    use crate::open::MasterConfig;
    use cairn_env::{Caller, EffectId};
    use cairn_types::{CellConfig, LogIndex, Term, Time};
    use std::time::Duration;

    /// Checkpoints in a minute of a master that applies a record each millisecond, where somebody
    /// takes one backup after the other, and each checkpoint takes so long.
    fn made_in_a_minute(takes_ms: u64) -> u32 {
        let config = MasterConfig::standard(CellConfig::standard(), 1);
        let mut pace = CheckpointPace::new(LogIndex::new(1));
        let (mut count, mut over_at, mut waits) = (0, None, false);
        for millis in 1..=60_000 {
            let (now, index) =
                (Time::default() + Duration::from_millis(millis), LogIndex::new(millis + 1));
            if over_at == Some(millis) {
                assert!(pace.end(now, EffectId(millis - takes_ms)));
                waits = pace.made(1).len() < 2;
                over_at = None;
                count += 1;
            }
            if !waits {
                waits = pace.back_up(Caller::default(), index).is_none();
            }
            if pace.is_due(now, &config, (index, false)) {
                pace.begin(now, EffectId(millis), (index, Term::new(1)));
                over_at = Some(millis + takes_ms);
            }
        }
        count
    }

    #[test]
    fn backup_after_backup_takes_a_fifth_of_the_disks_time_at_most() {
        assert_eq!([10, 500, 3000].map(made_in_a_minute), [60, 24, 4]);
    }
}
