//! What the version before this one stored is read by this one (`xtask/version-before.txt`): the
//! directories of a cell that it ran, as they were when it was killed.
//!
//! `tests/data/make-version-before.sh` makes them, with that version's binary.

mod cell;

use cell::{Cell, await_until};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

#[test]
fn a_cell_goes_on_with_what_the_version_before_has_stored() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/version-before.tar.gz");
    let cell = Cell::start_plan(3, |plan| {
        plan.servers_per_rack = 1;
        let mut tar = Command::new("tar");
        let unpacked = tar.arg("-xzf").arg(&archive).current_dir(&plan.directory).status();
        assert!(unpacked.expect("tar runs").success());
    });
    await_until("the cell to be well", || cell.run(["status", "--check"]).code() == 0);
    let mut numbers = String::new();
    (1..=20_000).for_each(|number| writeln!(numbers, "{number}").expect("a string"));
    assert!(cell.ok(["cat", "/made/numbers"]) == numbers);
    assert_eq!(cell.ok(["cat", "/made/synced"]), "one\ntwo\n");
    assert_eq!(cell.ok(["cat", "/made/log"]), "one\ntwo\n".repeat(3));
    assert!(cell.ok(["policy", "/made", "--json"]).contains("\"replication\":2"));
    cell.ok(["stat", "/made/last"]);
    // Its disks come from a machine that went down: what was deleted is in doubt until it is back,
    // and nothing is wrong with that.
    assert!(cell.ok(["fsck", "--data"]).contains("SUSPECT"));
    // What was removed can be brought back, and all of it goes on.
    cell.ok(["undelete", "/gone"]);
    assert_eq!(cell.ok(["cat", "/gone/file"]), "one\ntwo\n");
    let line = cell.file("line", b"three\n");
    cell.ok(["append", "/made/log", &line]);
    assert!(cell.ok(["cat", "/made/log"]).ends_with("three\n"));
    // What nobody asked for while it was deleted is made whole once it is back, and then nothing is
    // found any more.
    cell.ok(["fsck", "--data", "--repair"]);
    cell.ok(["fsck", "--data"]);
}
