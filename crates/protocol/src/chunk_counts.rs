//! How many chunks ail, and from what; kept as things change, so that to ask costs the same however
//! many chunks there are.

use crate::TrafficRates;

cairn_types::code! {
    /// Why a chunk that lacks replicas is not being copied.
    #[derive(Default)]
    pub enum WaitReason {
        /// Others come first: there are limits for the cell and for each server.
        #[default]
        Turn = 1,
        /// A copy came to nothing a moment ago.
        Rest = 2,
        /// Every live server has a replica already: another server is needed.
        NoServer = 3,
        /// No good replica is left to copy from, or none that others could join before a person
        /// decides (R28).
        NoSource = 4,
    }
}

impl WaitReason {
    /// Its name, which stays as it is.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Turn => "TURN",
            Self::Rest => "REST",
            Self::NoServer => "NO_SERVER",
            Self::NoSource => "NO_SOURCE",
        }
    }
}

cairn_types::message! {
    /// Chunks that wait alike.
    #[derive(Copy)]
    pub struct WaitingCount { 1 => why: WaitReason, 2 => count: u64 }
}

cairn_types::message! {
    /// Chunks by what ails them; one chunk may be counted under several.
    pub struct ChunkCounts {
        /// Fewer good replicas on servers that are not dead than the goal.
        1 => below_goal: u64,
        /// Of these, with one good replica left.
        2 => one_left: u64,
        /// Of these, being copied.
        3 => copied: u64,
        /// The others of these, by what they wait for.
        4 => waiting: Vec<WaitingCount>,
        /// With a replica whose blocks cannot be read, or do not match their checksums.
        5 => damaged: u64,
        /// With a replica that may have lost bytes in a power failure.
        6 => suspect: u64,
        /// That no server has undamaged which is not dead.
        7 => unavailable: u64,
        /// With a replica that the others have gone on without.
        8 => stale: u64,
        /// On servers, and unknown to the master's log.
        9 => unknown: u64,
        /// The master has started, and servers may still tell what they hold: nothing is known of
        /// chunks yet.
        10 => gathering: bool,
        /// Not every chunk was looked at since a server died or came: there may be more of each
        /// count.
        11 => counting: bool,
        /// Of streams, that have lost some of what was committed, and are no holes yet (R41).
        12 => lost: u64,
    }
}

cairn_types::message! {
    /// How a cell's chunks stand, and what its live servers move.
    pub struct CellNow { 1 => counts: ChunkCounts, 2 => traffic: TrafficRates }
}
