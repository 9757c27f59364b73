//! Chunks on servers that this master's log does not know.
//!
//! ```text
//!   a handle without a record ─┬─ nothing was ever applied to it ─► a creation that came to
//!                              │                                     nothing: garbage
//!                              ├─ it holds bytes, and the log purged it ─► garbage
//!                              └─ it holds bytes, and was not ─► kept, counted, told to people
//! ```
//! A chunk gets its record before its first lease, so one that was mutated was once recorded. If
//! this log does not know it, the log is the one that is behind: a backup of the master was
//! restored, perhaps one of its present term, and the chunk is newer. Comparing with the highest
//! handle on record would not do: the restored master's first new chunk is above them all.
//!
//! - UC1: a replica that holds bytes goes only if the log had its chunk, and purged it
//!   (`state/purged.rs`), or a person let go of it.
//! - UC2: each server's are found without a look at all others': one that joins anew, or dies,
//!   costs what it held.
//!
//! Only a person deletes what is kept here.

use cairn_protocol::ReplicaReport;
use cairn_types::{ChunkHandle, ServerId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What is kept, as told by the servers that hold it.
#[derive(Debug, Default)]
pub(crate) struct UnknownChunks {
    /// With the bytes that each server stores.
    kept: BTreeMap<ChunkHandle, BTreeMap<ServerId, u64>>,
    /// The same by server (UC2).
    of_server: BTreeMap<ServerId, BTreeSet<ChunkHandle>>,
}

impl UnknownChunks {
    /// A server told of a replica whose chunk the log does not know.
    pub(crate) fn note(&mut self, server: ServerId, report: &ReplicaReport) {
        if !is_empty_creation(report) {
            self.kept.entry(report.handle).or_default().insert(server, report.length);
            self.of_server.entry(server).or_default().insert(report.handle);
        }
    }

    /// Forgets what a server told: it died, or tells anew.
    pub(crate) fn remove_server(&mut self, server: ServerId) {
        for handle in self.of_server.remove(&server).unwrap_or_default() {
            self.remove_holder(handle, server);
        }
    }

    /// A server holds it no more.
    pub(crate) fn remove_replica(&mut self, handle: ChunkHandle, server: ServerId) {
        self.remove_handle(server, handle);
        self.remove_holder(handle, server);
    }

    /// It is lost no more: a person let go of it.
    pub(crate) fn remove(&mut self, handle: ChunkHandle) {
        for server in self.kept.remove(&handle).unwrap_or_default().into_keys() {
            self.remove_handle(server, handle);
        }
    }

    fn remove_holder(&mut self, handle: ChunkHandle, server: ServerId) {
        let Some(servers) = self.kept.get_mut(&handle) else { return };
        servers.remove(&server);
        if servers.is_empty() {
            self.kept.remove(&handle);
        }
    }

    fn remove_handle(&mut self, server: ServerId, handle: ChunkHandle) {
        let Some(handles) = self.of_server.get_mut(&server) else { return };
        handles.remove(&handle);
        if handles.is_empty() {
            self.of_server.remove(&server);
        }
    }

    /// How many such chunks a server keeps.
    pub(crate) fn count_of(&self, server: ServerId) -> usize {
        self.of_server.get(&server).map_or(0, BTreeSet::len)
    }

    /// The servers that keep a chunk that the log does not know.
    pub(crate) fn holders(&self, handle: ChunkHandle) -> impl Iterator<Item = ServerId> {
        self.kept.get(&handle).into_iter().flat_map(|servers| servers.keys().copied())
    }

    /// Those behind a handle, with the servers and the bytes that each stores.
    pub(crate) fn after(
        &self,
        handle: ChunkHandle,
    ) -> impl Iterator<Item = (ChunkHandle, &BTreeMap<ServerId, u64>)> {
        let behind = self.kept.range((Bound::Excluded(handle), Bound::Unbounded));
        behind.map(|(handle, servers)| (*handle, servers))
    }

    /// How many such chunks there are.
    pub(crate) fn count(&self) -> u64 {
        self.kept.len() as u64
    }
}

/// Whether nothing that was applied to this replica is on it (UC1). Of one that may have lost some,
/// or could not be read, that is not known.
pub(crate) fn is_empty_creation(report: &ReplicaReport) -> bool {
    !report.suspect
        && report.length == 0
        && report.serial.get() == 0
        && report.acknowledged == 0
        && report.acknowledged_serial.get() == 0
}

#[cfg(test)]
mod tests {
    use super::{UnknownChunks, is_empty_creation};
    use cairn_protocol::ReplicaReport;
    use cairn_types::{ChunkHandle, SerialNumber, ServerId};

    #[test]
    fn what_holds_bytes_is_counted_once_until_no_server_holds_it() {
        let mut unknown = UnknownChunks::default();
        let empty = ReplicaReport { handle: ChunkHandle::new(3), ..ReplicaReport::default() };
        unknown.note(ServerId::new(1), &empty);
        assert_eq!(unknown.count(), 0, "a creation that came to nothing");
        let unread = ReplicaReport { suspect: true, handle: ChunkHandle::new(4), ..empty };
        assert!(!is_empty_creation(&unread), "nobody could read what it holds");
        let written = ReplicaReport { serial: SerialNumber::new(1), ..empty };
        unknown.note(ServerId::new(1), &written);
        unknown.note(ServerId::new(2), &written);
        assert_eq!(unknown.count(), 1);
        unknown.remove_server(ServerId::new(1));
        assert_eq!(unknown.holders(written.handle).collect::<Vec<_>>(), [ServerId::new(2)]);
        assert_eq!(
            (unknown.count_of(ServerId::new(1)), unknown.count_of(ServerId::new(2))),
            (0, 1)
        );
        unknown.remove_server(ServerId::new(2));
        assert_eq!(unknown.count(), 0);
    }

    #[test]
    fn a_replica_that_is_gone_is_gone_from_both_lists() {
        let mut unknown = UnknownChunks::default();
        let report = |handle| {
            let (handle, serial) = (ChunkHandle::new(handle), SerialNumber::new(1));
            ReplicaReport { handle, serial, ..ReplicaReport::default() }
        };
        let [one, other] = [1, 2].map(ServerId::new);
        for (server, handle) in [(one, 3), (other, 3), (one, 4)] {
            unknown.note(server, &report(handle));
        }
        unknown.remove_replica(ChunkHandle::new(3), one);
        assert_eq!((unknown.count(), unknown.count_of(one), unknown.count_of(other)), (2, 1, 1));
        unknown.remove_replica(ChunkHandle::new(3), other);
        unknown.remove_replica(ChunkHandle::new(3), other);
        assert_eq!((unknown.count(), unknown.count_of(other)), (1, 0));
        unknown.remove(ChunkHandle::new(4));
        assert_eq!((unknown.count(), unknown.count_of(one)), (0, 0));
    }
}
