//! Owners, groups, modes and times, as people of different names see them: `--as`, `chmod`,
//! `chown`, `touch`, against a cell of real processes.

mod cell;

use cell::{Cell, Finished, KilledOnDrop, await_until, guide};
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

/// How a process ends to whom something is not allowed.
const DENIED: i32 = 15;

fn by(cell: &Cell, who: &str, arguments: &[&str]) -> Finished {
    cell.run([&["--as", who], arguments].concat())
}

fn ok(cell: &Cell, who: &str, arguments: &[&str]) -> String {
    let done = by(cell, who, arguments);
    assert!(done.status.success(), "{who} {arguments:?}: {}", done.stderr);
    done.text()
}

fn denied(cell: &Cell, who: &str, arguments: &[&str]) -> String {
    let done = by(cell, who, arguments);
    assert_eq!(done.code(), DENIED, "{who} {arguments:?}: {}", done.stderr);
    assert!(
        done.stderr.contains("may not") || done.stderr.contains("superuser"),
        "{}",
        done.stderr
    );
    done.stderr
}

fn stat(cell: &Cell, path: &str) -> (u64, u64, String) {
    let value = cell.json(&["stat", path]);
    let number = |name: &str| value[name].as_u64().expect("a number");
    (number("owner"), number("group"), value["mode"].as_str().expect("text").to_owned())
}

/// The handle of a file's only chunk.
fn handle_of(cell: &Cell, path: &str) -> String {
    let value = cell.json(&["stat", "--chunks", path]);
    value["chunks"][0]["handle"].as_str().expect("text").to_owned()
}

fn modified(cell: &Cell, path: &str) -> u64 {
    let value = cell.json(&["stat", path]);
    value["modified_ms"].as_u64().expect("a number")
}

#[test]
fn every_command_of_the_guides_page_does_what_it_says() {
    let cell = Cell::start(1);
    let page = include_str!("../../../docs/guide/permissions.md");
    let told = guide::run_page(&cell, page);
    assert!(told.len() >= 4, "the page has examples");
    let shown = guide::blocks(page, "text")[0];
    let columns = |text: &str| {
        let lines = text.lines().map(|line| {
            let parts: Vec<&str> = line.split_whitespace().collect();
            // Not the time.
            [&parts[..4], &parts[parts.len() - 1..]].concat().join(" ")
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(columns(&told[1]), columns(shown));
}

#[test]
fn what_is_not_allowed_is_refused_by_every_command_that_names_a_path() {
    let cell = Cell::start(1);
    let local = cell.file("local", b"hello\n");
    cell.ok(["mkdir", "-m", "0777", "/open"]);
    cell.ok(["mkdir", "-m", "1777", "/sticky"]);
    // Who owns nothing above makes nothing there.
    denied(&cell, "1000", &["mkdir", "/mine"]);
    denied(&cell, "1000", &["put", &local, "/f"]);
    ok(&cell, "1000:100", &["mkdir", "/open/mine"]);
    ok(&cell, "1000:100", &["put", &local, "/open/mine/f"]);
    assert_eq!(stat(&cell, "/open/mine/f"), (1000, 100, "0644".to_owned()));
    assert_eq!(stat(&cell, "/open/mine"), (1000, 100, "0755".to_owned()));
    // Another may read, and nothing else.
    assert_eq!(ok(&cell, "2000", &["cat", "/open/mine/f"]), "hello\n");
    denied(&cell, "2000", &["put", &local, "/open/mine/g"]);
    denied(&cell, "2000", &["put", "-f", &local, "/open/mine/f"]);
    denied(&cell, "2000", &["append", "/open/mine/log"]);
    denied(&cell, "2000", &["rm", "/open/mine/f"]);
    denied(&cell, "2000", &["mv", "/open/mine/f", "/open/f"]);
    denied(&cell, "2000", &["chmod", "0777", "/open/mine/f"]);
    denied(&cell, "2000", &["chown", "2000", "/open/mine/f"]);
    denied(&cell, "2000", &["touch", "/open/mine/f"]);
    denied(&cell, "2000", &["policy", "--replication", "2", "/open/mine/f"]);
    // Without the right to search, not even what is there is told.
    ok(&cell, "1000", &["chmod", "0700", "/open/mine"]);
    let told = denied(&cell, "2000", &["stat", "/open/mine/f"]);
    assert!(told.contains("search /open/mine (owner 1000, group 100, mode 0700)"), "{told}");
    assert!(told.contains("uid 2000, group 2000"), "{told}");
    denied(&cell, "2000", &["stat", "/open/mine/nothing-there"]);
    denied(&cell, "2000", &["cat", "/open/mine/f"]);
    denied(&cell, "2000", &["ls", "/open/mine"]);
    denied(&cell, "2000", &["find", "/open/mine"]);
    denied(&cell, "2000", &["du", "/open/mine"]);
    denied(&cell, "2000", &["explain", "/open/mine/f"]);
    let found = ok(&cell, "2000", &["find", "/open"]);
    assert!(found.contains("/open/mine") && !found.contains("/open/mine/f"), "{found}");
    // By a group, as the first of them or a further one.
    ok(&cell, "1000:100", &["chmod", "g+rx", "/open/mine"]);
    assert_eq!(ok(&cell, "2000:100", &["cat", "/open/mine/f"]), "hello\n");
    assert_eq!(ok(&cell, "2000:7,8,100", &["cat", "/open/mine/f"]), "hello\n");
    denied(&cell, "2000:7,8", &["cat", "/open/mine/f"]);
    // A group that one is in, and no other.
    ok(&cell, "1000:100,50", &["chgrp", "50", "/open/mine/f"]);
    denied(&cell, "1000:100", &["chgrp", "51", "/open/mine/f"]);
    denied(&cell, "1000:100", &["chown", "2000", "/open/mine/f"]);
    // In a sticky directory everybody makes names and takes away his own.
    ok(&cell, "1000", &["put", &local, "/sticky/a"]);
    ok(&cell, "2000", &["put", &local, "/sticky/b"]);
    denied(&cell, "2000", &["rm", "/sticky/a"]);
    denied(&cell, "2000", &["mv", "/sticky/a", "/sticky/c"]);
    denied(&cell, "2000", &["mv", "-f", "/sticky/b", "/sticky/a"]);
    ok(&cell, "2000", &["rm", "/sticky/b"]);
    // What was deleted is brought back by who could have deleted it.
    denied(&cell, "1000", &["undelete", "/sticky/b"]);
    denied(&cell, "1000", &["ls", "/.deleted"]);
    ok(&cell, "2000", &["undelete", "/sticky/b"]);
    // What is the operator's.
    let servers = cell.ok(["--json", "servers"]);
    let server: Value = serde_json::from_str(servers.lines().next().expect("one")).expect("JSON");
    denied(&cell, "1000", &["drain", server["address"].as_str().expect("text")]);
    denied(&cell, "1000", &["balance"]);
    denied(&cell, "1000", &["quota", "set", "--names", "9", "/open/mine"]);
    // A tree is copied by whose it is, to where he may make names, and stays as closed as it was.
    denied(&cell, "2000:100", &["snapshot", "/open/mine", "/open/copy"]);
    denied(&cell, "1000:100", &["snapshot", "/open/mine", "/copy"]);
    ok(&cell, "1000:100", &["snapshot", "/open/mine", "/open/copy"]);
    assert_eq!(stat(&cell, "/open/copy/f"), stat(&cell, "/open/mine/f"));
    denied(&cell, "2000", &["cat", "/open/copy/f"]);
    // The superuser may all of it.
    cell.ok(["chown", "-R", "2000:200", "/open/mine"]);
    assert_eq!(stat(&cell, "/open/mine/f"), (2000, 200, "0644".to_owned()));
    denied(&cell, "1000:100", &["ls", "/open/mine"]);
    cell.ok(["rm", "-r", "/open/mine"]);
}

#[test]
fn where_the_chunks_of_a_file_are_is_told_to_who_may_read_it_and_of_the_cell_to_the_superuser() {
    let cell = Cell::start(1);
    cell.ok(["mkdir", "-m", "0711", "/d"]);
    cell.ok_with(["put", "-", "/d/f"], b"x");
    cell.ok(["chown", "1000:100", "/d/f"]);
    cell.ok(["chmod", "0600", "/d/f"]);
    denied(&cell, "2000", &["explain", "/d/f"]);
    denied(&cell, "2000", &["explain", "/d"]);
    assert!(ok(&cell, "1000:100", &["explain", "/d/f"]).contains("replica"));
    denied(&cell, "2000", &["fsck", "/d/f"]);
    // That replicas are few is a finding, and the owner is told.
    assert_ne!(by(&cell, "1000:100", &["fsck", "/d/f"]).code(), DENIED);
    let handle = handle_of(&cell, "/d/f");
    denied(&cell, "1000:100", &["explain", &handle]);
    assert!(cell.ok(["explain", &handle]).contains("replica"));
    denied(&cell, "1000", &["lost"]);
    denied(&cell, "1000", &["fsck", "--quick"]);
}

#[test]
fn what_is_copied_with_its_mode_is_its_owners_alone_until_it_has_it() {
    let cell = Cell::start(1);
    cell.ok(["mkdir", "/d"]);
    let pipe = cell.local("pipe");
    let made = Command::new("mkfifo").args(["-m", "0644"]).arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    let mut put = cell.command(["put", "--preserve", pipe.to_str().expect("text"), "/d/f"]);
    let put = KilledOnDrop(put.stdout(Stdio::null()).spawn().expect("starts"));
    let mut into = std::fs::OpenOptions::new().write(true).open(&pipe).expect("it reads");
    into.write_all(&vec![7; 3 << 20]).expect("it reads on");
    let mut listed = String::new();
    await_until("a file that is not whole", || {
        listed = cell.ok(["ls", "-la", "/d"]);
        !listed.is_empty()
    });
    assert!(listed.starts_with("-rw------- "), "{listed}");
    drop(into);
    await_until("all of it", || cell.run(["ls", "/d/f"]).status.success());
    await_until("its mode", || stat(&cell, "/d/f").2 == "0644");
    drop(put);
    // What stdin becomes has no mode to be kept: it is as open as anything that is made.
    cell.ok_with(["put", "--preserve", "-", "/d/g"], b"x");
    assert_eq!(stat(&cell, "/d/g").2, "0644");
    // The other way, of one that dies in between, by the most that a file may have.
    let local = cell.local("out");
    std::fs::create_dir(&local).expect("makes it");
    let script = "umask 022; ulimit -f 8; ulimit -c 0; exec \"$0\" get -p /d/f \"$1\"";
    let mut get = Command::new("bash");
    get.args(["-c", script, env!("CARGO_BIN_EXE_cairn")]).arg(local.join("f"));
    get.env("CAIRN_CELL", cell.address());
    assert!(!cell::run(get, b"").status.success());
    let left = std::fs::read_dir(&local).expect("lists").next().expect("what was written");
    let mode = left.expect("is there").metadata().expect("is there").mode() & 0o7777;
    assert_eq!(mode, 0o600);
}

#[test]
fn modes_times_and_owners_are_kept_into_the_cell_and_out_of_it_and_over_a_restart() {
    let mut cell = Cell::start(1);
    std::fs::create_dir(cell.local("tree")).expect("makes it");
    let local = cell.file("tree/f", b"hello\n");
    let directory = std::path::Path::new(&local).parent().expect("its directory").to_owned();
    std::os::unix::fs::chown(&local, Some(1234), Some(567)).expect("tests run as root");
    let at = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    };
    at(local.as_ref(), 0o640);
    at(&directory, 0o2750);
    let opened = std::fs::File::open(&local).expect("opens");
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    opened.set_times(std::fs::FileTimes::new().set_modified(time)).expect("its time");
    let tree = directory.to_str().expect("text");
    cell.ok(["put", "-r", "-p", tree, "/tree"]);
    let listed = cell.ok(["ls", "-l", "/tree"]);
    assert!(listed.starts_with("-rw-r----- "), "{listed}");
    assert!(listed.contains(" 2001-09-09 01:46:40  f"), "{listed}");
    assert_eq!(stat(&cell, "/tree/f"), (1234, 567, "0640".to_owned()));
    assert_eq!(stat(&cell, "/tree").2, "2750");
    assert_eq!(modified(&cell, "/tree/f"), 1_000_000_000_000);
    // The mode that is asked for is the last directory's; those above it are as usual.
    cell.ok(["mkdir", "-p", "-m", "0700", "/up/mid/last"]);
    let modes = ["/up", "/up/mid", "/up/mid/last"].map(|path| stat(&cell, path).2);
    assert_eq!(modes, ["0755", "0755", "0700"]);
    cell.ok(["mkdir", "-p", "-m", "0711", "/up/mid/last", "/top"]);
    assert_eq!([stat(&cell, "/up/mid/last").2, stat(&cell, "/top").2], ["0700", "0711"]);
    // A directory with the set-group bit hands down its group.
    cell.ok(["chgrp", "99", "/tree"]);
    cell.ok(["mkdir", "/tree/below"]);
    assert_eq!(stat(&cell, "/tree/below"), (0, 99, "2755".to_owned()));
    cell.ok(["chmod", "-R", "go-w,o=", "/tree"]);
    cell.ok(["touch", "-d", "2001-02-03 04:05:06", "/tree/f", "/tree/new"]);
    assert_eq!(modified(&cell, "/tree/f"), 981_173_106_000);
    cell.ok(["touch", "-r", &local, "/tree/new"]);
    assert_eq!(modified(&cell, "/tree/new"), 1_000_000_000_000);
    cell.ok(["touch", "-c", "/tree/none"]);
    assert_eq!(cell.run(["stat", "/tree/none"]).code(), 3);
    cell.kill_all();
    cell.restart_all().expect("starts again");
    assert_eq!(stat(&cell, "/tree/f"), (1234, 567, "0640".to_owned()));
    assert_eq!(stat(&cell, "/tree/below"), (0, 99, "2750".to_owned()));
    assert_eq!(modified(&cell, "/tree/f"), 981_173_106_000);
    let back = directory.with_file_name("back");
    cell.ok(["get", "-r", "-p", "/tree", back.to_str().expect("text")]);
    let fetched = std::fs::metadata(back.join("f")).expect("fetched");
    assert_eq!((fetched.uid(), fetched.gid(), fetched.mode() & 0o7777), (1234, 567, 0o640));
    assert_eq!(fetched.mtime(), 981_173_106);
    let listed = cell.ok(["ls", "-n", "/tree"]);
    let file = listed.lines().find(|line| line.ends_with(" f")).expect("it is listed");
    let columns: Vec<&str> = file.split_whitespace().take(4).collect();
    assert_eq!(columns, ["-rw-r-----", "3", "1234", "567"]);
    let listed = cell.ok(["ls", "-ld", "/tree/below"]);
    assert!(listed.starts_with("drwxr-s---") && listed.contains(" root "), "{listed}");
}
