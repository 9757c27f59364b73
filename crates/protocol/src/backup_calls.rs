//! Backups of a cell's metadata, taken from a master while it runs (design §4).
//!
//! ```text
//!   BackUp ──► a checkpoint as of now is made ──► its index ──► ReadBackup: the root, then pages
//! ```

use bytes::Bytes;
use cairn_types::LogIndex;

cairn_types::message! {
    /// Asks a master, whatever it is to its group, for a checkpoint of all that it has applied.
    pub struct BackUp { }
}
cairn_types::message! {
    /// It is there, durably, as of this record; for a while.
    pub struct BackUpAnswer { 1 => index: LogIndex }
}

cairn_types::message! {
    /// A piece of such a checkpoint, as its files are: of the pages, or with `size` zero the root.
    pub struct ReadBackup { 1 => index: LogIndex, 2 => offset: u64, 3 => size: u64 }
}
cairn_types::message! {
    /// The piece, no more than was asked for, and its checksum.
    pub struct ReadBackupAnswer { 1 => bytes: Bytes, 2 => checksum: u32 }
}
