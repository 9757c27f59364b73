//! What a stream's chunk loses with a set that was decided on (R41), and how many have lost some.
//!
//! - LB1: what is lost is noted when a set is logged that has less than is committed, whether the
//!   chunk is closed with it or was closed before; and while it is noted each later set says anew
//!   how much of it is left.
//! - LB2: deleted files' chunks ail nobody.

use super::decided_set::is_decided;
use crate::record::LOST_LEVEL;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, Layout, ServerId};

/// Extents of a file that are looked at for what was committed of one chunk: some milliseconds. Of
/// a file of more, which is not settled, it is not known.
const LOOKED_AT_MAX: usize = 1 << 17;
/// Files of a chunk of which that is asked.
const FILES_MAX: usize = 4;
/// Chunks that have lost some of which it is looked whether only deleted files have them.
const COUNTED_MAX: usize = 1024;

/// How many bytes all of a set (each with its length) have of a closed chunk that has lost some of
/// what was committed, or loses some with this set; and how many were committed (LB1).
pub(crate) fn held(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    set: &[(ServerId, u64)],
) -> Option<(u64, u64)> {
    let least = set.iter().map(|(_, length)| *length).min()?;
    if let Some(lost) = view.state.lost().get(handle) {
        return Some((least, lost.committed));
    }
    let servers: Vec<ServerId> = set.iter().map(|(server, _)| *server).collect();
    let may_lose = chunk.closed
        && view.state.level() >= LOST_LEVEL
        && is_decided(view, (handle, chunk), &servers);
    let committed = if may_lose { committed_of(view, handle, chunk) } else { 0 };
    (least < committed).then_some((least, committed))
}

/// How far into a chunk the extents of its files reach; zero of one that is no stream's, and where
/// that is not known.
fn committed_of(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> u64 {
    let files = view.state.sharing().files_of(handle, chunk).take(FILES_MAX);
    let is_stream =
        |file: &_| view.state.entry(*file).is_some_and(|entry| entry.layout == Layout::Stream);
    let reach_of = |file| {
        let mut extents = view.state.streams().extents_from(file, 0).enumerate();
        let reach = extents.try_fold(0, |reach, (number, extent)| match number < LOOKED_AT_MAX {
            true if extent.index == chunk.index => {
                Some((extent.chunk_offset + extent.size).max(reach))
            }
            true => Some(reach),
            false => None,
        });
        reach.unwrap_or(0)
    };
    files.filter(is_stream).map(reach_of).max().unwrap_or(0)
}

/// How many chunks have lost some, and are no holes (LB2).
pub(crate) fn count(view: &View<'_>) -> u64 {
    let lost = view.state.lost();
    let is_deleted = |handle: &ChunkHandle| {
        let chunk = view.state.chunk(*handle);
        chunk.is_some_and(|chunk| view.state.sharing().is_hidden(*handle, &chunk))
    };
    let deleted = lost.handles().take(COUNTED_MAX).filter(is_deleted).count() as u64;
    assert!(deleted <= lost.count(), "they are among those that are counted");
    lost.count() - deleted
}
