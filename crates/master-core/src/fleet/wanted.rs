//! Chunks that somebody waits for while servers have not told all they hold.
//!
//! ```text
//!   a client asks for a chunk of which no replica is known ─► wanted
//!   a slice of an inventory is answered: wanted, as far as this server was not asked yet
//!   its next slice tells of those first
//! ```
//! - WA1: a server is asked once for each, and only while its inventory is not complete: what it
//!   does not tell then, it tells with the rest, or does not hold.
//! - WA2: what is kept is bounded, whatever clients ask; who finds no room waits for the slices.

use cairn_types::ChunkHandle;
use std::collections::BTreeSet;

/// Chunks that are wanted at once.
const WANTED_MAX: usize = 65_536;
/// Chunks that a server is asked for in one answer.
const WANTED_AT_ONCE: usize = 512;

// A slice has room for what was wanted.
const _: () = assert!(WANTED_AT_ONCE <= cairn_protocol::SLICE_COUNT_MAX);

/// What is wanted, in the order in which it was asked for.
#[derive(Debug, Default)]
pub(crate) struct WantedChunks {
    order: Vec<ChunkHandle>,
    known: BTreeSet<ChunkHandle>,
}

impl WantedChunks {
    pub(super) fn note(&mut self, handle: ChunkHandle) {
        if self.order.len() < WANTED_MAX && self.known.insert(handle) {
            self.order.push(handle);
            assert_eq!(self.order.len(), self.known.len(), "each is wanted once (WA1)");
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// What a server is asked for next that was asked for the first `asked`; moves that on.
    pub(crate) fn next(&self, asked: &mut usize) -> Vec<ChunkHandle> {
        let rest = self.order.get(*asked..).unwrap_or_default();
        let next = &rest[..rest.len().min(WANTED_AT_ONCE)];
        *asked += next.len();
        next.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::{WANTED_AT_ONCE, WANTED_MAX, WantedChunks};
    use cairn_types::ChunkHandle;

    #[test]
    fn each_server_is_asked_once_for_each_in_order_and_what_is_kept_has_an_end() {
        let mut wanted = WantedChunks::default();
        for at in 0..2 * WANTED_MAX as u64 {
            wanted.note(ChunkHandle::new(1 + at / 2));
        }
        wanted.note(ChunkHandle::new(u64::MAX));
        let (mut asked, mut all) = (0, Vec::new());
        loop {
            let next = wanted.next(&mut asked);
            if next.is_empty() {
                break;
            }
            assert!(next.len() <= WANTED_AT_ONCE);
            all.extend(next);
        }
        assert!(all.iter().map(|handle| handle.get()).eq(1..=WANTED_MAX as u64));
    }
}
