//! What a file is charged while somebody may write it, and when it is charged its length alone
//! (R36).
//!
//! ```text
//!   OpenChunk, or a grant ─► charged up to the end of the chunk ─► nobody can write any more, and
//!        └─ refused where a quota has no room for that               its length is known: settled
//! ```
//! - CH1: nobody is sent to a primary to write where the file is not charged to the chunk's end.
//! - CH2: a file is settled only while no lease beyond its recorded length may be live, and none is
//!   being granted: what is granted later is logged behind that, and charges it anew. And only at a
//!   length beyond which nothing is acknowledged: nobody looks at it again.

use super::live_file::is_live_file;
use super::members::{current, former_holder_unknown};
use crate::chunk_place::{ChunkPlace, end_of_chunk};
use crate::fleet::KnownReplica;
use crate::jobs::length::{acknowledged, length_at, may_be_longer};
use crate::record::SetLength;
use crate::view::View;
use cairn_protocol::Failure;
use cairn_types::{ChunkHandle, ChunkIndex, EntryId};

/// Chunks beyond the recorded length that are looked at: of more, some wait for a longer record.
const LOOKED_AT_MAX: usize = 64;

/// Up to where a file is charged once the chunk at this place may be written.
fn end_of(view: &View<'_>, place: ChunkPlace) -> u64 {
    end_of_chunk(place.index, view.term.config.chunk_size)
}

/// Whether the file is charged all that a writer of this place may make of it (CH1).
pub(crate) fn is_charged(view: &View<'_>, place: ChunkPlace) -> bool {
    if !view.charges() {
        return true;
    }
    let charged = view.state.subtrees().charged(place.file).unwrap_or_default();
    // Mostly it is, and its record need not be looked up.
    let end = end_of(view, place);
    charged >= end || view.state.entry(place.file).is_none_or(|file| file.length >= end)
}

/// Refuses what would be refused once it is logged: nobody is asked for anything then.
pub(crate) fn check_charge(view: &View<'_>, place: ChunkPlace) -> Result<(), Failure> {
    if !view.charges() || !view.state.subtrees().have_quotas() {
        return Ok(());
    }
    view.state.subtrees().check_charge(place.file, end_of(view, place))
}

/// Whether closing the file is to give back at once what it is charged beyond its length: it counts
/// in a quota.
pub(crate) fn counts_in_quota(view: &View<'_>, file: EntryId) -> bool {
    let entry = view.state.entry(file).filter(|_| view.state.subtrees().have_quotas());
    entry.is_some_and(|entry| !view.state.subtrees().quotas_above(entry.parent).is_empty())
}

/// Whether nobody can write the file beyond its recorded length, and nobody is about to be let
/// (CH2).
pub(crate) fn may_settle(view: &View<'_>, file: EntryId) -> bool {
    let Some(entry) = view.state.entry(file) else { return false };
    if view.underway.is_busy(file) {
        return false;
    }
    let first = ChunkIndex::new(entry.length / view.term.config.chunk_size.max(1));
    let mut beyond = view.state.chunks_of(file, first);
    let is_free = |(_, handle): (ChunkIndex, ChunkHandle)| {
        let chunk = view.state.chunk(handle);
        view.leases.possible(handle, view.now.time).is_none()
            && chunk.is_some_and(|chunk| !former_holder_unknown(view, handle, &chunk))
    };
    beyond.by_ref().take(LOOKED_AT_MAX).all(is_free) && beyond.next().is_none()
}

/// The record that settles a file, where nobody writes it any more and it is known how long it is.
pub(crate) fn settled(view: &View<'_>, file: EntryId) -> Option<SetLength> {
    view.state.subtrees().charged(file)?;
    if !may_settle(view, file) {
        return None;
    }
    let recorded = view.state.entry(file)?.length;
    let mut length = recorded;
    // Of what is deleted no length is recorded any more.
    if let Some((index, handle)) = view.state.last_chunk(file)
        && is_live_file(view.state, file)
    {
        if may_be_longer(view, handle) || !all_is_told(view, handle) {
            return None;
        }
        length = length.max(length_at(view, index, acknowledged(view, handle)));
    }
    Some(SetLength { time: view.now.wall, file, length, settles: true })
}

/// Whether no more of the chunk is acknowledged than its replicas say (CH2). Who had its lease last
/// may be gone with what it alone could tell; but whatever it acknowledged all of its set hold
/// (R14). So one of them has to have told since, which cannot have lost any of it, and all that can
/// be reached; and none may hold bytes of which nobody says that they are acknowledged: until the
/// next lease they may be.
pub(crate) fn all_is_told(view: &View<'_>, handle: ChunkHandle) -> bool {
    let Some(chunk) = view.state.chunk(handle) else { return false };
    if chunk.closed {
        // By definition it is full, and so is the recorded length (R19).
        return true;
    }
    let quiet = view.fleet.locations().quiet(handle);
    let (now, servers) = (view.now.time, view.fleet.servers());
    let replicas = || current(view, handle, &chunk);
    let has_told = |replica: &KnownReplica| replica.reported >= quiet;
    let mut live = replicas().filter(|(at, _)| servers.is_live(now, *at));
    let length = replicas().map(|(_, replica)| replica.length).max();
    let acknowledged = replicas().map(|(_, replica)| replica.acknowledged).max();
    live.all(|(_, replica)| has_told(&replica))
        && replicas().any(|(_, replica)| has_told(&replica) && !replica.suspect)
        && length <= acknowledged
}
