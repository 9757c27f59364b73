//! What is said where the operation log has no room: changes are refused, all else goes on.

use cairn_protocol::{ErrorCode, Failure};

/// What is wrong, and what a person can do about it.
pub(crate) const NO_ROOM: &str =
    "the master's disk has no space left for the operation log: make room on it; look-ups go on";

/// The answer to a change.
pub(crate) fn no_room() -> Failure {
    Failure::not_done(ErrorCode::DiskFull, NO_ROOM)
}
