//! The clocks of this machine (R4).

use cairn_env::Now;
use cairn_types::{Time, WallTime};
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock that drivers see: it runs while the machine sleeps and never jumps (R4).
#[must_use]
pub fn boot_time() -> Time {
    let told = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(told.tv_sec).expect("the boot-time clock starts at zero");
    let nanos = u64::try_from(told.tv_nsec).expect("a part of a second is not negative");
    Time::from_nanos(seconds * 1_000_000_000 + nanos)
}

/// The time of day, for people; a clock set before 1970 is shown as 1970.
#[must_use]
pub fn wall_time() -> WallTime {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_millis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
}

/// The same in microseconds since 1970.
pub(crate) fn wall_time_us() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_micros()).unwrap_or(u64::MAX)
}

/// The wall's time at one time of the clock that drivers see. It is looked at once a turn of the
/// loop and goes on with the other, so that a step reads one clock instead of two: nothing is
/// decided by the wall's that a turn more or less would change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wall {
    at: Time,
    /// Microseconds since 1970.
    wall_us: u64,
}

impl Wall {
    pub(crate) fn look() -> Self {
        Self { at: boot_time(), wall_us: wall_time_us() }
    }

    /// Microseconds from the clock that drivers see to the wall's: what is added to a time of the
    /// one, around zero, is that of the other.
    pub(crate) fn offset_us(&self) -> u64 {
        self.wall_us.wrapping_sub(self.at.as_nanos() / 1000)
    }

    /// Both clocks.
    pub(crate) fn now(&self) -> Now {
        let time = boot_time();
        let passed_us = u64::try_from(time.since(self.at).as_micros()).unwrap_or(u64::MAX);
        Now { time, wall: WallTime::from_millis(self.wall_us.saturating_add(passed_us) / 1000) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Wall, boot_time};
    use cairn_types::Time;

    #[test]
    fn boot_time_never_goes_back() {
        let first = boot_time();
        assert!((0..1000).all(|_| boot_time() >= first));
    }

    #[test]
    fn the_wall_goes_on_with_the_clock_that_drivers_see() {
        let wall = Wall::look();
        let then = Wall { at: Time::from_nanos(wall.at.as_nanos() - 5_000_000_000), ..wall };
        let (now, later) = (wall.now(), then.now());
        assert!(now.time <= later.time);
        let ahead = later.wall.as_millis() - now.wall.as_millis();
        assert!(
            ahead >= 5000 && u128::from(ahead) <= 5001 + later.time.since(now.time).as_millis()
        );
    }
}
