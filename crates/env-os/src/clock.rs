//! The clocks of this machine (R4).

use cairn_env::Now;
use cairn_types::{Time, WallTime};
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock that rooms see: it runs while the machine sleeps and never jumps (R4).
#[must_use]
pub fn boot_time() -> Time {
    let told = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(told.tv_sec).expect("the boot-time clock starts at zero");
    let nanos = u64::try_from(told.tv_nsec).expect("a part of a second is not negative");
    Time::from_nanos(seconds * 1_000_000_000 + nanos)
}

/// The wall's time at one time of the clock that rooms see. It is looked up once a turn of the
/// loop and goes on with the other: to ask for it anew for each step would cost as much as the
/// step's own time, and nothing is decided by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wall {
    at: Time,
    wall: WallTime,
}

impl Wall {
    pub(crate) fn look() -> Self {
        // A wall clock set before 1970 is shown as 1970.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Self { at: boot_time(), wall: WallTime::from_millis(millis) }
    }

    /// Both clocks.
    pub(crate) fn now(&self) -> Now {
        let time = boot_time();
        let passed = u64::try_from(time.since(self.at).as_millis()).unwrap_or(u64::MAX);
        Now { time, wall: WallTime::from_millis(self.wall.as_millis().saturating_add(passed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::boot_time;

    #[test]
    fn boot_time_never_goes_back() {
        let first = boot_time();
        assert!((0..1000).all(|_| boot_time() >= first));
    }
}
