//! How files are kept: what directories and files say of it.

use crate::cell::Cell;
use crate::error::Error;
use cairn_protocol::{GetPolicy, GetPolicyAnswer, SetPolicy};
use cairn_types::{CellPath, MutationName, PolicyPartNames, PolicyParts};

/// What a directory or file shall say from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyChange {
    /// Parts that it says.
    pub set: PolicyParts,
    /// Parts that it says no more: the nearest directory above that does counts, or the cell.
    pub inherit: PolicyPartNames,
    /// Files that exist below a directory get what they would get, were they made now.
    pub apply: bool,
}

impl Cell {
    /// How a file is kept, or what is made in a directory; and who says each part of it.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    pub async fn policy(&self, path: &CellPath) -> Result<GetPolicyAnswer, Error> {
        self.link.ask(GetPolicy { path: path.clone() }).await
    }

    /// Has a directory or file say something else. A file and its chunks are brought to it at
    /// once; what is left to do, where `apply` asks for more, is answered as the id of a job.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` where no file can have it, or nothing would change.
    pub async fn set_policy(
        &self,
        path: &CellPath,
        change: PolicyChange,
    ) -> Result<Option<String>, Error> {
        let PolicyChange { set, inherit, apply } = change;
        let (mutation, path) = (MutationName::default(), path.clone());
        let answer = self.link.ask(SetPolicy { mutation, path, set, inherit, apply }).await?;
        Ok(Some(answer.job).filter(|job| !job.is_empty()))
    }
}
