//! Which replicas of a chunk that a producer writes lack, for certain, what the log says is
//! committed of it (R41).
//!
//! What servers told of such a chunk is old: each takes what the producer sends, and tells nobody.
//! - LC1: what a replica has is known for good once it has the close mark, or is suspect: then it
//!   takes nothing more. Of the others nothing is held against them.
//! - LC2: where nobody has it, what each has is all that there is: then it counts as everywhere.

use crate::fleet::KnownReplica;
use crate::view::View;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ServerId};

/// Those of these replicas of a chunk that lack what is committed, where another of them may have
/// it; none of a chunk that no producer writes.
pub(crate) fn lacking_committed(
    view: &View<'_>,
    handle: ChunkHandle,
    replicas: &[(ServerId, KnownReplica)],
) -> Vec<ServerId> {
    let lacking = lacking(view, handle, replicas);
    // LC2
    if lacking.len() == replicas.len() || broken(Rule::R41) { Vec::new() } else { lacking }
}

/// Whether none of these replicas has what is committed of a chunk, and none will ever (LC2).
pub(crate) fn all_lack_committed(
    view: &View<'_>,
    handle: ChunkHandle,
    replicas: &[(ServerId, KnownReplica)],
) -> bool {
    !replicas.is_empty() && lacking(view, handle, replicas).len() == replicas.len()
}

/// LC1
fn lacking(
    view: &View<'_>,
    handle: ChunkHandle,
    replicas: &[(ServerId, KnownReplica)],
) -> Vec<ServerId> {
    let Some(row) = view.state.streams().open_chunk(handle) else { return Vec::new() };
    let lacks = |replica: &KnownReplica| {
        let is_final = replica.closed || replica.suspect;
        is_final && (replica.serial < row.serial || replica.length < row.length)
    };
    let lacking = replicas.iter().filter(|(_, replica)| lacks(replica));
    lacking.map(|(server, _)| *server).collect()
}
