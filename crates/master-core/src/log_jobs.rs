//! The contract of a master's disk work.

use crate::state::State;
use bytes::Bytes;
use cairn_env::DiskError;
use cairn_pagetree::{Backing, Damaged, FileId};
use cairn_protocol::FetchCheckpoint;
use cairn_types::LogIndex;
use std::fmt;
use std::sync::Arc;

/// What a master asks of its disk.
#[derive(Clone)]
pub enum LogJob {
    /// Appends records to the operation log and flushes; many at once share the flush (§2.6.3).
    /// Each names its index; one at or below an earlier one's takes the place of that one and of
    /// all after it (what a new primary master overwrites).
    Append(Vec<(LogIndex, Bytes)>),
    /// Takes the room that the operation log needs next, on a disk that was full.
    TakeRoom,
    /// Makes a checkpoint of this state, beside running work; then removes what is older than the
    /// kept ones.
    Checkpoint(Box<State>),
    /// Frees a state that is no longer needed: giving back the memory of millions of pages takes
    /// longer than a look-up may.
    Free(Box<State>),
    /// Keeps the checkpoints that have a damaged page of a page file from being read again.
    MarkDamaged {
        /// The number of the page file.
        page_file: u64,
        /// What is wrong with which page.
        damaged: Damaged,
    },
    /// Reads a piece of a checkpoint for another master: of its pages, or its root.
    ReadCheckpoint(FetchCheckpoint),
    /// Keeps a piece of another master's checkpoint.
    KeepPiece {
        /// Where in the page file.
        offset: u64,
        /// What.
        bytes: Bytes,
    },
    /// Makes what has come a checkpoint of this master, by this root file.
    TakeOver(Bytes),
}

impl fmt::Debug for LogJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(records) => f.debug_tuple("Append").field(records).finish(),
            Self::TakeRoom => f.write_str("TakeRoom"),
            // A state is too much to read.
            Self::Checkpoint(state) => f.debug_tuple("Checkpoint").field(&state.applied()).finish(),
            Self::Free(state) => f.debug_tuple("Free").field(&state.applied()).finish(),
            Self::MarkDamaged { page_file, damaged } => {
                let mut fields = f.debug_struct("MarkDamaged");
                fields.field("page_file", page_file).field("damaged", damaged).finish()
            }
            Self::ReadCheckpoint(fetch) => f.debug_tuple("ReadCheckpoint").field(fetch).finish(),
            Self::KeepPiece { offset, .. } => {
                f.debug_struct("KeepPiece").field("offset", offset).finish_non_exhaustive()
            }
            Self::TakeOver(_) => f.write_str("TakeOver"),
        }
    }
}

/// What came of a [`LogJob`].
#[derive(Clone, Debug)]
pub enum LogDone {
    /// Durable.
    Appended {
        /// Whether the log has the room that it needs next.
        has_room: bool,
    },
    /// Whether the log has the room that it needs next.
    Room(bool),
    /// Durable.
    Checkpointed(Checkpointed),
    /// The checkpoint was not made: a page that it had to copy is not what was written.
    Damaged(Damaged),
    /// The memory is free.
    Freed,
    /// Durable.
    MarkedDamaged,
    /// A piece; none where that checkpoint is not there (any more).
    Piece(Option<Bytes>),
    /// Durable.
    Kept,
    /// Durable, and the state that it has; none where it does not read.
    TakenOver(Option<TakenOver>),
}

/// A checkpoint that was another master's.
#[derive(Clone)]
pub struct TakenOver {
    /// Its state.
    pub state: Box<State>,
    /// The number of the page file that the state reads from.
    pub page_file: u64,
}

impl fmt::Debug for TakenOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("TakenOver");
        fields.field("applied", &self.state.applied()).field("page_file", &self.page_file).finish()
    }
}

/// A checkpoint that was made.
#[derive(Clone)]
pub struct Checkpointed {
    /// The last record that it contains.
    pub index: LogIndex,
    /// Bytes that it added to its page file.
    pub size: u64,
    /// The number of that page file.
    pub page_file: u64,
    /// Where the live state had better read its pages from now on.
    pub to_adopt: Option<(Arc<dyn Backing>, FileId)>,
}

impl fmt::Debug for Checkpointed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.to_adopt.as_ref().map(|(_, file)| file);
        let mut fields = f.debug_struct("Checkpointed");
        fields.field("index", &self.index).field("size", &self.size);
        fields.field("page_file", &self.page_file).field("to_adopt", &file).finish()
    }
}

/// What comes of a [`LogJob`].
pub type LogResult = Result<LogDone, DiskError>;
