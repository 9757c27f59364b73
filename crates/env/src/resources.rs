//! What a process takes of its machine, as it can be asked at any time.

use crate::{ConnectionId, LatencyCounts};
use cairn_protocol::{DiskStatus, ResourceUse};
use std::fmt;

/// Tells what this process takes; asked from any thread, by whoever tells others of it.
pub trait Resources: Send + Sync + fmt::Debug {
    /// As it is now.
    fn told(&self) -> ResourceUse;

    /// How long requests took that were answered since it started, and how many of them failed;
    /// nothing where nobody counts.
    fn asked(&self) -> (LatencyCounts, u64) {
        (LatencyCounts::default(), 0)
    }

    /// Where a client that is connected now comes from, where that is known.
    fn peer(&self, connection: ConnectionId) -> Option<String> {
        let _ = connection;
        None
    }
}

/// The data directories of a server, and what its process takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSpace {
    /// One for each data directory, those that failed among them.
    pub disks: Vec<DiskStatus>,
    /// Zero where nobody measures it.
    pub resources: ResourceUse,
}

impl ServerSpace {
    /// Capacity and use of the directories that work, a file system with several of them once.
    #[must_use]
    pub fn sum(&self) -> (u64, u64) {
        sum_of(self.disks.iter())
    }

    /// Bytes that are free in the emptiest of the directories that work.
    #[must_use]
    pub fn room(&self) -> u64 {
        let working = self.disks.iter().filter(|disk| !disk.failed);
        working.map(|disk| disk.capacity.saturating_sub(disk.used)).max().unwrap_or(0)
    }
}

/// Capacity and use of the file systems under directories that work, each counted once.
#[must_use]
pub fn sum_of<'a>(disks: impl Iterator<Item = &'a DiskStatus>) -> (u64, u64) {
    let mut working: Vec<&DiskStatus> = disks.filter(|disk| !disk.failed).collect();
    // Of one that several tell of, the one that was told fuller: it is the later, or the safer.
    working.sort_by_key(|disk| (disk.file_system, std::cmp::Reverse(disk.used)));
    working.dedup_by_key(|disk| disk.file_system);
    let sum = |sum: (u64, u64), disk: &&DiskStatus| {
        (sum.0.saturating_add(disk.capacity), sum.1.saturating_add(disk.used))
    };
    working.iter().fold((0, 0), sum)
}

#[cfg(test)]
mod tests {
    use super::ServerSpace;
    use cairn_protocol::DiskStatus;

    #[test]
    fn a_file_system_with_several_directories_is_counted_once_and_a_failed_one_not_at_all() {
        let disk = |file_system, failed| DiskStatus {
            file_system,
            capacity: 100,
            used: 10 * file_system,
            failed,
            ..DiskStatus::default()
        };
        let disks = vec![disk(1, false), disk(2, false), disk(1, false), disk(3, true)];
        assert_eq!(ServerSpace { disks, ..ServerSpace::default() }.sum(), (200, 30));
        assert_eq!(ServerSpace::default().sum(), (0, 0));
    }
}
