//! When the next chunk may be opened: only when the one before takes no append any more (R18).

use super::members::former_holder_unknown;
use crate::chunk_place::ChunkPlace;
use crate::state::{ChunkRecord, State};
use crate::underway::Activity;
use crate::view::View;
use cairn_protocol::ReplicaReport;
use cairn_types::ChunkHandle;

/// The file's last chunk, where it lies before this place and is not closed.
pub(crate) fn open_before(state: &State, place: ChunkPlace) -> Option<(ChunkHandle, ChunkRecord)> {
    let (last, handle) = state.last_chunk(place.file)?;
    let chunk = state.chunk(handle)?;
    (last < place.index && !chunk.closed).then_some((handle, chunk))
}

/// Whether the file has a chunk behind this place.
pub(crate) fn is_hole(state: &State, place: ChunkPlace) -> bool {
    state.last_chunk(place.file).is_some_and(|(last, _)| last > place.index)
}

/// Whether the log lacks a close: this replica is up to date and has the mark, by a fence of an
/// earlier term, say, whose master died before it had logged what it did. From such a one nobody
/// takes an append, and as long as it is up to date no lease was granted past it; but where it goes
/// away, the others know nothing of it, and would be granted one. So the close is logged, unless
/// somebody may yet acknowledge an append, or is about to change the chunk.
pub(crate) fn lacks_close(view: &View<'_>, report: &ReplicaReport) -> bool {
    if !report.closed {
        return false;
    }
    let handle = report.handle;
    let open = |chunk: &ChunkRecord| !chunk.closed && report.version >= chunk.version;
    let Some(chunk) = view.state.chunk(handle).filter(open) else { return false };
    let place = ChunkPlace::new(chunk.file, chunk.index);
    let busy = view.underway.at(place) != Activity::Nothing
        || view.underway.is_taken(place, handle)
        || view.underway.later(place).is_some();
    // What several files have grows for none of them: who writes to it gets a copy, marked as this
    // one is, and that one is closed.
    let busy = busy || view.state.sharing().is_shared(handle) || view.is_frozen(chunk.file);
    !busy && !may_take_appends(view, handle, &chunk)
}

/// Whether anybody can acknowledge an append in this chunk.
pub(crate) fn may_take_appends(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> bool {
    if view.leases.is_fenced(handle) {
        return false;
    }
    match view.leases.get(handle) {
        Some(lease) => lease.may_live(view.now.time) && lease.takes_appends,
        None => former_holder_unknown(view, handle, chunk),
    }
}
