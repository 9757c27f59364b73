//! How fast fsck reads: so that clients notice little of it, where somebody says so.

use cairn_types::Time;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes a second of all that is read at once.
#[derive(Debug)]
pub(crate) struct ReadPace {
    /// None: as fast as it goes.
    rate: Option<u64>,
    began: Instant,
    /// When the next part may be read; what was not used before is not made up for.
    next: Mutex<Time>,
}

impl ReadPace {
    pub(crate) fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.filter(|rate| *rate > 0), began: Instant::now(), next: Mutex::default() }
    }

    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// So many bytes were read: returns when the next may be.
    pub(crate) async fn took(&self, size: u64) {
        tokio::time::sleep(self.rest(Time::default() + self.began.elapsed(), size)).await;
    }

    fn rest(&self, now: Time, size: u64) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let nanos = u128::from(size) * 1_000_000_000 / u128::from(rate);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = now.max(*next) + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        next.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::ReadPace;
    use cairn_types::Time;
    use std::time::Duration;

    #[test]
    fn several_at_once_keep_the_rate_together_and_what_was_not_used_is_not_made_up_for() {
        let pace = ReadPace::new(Some(1000));
        let at = |millis| Time::default() + Duration::from_millis(millis);
        let rest = |millis, size| pace.rest(at(millis), size).as_millis();
        assert_eq!([rest(0, 500), rest(0, 500), rest(400, 100)], [500, 1000, 700]);
        assert_eq!(rest(5000, 100), 100, "it stood still meanwhile");
        let none = ReadPace::new(None);
        assert_eq!(none.rest(at(0), u64::MAX), Duration::ZERO);
    }
}
