//! The checkpoints of a master on a disk that is killed, loses power, tears, rots and fills up.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use cairn_env::{Disk, DiskError, OpenMode};
use cairn_env_sim::SimDisk;
use cairn_pagetree::{CheckpointError, Damage, Damaged, RootRecord, Tree, checkpoint};
use cairn_store::{CHECKPOINTS_KEPT, Checkpoints, PageFileLimits, WrittenCheckpoint, WrittenImage};
use cairn_types::{CellId, LogIndex, Random, Term};
use std::collections::BTreeMap;

const CELL: CellId = CellId::new(7);
/// Garbage beyond which a page file is left: a few checkpoints' worth.
const GARBAGE_MAX: u64 = 40 << 10;

/// Records that a page file spans.
const RECORDS_MAX: u64 = 25;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn new_disk() -> SimDisk {
    SimDisk::new("sim", 1 << 30)
}

fn open(disk: &SimDisk) -> Checkpoints {
    open_within(disk, GARBAGE_MAX)
}

fn open_within(disk: &SimDisk, garbage_max: u64) -> Checkpoints {
    let limits = PageFileLimits { garbage_max, records_max: RECORDS_MAX };
    Checkpoints::open(disk.session(), CELL, limits).unwrap()
}

/// A live state: what it should be, and the tree that it is in.
struct Live {
    content: Content,
    tree: Tree,
}

impl Live {
    fn of(count: u64) -> Self {
        let mut live = Self { content: Content::new(), tree: Tree::new() };
        (0..count).for_each(|key| live.set(key, 0));
        live
    }

    fn set(&mut self, key: u64, value: u64) {
        let (key, value) = (key.to_be_bytes().to_vec(), format!("value {value}").into_bytes());
        self.tree.insert(&key, &value).unwrap();
        self.content.insert(key, value);
    }

    /// Writes a checkpoint, and reads from it where that is asked for.
    fn checkpoint(
        &mut self,
        checkpoints: &mut Checkpoints,
        index: u64,
    ) -> Result<WrittenCheckpoint, CheckpointError<DiskError>> {
        let tree = self.tree.clone();
        let written = checkpoints.write(Term::new(3), LogIndex::new(index), |file, writer| {
            let record = checkpoint(&tree, file, writer, index, &[])?.record;
            Ok(WrittenImage { live_bytes: record.live_bytes, root: record.encode() })
        })?;
        if let Some(mapped) = &written.to_adopt {
            self.tree.adopt(mapped.backing.clone(), mapped.file).unwrap();
        }
        Ok(written)
    }
}

fn content(tree: &Tree) -> Result<Content, Damaged> {
    let mut content = Content::new();
    let mut entries = tree.range(&[]);
    while let Some((key, value)) = entries.advance()? {
        content.insert(key.to_vec(), value.to_vec());
    }
    Ok(content)
}

/// What the newest checkpoint in which no damage shows holds, after all that is before it.
fn newest(disk: &SimDisk) -> Option<(u64, Content)> {
    let mut checkpoints = open(disk);
    for index in checkpoints.list().unwrap() {
        let Some(found) = checkpoints.load(index).unwrap() else { continue };
        let record = RootRecord::decode(&found.root.root).unwrap();
        let tree = Tree::open(found.mapped.backing.clone(), found.mapped.file, &record);
        match tree.and_then(|tree| content(&tree)) {
            Ok(content) => return Some((index.get(), content)),
            Err(damaged) => checkpoints.mark_damaged(found.root.page_file, &damaged).unwrap(),
        }
    }
    None
}

fn names(disk: &SimDisk, suffix: &str) -> Vec<String> {
    disk.paths().into_iter().filter(|path| path.ends_with(suffix)).collect()
}

fn read_whole(disk: &dyn Disk, path: &str) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn replace(disk: &SimDisk, path: &str, bytes: &[u8]) {
    let file = disk.session().open(path, OpenMode::Write).unwrap();
    file.set_size(0).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

#[test]
fn a_checkpoint_cut_short_at_any_step_leaves_the_one_before_or_is_whole() {
    for garbage_max in [0, GARBAGE_MAX] {
        let open = |disk: &SimDisk| open_within(disk, garbage_max);
        let make = |disk: &SimDisk| {
            let (mut live, mut checkpoints) = (Live::of(2000), open(disk));
            for index in 1..4 {
                live.set(index, index);
                live.checkpoint(&mut checkpoints, index).unwrap();
                checkpoints.remove_older().unwrap();
            }
            live.set(1000, 4);
            (live, checkpoints)
        };
        let whole = new_disk();
        let (mut live, mut checkpoints) = make(&whole);
        let (before, from) = (whole.image(), whole.steps());
        let old = newest(&whole).unwrap();
        live.checkpoint(&mut checkpoints, 4).unwrap();
        checkpoints.remove_older().unwrap();
        let steps = whole.steps() - from;
        assert!(steps > 6, "{steps} steps");
        for step in 0..steps {
            for end in 0..8 {
                let disk = new_disk();
                let (mut again, mut checkpoints) = make(&disk);
                assert_eq!(disk.steps(), from);
                disk.arm_fuse(step);
                let made = again.checkpoint(&mut checkpoints, 4).is_ok();
                let _ = checkpoints.remove_older();
                match end {
                    0 => disk.crash(),
                    1 => disk.power_loss_of_all_unsynced(),
                    _ => disk.power_loss(&mut Random::new(step * 8 + end)),
                }
                let (index, found) = newest(&disk).expect("one stands");
                assert!(index == 4 || (index == 3 && !made), "step {step}: {index}");
                let expected = if index == 4 { &live.content } else { &old.1 };
                assert_eq!(&found, expected, "step {step}, end {end}");
                assert!(names(&disk, ".damaged").is_empty(), "step {step}: none shows damage");
            }
        }
        whole.restore(&before);
        assert_eq!(newest(&whole).unwrap(), old);
    }
}

#[test]
fn after_any_number_of_deaths_the_last_checkpoint_made_is_found_and_goes_on() {
    let (mut deaths, mut made) = (0, 0);
    for seed in 0..150 {
        let random = &mut Random::new(seed);
        let (disk, mut written) = (new_disk(), BTreeMap::new());
        let (mut index, mut durable) = (0, 0);
        for _ in 0..5 {
            let mut checkpoints = open(&disk);
            let mut live = Live::of(300);
            if let Some(found) = checkpoints.list().unwrap().first() {
                let found = checkpoints.load(*found).unwrap().expect("the newest one is whole");
                assert!(found.root.index.get() >= durable, "seed {seed}");
                let record = RootRecord::decode(&found.root.root).unwrap();
                live.tree =
                    Tree::open(found.mapped.backing.clone(), found.mapped.file, &record).unwrap();
                live.content = content(&live.tree).expect("no page was overwritten");
                assert_eq!(written.get(&found.root.index.get()), Some(&live.content));
                checkpoints.go_on_from(found);
            } else {
                assert_eq!(durable, 0, "seed {seed}");
            }
            disk.arm_fuse(random.below(120));
            for _ in 0..8 {
                for _ in 0..random.below(20) {
                    live.set(random.below(400), random.next_u64());
                }
                index += 1;
                written.insert(index, live.content.clone());
                if live.checkpoint(&mut checkpoints, index).is_ok() {
                    (durable, made) = (index, made + 1);
                }
                let _ = checkpoints.remove_older();
                if disk.fuse_blown() {
                    deaths += 1;
                    break;
                }
            }
            drop(checkpoints);
            if random.chance(500) { disk.crash() } else { disk.power_loss(random) }
        }
    }
    assert!(deaths > 150 && made > 1000, "{deaths} deaths, {made} checkpoints");
}

#[test]
fn a_root_or_page_file_cut_or_altered_anywhere_gives_the_state_before_or_none() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(1500), open(&disk));
    let mut written = BTreeMap::new();
    for index in 1..3 {
        live.set(700, index);
        live.checkpoint(&mut checkpoints, index).unwrap();
        written.insert(index, live.content.clone());
    }
    drop(checkpoints);
    let image = disk.image();
    let mut found = BTreeMap::<Option<u64>, u64>::new();
    let mut damage = |path: &str, bytes: &[u8], what: String| {
        disk.restore(&image);
        replace(&disk, path, bytes);
        let newest = newest(&disk);
        if let Some((index, content)) = &newest {
            assert_eq!(written.get(index), Some(content), "{path} {what}");
        }
        *found.entry(newest.map(|(index, _)| index)).or_default() += 1;
    };
    let root = names(&disk, ".root").pop().unwrap();
    let pages = names(&disk, ".pages").pop().unwrap();
    for (path, stride) in [(root, 1), (pages, 61)] {
        let bytes = read_whole(disk.session().as_ref(), &path);
        for at in (0..bytes.len()).step_by(stride) {
            damage(&path, &bytes[..at], format!("cut at {at}"));
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            damage(&path, &altered, format!("altered at {at}"));
        }
    }
    // The newest where nothing of it was hit, the one before, and none where both have the page.
    assert!(found.len() == 3 && found.values().all(|count| *count > 10), "{found:?}");
}

#[test]
fn only_pages_that_the_last_checkpoint_lacks_are_written_and_none_that_a_root_names_again() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(20_000), open(&disk));
    let first = live.checkpoint(&mut checkpoints, 1).unwrap().size;
    let path = names(&disk, ".pages").pop().unwrap();
    let before = read_whole(disk.session().as_ref(), &path);
    live.set(10_000, 1);
    let second = live.checkpoint(&mut checkpoints, 2).unwrap().size;
    assert!(first > 50_000 && second < 15_000, "{first}, {second}");
    let after = read_whole(disk.session().as_ref(), &path);
    assert_eq!(after[..before.len()], before);
    // Behind a torn tail, and never in the same block as what stands.
    drop(checkpoints);
    let session = disk.session();
    let torn = [7; 5000];
    session.open(&path, OpenMode::Write).unwrap().write_at(&torn, after.len() as u64).unwrap();
    let mut checkpoints = open(&disk);
    let found = checkpoints.load(LogIndex::new(2)).unwrap().unwrap();
    let record = RootRecord::decode(&found.root.root).unwrap();
    live.tree = Tree::open(found.mapped.backing.clone(), found.mapped.file, &record).unwrap();
    checkpoints.go_on_from(found);
    live.set(5, 5);
    live.checkpoint(&mut checkpoints, 3).unwrap();
    let third = read_whole(session.as_ref(), &path);
    let left = [after.as_slice(), &torn].concat();
    assert!(third.starts_with(&left));
    let block = left.len().next_multiple_of(4096);
    assert!(third[left.len()..block].iter().all(|byte| *byte == 0) && third.len() > block);
    assert_eq!(newest(&disk), Some((3, live.content)));
}

#[test]
fn the_set_count_is_kept_and_space_comes_back() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(3000), open(&disk));
    let (mut most, mut live_bytes) = (0, 0);
    for index in 1..200 {
        for key in 0..40 {
            live.set(key * 75, index);
        }
        live.checkpoint(&mut checkpoints, index).unwrap();
        let oldest = checkpoints.remove_older().unwrap();
        let page_file = |index| checkpoints.load(index).unwrap().unwrap().root.page_file;
        match oldest {
            Some(oldest) => {
                assert_ne!(
                    page_file(oldest),
                    page_file(LogIndex::new(index)),
                    "no damage is of all"
                );
                assert!(index - oldest.get() <= RECORDS_MAX + 1, "the log does not grow for ever");
            }
            None => assert_eq!(page_file(LogIndex::new(index)), 1, "there is no other yet"),
        }
        assert!(names(&disk, ".root").len() <= CHECKPOINTS_KEPT + 1);
        assert!(names(&disk, ".pages").len() <= 2, "{:?}", disk.paths());
        most = most.max(disk.session().space().unwrap().used);
        live_bytes = checkpoints.load(LogIndex::new(index)).unwrap().unwrap().root.live_bytes;
    }
    // Two page files, each with its garbage and the checkpoint that was too much.
    let bound = 2 * (2 * live_bytes + GARBAGE_MAX + live_bytes) + (16 << 10);
    assert!(most <= bound, "{most} bytes where {live_bytes} are live");
    assert_eq!(newest(&disk), Some((199, live.content)));
}

#[test]
fn a_rotten_root_is_passed_over_and_never_counted_as_kept() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(100), open(&disk));
    for index in [5, 10, 15, 20] {
        live.checkpoint(&mut checkpoints, index).unwrap();
    }
    disk.flip_byte("checkpoints/0000000000000014.root", 90);
    assert!(checkpoints.load(LogIndex::new(20)).unwrap().is_none());
    assert_eq!(checkpoints.remove_older(), Ok(None), "of another page file there is none");
    let kept: Vec<u64> = checkpoints.list().unwrap().iter().map(|index| index.get()).collect();
    assert_eq!(kept, [20, 15, 10]);
}

#[test]
fn a_root_that_cannot_be_read_for_a_while_keeps_its_page_file() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(100), open(&disk));
    live.checkpoint(&mut checkpoints, 5).unwrap();
    checkpoints.begin_afresh();
    live.checkpoint(&mut checkpoints, 10).unwrap();
    let root = "checkpoints/0000000000000005.root";
    for index in [15, 20] {
        let is_hit = match index {
            15 => disk.make_unreadable(root, 0),
            _ => disk.flip_byte(root, 70),
        };
        assert!(is_hit);
        live.checkpoint(&mut checkpoints, index).unwrap();
        assert_eq!(checkpoints.remove_older(), Ok(None), "of another page file none reads");
        assert_eq!(names(&disk, ".pages").len(), 2, "{:?}", disk.paths());
        disk.make_readable();
    }
    // The byte is as it was: the checkpoint is whole.
    assert!(disk.flip_byte(root, 70));
    assert!(checkpoints.load(LogIndex::new(5)).unwrap().is_some());
    assert_eq!(checkpoints.remove_older(), Ok(Some(LogIndex::new(5))));
}

/// Damage in the last page that a checkpoint has.
fn last_page(checkpoints: &Checkpoints, index: u64) -> Damaged {
    let found = checkpoints.load(LogIndex::new(index)).unwrap().unwrap();
    Damaged { offset: found.root.page_file_size - 1, size: 1, damage: Damage::Checksum }
}

#[test]
fn damage_that_two_checkpoints_share_leaves_the_one_of_another_page_file() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(100), open(&disk));
    live.checkpoint(&mut checkpoints, 5).unwrap();
    checkpoints.begin_afresh();
    live.checkpoint(&mut checkpoints, 10).unwrap();
    let damaged = last_page(&checkpoints, 10);
    live.checkpoint(&mut checkpoints, 15).unwrap();
    assert_eq!(checkpoints.remove_older(), Ok(Some(LogIndex::new(5))));
    checkpoints.mark_damaged(2, &damaged).unwrap();
    assert_eq!(checkpoints.list().unwrap(), [LogIndex::new(5)]);
}

#[test]
fn no_older_checkpoint_is_set_aside_because_the_newest_cannot_be_read_for_a_while() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(100), open(&disk));
    live.checkpoint(&mut checkpoints, 5).unwrap();
    live.set(1, 1);
    live.checkpoint(&mut checkpoints, 10).unwrap();
    let damaged = last_page(&checkpoints, 10);
    assert!(disk.make_unreadable("checkpoints/000000000000000a.root", 0));
    checkpoints.mark_damaged(1, &damaged).unwrap();
    disk.make_readable();
    assert_eq!(checkpoints.list().unwrap(), [10, 5].map(LogIndex::new));
    checkpoints.mark_damaged(1, &damaged).unwrap();
    assert_eq!(checkpoints.list().unwrap(), [LogIndex::new(5)]);
}

#[test]
fn a_checkpoint_marked_as_damaged_is_not_read_again_and_goes_with_those_of_its_time() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(100), open(&disk));
    live.checkpoint(&mut checkpoints, 5).unwrap();
    live.set(1, 1);
    live.checkpoint(&mut checkpoints, 10).unwrap();
    checkpoints.mark_damaged(1, &last_page(&checkpoints, 10)).unwrap();
    assert_eq!(checkpoints.list().unwrap(), [LogIndex::new(5)], "it had not that page");
    assert_eq!(names(&disk, ".damaged"), ["checkpoints/000000000000000a.damaged"]);
    let mut checkpoints = open(&disk);
    live.tree = Live::of(100).tree;
    for index in [15, 20] {
        // A fresh page file each: the damaged one keeps its own.
        checkpoints.begin_afresh();
        live.checkpoint(&mut checkpoints, index).unwrap();
        checkpoints.remove_older().unwrap();
        let marked = names(&disk, ".damaged").len();
        assert_eq!(marked, usize::from(index == 15), "{:?}", disk.paths());
    }
    assert_eq!(names(&disk, ".pages").len(), 2, "{:?}", disk.paths());
}

#[test]
fn on_a_full_disk_a_checkpoint_fails_gives_its_space_back_and_the_next_one_stands() {
    let disk = new_disk();
    let (mut live, mut checkpoints) = (Live::of(3000), open(&disk));
    live.checkpoint(&mut checkpoints, 1).unwrap();
    let old = live.content.clone();
    let used = disk.session().space().unwrap().used;
    for fresh in [false, true] {
        disk.set_capacity(used + 8192);
        (0..3000).for_each(|key| live.set(key, 2));
        if fresh {
            checkpoints.begin_afresh();
        }
        let failed = live.checkpoint(&mut checkpoints, 2).unwrap_err();
        assert_eq!(failed, CheckpointError::Sink(DiskError::NoSpace));
        assert_eq!(newest(&disk), Some((1, old.clone())));
        assert!(disk.session().space().unwrap().used <= used + 4096, "it takes no room");
    }
    disk.set_capacity(1 << 30);
    live.checkpoint(&mut checkpoints, 3).unwrap();
    assert_eq!(newest(&disk), Some((3, live.content)));
}
