//! Who of all callers one is, and how its job may end.

/// Which caller of how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerId {
    pub(crate) process: u64,
    pub(crate) caller: u64,
    /// Its number among all.
    pub(crate) number: u64,
    /// How many there are.
    pub(crate) of: u64,
}

/// Why a job ended early.
pub(crate) type JobError = crate::error::BenchCause;
