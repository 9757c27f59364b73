//! Replaced ranges of a stream against a plain model: of which chunk each byte is (OE1, R46).

use super::map::DamageMark;
use super::streams::StreamTables;
use cairn_types::{ChunkIndex, EntryId, Random};
use proptest::prelude::{any, proptest};
use std::collections::{BTreeMap, BTreeSet};

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
                let of = |bytes: &[(u64, u64)], it: u64| {
                    bytes.iter().filter(|byte| byte.0 == it).count() as u64
                };
                // Of every other chunk it is counted how much the file has; nothing is put into
                // those any more.
                for it in (0..INDEXES).filter(|it| *it != index) {
                    let left = if it % 2 == 0 { of(&model, it) } else { 0 };
                    tables.settled_mut().set_left(FILE, ChunkIndex::new(it), left);
                }
                tables.settled_mut().set_left(FILE, ChunkIndex::new(index), 0);
                let lost = &model[there.clone()];
                let were = (0..INDEXES).map(|it| (ChunkIndex::new(it), of(lost, it)));
                let were: BTreeMap<ChunkIndex, u64> = were.filter(|it| it.1 > 0).collect();
                let cut = tables.replace_extents(FILE, at as u64, range);
                assert_eq!(cut, were, "which chunks have lost how much");
                model.splice(there, fresh);
                for (it, left) in tables.left_of(FILE, &cut) {
                    assert_eq!(left, of(&model, it.get()), "what is left of {it}");
                }
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
