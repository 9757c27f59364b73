//! Which records are in the operation log, in which order (Raft, behind our own words).
//!
//! ```text
//!   propose ──► take ──► (the disk) ──► durable ──► committed ──► applied
//! ```
//! Knows opaque bytes. The library's own encoding meets no disk and no net: a record is stored as
//! a [`StoredRecord`], written by our own codec.

mod group;
mod stored;

pub use group::{CommittedRecord, Consensus, ConsensusError, LogBatch};
pub use stored::StoredRecord;
