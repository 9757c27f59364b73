//! How far streams are settled (R45), and how much of each chunk they still have.
//!
//! ```text
//!   (file, index)     → bytes of that chunk in the file's extents
//!   (file, all ones)  → up to where it is settled
//!   (none, file)      → it has to be looked at
//! ```
//! - SS1: a sealed chunk's row says how much of it the file's extents have; where that is nothing,
//!   the file has let go of the chunk and there is no row.
//! - SS2: who is to be looked at has a row, so that nobody walks over files to find them.

use super::map::Map;
use super::packing::{Packed, put_number};
use cairn_types::{ChunkIndex, EntryId};

/// The row of a file that tells up to where it is settled: no chunk has that index.
const SETTLED: ChunkIndex = ChunkIndex::new(u64::MAX);

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettledStreams(Map);

fn key(file: EntryId, index: ChunkIndex) -> [u8; 16] {
    (u128::from(file.get()) << 64 | u128::from(index.get())).to_be_bytes()
}

fn pending_key(file: EntryId) -> [u8; 16] {
    key(EntryId::default(), ChunkIndex::new(file.get()))
}

impl SettledStreams {
    /// From what an image has.
    pub(super) fn of(map: Map) -> Self {
        Self(map)
    }

    pub(super) fn map(&self) -> &Map {
        &self.0
    }

    pub(super) fn map_mut(&mut self) -> &mut Map {
        &mut self.0
    }

    fn number(&self, key: &[u8; 16]) -> Option<u64> {
        self.0.get(key, |packed| {
            let mut packed = Packed(packed);
            let number = packed.number()?;
            packed.end(number)
        })
    }

    fn set_number(&mut self, key: &[u8; 16], number: u64) {
        let mut packed = Vec::new();
        put_number(&mut packed, number);
        self.0.set(key, &packed);
    }

    /// Bytes of a chunk that the file's extents have (SS1); none where nobody has counted them.
    pub(super) fn left(&self, file: EntryId, index: ChunkIndex) -> Option<u64> {
        self.number(&key(file, index))
    }

    /// So many bytes of a chunk are in the file's extents; none: it has let go of the chunk.
    pub(super) fn set_left(&mut self, file: EntryId, index: ChunkIndex, left: u64) {
        assert!(!file.is_none() && index != SETTLED, "a chunk has a place");
        match left {
            0 => self.0.remove(&key(file, index)),
            left => self.set_number(&key(file, index), left),
        }
    }

    /// Up to where a file is settled.
    pub(crate) fn settled_to(&self, file: EntryId) -> u64 {
        self.number(&key(file, SETTLED)).unwrap_or(0)
    }

    pub(super) fn set_settled_to(&mut self, file: EntryId, offset: u64) {
        if offset > 0 {
            self.set_number(&key(file, SETTLED), offset);
        }
    }

    /// Whether a file is to be looked at (SS2).
    pub(crate) fn is_pending(&self, file: EntryId) -> bool {
        self.0.contains(&pending_key(file))
    }

    pub(super) fn set_pending(&mut self, file: EntryId, pending: bool) {
        assert!(!file.is_none(), "a file has an id");
        match pending {
            true => self.set_number(&pending_key(file), 0),
            false => self.0.remove(&pending_key(file)),
        }
    }

    /// Files that are to be looked at, behind that one.
    pub(crate) fn pending_after(&self, after: EntryId) -> impl Iterator<Item = EntryId> + use<'_> {
        let from = EntryId::new(after.get().saturating_add(1));
        let mut walk = self.0.walk(&pending_key(from));
        std::iter::from_fn(move || {
            walk.unpack(|key, _| {
                let mut key = Packed(key);
                let (none, file) = (key.key()?, EntryId::new(key.key()?));
                Some(Some(file).filter(|_| none == 0))
            })
        })
    }
}
