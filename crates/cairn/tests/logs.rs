//! What servers tell the person who runs them: which events, how much, in which form.

mod cell;

use cell::row::{Row, judge};
use cell::{Cell, KilledOnDrop, SETTINGS, await_output, await_until, cairn, run};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Another chunkserver of a cell, which writes its log where the caller says.
fn chunkserver(cell: &Cell, log: &Path, more: &[&str], settings: &[(&str, &str)]) -> KilledOnDrop {
    let data = log.with_extension("data").display().to_string();
    let arguments = ["chunkserver", "--listen", "127.0.0.1:0", "--data", &data, "--master"];
    let mut command = cairn(arguments.iter().chain(&[cell.address()]).chain(more));
    command.envs(settings.iter().copied());
    command.stdout(Stdio::null()).stderr(File::create(log).expect("creates"));
    KilledOnDrop(command.spawn().expect("starts"))
}

#[test]
fn events_have_a_time_a_level_and_a_name_in_the_form_that_was_asked_for() {
    let mut cell = Cell::start(0);
    let (text, json, few) = (cell.local("text"), cell.local("json"), cell.local("few"));
    let _text = chunkserver(&cell, &text, &[], &[]);
    let _json = chunkserver(&cell, &json, &["--log-format", "json"], &[("CAIRN_LOG", "debug")]);
    let _few = chunkserver(&cell, &few, &["--log", "error"], &[("CAIRN_LOG", "debug")]);
    await_output(&text, " INFO in the cell ");
    await_output(&json, "\"event\":\"in the cell\"");
    cell.await_live(3).expect("all three");
    cell.masters[0].kill();
    await_output(&text, " WARN not in the cell ");
    await_output(&json, "\"event\":\"not in the cell\"");
    for line in std::fs::read_to_string(&text).expect("reads").lines() {
        let (time, rest) = line.split_once(' ').expect("a time");
        assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{line}");
        let level = rest.split(' ').next().expect("a level");
        assert!(["ERROR", "WARN", "INFO"].contains(&level), "{line}");
    }
    for line in std::fs::read_to_string(&json).expect("reads").lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        for field in ["time", "level", "event"] {
            assert!(event[field].is_string(), "{line}");
        }
    }
    assert_eq!(std::fs::read_to_string(&few).expect("reads"), "", "nothing so urgent");
}

/// A chunk that a server stores, the one that has bytes.
fn stored_chunk(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("lists").map(|it| it.expect("is there"));
    entries.map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() {
            return stored_chunk(&path);
        }
        path.extension().is_some_and(|it| it == "chunk").then_some(path)
    })
}

/// What an operator asks for, in the logs of a master and a chunkserver: who came and went, what is
/// damaged, what was saved.
#[test]
fn what_happens_to_servers_and_replicas_is_told_once_each() {
    let mut cell = Cell::start_plan(2, |plan| {
        plan.master_arguments = ["--checkpoint-every-records", "10"].map(str::to_owned).into();
    });
    let log = cell.masters[0].log().to_owned();
    let joined = format!("INFO chunkserver joined address={}", cell.chunkservers[0].address());
    await_output(&log, &joined);
    let file = cell.file("file", &[7; 100_000]);
    cell.ok(["put", &file, "/file"]);
    // A stored byte changes by itself, on both: whoever is asked finds it.
    for number in 0..2 {
        let directory = cell.local(&format!("chunkserver-{}", number + 1));
        let stored = stored_chunk(&directory).expect("it has one");
        let mut bytes = std::fs::read(&stored).expect("reads");
        bytes[50_000] ^= 1;
        std::fs::write(&stored, bytes).expect("writes");
    }
    let done = cell.run(["cat", "/file", "--deadline", "5"]);
    assert!(!done.status.success(), "no good replica is left");
    let own = cell.chunkservers[0].log().to_owned();
    await_output(&own, "ERROR bad block chunk=");
    await_output(&log, "ERROR replica damaged chunk=");
    for number in 0..12 {
        cell.ok(["mkdir", &format!("/{number}")]);
    }
    await_output(&log, "INFO checkpoint index=");
    let address = cell.chunkservers[1].address().to_owned();
    cell.chunkservers[1].kill();
    await_output(&log, &format!("WARN chunkserver silent address={address}"));
    await_output(&log, &format!("ERROR chunkserver dead address={address}"));
    let text = std::fs::read_to_string(&log).expect("reads");
    assert_eq!(text.matches("chunkserver silent").count(), 1, "{text}");
    assert_eq!(text.matches("chunkserver dead").count(), 1, "{text}");
}

#[test]
fn a_disk_that_vanishes_and_an_empty_one_in_its_place_are_told() {
    let cell = Cell::start(0);
    let (log, second) = (cell.local("log"), cell.local("second"));
    let shown = second.display().to_string();
    let _server = chunkserver(&cell, &log, &["--data", &shown], &[]);
    await_output(&log, " INFO in the cell ");
    std::fs::rename(&second, cell.local("gone")).expect("moves");
    await_output(&log, " ERROR a data directory is given up ");
    let text = std::fs::read_to_string(&log).expect("reads");
    assert!(text.contains(&format!("directory={shown}")), "{text}");
    std::fs::create_dir(&second).expect("makes");
    await_output(&log, " INFO an empty data directory is taken in ");
}

#[test]
fn the_settings_file_says_it_too_and_nonsense_is_refused() {
    let cell = Cell::start(0);
    let settings = cell.file("settings.toml", b"[log]\nlevel = \"info\"\nformat = \"json\"\n");
    let log = cell.local("log");
    let _server = chunkserver(&cell, &log, &["--config", &settings], &[]);
    await_until("an event", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.starts_with("{\"time\":"))
    });
    let row = |what, done, says| Row { what, done, code: 2, says };
    let start = |more: &[&str]| run(cairn(["master", "--data", "/none"].iter().chain(more)), b"");
    let wrong = cell.file("wrong.toml", b"[log]\nlevel = \"loud\"\n");
    for row in [
        row(
            "a level that is none",
            start(&["--log", "loud"]),
            &["'loud'", "error, warn, info"][..],
        ),
        row("a form that is none", start(&["--log-format", "xml"]), &["'xml'", "text, json"]),
        row("a setting that is none", start(&["--config", &wrong]), &["line 2", "loud"]),
    ] {
        judge(&row);
    }
}

/// What a master tells of chunks, leases and sets, and which fields each has.
const OF_MASTER: &[(&str, &str)] = &[
    ("chunk created", "chunk version replicas"),
    ("replica made", "chunk version serial server"),
    ("lease granted", "chunk version serial server lease secondaries"),
    ("chunk closed", "chunk version"),
    ("snapshot begun", "source name"),
    ("lease revoked", "chunk version server lease"),
    ("lease given back", "chunk version server lease serial"),
    ("set raised", "chunk version serial servers"),
    ("snapshot taken", "source name entry entries"),
    ("chunk copied on write", "chunk version replicas of"),
    ("set shrunk", "chunk version server lease secondaries"),
    ("replica left out", "chunk version serial server set_version"),
    ("clone ordered", "chunk version server source"),
    ("clone joined", "chunk version server source"),
    ("replica collected", "chunk version server"),
    ("lease expired", "chunk version server lease"),
];

/// What a chunkserver tells of its replicas.
const OF_CHUNKSERVERS: &[(&str, &str)] = &[
    ("replica made", "chunk version serial server"),
    ("lease taken", "chunk version serial lease server"),
    ("chunk closed", "chunk version serial server"),
    ("lease given back", "chunk version serial lease why server"),
    ("raise taken", "chunk version serial server"),
    ("copy made", "chunk version serial of server"),
    ("clone done", "chunk version serial source server"),
    ("replica deleted", "chunk version serial server"),
    ("lease ended", "chunk version serial lease why server"),
];

/// Four chunkservers that tell as much as `level` says; leases last long enough for a test to find
/// one live.
fn telling(level: &str) -> Cell {
    let settings = SETTINGS.replace("lease_ms = 1500", "lease_ms = 3000");
    assert_ne!(settings, SETTINGS);
    Cell::start_plan(4, |plan| {
        plan.settings = settings.replace("dead_ms = 2500", "dead_ms = 3500");
        plan.master_arguments = ["--log", level].map(str::to_owned).into();
        plan.chunkserver_arguments = ["--log", level].map(str::to_owned).into();
    })
}

/// Appends that fill one chunk and begin another, a snapshot, and one more: to a copy.
fn change_chunks(cell: &Cell) {
    let line = format!("{}\n", "x".repeat(9_999));
    cell.ok_with(["append", "/file"], line.repeat(120).as_bytes());
    cell.ok(["snapshot", "/file", "/copy"]);
    cell.ok_with(["append", "/file"], line.as_bytes());
}

fn text_of(log: &Path) -> String {
    std::fs::read_to_string(log).expect("reads")
}

/// What the last event of that name says in a field.
fn last_said(text: &str, name: &str, field: &str) -> String {
    let wanted = format!(" DEBUG {name} ");
    let line = text.lines().rfind(|line| line.contains(&wanted)).expect("it was told");
    let said = line.split(' ').find_map(|part| part.strip_prefix(&format!("{field}=")));
    said.unwrap_or_else(|| panic!("no {field} in {line}")).to_owned()
}

/// Each of these is told, and has its fields, which say something.
fn check_told(text: &str, wanted: &[(&str, &str)]) {
    for (name, fields) in wanted {
        assert!(text.contains(&format!(" DEBUG {name} ")), "{name} is not told:\n{text}");
        fields.split(' ').for_each(|field| assert_ne!(last_said(text, name, field), "", "{name}"));
    }
}

/// The number of the chunkserver of that id, as its master told when it joined.
fn numbered(cell: &Cell, id: &str) -> usize {
    let text = text_of(cell.masters[0].log());
    let joined = |at: &str| format!("INFO chunkserver joined address={at} server={id} ");
    let is_it = |number: &usize| text.contains(&joined(cell.chunkservers[*number].address()));
    (0..4).find(is_it).expect("it has joined")
}

#[test]
fn each_change_of_a_chunk_a_lease_or_a_set_is_a_line_for_whoever_looks_for_a_reason() {
    let mut cell = telling("debug");
    let log = cell.masters[0].log().to_owned();
    change_chunks(&cell);
    // A secondary dies under the lease of the copy; the set goes on without it, and heals.
    let secondaries = last_said(&text_of(&log), "lease granted", "secondaries");
    let (lost, _) = secondaries.split_once(',').expect("two of them");
    let dead = numbered(&cell, lost);
    cell.chunkservers[dead].kill();
    cell.ok_with(["append", "/file"], b"more\n");
    await_output(&log, " DEBUG set shrunk ");
    assert_eq!(last_said(&text_of(&log), "replica left out", "server"), lost);
    await_output(&log, " DEBUG clone joined ");
    await_until("full strength", || cell.status("under_replicated") == 0);
    // Nobody asks for this one back.
    cell.ok_with(["append", "/other"], b"one\n");
    await_output(&log, " DEBUG lease expired ");
    // What it holds is stale, or one too many.
    cell.chunkservers[dead].restart().expect("starts");
    await_output(&log, " DEBUG replica collected ");
    let collected = last_said(&text_of(&log), "replica collected", "server");
    await_output(cell.chunkservers[numbered(&cell, &collected)].log(), " DEBUG replica deleted ");
    check_told(&text_of(&log), OF_MASTER);
    let all: String = cell.chunkservers.iter().map(|server| text_of(server.log())).collect();
    check_told(&all, OF_CHUNKSERVERS);
    // Appends are none: one line and no more tells of the lease that all of them were made under.
    let first = last_said(&all, "chunk closed", "chunk");
    let leased = format!(" DEBUG lease granted chunk={first} ");
    assert_eq!(text_of(&log).matches(&leased).count(), 1);
}

#[test]
fn nobody_else_is_told_of_chunks_and_leases() {
    let cell = telling("info");
    change_chunks(&cell);
    let logs = cell.masters.iter().chain(&cell.chunkservers).map(|server| text_of(server.log()));
    let all: String = logs.collect();
    assert!(all.contains(" INFO chunkserver joined "), "{all}");
    assert!(!all.contains(" DEBUG "), "{all}");
    for (name, _) in OF_MASTER.iter().chain(OF_CHUNKSERVERS) {
        assert!(!all.contains(&format!(" {name} ")), "{name}:\n{all}");
    }
}
