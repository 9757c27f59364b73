//! Why nothing can be done for a place right now, and what whoever is tired of waiting is told.

use cairn_protocol::{ErrorCode, Failure};

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitCause {
    code: ErrorCode,
    why: String,
}

impl WaitCause {
    /// There are servers enough, and they are full: trying again does not help, room does.
    pub(crate) fn full(why: String) -> Self {
        Self { code: ErrorCode::DiskFull, why }
    }

    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// What somebody is answered who waits for `what`.
    pub(crate) fn failure(&self, what: impl std::fmt::Display) -> Failure {
        Failure::not_done(self.code, format!("{what}: {}", self.why))
    }
}

/// It passes by itself.
impl<T: Into<String>> From<T> for WaitCause {
    fn from(why: T) -> Self {
        Self { code: ErrorCode::Busy, why: why.into() }
    }
}
