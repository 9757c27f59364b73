//! Snapshots: copies of files and trees at one instant, without their bytes being copied (GFS
//! §3.4).

use cairn_types::{CellPath, ChunkIndex, Entry, EntryId, MutationName};

cairn_types::message! {
    /// Takes a snapshot of a file, or of a directory with all below it, as it is at one instant
    /// between the question and the answer. What bears the new name is a tree like any other.
    pub struct Snapshot {
        1 => mutation: MutationName,
        2 => from: CellPath,
        /// A name that is free, in a directory that is there; also below `from`.
        3 => to: CellPath,
        /// None: the copy is whose the source is, and kept as that is.
        4 => anew: Option<MadeAnew>,
    }
}
cairn_types::message! {
    /// The copy of a file is to be as if it had been made at its new name, and has the source's
    /// bytes: it belongs to who asks, was changed now, and says nothing of a policy. Who may read
    /// the source may copy it so. Refused where what is made there is kept otherwise than the
    /// source is: a chunk that both have cannot be kept in two ways.
    pub struct MadeAnew {
        /// None: 0644.
        1 => mode: Option<u32>,
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

/// Files that one [`CountShared`] asks about at most.
pub const SHARED_FILES_MAX: usize = 1000;

cairn_types::message! {
    /// A file, and the first of its chunks that is to be looked at.
    #[derive(Copy)]
    pub struct SharedPart { 1 => file: EntryId, 2 => first: ChunkIndex }
}
cairn_types::message! {
    /// Which bytes of files stand in chunks that other files have too.
    pub struct CountShared { 1 => files: Vec<SharedPart> }
}
cairn_types::message! {
    /// Of one file.
    #[derive(Copy)]
    pub struct SharedSum {
        /// Bytes of the chunks that were looked at and that other files have too.
        1 => shared: u64,
        /// Where to go on, where not all were looked at: a chunk, of a stream an offset.
        2 => next: Option<ChunkIndex>,
    }
}
cairn_types::message! {
    /// Of as many of the files as could be looked at in one turn, in their order; of the last
    /// perhaps not all.
    pub struct CountSharedAnswer { 1 => files: Vec<SharedSum> }
}
