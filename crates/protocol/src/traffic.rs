//! Bytes that a server moves, and for whom: heartbeats tell how many since it started, and the
//! master makes rates of them for people.

cairn_types::message! {
    /// Bytes since a server started.
    #[derive(Copy)]
    pub struct TrafficTotals {
        /// Read by clients.
        1 => read: u64,
        /// Written and appended by clients: counted at the primary alone.
        2 => written: u64,
        /// The same, taken over from a primary.
        3 => replicated: u64,
        /// Copied from other servers by repair.
        4 => cloned: u64,
        /// Verified by the scrub.
        5 => scrubbed: u64,
    }
}

cairn_types::message! {
    /// The same a second, over the last ten or so.
    #[derive(Copy)]
    pub struct TrafficRates {
        1 => read: u64,
        2 => written: u64,
        3 => replicated: u64,
        4 => cloned: u64,
        5 => scrubbed: u64,
    }
}

impl TrafficRates {
    /// What two servers move together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
            replicated: self.replicated.saturating_add(other.replicated),
            cloned: self.cloned.saturating_add(other.cloned),
            scrubbed: self.scrubbed.saturating_add(other.scrubbed),
        }
    }
}
