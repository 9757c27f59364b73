//! Owners, groups, modes and times of files and directories.

use crate::cell::Cell;
use crate::error::Error;
use cairn_protocol::SetAttributes;
use cairn_types::{CellPath, Entry, MutationName, WallTime};

/// What a file or directory shall have from now on; what is none stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// The user whose it is.
    pub owner: Option<u32>,
    /// The group whose it is.
    pub group: Option<u32>,
    /// Who may do what with it, as chmod(2) has it.
    pub mode: Option<u32>,
    /// When it was changed last.
    pub modified: Option<WallTime>,
}

impl Cell {
    /// Gives a file or directory other attributes, and tells what it is now. Owners are changed by
    /// the superuser; groups by the owner, to such as the owner is in; modes by the owner; the time
    /// by the owner and whoever may write.
    ///
    /// # Errors
    /// `NotFound`; `PermissionDenied`; `Invalid` where there is no such mode, or nothing would
    /// change; `Busy` where not all masters of the cell can have attributes yet.
    pub async fn set_attributes(
        &self,
        path: &CellPath,
        change: AttributeChange,
    ) -> Result<Entry, Error> {
        let AttributeChange { owner, group, mode, modified } = change;
        let (mutation, path) = (MutationName::default(), path.clone());
        let ask = SetAttributes { mutation, path, owner, group, mode, modified };
        Ok(self.link.ask(ask).await?.entry)
    }
}
