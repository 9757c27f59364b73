//! How large the bundles of a producer become that have to wait: as large as is worth it.
//!
//! A commit costs the same for a large bundle as for a small one, so who is fast sends large ones.
//! On a slow line they would only be late: each is pushed and committed as a whole, and at the 4
//! MB/s that are left where three chains share a link of 100 Mbit/s one of 8 MiB takes two seconds.

use std::time::{Duration, Instant};

/// Any bundle may have so many bytes.
pub(crate) const BUNDLE_SIZE_WANTED: usize = 1 << 20;
/// A larger one may have what is committed in this time, as the rate was over the other.
const BUNDLE_TIME: Duration = Duration::from_millis(20);
const LOOKED_OVER: Duration = Duration::from_millis(100);

/// What was committed of late.
#[derive(Debug)]
pub(crate) struct BundleRate {
    since: Instant,
    size: usize,
    limit: usize,
}

impl BundleRate {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, size: 0, limit: BUNDLE_SIZE_WANTED }
    }

    /// A bundle of so many bytes is committed.
    pub(crate) fn add(&mut self, now: Instant, size: usize) {
        self.size = self.size.saturating_add(size);
        let took = now.saturating_duration_since(self.since);
        if took >= LOOKED_OVER {
            let in_time = self.size as f64 * BUNDLE_TIME.div_duration_f64(took);
            let limit = (in_time as usize).max(BUNDLE_SIZE_WANTED);
            *self = Self { since: now, size: 0, limit };
        }
    }

    /// The most bytes of the next bundle, where the producer sets `most`.
    pub(crate) fn limit(&self, most: usize) -> usize {
        self.limit.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::{BUNDLE_SIZE_WANTED, BundleRate};
    use std::time::{Duration, Instant};

    #[test]
    fn who_is_fast_sends_larger_bundles_and_who_is_slow_no_larger_ones_than_are_wanted() {
        let mut now = Instant::now();
        let mut rate = BundleRate::new(now);
        let mut limit = |bundles: usize, each: Duration| {
            for _ in 0..bundles {
                now += each;
                rate.add(now, BUNDLE_SIZE_WANTED);
            }
            rate.limit(8 << 20)
        };
        assert_eq!(limit(1, Duration::from_millis(1)), BUNDLE_SIZE_WANTED, "too short a look");
        let fast = limit(1_000, Duration::from_millis(4));
        assert!((4 << 20..=6 << 20).contains(&fast), "{fast}");
        assert_eq!(limit(1_000, Duration::from_millis(1)), 8 << 20, "and no more than it may");
        assert_eq!(limit(20, Duration::from_millis(260)), BUNDLE_SIZE_WANTED, "a slow line");
    }
}
