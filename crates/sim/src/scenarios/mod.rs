//! Pinned scenarios: one for every bug that a seed has found, so that it is found again at once
//! should it come back.

use crate::report::RunConfig;

/// A run that once failed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What went wrong then.
    pub name: &'static str,
    /// How to run it.
    pub config: RunConfig,
}

/// All of them.
#[must_use]
pub fn pinned() -> Vec<Scenario> {
    Vec::new()
}
