//! What a server may delete (§4.4, R33).
//!
//! - B1: never a handle in the making, never an up-to-date replica, never bytes of a chunk that
//!   the log does not know (`unknown_chunks.rs`).
//! - B2: a stale replica goes only when the chunk has its goal of good ones.
//! - B3: what is named is judged from a report that came in this term, after its first record was
//!   applied; handle *and* version are named, so that nothing newer goes.

use super::Chunks;
use super::unknown_chunks::is_empty_creation;
use crate::step::Step;
use cairn_protocol::{Garbage, ReplicaReport};
use cairn_types::planted::{Rule, broken};

/// The deletion of what was reported (B3).
pub(super) fn named(report: &ReplicaReport) -> Garbage {
    Garbage { handle: report.handle, version: report.version }
}

impl Chunks {
    /// Whether what a server has just reported can go.
    pub(super) fn is_garbage(&self, step: &Step<'_>, report: &ReplicaReport) -> bool {
        let handle = report.handle;
        if self.making.contains(&handle) && !broken(Rule::R33) {
            return false;
        }
        let Some(chunk) = step.state.chunk(handle) else { return is_empty_creation(report) };
        if report.version >= chunk.version {
            return false;
        }
        let place = (chunk.file, chunk.index);
        let busy = self.jobs.contains_key(&place) || self.is_taken(place, handle);
        let now = step.now.time;
        // R29: one that lacks what was acknowledged is none of the goal, whatever its version.
        let left_behind = self.locations.left_behind(handle, chunk.version);
        let good = self.current(handle, &chunk).filter(|(server, replica)| {
            let there = replica.is_sound() && self.servers.is_live(now, *server);
            there && !left_behind.contains(server)
        });
        !busy && good.count() >= chunk.goal as usize
    }
}

#[cfg(test)]
mod tests {
    use super::named;
    use cairn_protocol::ReplicaReport;
    use cairn_types::{ChunkHandle, ChunkVersion};

    #[test]
    fn a_deletion_names_handle_and_version() {
        let (handle, version) = (ChunkHandle::new(3), ChunkVersion::new(9));
        let garbage = named(&ReplicaReport { handle, version, ..ReplicaReport::default() });
        assert_eq!((garbage.handle, garbage.version), (handle, version));
    }
}
