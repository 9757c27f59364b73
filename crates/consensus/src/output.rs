//! What comes out of the group: records for the disk, and committed ones.

use bytes::Bytes;
use cairn_types::{LogIndex, Term};

/// Records to be made durable together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBatch {
    /// Given back to [`Consensus::durable`](crate::Consensus::durable).
    pub number: u64,
    /// Where each stands in the log, and its bytes: a [`StoredRecord`](crate::StoredRecord); at
    /// index zero the mark.
    pub records: Vec<(LogIndex, Bytes)>,
}

/// One committed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedRecord {
    /// Where it stands in the log.
    pub index: LogIndex,
    /// The term in which it was proposed.
    pub term: Term,
    /// The record; empty where the library made the entry.
    pub data: Bytes,
}
