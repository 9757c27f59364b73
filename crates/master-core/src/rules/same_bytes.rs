//! Which replicas of a stream's closed chunk hold the same bytes, however they count them (R41).
//!
//! Each bundle has one place in its chunk, and nothing in it is written twice: whoever is as long
//! has the same bytes. A serial number tells more than that only of what is written in place. Who
//! was to level the others after a power failure began a life (R28) for it, and nothing else; where
//! it is found damaged then, those that it did not come to have no less.
//!
//! - SB1: of closed replicas only: what an open one told of its length is old.
//! - SB2: of a sealed chunk each sound replica of the logged version has all that is committed.
//!   What one has beyond the others was stored and never committed, and nobody is behind it for
//!   that, nor does a person have to decide about it. Where the log knows of a loss (R41), or a set
//!   stands above the log, how far each has gone counts.

use super::members::current;
use crate::fleet::KnownReplica;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, Layout, ServerId};

/// The replicas of a chunk that are up to date. Of a stream's closed chunk those that are as long
/// as the one that has gone furthest count as having gone as far.
pub(crate) fn current_by_bytes(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Vec<(ServerId, KnownReplica)> {
    let mut replicas: Vec<(ServerId, KnownReplica)> = current(view, handle, chunk).collect();
    // Nearly always all go equally far.
    if replicas.windows(2).all(|pair| pair[0].1.serial == pair[1].1.serial) {
        return replicas;
    }
    let is_streams = || view.state.entry(chunk.file).is_some_and(|it| it.layout == Layout::Stream);
    let furthest = replicas.iter().map(|(_, replica)| *replica).max_by_key(|it| it.serial);
    // SB1
    let Some(furthest) = furthest.filter(|it| it.closed && is_streams()) else { return replicas };
    let is_whole = chunk.closed && view.state.lost().get(handle).is_none();
    // SB2
    let has_all =
        |replica: &KnownReplica| is_whole && replica.is_sound() && replica.version == chunk.version;
    for (_, replica) in &mut replicas {
        if replica.closed && (replica.length >= furthest.length || has_all(replica)) {
            replica.serial = furthest.serial;
        }
    }
    replicas
}
