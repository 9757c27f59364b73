//! Snapshots, readers and checkpoints beside a writer, and how dense pages stay.

#![allow(clippy::unwrap_used, reason = "tests")]

use cairn_pagetree::{
    FileId, KEY_SIZE_MAX, LEAF_SIZE_MAX, Tree, VALUE_SIZE_MAX, checkpoint, rewrite,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

fn key(number: u32) -> Vec<u8> {
    format!("directory/part-{number:07}-0198f0a4.snappy.parquet").into_bytes()
}

/// Numbers below a power of two, each once, in a scattered order.
fn scattered(bits: u32) -> impl Iterator<Item = u32> {
    (0..1u32 << bits).map(move |number| number.wrapping_mul(0x9e37_79b1) & ((1 << bits) - 1))
}

/// How full leaves are.
fn fill(tree: &Tree) -> f64 {
    let mut bytes = Vec::new();
    let (_, made) = rewrite(tree, &mut bytes, 0, &[]).unwrap();
    made.record.live_bytes as f64 / (tree.usage().leaf_pages as f64 * LEAF_SIZE_MAX as f64)
}

#[test]
fn leaves_are_dense_after_ascending_descending_and_scattered_inserts() {
    let mut ascending = Tree::new();
    (0..1 << 15).for_each(|number| assert!(ascending.insert(&key(number), b"value").unwrap()));
    let mut descending = Tree::new();
    (0..1 << 15).rev().for_each(|n| assert!(descending.insert(&key(n), b"value").unwrap()));
    let mut random = Tree::new();
    scattered(15).for_each(|number| assert!(random.insert(&key(number), b"value").unwrap()));
    let fills = [fill(&ascending), fill(&descending), fill(&random)];
    assert!(fills[0] > 0.95 && fills[1] > 0.9 && fills[2] > 0.7, "{fills:?}");
}

#[test]
fn a_tree_emptied_in_any_order_is_empty_and_usable() {
    for order in 0..3 {
        let mut tree = Tree::new();
        (0..1 << 13).for_each(|number| assert!(tree.insert(&key(number), &[1; 30]).unwrap()));
        let full = tree.clone();
        let numbers: Vec<u32> = match order {
            0 => (0..1 << 13).collect(),
            1 => (0..1 << 13).rev().collect(),
            _ => scattered(13).collect(),
        };
        for (done, number) in numbers.iter().enumerate() {
            assert!(tree.remove(&key(*number)).unwrap());
            assert!(!tree.remove(&key(*number)).unwrap());
            if done % 1000 == 0 && tree.len() > 2000 {
                let usage = tree.usage();
                assert!(
                    usage.leaf_bytes / usage.leaf_pages > LEAF_SIZE_MAX as u64 / 4,
                    "{usage:?}"
                );
            }
        }
        assert!(tree.is_empty() && tree.range(&[]).next().is_none());
        assert_eq!(tree.usage().leaf_pages, 0);
        assert!(tree.insert(b"again", b"").unwrap());
        assert_eq!(full.range(&[]).count(), 1 << 13);
    }
}

#[test]
fn what_is_too_long_is_refused_and_what_is_just_not_goes_in() {
    let mut tree = Tree::new();
    assert!(tree.insert(&vec![1; KEY_SIZE_MAX + 1], b"").is_err());
    assert!(tree.insert(b"k", &vec![1; VALUE_SIZE_MAX + 1]).is_err());
    assert!(tree.is_empty());
    tree.insert(&vec![1; KEY_SIZE_MAX], &vec![2; VALUE_SIZE_MAX]).unwrap();
    for size in [LEAF_SIZE_MAX - 20, LEAF_SIZE_MAX - 1, LEAF_SIZE_MAX, LEAF_SIZE_MAX + 1] {
        tree.insert(format!("{size}").as_bytes(), &vec![3; size]).unwrap();
    }
    assert_eq!(tree.get(&vec![1; KEY_SIZE_MAX]).unwrap().unwrap().len(), VALUE_SIZE_MAX);
    assert_eq!(tree.range(&[]).count(), 5);
}

#[test]
fn readers_see_whole_snapshots_while_a_writer_goes_on() {
    // Each round sets all numbers to the round's: a snapshot has one value throughout.
    let published = Mutex::new(Tree::new());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let tree = published.lock().unwrap().clone();
                    let mut values = tree.range(&[]).map(|entry| entry.unwrap().1.to_vec());
                    if let Some(first) = values.next() {
                        assert!(values.all(|value| value == first));
                        assert_eq!(tree.get(&key(17)).unwrap(), Some(first.as_slice()));
                    }
                }
            });
        }
        let mut tree = Tree::new();
        for round in 0..40u32 {
            for number in scattered(10) {
                tree.insert(&key(number), &round.to_le_bytes()).unwrap();
            }
            *published.lock().unwrap() = tree.clone();
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn readers_of_a_stored_tree_verify_its_pages_together() {
    let mut tree = Tree::new();
    scattered(14).for_each(|number| assert!(tree.insert(&key(number), b"value").unwrap()));
    let mut bytes = Vec::new();
    let (_, made) = rewrite(&tree, &mut bytes, 0, &[]).unwrap();
    let tree = Tree::open(Arc::new(bytes), FileId::fresh(), &made.record).unwrap();
    thread::scope(|scope| {
        for reader in 0..4 {
            let tree = &tree;
            scope.spawn(move || {
                for number in scattered(14).skip(reader * 1000).take(9000) {
                    assert_eq!(tree.get(&key(number)).unwrap(), Some(&b"value"[..]));
                }
            });
        }
    });
}

#[test]
fn checkpoints_in_a_thread_of_their_own_are_of_the_moment_and_write_only_what_changed() {
    let (requests, checkpoints) = mpsc::channel::<(Tree, u64)>();
    let file = FileId::fresh();
    let writer = thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut records = Vec::new();
        for (tree, generation) in checkpoints {
            let made = checkpoint(&tree, file, &mut bytes, generation, &[]).unwrap();
            records.push(made);
        }
        (bytes, records)
    });
    let mut tree = Tree::new();
    for round in 0..30u32 {
        for number in 0..2000 {
            tree.insert(&key(round * 2000 + number), &round.to_le_bytes()).unwrap();
        }
        requests.send((tree.clone(), u64::from(round))).unwrap();
    }
    drop(requests);
    let (bytes, made) = writer.join().unwrap();
    let bytes = Arc::new(bytes);
    for (round, made) in made.iter().enumerate() {
        let tree = Tree::open(bytes.clone(), FileId::fresh(), &made.record).unwrap();
        assert_eq!(tree.len(), (round as u64 + 1) * 2000);
        let last = tree.range(&[]).last().unwrap().unwrap();
        assert_eq!(last.1, u32::try_from(round).unwrap().to_le_bytes());
        assert!(made.pages_written < 60, "round {round}: {} pages", made.pages_written);
    }
}

#[test]
fn after_a_rewrite_of_a_stored_tree_only_changes_are_written() {
    let mut tree = Tree::new();
    scattered(14).for_each(|number| assert!(tree.insert(&key(number), b"value").unwrap()));
    let mut bytes = Vec::new();
    let (file, made) = rewrite(&tree, &mut bytes, 0, &[]).unwrap();
    let mut tree = Tree::open(Arc::new(bytes), file, &made.record).unwrap();
    tree.insert(&key(77), b"other").unwrap();
    let mut fresh = Vec::new();
    let (file, rewritten) = rewrite(&tree, &mut fresh, 1, &[]).unwrap();
    assert_eq!(rewritten.record.live_bytes, fresh.len() as u64);
    tree.insert(&key(9999), b"other").unwrap();
    let made = checkpoint(&tree, file, &mut fresh, 2, &[]).unwrap();
    assert!(made.pages_written <= u64::from(made.record.level) + 1, "{made:?}");
    let reopened = Tree::open(Arc::new(fresh), FileId::fresh(), &made.record).unwrap();
    assert!(reopened.range(&[]).map(Result::unwrap).eq(tree.range(&[]).map(Result::unwrap)));
}

#[test]
fn a_tree_that_adopts_its_checkpoint_keeps_only_changes_in_memory() {
    let mut tree = Tree::new();
    scattered(14).for_each(|number| assert!(tree.insert(&key(number), b"value").unwrap()));
    let (old, made) = rewrite(&tree, &mut Vec::new(), 0, &[]).unwrap();
    assert!(tree.usage().leaf_pages > 50 && made.pages_written > 50);
    let mut bytes = Vec::new();
    let (file, _) = rewrite(&tree, &mut bytes, 1, &[]).unwrap();
    tree.insert(&key(5), b"other").unwrap();
    let before: Vec<_> = tree.range(&[]).map(|entry| entry.unwrap().0).collect();
    tree.adopt(Arc::new(bytes.clone()), file).unwrap();
    assert_eq!(tree.usage().leaf_pages, 1);
    assert_eq!(tree.get(&key(5)).unwrap(), Some(&b"other"[..]));
    assert!(tree.range(&[]).map(|entry| entry.unwrap().0).eq(before));
    // Its stored pages are in that file and in no other.
    assert!(tree.adopt(Arc::new(Vec::new()), old).is_err());
    let made = checkpoint(&tree, file, &mut bytes, 2, &[]).unwrap();
    assert!(made.pages_written <= u64::from(made.record.level) + 1, "{made:?}");
}
