//! Owners, groups, modes and times of files and directories (design §4).

use cairn_types::{CellPath, Entry, MutationName, WallTime};

cairn_types::message! {
    /// Gives a file or directory other attributes; what is none stays as it is.
    pub struct SetAttributes {
        1 => mutation: MutationName,
        2 => path: CellPath,
        3 => owner: Option<u32>,
        4 => group: Option<u32>,
        5 => mode: Option<u32>,
        /// When it was changed last, as everybody is told from now on.
        6 => modified: Option<WallTime>,
    }
}
cairn_types::message! {
    /// What it is now.
    pub struct SetAttributesAnswer { 1 => entry: Entry }
}
