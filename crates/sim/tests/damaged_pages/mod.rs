//! Pages that are altered after their checkpoint was made: whenever one is met, at the start or in
//! the middle of the work, an older checkpoint and the log give all that was there.
//!
//! ```text
//!   oldest page file   … first ──┐
//!   newest page file   … second · newest ── log ──► the state
//!                          └──── both have most pages
//! ```

use super::{Running, create, disk, newest, read_root, roots};
use cairn_env_sim::{DiskImage, SimDisk};
use cairn_protocol::{Response, Stat};
use cairn_types::EntryId;
use std::collections::BTreeMap;

/// Names that fill several pages.
const NAMES: u64 = 1000;
/// Each that is kept may have its damage met by a life of its own.
const LIVES_MAX: u64 = 4;

/// A master's directory after a kill, with three checkpoints; and what was in it.
struct Left {
    disk: SimDisk,
    image: DiskImage,
    ids: BTreeMap<u64, EntryId>,
    /// Oldest first.
    roots: Vec<String>,
}

/// How a directory was found good again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    /// Masters that stopped before.
    halts: u64,
    /// Checkpoints that were set aside.
    set_aside: usize,
}

/// Creates a file and lets all disk work be done.
fn add(running: &mut Running, ids: &mut BTreeMap<u64, EntryId>, number: u64) {
    let asked = running.send(create(number));
    running.settle();
    let Some(Ok(Response::Create(made))) = running.answers.get(&asked) else { panic!("creates") };
    ids.insert(number, made.entry.id);
}

impl Left {
    fn new() -> Self {
        let (disk, mut ids) = (disk(), BTreeMap::new());
        let mut running = Running::started(&disk, 1);
        for number in 1..=NAMES {
            add(&mut running, &mut ids, 10_000 + number);
        }
        // The newest checkpoint has pages of its own that the log since then does not touch.
        let before = newest(&disk, ".root");
        for number in 1..=8 {
            if newest(&disk, ".root") == before {
                add(&mut running, &mut ids, number);
            }
        }
        // Numbers are mutations' of one session: further apart, the first ones would be refused.
        add(&mut running, &mut ids, 11_900);
        drop(running);
        disk.crash();
        let (image, roots) = (disk.image(), roots(&disk));
        let left = Self { disk, image, ids, roots };
        let [first, second, newest] = &left.roots[..] else { panic!("{:?}", left.roots) };
        let page_file = |path: &String| read_root(&left.disk, path).expect("whole").page_file;
        assert!(*newest > before && page_file(newest) == page_file(second));
        assert_ne!(page_file(second), page_file(first));
        left
    }

    /// The newest checkpoint's root, its page file, and places all over that.
    fn newest(&self) -> (&str, String, impl Iterator<Item = u64>) {
        let path = self.roots.last().expect("there are three");
        let root = read_root(&self.disk, path).expect("whole");
        let places = (0..root.page_file_size).step_by(997);
        (path, newest(&self.disk, ".pages"), places)
    }

    /// Makes the page at a place of a file unreadable, and alters nothing.
    fn lose_sector(&self, path: &str, offset: u64) {
        self.disk.restore(&self.image);
        assert!(self.disk.make_unreadable(path, offset));
    }

    /// Alters a byte of each of these files, and nothing else.
    fn alter(&self, bytes: &[(&str, u64)]) {
        self.disk.restore(&self.image);
        assert!(bytes.iter().all(|(path, offset)| self.disk.flip_byte(path, *offset)));
    }

    /// Starts masters that touch all names and then make so many more, one after the other, until
    /// one neither stops nor is ended: it has all names.
    fn goes_on(&self, creations: u64) -> Found {
        let mut ids = self.ids.clone();
        for halts in 0..LIVES_MAX {
            let opened = Running::open(&self.disk, 2 + halts);
            if self.disk.fuse_blown() {
                self.disk.crash();
                continue;
            }
            let mut running = opened.expect("opens");
            running.settle();
            let (names, answered) = (ids.len(), touch(&mut running, &ids));
            for at in 0..creations {
                let number = 12_000 + 1000 * halts + at;
                let asked = running.send(create(number));
                running.settle();
                if let Some(Ok(Response::Create(made))) = running.answers.get(&asked) {
                    ids.insert(number, made.entry.id);
                }
            }
            running.settle();
            if self.disk.fuse_blown() {
                drop(running);
                self.disk.power_loss_of_all_unsynced();
                continue;
            }
            let Some(line) = running.halted.take() else {
                assert_eq!(answered, names);
                let paths = self.disk.paths();
                let damaged = paths.iter().filter(|path| path.ends_with(".damaged"));
                return Found { halts, set_aside: damaged.count() };
            };
            assert!(line.contains("the checkpoint in use is damaged: the page at"), "{line}");
            drop(running);
            self.disk.power_loss_of_all_unsynced();
        }
        panic!("no master goes on");
    }
}

/// Asks for all names; how many answers there are, all of which are right.
fn touch(running: &mut Running, ids: &BTreeMap<u64, EntryId>) -> usize {
    let mut answered = 0;
    for (number, id) in ids {
        let asked = running.send(Stat { path: create(*number).path });
        match running.answers.get(&asked) {
            Some(Ok(Response::Stat(stat))) => assert_eq!(stat.entry.id, *id, "file {number}"),
            Some(other) => panic!("file {number}: {other:?}"),
            None => continue,
        }
        answered += 1;
    }
    answered
}

#[test]
fn a_page_altered_anywhere_leads_to_an_older_checkpoint_whenever_it_is_met() {
    let left = Left::new();
    let (_, pages, places) = left.newest();
    let mut ways: BTreeMap<Found, u64> = BTreeMap::new();
    for place in places {
        left.alter(&[(&pages, place)]);
        *ways.entry(left.goes_on(0)).or_default() += 1;
    }
    // At the start or later; in the newest alone, or in both that have the page.
    for (halts, set_aside) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        assert!(ways.contains_key(&Found { halts, set_aside }), "{ways:?}");
    }
}

#[test]
fn a_sector_that_cannot_be_read_ends_one_master_at_most_and_leads_to_an_older_checkpoint() {
    let left = Left::new();
    let (_, pages, places) = left.newest();
    let mut ways: BTreeMap<Found, u64> = BTreeMap::new();
    for place in places {
        left.lose_sector(&pages, place);
        *ways.entry(left.goes_on(0)).or_default() += 1;
        assert_eq!(left.disk.session().unreadable(), Ok(None), "it is acted on once");
    }
    for set_aside in [1, 2] {
        assert!(ways.contains_key(&Found { halts: 1, set_aside }), "{ways:?}");
    }
    assert!(ways.keys().all(|found| found.halts <= 1), "{ways:?}");
}

#[test]
fn a_page_that_no_request_reads_is_met_by_the_checkpoint_that_copies_it() {
    let left = Left::new();
    let (_, pages, places) = left.newest();
    let mut met = 0;
    for place in places.step_by(7) {
        left.alter(&[(&pages, place)]);
        if left.goes_on(0).set_aside == 0 {
            left.alter(&[(&pages, place)]);
            met += left.goes_on(60).halts;
        }
    }
    assert!(met > 0);
}

#[test]
fn damage_sets_aside_the_checkpoint_that_was_read_where_a_newer_one_does_not_read() {
    let left = Left::new();
    let (root, pages, mut places) = left.newest();
    let shared = places.find(|place| {
        left.alter(&[(&pages, *place)]);
        left.goes_on(0) == Found { halts: 1, set_aside: 2 }
    });
    left.alter(&[(&pages, shared.expect("a page of both")), (root, 100)]);
    // The one that was read, and what was made of it before it met its damage.
    assert_eq!(left.goes_on(0), Found { halts: 1, set_aside: 2 });
    let read = left.roots[left.roots.len() - 2].replace(".root", ".damaged");
    assert!(left.disk.paths().contains(&read), "{:?}", left.disk.paths());
    assert!(roots(&left.disk).iter().any(|path| path == root), "it was not read");
}
