//! Chunks by file and index, and by handle.
//!
//! ```text
//!   places  (file id, index) → handle          chunks  handle → record
//! ```
//! - CT1: the trees name each other: every chunk has the place of its owner, and those of the files
//!   that share it (`shared_chunks.rs`); every place one chunk. A file's first place, index 0, is
//!   in the file's own record and not here.
//! - CT2: what a chunk of a stream has lost goes with the chunk (`lost_tails.rs`).

use super::entry_record::EntryRecord;
use super::lost_tails::LostTails;
use super::map::{DamageMark, Map};
use super::packing::{Packed, put_near, put_number};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, EntryId};
use std::ops::{Range, RangeInclusive};

/// So many chunks of a file are looked up one by one.
const LOOKED_UP_MAX: u64 = 3;

cairn_types::message! {
    /// What is logged of a chunk.
    #[derive(Copy)]
    pub struct ChunkRecord {
        1 => file: EntryId,
        2 => index: ChunkIndex,
        /// The last logged version: what every replica of the set stands at, or above (R9).
        3 => version: ChunkVersion,
        /// How many replicas took part in that raise.
        4 => set_size: u32,
        /// No append any more (R18).
        5 => closed: bool,
        /// How many replicas it shall have.
        6 => goal: u32,
    }
}

const CLOSED: u8 = 1;
/// The index follows; else it is zero.
const HAS_INDEX: u8 = 2;
const SET_SIZE_SHIFT: u32 = 2;
const GOAL_SHIFT: u32 = 5;
/// Set size and goal have three bits each; all set where the number follows.
const FOLLOWS: u8 = 7;

impl ChunkRecord {
    fn pack(&self, handle: ChunkHandle) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        let short = |n: u32| u8::try_from(n).ok().filter(|n| *n < FOLLOWS).unwrap_or(FOLLOWS);
        let numbers = [self.set_size, self.goal];
        let [set_size, goal] = numbers.map(short);
        let has_index = if self.index == ChunkIndex::default() { 0 } else { HAS_INDEX };
        let closed = if self.closed { CLOSED } else { 0 };
        out.push(closed | has_index | set_size << SET_SIZE_SHIFT | goal << GOAL_SHIFT);
        for number in numbers.into_iter().filter(|number| short(*number) == FOLLOWS) {
            put_number(&mut out, u64::from(number));
        }
        put_near(&mut out, self.file.get(), handle.get());
        put_near(&mut out, self.version.get(), handle.get());
        if has_index != 0 {
            put_number(&mut out, self.index.get());
        }
        out
    }

    fn unpack(handle: ChunkHandle, packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let flags = packed.byte()?;
        let mut number = |shift: u32| match flags >> shift & FOLLOWS {
            FOLLOWS => packed.small(),
            short => Some(u32::from(short)),
        };
        let (set_size, goal) = (number(SET_SIZE_SHIFT)?, number(GOAL_SHIFT)?);
        let file = EntryId::new(packed.near(handle.get())?);
        let version = ChunkVersion::new(packed.near(handle.get())?);
        let index = if flags & HAS_INDEX == 0 { 0 } else { packed.number()? };
        let (index, closed) = (ChunkIndex::new(index), flags & CLOSED != 0);
        packed.end(Self { file, index, version, set_size, closed, goal })
    }
}

/// All chunks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChunkTable {
    places: Map,
    chunks: Map,
    lost: LostTails,
}

impl ChunkTable {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self { places: Map::new(mark), chunks: Map::new(mark), lost: LostTails::new(mark) }
    }

    /// From what an image has.
    pub(super) fn of([places, chunks]: [Map; 2], lost: LostTails) -> Self {
        Self { places, chunks, lost }
    }

    pub(super) fn maps(&self) -> [&Map; 2] {
        [&self.places, &self.chunks]
    }

    /// These, and those of what was lost.
    pub(super) fn maps_mut(&mut self) -> ([&mut Map; 2], [&mut Map; 2]) {
        ([&mut self.places, &mut self.chunks], self.lost.maps_mut())
    }

    /// What chunks have lost.
    pub(super) fn lost(&self) -> &LostTails {
        &self.lost
    }

    pub(super) fn lost_mut(&mut self) -> &mut LostTails {
        &mut self.lost
    }

    /// The chunk at an index of a file, but for the first.
    pub(super) fn at(&self, file: EntryId, index: ChunkIndex) -> Option<ChunkHandle> {
        self.places.get(&place_key(file, index), |packed| unpack_handle(file, packed))
    }

    /// The chunk at an index of a file whose record is at hand.
    pub(super) fn of_record(
        &self,
        id: EntryId,
        file: &EntryRecord,
        index: ChunkIndex,
    ) -> Option<ChunkHandle> {
        if index == ChunkIndex::default() { file.first } else { self.at(id, index) }
    }

    /// Those of a file from one index on and before another, but for the first.
    pub(super) fn between(&self, file: EntryId, indexes: Range<u64>) -> Vec<ChunkHandle> {
        // To look for a few costs less than to begin a walk.
        if indexes.end.saturating_sub(indexes.start) <= LOOKED_UP_MAX {
            return indexes.filter_map(|index| self.at(file, ChunkIndex::new(index))).collect();
        }
        let walk = self.of_file(file, ChunkIndex::new(indexes.start));
        let within = walk.take_while(|(index, _)| index.get() < indexes.end);
        within.map(|(_, handle)| handle).collect()
    }

    /// Those of a file from an index on, but for the first.
    pub(super) fn of_file(
        &self,
        file: EntryId,
        first: ChunkIndex,
    ) -> impl Iterator<Item = (ChunkIndex, ChunkHandle)> + use<'_> {
        let mut walk = self.places.walk(&place_key(file, first));
        std::iter::from_fn(move || {
            walk.unpack(|key, packed| {
                let mut key = Packed(key);
                if key.key()? != file.get() {
                    return Some(None);
                }
                let index = ChunkIndex::new(key.key()?);
                key.end(Some((index, unpack_handle(file, packed)?)))
            })
        })
    }

    pub(super) fn get(&self, handle: ChunkHandle) -> Option<ChunkRecord> {
        self.chunks.get(&chunk_key(handle), |packed| ChunkRecord::unpack(handle, packed))
    }

    /// The same of each handle, looked up together.
    pub(super) fn get_each(&self, handles: &[ChunkHandle]) -> Vec<Option<ChunkRecord>> {
        let keys: Vec<_> = handles.iter().map(|handle| chunk_key(*handle)).collect();
        let unpack = |index: usize, packed| ChunkRecord::unpack(handles[index], packed);
        self.chunks.get_each(&keys, unpack).collect()
    }

    /// Whether no new chunk can be called that: one is already, or none ever is.
    pub(super) fn is_taken(&self, handle: ChunkHandle) -> bool {
        handle.is_none() || self.contains(handle)
    }

    pub(super) fn contains(&self, handle: ChunkHandle) -> bool {
        self.chunks.contains(&chunk_key(handle))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChunkHandle, ChunkRecord)> + use<'_> {
        self.from(ChunkHandle::default())
    }

    /// Every chunk from a handle on.
    pub(super) fn from(
        &self,
        first: ChunkHandle,
    ) -> impl Iterator<Item = (ChunkHandle, ChunkRecord)> + use<'_> {
        let mut walk = self.chunks.walk(&chunk_key(first));
        std::iter::from_fn(move || {
            walk.unpack(|key, packed| {
                let mut key = Packed(key);
                let handle = ChunkHandle::new(key.key()?);
                key.end(Some((handle, ChunkRecord::unpack(handle, packed)?)))
            })
        })
    }

    /// Those of a range of handles.
    pub(super) fn among(
        &self,
        handles: RangeInclusive<ChunkHandle>,
    ) -> impl Iterator<Item = ChunkHandle> + use<'_> {
        let mut walk = self.chunks.walk(&chunk_key(*handles.start()));
        let unpacked = std::iter::from_fn(move || {
            walk.unpack(|key, _| {
                let mut key = Packed(key);
                let handle = ChunkHandle::new(key.key()?);
                key.end(Some(handle))
            })
        });
        unpacked.take_while(move |handle| handle <= handles.end())
    }

    pub(super) fn count(&self) -> u64 {
        self.chunks.len()
    }

    /// Enters a chunk whose place and handle are free (CT1). The caller notes a file's first.
    pub(super) fn insert(&mut self, handle: ChunkHandle, record: &ChunkRecord) {
        self.set_place((record.file, record.index), handle);
        self.set(handle, record);
    }

    /// A file has that chunk at an index from now on. The caller notes a file's first.
    pub(super) fn set_place(&mut self, (file, index): (EntryId, ChunkIndex), handle: ChunkHandle) {
        if index != ChunkIndex::default() {
            let mut place = Vec::new();
            put_near(&mut place, handle.get(), file.get());
            self.places.set(&place_key(file, index), &place);
        }
    }

    /// A file has no chunk at an index any more. The caller notes a file's first.
    pub(super) fn clear_place(&mut self, file: EntryId, index: ChunkIndex) {
        if index != ChunkIndex::default() {
            self.places.remove(&place_key(file, index));
        }
    }

    /// Takes a chunk out of its place (CT1). The caller notes a file's first.
    pub(super) fn remove(&mut self, handle: ChunkHandle, (file, index): (EntryId, ChunkIndex)) {
        self.clear_place(file, index);
        self.chunks.remove(&chunk_key(handle));
        // CT2
        self.lost.remove(handle);
    }

    /// Changes a chunk, but not its place.
    pub(super) fn set(&mut self, handle: ChunkHandle, record: &ChunkRecord) {
        self.chunks.set(&chunk_key(handle), &record.pack(handle));
    }
}

fn chunk_key(handle: ChunkHandle) -> [u8; 8] {
    handle.get().to_be_bytes()
}

/// Both big-endian, so that a file's chunks lie together and in order.
fn place_key(file: EntryId, index: ChunkIndex) -> [u8; 16] {
    (u128::from(file.get()) << 64 | u128::from(index.get())).to_be_bytes()
}

fn unpack_handle(file: EntryId, packed: &[u8]) -> Option<ChunkHandle> {
    let mut packed = Packed(packed);
    let handle = packed.near(file.get())?;
    packed.end(ChunkHandle::new(handle))
}

#[cfg(test)]
mod tests {
    use super::{ChunkRecord, ChunkTable, DamageMark};
    use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, EntryId};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn a_record_comes_back_and_no_bytes_make_it_panic(
            ids: (u64, u64, u64), index: u64, numbers: (u32, u32), closed: bool, short: bool,
            raw in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let handle = ChunkHandle::new(ids.0);
            let record = ChunkRecord {
                file: EntryId::new(ids.1),
                index: ChunkIndex::new(if short { 0 } else { index }),
                version: ChunkVersion::new(ids.2),
                set_size: if short { numbers.0 % 9 } else { numbers.0 },
                closed,
                goal: if short { numbers.1 % 9 } else { numbers.1 },
            };
            assert_eq!(ChunkRecord::unpack(handle, &record.pack(handle)), Some(record));
            let _ = ChunkRecord::unpack(handle, &raw);
        }
    }

    #[test]
    fn few_and_many_chunks_are_those_between_the_indexes_without_holes_and_neighbours() {
        let mut table = ChunkTable::new(&DamageMark::default());
        let there = |file: u64, index: u64| index != 3 && file * 10 + index < 29;
        for (file, index) in (1..4).flat_map(|file| (1..8).map(move |index| (file, index))) {
            let record = ChunkRecord {
                file: EntryId::new(file),
                index: ChunkIndex::new(index),
                ..Default::default()
            };
            if there(file, index) {
                table.insert(ChunkHandle::new(file * 10 + index), &record);
            }
        }
        for (first, end) in (1..9).flat_map(|first| (0..10).map(move |end| (first, end))) {
            let wanted = (first..end.min(8)).filter(|index| there(2, *index));
            let wanted: Vec<_> = wanted.map(|index| ChunkHandle::new(20 + index)).collect();
            assert_eq!(table.between(EntryId::new(2), first..end), wanted, "{first}..{end}");
        }
    }

    #[test]
    fn a_fresh_chunk_takes_few_bytes() {
        let at = |counter: u64| 3 << 40 | counter;
        let chunk = ChunkRecord {
            file: EntryId::new(at(1000)),
            version: ChunkVersion::new(at(1002)),
            set_size: 3,
            goal: 3,
            ..Default::default()
        };
        assert_eq!(chunk.pack(ChunkHandle::new(at(1001))).len(), 3);
    }
}
