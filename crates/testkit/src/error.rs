//! Why a process of the harness is not as it should be.

use std::io;
use thiserror::Error;

/// One line each.
#[derive(Debug, Error)]
pub enum HarnessError {
    /// A file or a process of this machine was refused.
    #[error("{doing}: {source}")]
    Local {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A server ended, or said nothing for long, before it was ready.
    #[error("{name} did not start: {why}")]
    NotReady {
        /// Which.
        name: String,
        /// The last line of its log.
        why: String,
    },
    /// A command failed.
    #[error("{command}: {why}")]
    Command {
        /// As a person writes it.
        command: String,
        /// Its own last line.
        why: String,
    },
    /// What was waited for did not come.
    #[error("waited {seconds} s in vain for {what}")]
    InVain {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
    },
}

impl HarnessError {
    /// `source` while `doing`.
    pub(crate) fn local(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Self::Local { doing, source }
    }
}
