//! Streams under what a cell does with all files: quotas, a server that is emptied, and rot that
//! fsck or the scrub finds, on real processes.

mod cell;

use cairn_testkit::{CellPlan, chunk_files};
use cell::{Cell, KilledOnDrop, await_until, committed_of, feed, flip, run};
use std::process::Stdio;

fn lines(producer: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{producer} {at} {}\n", "x".repeat(at * 37 % 900))).collect()
}

fn append(cell: &Cell, path: &str, producer: &str, lines: &[String]) {
    let command = cell.command(["append", "--producer", producer, path]);
    let done = run(command, lines.concat().as_bytes());
    assert!(done.status.success(), "{}", done.stderr);
}

#[test]
fn a_producer_goes_on_while_a_server_of_its_chunk_is_emptied() {
    let mut cell = Cell::start(4);
    cell.ok(["create", "--layout", "stream", "/s"]);
    let old = lines("old", 100);
    append(&cell, "/s", "old", &old);
    let new = lines("new", 300);
    let mut command = cell.command(["append", "--producer", "new", "/s"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut child = KilledOnDrop(command.spawn().expect("starts"));
    feed(&mut child.0, new[..100].concat().as_bytes());
    await_until("some are committed", || committed_of(&cell, "/s", "new") == 100);
    // One that has the chunk that is being written.
    let told = cell.json(&["stat", "--chunks", "/s"]);
    let chunks = told["chunks"].as_array().expect("chunks");
    let open = chunks.iter().find(|chunk| chunk["closed"] == false).expect("one is written");
    let address = open["replicas"][0]["address"].as_str().expect("a server").to_owned();
    cell.ok(["drain", &address]);
    feed(&mut child.0, new[100..200].concat().as_bytes());
    let waited = cell.ok(["drain", "--wait", &address]);
    assert!(waited.contains("may be switched off"), "{waited}");
    feed(&mut child.0, new[200..].concat().as_bytes());
    await_until("all are committed", || committed_of(&cell, "/s", "new") == 300);
    drop(child);
    let gone = cell.chunkservers.iter().position(|server| server.address() == address);
    cell.chunkservers[gone.expect("it is of the cell")].kill();
    let all = cell.ok(["cat", "/s"]);
    let of = |name: &str| all.split_inclusive('\n').filter(|line| line.starts_with(name)).collect();
    let (of_old, of_new): (Vec<&str>, Vec<&str>) = (of("old"), of("new"));
    assert_eq!(of_old, old);
    assert_eq!(of_new, new);
    assert_eq!(all.lines().count(), 400, "and nothing else");
}

#[test]
fn a_full_quota_stops_a_producer_between_records_and_it_goes_on_where_there_is_room() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "/q"]);
    cell.ok(["quota", "set", "--bytes", "20K", "/q"]);
    cell.ok(["create", "--layout", "stream", "/q/s"]);
    let all = lines("p", 100);
    let send = |count: usize| {
        let command = cell.command(["append", "--producer", "p", "--resume-lines", "/q/s"]);
        run(command, all[..count].concat().as_bytes())
    };
    assert!(send(20).status.success(), "these have room");
    for _ in 0..2 {
        let done = send(100);
        assert_eq!(done.code(), 16, "{}", done.stderr);
        assert!(done.stderr.contains("/q: its quota is 20480 bytes"), "{}", done.stderr);
        let some = committed_of(&cell, "/q/s", "p") as usize;
        assert!((20..100).contains(&some), "{some}");
        assert_eq!(cell.ok(["cat", "/q/s"]), all[..some].concat(), "what is in it is whole");
        let quota = &cell.json(&["quota", "/q"])["quotas"][0];
        let used = quota["bytes"].as_u64().expect("a number");
        assert!((1..=20480).contains(&used), "{quota}");
    }
    cell.ok(["quota", "set", "--bytes", "1M", "/q"]);
    let done = send(100);
    assert!(done.status.success(), "{}", done.stderr);
    assert_eq!(cell.ok(["cat", "/q/s"]), all.concat());
}

/// A cell with a stream of which the first server's replica has a flipped bit; its lines.
fn rotten(change: impl FnOnce(&mut CellPlan)) -> (Cell, Vec<String>) {
    let mut cell = Cell::start_plan(3, change);
    cell.ok(["create", "--layout", "stream", "/s"]);
    let all = lines("p", 300);
    append(&cell, "/s", "p", &all);
    await_until("its chunk is sealed", || cell.ok(["stat", "--chunks", "/s"]).contains(" sealed "));
    let file = &chunk_files(&cell.data_of(1)).expect("lists")[0];
    flip(file, 5000);
    cell.chunkservers[0].kill();
    (cell, all)
}

/// The first server alone gives all of it.
fn judge_alone(mut cell: Cell, all: &[String]) {
    for at in 1..3 {
        cell.chunkservers[at].kill();
    }
    assert_eq!(cell.ok(["cat", "/s"]), all.concat());
}

#[test]
fn a_flipped_bit_of_a_stream_is_found_by_fsck_and_a_good_replica_takes_its_place() {
    let (mut cell, all) = rotten(|_| ());
    cell.chunkservers[0].restart().expect("starts");
    cell.await_live(3).expect("all are back");
    let done = cell.run(["fsck", "--data", "--repair", "/s"]);
    assert!(done.text().contains("BAD_BLOCK"), "{}{}", done.text(), done.stderr);
    assert_eq!(done.code(), 0, "{}{}", done.text(), done.stderr);
    judge_alone(cell, &all);
}

#[test]
fn a_flipped_bit_of_a_stream_is_found_by_the_scrub_and_a_good_replica_takes_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let [off, fast] = [("off", 0), ("fast", 256 << 20)].map(|(name, rate)| {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("[chunkserver]\nscrub_rate = {rate}\n")).expect("writes");
        path.display().to_string()
    });
    let (mut cell, all) = rotten(|plan| {
        plan.chunkserver_arguments = vec!["--config".to_owned(), off.clone()];
    });
    let mut arguments = cell.arguments_of(1);
    assert_eq!(arguments.pop(), Some(off));
    arguments.push(fast);
    cell.chunkservers[0].restart_with(arguments).expect("starts");
    let address = cell.chunkservers[0].address().to_owned();
    let bad = || {
        let told = cell.ok(["--json", "servers"]);
        let all =
            told.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let its = all.filter(|it| it["address"] == address.as_str());
        its.map(|it| it["scrub"]["bad_count"].as_u64()).next().flatten()
    };
    await_until("the scrub has found it", || bad() == Some(1));
    await_until("it is whole again", || cell.run(["fsck", "--data", "/s"]).code() == 0);
    judge_alone(cell, &all);
}
