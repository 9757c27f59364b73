//! How long things of one kind took: a few buckets, counted by one thread and read by any.
//!
//! - LA1: what is counted is never taken back; a reader may see a count that its sum lacks yet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The ends of the buckets, in microseconds; what took longer is counted in the last one.
pub const LATENCY_BUCKETS: [u64; 9] =
    [100, 500, 1_000, 5_000, 20_000, 100_000, 500_000, 2_000_000, 10_000_000];

/// Buckets with the one that has no end.
pub const BUCKET_COUNT: usize = LATENCY_BUCKETS.len() + 1;

/// Counts by bucket, and the sum.
#[derive(Debug, Default)]
pub struct LatencyMeter {
    counts: [AtomicU64; BUCKET_COUNT],
    sum_nanos: AtomicU64,
}

/// The same at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts {
    /// By bucket: how many took so long, and longer than the bucket before.
    pub counts: [u64; BUCKET_COUNT],
    /// Of all together, in nanoseconds.
    pub sum_nanos: u64,
}

impl LatencyMeter {
    /// One took so long.
    pub fn note(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BUCKETS.iter().position(|end| micros <= *end);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.counts[bucket.unwrap_or(LATENCY_BUCKETS.len())].fetch_add(1, Ordering::Relaxed);
    }

    /// As they are now.
    #[must_use]
    pub fn told(&self) -> LatencyCounts {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed));
        LatencyCounts { counts, sum_nanos: self.sum_nanos.load(Ordering::Relaxed) }
    }
}

impl LatencyCounts {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        let counts = std::array::from_fn(|bucket| self.counts[bucket] + other.counts[bucket]);
        Self { counts, sum_nanos: self.sum_nanos + other.sum_nanos }
    }
}

#[cfg(test)]
mod tests {
    use super::{LatencyCounts, LatencyMeter};
    use std::time::Duration;

    #[test]
    fn each_is_counted_once_in_the_bucket_that_it_ends_in() {
        let all = LatencyMeter::default();
        for micros in [0, 100, 101, 5_000, 10_000_000, 10_000_001] {
            all.note(Duration::from_micros(micros));
        }
        let told = all.told();
        assert_eq!(told.counts, [2, 1, 0, 1, 0, 0, 0, 0, 1, 1]);
        assert_eq!((told.count(), told.sum_nanos), (6, 20_005_202_000));
        let twice = told.with(&told);
        assert_eq!((twice.count(), LatencyCounts::default().count()), (12, 0));
    }
}
