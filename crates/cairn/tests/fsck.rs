//! `cairn fsck` against a cell of real processes: what is planted on the disks is found by name,
//! repaired where it can be, and called beyond repair where it cannot.

mod cell;

use cairn_client::CreateOptions;
use cairn_testkit::chunk_files;
use cell::library::{client, path, runtime};
use cell::{Cell, await_until, flip, patient};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Bytes that differ from block to block.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from((at / 4096 + at * 7) % 251).expect("below")).collect()
}

/// The chunk files of all servers: by chunk, with the number of the server.
fn replica_files(cell: &Cell) -> Vec<Vec<(usize, PathBuf)>> {
    let mut all: BTreeMap<String, Vec<(usize, PathBuf)>> = BTreeMap::new();
    for number in 0..cell.chunkservers.len() {
        for path in chunk_files(&cell.data_of(number + 1)).expect("lists") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            all.entry(name).or_default().push((number, path));
        }
    }
    all.into_values().collect()
}

/// What is found, the summary, and the exit code.
fn fsck(cell: &Cell, arguments: &[&str]) -> (Vec<Value>, Value, i32) {
    let done = cell.run([&["fsck", "--json"], arguments].concat());
    let text = done.text();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let summary = lines.pop().expect("a summary")["summary"].clone();
    assert!(summary.is_object(), "{text}{}", done.stderr);
    (lines, summary, done.code())
}

fn find<'a>(findings: &'a [Value], code: &str) -> &'a Value {
    let of_code = findings.iter().find(|finding| finding["code"] == code);
    of_code.unwrap_or_else(|| panic!("no {code} in {findings:#?}"))
}

/// A listing of many chunks passes no more names than so many, and this one stands behind them.
#[test]
fn the_file_of_a_chunk_that_ails_is_named_though_its_directory_is_larger_than_a_listing_looks() {
    let cell = Cell::start(1);
    cell.ok(["mkdir", "/d"]);
    runtime().block_on(async {
        let cell = client(cell.address()).await;
        for first in (0..17_000).step_by(1000) {
            let names = (first..first + 1000).map(|number| path(&format!("/d/{number}")));
            let names: Vec<_> = names.collect();
            for made in cell.create_many(&names, CreateOptions::default()).await {
                made.expect("creates");
            }
        }
    });
    for name in ["/d/a1", "/d/a2"] {
        cell.ok_with(["put", "--replication", "2", "-", name], b"of two one is there");
    }
    let quick = cell.run(["fsck", "--quick"]).text();
    let (findings, _, _) = fsck(&cell, &[]);
    for name in ["/d/a1", "/d/a2"] {
        assert!(quick.contains(&format!("{name}: chunk 0")), "{quick}");
        assert!(findings.iter().any(|it| it["path"] == name), "{findings:#?}");
    }
}

#[test]
fn what_is_planted_in_single_replicas_is_found_by_name_and_repaired() {
    let cell = Cell::start(4);
    let bytes = content(3 << 20);
    let local = cell.file("local", &bytes);
    cell.ok(["mkdir", "/d"]);
    cell.ok(["put", local.as_str(), "/d/file"]);
    cell.ok(["mkdir", "/other"]);
    let (found, summary, code) = fsck(&cell, &["--data"]);
    assert_eq!((found.len(), code), (0, 0), "{found:?}");
    assert_eq!((&summary["chunk_count"], &summary["replica_count"]), (&3.into(), &9.into()));
    assert_eq!(summary["bytes_verified"], 9 << 20);
    let files = replica_files(&cell);
    assert_eq!(files.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3]);
    let planted = [&files[0][0], &files[1][1], &files[2][2]];
    flip(&planted[0].1, 70_000);
    std::fs::remove_file(&planted[1].1).expect("removes");
    std::fs::remove_file(planted[2].1.with_extension("meta")).expect("removes");
    assert_eq!(fsck(&cell, &["/other", "--data"]).2, 0, "nothing is wrong there");
    let (found, summary, code) = fsck(&cell, &["/d", "--data"]);
    assert_eq!(code, 14, "{found:#?}");
    for (code, (server, _)) in
        std::iter::zip(["BAD_BLOCK", "FILE_MISSING", "SIDECAR_MISSING"], planted)
    {
        let finding = find(&found, code);
        assert_eq!(finding["path"], "/d/file");
        assert_eq!(finding["address"], cell.chunkservers[*server].address(), "{finding}");
    }
    assert_eq!(find(&found, "BAD_BLOCK")["offset"], 69_632, "where the block begins");
    assert_eq!((&summary["lacking"], &summary["lost"]), (&3.into(), &0.into()));
    let (_, summary, code) = fsck(&cell, &["--data", "--repair"]);
    assert_eq!(code, 0, "{summary}");
    assert_eq!((&summary["to_repair"], &summary["beyond_repair"]), (&0.into(), &0.into()));
    await_until("nothing more to find", || {
        let (found, _, code) = fsck(&cell, &["--data"]);
        found.is_empty() && code == 0
    });
    assert!(cell.ok_with(["cat", "/d/file"], b"") == bytes, "the same bytes");
}

/// Bytes that the servers have told they store.
fn stored(cell: &Cell) -> u64 {
    let text = cell.ok(["servers", "--json"]);
    let told = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    told.map(|server| server["stored"].as_u64().expect("a number")).sum()
}

/// How the cell is, and how many bad replicas its servers have.
fn health(cell: &Cell) -> (Value, u64) {
    let told = |command: &str| -> Vec<Value> {
        let text = cell.ok([command, "--json"]);
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let bad = told("servers").iter().map(|it| it["bad_count"].as_u64().expect("a number")).sum();
    (told("status")[0]["health"].clone(), bad)
}

#[test]
fn what_rots_in_a_cell_of_three_is_made_anew_where_it_was_and_the_cell_is_healthy_again() {
    let cell = Cell::start(3);
    let bytes = content(2 << 20);
    let local = cell.file("local", &bytes);
    cell.ok(["put", local.as_str(), "/file"]);
    await_until("all is well", || health(&cell) == ("healthy".into(), 0));
    let files = replica_files(&cell);
    let (rotten, whole) = (&files[0][0].1, &files[0][1].1);
    flip(rotten, 70_000);
    std::fs::remove_file(&files[1][2].1).expect("removes");
    let (found, _, code) = fsck(&cell, &["--data"]);
    assert_eq!((find(&found, "BAD_BLOCK")["path"].as_str(), code), (Some("/file"), 14));
    // By itself, whoever looks on; the master hears of it with the next heartbeat.
    let read = |path: &PathBuf| std::fs::read(path).unwrap_or_default();
    await_until("the bad one is gone, and a good one in its place", || read(rotten) == read(whole));
    await_until("what was gone is there", || read(&files[1][2].1) == read(&files[1][0].1));
    await_until("all is well again", || health(&cell) == ("healthy".into(), 0));
    let (found, summary, code) = fsck(&cell, &["--data", "--repair"]);
    assert_eq!((found.len(), code, &summary["replica_count"]), (0, 0, &6.into()), "{found:?}");
    assert!(cell.ok_with(["cat", "/file"], b"") == bytes, "the same bytes");
}

#[test]
fn what_is_bad_beyond_the_goal_goes_when_a_person_lowers_it() {
    let cell = Cell::start(3);
    let local = cell.file("local", &content(1 << 20));
    cell.ok(["put", local.as_str(), "/file"]);
    let files = replica_files(&cell);
    // With one good one left nobody gives up what may be read of the others.
    flip(&files[0][0].1, 70_000);
    flip(&files[0][1].1, 9_000);
    assert_eq!(fsck(&cell, &["--data"]).2, 14);
    await_until("the master to know", || health(&cell).1 == 2);
    cell.ok(["policy", "--replication", "1", "/file"]);
    let (_, summary, code) = fsck(&cell, &["--data", "--repair"]);
    assert_eq!((code, &summary["to_repair"]), (0, &0.into()), "{summary}");
    await_until("all is well", || health(&cell) == ("healthy".into(), 0));
    // What was left out goes with a heartbeat after that.
    let good = [vec![files[0][2].clone()]];
    await_until("the good one alone to stay", || replica_files(&cell) == good);
}

#[test]
fn what_is_bad_in_every_replica_is_called_beyond_repair_and_not_waited_for() {
    let cell = Cell::start(3);
    let local = cell.file("local", &content(1 << 20));
    cell.ok(["put", local.as_str(), "/file"]);
    let files = replica_files(&cell);
    files[0].iter().for_each(|(_, path)| flip(path, 5));
    let (found, summary, code) = fsck(&cell, &["--data", "--repair"]);
    assert_eq!(code, 7, "{found:#?}");
    assert_eq!(found.iter().filter(|it| it["code"] == "BAD_BLOCK").count(), 3);
    assert_eq!(find(&found, "NO_GOOD_REPLICA")["path"], "/file");
    assert_eq!((&summary["beyond_repair"], &summary["to_repair"]), (&1.into(), &0.into()));
    let explained = cell.ok(["explain", "/file", "--json"]);
    let explained: Value = serde_json::from_str(&explained).expect("JSON");
    let chunk = &explained["chunks"][0];
    await_until("the master to know", || {
        let told = cell.ok(["explain", "/file", "--json"]);
        let told: Value = serde_json::from_str(&told).expect("JSON");
        told["chunks"][0]["waits_for"]["code"] == "NO_SOURCE"
    });
    assert_eq!(chunk["goal"], 3, "{chunk}");
}

#[test]
fn a_chunk_with_another_bad_block_in_each_replica_is_read_and_can_be_stored_anew() {
    let cell = Cell::start(3);
    let bytes = content(1 << 20);
    let local = cell.file("local", &bytes);
    cell.ok(["put", local.as_str(), "/file"]);
    let files = replica_files(&cell);
    for ((_, path), offset) in files[0].iter().zip([5, 70_000, 140_000]) {
        flip(path, offset);
    }
    assert_eq!(fsck(&cell, &["--data"]).2, 7, "no replica of it is good");
    assert!(cell.ok_with(["cat", "/file"], b"") == bytes, "every block is good somewhere");
    cell.ok(["cp", "/file", "/anew"]);
    cell.ok(["rm", "/file"]);
    let (found, _, code) = fsck(&cell, &["--data", "/anew"]);
    assert_eq!((found.len(), code), (0, 0), "{found:?}");
    assert!(cell.ok_with(["cat", "/anew"], b"") == bytes, "the same bytes");
}

#[test]
fn of_a_file_whose_every_replica_has_the_same_bad_block_all_else_is_salvaged() {
    // Blocks are of 4 KiB here.
    const BAD: std::ops::Range<usize> = 69_632..73_728;
    let cell = Cell::start(3);
    let bytes = content(1 << 20);
    let local = cell.file("local", &bytes);
    cell.ok(["put", local.as_str(), "/file"]);
    for (_, path) in &replica_files(&cell)[0] {
        flip(path, 70_000);
    }
    let (whole, out) = (cell.local("whole"), cell.local("out"));
    let [whole, to] = [&whole, &out].map(|path| path.display().to_string());
    assert_ne!(cell.run(["--deadline", "3", "get", "/file", &whole]).code(), 0);
    let salvaged = cell.run(["--deadline", "2", "get", "--salvage", "/file", &to]);
    assert_eq!(salvaged.code(), 9, "it is not all: {}", salvaged.stderr);
    assert!(salvaged.stderr.contains("bytes 69632 to 73728"), "{}", salvaged.stderr);
    let mut expected = bytes;
    expected[BAD].fill(0);
    assert!(std::fs::read(&out).expect("reads") == expected, "zeros stand for one block alone");
    let why = cell.ok(["explain", "/file"]);
    assert!(why.contains("get --salvage"), "a person is told of a way on: {why}");
    // Of what is whole it is as any other.
    cell.ok(["put", local.as_str(), "/good"]);
    cell.ok(["get", "--salvage", "/good", &whole]);
    cell.ok_with(["append", "/records", "-"], b"a line\n");
    let refused =
        cell.run(["get", "--salvage", "/records", &cell.local("r").display().to_string()]);
    assert!(refused.code() == 2 && refused.stderr.contains("--raw"), "{}", refused.stderr);
}

#[test]
fn a_server_that_does_not_answer_is_named_and_what_it_holds_is_not_called_lost() {
    let mut cell = Cell::start_with(3, &patient(), None);
    let local = cell.file("local", &content(1 << 20));
    cell.ok(["put", local.as_str(), "/file"]);
    let small = cell.file("small", b"small");
    for number in 0..12 {
        cell.ok(["put", small.as_str(), &format!("/small-{number}")]);
    }
    cell.chunkservers[0].kill();
    let (found, _, code) = fsck(&cell, &["--data", "--deadline", "20"]);
    let not_asked = |it: &&Value| it["code"] == "NOT_ASKED";
    let given_up = |it: &Value| it["what"].as_str().is_some_and(|it| it.contains("any more"));
    assert!(found.iter().filter(not_asked).any(given_up), "{found:#?}");
    // And once for what it holds that nobody refers to.
    assert_eq!((found.iter().filter(not_asked).count(), found.len(), code), (14, 14, 14));
    for number in 0..12 {
        cell.ok(["rm", &format!("/small-{number}")]);
    }
    let (found, summary, code) = fsck(&cell, &["/file", "--deadline", "20"]);
    assert_eq!(code, 14, "{found:#?}");
    let finding = find(&found, "NOT_ASKED");
    assert_eq!(finding["address"], cell.chunkservers[0].address(), "{finding}");
    assert_eq!((&summary["lacking"], &summary["lost"]), (&1.into(), &0.into()));
    let (found, _, code) = fsck(&cell, &["--repair", "--deadline", "20"]);
    assert_eq!(code, 14, "nobody knows how what it holds is: {found:#?}");
    cell.chunkservers[0].restart().expect("starts");
    cell.await_live(3).expect("is back");
    await_until("nothing more to find", || fsck(&cell, &[]).2 == 0);
}

#[test]
fn what_no_file_refers_to_is_named_and_goes_by_itself() {
    // The servers hear only now and then what may go.
    let settings = cell::SETTINGS
        .replace("heartbeat_ms = 100", "heartbeat_ms = 4000")
        .replace("silent_ms = 500", "silent_ms = 12000")
        .replace("lease_ms = 1500", "lease_ms = 20000")
        .replace("dead_ms = 2500", "dead_ms = 40000");
    let cell = Cell::start_with(3, &settings, None);
    let local = cell.file("local", &content(1 << 20));
    cell.ok(["put", local.as_str(), "/file"]);
    let handle = cell.ok(["explain", "/file"]);
    assert!(handle.contains("chunk 0 "), "{handle}");
    cell.ok(["rm", "/file"]);
    let hidden = cell.ok(["ls", "--deleted", "--json", "/"]);
    let hidden: Value = serde_json::from_str(hidden.lines().next().expect("a line")).expect("JSON");
    let hidden = hidden["hidden"].as_str().expect("its hidden name").to_owned();
    cell.ok(["rm", &hidden]);
    let mut found = Vec::new();
    await_until("the purge", || {
        found = fsck(&cell, &[]).0;
        found.iter().any(|it| it["code"] == "UNREFERENCED")
    });
    assert_eq!(find(&found, "UNREFERENCED")["path"], Value::Null);
    let (_, summary, code) = fsck(&cell, &["--repair"]);
    assert_eq!((code, &summary["to_repair"]), (0, &0.into()), "nothing is the worse for it");
    await_until("it is collected", || fsck(&cell, &[]).0.is_empty());
}

#[test]
fn a_rate_is_kept_and_the_time_that_it_takes_is_told_before() {
    let cell = Cell::start(3);
    let local = cell.file("local", &content(2 << 20));
    cell.ok(["put", local.as_str(), "/file"]);
    // How much there is the servers tell with their heartbeats.
    await_until("all is told of", || stored(&cell) >= 6 << 20);
    let started = std::time::Instant::now();
    let done = cell.run(["fsck", "--data", "--rate", "500K"]);
    assert_eq!(done.code(), 0, "{}", done.stderr);
    // 6 MiB; what is on its way at once may be a few parts too many.
    assert!(started.elapsed().as_millis() > 6_000, "{:?}", started.elapsed());
    assert!(done.stderr.contains("to verify at 500K a second: about 12s"), "{}", done.stderr);
    assert_eq!(cell.run(["fsck", "--rate", "500K"]).code(), 2, "nothing is read without --data");
}
