//! Chunks that several files refer to since a snapshot (GFS §3.4).
//!
//! ```text
//!   chunks   handle → record, with one of its files: the owner
//!   shared   (handle, file id) → index, for each further file
//! ```
//! - SD1: a chunk's references are its owner and its rows here, and nothing else: each of these
//!   files has it at the same index. So the count is exact, and no chunk goes that a file needs.
//! - SD2: who shares nothing pays nothing: where no chunk is shared, nothing is looked up.
//! - SD3: whoever lets go of a chunk leaves it to the others: an owner that goes is followed by the
//!   first of them.
//! - SD4: a chunk's goal is the highest level of its files: where one lets go of it, of those that
//!   are left; where these are many, it stays as it was.

use super::chunk_table::{ChunkRecord, ChunkTable};
use super::map::{DamageMark, Map};
use super::names::NameTree;
use super::packing::{Packed, put_number};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId};

/// Files of a chunk that are asked for their level when another lets go of it, so that no record
/// takes long. Mostly the first has as high a one.
const ASKED_MAX: usize = 16;

/// The references beyond owners.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SharedChunks(Map);

/// What a file that lets go of a chunk leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Other files need it.
    ToOthers,
    /// Nobody does: its record is gone.
    ToNobody,
}

impl SharedChunks {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self(Map::new(mark))
    }

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

    /// Whether no chunk at all is shared (SD2).
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The files of a chunk beside its owner.
    pub(super) fn others(&self, handle: ChunkHandle) -> impl Iterator<Item = EntryId> + use<'_> {
        let walk = (!self.is_empty()).then(|| self.0.walk(&key(handle, EntryId::default())));
        let mut walk = walk;
        std::iter::from_fn(move || {
            walk.as_mut()?.unpack(|key, packed| {
                let mut key = Packed(key);
                if key.key()? != handle.get() {
                    return Some(None);
                }
                let file = EntryId::new(key.key()?);
                let mut packed = Packed(packed);
                packed.number()?;
                key.end(packed.end(Some(file))?)
            })
        })
    }

    /// Whether more than one file refers to a chunk.
    pub(super) fn is_shared(&self, handle: ChunkHandle) -> bool {
        self.others(handle).next().is_some()
    }

    /// Further files refer to chunks, each at an index.
    pub(super) fn add_all(&mut self, rows: &[(ChunkHandle, EntryId, ChunkIndex)]) {
        assert!(rows.iter().all(|(_, file, _)| !file.is_none()), "a file has an id");
        assert!(rows.iter().all(|(handle, ..)| !handle.is_none()), "what is shared is a chunk");
        let row = |(handle, file, index): &(ChunkHandle, EntryId, ChunkIndex)| {
            let mut packed = Vec::new();
            put_number(&mut packed, index.get());
            (key(*handle, *file), packed)
        };
        let mut rows: Vec<_> = rows.iter().map(row).collect();
        rows.sort_by_key(|(key, _)| *key);
        let twice = rows.windows(2).any(|two| two[0].0 == two[1].0);
        assert!(!twice, "a file has a chunk at one index (SD1)");
        self.0.set_sorted(&rows);
    }

    /// A file that is not the chunk's owner refers to it no more; whether it did.
    fn remove(&mut self, handle: ChunkHandle, file: EntryId) -> bool {
        let key = key(handle, file);
        let there = !self.is_empty() && self.0.contains(&key);
        if there {
            self.0.remove(&key);
        }
        there
    }

    /// A file refers to a chunk no more, which it had at that index (SD3). The caller notes a
    /// file's first.
    pub(super) fn let_go(
        &mut self,
        chunks: &mut ChunkTable,
        handle: ChunkHandle,
        (file, index): (EntryId, ChunkIndex),
    ) -> Left {
        if self.remove(handle, file) {
            chunks.clear_place(file, index);
            return Left::ToOthers;
        }
        let heir = self.others(handle).next();
        if let (Some(heir), Some(chunk)) = (heir, chunks.get(handle)) {
            self.remove(handle, heir);
            chunks.clear_place(file, index);
            chunks.set(handle, &ChunkRecord { file: heir, ..chunk });
            return Left::ToOthers;
        }
        chunks.remove(handle, (file, index));
        Left::ToNobody
    }

    /// A file has left a chunk to others: where none of these has so high a level, its goal is
    /// lower from now on (SD4); whether it is.
    pub(super) fn lower_goal(
        &self,
        (names, chunks): (&NameTree, &mut ChunkTable),
        handle: ChunkHandle,
    ) -> bool {
        // Nothing is known of what is damaged, which was noted.
        let Some(chunk) = chunks.get(handle) else { return false };
        let mut highest = 0;
        let files = std::iter::once(chunk.file).chain(self.others(handle));
        for (count, file) in files.enumerate() {
            let level = names.entry(file).map(|file| file.replication);
            // The same; and one as high keeps it up.
            let Some(level) = level.filter(|level| *level < chunk.goal) else { return false };
            if count >= ASKED_MAX {
                return false;
            }
            highest = highest.max(level);
        }
        // Old records say of some files nothing.
        if highest == 0 {
            return false;
        }
        assert!(highest < chunk.goal, "one as high keeps it up (SD4)");
        chunks.set(handle, &ChunkRecord { goal: highest, ..chunk });
        true
    }
}

fn key(handle: ChunkHandle, file: EntryId) -> [u8; 16] {
    (u128::from(handle.get()) << 64 | u128::from(file.get())).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::{ChunkRecord, ChunkTable, Left, SharedChunks};
    use crate::state::map::DamageMark;
    use cairn_types::{ChunkHandle, ChunkIndex, EntryId};

    const CHUNK: ChunkHandle = ChunkHandle::new(20);
    const INDEX: ChunkIndex = ChunkIndex::new(1);

    fn file(number: u64) -> EntryId {
        EntryId::new(number)
    }

    /// A chunk of file 1 that files 2 and 3 share, beside a neighbour that nobody does.
    fn shared() -> (ChunkTable, SharedChunks) {
        let mark = DamageMark::default();
        let (mut chunks, mut shared) = (ChunkTable::new(&mark), SharedChunks::new(&mark));
        for (handle, owner) in [(CHUNK, file(1)), (ChunkHandle::new(21), file(9))] {
            let record = ChunkRecord { file: owner, index: INDEX, ..Default::default() };
            chunks.insert(handle, &record);
        }
        for other in [file(2), file(3)] {
            chunks.set_place((other, INDEX), CHUNK);
            shared.add_all(&[(CHUNK, other, INDEX)]);
        }
        (chunks, shared)
    }

    #[test]
    fn a_chunk_stays_until_the_last_of_its_files_lets_go_in_any_order() {
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let (mut chunks, mut shared) = shared();
            for (at, number) in order.into_iter().enumerate() {
                assert!(chunks.contains(CHUNK), "{order:?}");
                let left = shared.let_go(&mut chunks, CHUNK, (file(number), INDEX));
                let wanted = if at == 2 { Left::ToNobody } else { Left::ToOthers };
                assert_eq!(left, wanted, "{order:?}");
                assert_eq!(chunks.at(file(number), INDEX), None);
                for other in &order[at + 1..] {
                    assert_eq!(chunks.at(file(*other), INDEX), Some(CHUNK));
                }
                if let Some(chunk) = chunks.get(CHUNK) {
                    let mut all = vec![chunk.file];
                    all.extend(shared.others(CHUNK));
                    all.sort_unstable();
                    let mut wanted: Vec<EntryId> =
                        order[at + 1..].iter().map(|n| file(*n)).collect();
                    wanted.sort_unstable();
                    assert_eq!(all, wanted, "the owner and the rows (SD1)");
                }
            }
            assert!(!chunks.contains(CHUNK) && shared.is_empty(), "{order:?}");
        }
    }

    #[test]
    fn only_a_chunk_with_further_files_is_shared() {
        let (_, shared) = shared();
        assert!(shared.is_shared(CHUNK));
        assert!(!shared.is_shared(ChunkHandle::new(21)));
        assert!(!shared.is_shared(ChunkHandle::new(19)));
    }
}
