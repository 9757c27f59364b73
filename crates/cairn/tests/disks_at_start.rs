//! A chunkserver whose data directories are not all fit for use when it starts: it goes on with
//! those that are, what lay in the others is copied, and these are compared when they are back.

mod cell;

use cell::{Cell, await_until};
use serde_json::Value;
use std::fs::{File, remove_file, rename, write};
use std::path::{Path, PathBuf};

/// A cell whose first server has two data directories: the one in which its chunks lie, and the
/// other.
struct TwoDisks {
    cell: Cell,
    held: PathBuf,
    other: PathBuf,
    bytes: Vec<u8>,
}

impl TwoDisks {
    fn start() -> Self {
        let mut disks = [PathBuf::new(), PathBuf::new()];
        let cell = Cell::start_plan(4, |plan| {
            disks = ["first", "second"].map(|name| plan.directory.join(name));
            plan.disks.insert(1, disks.to_vec());
        });
        let bytes: Vec<u8> = (0..3 << 19).flat_map(|at: u32| at.to_le_bytes()).collect();
        let local = cell.file("local", &bytes);
        cell.ok(["put", local.as_str(), "/file"]);
        append(&cell, "first");
        disks.sort_by_key(|disk| chunk_count(disk));
        let [other, held] = disks;
        assert!(chunk_count(&held) > 0, "the first server holds something");
        Self { cell, held, other, bytes }
    }

    /// What `servers` tells of the first.
    fn server(&self) -> Value {
        let address = self.cell.chunkservers[0].address();
        let told = self.cell.ok(["servers", "--json"]);
        let mut all = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        all.find(|it| it["address"] == address).expect("it is known")
    }

    fn restart(&mut self) {
        self.cell.chunkservers[0].restart().expect("starts");
        self.cell.await_live(4).expect("all are live");
    }

    /// Until every chunk has three good replicas and nothing else is anywhere.
    fn await_whole(&self) {
        await_until("three good replicas of each chunk", || {
            ["/file", "/log"].iter().all(|path| {
                let told = self.cell.ok(["explain", path]);
                let mut chunks = told.lines().filter(|line| line.starts_with("chunk "));
                chunks.all(|line| line.contains("3 of 3 good")) && !told.contains("stale")
            })
        });
        await_until("a whole cell", || self.cell.status("under_replicated") == 0);
    }

    fn judge(&self, lines: &str) {
        assert!(self.cell.ok_with(["cat", "/file"], b"") == self.bytes, "other bytes");
        assert_eq!(self.cell.ok(["cat", "/log"]), lines);
    }
}

fn append(cell: &Cell, line: &str) {
    cell.ok_with(["append", "/log", "-"], format!("{line}\n").as_bytes());
}

fn chunk_count(disk: &Path) -> usize {
    cairn_testkit::chunk_files(disk).expect("lists").len()
}

/// A disk is away, with all that it holds.
fn set_aside(disk: &Path) {
    rename(disk, disk.with_extension("away")).expect("renames");
}

fn put_back(disk: &Path) {
    rename(disk.with_extension("away"), disk).expect("renames");
}

/// The first server is started while one of its directories is `broken`, and once more when it is
/// `mended`.
fn starts_without(broken: impl FnOnce(&Path), mended: impl FnOnce(&Path), why: &str) {
    let mut it = TwoDisks::start();
    it.cell.chunkservers[0].kill();
    let held = chunk_count(&it.held);
    broken(&it.held);
    it.restart();
    await_until("a failed directory", || it.server()["disk_failed_count"] == 1);
    let reasons = it.cell.json(&["status"])["reasons"].to_string();
    assert!(reasons.contains("DISKS_FAILED"), "{reasons}");
    let disks = it.cell.ok(["servers", "--disks"]);
    let failed: Vec<&str> = disks.lines().filter(|line| line.contains("failed")).collect();
    let is_it = |line: &&str| line.contains(&it.held.display().to_string());
    assert!(failed.len() == 1 && failed.iter().all(is_it), "{disks}");
    let log = std::fs::read_to_string(it.cell.chunkservers[0].log()).expect("reads");
    let told = log.lines().find(|line| line.contains("a data directory is given up"));
    assert!(told.is_some_and(|line| line.contains(why)), "{log}");
    it.await_whole();
    it.judge("first\n");
    // What it held of this file is old from now on.
    append(&it.cell, "second");
    it.cell.chunkservers[0].kill();
    mended(&it.held);
    assert_eq!(chunk_count(&it.held), held, "nothing was changed there");
    it.restart();
    await_until("no failed directory", || it.server()["disk_failed_count"] == 0);
    append(&it.cell, "third");
    it.await_whole();
    for away in 0..it.cell.chunkservers.len() {
        it.cell.chunkservers[away].kill();
        it.judge("first\nsecond\nthird\n");
        it.cell.chunkservers[away].restart().expect("starts");
        it.cell.await_live(4).expect("all are live");
    }
}

#[test]
fn a_server_starts_without_a_directory_whose_files_have_rotted_and_its_chunks_are_copied() {
    let aside = |disk: &Path| disk.with_extension("identity");
    let broken = |disk: &Path| {
        std::fs::copy(disk.join("identity"), aside(disk)).expect("copies");
        write(disk.join("identity"), b"rot").expect("writes");
    };
    let mended = |disk: &Path| {
        rename(aside(disk), disk.join("identity")).expect("renames");
    };
    starts_without(broken, mended, "cut short");
}

#[test]
fn a_server_starts_without_a_directory_that_is_not_there_and_makes_none_in_its_place() {
    let broken = |disk: &Path| set_aside(disk);
    let mended = |disk: &Path| {
        assert!(!disk.exists(), "a hole where a disk was");
        put_back(disk);
    };
    starts_without(broken, mended, "no such file");
}

#[test]
fn a_new_directory_of_a_server_with_others_is_taken_in_once_a_person_has_made_it() {
    let mut it = TwoDisks::start();
    it.cell.chunkservers[0].kill();
    std::fs::remove_dir_all(&it.other).expect("removes");
    it.restart();
    await_until("a failed directory", || it.server()["disk_failed_count"] == 1);
    std::fs::create_dir(&it.other).expect("makes");
    await_until("no failed directory", || it.server()["disk_failed_count"] == 0);
    it.await_whole();
}

#[test]
fn a_server_starts_without_a_directory_that_is_none_and_its_chunks_are_copied() {
    let broken = |disk: &Path| {
        set_aside(disk);
        write(disk, b"in its place").expect("writes");
    };
    let mended = |disk: &Path| {
        remove_file(disk).expect("removes");
        put_back(disk);
    };
    starts_without(broken, mended, "it exists already");
}

#[test]
fn a_directory_that_was_passed_over_is_taken_in_while_the_server_runs_once_it_is_empty() {
    let mut it = TwoDisks::start();
    it.cell.chunkservers[0].kill();
    rename(&it.held, it.held.with_extension("away")).expect("renames");
    write(&it.held, b"in its place").expect("writes");
    it.restart();
    await_until("a failed directory", || it.server()["disk_failed_count"] == 1);
    remove_file(&it.held).expect("removes");
    std::fs::create_dir(&it.held).expect("makes");
    await_until("no failed directory", || it.server()["disk_failed_count"] == 0);
    assert!(it.held.join("identity").exists(), "it is this server's");
    it.await_whole();
    it.judge("first\n");
}

/// What a file manager, a backup or a person leaves where chunks lie is nobody's, and costs
/// nothing.
#[test]
fn what_somebody_else_put_beside_chunks_keeps_no_directory_from_being_used() {
    let mut it = TwoDisks::start();
    append(&it.cell, "first");
    it.cell.chunkservers[0].kill();
    for disk in [&it.held, &it.other] {
        write(disk.join("chunks/.DS_Store"), b"a file among directories").expect("writes");
        std::fs::create_dir_all(disk.join("clones/old")).expect("makes");
        write(disk.join("clones/old/note"), b"not empty").expect("writes");
    }
    it.restart();
    assert_eq!(it.server()["disk_failed_count"], 0);
    it.await_whole();
    for disk in [&it.held, &it.other] {
        assert!(disk.join("chunks/.DS_Store").exists() && disk.join("clones/old/note").exists());
    }
}

/// An opening that came to nothing has left its lock, and half a journal.
#[test]
fn a_directory_in_a_failed_ones_place_is_taken_in_though_its_first_opening_came_to_nothing() {
    let mut it = TwoDisks::start();
    it.cell.chunkservers[0].kill();
    std::fs::remove_dir_all(&it.other).expect("removes");
    it.restart();
    await_until("a failed directory", || it.server()["disk_failed_count"] == 1);
    let made = it.other.with_extension("made");
    std::fs::create_dir(&made).expect("makes");
    write(made.join("lock"), b"").expect("writes");
    write(made.join("journal.draft"), b"half of").expect("writes");
    rename(&made, &it.other).expect("renames");
    await_until("no failed directory", || it.server()["disk_failed_count"] == 0);
    it.await_whole();
}

#[test]
fn a_server_without_any_directory_that_is_fit_or_with_another_servers_does_not_start() {
    let mut it = TwoDisks::start();
    for server in &mut it.cell.chunkservers[..2] {
        server.kill();
    }
    // Another server's, though nothing in it could be used.
    let theirs = it.cell.data_of(2);
    rename(theirs.join("journal"), theirs.join("elsewhere")).expect("renames");
    let arguments = |data: [&Path; 2]| {
        let [one, other] = data.map(|path| path.display().to_string());
        let all = ["chunkserver", "--master", it.cell.address(), "--data", &one, "--data", &other];
        all.map(str::to_owned).to_vec()
    };
    let (foreign, both) = (arguments([&it.held, &theirs]), arguments([&it.held, &it.other]));
    let why = it.cell.chunkservers[0].restart_with(foreign).expect_err("it is refused");
    assert!(why.to_string().contains("belongs to server"), "{why}");
    for disk in [&it.held, &it.other] {
        let identity = File::options().write(true).truncate(true).open(disk.join("identity"));
        drop(identity.expect("opens"));
    }
    let why = it.cell.chunkservers[0].restart_with(both).expect_err("nobody knows who it is");
    assert!(why.to_string().contains("identity"), "{why}");
    it.judge("first\n");
}
