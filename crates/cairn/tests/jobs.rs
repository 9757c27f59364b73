//! What the cell is at is told as jobs (A20, A21): what it does by itself, and what a person began.

mod cell;

use cell::row::{Row, judge};
use cell::{Cell, await_until};
use serde_json::Value;

/// What a command told, a value a line.
fn told(cell: &Cell, arguments: &[&str]) -> Vec<Value> {
    let text = cell.ok(arguments);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The job with this id.
fn job(cell: &Cell, id: &str) -> Option<Value> {
    told(cell, &["jobs", "--json"]).into_iter().find(|job| job["id"] == id)
}

/// What `servers` tells of one of them.
fn server(cell: &Cell, number: usize) -> Value {
    let address = cell.chunkservers[number].address();
    let all = told(cell, &["servers", "--json"]);
    all.into_iter().find(|it| it["address"] == address).expect("it is known")
}

fn status(cell: &Cell) -> Value {
    told(cell, &["status", "--json"]).remove(0)
}

/// A file of so many chunks, none like another.
fn put(cell: &Cell, path: &str, chunks: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..chunks << 20).map(|at| (at ^ (at >> 9) ^ (at >> 17)) as u8).collect();
    let local = cell.file("local", &bytes);
    cell.ok(["put", local.as_str(), path]);
    bytes
}

#[test]
fn repair_is_a_job_while_chunks_lack_replicas_and_nobody_cancels_it() {
    let mut cell = Cell::start(3);
    let local = cell.file("local", &[7; 3 << 20]);
    cell.ok(["put", local.as_str(), "/file"]);
    await_until("no job", || cell.ok(["jobs"]).contains("no jobs"));
    cell.chunkservers[0].kill();
    await_until("three copies that nobody can make", || {
        job(&cell, "repair").is_some_and(|job| job["total"] == 3)
    });
    let told = job(&cell, "repair").expect("it is there");
    assert_eq!((&told["kind"], &told["state"]), (&"repair".into(), &"waiting".into()));
    assert_eq!((&told["done"], &told["left_ms"]), (&0.into(), &Value::Null));
    let lines = cell.ok(["jobs"]);
    assert!(lines.contains("0 of 3 chunks") && lines.contains("a server with room"), "{lines}");
    judge(&Row {
        what: "cancelling what the cell does by itself",
        done: cell.run(["jobs", "cancel", "repair"]),
        code: 3,
        says: &["cancelling job repair", "by itself cannot be; 'cairn jobs' lists them"],
    });
    cell.chunkservers[0].restart().expect("starts");
    await_until("no job once more", || cell.ok(["jobs"]).contains("no jobs"));
}

#[test]
fn a_drained_server_may_be_switched_off_and_nothing_lacks_a_replica_then() {
    let mut cell = Cell::start(4);
    let bytes = put(&cell, "/file", 6);
    let lines: String = (0..500).map(|at| format!("line {at}\n")).collect();
    cell.ok_with(["append", "/log", "-"], lines.as_bytes());
    let address = cell.chunkservers[0].address().to_owned();
    let dry = told(&cell, &["drain", "--dry-run", "--json", &address]);
    assert_eq!((&dry[0]["dry_run"], &dry[0]["blocked"]), (&true.into(), &"".into()));
    assert!(dry[0]["chunk_count"].as_u64().expect("a number") > 0, "{dry:?}");
    assert_eq!(server(&cell, 0)["duty"], "serving", "a dry run changes nothing");
    let waited = cell.ok(["drain", "--wait", &address]);
    assert!(waited.ends_with(&format!("{address} may be switched off\n")), "{waited}");
    let drained = server(&cell, 0);
    assert_eq!((&drained["duty"], &drained["chunk_count"]), (&"drained".into(), &0.into()));
    assert!(cell.ok(["servers"]).contains("drained"));
    cell.chunkservers[0].kill();
    await_until("it to be dead", || {
        assert_eq!(status(&cell)["under_replicated"], 0, "nobody misses it");
        server(&cell, 0)["state"] == "dead"
    });
    assert_eq!(job(&cell, "repair"), None);
    assert_eq!(status(&cell)["reasons"], Value::Array(vec![]), "nobody misses it");
    let waited = told(&cell, &["drain", "--wait", "--json", &address]);
    assert_eq!((&waited[1]["drained"], waited.len()), (&true.into(), 2), "{waited:?}");
    assert!(cell.ok_with(["cat", "/file"], b"") == bytes, "the same bytes");
    assert_eq!(cell.ok(["cat", "/log"]), lines);
    // It comes back, and takes part again.
    cell.chunkservers[0].restart().expect("starts");
    cell.await_live(4).expect("it is back");
    cell.ok(["undrain", &address]);
    assert_eq!(server(&cell, 0)["duty"], "serving");
}

#[test]
fn the_last_server_that_takes_new_chunks_is_not_drained_and_no_repair_waits_for_one_that_is() {
    let mut cell = Cell::start(4);
    put(&cell, "/file", 3);
    let address = |cell: &Cell, number: usize| cell.chunkservers[number].address().to_owned();
    cell.ok(["drain", "--wait", &address(&cell, 3)]);
    let gone = address(&cell, 0);
    cell.chunkservers[0].kill();
    await_until("it to be missed", || status(&cell)["under_replicated"] == 3);
    // There is a server with room, and it is to be emptied: no waiting helps.
    let fsck = cell.run(["fsck", "--repair"]);
    assert_eq!(fsck.code(), 14, "{}{}", fsck.text(), fsck.stderr);
    let why = told(&cell, &["explain", "--json", "/file"])[0]["chunks"][0].clone();
    assert_eq!(why["waits_for"]["code"], "NO_SERVER", "{why}");
    cell.ok(["drain", &address(&cell, 1)]);
    judge(&Row {
        what: "draining the last one",
        done: cell.run(["drain", &address(&cell, 2)]),
        code: 7,
        says: &["nothing could be stored in the cell any more", "undrain one"],
    });
    let forgotten = told(&cell, &["servers", "--json", "--forget", &gone]).remove(0);
    assert_eq!(forgotten["forgotten"], true);
}

#[test]
fn a_drain_that_cannot_end_says_so_survives_the_masters_restart_and_goes_on_with_one_server_more() {
    let mut cell = Cell::start(3);
    let bytes = put(&cell, "/file", 3);
    let address = cell.chunkservers[1].address().to_owned();
    let told = cell.ok(["drain", &address]);
    assert!(told.contains("it will not end as the cell is now"), "{told}");
    let reasons = |cell: &Cell| status(cell)["reasons"].to_string();
    await_until("the reason in status", || reasons(&cell).contains("DRAIN_BLOCKED"));
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts");
    cell.await_live(3).expect("all are back");
    await_until("the reason once more", || reasons(&cell).contains("DRAIN_BLOCKED"));
    assert_eq!(server(&cell, 1)["duty"], "draining");
    let explained = cell.ok(["explain", "/file"]);
    let line = format!("  {address} is to be emptied: 2 of 3 good replicas are elsewhere");
    assert_eq!(explained.matches(&line).count(), 3, "{explained}");
    assert!(explained.contains("each server with room has one already"), "{explained}");
    let known = cell.json(&["explain", "/file"])["chunks"][0]["known_replicas"].clone();
    let duties = known.as_array().expect("replicas").iter().map(|it| it["duty"].to_string());
    assert_eq!(duties.filter(|it| it == "\"draining\"").count(), 1, "{known}");
    cell.add_chunkserver().expect("starts");
    await_until("it to be drained", || server(&cell, 1)["duty"] == "drained");
    assert!(!reasons(&cell).contains("DRAIN_BLOCKED"));
    assert!(cell.ok_with(["cat", "/file"], b"") == bytes, "the same bytes");
    let jobs = cell.ok(["jobs"]);
    let id = jobs.split_whitespace().find(|word| word.starts_with("drain-")).expect("its id");
    cell.ok(["jobs", "cancel", id]);
    assert_eq!(server(&cell, 1)["duty"], "serving");
    judge(&Row {
        what: "a server that nobody knows",
        done: cell.run(["drain", "nowhere:1"]),
        code: 2,
        says: &["draining server nowhere:1", "cairn servers lists them"],
    });
}

#[test]
fn a_fresh_server_is_filled_by_balance_which_ends_by_itself_and_can_be_cancelled() {
    let mut cell = Cell::start(3);
    let bytes = put(&cell, "/file", 9);
    cell.add_chunkserver().expect("starts");
    cell.await_live(4).expect("it has joined");
    let stored = |cell: &Cell, number| server(cell, number)["stored"].as_u64().expect("a number");
    await_until("all to have told what they store", || {
        (0..3).all(|number| stored(&cell, number) == 9 << 20)
    });
    // One that is silent for a moment is not counted.
    await_until("all four to be counted", || {
        let dry = told(&cell, &["balance", "--dry-run", "--json"]);
        dry[0]["under_count"] == 1 && dry[0]["over_count"] == 3
    });
    assert_eq!(job(&cell, "balance"), None, "a dry run changes nothing");
    cell.ok(["balance"]);
    // A small one may have ended already.
    let cancelled = cell.run(["jobs", "cancel", "balance"]).code();
    assert!([0, 3].contains(&cancelled), "{cancelled}");
    assert_eq!(job(&cell, "balance"), None);
    // The first one may have done all that before it was cancelled, or a server be silent now.
    await_until("it to move what it has to", || {
        let moving = cell.ok(["balance", "--threshold", "5"]);
        moving.contains("moving up to") || stored(&cell, 3) >= 6 << 20
    });
    await_until("the end of it", || job(&cell, "balance").is_none());
    await_until("the server to have got its share", || stored(&cell, 3) >= 6 << 20);
    await_until("what it was given to be gone elsewhere", || {
        (0..4).map(|number| stored(&cell, number)).sum::<u64>() == 27 << 20
    });
    assert!((0..4).all(|number| stored(&cell, number) <= 8 << 20), "and nobody has more");
    await_until("no chunk to lack a replica", || status(&cell)["under_replicated"] == 0);
    assert!(cell.ok_with(["cat", "/file"], b"") == bytes, "the same bytes");
    assert!(cell.ok(["balance"]).contains("nothing to do"));
}
