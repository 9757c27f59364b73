//! What is said where the operation log has no room: changes are refused, all else goes on.

use cairn_protocol::{ErrorCode, Failure};

/// What is wrong, and what a person can do about it.
pub(crate) const NO_ROOM: &str =
    "the master's disk has no space left for the operation log: make room on it; look-ups go on";

/// Whether the operation log has room for what comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogSpace {
    /// It has.
    #[default]
    Enough,
    /// It has none.
    None,
    /// It has none here; another member of the group may have some, and take over.
    NoneHere,
}

impl LogSpace {
    /// Whether there is none.
    pub(crate) fn is_none(self) -> bool {
        self != Self::Enough
    }

    /// Why a change is refused: for good, or to be tried again.
    #[must_use]
    pub fn refusal(self) -> Option<Failure> {
        match self {
            Self::Enough => None,
            Self::None => Some(Failure::not_done(ErrorCode::DiskFull, NO_ROOM)),
            Self::NoneHere => Some(Failure::not_done(ErrorCode::Busy, NO_ROOM)),
        }
    }
}
