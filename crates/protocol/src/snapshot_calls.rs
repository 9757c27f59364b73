//! Snapshots: copies of files and trees at one instant, without their bytes being copied (GFS
//! §3.4).

use cairn_types::{CellPath, Entry, MutationName};

cairn_types::message! {
    /// Takes a snapshot of a file, or of a directory with all below it, as it is at one instant
    /// between the question and the answer. What bears the new name is a tree like any other.
    pub struct Snapshot {
        1 => mutation: MutationName,
        2 => from: CellPath,
        /// A name that is free, in a directory that is there; also below `from`.
        3 => to: CellPath,
    }
}
cairn_types::message! {
    /// The top of the copy.
    pub struct SnapshotAnswer {
        1 => entry: Entry,
        /// Files and directories, the top too; a very large file counts more than once.
        2 => entries: u64,
    }
}
