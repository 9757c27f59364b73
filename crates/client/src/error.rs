//! What a caller is told when something did not work.

use cairn_protocol::{ErrorCode, Failure, Outcome};

/// One line for a person, a code for a program, and what may have happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(Failure);

impl Error {
    /// Why; stable over releases.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// What may have happened: nothing and another try may do (`NotDone`), nothing and none ever
    /// will (`Refused`), or nobody knows (`Unknown`; a time-out is this).
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The driver behind the library no longer runs.
    pub(crate) fn stopped() -> Self {
        Self(Failure::unknown(ErrorCode::Internal, "the client's loop has stopped"))
    }

    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self(Failure::refused(ErrorCode::Invalid, why))
    }

    /// The core gave another kind of output than the operation has.
    pub(crate) fn mismatched() -> Self {
        Self(Failure::unknown(ErrorCode::Internal, "the answer is not to what was asked"))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}
