//! Which chunks lack replicas, page by page, so that a person can name the files that suffer.

use super::file_paths::{FilePath, FilePaths};
use super::health::replica_counts;
use crate::view::View;
use cairn_protocol::{DegradedChunk, ListDegraded, ListDegradedAnswer, MESSAGE_SIZE_MAX};
use cairn_types::PATH_SIZE_MAX;

/// Chunks that one request looks at: a few milliseconds.
const LOOKED_AT_MAX: usize = 8192;
/// Chunks that one answer tells of.
const TOLD_MAX: u32 = 512;

// A hidden name makes a path longer by itself and no more.
const _: () = assert!(TOLD_MAX as usize * (PATH_SIZE_MAX + 1024) < MESSAGE_SIZE_MAX as usize);

/// Chunks below their goal, in order of handles.
pub(crate) fn list(view: &View<'_>, wish: &ListDegraded) -> ListDegradedAnswer {
    let limit = wish.limit.clamp(1, TOLD_MAX) as usize;
    let mut answer = ListDegradedAnswer::default();
    let mut paths = FilePaths::new(view.state);
    for (number, (handle, chunk)) in view.state.chunks_after(wish.after).enumerate() {
        if number >= LOOKED_AT_MAX || answer.chunks.len() >= limit {
            return answer;
        }
        answer.resume = Some(handle);
        let (good, readable) = replica_counts(view, handle, &chunk);
        assert!(good <= readable, "a good replica can be read");
        if good < chunk.goal as usize {
            let file = view.state.sharing().live_file_of(handle, &chunk);
            let FilePath { text: path, unnamed } = paths.of(file);
            answer.chunks.push(DegradedChunk {
                handle,
                index: chunk.index,
                path,
                good: u32::try_from(good).expect("a cell has few servers"),
                goal: chunk.goal,
                readable: readable > 0,
                unnamed,
            });
        }
    }
    answer.resume = None;
    answer
}
