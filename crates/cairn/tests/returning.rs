//! Servers that come back to a cell of real processes: early, with an old image of their disk, with
//! less than they had, with nothing, and with another's disk. Whatever they bring, the bytes are
//! right, the cell is whole in the end, and what was stored is on enough machines all the time.

mod cell;

use cairn_testkit::{copy_tree, files_below};
use cell::{Cell, SETTINGS, await_output, await_until, patient};
use std::fs::{remove_dir_all, remove_file};
use std::path::Path;

fn await_whole(cell: &Cell) {
    await_until("every chunk at its goal", || cell.status("under_replicated") == 0);
}

/// A cell with a file of bytes of several chunks and one of lines; the bytes.
fn stored(servers: usize, settings: &str) -> (Cell, Vec<u8>) {
    let cell = Cell::start_with(servers, settings, None);
    let bytes: Vec<u8> = (0..5 << 18).flat_map(|at: u32| at.to_le_bytes()).collect();
    let local = cell.file("local", &bytes);
    cell.ok(["put", local.as_str(), "/file"]);
    append(&cell, "first");
    (cell, bytes)
}

fn append(cell: &Cell, line: &str) {
    cell.ok_with(["append", "/log", "-"], format!("{line}\n").as_bytes());
}

/// The chunkserver whose disk a test is about: it holds a replica of both files.
fn a_holder(cell: &Cell) -> usize {
    let [file, log] = ["/file", "/log"].map(|path| cell.ok(["stat", "--chunks", path]));
    let holds = |at: &usize| {
        let address = cell.chunkservers[*at].address();
        file.contains(address) && log.contains(address)
    };
    (0..cell.chunkservers.len()).find(holds).expect("somebody holds both")
}

/// Both files are as they were acknowledged, read from whoever is there.
fn judge(cell: &Cell, bytes: &[u8], lines: &str) {
    assert!(cell.ok_with(["cat", "/file"], b"") == bytes, "other bytes");
    assert_eq!(cell.ok(["cat", "/log"]), lines);
}

/// One server after the other stands alone with what it holds: nobody has anything else.
fn judge_without_each(cell: &mut Cell, bytes: &[u8], lines: &str) {
    for away in 0..cell.chunkservers.len() {
        cell.chunkservers[away].kill();
        judge(cell, bytes, lines);
        cell.chunkservers[away].restart().expect("starts");
        cell.await_live(cell.chunkservers.len()).expect("is back");
    }
}

#[test]
fn one_that_is_back_before_it_is_taken_for_dead_costs_no_copy() {
    let (mut cell, bytes) = stored(4, &patient());
    let before = cell.ok(["--json", "stat", "--chunks", "/file"]);
    let places = |told: &str| -> Vec<String> {
        let told: serde_json::Value = serde_json::from_str(told.trim()).expect("JSON");
        let chunks = told["chunks"].as_array().expect("chunks").clone();
        let replicas = chunks.iter().flat_map(|chunk| chunk["replicas"].as_array().cloned());
        let mut all: Vec<String> = replicas.flatten().map(|at| at["address"].to_string()).collect();
        all.sort();
        all
    };
    let away = a_holder(&cell);
    cell.chunkservers[away].kill();
    await_until("it is silent", || cell.ok(["servers"]).contains("silent"));
    judge(&cell, &bytes, "first\n");
    cell.chunkservers[away].restart().expect("starts");
    cell.await_live(4).expect("is back");
    await_until("it has told", || {
        places(&cell.ok(["--json", "stat", "--chunks", "/file"])) == places(&before)
    });
    assert_eq!(cell.status("under_replicated"), 0);
}

#[test]
fn one_that_is_back_with_an_old_image_of_its_disk_serves_nothing_old() {
    let (mut cell, bytes) = stored(4, SETTINGS);
    let old = a_holder(&cell);
    let (disk, image) = (cell.data_of(old + 1), cell.local("image"));
    cell.chunkservers[old].kill();
    copy_tree(&disk, &image).expect("copies");
    cell.chunkservers[old].restart().expect("starts");
    cell.await_live(4).expect("is back");
    append(&cell, "second");
    cell.chunkservers[old].kill();
    remove_dir_all(&disk).expect("removes");
    copy_tree(&image, &disk).expect("copies");
    cell.chunkservers[old].restart().expect("starts");
    cell.await_live(4).expect("is back");
    judge(&cell, &bytes, "first\nsecond\n");
    append(&cell, "third");
    await_whole(&cell);
    judge_without_each(&mut cell, &bytes, "first\nsecond\nthird\n");
}

#[test]
fn one_that_is_back_with_less_than_it_had_is_made_whole() {
    let (mut cell, bytes) = stored(4, SETTINGS);
    let less = a_holder(&cell);
    cell.chunkservers[less].kill();
    let mut removed = 0;
    // Of every other chunk all files, of the next its bytes alone.
    for (at, path) in
        files_below(&cell.data_of(less + 1).join("chunks")).expect("lists").iter().enumerate()
    {
        if at % 3 != 0 {
            remove_file(path).expect("removes");
            removed += 1;
        }
    }
    assert!(removed > 0, "it held something");
    cell.chunkservers[less].restart().expect("starts");
    cell.await_live(4).expect("is back");
    judge(&cell, &bytes, "first\n");
    await_whole(&cell);
    judge_without_each(&mut cell, &bytes, "first\n");
}

#[test]
fn an_emptied_server_is_a_new_one_and_what_the_old_one_held_is_copied() {
    let (mut cell, bytes) = stored(3, SETTINGS);
    let emptied = a_holder(&cell);
    cell.chunkservers[emptied].kill();
    remove_dir_all(cell.data_of(emptied + 1)).expect("removes");
    cell.chunkservers[emptied].restart().expect("starts");
    await_until("the old one is missed", || {
        let servers = cell.ok(["servers"]);
        let address = cell.chunkservers[emptied].address();
        servers.lines().filter(|line| line.contains(address)).count() == 2
            && servers.contains("dead")
    });
    await_whole(&cell);
    judge_without_each(&mut cell, &bytes, "first\n");
}

#[test]
fn a_copy_of_a_disk_is_refused_while_the_first_lives_and_is_that_server_afterwards() {
    let (mut cell, bytes) = stored(4, &patient());
    let first = a_holder(&cell);
    let (disk, copied) = (cell.data_of(first + 1), cell.local("copied"));
    cell.chunkservers[first].kill();
    copy_tree(&disk, &copied).expect("copies");
    cell.chunkservers[first].restart().expect("starts");
    cell.await_live(4).expect("is back");
    // The fourth server's machine is started with it instead of its own disk.
    let other = (first + 1) % 4;
    let arguments = |data: &Path, master: &str| {
        let data = data.display().to_string();
        ["chunkserver", "--master", master, "--data", &data].map(str::to_owned).to_vec()
    };
    let master = cell.address().to_owned();
    let own = cell.data_of(other + 1);
    cell.chunkservers[other].kill();
    let log = cell.chunkservers[other].log().to_owned();
    cell.chunkservers[other].restart_with(arguments(&copied, &master)).expect("starts");
    await_output(&log, "another process is it at");
    judge(&cell, &bytes, "first\n");
    append(&cell, "second");
    // The first is gone for good: the copy lacks what came meanwhile, and is brought up to it.
    cell.chunkservers[first].kill();
    await_until("it is taken in", || {
        let told = cell.ok(["servers"]);
        let address = cell.chunkservers[other].address();
        told.lines().any(|line| line.contains(address) && line.contains("live"))
    });
    append(&cell, "third");
    judge(&cell, &bytes, "first\nsecond\nthird\n");
    cell.chunkservers[other].kill();
    cell.chunkservers[other].restart_with(arguments(&own, &master)).expect("starts");
    judge(&cell, &bytes, "first\nsecond\nthird\n");
}

#[test]
fn a_stale_replica_that_is_all_there_is_comes_back_by_a_persons_word_and_the_others_are_kept() {
    let mut cell = Cell::start(3);
    append(&cell, "first");
    let stale = 0;
    cell.chunkservers[stale].kill();
    await_until("it is dead", || cell.ok(["servers"]).contains("dead"));
    append(&cell, "second");
    let told = cell.ok(["stat", "--chunks", "/log"]);
    assert!(!told.contains(cell.chunkservers[stale].address()), "{told}");
    let handle = cell.ok(["explain", "/log"]);
    assert!(!handle.contains("chunk 1 "), "in the same chunk: {handle}");
    let handle = handle.lines().find_map(|line| line.strip_prefix("chunk 0 ")).expect("a chunk");
    let handle = handle.split(':').next().expect("a handle").to_owned();
    cell.chunkservers[1].kill();
    cell.chunkservers[2].kill();
    // While they pass for live, what is stale stands in the way of a good copy, and goes.
    await_until("all are dead", || cell.ok(["servers"]).matches("dead").count() == 3);
    cell.chunkservers[stale].restart().expect("starts");
    cell.await_live(1).expect("is back");
    let refused = cell.run(["recover", "/log"]);
    let said = &refused.stderr;
    assert!(said.contains("start one of the servers that held it"), "{said}");
    assert!(said.contains("name a stale one with --from"), "{said}");
    assert_eq!(refused.code(), 7, "nothing was decided on: {said}");
    let directory = cell.run(["recover", "/"]);
    assert_eq!(directory.code(), 5, "{}", directory.stderr);
    let nobodys = cell.run(["recover", "9-99"]);
    assert_eq!(nobodys.code(), 3, "{}", nobodys.stderr);
    assert!(nobodys.stderr.contains("'cairn explain PATH'"), "{}", nobodys.stderr);
    let from = cell.chunkservers[stale].address().to_owned();
    let recovered = cell.ok(["recover", handle.as_str(), "--from", &from]);
    assert!(recovered.contains("it lacks acknowledged changes"), "{recovered}");
    assert!(recovered.ends_with("1 chunks were decided on\n"), "{recovered}");
    assert_eq!(cell.ok(["cat", "/log"]), "first\n");
    // Those who know better come back too late, and what they hold stays for a person.
    for at in [1, 2] {
        cell.chunkservers[at].restart().expect("starts");
    }
    cell.await_live(3).expect("all are back");
    await_until("it is kept", || cell.ok(["lost"]).contains(&handle));
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts");
    cell.await_live(3).expect("all are back");
    await_until("a restart forgets nothing", || cell.ok(["lost"]).contains(&handle));
    await_until("the master to have looked", || !cell.ok(["status"]).starts_with("STARTING"));
    assert!(cell.status("under_replicated") > 0, "what is kept is no replica");
    // What is lost for the log is found, and nobody is in a hurry to throw it away.
    let found = cell.run(["fsck", "--json"]).text();
    assert!(found.contains("LOST_AND_FOUND"), "{found}");
    cell.ok(["lost", "--let-go", &handle]);
    await_whole(&cell);
    assert_eq!(cell.ok(["lost"]), "0 lost chunks\n");
    assert_eq!(cell.ok(["cat", "/log"]), "first\n");
}
