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

/// Both clocks.
#[must_use]
pub fn now() -> Now {
    // A wall clock set before 1970 is shown as 1970; nothing is decided by it.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    Now { time: boot_time(), wall: WallTime::from_millis(millis) }
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
