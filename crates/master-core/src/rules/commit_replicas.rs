//! How many servers have to hold what is committed of a stream (TFS §2.4).
//!
//! - CM1: what is said of a stream counts, whatever set a chunk has: with fewer servers than that
//!   its producers wait. Where nothing is said, two, or all of a set that is smaller.
//! - CM2: what one server holds counts where the stream says so, and then a set of one will do for
//!   its chunk's seal too: repair makes the others anew. It does in any stream where the others of
//!   the set are on dead servers, and that one has all that is committed (`members.rs`).

use crate::state::{ChunkRecord, EntryRecord};
use crate::view::View;
use cairn_types::ChunkHandle;

/// Where nothing is said.
const USUAL: u32 = 2;

/// How many servers of a set of this size have to hold a bundle before it is committed; more than
/// the set has where no bundle in such a chunk can be (CM1).
pub(crate) fn replicas_needed(stream: &EntryRecord, set_size: u32) -> u32 {
    match stream.commit_replicas {
        0 => set_size.clamp(1, USUAL),
        said => said.min(stream.replication).max(1),
    }
}

/// The fewest servers that a chunk of the stream may be made on, as far as its commits need them.
pub(crate) fn least_allocated(stream: &EntryRecord) -> u32 {
    stream.commit_replicas.min(stream.replication).max(1)
}

/// Whether a set of one will do for a chunk that a producer writes (CM2).
pub(crate) fn one_will_do(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> bool {
    let is_open = view.state.streams().open_chunk(handle).is_some();
    is_open && view.state.entry(chunk.file).is_some_and(|it| it.commit_replicas == 1)
}

#[cfg(test)]
mod tests {
    use super::{least_allocated, replicas_needed};
    use crate::state::{AttributesNumber, EntryRecord};
    use cairn_types::{Content, EntryId, EntryKind, Layout, WallTime};

    #[test]
    fn what_is_said_counts_up_to_the_level_and_else_two_or_all_of_a_smaller_set() {
        let stream = |commit_replicas| EntryRecord {
            parent: EntryId::new(1),
            kind: EntryKind::File,
            content: Content::Records,
            replication: 3,
            length: 0,
            chunk_count: 0,
            first: None,
            modified: WallTime::default(),
            synced: false,
            attributes: AttributesNumber::USUAL,
            layout: Layout::Stream,
            commit_replicas,
        };
        let needed = |said, size| replicas_needed(&stream(said), size);
        assert_eq!([needed(0, 3), needed(0, 2), needed(0, 1), needed(0, 0)], [2, 2, 1, 1]);
        assert_eq!([needed(1, 3), needed(2, 3), needed(3, 3), needed(9, 3)], [1, 2, 3, 3]);
        assert_eq!(needed(2, 1), 2, "CM1: nothing of such a chunk is committed");
        let least = |said| least_allocated(&stream(said));
        assert_eq!([least(0), least(1), least(2), least(9)], [1, 1, 2, 3]);
    }
}
