//! What people type out of habit, row by row (U8): each does what its Unix namesake does.

mod cell;

use cell::{Cell, KilledOnDrop, await_output, await_until, cairn, run};
use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A command line, and what its output must be.
struct Habit<'a> {
    line: &'a str,
    /// The whole of stdout.
    gives: &'a str,
}

fn check(cell: &Cell, habits: &[Habit<'_>]) {
    for Habit { line, gives } in habits {
        let done = cell.run(line.split(' '));
        assert!(done.status.success(), "{line}: {}", done.stderr);
        assert_eq!(done.text(), *gives, "{line}");
    }
}

fn habit<'a>(line: &'a str, gives: &'a str) -> Habit<'a> {
    Habit { line, gives }
}

#[test]
fn help_and_version_are_found_however_they_are_asked_for() {
    let told = |line: &str| {
        let done = run(cairn(line.split(' ')), b"");
        assert!(done.status.success(), "{line}: {}", done.stderr);
        done.text()
    };
    for line in ["-h", "--help", "help", "put -h", "status -h", "master -h", "bench -h", "rm -h"] {
        assert!(told(line).contains("Usage"), "{line}");
    }
    for line in ["version", "--version", "-V", "-v"] {
        assert!(told(line).starts_with("cairn 0."), "{line}");
    }
}

#[test]
fn flags_may_be_repeated_and_have_their_usual_letters_and_words() {
    let cell = Cell::start(1);
    let local = cell.file("x", b"hello\n");
    let name = |to: &str| cell.local(to).display().to_string();
    cell.ok(["mkdir", "-p", "-p", "/d"]);
    cell.ok(["put", "-f", "-f", &local, "/d/x"]);
    cell.ok(["put", "-j", "2", "-j", "3", "--force", &local, "/d/x"]);
    assert_eq!(cell.ok(["put", "-v", &local, "/d/y"]), format!("{local} -> /d/y\n"));
    assert_eq!(cell.ok(["cp", "-v", "/d/y", "/d/z"]), "/d/y -> /d/z (bytes)\n");
    assert_eq!(cell.ok(["mv", "-v", "/d/z", "/d/w"]), "/d/z -> /d/w\n");
    assert_eq!(cell.ok(["get", "-v", "/d/w", &name("w")]), format!("/d/w -> {}\n", name("w")));
    assert_eq!(cell.ok(["mkdir", "-v", "/e"]), "/e\n");
    assert!(cell.ok(["rm", "-rv", "/e"]).starts_with("/e is now /.deleted/"));
    cell.ok(["cp", "-R", "/d", "/copy"]);
    cell.ok(["get", "-R", "/copy", &name("copy")]);
    cell.ok(["put", "-R", &name("copy"), "/again"]);
    cell.ok(["rm", "-R", "/again"]);
    cell.ok(["cp", "--recursive", "/d", "/again"]);
    cell.ok(["rm", "--recursive", "--force", "/again", "/none"]);
    check(
        &cell,
        &[
            habit("ls /copy /copy -1 -1", "/copy:\nw\nx\ny\n\n/copy:\nw\nx\ny\n"),
            habit("rm -f", ""),
            habit("rm -f -f /none", ""),
        ],
    );
}

#[test]
fn listings_are_sorted_as_ls_sorts() {
    let cell = Cell::start(1);
    for (name, content) in [("large", "xxxxxxxxx"), ("small", "x"), ("middle", "xxxxx")] {
        let local = cell.file(name, content.as_bytes());
        cell.ok(["put", &local, "/"]);
    }
    check(
        &cell,
        &[
            habit("ls", "large\nmiddle\nsmall\n"),
            habit("ls -r", "small\nmiddle\nlarge\n"),
            habit("ls -S", "large\nmiddle\nsmall\n"),
            habit("ls -S -r -1", "small\nmiddle\nlarge\n"),
            habit("ls -t", "middle\nsmall\nlarge\n"),
            habit("ls -tr", "large\nsmall\nmiddle\n"),
        ],
    );
    let long = cell.ok(["ls", "-lS"]);
    let last: Vec<&str> = long.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(last, ["large", "middle", "small"]);
}

#[test]
fn heads_tails_and_disks_are_asked_for_as_everywhere() {
    let cell = Cell::start(1);
    let lines: String = (1..=20).map(|line| format!("{line}\n")).collect();
    cell.ok_with(["put", "-", "/lines"], lines.as_bytes());
    cell.ok_with(["append", "/records"], b"a\nb\nc\n");
    check(
        &cell,
        &[
            habit("head /lines", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"),
            habit("head -n 2 /lines", "1\n2\n"),
            habit("head -c 3 /lines", "1\n2"),
            habit("head -n 2 /records", "a\nb\n"),
            habit("head --null -n 1 /records", "a\0"),
            habit("head -n 99 /records", "a\nb\nc\n"),
            habit("head -c 3 /records", "a\nb"),
            habit("head -c 99 /records", "a\nb\nc\n"),
            habit("head --null -c 2 /records", "a\0"),
            habit("tail -c 1 /records", "\n"),
            habit("tail -c 3 /records", "\nc\n"),
            habit("tail -c 4 /records", "b\nc\n"),
            habit("tail -c 99 /records", "a\nb\nc\n"),
            habit("tail -c 0 /records", ""),
            habit("tail -c 3 /lines", "20\n"),
            habit("head -n 0 /lines", ""),
            habit("tail --lines 1 /lines", "20\n"),
        ],
    );
    for line in [vec!["df"], vec!["df", "-h"]] {
        let told = cell.ok(&line);
        let columns: Vec<&str> =
            told.lines().next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(columns, ["CELL", "SIZE", "USED", "STORED", "AVAILABLE", "USE%"], "{told}");
        assert!(told.contains(cell.address()) && told.contains('%'), "{told}");
    }
    assert!(cell.ok(["df", "--json"]).contains("\"available\":"));
}

#[test]
fn tail_follows_a_name_through_its_replacement() {
    let cell = Cell::start(1);
    let out = cell.local("out");
    let mut command = cell.command(["tail", "-F", "/log"]);
    command.stdout(File::create(&out).expect("creates"));
    let _tail = KilledOnDrop(command.spawn().expect("starts"));
    cell.ok_with(["put", "-", "/log"], b"first\n");
    await_output(&out, "first\n");
    cell.ok(["mv", "/log", "/log.1"]);
    cell.ok_with(["put", "-", "/log"], b"second\n");
    await_output(&out, "second\n");
    cell.ok_with(["append", "/log"], b"third\n");
    await_output(&out, "third\n");
    assert_eq!(std::fs::read_to_string(&out).expect("reads"), "first\nsecond\nthird\n");
}

#[test]
fn tail_reads_a_file_that_lost_its_name_to_its_end_before_it_goes_on_with_the_next() {
    const SIZE: usize = 32 << 20;
    let cell = Cell::start(1);
    cell.ok_with(["put", "-", "/log"], &vec![b'a'; SIZE]);
    cell.ok_with(["append", "/records"], &b"aaaaaaaaaaaaaaa\n".repeat(SIZE / 16 / 8));
    for (path, count, size) in [("/log", "-c", SIZE), ("/records", "-n", SIZE / 8)] {
        let mut command = cell.command(["tail", "-F", count, "100000000", path]);
        let mut tail = KilledOnDrop(command.stdout(Stdio::piped()).spawn().expect("starts"));
        let mut out = tail.0.stdout.take().expect("piped");
        let mut piece = vec![0; size / 8];
        out.read_exact(&mut piece).expect("reads");
        cell.ok(["mv", path, &format!("{path}.1")]);
        cell.ok_with(["put", "-", path], &vec![b'b'; size]);
        // Whoever reads it is slow.
        for _ in 1..8 {
            let read = Instant::now();
            await_until("a reader's pause", || read.elapsed() > Duration::from_millis(350));
            out.read_exact(&mut piece).expect("reads");
            assert!(piece.iter().all(|byte| *byte == b'a' || *byte == b'\n'), "{path}");
        }
        out.read_exact(&mut piece).expect("reads");
        assert!(piece.iter().all(|byte| *byte == b'b'), "{path}");
    }
}

#[test]
fn tail_takes_any_count() {
    let cell = Cell::start(1);
    cell.ok_with(["put", "-", "/f"], b"one\ntwo\n");
    let most = u64::MAX.to_string();
    for flag in ["-n", "-c"] {
        assert_eq!(cell.ok(["tail", flag, &most, "/f"]), "one\ntwo\n", "{flag}");
    }
}

#[test]
fn find_takes_several_starts_and_the_usual_tests() {
    let cell = Cell::start(1);
    cell.ok(["mkdir", "-p", "/a/deep/er", "/b"]);
    cell.ok_with(["put", "-", "/a/x"], b"x");
    cell.ok_with(["put", "-", "/a/deep/x"], &[7; 5000]);
    cell.ok_with(["put", "-", "/b/x.log"], b"");
    check(
        &cell,
        &[
            habit("find /a", "/a\n/a/deep\n/a/deep/er\n/a/deep/x\n/a/x\n"),
            habit("find /a /b -name x*", "/a/deep/x\n/a/x\n/b/x.log\n"),
            habit("find /b/x.log", "/b/x.log\n"),
            habit("find /a x", "/a/deep/x\n/a/x\n"),
            habit("find / -type f -size +4k", "/a/deep/x\n"),
            habit("find / -type f -size -2c", "/a/x\n/b/x.log\n"),
            habit("find / -type f -size 5000c", "/a/deep/x\n"),
            habit("find / -type f -size 10", "/a/deep/x\n"),
            habit("find /a -mtime -1 -type d", "/a\n/a/deep\n/a/deep/er\n"),
            habit("find /a -mtime +1", ""),
            habit("find /a -mtime 0 -type f", "/a/deep/x\n/a/x\n"),
            habit("find /a -maxdepth 0", "/a\n"),
            habit("find /a -maxdepth 1 -type f", "/a/x\n"),
            habit("find /a -maxdepth 2 -name x", "/a/deep/x\n/a/x\n"),
            habit("find /a -type f -print", "/a/deep/x\n/a/x\n"),
            habit("find /a /b -type f -print0", "/a/deep/x\0/a/x\0/b/x.log\0"),
        ],
    );
    // A word that is another command's argument is left as it is.
    cell.ok(["mkdir", "/find"]);
    assert_eq!(cell.run(["ls", "/find", "-name"]).code(), 2);
}

#[test]
fn patterns_in_paths_stand_for_the_names_that_match() {
    let cell = Cell::start(1);
    cell.ok(["mkdir", "-p", "/g/1", "/g/2"]);
    for path in ["/g/1/a.log", "/g/1/b.log", "/g/2/a.log", "/g/1/.hidden.log", "/g/1/c[1]"] {
        cell.ok_with(["put", "-", path], path.as_bytes());
    }
    check(
        &cell,
        &[
            habit("ls /g/1/*.log", "/g/1/a.log\n/g/1/b.log\n"),
            habit("ls -d /g/?", "/g/1\n/g/2\n"),
            habit("cat /g/*/a.log", "/g/1/a.log/g/2/a.log"),
            habit("cat /g/1/.h*", "/g/1/.hidden.log"),
            habit("cat /g/1/c[1]", "/g/1/c[1]"),
            habit("du -s /g/2/*", "10  /g/2/a.log\n"),
            habit("cp /g/2/* /g/2/copy", ""),
            habit("rm /g/1/[ab].log", ""),
            habit("ls -a /g/1", ".hidden.log\nc[1]\n"),
        ],
    );
    // As in the shell, one that may not be read has nothing that matches.
    cell.ok(["mkdir", "-m", "0700", "/g/closed"]);
    cell.ok_with(["put", "-", "/g/closed/a.log"], b"x");
    for as_user in ["cat /g/*/a*", "cat /g/*/?.log"] {
        let words = ["--as", "1000"].into_iter().chain(as_user.split(' '));
        assert_eq!(cell.ok(words), "/g/2/a.log", "{as_user}");
    }
    let none = cell.run(["cat", "/g/*.none"]);
    assert_eq!(none.code(), 3, "{}", none.stderr);
    assert!(none.stderr.contains("nothing matches") && none.stderr.lines().count() == 1);
    cell.ok(["mkdir", "/new*"]);
    assert_eq!(
        cell.ok(["ls", "-d", "/new*"]),
        "/new*\n",
        "what is made is called as it is written"
    );
}

#[test]
fn the_content_of_a_directory_goes_where_cp_would_put_it() {
    let cell = Cell::start(1);
    let tree = cell.local("tree");
    std::fs::create_dir_all(tree.join("sub")).expect("makes");
    std::fs::write(tree.join("sub/f"), b"f").expect("writes");
    let dot = format!("{}/.", tree.display());
    cell.ok(["mkdir", "/into"]);
    cell.ok(["put", "-r", &dot, "/into"]);
    assert_eq!(cell.ok(["find", "/into", "-type", "f"]), "/into/sub/f\n");
    cell.ok(["put", "-r", &dot, "/new"]);
    assert_eq!(cell.ok(["find", "/new", "-type", "f"]), "/new/sub/f\n");
    cell.ok(["mkdir", "/copied"]);
    cell.ok(["cp", "-r", "/new/.", "/copied"]);
    assert_eq!(cell.ok(["find", "/copied", "-type", "f"]), "/copied/sub/f\n");
    let back = cell.local("back");
    std::fs::create_dir(&back).expect("makes");
    cell.ok(["get", "-r", "/new/.", &back.display().to_string()]);
    assert!(back.join("sub/f").is_file());
    let mut here = cell.command(["put", "-r", ".", "/here"]);
    here.current_dir(&tree);
    assert!(cell::run(here, b"").status.success());
    assert_eq!(cell.ok(["find", "/here", "-type", "f"]), "/here/sub/f\n");
}

#[test]
fn of_two_that_would_become_one_the_first_stays_and_the_other_is_told_of() {
    let cell = Cell::start(1);
    let first = cell.file("x", b"first\n");
    let directory = cell.local("other");
    std::fs::create_dir(&directory).expect("a fresh name");
    std::fs::write(directory.join("x"), b"second\n").expect("written");
    let second = directory.join("x").display().to_string();
    cell.ok(["mkdir", "/d", "/e"]);
    let put = cell.run(["put", "-f", &first, &second, "/d"]);
    assert_eq!(put.code(), 2, "{}", put.stderr);
    assert!(put.stderr.contains("another one of these goes to /d/x"), "{}", put.stderr);
    assert_eq!(cell.ok(["cat", "/d/x"]), "first\n");
    cell.ok(["put", &second, "/e"]);
    let into = cell.local("into");
    std::fs::create_dir(&into).expect("a fresh name");
    let get = cell.run(["get", "-f", "/d/x", "/e/x", &into.display().to_string()]);
    assert_eq!(get.code(), 2, "{}", get.stderr);
    assert_eq!(std::fs::read(into.join("x")).expect("it is there"), b"first\n");
}

#[test]
fn of_two_in_the_cell_that_would_become_one_neither_is_lost() {
    let cell = Cell::start(1);
    let [first, second] = [("first", b"1\n"), ("second", b"2\n")].map(|(at, it)| cell.file(at, it));
    cell.ok(["mkdir", "/a", "/b", "/to"]);
    cell.ok(["put", &first, "/a/x"]);
    cell.ok(["put", &second, "/b/x"]);
    for command in ["cp", "mv"] {
        let done = cell.run([command, "-f", "/a/x", "/b/x", "/to"]);
        assert_eq!(done.code(), 2, "{command}: {}", done.stderr);
        assert!(done.stderr.contains("/b/x"), "{command}: {}", done.stderr);
        assert!(done.stderr.contains("another one of these is"), "{command}: {}", done.stderr);
        assert_eq!(cell.ok(["cat", "/to/x"]), "1\n", "{command}");
        assert_eq!(cell.ok(["cat", "/b/x"]), "2\n", "{command}: it is where it was");
    }
}
