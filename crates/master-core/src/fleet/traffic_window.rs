//! What a server moves a second, over the last ten seconds or so: made of the totals that its
//! heartbeats tell.
//!
//! ```text
//!   told, a second or more apart:   oldest ── · ── · ── · ── newest        rate = growth / span
//! ```
//! - TW1: what is kept is bounded, however often a server tells.

use cairn_protocol::{TrafficRates, TrafficTotals};
use cairn_types::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Over so long a rate is told.
const SPAN: Duration = Duration::from_secs(10);
/// From one word that is kept to the next.
const STEP: Duration = Duration::from_secs(1);
/// Words kept (TW1).
const KEPT_MAX: usize = 12;

const _: () = assert!(SPAN.as_secs() / STEP.as_secs() < KEPT_MAX as u64);

/// The words of one life of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct TrafficWindow {
    kept: VecDeque<(Time, TrafficTotals)>,
    newest: Option<(Time, TrafficTotals)>,
}

impl TrafficWindow {
    /// A heartbeat tells so much.
    pub(super) fn note(&mut self, now: Time, totals: TrafficTotals) {
        self.newest = Some((now, totals));
        if self.kept.back().is_none_or(|(at, _)| now.since(*at) >= STEP) {
            self.kept.push_back((now, totals));
        }
        // The one before the span is kept: growth since then covers it.
        while self.kept.get(1).is_some_and(|(at, _)| now.since(*at) >= SPAN) {
            self.kept.pop_front();
        }
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
        assert!(self.kept.len() <= KEPT_MAX, "what is kept is bounded (TW1)");
    }

    /// Bytes a second.
    pub(super) fn rates(&self) -> TrafficRates {
        let (Some((from, before)), Some((until, now))) = (self.kept.front(), &self.newest) else {
            return TrafficRates::default();
        };
        let millis = u64::try_from(until.since(*from).as_millis()).unwrap_or(u64::MAX);
        let rate = |before: u64, now: u64| match millis {
            0 => 0,
            millis => now.saturating_sub(before).saturating_mul(1000) / millis,
        };
        TrafficRates {
            read: rate(before.read, now.read),
            written: rate(before.written, now.written),
            replicated: rate(before.replicated, now.replicated),
            cloned: rate(before.cloned, now.cloned),
            scrubbed: rate(before.scrubbed, now.scrubbed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_MAX, TrafficWindow};
    use cairn_protocol::{TrafficRates, TrafficTotals};
    use cairn_types::Time;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    #[test]
    fn a_rate_is_of_the_last_seconds_and_what_came_before_is_forgotten() {
        let mut window = TrafficWindow::default();
        assert_eq!(window.rates(), TrafficRates::default());
        let mut read = 0;
        for tick in 0..400 {
            // A thousand bytes a second for fifty seconds, and then none.
            read += if tick < 200 { 250 } else { 0 };
            window.note(at(tick * 250), TrafficTotals { read, ..TrafficTotals::default() });
            assert!(window.kept.len() <= KEPT_MAX);
            if (10..200).contains(&tick) {
                assert!((990..=1010).contains(&window.rates().read), "{:?}", window.rates());
            }
        }
        assert_eq!(window.rates().read, 0);
    }
}
