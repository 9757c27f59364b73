//! Every command, round trips against a cell of real processes.

mod cell;

use cell::{Cell, KilledOnDrop, await_output, await_until, feed};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

/// Bytes without a pattern that a mix-up of blocks would survive.
fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut random = cairn_types::Random::new(seed);
    let words = std::iter::repeat_with(|| random.next_u64().to_le_bytes());
    words.flatten().take(size).collect()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn names_are_made_moved_listed_found_and_removed() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "-p", "/a/b/c"]);
    let x = cell.file("x", b"hello\n");
    cell.ok(["put", &x, "/a/b/x.log"]);
    cell.ok(["put", &x, "/a/b/c/"]);
    assert_eq!(cell.ok(["ls", "/a/b"]), "c\nx.log\n");
    assert_eq!(cell.ok(["ls", "-R", "/a/b"]), "/a/b:\nc\nx.log\n\n/a/b/c:\nx\n");
    assert!(cell.ok(["ls", "-l", "/a/b/x.log"]).contains("  6  "));
    assert_eq!(cell.ok(["find", "/a", "-name", "x*"]), "/a/b/c/x\n/a/b/x.log\n");
    assert_eq!(cell.ok(["find", "/", "[a-b]", "-type", "d"]), "/a\n/a/b\n");
    assert!(cell.ok(["du", "-s", "/a"]).starts_with("12  /a"));
    cell.ok(["mv", "/a/b/x.log", "/a/y"]);
    assert_eq!(cell.ok(["cat", "/a/y"]), "hello\n");
    assert_eq!(cell.run(["mv", "/a/y", "/a/b/c/x"]).code(), 4, "a file is there");
    cell.ok(["mv", "-f", "/a/y", "/a/b/c/x"]);
    assert_eq!(cell.run(["rm", "/a"]).code(), 5, "a directory without -r");
    let hidden = cell.ok(["rm", "-r", "-v", "/a"]);
    let hidden = hidden.trim().rsplit_once(' ').expect("says the hidden name").1.to_owned();
    assert_eq!(cell.ok(["ls", "/"]), "");
    assert_eq!(cell.ok(["cat", &format!("{hidden}/b/c/x")]), "hello\n", "hidden, not gone");
    cell.ok(["rm", "-f", "/a"]);
    let listed = cell.ok(["ls", "--deleted"]);
    assert!(lines(&listed).contains(&hidden.as_str()), "{listed}");
    cell.ok(["mv", &hidden, "/again"]);
    assert_eq!(cell.ok(["cat", "/again/b/c/x"]), "hello\n", "restored");
    assert!(!cell.ok(["ls", "--deleted"]).contains(&hidden));
}

#[test]
fn what_was_removed_is_listed_and_brought_back() {
    let cell = Cell::start(3);
    let [one, two] = ["one", "two"].map(|text| cell.file(text, text.as_bytes()));
    cell.ok(["mkdir", "/d"]);
    for source in [&one, &two] {
        cell.ok(["put", source, "/d/f"]);
        cell.ok(["rm", "/d/f"]);
    }
    let listed = cell.ok(["ls", "--deleted", "/d"]);
    assert_eq!(lines(&listed).len(), 2, "{listed}");
    let long = cell.ok(["ls", "--deleted", "-l"]);
    assert!(lines(&long).iter().all(|line| line.ends_with("  /d/f")), "{long}");
    let told = cell.ok(["--json", "ls", "--deleted"]);
    assert!(told.contains("\"path\":\"/d/f\"") && told.contains("\"left_ms\":"), "{told}");
    assert_eq!(cell.ok(["undelete", "-v", "/d/f"]), "/d/f -> /d/f\n");
    assert_eq!(cell.ok(["cat", "/d/f"]), "two", "the last to be removed");
    assert_eq!(cell.run(["undelete", "/d/f"]).code(), 4, "something is there");
    cell.ok(["undelete", "--to", "/d/first", lines(&listed)[1]]);
    assert_eq!(cell.ok(["cat", "/d/first"]), "one");
    assert_eq!(cell.ok(["ls", "--deleted"]), "");
    assert_eq!(cell.run(["undelete", "/d/f"]).code(), 3, "nothing is left");
    let hidden = cell.ok(["rm", "-v", "/d/f"]);
    let hidden = hidden.trim().rsplit_once(' ').expect("says the hidden name").1.to_owned();
    cell.ok(["rm", &hidden]);
    await_until("what was removed twice is purged", || {
        cell.ok(["ls", "--deleted"]).is_empty() && cell.run(["cat", &hidden]).code() == 3
    });
    assert_eq!(cell.ok(["lost"]), "0 lost chunks\n", "what was purged is not lost");
    assert_eq!(cell.run(["lost", "--let-go", "1-1"]).code(), 3);
}

#[test]
fn a_tree_comes_back_as_it_went_with_links_left_out_and_named() {
    let cell = Cell::start(3);
    let root = cell.local("tree");
    std::fs::create_dir_all(root.join("d/empty")).expect("makes");
    for (number, size) in [0, 1, 4095, 4096, 4097, 1 << 20, (5 << 20) + 7].into_iter().enumerate() {
        let path = root.join(format!("d/file {number} ü"));
        std::fs::write(path, noise(size, number as u64)).expect("writes");
    }
    symlink("d", root.join("link")).expect("links");
    let stored = cell.run(["put", "-r", &root.display().to_string(), "/t"]);
    assert!(stored.status.success(), "{}", stored.stderr);
    let link = root.join("link").display().to_string();
    let named = format!("cairn: warning: skipping {link}: it is a symbolic link\n");
    assert_eq!(stored.stderr, named);
    cell.ok(["cp", "-r", "/t", "/copy"]);
    let back = cell.local("back");
    std::fs::create_dir(&back).expect("makes");
    cell.ok(["get", "-r", "-j", "3", "/copy", &back.display().to_string()]);
    assert!(back.join("copy/d/empty").is_dir());
    let names = |at: &Path| {
        let entries = std::fs::read_dir(at).expect("lists").map(|entry| entry.expect("an entry"));
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&back.join("copy/d")), names(&root.join("d")), "and nothing left over");
    for name in names(&root.join("d")).iter().filter(|name| *name != "empty") {
        let [ours, theirs] =
            [root.join("d"), back.join("copy/d")].map(|at| std::fs::read(at.join(name)));
        assert!(ours.expect("reads") == theirs.expect("reads"), "{name:?} differs");
    }
    let sum = cell.ok(["du", "-s", "--json", "/copy"]);
    assert!(sum.contains("\"file_count\":7"), "{sum}");
}

#[test]
fn put_replaces_only_when_told_to_and_a_broken_one_leaves_nothing() {
    let cell = Cell::start(3);
    let (one, two) = (cell.file("one", b"one"), cell.file("two", b"two"));
    cell.ok(["put", &one, "/f"]);
    assert_eq!(cell.run(["put", &two, "/f"]).code(), 4);
    assert_eq!(cell.ok(["cat", "/f"]), "one");
    cell.ok(["put", "-f", &two, "/f"]);
    assert_eq!(cell.ok(["cat", "/f"]), "two");
    // A directory cannot be read as a stream of bytes: the put breaks in the middle.
    let directory = File::open(cell.scratch()).expect("opens");
    let mut broken = cell.command(["put", "-", "/g"]);
    broken.stdin(directory).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(!broken.status().expect("runs").success());
    assert_eq!(cell.ok(["ls", "-a", "/"]), "f\n");
    cell.ok_with(["put", "-", "/g"], b"from stdin");
    assert_eq!(cell.ok(["get", "/g", "-"]), "from stdin");
    let local = cell.file("local", b"here");
    assert_eq!(cell.run(["get", "/g", &local]).code(), 4);
    cell.ok(["get", "-f", "/g", &local]);
    assert_eq!(std::fs::read(&local).expect("reads"), b"from stdin");
}

#[test]
fn records_are_delivered_once_each_and_bytes_as_they_are() {
    let cell = Cell::start(3);
    cell.ok_with(["append", "/r"], b"a\n\nlast without an end");
    cell.ok_with(["append", "--null", "/r"], b"two\nlines\0");
    assert_eq!(cell.ok(["cat", "/r"]), "a\n\nlast without an end\ntwo\nlines\n");
    assert_eq!(cell.ok(["cat", "--null", "/r"]), "a\0\0last without an end\0two\nlines\0");
    assert!(cell.ok_with(["cat", "--raw", "/r"], b"").len() > 40, "frames and all");
    assert_eq!(cell.ok(["tail", "-n", "2", "/r"]), "last without an end\ntwo\nlines\n");
    let data = noise(3 << 20, 3);
    cell.ok_with(["append", "--record-size", "100000", "/sized"], &data);
    cell.ok(["get", "--null", "/sized", &cell.local("sized").display().to_string()]);
    let back = std::fs::read(cell.local("sized")).expect("reads");
    let expected: Vec<u8> =
        data.chunks(100_000).flat_map(|record| [record, &[0]].concat()).collect();
    assert!(back == expected, "every record, in order, each with its NUL");
    cell.ok_with(["put", "-", "/b"], b"1\n2\n3\n");
    cell.ok_with(["append", "/b"], b"4\n5\n");
    assert_eq!(cell.ok(["tail", "-n", "2", "/b"]), "4\n5\n");
    assert_eq!(cell.ok(["tail", "-c", "3", "/b"]), "\n5\n");
    assert!(cell.ok(["stat", "/r"]).contains("file of records"));
}

#[test]
fn tail_follows_records_and_bytes_as_they_come() {
    let cell = Cell::start(3);
    cell.ok_with(["append", "/r"], b"before\n");
    cell.ok_with(["put", "-", "/b"], b"before\n");
    let follow = |path: &str, out: &str| {
        let out = cell.local(out);
        let mut command = cell.command(["tail", "-f", path]);
        command.stdout(File::create(&out).expect("creates"));
        (KilledOnDrop(command.spawn().expect("starts")), out)
    };
    let (_r, records) = follow("/r", "records");
    let (_b, bytes) = follow("/b", "bytes");
    await_output(&records, "before\n");
    await_output(&bytes, "before\n");
    let mut append = cell.command(["append", "/r"]);
    append.stdin(Stdio::piped());
    let mut append = KilledOnDrop(append.spawn().expect("starts"));
    for line in ["one\n", "two\n"] {
        // A record comes through while its writer still runs and says nothing more.
        feed(&mut append.0, line.as_bytes());
        await_output(&records, line);
    }
    cell.ok_with(["append", "/b"], b"after\n");
    await_output(&bytes, "after\n");
    assert_eq!(std::fs::read_to_string(records).expect("reads"), "before\none\ntwo\n");
    assert_eq!(std::fs::read_to_string(bytes).expect("reads"), "before\nafter\n");
}

#[test]
fn many_appenders_at_once_lose_and_double_nothing() {
    let cell = Cell::start(3);
    let spawn = |number: usize| {
        let text: String = (0..200).map(|line| format!("{number} {line}\n")).collect();
        let input = File::open(cell.file(&format!("in-{number}"), text.as_bytes())).expect("opens");
        let mut command = cell.command(["append", "/log"]);
        KilledOnDrop(command.stdin(input).spawn().expect("starts"))
    };
    let mut appenders: Vec<KilledOnDrop> = (0..8).map(spawn).collect();
    for appender in &mut appenders {
        assert!(appender.0.wait().expect("ends").success());
    }
    let text = cell.ok(["cat", "/log"]);
    let mut got = lines(&text);
    got.sort_unstable();
    let mut wanted: Vec<String> =
        (0..8).flat_map(|n| (0..200).map(move |line| format!("{n} {line}"))).collect();
    wanted.sort();
    assert_eq!(got, wanted);
}

#[test]
fn queries_answer_people_and_programs() {
    let cell = Cell::start(3);
    cell.ok_with(["put", "-", "/f"], &noise(3 << 20, 1));
    let status = cell.ok(["status"]);
    assert!(status.contains("3 live") && lines(&status).len() <= 24, "{status}");
    assert_eq!(lines(&cell.ok(["servers"])).len(), 4);
    let stat = cell.ok(["stat", "--chunks", "--json", "/f"]);
    let stat: serde_json::Value = serde_json::from_str(&stat).expect("JSON");
    assert_eq!(stat["length"], 3 << 20);
    assert_eq!(stat["chunks"].as_array().map(Vec::len), Some(3));
    assert_eq!(stat["chunks"][2]["replicas"].as_array().map(Vec::len), Some(3));
    let handle = stat["chunks"][0]["handle"].as_str().expect("text").to_owned();
    assert!(!cell.ok(["explain", "/f"]).is_empty());
    assert!(!cell.ok(["explain", &handle]).is_empty());
    for query in [
        vec!["status"],
        vec!["servers"],
        vec!["ls", "/"],
        vec!["find", "/"],
        vec!["du", "/"],
        vec!["explain", "/f"],
    ] {
        let out = cell.ok(query.iter().chain(&["--json"]));
        for line in out.lines() {
            let value: Result<serde_json::Value, _> = serde_json::from_str(line);
            assert!(value.is_ok(), "{query:?}: {line}");
        }
        assert!(!out.is_empty(), "{query:?}");
    }
}

#[test]
fn a_whole_cell_in_one_process_serves_and_leaves_nothing_behind() {
    let scratch = tempfile::TempDir::new().expect("a scratch directory");
    let mut command = cell::cairn(["dev", "--listen", "127.0.0.1:0"]);
    command.env("TMPDIR", scratch.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut dev = KilledOnDrop(command.spawn().expect("starts"));
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(dev.0.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("reads");
    let address = line.trim().rsplit_once(" ready on ").expect("ready").1.to_owned();
    let on = |path: &str| format!("cairn://{address}{path}");
    let put = cell::run(cell::cairn(["put", "-", &on("/f")]), b"hello");
    assert!(put.status.success(), "{}", put.stderr);
    assert_eq!(cell::run(cell::cairn(["cat", &on("/f")]), b"").text(), "hello");
    drop(dev);
    cell::await_until("the janitor removes the data", || {
        std::fs::read_dir(scratch.path()).expect("lists").next().is_none()
    });
}
