//! Why a bench came to nothing: what was being done, and what was in the way.

use cairn_env_os::{BindError, LaunchError};
use cairn_master::SeedError;
use cairn_testkit::HarnessError;
use cairn_types::PathError;
use std::io;
use thiserror::Error;

/// What was in the way.
#[derive(Debug, Error)]
pub enum BenchCause {
    /// A file or a process of this machine.
    #[error(transparent)]
    Local(#[from] io::Error),
    /// The cell that is measured.
    #[error(transparent)]
    Cell(#[from] cairn_client::Error),
    /// A process of it.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// Something that has to be fetched first.
    #[error("{why}")]
    Missing {
        /// What.
        why: String,
        /// How to get it.
        advice: String,
    },
    /// The cell gave a wrong answer.
    #[error("{0}")]
    WrongAnswer(String),
    /// A part of the bench failed.
    #[error("{0}")]
    Part(String),
}

impl From<PathError> for BenchCause {
    fn from(error: PathError) -> Self {
        Self::Part(error.to_string())
    }
}

impl From<BindError> for BenchCause {
    fn from(error: BindError) -> Self {
        Self::Local(io::Error::other(error.to_string()))
    }
}

impl From<LaunchError> for BenchCause {
    fn from(error: LaunchError) -> Self {
        Self::Local(io::Error::other(error.to_string()))
    }
}

impl From<SeedError> for BenchCause {
    fn from(error: SeedError) -> Self {
        Self::Local(io::Error::other(error.to_string()))
    }
}

impl From<tokio::task::JoinError> for BenchCause {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Part(error.to_string())
    }
}

/// A failure, with what was being done.
#[derive(Debug, Error)]
#[error("{doing}: {cause}")]
pub struct BenchError {
    /// What was being done.
    pub doing: String,
    /// Why it failed.
    #[source]
    pub cause: BenchCause,
}

impl BenchError {
    pub(crate) fn new(doing: impl Into<String>, cause: impl Into<BenchCause>) -> Self {
        Self { doing: doing.into(), cause: cause.into() }
    }
}

/// Says what was being done when a result turns out to be a failure.
pub(crate) trait Doing<T> {
    /// `what` is asked for only on failure.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, BenchError>;
}

impl<T, E: Into<BenchCause>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, BenchError> {
        self.map_err(|error| BenchError::new(what(), error))
    }
}
