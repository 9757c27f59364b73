//! Streams that somebody has exclusively, on real processes: ranges are replaced whole or not at
//! all, by one at a time (R46).

mod cell;

use bytes::Bytes;
use cairn_client::{ExclusiveOptions, Outcome, ProducerOptions};
use cairn_protocol::ErrorCode;
use cell::library::{client, path, runtime};
use cell::row::{Row, judge};
use cell::{Cell, Finished, KilledOnDrop, await_until, feed, run};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// A cell with a stream of bytes at `/s`, which has these in two extents at least.
fn cell_with(bytes: &[u8]) -> Cell {
    let cell = Cell::start(3);
    cell.ok(["create", "--layout", "stream", "--content", "bytes", "/s"]);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    cell.ok_with(["append", "--producer", "p", "/s"], first);
    cell.ok_with(["append", "--producer", "q", "/s"], second);
    cell
}

/// `replace` whose stdin the test feeds.
fn replacing(cell: &Cell, arguments: &[&str]) -> KilledOnDrop {
    let mut command = cell.command([&["replace"], arguments].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    KilledOnDrop(command.spawn().expect("starts"))
}

/// Whether somebody has it now.
fn is_taken(cell: &Cell) -> bool {
    let done = run(cell.command(["replace", "--offset", "9", "/s"]), b"9");
    done.code() == 7
}

#[test]
fn bytes_are_replaced_by_as_many_and_a_snapshot_keeps_the_old() {
    let mut cell = cell_with(b"aaaa\nbbbb\ncccc\n");
    cell.ok(["cp", "/s", "/before"]);
    let told = cell.ok_with(["replace", "-v", "--offset", "3", "/s"], b"X\nYYYY\nZ");
    let told = String::from_utf8(told).expect("text");
    assert!(told.contains("8 bytes replaced"), "{told}");
    let new = "aaaX\nYYYY\nZccc\n";
    assert_eq!(cell.ok(["cat", "/s"]), new);
    assert_eq!(cell.ok(["cat", "/before"]), "aaaa\nbbbb\ncccc\n");
    cell.ok_with(["append", "--producer", "p", "/s"], b"dddd\n");
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts again");
    assert_eq!(cell.ok(["cat", "/s"]), format!("{new}dddd\n"));
    // Of what is replaced as a whole nothing is left but the new chunk.
    cell.ok(["rm", "/before"]);
    let before = cell.json(&["stat", "--chunks", "/s"])["chunk_count"].clone();
    cell.ok_with(["replace", "--offset", "0", "/s"], "x".repeat(new.len() + 5).as_bytes());
    let stat = cell.json(&["stat", "--chunks", "/s"]);
    assert_eq!(stat["chunks"].as_array().map(Vec::len), Some(1), "{stat}, before {before}");
    assert_eq!(stat["length"], new.len() + 5);
    let names = cell.ok(["--json", "producers", "/s"]);
    assert_eq!(names.lines().count(), 2, "who replaces is no producer: {names}");
    await_until("the others are garbage", || cell.run(["status", "--check"]).status.success());
}

#[test]
fn what_cannot_be_replaced_is_told_in_one_line() {
    let cell = cell_with(b"0123456789");
    cell.ok(["create", "--layout", "stream", "/records"]);
    cell.ok_with(["put", "-", "/plain"], b"x\n");
    let replace = |arguments: &[&str], stdin: &[u8]| {
        run(cell.command([&["replace"], arguments].concat()), stdin)
    };
    let rows: [(&str, Finished, i32, &[&str]); 6] = [
        (
            "past the end",
            replace(&["--offset", "8", "/s"], b"abc"),
            2,
            &["3 bytes at 8 of a stream that is 10 bytes long"],
        ),
        ("nothing", replace(&["--offset", "0", "/s"], b""), 2, &["the input is empty"]),
        (
            "records",
            replace(&["--offset", "0", "/records"], b"x"),
            2,
            &["a stream of records, which stand for ever"],
        ),
        (
            "no stream",
            replace(&["--offset", "0", "/plain"], b"x"),
            2,
            &["/plain is no stream", "cairn create --layout stream"],
        ),
        ("not there", replace(&["--offset", "0", "/none"], b"x"), 3, &["/none"]),
        ("no offset", replace(&["/s"], b"x"), 2, &["--offset"]),
    ];
    for (what, done, code, says) in rows {
        judge(&Row { what, done, code, says });
    }
    assert_eq!(cell.ok(["cat", "/s"]), "0123456789");
}

#[test]
fn one_at_a_time_has_it_and_producers_wait_or_are_told_as_they_choose() {
    let cell = cell_with(b"0123456789");
    runtime().block_on(async {
        let (one, other) = (client(cell.address()).await, client(cell.address()).await);
        let stream = path("/s");
        let mut first = one.open_exclusive(&stream, Default::default()).await.expect("opens");
        let second = other.open_exclusive(&stream, Default::default()).await;
        let refused = second.expect_err("another has it");
        assert_eq!(
            (refused.code(), refused.outcome()),
            (ErrorCode::StreamLocked, Outcome::NotDone)
        );
        let told = ProducerOptions { fails_if_locked: true, ..Default::default() };
        let told = other.open_producer(&stream, "told", told).await.expect("opens");
        let error = told.append(b"told").await.expect_err("is told");
        assert_eq!((error.code(), error.outcome()), (ErrorCode::StreamLocked, Outcome::NotDone));
        let waits = other.open_producer(&stream, "waits", Default::default()).await;
        let waits = waits.expect("opens");
        let pending = waits.enqueue(b"end").await.expect("takes");
        // It goes on for longer than a lease without a word of its own.
        let began = std::time::Instant::now();
        let lease = Duration::from_millis(1500);
        await_until("more than a lease is over", || began.elapsed() > lease + lease / 2);
        first.replace(2, Bytes::from_static(b"xyz")).await.expect("replaces");
        let number = first.fencing_number();
        let waiting = ExclusiveOptions { waits: true, ..Default::default() };
        let next = tokio::spawn({
            let (other, stream) = (other.clone(), stream.clone());
            async move { other.open_exclusive(&stream, waiting).await }
        });
        first.close().await.expect("closes");
        let next = next.await.expect("no panic").expect("opens");
        assert!(next.fencing_number() > number, "a fence is higher each time");
        drop(next);
        pending.await.expect("who waited is committed");
    });
    assert_eq!(cell.ok(["cat", "/s"]), "01xyz56789end");
}

#[test]
fn a_holder_that_is_killed_is_waited_for_and_one_that_slept_is_fenced() {
    let cell = cell_with(b"0123456789");
    let killed = replacing(&cell, &["--wait", "--offset", "0", "/s"]);
    await_until("it has the stream", || is_taken(&cell));
    drop(killed);
    let done = run(cell.command(["replace", "--wait", "--offset", "0", "/s"]), b"next");
    assert!(done.status.success(), "{}", done.stderr);
    assert_eq!(cell.ok(["cat", "/s"]), "next456789");
    let mut slept = replacing(&cell, &["--wait", "--offset", "0", "/s"]);
    await_until("it has the stream", || is_taken(&cell));
    let pid = rustix::process::Pid::from_child(&slept.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("stops it");
    let done = run(cell.command(["replace", "--wait", "--offset", "1", "/s"]), b"EXT");
    assert!(done.status.success(), "{}", done.stderr);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("wakes it");
    feed(&mut slept.0, b"late");
    drop(slept.0.stdin.take());
    let said = slept.0.wait().expect("ends by itself");
    let mut text = String::new();
    let mut stderr = slept.0.stderr.take().expect("piped");
    std::io::Read::read_to_string(&mut stderr, &mut text).expect("text");
    assert_eq!(said.code(), Some(17), "{text}");
    assert!(text.contains("its lease ran out"), "{text}");
    assert_eq!(cell.ok(["cat", "/s"]), "nEXT456789");
}

#[test]
fn readers_see_a_range_as_it_was_or_as_it_is_and_never_both() {
    const SIZE: usize = 96 << 10;
    const ROUNDS: u8 = 60;
    let mut cell = cell_with(&[0; 3 * SIZE]);
    let (stop, address) = (AtomicBool::new(false), cell.address().to_owned());
    let reads = std::thread::scope(|scope| {
        let read = || {
            runtime().block_on(async {
                let client = client(&address).await;
                let (mut reads, mut last) = (0, 0);
                let mut file = client.open(&path("/s")).await.expect("opens");
                while !stop.load(Ordering::Relaxed) {
                    let got = file.read_at(SIZE as u64, SIZE as u64).await.expect("reads");
                    let first = got[0];
                    assert!(got.len() == SIZE && got.iter().all(|it| *it == first), "a mixture");
                    assert!(first >= last, "{first} is read where {last} was seen (R44)");
                    (reads, last) = (reads + 1, first);
                    if reads % 7 == 0 {
                        file = client.open(&path("/s")).await.expect("opens");
                    }
                }
                reads
            })
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        runtime().block_on(async {
            let client = client(&address).await;
            let mut stream =
                client.open_exclusive(&path("/s"), Default::default()).await.expect("opens");
            for round in 1..=ROUNDS {
                let bytes = Bytes::from(vec![round; SIZE]);
                stream.replace(SIZE as u64, bytes).await.expect("replaces");
                if round == ROUNDS / 2 {
                    cell.chunkservers[0].kill();
                }
            }
            stream.close().await.expect("closes");
        });
        stop.store(true, Ordering::Relaxed);
        readers.map(|reader| reader.join().expect("no panic"))
    });
    assert!(reads.iter().all(|count| *count > 5), "{reads:?}");
    let all = cell.run(["cat", "/s"]).stdout;
    let rest = [vec![0; SIZE], vec![ROUNDS; SIZE], vec![0; SIZE]].concat();
    assert!(all == rest, "the last is there, and nothing else has changed");
}

/// Runs it in this thread, without a runtime.
fn park_until<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn without_a_runtime_of_tokio_it_is_opened_waited_for_and_let_go_of_as_with_one() {
    let cell = cell_with(b"aaaa\nbbbb\n");
    let [one, other] = [(); 2].map(|()| park_until(client(cell.address())));
    let (stream, at_once) = (path("/s"), ExclusiveOptions::default());
    let mut first = park_until(one.open_exclusive(&stream, at_once)).expect("nobody has it");
    assert!(is_taken(&cell));
    let waits = thread::spawn(move || {
        let options = ExclusiveOptions { waits: true, ..ExclusiveOptions::default() };
        park_until(async {
            let mut mine = other.open_exclusive(&path("/s"), options).await.expect("opens");
            mine.replace(5, "BBBB".into()).await.expect("replaces");
            mine.close().await.expect("closes");
        });
    });
    park_until(first.replace(0, "AAAA".into())).expect("replaces");
    park_until(first.close()).expect("closes");
    waits.join().expect("no panic");
    assert_eq!(cell.ok(["cat", "/s"]), "AAAA\nBBBB\n");
}
