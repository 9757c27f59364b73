//! What a server's diagnostic log says of the last moments (GFS §5.3): asked of any server, and
//! answered by its world from memory, whatever its disks are at.

use bytes::Bytes;

cairn_types::message! {
    /// The entries that are in memory behind batch `after`; zero: all of them.
    #[derive(Copy)]
    pub struct RecentRpcs { 1 => after: u64 }
}

cairn_types::message! {
    /// Batches as docs/formats/rpclog.md has them, the oldest first.
    pub struct RecentRpcsAnswer {
        1 => batches: Vec<Bytes>,
        /// The number of the last of them: what to ask `after` next.
        2 => last: u64,
        /// Batches behind the one named that are no longer in memory.
        3 => missed: u64,
    }
}
