//! A cell that is known by several addresses, of which some lead nowhere: whoever knows one that is
//! right finds the master, at the first try.

mod cell;

use cell::{Cell, Finished, KilledOnDrop, await_output, cairn, run};
use std::fs::File;
use std::net::TcpListener;
use std::process::Stdio;

/// Where nobody listens.
const DEAD: &str = "127.0.0.1:1";

/// Takes connections and never answers, as the machine of a stopped process does.
fn silent_address() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

/// A command for the cell at `masters`, tried once.
fn at(masters: &str, arguments: &[&str], stdin: &[u8]) -> Finished {
    let mut command = cairn(arguments);
    command.env("CAIRN_CELL", masters);
    let done = run(command, stdin);
    assert!(done.status.success(), "{arguments:?} at {masters}: {}", done.stderr);
    done
}

#[test]
fn with_addresses_that_are_dead_or_silent_in_the_list_everything_works_at_the_first_try() {
    let (_listener, silent) = silent_address();
    let cell = Cell::start_plan(2, |plan| {
        plan.masters_before = vec![DEAD.to_owned(), silent.clone()];
    });
    let live = cell.address();
    let lists = [
        format!("{DEAD},{live}"),
        format!("{silent},{live}"),
        format!("{silent},{DEAD},{live},{silent}"),
    ];
    for (number, masters) in lists.iter().enumerate() {
        let [file, log] = ["file", "log"].map(|name| format!("/{name}{number}"));
        let local = cell.file("local", b"all of it");
        at(masters, &["put", &local, &file], b"");
        at(masters, &["append", &log, "-"], b"a line\n");
        let there = format!("cairn://{masters}{file}");
        // A path that names its cell: the other one is asked nothing.
        assert_eq!(at(DEAD, &["cat", &there], b"").stdout, b"all of it");
        assert_eq!(at(masters, &["cat", &log], b"").text(), "a line\n");
        at(masters, &["rm", &file, &log], b"");
    }
    let status = at(&lists[2], &["status"], b"").text();
    assert!(status.contains(&format!("primary at {live}, term")), "{status}");
    let status = at(&lists[2], &["status", "--json"], b"").text();
    let status: serde_json::Value = serde_json::from_str(status.trim()).expect("JSON");
    assert_eq!(status["master"]["address"], live);
    assert_eq!(status["master"]["role"], "primary");
    // A name, which may lead to several addresses.
    let named = format!("localhost:{}", live.rsplit_once(':').expect("a port").1);
    at(&format!("{DEAD},{named}"), &["ls", "/"], b"");
}

/// A server whose heartbeats come, and which gives an address where nobody is: the cell says so,
/// as does the server, and puts nothing there.
#[test]
fn a_server_that_is_not_reached_at_the_address_that_it_gives_is_told_of_and_gets_nothing() {
    let cell = Cell::start(2);
    let (log, data) = (cell.local("log"), cell.local("third").display().to_string());
    let arguments =
        ["chunkserver", "--master", cell.address(), "--listen", "127.0.0.1:0", "--data", &data];
    let advertised = ["--advertise", DEAD];
    let mut command = cairn(arguments.iter().chain(&advertised));
    command.stdout(Stdio::null()).stderr(File::create(&log).expect("makes"));
    let _third = KilledOnDrop(command.spawn().expect("starts"));
    await_output(&log, "WARN the master does not reach this server address=127.0.0.1:1 why=");
    let told = std::fs::read_to_string(&log).expect("reads");
    assert!(told.contains("--advertise"), "{told}");
    let text = cell.run(["status"]).text();
    assert!(text.contains("SERVERS_UNREACHED: 1 chunkservers live, and are not"), "{text}");
    assert!(text.contains("127.0.0.1:1 ("), "it says why: {text}");
    assert!(!cell.run(["status", "--check"]).status.success(), "somebody has to act");
    let row = cell.ok(["servers"]);
    let row = row.lines().find(|line| line.starts_with(DEAD)).expect("it is there").to_owned();
    assert!(row.contains("unreached"), "{row}");
    let local = cell.file("local", &[7; 1000]);
    for number in 0..10 {
        let path = format!("/file{number}");
        cell.ok(["put", &local, &path]);
        assert!(!cell.ok(["stat", "--chunks", &path]).contains(DEAD), "nobody would get it back");
    }
}
