//! The diagnostic log (§5.3) and what is made of it (§6.3), against cells of real processes: a
//! workload of known operations is told exactly, matched, and done again elsewhere.

mod cell;

use cairn_client::{CellPath, CreateOptions, Options};
use cell::row::{Row, judge};
use cell::small_disk::SmallDisk;
use cell::{Cell, await_output, await_until, cairn, guide, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const WRITES: [u64; 6] = [500, 500, 500, 3000, 3000, 70_000];
const APPENDS: [u64; 5] = [10_000, 10_000, 10_000, 10_000, 200_000];
const READS: [u64; 7] = [100, 100, 100, 100, 100, 20_000, 20_000];

fn path(text: &str) -> CellPath {
    CellPath::parse(text).expect("a path")
}

/// Does what the constants say, and some requests to the master.
fn work(cell: &Cell) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cell = cairn_client::Cell::connect(cell.address(), Options::default()).await;
        let cell = cell.expect("connects");
        cell.make_directory(&path("/w"), false).await.expect("makes");
        // With one replica: others are told a moment later what is acknowledged, and until then a
        // read there is one of less (R17).
        let alone = CreateOptions { replication: 1, ..CreateOptions::default() };
        let file = cell.create(&path("/w/written"), alone).await.expect("makes");
        let mut offset = 0;
        for size in WRITES {
            let bytes = vec![7; usize::try_from(size).expect("small")].into();
            file.write_at(offset, bytes).await.expect("writes");
            offset += size;
        }
        for size in READS {
            assert_eq!(file.read_at(10, size).await.expect("reads").len() as u64, size);
        }
        let log = cell.create(&path("/w/log"), CreateOptions::default()).await.expect("makes");
        for size in APPENDS {
            let bytes = vec![8; usize::try_from(size).expect("small")].into();
            log.append(bytes).await.expect("appends");
        }
        for _ in 0..9 {
            cell.stat(&path("/w/written")).await.expect("is there");
        }
        for _ in 0..3 {
            cell.stat(&path("/w/none")).await.expect_err("is not");
        }
        cell.list(&path("/w")).await.expect("lists");
        cell.rename(&path("/w/log"), &path("/w/log2"), false).await.expect("renames");
        cell.delete(&path("/w/log2"), false).await.expect("deletes");
    });
}

fn value(text: &str) -> Value {
    let last = text.lines().last().expect("a line");
    serde_json::from_str(last).expect("JSON")
}

fn told(cell: &Cell, verb: &str) -> Value {
    let data = cell.scratch().display().to_string();
    value(&cell.ok(["rpclog", verb, "--json", &data]))
}

/// Operations and bytes of a kind, and its classes that have some.
type Kind = (u64, u64, Vec<(String, u64)>);

/// Operations and bytes by kind; and the classes that have some.
fn operations(told: &Value) -> Vec<Kind> {
    let number = |value: &Value| value.as_u64().expect("a number");
    let of_kind = |kind: &str| {
        let kind = &told["operations"][kind];
        let classes = kind["by_size"].as_array().expect("classes").iter();
        let classes = classes.map(|it| (it["size"].as_str().expect("a name"), &it["operations"]));
        let some = classes.filter(|(_, count)| **count != json!(0));
        let some = some.map(|(name, count)| (name.to_owned(), number(count))).collect();
        (number(&kind["operations"]), number(&kind["bytes"]), some)
    };
    ["read", "write", "append"].map(of_kind).to_vec()
}

fn expected_operations() -> Vec<Kind> {
    let kind = |sizes: &[u64], classes: &[(&str, u64)]| {
        let classes = classes.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        (sizes.len() as u64, sizes.iter().sum(), classes)
    };
    vec![
        kind(&READS, &[("1B..1K", 5), ("8K..64K", 2)]),
        kind(&WRITES, &[("1B..1K", 3), ("1K..8K", 2), ("64K..128K", 1)]),
        kind(&APPENDS, &[("8K..64K", 4), ("128K..256K", 1)]),
    ]
}

/// Waits until all that was asked of the cell stands in its logs: the deletion was the last.
/// Its answer is awaited too: a log is written a part at a time, and a request whose answer is
/// not there yet is one that a replay leaves out.
fn await_written(cell: &Cell) {
    let data = cell.scratch().display().to_string();
    await_until("the end of the workload in the logs", || {
        cell.ok(["rpclog", "show", &data, "--rpc", "Delete"]).contains(">told  Delete")
    });
    // What chunkservers were asked for is older, and each writes at its own time.
    let mut last = Vec::new();
    await_until("all operations in the logs", || {
        let now = operations(&told(cell, "breakdown"));
        if now != last {
            // For whoever looks for what is missing.
            eprintln!("so far: {now:?}");
            last = now;
        }
        last == expected_operations()
    });
}

#[test]
fn a_workload_is_told_as_it_was_matched_across_servers_and_done_again_in_another_cell() {
    let (one, other) = (Cell::start(3), Cell::start(3));
    work(&one);
    await_written(&one);
    let broken_down = told(&one, "breakdown");
    assert_eq!(operations(&broken_down), expected_operations());
    let requests = &broken_down["requests_by_rpc"];
    for (rpc, count) in [("Stat", 12), ("MakeDirectory", 1), ("Create", 2), ("List", 1)] {
        assert_eq!(requests[rpc], count, "{rpc}: {requests}");
    }
    let types = broken_down["requests_by_type"].as_array().expect("types");
    assert_eq!(types[0], json!({ "type": "Open", "requests": 2 }));
    assert_eq!(types[1], json!({ "type": "Delete", "requests": 1 }));
    assert_eq!((&broken_down["dropped"], &broken_down["repeated"]), (&json!(0), &json!(0)));

    // Each append goes on to two secondaries, and every such request is in two logs.
    await_until("all requests between chunkservers in both logs", || {
        let told = told(&one, "match");
        let rpcs = told["rpcs"].as_array().expect("rows").clone();
        let row = |rpc: &str| rpcs.iter().find(|row| row["rpc"] == rpc).cloned().expect("a row");
        let forward = row("Forward");
        let heard = forward["matched"].as_u64().is_some_and(|count| count >= 2 * 5);
        heard && forward["one_log"] == 0 && row("Raise")["one_log"] == 0
    });
    let matched = told(&one, "match");
    assert_eq!(matched["without_partner"], 0, "{matched}");
    assert!(matched["matched"].as_u64() > Some(30), "{matched}");

    let data = one.scratch().display().to_string();
    let replay = ["rpclog", "replay", "--json", "--speed", "max", "--under", "/again", &data];
    let told_again = value(&other.ok(replay));
    let kinds = &told_again["kinds"];
    let expected = [
        ("read", READS.len() as u64, READS.iter().sum()),
        ("write", WRITES.len() as u64, WRITES.iter().sum()),
        ("append", APPENDS.len() as u64, APPENDS.iter().sum()),
        ("create", 2, 0),
        ("mkdir", 1, 0),
        ("stat", 12, 0),
        ("list", 1, 0),
        ("rename", 1, 0),
        ("delete", 1, 0),
    ];
    for (kind, done, bytes) in expected {
        let told: [u64; 2] = ["done", "bytes"].map(|name| kinds[kind][name].as_u64().unwrap_or(0));
        assert_eq!(told, [done, bytes], "{kind}: {told_again}");
    }
    assert_eq!((&told_again["failed"], kinds.as_object().map(|it| it.len())), (&json!(0), Some(9)));
    assert_eq!(other.ok(["ls", "/again/w"]), "written\n", "what was removed is removed there");
    await_written(&other);

    let again = run(other.command(replay), b"");
    assert_eq!(again.code(), 4, "{}", again.stderr);
    assert!(again.stderr.contains("/again is not empty"), "{}", again.stderr);
}

#[test]
fn requests_are_found_by_chunk_rpc_peer_and_time_and_the_recent_ones_are_asked_of_the_server() {
    let cell = Cell::start(1);
    cell.ok_with(["put", "-", "/f"], &[7; 3000]);
    let data = cell.scratch().display().to_string();
    let show = |more: &[&str]| cell.ok([&["rpclog", "show", &data], more].concat());
    await_until("the write in the log", || show(&["--rpc", "write"]).lines().count() == 2);
    let lines = show(&["--rpc", "Write"]);
    let handle = value(&cell.ok(["stat", "--json", "--chunks", "/f"]))["chunks"][0]["handle"]
        .as_str()
        .expect("a handle")
        .to_owned();
    for line in lines.lines() {
        let about = format!("chunk={handle} ");
        assert!(line.contains(&about) && line.contains("length=3000"), "{line}");
        assert!(line.contains("name="), "a client's name stands in each log: {line}");
    }
    assert!(lines.contains("<asked Write") && lines.contains(">told  Write"), "{lines}");
    let of_chunk = show(&["--handle", &handle]);
    assert!(of_chunk.contains("Write") && of_chunk.contains("Raise"), "{of_chunk}");
    assert!(!of_chunk.contains("Heartbeat") && show(&["--handle", "9-9"]).is_empty());
    let of_clients = show(&["--peer", "client"]);
    assert!(of_clients.contains("Create") && !of_clients.contains("Heartbeat"), "{of_clients}");
    assert!(show(&["--since", "1h"]).contains("chunkserver joined"), "events are told too");
    assert!(show(&["--since", "2999-01-01"]).is_empty());
    let messages = show(&["--rpc", "write", "--messages"]);
    assert!(messages.contains("Write(Write {"), "{messages}");
    let first: Value =
        serde_json::from_str(show(&["--rpc", "write", "--json"]).lines().next().expect("a line"))
            .expect("JSON");
    assert_eq!((&first["way"], &first["length"]), (&json!("request_received"), &json!(3000)));

    let server = cell.chunkservers[0].address().to_owned();
    let live = cell.ok(["rpclog", "show", "--live", &server]);
    assert!(live.contains("<asked Write") && live.contains(">asks  Heartbeat"), "{live}");
    let live = cell.ok(["rpclog", "show", "--live", cell.address(), "--rpc", "Create"]);
    assert_eq!(live.lines().count(), 2, "{live}");
    assert!(!cell.ok(["rpclog", "show", "--live", &server]).contains("RecentRpcs"));
    // It has names and more of everybody: who is not the superuser is told nothing.
    for server in [&server, cell.address()] {
        let done = cell.run(["--as", "1000", "rpclog", "show", "--live", server]);
        assert_eq!((done.code(), done.text().as_str()), (15, ""), "{}", done.stderr);
    }
}

/// The files of a log, with their sizes.
fn log_files(data: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(data.join("rpclog")).expect("lists");
    let sized = entries.map(|entry| entry.expect("is there").path()).filter_map(|path| {
        let size = std::fs::metadata(&path).ok()?.len();
        Some((path, size))
    });
    sized.collect()
}

#[test]
fn a_log_stays_within_its_bound_and_keeps_the_latest() {
    let mut cell = Cell::start_plan(1, |plan| {
        plan.master_arguments = vec!["--rpclog-size".to_owned(), "1M".to_owned()];
        plan.chunkserver_arguments = vec!["--rpclog-size".to_owned(), "none".to_owned()];
    });
    let data = cell.scratch().join("master");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let connected = cairn_client::Cell::connect(cell.address(), Options::default());
    let client = runtime.block_on(connected).expect("connects");
    let long = path(&format!("/{}", "x".repeat(200)));
    await_until("more than fits was asked", || {
        runtime.block_on(async {
            for _ in 0..500 {
                client.stat(&long).await.expect_err("is not there");
            }
        });
        let files = log_files(&data);
        let held: u64 = files.iter().map(|(_, size)| size).sum();
        assert!(held <= 1 << 20, "{held} bytes in {files:?}");
        let oldest = files.iter().map(|(path, _)| path).min().expect("one");
        !oldest.to_string_lossy().ends_with("-000001.rpclog")
    });
    let all = cell.ok(["rpclog", "show", "--rpc", "stat", &data.display().to_string()]);
    assert!(all.lines().count() > 1000, "{}", all.lines().count());

    let none = run(cairn(["rpclog", "show", &cell.data_of(1).display().to_string()]), b"");
    assert_eq!(none.code(), 12, "{}", none.stderr);
    let live = cell.run(["rpclog", "show", "--live", cell.chunkservers[0].address()]);
    assert!(live.stderr.contains("--rpclog-size"), "{}", live.stderr);

    // What stands in its way is told of once, and the server goes on.
    cell.masters[0].kill();
    std::fs::remove_dir_all(data.join("rpclog")).expect("it may be deleted");
    std::fs::write(data.join("rpclog"), "in the way").expect("writes");
    cell.masters[0].restart().expect("starts");
    await_output(cell.masters[0].log(), "the diagnostic log cannot be written; the server goes on");
    cell.ok(["mkdir", "/d"]);
    let live = cell.ok(["rpclog", "show", "--live", cell.address()]);
    assert!(live.contains("MakeDirectory"), "memory has it all the same: {live}");
    let said = std::fs::read_to_string(cell.masters[0].log()).expect("reads");
    assert_eq!(said.matches("the diagnostic log cannot be written").count(), 1, "{said}");
}

#[test]
fn a_disk_that_is_nearly_full_is_left_to_the_server() {
    // Only root may mount one.
    let Some(disk) = SmallDisk::mount(64) else { return };
    let cell = Cell::start_plan(1, |plan| {
        plan.disks.insert(1, vec![disk.path().to_owned()]);
    });
    await_until("a log", || !log_files(disk.path()).is_empty());
    let size = 64 << 20;
    let free = rustix::fs::statvfs(disk.path()).expect("tells");
    let free = usize::try_from(free.f_bavail * free.f_frsize).expect("small");
    // What is left is less than the twentieth that is not the log's.
    std::fs::write(disk.path().join("large"), vec![0; free - size / 40]).expect("writes");
    await_output(cell.chunkservers[0].log(), "the diagnostic log cannot be written");
    assert!(log_files(disk.path()).is_empty(), "its room is given back");
    cell.ok_with(["put", "-", "/f"], b"it serves");
    assert_eq!(cell.ok(["cat", "/f"]), "it serves");
}

#[test]
fn what_is_no_log_is_told_with_a_way_out() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let at = |name: &str| scratch.path().join(name).display().to_string();
    std::fs::create_dir(at("empty")).expect("makes");
    std::fs::write(at("text"), "a".repeat(100)).expect("writes");
    let header = |version: u32| {
        let mut raw = b"CAIRNRPC".to_vec();
        raw.extend_from_slice(&version.to_le_bytes());
        raw.resize(60, 0);
        let checksum = cairn_types::crc32c(&raw);
        raw.extend_from_slice(&checksum.to_le_bytes());
        raw
    };
    std::fs::write(at("later"), header(9)).expect("writes");
    std::fs::write(at("nothing.rpclog"), header(1)).expect("writes");
    let show = |name: &str| ["rpclog", "show"].map(str::to_owned).into_iter().chain([at(name)]);
    let told = |name: &str| run(cairn(show(name)), b"");
    let empty = at("nothing.rpclog");
    let rows = [
        ("missing", told("missing"), 12, "name a path that is there"),
        ("empty", told("empty"), 12, "name a server's data directory"),
        ("text", told("text"), 9, "name files of a server's rpclog directory"),
        ("later", told("later"), 10, "read it with the build that wrote it"),
        ("nothing", run(cairn(["rpclog", "replay", &empty]), b""), 12, "name the logs of all"),
    ];
    for (what, done, code, hint) in rows {
        judge(&Row { what, done, code, says: &[hint] });
    }
    assert_eq!(told("nothing.rpclog").text(), "");
    std::fs::write(at("torn.rpclog"), &header(1)[..40]).expect("writes");
    for verb in ["show", "match", "breakdown", "replay"] {
        let done = run(cairn(["rpclog", verb, &at("torn.rpclog")]), b"");
        assert_eq!(done.code(), if verb == "replay" { 12 } else { 0 }, "{verb}: {}", done.stderr);
        assert!(done.stderr.contains("1 parts of the log are damaged"), "{verb}: {}", done.stderr);
    }
    let wrong: [(&[&str], &str); 10] = [
        (&["rpclog", "show"], "required"),
        (&["rpclog", "show", "--rpc", "Reed", &empty], "no rpc has this name"),
        (&["rpclog", "show", "--since", "soon", &empty], "30s, 5m"),
        (&["rpclog", "show", "--handle", "x", &empty], "3-1f"),
        (&["rpclog", "show", "--peer", "foo", &empty], "client, chunkserver or master, a server"),
        (&["rpclog", "show", "--peer", "localhost:7400", &empty], "an address in numbers"),
        (&["rpclog", "show", "--follow", &empty], "--live ADDRESS --follow goes on"),
        (&["rpclog", "show", "-f"], "--live <ADDRESS>"),
        (&["rpclog", "replay", "--speed", "warp", &empty], "or max"),
        (&["master", "--rpclog-size", "5"], "1M and more"),
    ];
    for (arguments, says) in wrong {
        let done = run(cairn(arguments), b"");
        assert_eq!(done.code(), 2, "{}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains(says), "{}", done.stderr);
    }
}

#[test]
fn every_command_of_the_guides_page_does_what_it_says() {
    let (cell, other) = (Cell::start(3), Cell::start(3));
    work(&cell);
    await_written(&cell);
    let page = include_str!("../../../docs/guide/rpclog.md");
    let blocks = guide::blocks(page, "sh");
    assert_eq!(blocks.len(), 5, "each block is judged here");
    let data = cell.scratch().display().to_string();
    let variables = [("OTHER", other.address()), ("DATA", data.as_str())];
    let said = blocks.into_iter().map(|script| guide::shell(&cell, script, &variables));
    let said: Vec<String> = said.collect();
    let wanted: [&[&str]; 5] = [
        &["<asked Write", "Forward", "\"peer_role\":\"client\""],
        &["master "],
        &["MATCHED", "Forward", "without a partner: "],
        &["(Table 4)", "FindLeaseHolder", "\"requests_by_type\""],
        &["append", " 0 failed in "],
    ];
    for (said, wanted) in said.iter().zip(wanted) {
        wanted.iter().for_each(|wanted| assert!(said.contains(wanted), "{wanted}: {said}"));
    }
}
