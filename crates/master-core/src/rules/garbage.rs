//! What a server may delete (§4.4, R33), and what it may not serve any more (§4.5).
//!
//! - GB1: never a handle in the making, never an up-to-date replica, never bytes of a chunk that
//!   the log does not know (`unknown_chunks.rs`).
//! - GB2: a stale replica goes only when the chunk has its goal of good ones.
//! - GB3: what is named is judged from a report that came in this term, after its first record was
//!   applied; handle *and* version are named, so that nothing newer goes.

use super::members::current;
use crate::chunk_place::ChunkPlace;
use crate::fleet::is_empty_creation;
use crate::state::State;
use crate::view::View;
use cairn_protocol::{Garbage, LeftOut, ReplicaReport};
use cairn_types::planted::{Rule, broken};

/// The deletion of what was reported (GB3).
pub(crate) fn named(report: &ReplicaReport) -> Garbage {
    Garbage { handle: report.handle, version: report.version }
}

/// The set that goes on without what was reported, if one does.
pub(crate) fn left_out_of(state: &State, report: &ReplicaReport) -> Option<LeftOut> {
    let handle = report.handle;
    let chunk = state.chunk(handle).filter(|chunk| report.version < chunk.version)?;
    Some(LeftOut { handle, version: chunk.version })
}

/// Whether what a server has just reported can go.
pub(crate) fn is_garbage(view: &View<'_>, report: &ReplicaReport) -> bool {
    let handle = report.handle;
    if view.underway.makes(handle) && !broken(Rule::R33) {
        return false;
    }
    let Some(chunk) = view.state.chunk(handle) else { return is_empty_creation(report) };
    if report.version >= chunk.version {
        return false;
    }
    let place = ChunkPlace::new(chunk.file, chunk.index);
    let busy = view.underway.has_job(place) || view.underway.is_taken(place, handle);
    let (now, servers) = (view.now.time, view.fleet.servers());
    // R29: one that lacks what was acknowledged is none of the goal, whatever its version.
    let left_behind = view.fleet.locations().left_behind(handle, chunk.version);
    let good = current(view, handle, &chunk).filter(|(server, replica)| {
        let there = replica.is_sound() && servers.is_live(now, *server);
        there && !left_behind.contains(server)
    });
    !busy && good.count() >= chunk.goal as usize
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
