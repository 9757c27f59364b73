//! How a job gets on: what it has done since it began, how fast of late, and how long the rest
//! will take.
//!
//! - JP1: what is kept is bounded, however long a job runs.

use cairn_env::Now;
use cairn_protocol::{JobState, JobStatus};
use cairn_types::{Time, WallTime};
use std::collections::VecDeque;
use std::time::Duration;

/// Moments that are kept (JP1).
const MOMENTS_MAX: usize = 32;
/// Between two of them.
const MOMENT: Duration = Duration::from_secs(1);

/// What a job has done at some moments.
#[derive(Debug, Default)]
pub(crate) struct JobPace {
    began: Option<WallTime>,
    done: u64,
    moments: VecDeque<(Time, u64)>,
}

impl JobPace {
    /// The job is at work; for how long is counted from the first time that this is said.
    pub(crate) fn is_at_work(&mut self, now: Now) {
        if self.began.is_none() {
            (self.began, self.done) = (Some(now.wall), 0);
            self.moments = VecDeque::from([(now.time, 0)]);
        }
    }

    /// It has nothing to do.
    pub(crate) fn rests(&mut self) {
        *self = Self::default();
    }

    /// It has done so much more.
    pub(crate) fn note(&mut self, now: Now, units: u64) {
        self.is_at_work(now);
        self.done += units;
        let last = self.moments.back().expect("it is at work").0;
        if now.time >= last + MOMENT {
            if self.moments.len() == MOMENTS_MAX {
                self.moments.pop_front();
            }
            self.moments.push_back((now.time, self.done));
        }
        assert!(self.moments.len() <= MOMENTS_MAX, "what is kept is bounded (JP1)");
    }

    /// Thousandths of a unit in a second, of late.
    fn rate_milli(&self, now: Now) -> u64 {
        let Some((from, before)) = self.moments.front() else { return 0 };
        let passed = u64::try_from(now.time.since(*from).as_millis()).unwrap_or(u64::MAX);
        assert!(self.done >= *before, "what is done stays done");
        (self.done - before).saturating_mul(1_000_000) / passed.max(1)
    }

    /// Fills in what this knows of a job of which so much is left.
    pub(crate) fn tell(&self, now: Now, left: u64, status: JobStatus) -> JobStatus {
        let rate_milli = self.rate_milli(now);
        let left_ms = left.saturating_mul(1_000_000).checked_div(rate_milli);
        let is_left = left_ms.filter(|_| status.state == JobState::Running);
        JobStatus {
            done: self.done,
            total: self.done.saturating_add(left),
            rate_milli,
            left_ms: is_left,
            began: self.began.unwrap_or(now.wall),
            ..status
        }
    }
}

#[cfg(test)]
mod tests {
    use super::JobPace;
    use cairn_env::Now;
    use cairn_protocol::{JobState, JobStatus};
    use cairn_types::{Time, WallTime};
    use std::time::Duration;

    fn at(seconds: u64) -> Now {
        let wall = WallTime::from_millis(1_000_000 + 1000 * seconds);
        Now { time: Time::default() + Duration::from_secs(seconds), wall }
    }

    #[test]
    fn a_job_tells_what_it_did_how_fast_of_late_and_how_long_the_rest_takes() {
        let mut pace = JobPace::default();
        pace.is_at_work(at(10));
        let told = |pace: &JobPace, second, left| {
            let status = pace.tell(at(second), left, JobStatus::default());
            (status.done, status.total, status.rate_milli, status.left_ms, status.began)
        };
        let began = at(10).wall;
        assert_eq!(told(&pace, 10, 7), (0, 7, 0, None, began));
        (11..=20).for_each(|second| pace.note(at(second), 2));
        assert_eq!(told(&pace, 20, 6), (20, 26, 2000, Some(3000), began));
        // What was long ago counts no more, and nothing done makes it slower.
        (21..=100).for_each(|second| pace.note(at(second), 1));
        assert_eq!(told(&pace, 100, 10), (100, 110, 1000, Some(10_000), began));
        assert!(told(&pace, 200, 10).2 < 500);
        let waiting = JobStatus { state: JobState::Waiting, ..JobStatus::default() };
        assert_eq!(pace.tell(at(100), 10, waiting).left_ms, None, "nobody knows");
        pace.rests();
        assert_eq!(told(&pace, 300, 1), (0, 1, 0, None, at(300).wall));
    }
}
