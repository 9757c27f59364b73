//! Replaced ranges of a stream against a plain model: of which chunk each byte is (OE1, R46).

use super::map::DamageMark;
use super::streams::StreamTables;
use cairn_types::{ChunkIndex, EntryId, Random};
use proptest::prelude::{any, proptest};
use std::collections::BTreeSet;

const FILE: EntryId = EntryId::new(7);
const INDEXES: u64 = 6;

/// Of each byte: its chunk, and where in it.
fn bytes_of(tables: &StreamTables) -> Vec<(u64, u64)> {
    let mut bytes = Vec::new();
    for extent in tables.extents_from(FILE, 0) {
        assert_eq!(extent.offset(), bytes.len() as u64, "no gap (OE1)");
        let within = extent.chunk_offset..extent.chunk_offset + extent.size;
        bytes.extend(within.map(|at| (extent.index.get(), at)));
    }
    bytes
}

proptest! {
    #[test]
    fn a_range_is_of_the_new_chunk_and_all_others_are_what_they_were(seed in any::<u64>()) {
        let (mut random, mark) = (Random::new(seed), DamageMark::default());
        let (mut tables, mut model) = (StreamTables::new(&mark), Vec::new());
        for step in 0..40_u64 {
            let (size, index) = (1 + random.below(20), random.below(INDEXES));
            let range = (ChunkIndex::new(index), step * 100, size);
            let fresh = (0..size).map(|at| (index, step * 100 + at));
            let length = model.len() as u64;
            if length < size || random.chance(300) {
                tables.add_extent(FILE, length, range);
                model.extend(fresh);
            } else {
                let at = random.below(length - size + 1) as usize;
                let there = at..at + size as usize;
                let were: BTreeSet<u64> = model[there.clone()].iter().map(|it| it.0).collect();
                let cut = tables.replace_extents(FILE, at as u64, range);
                let cut: BTreeSet<u64> = cut.into_iter().map(ChunkIndex::get).collect();
                assert_eq!(cut, were, "which chunks have lost some");
                model.splice(there, fresh);
            }
            assert_eq!(bytes_of(&tables), model);
            let all: BTreeSet<ChunkIndex> = (0..INDEXES).map(ChunkIndex::new).collect();
            let named: BTreeSet<u64> = model.iter().map(|it| it.0).collect();
            for (index, bytes) in tables.bytes_of(FILE, &all) {
                let count = model.iter().filter(|it| it.0 == index.get()).count();
                assert_eq!((bytes, bytes > 0), (count as u64, named.contains(&index.get())));
            }
        }
    }
}
