//! Whether this server may answer readers: it hears of sets that go on without it (§4.5), or the
//! reader has asked a master so lately that the bytes cannot be old.
//!
//! ```text
//!   join ─────────── heartbeats, each answer tells of sets that left this server out ──────►
//!     │ located before: refused        │ silent_ms without an answer: refused …
//!     └ nobody told it since           └ … but who was located within silent_ms
//! ```
//! - ST1: bytes that others have changed are served no longer than `silent_ms` after they were, and
//!   a message's time on its way.
//! - ST2: who holds a lease needs no master's word: nobody changes the chunk without it.

use cairn_types::{CellConfig, Time};
use std::time::Duration;

/// What masters have said to this server, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// Since when the master that took it in tells it; none: no master does.
    since: Option<Time>,
    /// The last heartbeat that was answered was sent then.
    told: Time,
    silent: Duration,
}

impl Standing {
    /// A master has taken this server in.
    pub(crate) fn join(&mut self, now: Time, config: &CellConfig) {
        let silent = Duration::from_millis(config.silent_ms);
        *self = Self { since: Some(now), told: now, silent };
    }

    /// No master counts it in.
    pub(crate) fn leave(&mut self) {
        self.since = None;
    }

    /// A heartbeat that was sent then is answered, and all that the answer tells is heeded.
    pub(crate) fn hear(&mut self, sent: Time) {
        self.told = self.told.max(sent);
    }

    /// Whether it would know by now if a set that a reader asked a master for so long ago went on
    /// without it (ST1).
    pub(crate) fn covers(&self, now: Time, location_age: Duration) -> bool {
        let told = |since| location_age <= now.since(since) && now.since(self.told) <= self.silent;
        location_age <= self.silent || self.since.is_some_and(told)
    }
}

#[cfg(test)]
mod tests {
    use super::Standing;
    use cairn_types::{CellConfig, Time};
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    #[test]
    fn who_was_located_before_this_server_joined_or_while_no_master_answers_it_is_refused() {
        let config = CellConfig::tiny();
        let (silent, age) = (config.silent_ms, Duration::from_millis);
        let mut standing = Standing::default();
        assert!(!standing.covers(at(5), age(3)), "it has never heard a master");
        standing.join(at(10_000), &config);
        assert!(standing.covers(at(10_001), age(silent)), "the reader has just asked one");
        assert!(!standing.covers(at(10_001), age(silent + 1)), "before it joined");
        standing.hear(at(12_000));
        let located = age(2_500);
        assert!(standing.covers(at(12_000 + silent), located));
        assert!(!standing.covers(at(12_001 + silent), located), "silent for too long");
        standing.hear(at(14_000));
        assert!(standing.covers(at(14_001), located));
        standing.leave();
        assert!(!standing.covers(at(14_001), located));
    }
}
