//! True time, and each machine's own idea of it (R4).
//!
//! - K1: a machine's boot-time clock runs at its own constant rate and never steps back; it starts
//!   anew at a boot and goes on over a mere kill.
//! - K2: its wall clock may jump; nothing may be decided by it.

use cairn_env::Now;
use cairn_types::{Random, Time, WallTime};
use std::time::Duration;

/// True time in nanoseconds since the world began. No driver ever sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorldTime(pub u64);

impl WorldTime {
    /// That much later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0 + u64::try_from(span.as_nanos()).expect("spans of a run fit"))
    }

    /// In seconds, for people.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// Two clocks drift apart by at most 1 % (R4), so each stays within half of that.
const DRIFT_PPM_MAX: u64 = 4_900;
const MILLION: i128 = 1_000_000;

/// One machine's clocks.
#[derive(Clone, Debug)]
pub struct SimClock {
    offset: i128,
    drift_ppm: i128,
    wall_offset_ms: i64,
}

impl SimClock {
    /// A clock that some machine may have.
    #[must_use]
    pub fn draw(random: &mut Random) -> Self {
        let drift = i128::from(random.below(2 * DRIFT_PPM_MAX + 1)) - i128::from(DRIFT_PPM_MAX);
        let mut clock = Self { offset: 0, drift_ppm: drift, wall_offset_ms: 1_700_000_000_000 };
        clock.boot(WorldTime(0), random);
        clock
    }

    /// From the beginning it runs as fast as any may, or as slow (R4).
    pub fn run_at_bound(&mut self, is_fast: bool) {
        let bound = i128::from(DRIFT_PPM_MAX);
        self.drift_ppm = if is_fast { bound } else { -bound };
    }

    /// The machine boots: its boot-time clock starts near zero (K1).
    pub fn boot(&mut self, now: WorldTime, random: &mut Random) {
        let uptime = i128::from(random.below(1_000_000_000_000));
        self.offset = uptime - self.scaled(now);
    }

    /// The wall clock jumps (K2).
    pub fn jump_wall(&mut self, by_ms: i64) {
        self.wall_offset_ms = (self.wall_offset_ms + by_ms).max(0);
    }

    fn scaled(&self, now: WorldTime) -> i128 {
        i128::from(now.0) * (MILLION + self.drift_ppm) / MILLION
    }

    /// What this machine's clocks say at a true time.
    #[must_use]
    pub fn now(&self, now: WorldTime) -> Now {
        let local = u64::try_from(self.scaled(now) + self.offset).unwrap_or(0);
        let wall = self.wall_offset_ms + i64::try_from(now.0 / 1_000_000).expect("a short run");
        Now {
            time: Time::from_nanos(local),
            wall: WallTime::from_millis(u64::try_from(wall).unwrap_or(0)),
        }
    }

    /// The first true time at which this machine's clock says `local`; the end of time where it
    /// never will.
    #[must_use]
    pub fn true_time(&self, local: Time) -> WorldTime {
        let span = (i128::from(local.as_nanos()) - self.offset).max(0);
        let rate = MILLION + self.drift_ppm;
        let exact = (span * MILLION + rate - 1) / rate;
        WorldTime(u64::try_from(exact).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::{SimClock, WorldTime};
    use cairn_types::Random;
    use std::time::Duration;

    #[test]
    fn two_clocks_at_the_bounds_are_nearly_a_hundredth_apart() {
        let clocks = [true, false].map(|is_fast| {
            let mut clock = SimClock::draw(&mut Random::new(7));
            clock.run_at_bound(is_fast);
            clock
        });
        let later = WorldTime(0).after(Duration::from_secs(100));
        let [fast, slow] =
            clocks.map(|it| it.now(later).time.since(it.now(WorldTime(0)).time).as_millis());
        assert_eq!((fast, slow), (100_490, 99_510));
    }

    #[test]
    fn a_local_time_is_reached_at_its_true_time_and_not_before() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let clock = SimClock::draw(&mut random);
            let at = WorldTime(random.below(100_000_000_000) + 1);
            let local = clock.now(at).time;
            let back = clock.true_time(local);
            assert!(back <= at && clock.now(back).time >= local);
            assert!(back.0 == 0 || clock.now(WorldTime(back.0 - 1)).time < local);
        }
    }
}
