//! What the version before this one stored is read by this one (`xtask/version-before.txt`): the
//! directories of a cell that it ran, as they were when it was killed.
//!
//! `tests/data/make-version-before.sh` makes them, with that version's binary.

mod cell;

use cell::{await_until, program, run};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn a_cell_goes_on_with_what_the_version_before_has_stored() {
    let scratch = TempDir::new().expect("a scratch directory");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/version-before.tar.gz");
    let mut tar = Command::new("tar");
    let unpacked = tar.arg("-xzf").arg(&archive).current_dir(scratch.path()).status();
    assert!(unpacked.expect("tar runs").success());
    let started = |name: &str, arguments: Vec<String>| {
        let janitor = cairn_testkit::Janitor::start(&program(), None).expect("starts");
        let janitor = std::sync::Arc::new(janitor);
        let data = scratch.path().join(name).display().to_string();
        let arguments = [arguments, vec!["--data".to_owned(), data]].concat();
        cairn_testkit::ServerProcess::start(&program(), name, arguments, scratch.path(), &janitor)
            .expect("starts")
    };
    let mut master = started("master", vec!["master".to_owned()]);
    let address = master.address().to_owned();
    let server = |number: u32| {
        let rack = format!("/rack-{number}");
        let words = ["chunkserver", "--masters", &address, "--rack", &rack].map(str::to_owned);
        started(&format!("server-{number}"), words.to_vec())
    };
    let mut servers: Vec<_> = (1..=3).map(server).collect();
    let ask = |words: &[&str]| {
        run(program().command([words, &["--cell", address.as_str()]].concat()), b"")
    };
    await_until("the cell to be well", || ask(&["status", "--check"]).code() == 0);
    let mut numbers = String::new();
    (1..=20_000).for_each(|number| writeln!(numbers, "{number}").expect("a string"));
    assert!(ask(&["cat", "/made/numbers"]).text() == numbers);
    assert_eq!(ask(&["cat", "/made/synced"]).text(), "one\ntwo\n");
    assert_eq!(ask(&["cat", "/made/log"]).text(), "one\ntwo\n".repeat(3));
    assert!(ask(&["policy", "/made"]).text().contains('2'));
    assert_eq!(ask(&["stat", "/made/last"]).code(), 0);
    // What was removed can be brought back, and all of it goes on.
    assert_eq!(ask(&["undelete", "/gone"]).code(), 0);
    assert_eq!(ask(&["cat", "/gone/file"]).text(), "one\ntwo\n");
    let line = scratch.path().join("line");
    std::fs::write(&line, "three\n").expect("writes");
    assert_eq!(ask(&["append", "/made/log", &line.display().to_string()]).code(), 0);
    assert!(ask(&["cat", "/made/log"]).text().ends_with("three\n"));
    let checked = ask(&["fsck", "--data"]);
    assert_eq!(checked.code(), 0, "{}{}", checked.text(), checked.stderr);
    servers.iter_mut().for_each(cairn_testkit::ServerProcess::kill);
    master.kill();
}
