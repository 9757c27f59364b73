//! Which records are in the operation log, in which order (Raft, behind our own words).
//!
//! ```text
//!   propose ──► take ──► (the disk) ──► durable ──► committed ──► applied
//!                  └──► messages ──► (the other members) ──► receive
//! ```
//! Knows opaque bytes, ticks and the time that it is handed. The library's own encoding meets no
//! disk and no net: a record is stored as a [`StoredRecord`], a message is a
//! [`ConsensusMessage`](cairn_protocol::ConsensusMessage), both written by our own codec.

mod beginning;
mod checkpoint_offers;
mod consensus_error;
mod election_clock;
mod entries;
mod group;
#[cfg(test)]
mod group_test;
mod held_messages;
mod leadership;
mod library_config;
mod marks;
mod member_log;
mod membership;
mod messages;
mod output;
mod stored;
mod ticks;

pub use beginning::Beginning;
pub use checkpoint_offers::CheckpointOffer;
pub use consensus_error::ConsensusError;
pub use group::Consensus;
pub use output::{CommittedRecord, LogBatch};
pub use stored::StoredRecord;
pub use ticks::{ELECTION_TICKS, TICK};
