//! Time as it is handed to a state machine.

use crate::wire::{Field, WireError, WireType};
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on a machine's boot-time clock (R4), in nanoseconds. Only comparable on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

/// Wall-clock time in milliseconds since 1970, for people to read; nothing is decided by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// From milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

impl Field for WallTime {
    const PROTO: &'static str = "uint64";
    fn is_default(&self) -> bool {
        self.0 == 0
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        self.0.encode_present(tag, out);
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        self.0.merge(wire, input)
    }
}

crate::for_samples! {
    impl crate::sample::Sample for WallTime {
        fn sample(random: &mut crate::Random) -> Self {
            Self::from_millis(crate::sample::Sample::sample(random))
        }
    }
}
