//! What chunks of streams have lost: the end of what was committed, which no server has any more
//! (R41), and which of that a person has made holes of.
//!
//! ```text
//!   lost, holes   handle → bytes that are left, bytes that were committed
//! ```
//! - LT1: a chunk is in one of them at most, only while there is such a chunk, and only where less
//!   is left than was committed.

use super::map::{DamageMark, Map};
use super::packing::{Packed, put_number};
use cairn_protocol::LostTail;
use cairn_types::ChunkHandle;

/// Both tables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LostTails {
    lost: Map,
    holes: Map,
}

impl LostTails {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self { lost: Map::new(mark), holes: Map::new(mark) }
    }

    /// From what an image has.
    pub(super) fn of([lost, holes]: [Map; 2]) -> Self {
        Self { lost, holes }
    }

    pub(super) fn maps(&self) -> [&Map; 2] {
        [&self.lost, &self.holes]
    }

    pub(super) fn maps_mut(&mut self) -> [&mut Map; 2] {
        [&mut self.lost, &mut self.holes]
    }

    /// What a chunk has lost.
    pub(crate) fn get(&self, handle: ChunkHandle) -> Option<LostTail> {
        let of =
            |map: &Map, is_hole| map.get(&key(handle), |packed| unpack(packed, handle, is_hole));
        of(&self.lost, false).or_else(|| of(&self.holes, true))
    }

    /// How many chunks have lost some, of which no hole was made.
    pub(crate) fn count(&self) -> u64 {
        self.lost.len()
    }

    /// Those chunks, in order.
    pub(crate) fn handles(&self) -> impl Iterator<Item = ChunkHandle> + use<'_> {
        let mut walk = self.lost.walk(&key(ChunkHandle::default()));
        std::iter::from_fn(move || {
            walk.unpack(|key, _| {
                let mut key = Packed(key);
                let handle = ChunkHandle::new(key.key()?);
                key.end(Some(handle))
            })
        })
    }

    /// So much of a chunk is left, of so much that was committed: nothing is lost where that is
    /// all of it, and what was a hole is one no more. Where more is lost than a person has made a
    /// hole of, a person says it anew.
    pub(super) fn set(&mut self, handle: ChunkHandle, (held, committed): (u64, u64)) {
        let is_hole = self.get(handle).is_some_and(|before| before.is_hole && held >= before.held);
        self.remove(handle);
        if held < committed {
            let map = if is_hole { &mut self.holes } else { &mut self.lost };
            map.set(&key(handle), &pack(held, committed));
        }
    }

    /// A person makes a hole of it.
    pub(super) fn make_hole(&mut self, lost: &LostTail) {
        assert!(lost.held < lost.committed, "a hole is of something (LT1)");
        self.remove(lost.handle);
        self.holes.set(&key(lost.handle), &pack(lost.held, lost.committed));
    }

    /// There is no such chunk any more.
    pub(super) fn remove(&mut self, handle: ChunkHandle) {
        self.lost.remove(&key(handle));
        self.holes.remove(&key(handle));
    }
}

fn key(handle: ChunkHandle) -> [u8; 8] {
    handle.get().to_be_bytes()
}

fn pack(held: u64, committed: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, held);
    put_number(&mut out, committed);
    out
}

fn unpack(packed: &[u8], handle: ChunkHandle, is_hole: bool) -> Option<LostTail> {
    let mut packed = Packed(packed);
    let (held, committed) = (packed.number()?, packed.number()?);
    packed.end(LostTail { handle, held, committed, is_hole })
}
