//! The group's measure of time.

use std::time::Duration;

/// From one tick to the next.
pub const TICK: Duration = Duration::from_millis(100);
/// Ticks without a word from the primary until a member stands for election, at the least.
pub const ELECTION_TICKS: usize = 8;
