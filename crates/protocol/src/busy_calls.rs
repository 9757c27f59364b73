//! Who and what keeps a master busy, for people: told by any member of its group, of itself.

use cairn_types::EntryId;

/// Clients, and files, that are told of at most.
pub const BUSIEST_COUNT_MAX: usize = 10;

cairn_types::message! {
    /// Of a master, and of no other server.
    pub struct Busiest { }
}
cairn_types::message! {
    /// A client by where it comes from, and how much it asked.
    pub struct BusyClient { 1 => address: String, 2 => requests: u64 }
}
cairn_types::message! {
    /// A file that is there yet, and how often somebody wanted to know where its chunks are, or
    /// who orders their mutations.
    pub struct BusyFile { 1 => file: EntryId, 2 => path: String, 3 => requests: u64 }
}
cairn_types::message! {
    /// Answers that took as long, and longer than those of the bucket before.
    pub struct LatencyBucket {
        /// Microseconds; zero: however long.
        1 => up_to_us: u64,
        2 => count: u64,
    }
}
cairn_types::message! {
    /// The busiest first, of a span of time that is over; the others since the server started.
    pub struct BusiestAnswer {
        /// How long that span was.
        1 => span_ms: u64,
        2 => clients: Vec<BusyClient>,
        3 => files: Vec<BusyFile>,
        /// Answers, failures among them.
        4 => answered: u64,
        5 => failed: u64,
        /// How long they took, all together.
        6 => took_ns: u64,
        7 => took: Vec<LatencyBucket>,
    }
}
