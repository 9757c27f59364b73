//! `cairn cp` within a cell, and `cairn du --shared`, against a cell of real processes: copies that
//! have the chunks of what they are of, and when it is the bytes that are copied.

mod cell;

use cell::{Cell, Finished};
use std::process::Command;

fn by(cell: &Cell, who: &str, arguments: &[&str]) -> Finished {
    cell.run([&["--as", who], arguments].concat())
}

fn ok(cell: &Cell, who: &str, arguments: &[&str]) -> String {
    let done = by(cell, who, arguments);
    assert!(done.status.success(), "{who} {arguments:?}: {}", done.stderr);
    done.text()
}

fn handles(cell: &Cell, path: &str) -> Vec<String> {
    let chunks = cell.json(&["stat", "--chunks", path]);
    let chunks = chunks["chunks"].as_array().expect("chunks").clone();
    chunks.iter().map(|chunk| chunk["handle"].to_string()).collect()
}

fn owned(cell: &Cell, path: &str) -> (u64, u64, String) {
    let value = cell.json(&["stat", path]);
    let number = |name: &str| value[name].as_u64().expect("a number");
    (number("owner"), number("group"), value["mode"].as_str().expect("text").to_owned())
}

fn modified(cell: &Cell, path: &str) -> u64 {
    cell.json(&["stat", path])["modified_ms"].as_u64().expect("a number")
}

/// What a command answers that a shell starts with this umask.
fn with_umask(cell: &Cell, umask: &str, arguments: &[&str]) {
    let command = cell.command(arguments);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    assert!(shell.status().expect("a shell").success(), "{arguments:?}");
}

/// A cell with the file `/d/f` of three chunks, which is nobody's but user 1000's, and old.
fn cell_with_file() -> (Cell, String) {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "-p", "/d", "/mine"]);
    cell.ok(["chmod", "0777", "/d"]);
    cell.ok(["chown", "2000:200", "/mine"]);
    let content = "0123456789abcde\n".repeat(156_250);
    let local = cell.file("local", content.as_bytes());
    cell.ok(["put", &local, "/d/f"]);
    cell.ok(["chown", "1000:100", "/d/f"]);
    cell.ok(["chmod", "0640", "/d/f"]);
    cell.ok(["touch", "-d", "2001-02-03 04:05:06", "/d/f"]);
    (cell, content)
}

#[test]
fn a_copy_within_a_cell_has_the_same_chunks_and_belongs_to_who_made_it() {
    let (cell, content) = cell_with_file();
    let told = ok(&cell, "2000:200,100", &["cp", "-v", "/d/f", "/mine/g"]);
    assert_eq!(told, "/d/f -> /mine/g (snapshot)\n");
    assert_eq!(handles(&cell, "/mine/g"), handles(&cell, "/d/f"), "no byte is copied");
    assert_eq!(owned(&cell, "/mine/g"), (2000, 200, "0644".to_owned()), "as any file it makes");
    assert!(modified(&cell, "/mine/g") > modified(&cell, "/d/f"), "it was made now");
    with_umask(&cell, "077", &["cp", "/d/f", "/d/closed"]);
    assert_eq!(owned(&cell, "/d/closed").2, "0600");
    cell.ok(["chmod", "g+s", "/mine"]);
    cell.ok(["cp", "/d/f", "/mine/group"]);
    assert_eq!(owned(&cell, "/mine/group"), (0, 200, "0644".to_owned()));
    // Each of the two goes on by itself.
    cell.ok_with(["append", "/mine/g"], b"more\n");
    assert!(cell.ok(["cat", "/d/f"]) == content);
    assert!(cell.ok(["cat", "/mine/g"]) == format!("{content}more\n"));
    // Where the file system can, its replicas are clones of files: all of them, or none.
    let explained = cell.json(&["explain", "/mine/g"]);
    let reflinked = explained["reflinked"].as_array().expect("told").len();
    let lines = cell.ok(["explain", "/mine/g"]);
    assert!([0, 3].contains(&reflinked), "{explained}");
    assert_eq!(lines.matches("was made by a reflink on its disk").count(), reflinked);
    cell.ok(["rm", "/d/f"]);
    assert!(cell.ok(["cat", "/mine/group"]) == content);
    cell.ok(["fsck", "--data"]);
}

#[test]
fn a_name_that_is_taken_stays_unless_it_is_to_be_replaced_and_then_nothing_else_is_left() {
    let (cell, content) = cell_with_file();
    cell.ok_with(["put", "-", "/d/there"], b"there\n");
    let refused = cell.run(["cp", "/d/f", "/d/there"]);
    assert_eq!(refused.code(), 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("it is there already; -f replaces a file"));
    assert_eq!(cell.ok(["cat", "/d/there"]), "there\n");
    assert_eq!(cell.ok(["cp", "-fv", "/d/f", "/d/there"]), "/d/f -> /d/there (snapshot)\n");
    assert!(cell.ok(["cat", "/d/there"]) == content);
    assert_eq!(handles(&cell, "/d/there"), handles(&cell, "/d/f"));
    assert_eq!(cell.ok(["ls", "-a", "/d"]), "f\nthere\n");
    let refused = cell.run(["cp", "-f", "/d/f", "/none/g"]);
    assert_eq!(refused.code(), 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("there is no directory /none"), "{}", refused.stderr);
}

#[test]
fn whoever_may_not_read_a_file_or_write_there_copies_nothing() {
    let (cell, _) = cell_with_file();
    let denied = by(&cell, "2000:200", &["cp", "/d/f", "/mine/g"]);
    assert_eq!(denied.code(), 15, "{}", denied.stderr);
    assert!(denied.stderr.contains("may not read /d/f"), "{}", denied.stderr);
    let denied = by(&cell, "1000:100", &["cp", "/d/f", "/mine/g"]);
    assert_eq!(denied.code(), 15, "{}", denied.stderr);
    assert_eq!(cell.ok(["ls", "-a", "/mine"]), "");
}

#[test]
fn bytes_are_copied_where_that_is_asked_or_what_is_made_there_is_kept_otherwise() {
    let (cell, content) = cell_with_file();
    let told = cell.ok(["cp", "-v", "--data", "/d/f", "/d/bytes"]);
    assert_eq!(told, "/d/f -> /d/bytes (bytes)\n");
    assert_ne!(handles(&cell, "/d/bytes"), handles(&cell, "/d/f"));
    cell.ok(["mkdir", "/low", "/synced"]);
    cell.ok(["policy", "--replication", "1", "/low"]);
    cell.ok(["policy", "--durability", "synced", "/synced"]);
    for place in ["/low", "/synced"] {
        let copy = format!("{place}/f");
        let told = cell.json(&["cp", "/d/f", &copy]);
        assert_eq!(told["by"], "bytes", "{told}");
        assert!(cell.ok(["cat", &copy]) == content);
    }
    assert_eq!(cell.json(&["stat", "/low/f"])["replication"], 1);
    cell.ok_with(["put", "-", "/d/small"], b"small\n");
    assert_eq!(cell.ok(["cp", "-v", "/d/small", "/d/s"]), "/d/small -> /d/s (bytes)\n");
    let told = cell.json(&["cp", "/low/f", "/low/again"]);
    assert_eq!((&told["by"], &told["length"]), (&"snapshot".into(), &content.len().into()));
    // What the source says of itself is not handed on, as before.
    cell.ok(["policy", "--keep-deleted", "1h", "/d/f"]);
    cell.ok(["cp", "/d/f", "/d/plain"]);
    assert_ne!(cell.ok(["policy", "/d/plain"]), cell.ok(["policy", "/d/f"]));
    assert_eq!(
        cell.ok(["policy", "/d/plain"]).replace("plain", "bytes"),
        cell.ok(["policy", "/d/bytes"])
    );
}

#[test]
fn a_master_that_has_just_begun_has_bytes_copied_and_nobody_waits_for_it() {
    let (mut cell, content) = cell_with_file();
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts again");
    let told = cell.ok(["cp", "-v", "/d/f", "/d/g"]);
    assert_eq!(told, "/d/f -> /d/g (bytes)\n", "leases of the one before may live");
    assert!(cell.ok(["cat", "/d/g"]) == content);
}

#[test]
fn what_is_shared_is_told_beside_what_is_a_files_own() {
    let (cell, content) = cell_with_file();
    let sum = |path: &str| {
        let told = cell.json(&["du", "-s", "--shared", path]);
        let number = |name: &str| told[name].as_u64().expect("a number");
        (number("length"), number("shared"), number("own"))
    };
    let size = content.len() as u64;
    assert_eq!(sum("/d"), (size, 0, size));
    cell.ok(["snapshot", "/d", "/s"]);
    assert_eq!((sum("/d"), sum("/s")), ((size, size, 0), (size, size, 0)));
    assert_eq!(sum("/"), (2 * size, 2 * size, 0), "each file counts");
    // The last of three chunks is its own from the first write on.
    cell.ok_with(["append", "/d/f"], b"more\n");
    cell.ok_with(["put", "-", "/d/new"], b"new\n");
    assert_eq!(sum("/d"), (size + 9, 2 << 20, size + 9 - (2 << 20)));
    assert_eq!(sum("/d/f").1, 2 << 20);
    let told = cell.ok(["du", "--shared", "/d"]);
    let (shared, own) = (2 << 20, size + 9 - (2 << 20));
    let wanted = format!("{} {shared} {own} /d", size + 9);
    let lines: Vec<String> =
        told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, ["TOTAL SHARED OWN PATH", &wanted]);
    cell.ok(["rm", "-r", "/s"]);
    assert_eq!(sum("/d").1, 2 << 20, "what is deleted has it as long as it is kept");
}
