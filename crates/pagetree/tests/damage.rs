//! Altered and cut files: a right answer or an error, never a wrong answer, never a panic.

#![allow(clippy::unwrap_used, reason = "tests")]

use cairn_pagetree::{
    Backing, CheckpointError, Damage, FileId, RootRecord, Tree, checkpoint, multi_get, rewrite,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A tree of some leaves, checkpointed twice into one file; with many, of three levels.
fn stored(many: u32) -> (Vec<u8>, RootRecord, Model) {
    let mut tree = Tree::new();
    let mut model = Model::new();
    let mut bytes = Vec::new();
    let file = FileId::fresh();
    for number in 0..many {
        let key = format!("{}{number}", "directory".repeat(usize::from(number % 7 == 0)));
        // Values near a leaf's size make many leaves of few entries.
        let value = vec![number.to_le_bytes()[0]; if number % 3 == 0 { 20 } else { 1560 }];
        tree.insert(key.as_bytes(), &value).unwrap();
        model.insert(key.into_bytes(), value);
        if number == many / 2 {
            checkpoint(&tree, file, &mut bytes, 1, &[]).unwrap();
        }
    }
    for number in 0..150u32 {
        let key = [b"many".as_slice(), &number.to_be_bytes()].concat();
        tree.insert(&key, b"v").unwrap();
        model.insert(key, b"v".to_vec());
    }
    let made = checkpoint(&tree, file, &mut bytes, 2, &[]).unwrap();
    (bytes, made.record, model)
}

/// Reads all there is; answers how many errors there were.
fn assert_right_or_error(bytes: Vec<u8>, record: &RootRecord, model: &Model) -> usize {
    let Ok(tree) = Tree::open(Arc::new(bytes), FileId::fresh(), record) else { return 1 };
    let mut errors = 0;
    // First, so that these are the first to touch whatever they meet.
    let together: Vec<&Vec<u8>> = model.keys().skip(2).step_by(25).collect();
    let found = multi_get(&tree, &together);
    assert_eq!(found.len(), together.len());
    for (key, found) in together.into_iter().zip(found) {
        assert!(found.is_err() || found == Ok(model.get(key).map(Vec::as_slice)));
        assert_eq!(found, tree.get(key), "in company and alone");
    }
    // A few from each part: all of them would take an hour for all altered files.
    for (key, value) in model.iter().step_by(5) {
        match tree.get(key) {
            Ok(found) => assert_eq!(found, Some(value.as_slice())),
            Err(_) => errors += 1,
        }
        let absent = [key, b"?".as_slice()].concat();
        assert!(matches!(tree.get(&absent), Ok(None) | Err(_)));
    }
    let mut expected = model.iter();
    for entry in tree.range(&[]) {
        match entry {
            Ok((key, value)) => {
                assert_eq!(expected.next(), Some((&key, &value.to_vec())));
            }
            Err(_) => return errors + 1,
        }
    }
    assert_eq!(expected.next(), None);
    errors
}

#[test]
fn every_altered_byte_of_a_live_page_is_an_error_and_no_answer_is_wrong() {
    let (bytes, record, model) = stored(9);
    assert_eq!(assert_right_or_error(bytes.clone(), &record, &model), 0);
    let mut noticed = 0;
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 1 << (at % 8);
        noticed += u64::from(assert_right_or_error(altered, &record, &model) > 0);
    }
    assert_eq!(noticed, record.live_bytes, "a page that the record reaches was not verified");
}

#[test]
fn bytes_altered_here_and_there_in_a_tree_of_three_levels_are_errors() {
    let (bytes, record, model) = stored(110);
    assert!(record.level >= 2);
    assert_eq!(assert_right_or_error(bytes.clone(), &record, &model), 0);
    for at in (0..bytes.len()).step_by(251) {
        let mut altered = bytes.clone();
        altered[at] ^= 1 << (at % 8);
        assert_right_or_error(altered, &record, &model);
    }
}

#[test]
fn every_cut_file_is_an_error_and_no_answer_is_wrong() {
    let (bytes, record, model) = stored(9);
    for size in (0..bytes.len()).rev() {
        let errors = assert_right_or_error(bytes[..size].to_vec(), &record, &model);
        assert!(errors > 0, "the root is the last page");
    }
}

#[test]
fn an_edit_that_meets_damage_changes_nothing() {
    let (bytes, record, model) = stored(110);
    for at in (0..bytes.len()).step_by(97) {
        let mut altered = bytes.clone();
        altered[at] ^= 0x10;
        let Ok(mut tree) = Tree::open(Arc::new(altered), FileId::fresh(), &record) else {
            continue;
        };
        let mut expected = model.clone();
        for (index, key) in model.keys().enumerate() {
            if index % 3 == 0 {
                if tree.remove(key).is_ok() {
                    expected.remove(key);
                }
            } else if index % 3 == 1 {
                let key = [key.as_slice(), b"-more-of-it"].concat();
                if tree.insert(&key, b"new").is_ok() {
                    expected.insert(key, b"new".to_vec());
                }
            }
        }
        assert_eq!(tree.len(), expected.len() as u64);
        for (key, value) in &expected {
            if let Ok(found) = tree.get(key) {
                assert_eq!(found, Some(value.as_slice()));
            }
        }
    }
}

/// A file whose bytes become others under the tree.
struct Rotting {
    whole: Vec<u8>,
    rotten: Vec<u8>,
    has_rotted: AtomicBool,
}

impl Backing for Rotting {
    fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let rotten = self.has_rotted.load(Ordering::Relaxed);
        if rotten { self.rotten.get(range) } else { self.whole.get(range) }
    }
}

/// The keys whose value is read otherwise than it was written.
fn wrong(tree: &Tree, model: &Model) -> Vec<Vec<u8>> {
    let differs = |(key, value): &(&Vec<u8>, &Vec<u8>)| {
        tree.get(key).is_ok_and(|found| found != Some(value.as_slice()))
    };
    model.iter().filter(differs).map(|(key, _)| key.clone()).collect()
}

#[test]
fn a_page_that_rots_after_it_was_read_is_never_copied_as_good() {
    let (whole, record, model) = stored(110);
    let (mut met, mut edits) = (0, 0);
    for at in (0..whole.len()).step_by(401) {
        let mut rotten = whole.clone();
        rotten[at] ^= 0x10;
        let backing = Arc::new(Rotting { whole: whole.clone(), rotten, has_rotted: false.into() });
        let mut tree = Tree::open(Arc::clone(&backing) as _, FileId::fresh(), &record).unwrap();
        assert_eq!(wrong(&tree, &model), Vec::<Vec<u8>>::new(), "all pages are verified now");
        backing.has_rotted.store(true, Ordering::Relaxed);
        let mut expected = model.clone();
        for (index, key) in model.keys().enumerate() {
            edits += 1;
            if index % 2 == 0 {
                let key = [key.as_slice(), b"-more-of-it"].concat();
                match tree.insert(&key, b"new") {
                    Ok(_) => drop(expected.insert(key, b"new".to_vec())),
                    Err(_) => met += 1,
                }
            } else {
                match tree.remove(key) {
                    Ok(_) => drop(expected.remove(key)),
                    Err(_) => met += 1,
                }
            }
        }
        // What is in memory now, and would be written out with fresh checksums, is as it was.
        let mut bytes = Vec::new();
        let Ok((_, made)) = rewrite(&tree, &mut bytes, 3, &[]) else { continue };
        let again = Tree::open(Arc::new(bytes), FileId::fresh(), &made.record).unwrap();
        assert_eq!(wrong(&again, &expected), Vec::<Vec<u8>>::new(), "byte {at}");
    }
    assert!(met > 100, "{met} of {edits} edits met damage");
}

#[test]
fn a_rewrite_never_copies_damage() {
    let (mut bytes, record, _) = stored(110);
    bytes[usize::try_from(record.offset).unwrap() - 5] ^= 1;
    let tree = Tree::open(Arc::new(bytes), FileId::fresh(), &record).unwrap();
    let refused = rewrite(&tree, &mut Vec::new(), 3, &[]);
    let damaged = refused.err().and_then(|error| match error {
        CheckpointError::Damaged(damaged) => Some(damaged),
        CheckpointError::Sink(_) => None,
    });
    assert_eq!(damaged.map(|damaged| damaged.damage), Some(Damage::Checksum));
}

#[test]
fn a_record_of_another_file_is_an_error() {
    let (bytes, record, _) = stored(110);
    for changed in [
        RootRecord { offset: record.offset - 1, ..record.clone() },
        RootRecord { offset: u64::MAX - 3, ..record.clone() },
        RootRecord { level: record.level + 1, ..record.clone() },
        RootRecord { level: 0, ..record.clone() },
        RootRecord { size: record.size + 1, ..record.clone() },
        RootRecord { count: 0, ..record.clone() },
    ] {
        assert!(Tree::open(Arc::new(bytes.clone()), FileId::fresh(), &changed).is_err());
    }
}
