//! Snapshots as a person takes them: `cairn snapshot`, against a cell of real processes.

mod cell;

use cell::row::{Row, judge};
use cell::{Cell, await_until, guide};
use std::sync::atomic::{AtomicUsize, Ordering};

fn handles(cell: &Cell, path: &str) -> Vec<String> {
    let chunks = cell.json(&["stat", "--chunks", path]);
    let chunks = chunks["chunks"].as_array().expect("chunks").clone();
    chunks.iter().map(|chunk| chunk["handle"].to_string()).collect()
}

#[test]
fn a_copy_shares_its_chunks_until_one_of_the_two_is_written_to() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "/d"]);
    let first = "0123456789abcde\n".repeat(156_250);
    let local = cell.file("local", first.as_bytes());
    cell.ok(["put", &local, "/d/f"]);
    cell.ok(["snapshot", "/d", "/s"]);
    assert_eq!(handles(&cell, "/s/f"), handles(&cell, "/d/f"), "no byte is copied");
    let before = handles(&cell, "/s/f");
    // The source goes on: its last chunk is its own from the first write on.
    cell.ok_with(["append", "/d/f"], b"more\n");
    let after = handles(&cell, "/d/f");
    assert_eq!((&after[..2], handles(&cell, "/s/f")), (&before[..2], before.clone()));
    assert_ne!(after[2], before[2], "the chunk that was written to was copied");
    assert!(cell.ok(["cat", "/s/f"]) == first, "the copy is as it was");
    let longer = format!("{first}more\n");
    assert!(cell.ok(["cat", "/d/f"]) == longer);
    // So does the copy.
    cell.ok_with(["append", "/s/f"], b"other\n");
    assert!(cell.ok(["cat", "/s/f"]) == format!("{first}other\n"));
    assert!(cell.ok(["cat", "/d/f"]) == longer);
}

#[test]
fn a_copy_counts_in_the_quota_that_it_comes_to_and_leaves_nothing_where_there_is_no_room() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "-p", "/d/e", "/q"]);
    let local = cell.file("local", &[7; 5000]);
    cell.ok(["put", &local, "/d/f"]);
    cell.ok(["put", &local, "/d/e/g"]);
    cell.ok(["quota", "set", "--names", "5", "--bytes", "9000", "/q"]);
    let refused = cell.run(["snapshot", "/d", "/q/s"]);
    assert_eq!(refused.code(), 16, "{}", refused.stderr);
    assert!(refused.stderr.contains("/q: its quota is 9000 bytes"), "{}", refused.stderr);
    assert_eq!(cell.ok(["ls", "/q"]), "");
    cell.ok(["snapshot", "/d/f", "/q/f"]);
    let quota = cell.json(&["quota", "/q"]);
    assert!(quota.to_string().contains("5000"), "{quota}");
    let refused = cell.run(["snapshot", "/d/e", "/q/e"]);
    assert_eq!(refused.code(), 16, "{}", refused.stderr);
    cell.ok(["quota", "set", "--bytes", "1G", "/q"]);
    cell.ok(["snapshot", "/d", "/q/s"]);
    assert_eq!(cell.ok(["cat", "/q/s/e/g"]).len(), 5000);
    let refused = cell.run(["snapshot", "/d/e", "/q/more"]);
    assert!(refused.stderr.contains("/q: its quota is 5 names"), "{}", refused.stderr);
}

#[test]
fn every_command_of_the_guides_page_does_what_it_says() {
    let cell = Cell::start(3);
    let page = include_str!("../../../docs/guide/snapshots.md");
    let told = guide::run_page(&cell, page);
    let [first, second, shared, copied, third] = &told[..] else { panic!("{told:?}") };
    assert!(first.contains("/backups/monday/in/b\n"), "{first}");
    assert!(second.starts_with("one\nmore\none\nother\n"), "{second}");
    assert!(second.contains("2 files have it since a snapshot"), "{second}");
    // Of two files the one that nobody wrote to is shared.
    let sums: Vec<&str> = shared.lines().skip(1).flat_map(str::split_whitespace).collect();
    assert!(sums.starts_with(&["13", "4", "9", "/data/in", "13", "4", "9", "/data"]), "{shared}");
    assert!(shared.contains("/backups/monday/in\n"), "{shared}");
    let wanted = "/data/large -> /data/copy (snapshot)\n/data/large -> /data/bytes (bytes)\n";
    assert_eq!(copied, wanted);
    assert_eq!(third, "a\nb\n");
    assert_eq!(cell.ok(["cat", "/data/in/a"]), "one\nother\n");
}

/// Runs appends of numbered lines to a file, one after the other; `begun` and `ended` count them.
fn append_lines(
    cell: &Cell,
    file: &str,
    (begun, ended): (&AtomicUsize, &AtomicUsize),
    until: usize,
) {
    for number in 1..=until {
        begun.store(number, Ordering::SeqCst);
        cell.ok_with(["append", file], format!("{number}\n").as_bytes());
        ended.store(number, Ordering::SeqCst);
    }
}

#[test]
fn a_snapshot_beside_writers_is_of_one_instant_and_they_lose_nothing() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "/d"]);
    let counts: [(AtomicUsize, AtomicUsize); 2] = Default::default();
    let lines = 60;
    std::thread::scope(|scope| {
        for (at, (begun, ended)) in counts.iter().enumerate() {
            let cell = &cell;
            cell.ok_with(["put", "-", &format!("/d/{at}")], b"0\n");
            scope.spawn(move || {
                append_lines(cell, &format!("/d/{at}"), (begun, ended), lines);
            });
        }
        for number in 0..6 {
            await_until("more was written", || {
                counts.iter().all(|(begun, _)| begun.load(Ordering::SeqCst) > number * 8)
            });
            let before = counts.each_ref().map(|(_, ended)| ended.load(Ordering::SeqCst));
            let name = format!("/s{number}");
            cell.ok(["snapshot", "/d", &name]);
            let after = counts.each_ref().map(|(begun, _)| begun.load(Ordering::SeqCst));
            for at in 0..2 {
                let text = cell.ok(["cat", &format!("{name}/{at}")]);
                let has = text.lines().count() - 1;
                let wanted: String = (0..=has).map(|line| format!("{line}\n")).collect();
                assert_eq!(text, wanted, "whole lines, in order");
                let (before, after) = (before[at], after[at]);
                assert!((before..=after).contains(&has), "{before} <= {has} <= {after}");
            }
        }
    });
    let all: String = (0..=lines).map(|line| format!("{line}\n")).collect();
    for at in 0..2 {
        assert_eq!(cell.ok(["cat", &format!("/d/{at}")]), all, "no append is lost");
    }
    cell.ok(["fsck", "--data"]);
}

#[test]
fn chunks_outlive_the_file_that_they_were_made_for_and_go_with_the_last_one() {
    let cell = Cell::start(3);
    cell.ok(["policy", "--keep-deleted", "0", "/"]);
    let local = cell.file("local", &vec![b'x'; 1_500_000]);
    cell.ok(["put", &local, "/f"]);
    cell.ok(["snapshot", "/f", "/g"]);
    cell.ok(["snapshot", "/g", "/h"]);
    let before = handles(&cell, "/f");
    cell.ok(["rm", "/f"]);
    await_until("the file is purged", || cell.ok(["ls", "--deleted"]).is_empty());
    assert_eq!((handles(&cell, "/g"), handles(&cell, "/h")), (before.clone(), before.clone()));
    cell.ok(["rm", "/h"]);
    await_until("the copy's copy is purged", || cell.ok(["ls", "--deleted"]).is_empty());
    assert_eq!(cell.ok(["cat", "/g"]).len(), 1_500_000);
    assert!(cell.json(&["explain", "/g"])["healthy"].as_bool().expect("told"));
    cell.ok(["fsck", "--data"]);
    let checked = cell.json(&["fsck", "/g"]);
    assert_eq!(checked["summary"]["chunk_count"].as_u64(), Some(2), "{checked}");
    cell.ok(["rm", "/g"]);
    let chunks = || cell.json(&["status"])["chunk_count"].as_u64().expect("a number");
    await_until("the last file is purged, and its chunks", || chunks() == 0);
}

#[test]
fn a_chunk_has_as_many_replicas_as_the_files_ask_for_that_still_have_it() {
    let cell = Cell::start(3);
    cell.ok(["policy", "--keep-deleted", "0", "/"]);
    let local = cell.file("local", &vec![b'x'; 1_500_000]);
    cell.ok(["put", &local, "/f"]);
    cell.ok(["snapshot", "/f", "/g"]);
    cell.ok(["policy", "--replication", "2", "/g"]);
    let replicas = || -> Vec<usize> {
        let chunks = cell.json(&["stat", "--chunks", "/g"])["chunks"].clone();
        let chunks = chunks.as_array().expect("chunks").iter();
        chunks.map(|it| it["replicas"].as_array().expect("some").len()).collect()
    };
    assert_eq!(replicas(), [3, 3], "the other file asks for three");
    cell.ok(["rm", "/f"]);
    await_until("two of each are left", || replicas() == [2, 2]);
    assert_eq!(cell.ok(["cat", "/g"]).len(), 1_500_000);
    assert_eq!(cell.status("under_replicated"), 0);
}

#[test]
fn what_a_person_gets_wrong_is_said_in_a_line() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "/d"]);
    cell.ok_with(["put", "-", "/f"], b"x");
    cell.ok(["cp", "/f", "/g"]);
    let rows: [(&[&str], i32, &[&str]); 6] = [
        (&["snapshot", "/none", "/s"], 3, &["/none", "no such file"]),
        (&["snapshot", "/f", "/f"], 4, &["/f", "exists already"]),
        (&["snapshot", "/f", "/g"], 4, &["exists already; choose another name"]),
        (&["snapshot", "/f", "/none/s"], 3, &["/none", "no such file"]),
        (&["snapshot", "/.deleted", "/s"], 2, &["no snapshot is taken of what is deleted"]),
        (&["snapshot", "/f"], 2, &["no DESTINATION is named"]),
    ];
    for (arguments, code, says) in rows {
        let done = cell.run(arguments);
        assert!(!done.stderr.contains("-f "), "it has no such option: {}", done.stderr);
        judge(&Row { what: &arguments.join(" "), done, code, says });
    }
}
