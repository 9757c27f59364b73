//! The tree against an ordered map, over random sequences of operations, snapshots, checkpoints
//! and crashes.

#![allow(clippy::unwrap_used, reason = "tests")]

use cairn_pagetree::{FileId, Finger, RootRecord, Tree, checkpoint, multi_get, rewrite};
use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Operation {
    Insert(Vec<u8>, Vec<u8>),
    /// Ascending or descending names in one directory.
    InsertMany {
        directory: u8,
        first: u16,
        count: u16,
        step: i8,
    },
    /// Ascending names, handed over together.
    InsertSorted {
        directory: u8,
        first: u16,
        count: u16,
        step: u16,
        sizes: Vec<u16>,
    },
    Remove(Index),
    RemoveMany {
        first: Index,
        count: usize,
    },
    Get(Vec<u8>),
    Range(Vec<u8>),
    Snapshot,
    CheckSnapshot(Index),
    Checkpoint,
    Rewrite,
    /// What the file has is read from it from now on.
    Adopt,
    /// The process ends; what comes after opens one of the last root records.
    Crash {
        record: Index,
    },
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => "[ab]{0,9}".prop_map(String::into_bytes),
        6 => (0u8..4, any::<u16>()).prop_map(|(directory, number)| name(directory, number)),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (0usize..8000, any::<u8>()).prop_map(|(size, last)| {
            let mut key = vec![b'k'; size];
            key.push(last);
            key
        }),
    ]
}

fn name(directory: u8, number: u16) -> Vec<u8> {
    let end = if directory < 2 { "-0198f0a4-32c1-7e55.snappy.parquet" } else { "" };
    let mut key = u64::from(directory).to_be_bytes().to_vec();
    key.extend_from_slice(format!("part-{number:05}{end}").as_bytes());
    key
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        12 => prop::collection::vec(any::<u8>(), 0..24),
        1 => (0usize..6000, any::<u8>()).prop_map(|(size, byte)| vec![byte; size]),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        20 => (key(), value()).prop_map(|(key, value)| Operation::Insert(key, value)),
        6 => (0u8..4, any::<u16>(), 1u16..600, -3i8..4).prop_map(|(directory, first, count, step)| {
            Operation::InsertMany { directory, first, count, step }
        }),
        6 => (0u8..4, any::<u16>(), 1u16..600, 1u16..9, prop::collection::vec(0u16..900, 1..6))
            .prop_map(|(directory, first, count, step, sizes)| {
                Operation::InsertSorted { directory, first, count, step, sizes }
            }),
        10 => any::<Index>().prop_map(Operation::Remove),
        3 => (any::<Index>(), 1usize..800)
            .prop_map(|(first, count)| Operation::RemoveMany { first, count }),
        6 => key().prop_map(Operation::Get),
        3 => key().prop_map(Operation::Range),
        2 => prop::strategy::Just(Operation::Snapshot),
        2 => any::<Index>().prop_map(Operation::CheckSnapshot),
        2 => prop::strategy::Just(Operation::Checkpoint),
        1 => prop::strategy::Just(Operation::Rewrite),
        1 => prop::strategy::Just(Operation::Adopt),
        1 => any::<Index>().prop_map(|record| Operation::Crash { record }),
    ]
}

/// A tree, the map that it must be, and what is on disk.
struct World {
    tree: Tree,
    model: Model,
    snapshots: Vec<(Tree, Model)>,
    file: FileId,
    bytes: Vec<u8>,
    /// Records of the file as they are stored, and what they must open as.
    records: Vec<(Vec<u8>, Model)>,
    generation: u64,
}

impl World {
    fn new() -> Self {
        Self {
            tree: Tree::new(),
            model: Model::new(),
            snapshots: Vec::new(),
            file: FileId::fresh(),
            bytes: b"a header of the caller's".to_vec(),
            records: Vec::new(),
            generation: 0,
        }
    }

    fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let added = self.tree.insert(&key, &value).unwrap();
        assert_eq!(added, self.model.insert(key, value).is_none());
    }

    fn remove(&mut self, key: &[u8]) {
        let removed = self.tree.remove(key).unwrap();
        assert_eq!(removed, self.model.remove(key).is_some());
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Insert(key, value) => self.insert(key, value),
            Operation::InsertMany { directory, first, count, step } => {
                for index in 0..count {
                    let number = first
                        .wrapping_add_signed(i16::from(step).wrapping_mul(index.cast_signed()));
                    self.insert(name(directory, number), index.to_le_bytes().to_vec());
                }
            }
            Operation::InsertSorted { directory, first, count, step, sizes } => {
                // Mostly small ones, as names and records are.
                let size = |at: usize| match at % 37 {
                    0 => usize::from(sizes[at / 37 % sizes.len()]),
                    _ => usize::from(sizes[0]) % 24,
                };
                let numbers = (0..count).map_while(|index| first.checked_add(index * step));
                let entries: Vec<_> = numbers
                    .enumerate()
                    .map(|(at, number)| (name(directory, number), vec![b'v'; size(at)]))
                    .collect();
                let added = self.tree.insert_sorted(&entries).unwrap();
                let mut new = 0;
                for (key, value) in entries {
                    new += u64::from(self.model.insert(key, value).is_none());
                }
                assert_eq!(added, new);
            }
            Operation::Remove(at) => {
                let key = self.model.keys().nth(at.index(self.model.len() + 1)).cloned();
                self.remove(&key.unwrap_or(b"absent".to_vec()));
            }
            Operation::RemoveMany { first, count } => {
                let first = first.index(self.model.len() + 1);
                let keys: Vec<_> = self.model.keys().skip(first).take(count).cloned().collect();
                keys.iter().for_each(|key| self.remove(key));
            }
            Operation::Get(key) => {
                let found = self.tree.get(&key).unwrap();
                assert_eq!(found, self.model.get(&key).map(Vec::as_slice));
                self.check_near(&key);
            }
            Operation::Range(from) => assert_same(&self.tree, &self.model, &from),
            Operation::Snapshot => self.snapshots.push((self.tree.clone(), self.model.clone())),
            Operation::CheckSnapshot(at) => {
                if !self.snapshots.is_empty() {
                    let (tree, model) = self.snapshots.swap_remove(at.index(self.snapshots.len()));
                    assert_same(&tree, &model, &[]);
                }
            }
            Operation::Checkpoint => self.checkpoint(),
            Operation::Rewrite => self.rewrite(),
            Operation::Adopt => {
                self.tree.adopt(Arc::new(self.bytes.clone()), self.file).unwrap();
            }
            Operation::Crash { record } => self.crash(record),
        }
    }

    /// Looks up keys near `key`, there or not, forwards and back: from one to the next, and
    /// together.
    fn check_near(&self, key: &[u8]) {
        let first = self.model.first_key_value();
        let mut range = self.tree.range(&[]);
        let lent = range.advance().unwrap();
        assert_eq!(lent, first.map(|(key, value)| (key.as_slice(), value.as_slice())));
        let near = self.model.range(key.to_vec()..).map(|(key, _)| key.clone()).take(40);
        let mut keys: Vec<Vec<u8>> = std::iter::once(key.to_vec()).chain(near).collect();
        keys.extend(keys.clone().into_iter().rev().step_by(3));
        keys.extend(keys.clone().into_iter().step_by(9).map(|key| [key, b"?".to_vec()].concat()));
        let mut finger = Finger::new(&self.tree);
        for key in &keys {
            let found = finger.get(key).unwrap();
            assert_eq!(found, self.model.get(key).map(Vec::as_slice));
        }
        assert_found_together(&self.tree, &self.model, &keys);
    }

    fn keep(&mut self, record: &RootRecord) {
        assert_eq!(record.count, self.model.len() as u64);
        self.records.push((record.encode(), self.model.clone()));
    }

    fn checkpoint(&mut self) {
        self.generation += 1;
        let before = self.bytes.len() as u64;
        let made = checkpoint(&self.tree, self.file, &mut self.bytes, self.generation, b"mine");
        let made = made.unwrap();
        assert_eq!(self.bytes.len() as u64, before + made.bytes_written);
        assert!(made.record.live_bytes <= self.bytes.len() as u64);
        self.keep(&made.record);
        let again = checkpoint(&self.tree, self.file, &mut self.bytes, self.generation, b"mine");
        let again = again.unwrap();
        assert_eq!((again.pages_written, again.record), (0, made.record));
    }

    fn rewrite(&mut self) {
        self.generation += 1;
        self.bytes = Vec::new();
        self.records.clear();
        let (file, made) = rewrite(&self.tree, &mut self.bytes, self.generation, b"").unwrap();
        assert_eq!(made.record.live_bytes, self.bytes.len() as u64);
        self.file = file;
        self.keep(&made.record);
    }

    fn crash(&mut self, record: Index) {
        self.file = FileId::fresh();
        self.snapshots.clear();
        if self.records.is_empty() {
            (self.tree, self.model) = (Tree::new(), Model::new());
            return;
        }
        let kept = self.records.len() - record.index(self.records.len().min(2));
        self.records.truncate(kept);
        let (record, model) = self.records.last().unwrap().clone();
        let record = RootRecord::decode(&record).unwrap();
        self.tree = Tree::open(Arc::new(self.bytes.clone()), self.file, &record).unwrap();
        self.model = model;
    }
}

fn assert_found_together(tree: &Tree, model: &Model, keys: &[Vec<u8>]) {
    let found: Vec<Option<&[u8]>> = multi_get(tree, keys).into_iter().map(Result::unwrap).collect();
    let expected: Vec<Option<&[u8]>> =
        keys.iter().map(|key| model.get(key).map(Vec::as_slice)).collect();
    assert_eq!(found, expected);
}

fn assert_same(tree: &Tree, model: &Model, from: &[u8]) {
    assert_eq!(tree.len(), model.len() as u64);
    let entries: Vec<_> = tree.range(from).map(Result::unwrap).collect();
    let expected = model.range(from.to_vec()..);
    assert!(
        entries
            .iter()
            .map(|(key, value)| (key.as_slice(), *value))
            .eq(expected.map(|(key, value)| (key.as_slice(), value.as_slice())))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn a_tree_is_the_map(operations in prop::collection::vec(operation(), 1..80)) {
        let mut world = World::new();
        for operation in operations {
            world.apply(operation);
        }
        let World { tree, model, snapshots, .. } = world;
        assert_same(&tree, &model, &[]);
        for (key, value) in &model {
            assert_eq!(tree.get(key).unwrap(), Some(value.as_slice()));
        }
        assert_found_together(&tree, &model, &model.keys().cloned().collect::<Vec<_>>());
        for (tree, model) in &snapshots {
            assert_same(tree, model, &[]);
        }
    }

    #[test]
    fn a_tree_filled_in_order_is_the_map(
        model in prop::collection::btree_map(key(), value(), 0..300),
        many in 0u16..5000,
    ) {
        let mut model = model;
        model.extend((0..many).map(|number| (name(9, number), vec![7; usize::from(number % 20)])));
        let mut tree = Tree::new();
        for (key, value) in &model {
            assert!(tree.insert(key, value).unwrap());
        }
        assert_same(&tree, &model, &[]);
        for (key, value) in &model {
            assert_eq!(tree.get(key).unwrap(), Some(value.as_slice()));
        }
    }
}
