//! How much lies below a directory, and how much may.

use crate::cell::Cell;
use crate::error::Error;
use cairn_protocol::{GetQuota, GetQuotaAnswer, SetQuota};
use cairn_types::{CellPath, MutationName};

/// How a directory's quota shall be from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaChange {
    /// Files and directories that may lie below it; none: as before.
    pub names: Option<u64>,
    /// Bytes that these may be charged; none: as before. A chunk that is being written is charged
    /// whole.
    pub bytes: Option<u64>,
    /// The limits that it had are dropped first.
    pub clears: bool,
}

impl Cell {
    /// What lies below a directory, and which quotas count it. Costs the same however much it is.
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory`.
    pub async fn quota(&self, path: &CellPath) -> Result<GetQuotaAnswer, Error> {
        self.link.ask(GetQuota { path: path.clone() }).await
    }

    /// Limits what may lie below a directory, or does so no more. What is there stays, however
    /// much it is.
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory`; `Invalid` where nothing would change.
    pub async fn set_quota(&self, path: &CellPath, change: QuotaChange) -> Result<(), Error> {
        let QuotaChange { names, bytes, clears } = change;
        let (mutation, path) = (MutationName::default(), path.clone());
        self.link.ask(SetQuota { mutation, path, names, bytes, clears }).await?;
        Ok(())
    }
}
