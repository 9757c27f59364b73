//! What a cell says of its disks, memory and descriptors (findings U3, U6; budgets).

mod cell;

use cairn_testkit::chunk_files;
use cell::row::{Row, judge};
use cell::{Cell, SETTINGS, await_until, cairn, run};
use serde_json::Value;

fn values(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} of {value}"))
}

#[test]
fn u6_a_disk_is_counted_once_and_what_is_cairns_is_told_apart() {
    let cell = Cell::start(3);
    let bytes = vec![7; 3 << 20];
    cell.ok_with(["put", "-", "/f"], &bytes);
    let all = 3 * bytes.len() as u64;
    let df = || values(&cell.ok(["df", "--json"])).remove(0);
    await_until("all that is stored is told", || number(&df(), "stored") == all);
    let servers = values(&cell.ok(["servers", "--json"]));
    let one = number(&servers[0], "capacity");
    assert!(one > 0);
    assert_eq!(number(&df(), "size"), one, "three servers on one disk");
    assert!(number(&df(), "used") <= one);
    assert!(servers.iter().all(|server| number(server, "stored") == bytes.len() as u64));
    let status = values(&cell.ok(["status", "--json"])).remove(0);
    assert_eq!((number(&status, "capacity"), number(&status, "stored")), (one, all));
    assert!(cell.ok(["status"]).contains("9.0M stored"), "{}", cell.ok(["status"]));
    // Each disk is looked at now and then, by itself.
    let disks = || values(&cell.ok(["servers", "--disks", "--json"]));
    let told = |disk: &Value| number(disk, "chunk_count") == 3;
    await_until("what each disk holds is told", || disks().iter().all(told));
    let disks = disks();
    assert_eq!(disks.len(), 3);
    for disk in &disks {
        assert_eq!((&disk["state"], number(disk, "chunk_count")), (&"working".into(), 3));
        assert!(disk["path"].as_str().is_some_and(|path| path.contains("chunkserver-")), "{disk}");
        assert_eq!(disk["file_system"], disks[0]["file_system"]);
    }
    assert!(cell.ok(["servers", "--disks"]).starts_with("ADDRESS"));
}

#[test]
fn u3_a_replica_that_has_gone_bad_is_told_of_with_its_server() {
    let cell = Cell::start(2);
    cell.ok_with(["put", "-", "/f"], &vec![7; 100_000]);
    let path =
        chunk_files(&cell.local("chunkserver-1")).expect("lists").pop().expect("it has a replica");
    let mut stored = std::fs::read(&path).expect("reads");
    stored[50_000] ^= 1;
    std::fs::write(&path, stored).expect("writes");
    await_until("a reader has met it", || {
        assert_eq!(cell.ok_with(["cat", "/f"], b""), vec![7; 100_000], "no reader is given it");
        let servers = values(&cell.ok(["servers", "--json"]));
        servers.iter().map(|server| number(server, "bad_count")).sum::<u64>() == 1
    });
    let servers = values(&cell.ok(["servers", "--json"]));
    let address = cell.chunkservers[0].address();
    let bad = servers.iter().find(|server| number(server, "bad_count") == 1).expect("one");
    assert_eq!(bad["address"], address);
}

#[test]
fn what_each_process_takes_is_told_with_its_bounds() {
    let settings = format!("[master]\nmemory = \"300M\"\n{SETTINGS}");
    let mut cell = Cell::start_with(2, &settings, None);
    let data = cell.local("chunkserver-1").display().to_string();
    let arguments =
        ["chunkserver", "--data", &data, "--master", cell.address(), "--memory", "400M"];
    let arguments = arguments.map(str::to_owned).into();
    cell.chunkservers[0].kill();
    cell.chunkservers[0].restart_with(arguments).expect("starts");
    cell.await_live(2).expect("both");
    cell.ok_with(["put", "-", "/f"], &vec![7; 1 << 20]);
    let all = || values(&cell.ok(["status", "--resources", "--json"]));
    await_until("everybody has told", || all().iter().all(|one| number(one, "resident") > 0));
    let all = all();
    assert_eq!(all.len(), 3);
    for one in &all {
        let (peers, pushes) = match one["process"].as_str() {
            Some("master") => (300 << 20, 0),
            _ if one["address"] == cell.chunkservers[0].address() => (200 << 20, 200 << 20),
            _ => (256 << 20, 256 << 20),
        };
        assert_eq!(number(one, "peers_memory_max"), peers, "{one}");
        assert_eq!(number(one, "pushes_memory_max"), pushes, "{one}");
        for name in ["peers_memory", "descriptors", "connections"] {
            assert!(number(one, name) <= number(one, &format!("{name}_max")), "{name}: {one}");
        }
        assert!(number(one, "descriptors") > 5 && number(one, "pushes_memory") <= pushes, "{one}");
    }
    let shown = cell.ok(["status", "--resources"]);
    assert!(shown.contains("CONNECTIONS") && shown.contains("/ 300M"), "{shown}");
}

#[test]
fn bounds_that_cannot_be_are_refused_at_the_start() {
    let cell = Cell::start(0);
    let data = cell.local("new").display().to_string();
    let start = |kind: &str, more: [&str; 2]| {
        let listen = [kind, "--listen", "127.0.0.1:0", "--data", &data];
        run(cairn(listen.iter().chain(&more)), b"")
    };
    let row = |what, done, code, says| Row { what, done, code, says };
    for row in [
        row("too little", start("master", ["--memory", "9M"]), 2, &["9.0M", "96M and more"][..]),
        row("for two", start("chunkserver", ["--memory", "100M"]), 2, &["100M", "192M and more"]),
        row("no size", start("master", ["--memory", "much"]), 2, &["'much'"]),
        row("few files", start("master", ["--descriptors", "20"]), 12, &["20 open files"]),
        row("too many", start("master", ["--descriptors", "99999999999"]), 12, &["99999999999"]),
    ] {
        judge(&row);
    }
    let few = start("chunkserver", ["--descriptors", "no"]);
    judge(&Row { what: "no count", done: few, code: 2, says: &["'no'"] });
}
