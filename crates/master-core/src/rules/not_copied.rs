//! Why a chunk that is to leave a server is not copied elsewhere, as the cell is now: one decision
//! for the server's drain and for who asks about the chunk.

use super::condition::{Undecided, undecided};
use super::good_replicas::judged;
use super::lacking::is_left_suspect;
use super::placement::CopyTakers;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::ChunkHandle;

/// What keeps a copy from being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotCopied {
    /// It is a deleted file's, and all replicas may have lost bytes (R20).
    DeletedSuspect,
    /// There is no good replica.
    NoGood,
    /// A copy could not join before the set is decided on (R28).
    Undecided,
    /// Each server with room has a replica.
    NoTaker,
}

/// What keeps it; none: it is copied when it is its turn.
pub(crate) fn why_not_copied(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    takers: &CopyTakers,
) -> Option<NotCopied> {
    let good = judged(view, handle, chunk).good;
    let told = view.fleet.locations().of(handle).count();
    assert!(good.len() <= told, "what is good was told of");
    if good.is_empty() {
        let is_left = is_left_suspect(view, handle, chunk);
        Some(if is_left { NotCopied::DeletedSuspect } else { NotCopied::NoGood })
    } else if undecided(view, (handle, chunk)) != Undecided::No {
        Some(NotCopied::Undecided)
    } else if !takers.take(view, handle) {
        Some(NotCopied::NoTaker)
    } else {
        None
    }
}
