//! A cell that is known by several addresses, of which some lead nowhere: whoever knows one that is
//! right finds the master, at the first try.

mod cell;

use cell::{Cell, Finished, cairn, run};
use std::net::TcpListener;

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
