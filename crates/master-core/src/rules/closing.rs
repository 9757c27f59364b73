//! When the next chunk may be opened: only when the one before takes no append any more (R18).

use super::members::former_holder_unknown;
use crate::chunk_place::ChunkPlace;
use crate::state::{ChunkRecord, State};
use crate::view::View;
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
