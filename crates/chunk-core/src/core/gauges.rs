//! What a chunkserver's decisions tell of themselves, for people.

use crate::core::ChunkCore;
use cairn_protocol::{ScrubProgress, TrafficTotals};
use cairn_types::{ServerId, Term};

/// As it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkGauges {
    /// The server's id.
    pub server: ServerId,
    /// A master has taken it in, and answers.
    pub is_joined: bool,
    /// The highest term heard of.
    pub term: Term,
    /// Replicas that it holds.
    pub replica_count: u64,
    /// Bytes moved since it started.
    pub traffic: TrafficTotals,
    /// How far it is with verifying what it stores.
    pub scrub: ScrubProgress,
}

impl ChunkCore {
    /// What it tells of itself, for people.
    #[must_use]
    pub fn gauges(&self) -> ChunkGauges {
        let (is_joined, term) = self.link.joined();
        let scrub = self.scrub.progress();
        assert!(scrub.verified <= scrub.total, "what is verified is part of what there is");
        ChunkGauges {
            server: self.me.at.server,
            is_joined,
            term,
            replica_count: self.table.count() as u64,
            traffic: self.traffic.totals(),
            scrub,
        }
    }
}
