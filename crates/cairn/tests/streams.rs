//! Streams on real processes: each record of many producers exactly once, whatever is killed and
//! started again (R38 to R44).

mod cell;

use cairn_client::{Outcome, ProducerOptions};
use cairn_protocol::ErrorCode;
use cairn_testkit::MastersPlan;
use cell::library::{client, path, runtime};
use cell::row::{Row, judge};
use cell::{
    Cell, Finished, KilledOnDrop, SETTINGS, await_output, await_until, committed_of, feed, guide,
    run,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A cell with a stream at `/s`.
fn cell_with_stream(servers: usize) -> Cell {
    let cell = Cell::start(servers);
    cell.ok(["create", "--layout", "stream", "/s"]);
    cell
}

/// How many records a producer has in the stream.
fn committed(cell: &Cell, producer: &str) -> u64 {
    committed_of(cell, "/s", producer)
}

/// Every line that was to be in the stream is there once, each producer's in their order.
fn judge_lines(text: &str, wanted: &BTreeMap<String, Vec<String>>) {
    let mut seen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let producer = line.split(' ').next().expect("a name first");
        seen.entry(producer).or_default().push(line);
    }
    for (producer, lines) in wanted {
        let seen = seen.remove(producer.as_str()).unwrap_or_default();
        let first_other = seen.iter().zip(lines).position(|(seen, wanted)| seen != wanted);
        let counts = (seen.len(), lines.len());
        assert!(first_other.is_none(), "{producer}: {counts:?}, other from {first_other:?} on");
        assert_eq!(counts.0, counts.1, "{producer}: each line once");
    }
    assert!(seen.is_empty(), "lines of nobody: {:?}", seen.keys());
}

fn lines_of(producer: &str, count: u64) -> Vec<String> {
    let line = |number| format!("{producer} {number} {}", "x".repeat((number * 37 % 900) as usize));
    (1..=count).map(line).collect()
}

fn text_of(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What stands between a command and its master, and may keep what the master answers.
struct Relay {
    address: String,
    keeps: Arc<AtomicBool>,
}

impl Relay {
    fn before(master: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("has one").to_string();
        let (keeps, master) = (Arc::new(AtomicBool::new(false)), master.to_owned());
        let keeping = Arc::clone(&keeps);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(up) = TcpStream::connect(&master) else { continue };
                let both = |from: &TcpStream, to: &TcpStream| {
                    (from.try_clone().expect("clones"), to.try_clone().expect("clones"))
                };
                let (mut from, mut to) = both(&client, &up);
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                let ((mut from, mut to), keeping) = (both(&up, &client), Arc::clone(&keeping));
                std::thread::spawn(move || {
                    let mut bytes = [0; 65536];
                    while let Ok(size @ 1..) = from.read(&mut bytes) {
                        if !keeping.load(Ordering::SeqCst) && to.write_all(&bytes[..size]).is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, keeps }
    }
}

#[test]
fn an_append_whose_answer_is_lost_says_that_it_may_be_in_the_stream() {
    let cell = cell_with_stream(3);
    let relay = Relay::before(cell.address());
    let mut command = cell.command(["--deadline", "3", "append", "--producer", "a", "/s"]);
    command.env("CAIRN_CELL", &relay.address);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = KilledOnDrop(command.spawn().expect("starts"));
    feed(&mut child.0, b"1\n2\n3\n");
    await_until("three are committed", || committed(&cell, "a") == 3);
    relay.keeps.store(true, Ordering::SeqCst);
    feed(&mut child.0, b"4\n");
    drop(child.0.stdin.take());
    let status = child.0.wait().expect("ends");
    let mut said = String::new();
    child.0.stderr.take().expect("piped").read_to_string(&mut said).expect("reads");
    assert_eq!(status.code(), Some(11), "{said}");
    assert_eq!(committed(&cell, "a"), 4, "it was: {said}");
}

#[test]
fn a_cursor_or_a_name_that_no_stream_takes_is_refused_before_anything_is_done() {
    let cell = cell_with_stream(1);
    let (long_cursor, long_name) = ("c".repeat(1025), "n".repeat(256));
    for (name, cursor) in [("p", long_cursor.as_str()), (long_name.as_str(), "c"), ("", "c")] {
        for at in ["/s", "/new"] {
            let command = cell.command(["append", "--producer", name, "--cursor", cursor, at]);
            let done = run(command, b"1\n2\n");
            assert_eq!(done.code(), 2, "{}", done.stderr);
            assert!(done.stderr.lines().count() == 1, "{}", done.stderr);
        }
    }
    assert_eq!(cell.ok(["ls", "/"]).lines().count(), 1, "nothing was made");
    assert_eq!(cell.ok(["cat", "/s"]), "", "nothing was appended");
}

/// `append` whose stdin the test feeds.
fn appending(cell: &Cell, producer: &str) -> KilledOnDrop {
    appending_to(cell, "/s", producer)
}

fn appending_to(cell: &Cell, stream: &str, producer: &str) -> KilledOnDrop {
    let arguments = ["append", "--producer", producer, "--resume-lines", stream];
    let mut command = cell.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    KilledOnDrop(command.spawn().expect("starts"))
}

#[test]
fn every_command_of_the_guides_page_does_what_it_says() {
    let cell = Cell::start(3);
    let page = include_str!("../../../docs/guide/streams.md");
    let told = guide::run_page(&cell, page);
    let [first, second, shipped, third, fourth, replaced, settled] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(first.starts_with("999\n1000\n"), "{first}");
    assert!(first.contains("collector-7") && first.contains("line 1000"), "{first}");
    assert!(second.contains("1000 lines were there, 2000 are appended"), "{second}");
    assert!(second.ends_with("3000\n"), "{second}");
    let counts = ["/logs/app: 500 lines (1.8K) of 1 file ", "/logs/app: 20 lines (80) of 2 files "];
    assert!(counts.iter().all(|count| shipped.contains(count)), "{shipped}");
    assert!(shipped.ends_with(" shipped\n520\n"), "{shipped}");
    assert_eq!(cell.ok(["cat", "/logs/app"]).lines().count(), 520);
    assert!(third.contains("\"text\":\"offset 4711\""), "{third}");
    assert!(third.contains("it is there, at offset "), "{third}");
    assert!(
        fourth.contains("layout           stream") && fourth.contains("producers  2"),
        "{fourth}"
    );
    assert!(fourth.contains("settled    ") && settled.contains("settle_rate"), "{settled}");
    assert!(replaced.ends_with("3 bytes replaced\npage one\npage TWO\n"), "{replaced}");
    let lines: Vec<String> = (1..=3000).map(|number| number.to_string()).collect();
    let lines = lines.join("\n") + "\none more\n";
    assert!(cell.ok(["cat", "/logs/events"]) == lines);
    let local = cell.local("got").display().to_string();
    cell.ok(["get", "/logs/events", &local]);
    assert!(std::fs::read_to_string(local).expect("got") == lines);
}

#[test]
fn a_producer_that_is_killed_goes_on_behind_its_last_line_and_others_do_not_mind() {
    let mut cell = cell_with_stream(4);
    let names = ["a", "b", "c"];
    let wanted: BTreeMap<String, Vec<String>> =
        names.map(|name| (name.to_owned(), lines_of(name, 900))).into();
    // Each is killed twice, at any place in its input.
    for round in 1..=2_u64 {
        let mut all: Vec<KilledOnDrop> = names.iter().map(|name| appending(&cell, name)).collect();
        for (child, name) in all.iter_mut().zip(names) {
            feed(&mut child.0, text_of(&wanted[name][..(round * 300) as usize]).as_bytes());
        }
        if round == 1 {
            cell.chunkservers[0].kill();
        }
        await_until("all have come further", || {
            names.iter().all(|name| committed(&cell, name) > (round - 1) * 300)
        });
        if round == 2 {
            cell.masters[0].kill();
            cell.masters[0].restart().expect("starts again");
        }
    }
    cell.chunkservers[0].restart().expect("starts again");
    let finish = |name: &str| {
        let arguments = ["append", "--producer", name, "--resume-lines", "/s"];
        run(cell.command(arguments), text_of(&wanted[name]).as_bytes())
    };
    for name in names {
        let done = finish(name);
        assert!(done.status.success(), "{name}: {}", done.stderr);
        assert_eq!(committed(&cell, name), 900);
    }
    judge_lines(&cell.ok(["cat", "/s"]), &wanted);
}

#[test]
fn a_later_opening_fences_the_one_before_which_is_told_and_nothing_is_there_twice() {
    let cell = cell_with_stream(3);
    let mut first = appending(&cell, "p");
    feed(&mut first.0, b"one\n");
    await_until("the first line is there", || committed(&cell, "p") == 1);
    cell.ok_with(["append", "--producer", "p", "/s"], b"two\n");
    feed(&mut first.0, b"late\n");
    let done = first.0.wait().expect("it ends by itself");
    let mut said = String::new();
    let mut stderr = first.0.stderr.take().expect("piped");
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
    assert_eq!(done.code(), Some(17), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("another opening of the producer has taken over"), "{said}");
    assert_eq!(cell.ok(["cat", "/s"]), "one\ntwo\n");
}

#[test]
fn a_follower_sees_what_is_committed_and_a_reader_may_begin_anywhere() {
    let cell = cell_with_stream(3);
    cell.ok_with(["append", "--producer", "p", "/s"], b"1\n2\n3\n");
    let out = cell.local("followed");
    let mut command: Command = cell.command(["tail", "-n", "2", "-f", "/s"]);
    command.stdout(std::fs::File::create(&out).expect("creates"));
    let _follower = KilledOnDrop(command.spawn().expect("starts"));
    await_output(&out, "2\n3\n");
    cell.ok_with(["append", "--producer", "q", "/s"], b"4\n");
    await_output(&out, "2\n3\n4\n");
    assert_eq!(cell.ok(["tail", "-n", "1", "/s"]), "4\n");
    cell.ok(["cp", "/s", "/copy"]);
    assert_eq!(cell.ok(["cat", "/copy"]), "1\n2\n3\n4\n");
    // A copy has the stream's chunks, and goes on by itself.
    assert_eq!(cell.json(&["stat", "/copy"])["layout"], "stream");
    cell.ok_with(["append", "--producer", "p", "/copy"], b"5\n");
    assert_eq!(cell.ok(["cat", "/copy"]), "1\n2\n3\n4\n5\n");
    cell.ok(["has", "/copy", "p", "4"]);
    assert_eq!(cell.run(["has", "-q", "/s", "p", "4"]).code(), 3);
    let local = cell.local("got").display().to_string();
    cell.ok(["get", "/s", &local]);
    cell.ok(["put", &local, "/plain"]);
    assert_eq!(cell.json(&["stat", "/plain"])["layout"], "chunks");
}

#[test]
fn a_follower_outlasts_a_cell_that_is_away_and_misses_nothing() {
    let mut cell = cell_with_stream(3);
    cell.ok(["create", "--layout", "stream", "--content", "bytes", "/b"]);
    for stream in ["/s", "/b"] {
        cell.ok_with(["append", "--producer", "p", stream], b"1\n");
    }
    let new = |path: &std::path::Path| std::fs::File::create(path).expect("creates");
    let followers = ["/s", "/b"].map(|stream| {
        let (out, err) = (cell.local(&format!("of{}", &stream[1..])), cell.local(&stream[1..]));
        let mut command = cell.command(["tail", "-f", "--deadline", "1", stream]);
        command.stdout(new(&out)).stderr(new(&err));
        (KilledOnDrop(command.spawn().expect("starts")), out, err)
    });
    followers.iter().for_each(|(_, out, _)| await_output(out, "1\n"));
    cell.masters[0].kill();
    followers.iter().for_each(|(.., err)| await_output(err, "tried again every second"));
    cell.masters[0].restart().expect("starts again");
    for stream in ["/s", "/b"] {
        cell.ok_with(["append", "--producer", "p", stream], b"2\n");
    }
    for (_, out, err) in &followers {
        await_output(out, "1\n2\n");
        await_output(err, "following goes on");
        let said = std::fs::read_to_string(err).expect("text");
        assert_eq!(said.lines().count(), 2, "told once: {said}");
    }
}

#[test]
fn what_cannot_be_done_with_a_stream_is_told_in_one_line_with_a_true_hint() {
    let cell = cell_with_stream(3);
    cell.ok_with(["put", "-", "/plain"], b"x\n");
    let append = |arguments: &[&str], stdin: &[u8]| {
        run(cell.command([&["append"], arguments].concat()), stdin)
    };
    let long = ("c".repeat(1025), "x".repeat(300_000));
    let rows: [(&str, Finished, i32, &[&str]); 11] = [
        (
            "no name",
            append(&["/s"], b"x\n"),
            2,
            &["a stream knows its producers by name", "--producer NAME"],
        ),
        (
            "lines of no stream",
            append(&["--producer", "p", "--resume-lines", "/plain"], b"x\n"),
            2,
            &["it is no stream", "cairn create --layout stream"],
        ),
        (
            "both",
            append(&["--producer", "p", "--cursor", "c", "--resume-lines", "/s"], b""),
            2,
            &["--cursor"],
        ),
        (
            "a cursor that is too long",
            append(&["--producer", "p", "--cursor", &long.0, "/s"], b"x\n"),
            2,
            &["a cursor of 1025 bytes", "1024"],
        ),
        (
            "no name at all",
            append(&["--producer", "", "/s"], b"x\n"),
            2,
            &["a producer's name has 1 to 255 bytes"],
        ),
        (
            "a line that is too long",
            append(&["--producer", "p", "/s"], long.1.as_bytes()),
            2,
            &["more than 262144 bytes"],
        ),
        (
            "producers of no stream",
            cell.run(["producers", "/plain"]),
            2,
            &["/plain is no stream", "cairn create --layout stream"],
        ),
        (
            "a producer that is not there",
            cell.run(["producers", "/s", "forget", "nobody"]),
            3,
            &["nobody"],
        ),
        (
            "a record that is not there",
            cell.run(["has", "/s", "nobody", "1"]),
            3,
            &["no producer of that name", "cairn producers"],
        ),
        ("record 0", cell.run(["has", "/s", "nobody", "0"]), 2, &["0"]),
        ("a layout that is none", cell.run(["create", "--layout", "rows", "/t"]), 2, &["rows"]),
    ];
    for (what, done, code, says) in rows {
        judge(&Row { what, done, code, says });
    }
}

#[test]
fn an_append_that_only_a_stream_can_do_makes_a_stream_where_nothing_is_there() {
    let cell = Cell::start(3);
    cell.ok_with(["append", "--producer", "p", "--resume-lines", "/lines"], b"1\n2\n");
    cell.ok_with(["append", "--producer", "p", "--resume-lines", "/lines"], b"1\n2\n3\n");
    cell.ok_with(["append", "--producer", "p", "--cursor", "c", "/cursor"], b"1\n");
    assert_eq!(cell.ok(["cat", "/lines", "/cursor"]), "1\n2\n3\n1\n");
    for path in ["/lines", "/cursor"] {
        assert_eq!(cell.json(&["stat", path])["layout"], "stream");
    }
    cell.ok_with(["append", "--producer", "p", "/plain"], b"1\n");
    assert_eq!(cell.json(&["stat", "/plain"])["layout"], "chunks");
    judge(&Row {
        what: "no name",
        done: run(cell.command(["append", "--resume-lines", "/none"]), b"x\n"),
        code: 2,
        says: &["a stream knows its producers by name", "--producer NAME"],
    });
    assert_eq!(cell.run(["stat", "/none"]).code(), 3, "what is refused makes no file");
}

#[test]
fn what_is_refused_for_want_of_a_name_leaves_no_stream() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "/d"]);
    cell.ok(["policy", "--layout", "stream", "/d"]);
    judge(&Row {
        what: "no name in a directory of streams",
        done: run(cell.command(["append", "/d/none"]), b"x\n"),
        code: 2,
        says: &["a stream knows its producers by name", "--producer NAME"],
    });
    assert_eq!(cell.run(["stat", "/d/none"]).code(), 3, "what is refused makes no file");
    cell.ok_with(["append", "/plain"], b"x\n");
    cell.ok_with(["append", "/plain"], b"y\n");
    assert_eq!(cell.ok(["cat", "/plain"]), "x\ny\n");
}

#[test]
fn where_one_server_will_do_a_producer_goes_on_with_it_and_all_is_whole_again_later() {
    let mut cell = Cell::start(3);
    let streams = [("/one", "1"), ("/two", "2")];
    for (stream, count) in streams {
        cell.ok(["create", "--layout", "stream", "--commit-replicas", count, stream]);
        assert_eq!(cell.json(&["stat", stream])["commit_replicas"].to_string(), count);
    }
    assert!(cell.ok(["stat", "/one"]).contains("commit-replicas  1"));
    let mut all = streams.map(|(stream, _)| appending_to(&cell, stream, "p"));
    all.iter_mut().for_each(|child| feed(&mut child.0, b"before\n"));
    for (stream, _) in streams {
        await_until("the first line is there", || committed_of(&cell, stream, "p") == 1);
    }
    cell.chunkservers[0].kill();
    cell.chunkservers[1].kill();
    all.iter_mut().for_each(|child| feed(&mut child.0, b"with one\n"));
    await_until("one server will do", || committed_of(&cell, "/one", "p") == 2);
    feed(&mut all[0].0, b"and again\n");
    await_until("in a chunk of one, too", || committed_of(&cell, "/one", "p") == 3);
    assert_eq!(committed_of(&cell, "/two", "p"), 1, "two are needed");
    for server in [0, 1] {
        cell.chunkservers[server].restart().expect("starts again");
    }
    await_until("who waited goes on", || committed_of(&cell, "/two", "p") == 2);
    all.iter_mut().for_each(|child| drop(child.0.stdin.take()));
    all.iter_mut().for_each(|child| assert!(child.0.wait().expect("ends").success()));
    assert_eq!(cell.ok(["cat", "/one"]), "before\nwith one\nand again\n");
    assert_eq!(cell.ok(["cat", "/two"]), "before\nwith one\n");
    await_until("all are whole", || {
        let whole = |stream: &str| {
            let stat = cell.json(&["stat", "--chunks", stream]);
            let chunks = stat["chunks"].as_array().cloned().unwrap_or_default();
            !chunks.is_empty()
                && chunks.iter().all(|it| it["replicas"].as_array().map(Vec::len) == Some(3))
        };
        cell.run(["status", "--check"]).status.success()
            && streams.iter().all(|(stream, _)| whole(stream))
    });
    // What one held is on the others by now.
    cell.chunkservers[2].kill();
    assert_eq!(cell.ok(["cat", "/one"]), "before\nwith one\nand again\n");
}

/// Found by `soak streams`: a master had just begun, one server had joined, and what a producer
/// wrote then lay there alone until it had been silent for ten minutes.
#[test]
fn what_was_written_while_one_server_was_there_is_copied_when_others_come_beside_its_producer() {
    let mut cell = cell_with_stream(1);
    let mut producer = appending(&cell, "p");
    feed(&mut producer.0, b"alone\n");
    await_until("the first line is there", || committed(&cell, "p") == 1);
    cell.add_chunkserver().expect("starts");
    cell.add_chunkserver().expect("starts");
    await_until("it has three replicas", || {
        let stat = cell.json(&["stat", "--chunks", "/s"]);
        let chunks = stat["chunks"].as_array().cloned().unwrap_or_default();
        chunks.first().is_some_and(|it| it["replicas"].as_array().map(Vec::len) == Some(3))
    });
    feed(&mut producer.0, b"with others\n");
    await_until("its producer goes on", || committed(&cell, "p") == 2);
    drop(producer.0.stdin.take());
    assert!(producer.0.wait().expect("ends").success());
    assert_eq!(cell.ok(["cat", "/s"]), "alone\nwith others\n");
}

#[test]
fn how_many_have_to_hold_a_commit_is_a_policy_and_what_cannot_be_is_refused() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "/d"]);
    cell.ok(["policy", "--layout", "stream", "--commit-replicas", "1", "/d"]);
    assert!(
        cell.ok(["policy", "/d"]).contains("commit-replicas  1"),
        "{}",
        cell.ok(["policy", "/d"])
    );
    cell.ok(["create", "/d/s"]);
    assert_eq!(cell.json(&["stat", "/d/s"])["commit_replicas"], 1);
    cell.ok(["policy", "--commit-replicas", "3", "/d/s"]);
    assert_eq!(cell.json(&["stat", "/d/s"])["commit_replicas"], 3);
    cell.ok_with(["append", "--producer", "p", "/d/s"], b"all three\n");
    cell.ok(["cp", "/d/s", "/d/copy"]);
    assert_eq!(cell.json(&["stat", "/d/copy"])["commit_replicas"], 3, "as its source");
    cell.ok(["policy", "--inherit", "commit-replicas", "--apply", "/d/s"]);
    assert_eq!(cell.json(&["stat", "/d/s"])["commit_replicas"], 1);
    cell.ok_with(["put", "-", "/plain"], b"x\n");
    let rows: [(&str, Finished, &[&str]); 4] = [
        (
            "of no stream",
            cell.run(["create", "--layout", "chunks", "--commit-replicas", "1", "/t"]),
            &["it is no stream"],
        ),
        (
            "more than there are",
            cell.run(["create", "--layout", "stream", "--commit-replicas", "4", "/t"]),
            &["4 replicas that have to hold a commit, of 3"],
        ),
        (
            "none",
            cell.run(["create", "--layout", "stream", "--commit-replicas", "0", "/t"]),
            &["0"],
        ),
        (
            "a policy of no stream",
            cell.run(["policy", "--commit-replicas", "1", "/plain"]),
            &["it is no stream"],
        ),
    ];
    for (what, done, says) in rows {
        judge(&Row { what, done, code: 2, says });
    }
}

#[test]
fn an_input_that_is_another_than_before_is_refused_where_it_would_be_resumed() {
    let cell = cell_with_stream(3);
    let resume = |stdin: &[u8]| {
        run(cell.command(["append", "--producer", "p", "--resume-lines", "/s"]), stdin)
    };
    assert!(resume(b"1\n2\n3\n").status.success());
    assert!(resume(b"1\n2\n3\n4\n").status.success());
    judge(&Row {
        what: "a shorter input",
        done: resume(b"1\n"),
        code: 2,
        says: &["the input has 1 lines, and 4 are in the stream", "--resume-lines"],
    });
    cell.ok_with(["append", "--producer", "p", "--cursor", "mine", "/s"], b"5\n6\n");
    judge(&Row {
        what: "a cursor of somebody else",
        done: resume(b"1\n2\n"),
        code: 2,
        says: &["its cursor is \"mine\""],
    });
    assert_eq!(cell.ok(["cat", "/s"]), "1\n2\n3\n4\n5\n6\n");
    // A new input under the same name.
    cell.ok_with(["append", "--producer", "p", "/s"], b"7\n");
    assert!(resume(b"7\n8\n").status.success());
    assert_eq!(cell.ok(["tail", "-n", "2", "/s"]), "7\n8\n");
    cell.ok(["producers", "/s", "forget", "p"]);
    cell.ok_with(["append", "--producer", "p", "/s"], b"new\n");
    assert_eq!(committed(&cell, "p"), 1);
    assert!(cell.ok(["cat", "/s"]).ends_with("7\n8\nnew\n"), "read whatever its number is");
}

/// Found by a review: of an input that was killed before its first commit, as many lines as there
/// were of the one before were passed over when it was resumed.
#[test]
fn no_lines_of_another_input_are_passed_over_where_it_would_be_resumed() {
    let cell = cell_with_stream(3);
    cell.ok(["create", "--layout", "stream", "--content", "bytes", "/b"]);
    let append = |options: &[&str], stream: &str, input: &str| {
        let arguments = [&["append", "--producer", "p"], options, &[stream]].concat();
        run(cell.command(arguments), input.as_bytes())
    };
    let numbers = |first: u64, last: u64| -> String {
        (first..=last).map(|number| format!("{number}\n")).collect()
    };
    for stream in ["/s", "/b"] {
        let resume = |input: &str| append(&["--resume-lines"], stream, input);
        assert!(append(&[], stream, &numbers(1, 1000)).status.success());
        assert!(resume(&numbers(1, 2000)).status.success());
        assert!(resume(&numbers(1, 3000)).status.success());
        for other in [numbers(2, 4000), numbers(1, 2999) + "3001\n"] {
            judge(&Row {
                what: "another input",
                done: resume(&other),
                code: 2,
                says: &[
                    "the first lines of the input are not those that are in the stream",
                    "(line 3000, crc32c ",
                    "; in the stream: line 3000, crc32c ",
                    "without --resume-lines all lines are appended",
                    "another --producer begins anew",
                ],
            });
        }
        judge(&Row {
            what: "its last line is not whole",
            done: resume(&(numbers(1, 2999) + "30")),
            code: 2,
            says: &["the input has 2999 lines, and 3000 are in the stream", "--resume-lines"],
        });
        assert!(cell.ok(["cat", stream]) == numbers(1, 3000), "nothing came of these");
        // What the hints say can be done.
        assert!(append(&[], stream, &numbers(7, 9)).status.success());
        assert!(resume(&numbers(7, 10)).status.success());
        assert!(cell.ok(["cat", stream]) == numbers(1, 3000) + &numbers(7, 10));
    }
    // A last line that had no end as it was appended is the same with one.
    assert!(append(&[], "/s", "a\nb").status.success());
    let ended = append(&["--resume-lines", "-v"], "/s", "a\nb\nc\n");
    assert!(ended.text().contains("2 lines were there, 1 are appended"), "{ended:?}");
}

#[test]
fn a_cursor_of_a_version_that_stored_no_sum_is_gone_on_from_and_the_next_ones_have_it() {
    let cell = cell_with_stream(3);
    let append = |options: &[&str], input: &[u8]| {
        run(cell.command([&["append", "--producer", "p"], options, &["/s"]].concat()), input)
    };
    assert!(append(&["--cursor", "line 2"], b"1\n2\n").status.success());
    assert!(append(&["--resume-lines"], b"1\n2\n3\n").status.success());
    assert_eq!(cell.ok(["cat", "/s"]), "1\n2\n3\n");
    judge(&Row {
        what: "others before what was summed",
        done: append(&["--resume-lines"], b"0\n2\n3\n4\n"),
        code: 2,
        says: &["are not those that are in the stream (line 3, crc32c "],
    });
    assert!(append(&["--resume-lines"], b"1\n2\n3\n4\n").status.success());
    assert_eq!(cell.ok(["cat", "/s"]), "1\n2\n3\n4\n");
}

#[test]
fn a_last_line_without_its_end_waits_for_it_where_the_input_is_resumed() {
    let cell = cell_with_stream(3);
    let resume = |name: &str, stdin: &[u8]| {
        let arguments = ["append", "--producer", name, "--resume-lines", "-v", "/s"];
        run(cell.command(arguments), stdin)
    };
    // Whoever wrote it was killed in the midst of a line.
    let torn = resume("p", b"one\ntwo\nthr");
    assert!(torn.status.success() && torn.stderr.contains("waits for it (3 bytes)"), "{torn:?}");
    assert!(torn.text().contains("2 are appended"), "{torn:?}");
    let whole = resume("p", b"one\ntwo\nthree\nfour\n");
    assert!(whole.status.success() && whole.stderr.is_empty(), "{whole:?}");
    assert_eq!(cell.ok(["cat", "/s"]), "one\ntwo\nthree\nfour\n");
    // Without it all of an input is appended, and that is found again.
    cell.ok_with(["append", "--producer", "q", "/s"], b"five\nsix");
    let there = resume("q", b"five\nsix");
    assert!(there.text().contains("2 lines were there, 0 are appended"), "{there:?}");
    // What is read of several files waits at the end of the last of them alone.
    let files = [cell.file("first", b"seven\neight"), cell.file("second", b"nine\nt")];
    let arguments = ["append", "--producer", "r", "--resume-lines", "/s", &files[0], &files[1]];
    let several = cell.run(arguments);
    assert!(several.stderr.contains("waits for it (1 byte)"), "{several:?}");
    assert!(cell.ok(["cat", "/s"]).ends_with("six\nseven\neight\nnine\n"));
}

#[test]
fn a_last_record_of_a_size_that_is_shorter_waits_where_the_input_is_resumed() {
    let cell = cell_with_stream(3);
    let resume = |stdin: &[u8]| {
        let arguments = ["append", "--producer", "p", "--resume-lines", "--record-size", "4", "/s"];
        run(cell.command(arguments), stdin)
    };
    let torn = resume(b"aaaabbbbcc");
    let said = "the last record of the input has 2 bytes, and waits until it has 4";
    assert!(torn.status.success() && torn.stderr.contains(said), "{torn:?}");
    assert_eq!(committed(&cell, "p"), 2);
    let whole = resume(b"aaaabbbbccccdddd");
    assert!(whole.status.success() && whole.stderr.is_empty(), "{whole:?}");
    assert_eq!(cell.ok(["cat", "/s"]), "aaaa\nbbbb\ncccc\ndddd\n");
    // Without it all of an input is appended.
    let all = ["append", "--producer", "q", "--record-size", "4", "/s"];
    cell.ok_with(all, b"eeeeff");
    assert!(cell.ok(["cat", "/s"]).ends_with("dddd\neeee\nff\n"));
}

#[test]
fn a_record_that_a_stream_does_not_take_is_refused_with_what_it_takes() {
    const MIB: usize = 1 << 20;
    let settings = SETTINGS.replace("chunk_size = 1048576", "chunk_size = 67108864");
    let cell =
        Cell::start_with(3, &settings.replace("block_size = 4096", "block_size = 65536"), None);
    cell.ok(["create", "--layout", "stream", "/s"]);
    let append = |options: &[&str], size: usize| {
        let arguments = [&["append", "--producer", "p"], options, &["/s"]].concat();
        run(cell.command(arguments), "x".repeat(size).as_bytes())
    };
    let limit = "at most 8 MiB with its frame";
    for (what, done, why) in [
        ("its frame lacks room", append(&[], 8 * MIB - 10), "and a bundle has at most 8388608"),
        ("a line", append(&[], 9 * MIB), "a line of it has more than 8388608 bytes"),
        ("a long line", append(&[], 20 * MIB), "a line of it has more than 8388608 bytes"),
        (
            "a size",
            append(&["--record-size", "9000000"], 10),
            "--record-size has more than 8388608 bytes",
        ),
    ] {
        judge(&Row { what, done, code: 2, says: &[why, limit] });
    }
    let large = append(&[], 8 * MIB - 100);
    assert!(large.status.success(), "{large:?}");
    assert_eq!(committed(&cell, "p"), 1);
}

#[test]
fn how_long_cursors_are_kept_is_a_setting() {
    let cell = cell_with_stream(3);
    cell.ok(["settings", "cursors_kept_ms=1000"]);
    let resume = |stdin: &[u8]| {
        run(cell.command(["append", "--producer", "p", "--resume-lines", "/s"]), stdin)
    };
    assert!(resume(b"1\n").status.success());
    let age = || cell.json(&["producers", "/s"])["age_ms"].as_u64();
    await_until("its cursor is old", || age() > Some(1_100));
    judge(&Row {
        what: "a cursor that has gone",
        done: resume(b"1\n2\n"),
        code: 2,
        says: &["its cursor is too old, and has gone"],
    });
}

#[test]
fn an_input_that_cannot_be_read_ends_no_producer_and_makes_no_file() {
    let cell = cell_with_stream(3);
    cell.ok_with(["append", "--producer", "p", "/s"], b"1\n");
    let epoch = || cell.json(&["producers", "/s"])["epoch"].clone();
    let (before, first) = (epoch(), cell.file("first", b"2\n"));
    assert!(before.is_string(), "{before}");
    for wrong in ["mistyped", "."] {
        let done = cell.run(["append", "--producer", "p", "/s", &first, wrong]);
        assert!(!done.status.success() && done.stderr.contains("reading"), "{done:?}");
        let new = cell.run(["append", "/new", &first, wrong]);
        assert!(!new.status.success(), "{new:?}");
    }
    assert_eq!((epoch(), cell.ok(["cat", "/s"])), (before, "1\n".to_owned()));
    assert!(!cell.run(["stat", "/new"]).status.success(), "nothing was made for it");
}

#[test]
fn a_cursor_that_no_line_goes_with_is_said_not_to_be_stored() {
    let cell = cell_with_stream(3);
    let append = |stdin: &[u8]| {
        run(cell.command(["append", "--producer", "p", "--cursor", "all", "/s"]), stdin)
    };
    let nothing = append(b"");
    let said = "the input is empty: the cursor is not stored";
    assert!(nothing.status.success() && nothing.stderr.contains(said), "{nothing:?}");
    let one = append(b"one\n");
    assert!(one.status.success() && one.stderr.is_empty(), "{one:?}");
}

#[test]
fn a_copy_of_a_streams_bytes_has_each_record_and_is_said_to_be_no_stream() {
    let cell = cell_with_stream(3);
    cell.ok_with(["append", "--producer", "p", "/s"], b"1\n2\n");
    cell.ok(["producers", "/s", "forget", "p"]);
    // The same name, and the same numbers.
    cell.ok_with(["append", "--producer", "p", "/s"], b"3\n4\n");
    let copied = cell.run(["cp", "--data", "/s", "/bytes"]);
    let said = "/bytes is a file of records, and no stream as /s is";
    assert!(copied.status.success() && copied.stderr.contains(said), "{copied:?}");
    assert_eq!(cell.ok(["cat", "/bytes"]), "1\n2\n3\n4\n");
    // Where it is to be kept otherwise it cannot share the chunks.
    cell.ok(["mkdir", "/two"]);
    cell.ok(["policy", "--replication", "2", "/two"]);
    let apart = cell.run(["cp", "/s", "/two"]);
    assert!(apart.stderr.contains("/two/s is a file of records"), "{apart:?}");
    let shared = cell.run(["cp", "/s", "/shared"]);
    assert!(shared.status.success() && shared.stderr.is_empty(), "{shared:?}");
    assert_eq!(cell.json(&["stat", "/shared"])["layout"], "stream");
}

#[test]
fn a_directory_may_say_that_its_files_are_streams_and_what_is_put_there_is_none() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "/d"]);
    cell.ok(["policy", "--layout", "stream", "/d"]);
    let policy = cell.json(&["policy", "/d"]);
    assert_eq!(
        (&policy["layout"], &policy["layout_from"]["source"]),
        (&"stream".into(), &"itself".into())
    );
    cell.ok_with(["append", "--producer", "p", "/d/s"], b"one\n");
    cell.ok_with(["put", "-", "/d/plain"], b"bytes\n");
    assert_eq!(cell.json(&["stat", "/d/s"])["layout"], "stream");
    assert_eq!(cell.json(&["stat", "/d/plain"])["layout"], "chunks");
    assert!(cell.ok(["ls", "-l", "/d"]).contains("\ns"), "{}", cell.ok(["ls", "-l", "/d"]));
    cell.ok(["create", "/d/t"]);
    let made = cell.json(&["stat", "/d/t"]);
    assert_eq!((&made["layout"], &made["content"]), (&"stream".into(), &"records".into()));
    cell.ok(["create", "--content", "bytes", "/d/b"]);
    cell.ok_with(["append", "--producer", "p", "/d/b"], b"a\nb\n");
    assert_eq!(cell.ok(["cat", "/d/b"]), "a\nb\n");
    cell.ok(["mv", "/d/s", "/s"]);
    cell.ok_with(["append", "--producer", "p", "/s"], b"two\n");
    assert_eq!(cell.ok(["cat", "/s"]), "one\ntwo\n");
    cell.ok(["rm", "/s"]);
    cell.ok(["undelete", "/s"]);
    assert_eq!(cell.ok(["cat", "/s"]), "one\ntwo\n");
}

#[test]
fn many_appends_of_a_program_go_together_and_readers_divide_the_stream() {
    const PRODUCERS: u64 = 4;
    const RECORDS: u64 = 1500;
    let cell = cell_with_stream(3);
    let all = runtime().block_on(async {
        let client = client(cell.address()).await;
        let produce = |nth: u64| {
            let client = client.clone();
            async move {
                let (name, stream) = (format!("p{nth}"), path("/s"));
                let options = ProducerOptions::default();
                let producer = client.open_producer(&stream, &name, options).await?;
                let mut pending = Vec::new();
                for number in 1..=RECORDS {
                    let record = format!("{nth} {number} {}", "y".repeat(number as usize % 800));
                    let cursor = number.to_string().into();
                    pending.push(match number % 10 {
                        0 => producer.enqueue_with_cursor(record.as_bytes(), cursor).await?,
                        _ => producer.enqueue(record.as_bytes()).await?,
                    });
                }
                producer.flush().await?;
                let (number, cursor) = producer.committed();
                let cursor = cursor.expect("each tenth has one");
                assert_eq!((number, cursor.number.get()), (RECORDS, RECORDS));
                let mut offsets = Vec::new();
                for (pending, number) in pending.into_iter().zip(1..) {
                    let committed = pending.await?;
                    assert_eq!(committed.number, number);
                    offsets.push(committed.offset.expect("nothing failed"));
                }
                assert!(offsets.is_sorted(), "in their order");
                producer.close().await.map(|()| offsets)
            }
        };
        let tasks: Vec<_> = (0..PRODUCERS).map(|nth| tokio::spawn(produce(nth))).collect();
        let mut offsets = BTreeMap::new();
        for (task, nth) in tasks.into_iter().zip(0..) {
            offsets.insert(nth, task.await.expect("no panic").expect("appends"));
        }
        let stream = client.open_stream(&path("/s")).await.expect("opens");
        let splits = stream.splits(5).await.expect("divides");
        assert!((2..=5).contains(&splits.len()), "{splits:?}");
        let mut next = vec![0; PRODUCERS as usize];
        for split in splits {
            let mut records = stream.records_of(split);
            while let Some(record) = records.next().await.expect("reads") {
                let text = String::from_utf8(record.payload.to_vec()).expect("text");
                let mut words = text.split(' ');
                let nth: u64 = words.next().expect("a producer").parse().expect("a number");
                let place = next.get_mut(nth as usize).expect("one of them");
                assert_eq!(record.offset, offsets[&nth][*place], "where it was told to be");
                *place += 1;
                assert_eq!(words.next(), Some(place.to_string().as_str()), "in order, once");
            }
        }
        assert!(stream.has("p0", RECORDS).await.expect("tells"));
        assert!(!stream.has("p0", RECORDS + 1).await.expect("tells"));
        next
    });
    assert_eq!(all, vec![RECORDS as usize; PRODUCERS as usize]);
}

/// On which server each extent of `/s` lies.
fn servers_of_extents(cell: &Cell) -> Vec<String> {
    runtime().block_on(async {
        let client = client(cell.address()).await;
        let stream = client.open_stream(&path("/s")).await.expect("opens");
        let told = stream.extents(0).await.expect("tells");
        let servers = told.extents.iter().map(|extent| {
            let chunk = told.chunks.iter().find(|chunk| chunk.handle == extent.handle);
            let replica = chunk.and_then(|chunk| chunk.replicas.first());
            replica.expect("it is there").address.as_str().to_owned()
        });
        servers.collect()
    })
}

#[test]
fn has_tells_where_a_record_is_of_which_epoch_and_whether_it_can_be_read() {
    let mut cell = Cell::start(2);
    cell.ok(["create", "--layout", "stream", "--replication", "1", "/s"]);
    let mut producers = Vec::new();
    // Until both servers have something of it.
    while producers.len() < 2 || servers_of_extents(&cell).iter().collect::<BTreeSet<_>>().len() < 2
    {
        let name = format!("p{}", producers.len());
        cell.ok_with(["append", "--producer", &name, "/s"], b"one\ntwo\n");
        producers.push(name);
        assert!(producers.len() < 60, "chunks are made on both servers");
    }
    let servers = servers_of_extents(&cell);
    assert_eq!(servers.len(), producers.len(), "each has written one run");
    let has = |cell: &Cell, arguments: &[&str]| {
        let done = cell.run([&["--json", "has", "--deadline", "2"], arguments].concat());
        let value = done.text().lines().next().map(serde_json::from_str::<serde_json::Value>);
        (done.code(), value.expect("a value").expect("JSON"))
    };
    let (lost, kept) = (producers.last().expect("some"), &producers[0]);
    let at = servers.iter().position(|server| server != servers.last().expect("some"));
    assert_eq!(at, Some(0), "the last one is the first on the other server");
    let (code, told) = has(&cell, &["/s", kept, "1"]);
    assert!(code == 0 && told["has"] == true && told["readable"] == true, "{told}");
    assert!(told["offset"] == 0 && told["or_an_epoch_before"] == false, "{told}");
    let (_, second) = has(&cell, &["/s", lost, "2"]);
    let place = second["offset"].as_u64().expect("it was found");
    let said = cell.ok(["has", "/s", lost, "2"]);
    assert!(said.starts_with(&format!("it is there, at offset {place}, of epoch ")), "{said}");
    // Of another epoch.
    cell.ok_with(["append", "--producer", kept, "/s"], b"three\n");
    let epoch = |number: &str| has(&cell, &["/s", kept, number]).1["epoch"].clone();
    assert_eq!((epoch("1"), epoch("2")), (told["epoch"].clone(), told["epoch"].clone()));
    assert_ne!(epoch("3"), told["epoch"]);
    let (code, none) = has(&cell, &["/s", kept, "4"]);
    assert!(code == 3 && none["has"] == false && none["last"] == 3, "{none}");

    let server = cell.chunkserver_at(servers.last().expect("some")).expect("one of ours");
    cell.chunkservers[server].kill();
    let (code, told) = has(&cell, &["/s", lost, "2"]);
    assert!(told["has"] == true && told["readable"] == false, "{told}");
    let range = ["offset", "end"].map(|side| told["unreadable"][side].as_u64().expect("told"));
    assert!((range[0]..range[1]).contains(&place) && [6, 7].contains(&code), "{code}: {told}");
    let done = cell.run(["has", "--deadline", "2", "/s", lost, "2"]);
    let says = "it is committed, of epoch ";
    assert!(done.stderr.contains(says) && done.stderr.contains("cannot be read"), "{done:?}");
    cell.ok(["has", "--committed", "/s", lost, "2"]);
    // What lies beside it is not taken for lost.
    let (code, told) = has(&cell, &["/s", kept, "2"]);
    assert!(code == 0 && told["readable"] == true, "{told}");
    cell.chunkservers[server].restart().expect("starts again");
    await_until("it can be read again", || has(&cell, &["/s", lost, "2"]).0 == 0);
}

#[test]
fn a_stream_of_one_extent_is_divided_where_records_begin() {
    let cell = cell_with_stream(3);
    let lines = lines_of("p", 1000);
    cell.ok_with(["append", "--producer", "p", "/s"], text_of(&lines).as_bytes());
    runtime().block_on(async {
        let client = client(cell.address()).await;
        let stream = client.open_stream(&path("/s")).await.expect("opens");
        let extents = stream.extents(0).await.expect("tells").extents;
        assert_eq!(extents.len(), 1, "what one producer writes into a chunk is one run");
        let splits = stream.splits(4).await.expect("divides");
        assert_eq!(splits.len(), 4, "{splits:?}");
        let quarter = stream.length().await.expect("tells") / 4;
        let mut read = Vec::new();
        for split in &splits {
            let size = split.end - split.offset;
            assert!((quarter / 8 * 7..quarter / 8 * 10).contains(&size), "{splits:?}");
            let mut records = stream.records_of(*split);
            while let Some(record) = records.next().await.expect("reads") {
                assert!((split.offset..split.end).contains(&record.offset));
                read.push(String::from_utf8(record.payload.to_vec()).expect("text"));
            }
        }
        assert_eq!(read, lines, "each once, in order");
    });
}

#[test]
fn a_record_that_is_too_large_leaves_nothing_behind_and_bundles_part_where_they_are_full() {
    let cell = cell_with_stream(3);
    let lines: Vec<String> = (0..8).map(|nth| format!("{nth} {}", "w".repeat(1500))).collect();
    runtime().block_on(async {
        let client = client(cell.address()).await;
        // Nothing goes by itself before it is flushed, but for what does not fit a bundle.
        let linger = std::time::Duration::from_secs(60);
        let options = ProducerOptions { bundle_size: 4096, linger, ..ProducerOptions::default() };
        let producer = client.open_producer(&path("/s"), "p", options).await.expect("opens");
        let mut pending = Vec::new();
        for line in &lines {
            pending.push(producer.enqueue(line.as_bytes()).await.expect("takes"));
            let large = producer.enqueue(&[7; 5000]).await.expect_err("more than a bundle");
            assert_eq!(
                (large.code(), large.outcome()),
                (ErrorCode::RecordTooLarge, Outcome::Refused)
            );
        }
        producer.flush().await.expect("commits");
        for (pending, number) in pending.into_iter().zip(1..) {
            assert_eq!(pending.await.expect("is there").number, number);
        }
        producer.close().await.expect("closes");
    });
    assert_eq!(cell.ok(["cat", "/s"]), text_of(&lines));
}

#[test]
fn a_fenced_program_is_told_what_is_there_and_a_stream_takes_no_writes_at_an_offset() {
    let cell = cell_with_stream(3);
    runtime().block_on(async {
        let client = client(cell.address()).await;
        let (stream, options) = (path("/s"), ProducerOptions::default());
        let first = client.open_producer(&stream, "p", options).await.expect("opens");
        let told = first.append_with_cursor(b"one", "c1".into()).await.expect("appends");
        assert_eq!((told.number, told.offset), (1, Some(0)));
        let second = client.open_producer(&stream, "p", options).await.expect("opens");
        let (number, cursor) = second.committed();
        assert_eq!((number, cursor.map(|it| it.text)), (1, Some("c1".into())));
        assert!(second.epoch() > first.epoch());
        let fenced = first.append(b"late").await.expect_err("fenced");
        assert_eq!(
            (fenced.code(), fenced.outcome()),
            (ErrorCode::ProducerFenced, Outcome::Refused)
        );
        let again = first.append(b"later").await.expect_err("it takes nothing more");
        assert_eq!(again.code(), ErrorCode::ProducerFenced);
        assert_eq!(second.append(b"two").await.expect("appends").number, 2);
        let file = client.open(&stream).await.expect("opens");
        for refused in [
            file.write_at(0, "x".into()).await.expect_err("no place for it"),
            file.append("x".into()).await.map(drop).expect_err("no producer"),
            file.sync().await.map(drop).expect_err("nothing to sync"),
        ] {
            assert_eq!((refused.code(), refused.outcome()), (ErrorCode::Invalid, Outcome::Refused));
        }
    });
    assert_eq!(cell.ok(["cat", "/s"]), "one\ntwo\n");
}

/// Producers that append until they are stopped.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

impl Load {
    /// Appends batches of lines under one name; what it was told is there.
    fn produce(&self, address: &str, name: String) -> (String, Vec<String>) {
        runtime().block_on(async {
            let client = client(address).await;
            let options = ProducerOptions::default();
            let opened = client.open_producer(&path("/s"), &name, options).await;
            let producer = opened.expect("opens");
            let mut written: Vec<String> = Vec::new();
            while !self.stop.load(Ordering::Relaxed) {
                let line = |at| format!("{name} {} {}", written.len() + at, "z".repeat(700));
                let lines: Vec<String> = (0..20).map(line).collect();
                let mut pending = Vec::new();
                for line in &lines {
                    pending.push(producer.enqueue(line.as_bytes()).await.expect("takes"));
                }
                for one in pending {
                    one.await.expect("within the deadline");
                    self.acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                written.extend(lines);
            }
            producer.close().await.expect("closes");
            (name, written)
        })
    }

    /// Waits until more is acknowledged, of what was asked for since too.
    fn await_more(&self) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        await_until("records are acknowledged", || {
            self.acknowledged.load(Ordering::Relaxed) > before + 200
        });
    }

    /// Three producers append while `meanwhile` is done; then all that was acknowledged is there.
    fn beside(cell: &mut Cell, meanwhile: impl FnOnce(&mut Cell, &Self)) {
        let (load, address) = (Self::default(), cell.address().to_owned());
        let wanted: BTreeMap<String, Vec<String>> = std::thread::scope(|scope| {
            let (load, address) = (&load, &address);
            let produce = |nth: usize| move || load.produce(address, format!("p{nth}"));
            let tasks: Vec<_> = (0..3).map(|nth| scope.spawn(produce(nth))).collect();
            load.await_more();
            meanwhile(cell, load);
            load.stop.store(true, Ordering::Relaxed);
            tasks.into_iter().map(|task| task.join().expect("no panic")).collect()
        });
        judge_lines(&cell.ok(["cat", "/s"]), &wanted);
        await_until("the cell is whole again", || cell.run(["status", "--check"]).status.success());
        judge_lines(&cell.ok(["cat", "/s"]), &wanted);
    }
}

#[test]
fn servers_and_masters_that_are_killed_meanwhile_cost_no_record_and_double_none() {
    let mut cell = cell_with_stream(4);
    Load::beside(&mut cell, |cell, load| {
        cell.chunkservers[0].kill();
        load.await_more();
        cell.chunkservers[0].restart().expect("starts again");
        cell.masters[0].kill();
        cell.masters[0].restart().expect("starts again");
        load.await_more();
        cell.chunkservers[1].kill();
        load.await_more();
        cell.chunkservers[1].restart().expect("starts again");
        load.await_more();
    });
}

#[test]
fn producers_go_on_with_the_next_master_where_the_one_in_charge_is_killed() {
    let mut cell = Cell::start_plan(3, |plan| plan.masters = MastersPlan::Group(3));
    cell.ok(["create", "--layout", "stream", "/s"]);
    Load::beside(&mut cell, |cell, load| {
        for _ in 0..2 {
            let before = cell.in_charge().expect("one is in charge");
            cell.masters[before].kill();
            load.await_more();
            cell.masters[before].restart().expect("starts again");
            load.await_more();
        }
    });
}
