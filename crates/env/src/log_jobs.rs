//! The contract of a master's disk work.

use bytes::Bytes;
use cairn_types::LogIndex;

/// What a master asks of its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogJob {
    /// Appends records to the operation log and flushes; many at once share the flush (§2.6.3).
    /// Each names its index; one at or below an earlier one's takes the place of that one and of
    /// all after it (what a new primary master overwrites).
    Append(Vec<(LogIndex, Bytes)>),
    /// Makes a checkpoint of the state as of `index`, beside running work, by replaying the log
    /// onto the last one; then removes what is older than the kept ones.
    Checkpoint {
        /// The last record that it contains.
        index: LogIndex,
    },
}

/// What came of a [`LogJob`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDone {
    /// Durable.
    Appended,
    /// Durable, as of this record.
    Checkpointed {
        /// The last record that it contains.
        index: LogIndex,
        /// Its size in bytes.
        size: u64,
    },
}
