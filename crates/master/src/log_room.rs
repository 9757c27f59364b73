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
//! - F3: a member of a group hands over while it is full, for another may have room. Where it is in
//!   charge again it rests before, each time twice as long: all may be full, and an election costs
//!   each of them some of the room that is left, and readers a moment.

use bytes::Bytes;
use cairn_env::{Effect, EffectId, LogEvent};
use cairn_master_core::{LogJob, LogSpace};
use cairn_types::{LogIndex, Time};
use std::time::Duration;

/// How long until it is asked again whether there is room.
pub(crate) const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// How long whoever handed over for want of room stays in charge, when it is again (F3): at first,
/// and at most.
const RESTS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(600)];

/// A flush of the operation log that takes longer is told of.
const SLOW_FLUSH: Duration = Duration::from_secs(1);

/// A flush that takes longer may take for ever.
const HANGS_AFTER: Duration = Duration::from_millis(1_000);

/// Records on their way to the log, and their number in the consensus.
#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) number: u64,
    pub(crate) records: Vec<(LogIndex, Bytes)>,
}

/// The append that is on its way: one at a time (D2).
#[derive(Debug, Default)]
pub(crate) struct AppendOnItsWay {
    append: Option<(EffectId, Append)>,
    since: Time,
}

impl AppendOnItsWay {
    pub(crate) fn is_under_way(&self) -> bool {
        self.append.is_some()
    }

    pub(crate) fn begin(&mut self, now: Time, append: (EffectId, Append)) {
        assert!(self.append.is_none(), "one append is on its way at a time (D2)");
        (self.append, self.since) = (Some(append), now);
    }

    /// What this effect has appended; it is over.
    pub(crate) fn end(&mut self, id: EffectId) -> Option<Append> {
        self.append.take_if(|(effect, _)| *effect == id).map(|(_, append)| append)
    }

    /// Whether it takes so long that another member had better be in charge.
    pub(crate) fn hangs(&self, now: Time) -> bool {
        self.append.is_some() && now.since(self.since) >= HANGS_AFTER
    }

    /// How long the one that is over took.
    pub(crate) fn took(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// Changes wait for as long as a flush takes: a disk that is slow is told of.
    pub(crate) fn slowness(&self, now: Time) -> Option<Effect<LogJob>> {
        let took = self.took(now);
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let event = || LogEvent::warn("slow flush").with_number("took_ms", ms);
        (took >= SLOW_FLUSH).then(|| Effect::Log(event()))
    }
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
    /// When it handed over last for want of it, and how long it rests then (F3).
    left: Option<(Time, Duration)>,
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

    /// As a core is told.
    pub(crate) fn space(&self, has_company: bool) -> LogSpace {
        match (self.is_full, has_company) {
            (false, _) => LogSpace::Enough,
            (true, false) => LogSpace::None,
            (true, true) => LogSpace::NoneHere,
        }
    }

    /// Whether a member that is in charge had better hand over now (F3).
    pub(crate) fn leaves_charge(&mut self, now: Time, in_charge: bool) -> bool {
        let rests = self.left.is_some_and(|(at, rest)| now < at + rest);
        let leaves = self.is_full && in_charge && !rests;
        if leaves {
            let [least, most] = RESTS;
            let rest = self.left.map_or(least, |(_, rest)| most.min(2 * rest));
            self.left = Some((now, rest));
        }
        leaves
    }

    /// What the log says; an event if that is news.
    pub(crate) fn set_full(&mut self, is_full: bool) -> Option<LogEvent> {
        let changed = self.is_full != is_full;
        self.wants_checkpoint |= changed && is_full;
        self.is_full = is_full;
        self.left = self.left.filter(|_| is_full);
        changed.then(|| match is_full {
            false => LogEvent::info("room for the operation log again"),
            true => {
                let event = LogEvent::error("no room for the operation log");
                event.with("what", "changes are refused")
            }
        })
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

#[cfg(test)]
mod tests {
    use super::{Append, AppendOnItsWay, HANGS_AFTER, LogRoom, RESTS};
    use cairn_env::EffectId;
    use cairn_types::Time;
    use std::time::Duration;

    #[test]
    fn an_append_that_takes_a_second_hangs_until_it_is_over() {
        let began = Time::default() + HANGS_AFTER;
        let mut appending = AppendOnItsWay::default();
        assert!(!appending.hangs(began), "there is none");
        appending.begin(began, (EffectId(1), Append { number: 1, records: Vec::new() }));
        assert!(!appending.hangs(began));
        assert!(appending.hangs(began + HANGS_AFTER));
        assert!(appending.end(EffectId(1)).is_some());
        assert!(!appending.hangs(began + HANGS_AFTER));
        assert!(appending.slowness(began + HANGS_AFTER).is_some());
    }

    #[test]
    fn who_is_full_and_in_charge_hands_over_at_once_and_then_less_and_less_often() {
        let [least, most] = RESTS;
        let mut now = Time::default();
        let mut room = LogRoom::default();
        assert!(!room.leaves_charge(now, true), "it has room");
        // It may have become full before it was in charge.
        assert!(room.set_full(true).is_some());
        assert!(!room.leaves_charge(now, false));
        assert!(room.leaves_charge(now, true));
        for rest in [least, 2 * least, 4 * least] {
            assert!(!room.leaves_charge(now + rest - Duration::from_nanos(1), true));
            now = now + rest;
            assert!(room.leaves_charge(now, true));
        }
        for _ in 0..20 {
            now = now + most;
            assert!(room.leaves_charge(now, true), "it is tried for ever");
        }
        // What has had room begins anew.
        assert!(room.set_full(false).is_some() && room.set_full(true).is_some());
        assert!(room.leaves_charge(now, true));
    }
}
