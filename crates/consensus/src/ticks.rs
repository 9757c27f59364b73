//! The group's measure of time.

use cairn_types::Time;
use std::time::Duration;

/// From one tick to the next.
pub const TICK: Duration = Duration::from_millis(100);
/// Ticks without a word from the primary until a member stands for election, at the least.
pub const ELECTION_TICKS: usize = 8;

/// A time in spans within which a member that is well is heard.
pub(crate) fn roughly(at: Time) -> u64 {
    at.as_nanos() / u64::try_from(4 * TICK.as_nanos()).expect("short")
}
