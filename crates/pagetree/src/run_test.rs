//! Runs: what is built is found, edited and checked, for keys that share much, little or nothing.

use crate::entries::EntryList;
use crate::node::ChildPage;
use crate::range::LeafCursor;
use crate::run::{EntryRun, GROUP_COUNT, KeySpot, find, rank};
use crate::run_check::{check, groups_are_full};
use crate::run_edit::{self, Edit};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use std::collections::{BTreeMap, BTreeSet};

/// Keys that share fronts and backs, some of them long, some the front of others.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ab]{0,12}".prop_map(String::into_bytes),
        (0u32..100).prop_map(|n| format!("part-{n:05}-aaaa-c000.snappy.parquet").into_bytes()),
        (0u32..100, any::<bool>()).prop_map(|(n, two)| {
            let end = if two { "x".repeat(200) } else { String::new() };
            format!("{}{n}{end}", "long".repeat(40)).into_bytes()
        }),
        prop::collection::vec(any::<u8>(), 0..5),
        Just(Vec::new()),
    ]
}

fn map() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u8>>> {
    let value = prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 100..300),
    ];
    prop::collection::btree_map(key(), value, 1..80)
}

fn entries(map: &BTreeMap<Vec<u8>, Vec<u8>>) -> EntryList {
    let mut entries = EntryList::default();
    map.iter().for_each(|(key, value)| entries.push(key, value));
    entries
}

/// A run of most of these, some of its first keys references alone.
fn with_references(map: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut run = entries(map).to_run();
    for key in map.keys().step_by(8).take(map.len() / 9) {
        run_edit::remove(&mut run, key, 4000).unwrap();
    }
    run
}

/// Goes through all entries from a key on; nothing where the bytes are no run.
fn walk(run: &[u8], from: &[u8]) -> Option<()> {
    let child = ChildPage::leaf(run.to_vec());
    let mut cursor = LeafCursor::new(&child, run, from)?;
    let mut key = Vec::new();
    while cursor.step(&mut key)?.is_some() {}
    Some(())
}

fn assert_is(run: &[u8], map: &BTreeMap<Vec<u8>, Vec<u8>>, sought: &[Vec<u8>]) {
    assert_eq!(check(run), Some(map.len()));
    let mut read = EntryList::default();
    read.append_run(run).unwrap();
    let pairs = (0..read.count()).map(|index| read.get(index));
    assert!(pairs.eq(map.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))));
    for key in sought.iter().chain(map.keys()) {
        assert_eq!(find(run, key), Some(map.get(key).map(Vec::as_slice)), "{key:?}");
    }
}

proptest! {
    #[test]
    fn a_run_has_what_it_was_built_of(map in map(), sought in prop::collection::vec(key(), 20)) {
        let run = entries(&map).to_run();
        assert_is(&run, &map, &sought);
        for key in sought.iter().chain(map.keys()) {
            assert_eq!(rank(&run, key), Some(map.range(..=key.clone()).count()));
        }
    }

    #[test]
    fn who_goes_on_from_a_spot_comes_to_where_who_begins_anew_does(
        map in map(), sought in prop::collection::vec(key(), 0..60), step in 1usize..9,
    ) {
        let bytes = with_references(&map);
        let run = EntryRun::new(&bytes);
        let place =
            |spot: KeySpot<'_>| (spot.group_index, spot.index, spot.at, spot.found.is_some());
        let keys: BTreeSet<&Vec<u8>> = sought.iter().chain(map.keys().step_by(step)).collect();
        let mut spot = run.seek(&[]).unwrap();
        for key in keys.iter().flat_map(|key| [key; 2]) {
            spot = run.seek_on(&spot, key).unwrap();
            assert_eq!(place(spot), place(run.seek(key).unwrap()), "{key:?}");
        }
    }

    #[test]
    fn runs_cut_by_size_have_all_entries_and_keep_to_the_size(map in map(), max in 60usize..900) {
        let entries = entries(&map);
        let mut start = 0;
        for (run, end) in entries.to_runs(0..entries.count(), (9, max * 3 / 4), max) {
            assert!(run.len() <= max || end == start + 1);
            assert_eq!(check(&run), Some(end - start));
            assert_eq!(run, entries.range_to_run(start..end));
            start = end;
        }
        assert_eq!(start, map.len());
    }

    #[test]
    fn edits_in_place_leave_a_run(
        map in map(),
        edits in prop::collection::vec((key(), prop::option::of("[a-z]{0,140}")), 1..60),
    ) {
        let mut map = map;
        let mut run = entries(&map).to_run();
        for (key, value) in edits {
            let before = run.clone();
            let edit = match &value {
                Some(value) => run_edit::insert(&mut run, &key, value.as_bytes(), 4000).unwrap(),
                None if map.contains_key(&key) => run_edit::remove(&mut run, &key, 4000).unwrap(),
                None => continue,
            };
            match (edit, value) {
                (Edit::Rebuild, _) => assert_eq!(run, before),
                (Edit::Removed, None) => assert!(map.remove(&key).is_some()),
                (edit, Some(value)) => {
                    let old = map.insert(key, value.into_bytes());
                    assert_eq!(old.is_none(), edit == Edit::Added);
                }
                other => panic!("{other:?}"),
            }
            assert_is(&run, &map, &[]);
        }
    }

    #[test]
    fn entries_that_come_between_two_neighbours_go_in_together_and_no_others_do(
        map in map(),
        first in any::<prop::sample::Index>(),
        count in any::<prop::sample::Index>(),
        leaves_references in any::<bool>(),
    ) {
        let all: Vec<_> = map.iter().collect();
        let first = first.index(all.len());
        let count = 1 + count.index(all.len() - first);
        let (taken, mut left) = (&all[first..first + count], map.clone());
        taken.iter().for_each(|(key, _)| drop(left.remove(*key)));
        if left.is_empty() {
            return Ok(());
        }
        let mut run = entries(&left).to_run();
        if leaves_references {
            run = entries(&map).to_run();
            for (key, _) in taken {
                assert_eq!(run_edit::remove(&mut run, key, usize::MAX), Some(Edit::Removed));
            }
        }
        let mut new = EntryList::default();
        taken.iter().for_each(|(key, value)| new.push(key, value));
        let edited = run_edit::inserted_between(&run, &new, usize::MAX);
        // Below the first of a group nothing goes in so.
        assert!(edited.is_some() || first == 0 || leaves_references);
        if let Some(edited) = edited {
            assert_is(&edited, &map, &[]);
            assert_eq!(run_edit::inserted_between(&run, &new, edited.len() - 1), None, "its size");
            let again = run_edit::inserted_between(&edited, &new, usize::MAX);
            assert_eq!(again, None, "they are there");
        }
        // One of them stands in the run: the others are on both sides of it.
        if let [_, between @ .., _] = taken
            && let Some((key, value)) = between.first()
        {
            left.insert((*key).clone(), (*value).clone());
            let mut apart = EntryList::default();
            let others = taken.iter().filter(|(it, _)| it != key);
            others.for_each(|(key, value)| apart.push(key, value));
            let run = entries(&left).to_run();
            assert_eq!(run_edit::inserted_between(&run, &apart, usize::MAX), None);
        }
    }

    #[test]
    fn bytes_that_are_no_run_make_no_reader_panic(
        map in map(),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        cut in any::<prop::sample::Index>(),
        sought in key(),
    ) {
        let mut run = with_references(&map);
        let at = at.index(run.len());
        run[at] = with;
        run.truncate(cut.index(run.len()) + 1);
        let checked = check(&run);
        let _ = (find(&run, &sought), rank(&run, &sought));
        let read = EntryList::default().append_run(&run);
        let walked = walk(&run, &sought);
        let mut new = EntryList::default();
        new.push(&sought, b"value");
        let _ = run_edit::inserted_between(&run, &new, usize::MAX);
        assert!(checked.is_none() || (read.is_some() && walked.is_some()));
    }
}

/// What the heads of a run are, each group's first key among them.
fn heads(run: &[u8]) -> Vec<(usize, usize, Vec<u8>)> {
    let mut groups = EntryRun::new(run).groups().unwrap();
    let heads = std::iter::from_fn(|| groups.take());
    heads.map(|group| (group.front, group.back, group.middle.to_vec())).collect()
}

/// After which removals of so many keys the heads were others.
fn regroupings(order: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for number in 0..40 {
        map.insert(format!("k{number:03}z").into_bytes(), b"v".to_vec());
    }
    let mut run = entries(&map).to_run();
    let mut regrouped = Vec::new();
    for (removals, number) in order.enumerate() {
        let key = format!("k{number:03}z").into_bytes();
        let before = heads(&run);
        assert_eq!(run_edit::remove(&mut run, &key, 4000), Some(Edit::Removed));
        map.remove(&key);
        assert_is(&run, &map, std::slice::from_ref(&key));
        if heads(&run) != before {
            regrouped.push(removals);
            continue;
        }
        // What stays as a reference alone becomes an entry again.
        let mut again = run.clone();
        assert_eq!(run_edit::insert(&mut again, &key, b"back", 4000), Some(Edit::Added));
        let mut map = map.clone();
        map.insert(key, b"back".to_vec());
        assert_is(&again, &map, &[]);
    }
    regrouped
}

#[test]
fn removals_from_either_end_change_references_only_when_a_group_is_empty() {
    assert_eq!(regroupings(0..39), [15, 31]);
    assert_eq!(regroupings((1..40).rev()), [7, 23]);
    assert_eq!(regroupings((0..40).step_by(16).chain(1..8)), []);
}

#[test]
fn a_group_without_entries_is_none_and_a_reference_alone_parts_no_pages() {
    let empty = [1, 0, 14, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, b'k', 0];
    assert_eq!(check(&empty), None);
    let one = [1, 0, 14, 0, 0, 0, 0, 0, 1, 6, 0, 0, 0, b'k', 0, 0, 0, 1, 0, b'l'];
    assert_eq!((check(&one), groups_are_full(&one)), (Some(1), Some(false)));
    let both = [1, 0, 14, 0, 0, 0, 0, 0, 1, 6, 0, 0, 0, b'k', 1, 0, 0, 1, 0, b'l'];
    assert_eq!((check(&both), groups_are_full(&both)), (Some(2), Some(true)));
}

#[test]
fn a_spark_directory_costs_little_beside_its_values() {
    let mut entries = EntryList::default();
    for number in 0..60 {
        let name =
            format!("part-{number:05}-0198f0a4-32c1-7e55-b1aa-0242ac120002-c000.snappy.parquet");
        let key = [&7u64.to_be_bytes(), name.as_bytes()].concat();
        entries.push(&key, &[0; 16]);
    }
    let size = entries.to_run().len() - 60 * 16;
    assert!(size < 60 * 8, "{size} bytes beside the values");
}

#[test]
fn a_groups_first_key_is_put_together_from_the_runs_first() {
    let mut entries = EntryList::default();
    let keys: Vec<String> = (0..40).map(|number| format!("k{number:03}z")).collect();
    keys.iter().for_each(|key| entries.push(key.as_bytes(), b""));
    let bytes = entries.to_run();
    let mut groups = EntryRun::new(&bytes).groups().unwrap();
    assert_eq!(groups.left, 40usize.div_ceil(GROUP_COUNT));
    let first = groups.take().unwrap();
    let group = groups.take().unwrap();
    let mut key = Vec::new();
    group.key(first.middle).unwrap().append_to(&mut key);
    assert_eq!(key, keys[GROUP_COUNT].as_bytes());
    assert_eq!((group.front, group.middle, group.back), (2, &b"16"[..], 1));
}
