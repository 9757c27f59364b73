//! A cell with three masters, each a process: made once, by a person; and it outlives the one that
//! is in charge (A25).

mod cell;

use cairn_testkit::{Janitor, Program, ServerProcess, free_addresses};
use cell::{SETTINGS, await_until, program};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;

/// Records from one checkpoint to the next.
const CHECKPOINT_EVERY: u64 = 200;

/// Masters and chunkservers; ended when dropped.
struct GroupCell {
    masters: Vec<ServerProcess>,
    chunkservers: Vec<ServerProcess>,
    /// All masters, with commas between.
    address: String,
    program: Program,
    directory: TempDir,
    janitor: Arc<Janitor>,
}

impl GroupCell {
    /// Three masters that belong to no group yet.
    fn waiting() -> Self {
        let directory = TempDir::new().expect("a scratch directory");
        let program = program();
        let janitor = Arc::new(Janitor::start(&program, None).expect("starts"));
        let settings = directory.path().join("settings.toml");
        std::fs::write(&settings, SETTINGS).expect("writes");
        let addresses = free_addresses(3).expect("ports");
        let address = addresses.join(",");
        let start = |(number, listen): (usize, &String)| {
            let name = format!("master-{number}");
            let data = directory.path().join(&name).display().to_string();
            let config = settings.display().to_string();
            let every = CHECKPOINT_EVERY.to_string();
            let arguments = [
                "master",
                "--data",
                &data,
                "--config",
                &config,
                "--peers",
                &address,
                "--checkpoint-every-records",
                &every,
            ];
            let arguments = arguments.map(str::to_owned).to_vec();
            let around = (directory.path(), &janitor);
            ServerProcess::start_at(listen, &program, &name, arguments, around).expect("starts")
        };
        let masters = (1..).zip(&addresses).map(start).collect();
        Self { masters, chunkservers: Vec::new(), address, program, directory, janitor }
    }

    fn start(chunkservers: usize) -> Self {
        let mut cell = Self::waiting();
        cell.ok(&["masters", "create", &cell.address.clone()]);
        for number in 1..=chunkservers {
            let name = format!("chunkserver-{number}");
            let data = cell.directory.path().join(&name).display().to_string();
            let arguments = ["chunkserver", "--master", &cell.address, "--data", &data];
            let arguments = arguments.map(str::to_owned).to_vec();
            let (directory, janitor) = (cell.directory.path(), &cell.janitor);
            let server = ServerProcess::start(&cell.program, &name, arguments, directory, janitor);
            cell.chunkservers.push(server.expect("starts"));
        }
        await_until("live chunkservers", || {
            let shown = cell.ask(&["servers", "--json"]).unwrap_or_default();
            shown.matches("\"state\":\"live\"").count() == chunkservers
        });
        cell
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let asked = self.program.ask(&[arguments, &["--cell", &self.address]].concat());
        asked.map_err(|error| error.to_string())
    }

    fn ok(&self, arguments: &[&str]) -> String {
        self.ask(arguments).unwrap_or_else(|why| panic!("{arguments:?}: {why}"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).expect("writes");
        path.display().to_string()
    }

    /// What the masters say of themselves: address, role, the last record applied.
    fn listed(&self) -> Vec<(String, String, u64)> {
        let text = self.ask(&["masters", "--json"]).unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(text.trim()).unwrap_or_default();
        let masters = value["masters"].as_array().cloned().unwrap_or_default();
        let row = |it: &serde_json::Value| {
            let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
            (text("address"), text("role"), it["applied"].as_u64().unwrap_or_default())
        };
        masters.iter().map(row).collect()
    }

    /// The number of the one that is in charge.
    fn primary(&self) -> usize {
        let mut found = None;
        await_until("a primary master", || {
            let listed = self.listed();
            let primaries: Vec<_> =
                listed.iter().filter(|(_, role, _)| role == "primary").collect();
            found = match primaries.as_slice() {
                [(address, ..)] => self.masters.iter().position(|it| it.address() == address),
                _ => None,
            };
            found.is_some()
        });
        found.expect("waited for")
    }
}

#[test]
fn a_cell_outlives_its_master_and_the_one_after_it() {
    let mut cell = GroupCell::start(3);
    let text = "one line and another\n".repeat(1000);
    let local = cell.file("local", &text);
    cell.ok(&["put", &local, "/file"]);
    let mut lines = String::new();
    for round in 0..2 {
        let line = cell.file("line", &format!("line {round}\n"));
        cell.ok(&["append", "/log", &line]);
        let dead = cell.primary();
        cell.masters[dead].kill();
        let killed = Instant::now();
        cell.ok(&["mkdir", &format!("/made-{round}")]);
        println!("creates go on {} ms after the kill", killed.elapsed().as_millis());
        let more = cell.file("more", &format!("more {round}\n"));
        cell.ok(&["append", "/log", &more]);
        println!("appends go on {} ms after the kill", killed.elapsed().as_millis());
        lines += &format!("line {round}\nmore {round}\n");
        assert_eq!(cell.ok(&["cat", "/log"]), lines);
        assert_eq!(cell.ok(&["cat", "/file"]), text);
        let now = cell.primary();
        assert_ne!(now, dead);
        // The dead one comes back, and follows.
        cell.masters[dead].restart().expect("starts");
        await_until("the one that was dead to have every record", || {
            let listed = cell.listed();
            let applied: Vec<u64> = listed.iter().map(|(.., applied)| *applied).collect();
            let back = listed.iter().find(|row| row.0 == cell.masters[dead].address());
            back.is_some_and(|row| row.1 == "shadow")
                && applied.iter().min() == applied.iter().max()
        });
    }
}

#[test]
fn a_master_that_lacks_what_the_others_have_let_go_is_given_a_checkpoint_and_counts_again() {
    let mut cell = GroupCell::start(0);
    let primary = cell.primary();
    let behind = (primary + 1) % 3;
    cell.masters[behind].kill();
    let names = |from: u64| -> Vec<String> {
        (from..from + 2 * CHECKPOINT_EVERY).map(|number| format!("/d{number}")).collect()
    };
    let make = |cell: &GroupCell, from: u64| {
        let names = names(from);
        let words: Vec<&str> =
            ["mkdir"].into_iter().chain(names.iter().map(String::as_str)).collect();
        cell.ok(&words);
    };
    make(&cell, 0);
    // Started anew, the others know of nothing before their checkpoints.
    for at in (0..3).filter(|at| *at != behind) {
        cell.masters[at].kill();
        cell.masters[at].restart().expect("starts");
        cell.primary();
    }
    cell.masters[behind].restart().expect("starts");
    make(&cell, 10_000);
    await_until("the one that was behind to have every record", || {
        let listed = cell.listed();
        listed.len() == 3
            && listed.iter().all(|row| row.2 == listed[0].2 && row.2 > CHECKPOINT_EVERY)
    });
    let told = std::fs::read_to_string(cell.masters[behind].log()).expect("its log");
    assert!(told.contains("checkpoint of another master taken over"), "{told}");
    // It counts again, and what it took over outlives it.
    cell.masters[behind].kill();
    cell.masters[behind].restart().expect("starts");
    let dead = cell.primary();
    cell.masters[dead].kill();
    cell.ok(&["mkdir", "/last"]);
    assert_eq!(cell.ok(&["ls", "/"]).lines().count() as u64, 4 * CHECKPOINT_EVERY + 1);
}

/// Stops a process, or lets it go on.
fn signal(name: &str, server: &ServerProcess) {
    let pid = server.pid().expect("it runs").to_string();
    let sent = Command::new("kill").args([name, &pid]).status();
    assert!(sent.expect("kill is there").success(), "{name} {pid}");
}

/// A cell of one master, and masters that wait to be taken in.
struct GrowingCell {
    masters: Vec<ServerProcess>,
    addresses: Vec<String>,
    program: Program,
    _janitor: Arc<Janitor>,
    directory: TempDir,
}

impl GrowingCell {
    fn start(count: usize) -> Self {
        let directory = TempDir::new().expect("a scratch directory");
        let program = program();
        let janitor = Arc::new(Janitor::start(&program, None).expect("starts"));
        let settings = directory.path().join("settings.toml");
        std::fs::write(&settings, SETTINGS).expect("writes");
        let addresses = free_addresses(count).expect("ports");
        let start = |number: usize| {
            let name = format!("master-{number}");
            let data = directory.path().join(&name).display().to_string();
            let config = settings.display().to_string();
            let mut arguments = ["master", "--data", &data, "--config", &config].to_vec();
            let peers = addresses.join(",");
            if number > 0 {
                arguments.extend(["--peers", &peers]);
            }
            let arguments = arguments.into_iter().map(str::to_owned).collect();
            let around = (directory.path(), &janitor);
            ServerProcess::start_at(&addresses[number], &program, &name, arguments, around)
                .expect("starts")
        };
        let masters = (0..count).map(start).collect();
        Self { masters, addresses, program, _janitor: janitor, directory }
    }

    fn ask(&self, cell: &str, arguments: &[&str]) -> Result<String, String> {
        let asked = self.program.ask(&[arguments, &["--cell", cell]].concat());
        asked.map_err(|error| error.to_string())
    }

    fn ok(&self, cell: &str, arguments: &[&str]) -> String {
        self.ask(cell, arguments).unwrap_or_else(|why| panic!("{arguments:?}: {why}"))
    }
}

#[test]
fn a_cell_of_one_grows_to_three_and_its_first_master_is_replaced_and_it_shrinks_again() {
    let mut cell = GrowingCell::start(5);
    let at = cell.addresses.clone();
    let all = at.join(",");
    cell.ok(&at[0], &["mkdir", "/before"]);
    let two = format!("{},{}", at[1], at[2]);
    let refused = cell.ask(&at[0], &["masters", "add", &at[1]]).expect_err("two are no group");
    assert!(refused.contains("one, three or five"), "{refused}");
    let refused = cell.ask(&at[0], &["masters", "remove", &at[3]]).expect_err("no member");
    assert!(refused.contains("no member"), "{refused}");
    let members = cell.ok(&at[0], &["masters", "add", &two]);
    assert_eq!(members.matches("voter").count(), 3, "{members}");
    assert_eq!(cell.ok(&at[0], &["masters", "add", &two]), members, "safe to repeat");
    // Whoever knew the first one alone learns of the others; then it may go.
    cell.masters[0].kill();
    cell.ok(&all, &["mkdir", "/without-the-first"]);
    let refused = cell.ask(&all, &["masters", "remove", &at[0]]).expect_err("two are no group");
    assert!(refused.contains("one, three or five"), "{refused}");
    let members = cell.ok(&all, &["masters", "replace", &at[0], &at[3]]);
    assert!(!members.contains(&at[0]) && members.matches("voter").count() == 3, "{members}");
    // The one that was replaced has nothing to say any more, and sends on whoever knows only it.
    cell.masters[0].restart().expect("starts");
    cell.ok(&at[0], &["mkdir", "/sent-on"]);
    cell.masters[0].kill();
    cell.masters[1].kill();
    cell.ok(&all, &["mkdir", "/with-the-fourth"]);
    cell.masters[1].restart().expect("starts");
    await_until("the group to shrink to one", || {
        let members = cell.ask(&all, &["masters", "remove", &two]);
        members.is_ok_and(|it| it.matches("voter").count() == 1 && it.contains(&at[3]))
    });
    for gone in [1, 2] {
        await_until("whoever was taken out to end", || !cell.masters[gone].runs());
    }
    let names = cell.ok(&at[3], &["ls", "/"]);
    for name in ["before", "without-the-first", "sent-on", "with-the-fourth"] {
        assert!(names.contains(name), "{names}");
    }
    cell.masters[3].kill();
    cell.masters[3].restart().expect("starts");
    cell.ok(&at[3], &["mkdir", "/alone"]);
    // One that follows and never votes: any number of voters is left as it is.
    let members = cell.ok(&at[3], &["masters", "add", "--shadow", &at[4]]);
    assert_eq!((members.matches("voter").count(), members.matches("learner").count()), (1, 1));
    await_until("the shadow to know what there is", || {
        let said = cell.ask(&at[4], &["ls", "--read-only", "/"]);
        said.is_ok_and(|names| names.contains("before") && names.contains("alone"))
    });
    cell.masters[4].kill();
    cell.ok(&at[3], &["mkdir", "/without-the-shadow"]);
    assert!(cell.directory.path().exists());
}

#[test]
fn a_master_that_is_stopped_is_left_and_what_was_asked_of_it_is_done_once() {
    let cell = GroupCell::start(3);
    let line = cell.file("line", "one line\n");
    cell.ok(&["append", "/log", &line]);
    let stopped = cell.primary();
    signal("-STOP", &cell.masters[stopped]);
    // Made by one process that asked before anyone had noticed: a second one would be refused.
    cell.ok(&["mkdir", "/made"]);
    cell.ok(&["append", "/log", &line]);
    assert_eq!(cell.ok(&["cat", "/log"]), "one line\none line\n");
    assert!(cell.ask(&["mkdir", "/made"]).is_err());
    let now = cell.primary();
    assert_ne!(now, stopped);
    // It goes on, and follows: whoever knows only it is sent to the one in charge.
    signal("-CONT", &cell.masters[stopped]);
    let alone = [&["ls", "/"][..], &["--cell", cell.masters[stopped].address()]].concat();
    let names = cell.program.ask(&alone).expect("it names the primary");
    assert!(names.contains("made") && names.contains("log"), "{names}");
    await_until("the one that was stopped to follow", || {
        let rows = cell.listed();
        let back = rows.iter().find(|row| row.0 == cell.masters[stopped].address());
        back.is_some_and(|row| row.1 == "shadow") && rows.iter().all(|row| row.2 == rows[0].2)
    });
}

#[test]
fn a_master_that_is_asked_to_stop_hands_over_and_ends() {
    let mut cell = GroupCell::start(0);
    for round in 0..2 {
        let stopped = cell.primary();
        let term = |cell: &GroupCell| {
            let text = cell.ok(&["masters", "--json"]);
            let value: serde_json::Value = serde_json::from_str(text.trim()).expect("JSON");
            value["masters"]
                .as_array()
                .expect("rows")
                .iter()
                .filter_map(|it| it["term"].as_u64())
                .max()
        };
        let before = term(&cell).expect("a term");
        let began = Instant::now();
        signal("-TERM", &cell.masters[stopped]);
        cell.ok(&["mkdir", &format!("/made-{round}")]);
        println!("creates go on {} ms after it was asked to stop", began.elapsed().as_millis());
        assert_ne!(cell.primary(), stopped);
        assert_eq!(term(&cell), Some(before + 1), "one election, and nobody waited for silence");
        await_until("it to end", || !cell.masters[stopped].runs());
        cell.masters[stopped].kill();
        cell.masters[stopped].restart().expect("starts");
    }
}

#[test]
fn masters_that_were_told_of_peers_found_no_cell_before_a_person_makes_the_group() {
    let cell = GroupCell::waiting();
    let refused = cell.ask(&["mkdir", "/d", "--deadline", "1"]).expect_err("no cell yet");
    assert!(refused.contains("group") || refused.contains("answer"), "{refused}");
    let two = cell.address.rsplit_once(',').expect("three").0.to_owned();
    assert!(cell.ask(&["masters", "create", &two]).is_err(), "two are no group");
    let created = cell.ok(&["masters", "create", &cell.address]);
    assert!(created.contains("a group of 3 masters"), "{created}");
    cell.primary();
    cell.ok(&["mkdir", "/d"]);
    // Doing it again changes nothing.
    assert_eq!(cell.ok(&["masters", "create", &cell.address]), created);
    assert!(cell.ok(&["ls", "/"]).contains('d'));
}

/// What a command of a client said on both ways, and whether it succeeded.
struct Said {
    ok: bool,
    out: String,
    err: String,
}

impl GroupCell {
    fn say(&self, cell: &str, arguments: &[&str]) -> Said {
        let mut command = self.program.command(arguments.iter().chain(&["--cell", cell]));
        let done = command.output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Said { ok: done.status.success(), out: text(done.stdout), err: text(done.stderr) }
    }

    /// What a shadow answers, which says that it is one.
    fn behind(&self, arguments: &[&str]) -> String {
        let said = self.say(&self.address, arguments);
        assert!(said.ok, "{arguments:?}: {}", said.err);
        let told = said.err.contains("warning: shadow master") && said.err.contains("behind");
        assert!(told && said.err.lines().count() == 1, "{arguments:?}: {}", said.err);
        said.out
    }
}

#[test]
fn with_the_majority_gone_what_was_stored_is_read_of_a_shadow_and_nothing_is_changed() {
    let mut cell = GroupCell::start(3);
    let text = "one line and another\n".repeat(100_000);
    let local = cell.file("local", &text);
    cell.ok(&["mkdir", "/d"]);
    cell.ok(&["put", &local, "/d/file"]);
    let line = cell.file("line", "one line\n");
    cell.ok(&["append", "/d/log", &line]);
    let stated = cell.ok(&["stat", "/d/log"]);
    let primary = cell.primary();
    let (left, other) = ((primary + 1) % 3, (primary + 2) % 3);
    let at = cell.masters[left].address().to_owned();
    // A shadow answers who asks for one, beside a primary, once chunkservers have told it.
    for path in ["/d/file", "/d/log"] {
        await_until("the shadow to send readers to chunkservers", || {
            let said = cell.say(&at, &["cat", "--read-only", "--deadline", "2", path]);
            let wanted = if path == "/d/log" { "one line\n" } else { text.as_str() };
            said.ok && said.out == wanted && said.err.contains(&format!("shadow master {at}"))
        });
    }
    // Who does not ask for one is sent to the primary.
    let said = cell.say(&at, &["cat", "/d/log"]);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("one line\n", ""));

    cell.masters[primary].kill();
    cell.masters[other].kill();
    let killed = Instant::now();
    assert_eq!(cell.behind(&["cat", "/d/file"]), text);
    println!("a read after {} ms", killed.elapsed().as_millis());
    assert_eq!(cell.behind(&["cat", "/d/log"]), "one line\n");
    let names = cell.behind(&["ls", "/d"]);
    assert!(names.contains("file") && names.contains("log"), "{names}");
    assert_eq!(cell.behind(&["stat", "/d/log"]), stated, "the length of an open file too");
    // Chunkservers that start now are taken in by no master, and serve the shadow's readers.
    for server in &mut cell.chunkservers {
        server.kill();
        server.restart().expect("starts");
    }
    await_until("the chunkservers to serve again", || {
        let said = cell.say(&cell.address, &["cat", "--deadline", "4", "/d/file"]);
        said.ok && said.out == text
    });
    let refused = cell.say(&cell.address, &["mkdir", "/e", "--deadline", "6"]);
    assert!(!refused.ok && refused.err.lines().count() == 1, "{}", refused.err);
    // The search says so, or the one that is left, whichever was heard last.
    let says_why = ["no primary master is found", "not in charge"];
    assert!(says_why.iter().any(|why| refused.err.contains(why)), "{}", refused.err);

    cell.masters[other].restart().expect("starts");
    cell.ok(&["mkdir", "/e"]);
    cell.ok(&["append", "/d/log", &line]);
    let said = cell.say(&cell.address, &["cat", "/d/log"]);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("one line\none line\n", ""));
}
