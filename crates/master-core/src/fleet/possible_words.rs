//! What a server may say of its replica at all. What nobody could ever have is a lie, or damage
//! that no checksum saw: it is taken for no word of the replica. Else one server's number would
//! have the others of its chunk begin where no number is left, and readers sent to it alone.
//!
//! - BE1: no replica is longer than a chunk, and no serial number stands so high that the ones to
//!   come would find no room.
//! - BE2: what is raised has to lie lower still: a lie just below the limit of BE1 would, with the
//!   next mutation, make honest words of the others impossible.
//! - BE3: no version is one that was not given out so far, neither of a later term nor of this one.
//!   Else a raise would later be logged at a number at which somebody counts as standing who never
//!   took it (R8). How far earlier terms came is not known (R3). A shadow master, whose log is
//!   behind, cannot tell.

use crate::state::State;
use cairn_protocol::ReplicaReport;
use cairn_types::ChunkVersion;

/// BE1
pub(super) fn is_possible(state: &State, report: &ReplicaReport) -> bool {
    let chunk_size = state.config().chunk_size;
    // A shadow master that has no log yet does not know how large chunks are.
    let fits = chunk_size == 0 || report.length <= chunk_size;
    fits && report.serial.leaves_room()
}

/// BE2
pub(crate) fn may_begin_lease(state: &State, report: &ReplicaReport) -> bool {
    is_possible(state, report) && report.serial.is_usual()
}

/// BE3; no version above `last` was given out in this term.
pub(crate) fn is_given_out(state: &State, last: ChunkVersion, report: &ReplicaReport) -> bool {
    let earlier = ChunkVersion::of(state.term(), 0);
    report.version.max(report.mutated_version) <= last.max(earlier)
}

/// BE1, BE3
pub(crate) fn is_word(state: &State, last: ChunkVersion, report: &ReplicaReport) -> bool {
    is_possible(state, report) && is_given_out(state, last, report)
}

/// Those that pass, in as long runs as they come in.
pub(crate) fn passing(
    reports: &[ReplicaReport],
    passes: impl Fn(&ReplicaReport) -> bool + Copy,
) -> impl Iterator<Item = &[ReplicaReport]> {
    let runs = reports.chunk_by(move |one, next| passes(one) == passes(next));
    runs.filter(move |run| passes(&run[0]))
}
