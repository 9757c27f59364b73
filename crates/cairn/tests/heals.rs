//! A cell of real processes heals (A20): what a killed server held is copied to the others while
//! clients go on, and the server that comes back late does no harm.

mod cell;

use cell::{Cell, await_until};
use std::time::Instant;

/// Until a server counts as dead: what it held lacks a replica from then on, not before.
fn await_death(cell: &Cell) {
    await_until("its death", || cell.ok(["servers"]).contains(" dead "));
}

/// Until each chunk of a file has three replicas within reach, and nobody misses any.
fn await_whole(cell: &Cell, path: &str, what: &str) {
    await_until(what, || {
        let explained = cell.ok(["explain", path]);
        let mut chunks = explained.lines().filter(|line| line.starts_with("chunk "));
        chunks.all(|line| line.contains("3 of 3 good replicas reachable"))
    });
    await_until(what, || cell.status("under_replicated") == 0);
}

/// Bytes that differ from block to block, so that none is taken for another.
fn content(size: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}

/// The number of a chunkserver that holds some of a file.
fn a_holder(cell: &Cell, path: &str) -> usize {
    let text = cell.ok(["stat", "--chunks", path]);
    let holds = |number: &usize| text.contains(cell.chunkservers[*number].address());
    (0..cell.chunkservers.len()).find(holds).expect("somebody holds it")
}

#[test]
fn what_a_killed_server_held_is_copied_while_clients_go_on_and_its_return_does_no_harm() {
    let mut cell = Cell::start(4);
    let bytes = content(5 << 20);
    let local = cell.file("local", &bytes);
    cell.ok(["put", local.as_str(), "/file"]);
    let mut lines = String::new();
    let mut append = |cell: &Cell, from: usize| {
        let more: String = (from..from + 200).map(|at| format!("line {at}\n")).collect();
        cell.ok_with(["append", "/log", "-"], more.as_bytes());
        lines += &more;
        lines.clone()
    };
    append(&cell, 0);
    let dead = a_holder(&cell, "/file");
    let killed = Instant::now();
    cell.chunkservers[dead].kill();
    await_death(&cell);
    append(&cell, 200);
    await_whole(&cell, "/file", "full strength on three servers");
    println!("healed {} ms after the kill", killed.elapsed().as_millis());
    let wanted = append(&cell, 400);
    assert!(cell.ok_with(["cat", "/file"], b"") == bytes, "the same bytes");
    assert_eq!(cell.ok(["cat", "/log"]), wanted);
    let explained = cell.ok(["explain", "/file"]);
    assert_eq!(explained.matches("3 of 3 good replicas reachable").count(), 5, "{explained}");
    assert!(!explained.contains(&format!("{} (live)", cell.chunkservers[dead].address())));
    // It comes back with replicas that are none any more, and has to let go of them.
    cell.chunkservers[dead].restart().expect("starts");
    cell.await_live(4).expect("it is back");
    await_until("the stale replicas to be gone", || {
        !cell.ok(["explain", "/file"]).contains("stale")
    });
    await_whole(&cell, "/file", "full strength with all of them");
    // Another dies: what it held goes to the one that came back.
    let other = (0..4).find(|at| *at != dead).expect("four");
    cell.chunkservers[other].kill();
    await_death(&cell);
    await_whole(&cell, "/file", "full strength once more");
    assert!(cell.ok_with(["cat", "/file"], b"") == bytes, "the same bytes once more");
    assert_eq!(cell.ok(["cat", "/log"]), wanted);
}

#[test]
fn how_fast_a_cell_heals_is_changed_while_it_heals_and_stays_so_over_a_restart() {
    let mut cell = Cell::start(4);
    let settings = |cell: &Cell| {
        let text = cell.ok(["settings", "--json"]);
        let all: serde_json::Value = serde_json::from_str(text.trim()).expect("JSON");
        [all["clone_rate"].as_u64(), all["clones_per_server"].as_u64()].map(Option::unwrap)
    };
    assert_eq!(settings(&cell), [64 << 20, 2]);
    // A chunk takes sixteen seconds so.
    cell.ok(["settings", "clone_rate=64K"]);
    let local = cell.file("local", &content(3 << 20));
    cell.ok(["put", local.as_str(), "/file"]);
    let dead = a_holder(&cell, "/file");
    cell.chunkservers[dead].kill();
    await_until("a copy on its way", || cell.ok(["explain", "/file"]).contains("is copied from"));
    let shown = cell.ok(["settings", "clone_rate=0", "clones_per_server=5"]);
    assert!(shown.contains("no limit"), "{shown}");
    await_whole(&cell, "/file", "full strength, as fast as it goes");
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts");
    assert_eq!(settings(&cell), [0, 5]);
    let refused = cell.run(["settings", "lease_ms=5000"]);
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr.contains("when a cell is founded"), "{}", refused.stderr);
}
