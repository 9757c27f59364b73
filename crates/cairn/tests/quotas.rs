//! How much may lie below a directory, as a person says it: `cairn quota`, against a cell of real
//! processes, with writers that do not stop by themselves (R36).

mod cell;

use cairn_client::{Cell as Client, CreateOptions, ErrorCode, Options, QuotaChange};
use cairn_types::{CellPath, Content, Identity};
use cell::row::{Row, judge};
use cell::{Cell, await_until, guide, patient, run};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CHUNK: u64 = 1 << 20;

/// Names and bytes that count in the quota of a directory.
fn used(cell: &Cell, path: &str) -> (u64, u64) {
    let quota = &cell.json(&["quota", path])["quotas"][0];
    assert_eq!(quota["path"], path);
    let number = |name: &str| quota[name].as_u64().expect("a number");
    (number("names"), number("bytes"))
}

fn path(text: &str) -> CellPath {
    CellPath::parse(text).expect("a path")
}

fn options() -> Options {
    Options { deadline: Duration::from_secs(50), ..Options::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("starts")
}

#[test]
fn every_command_of_the_guides_page_does_what_it_says() {
    let cell = Cell::start(3);
    let page = include_str!("../../../docs/guide/quotas.md");
    let mut blocks = guide::blocks(page, "sh").into_iter();
    let mut shown = guide::blocks(page, "text").into_iter();
    let mut next = || guide::shell(&cell, blocks.next().expect("one more"), &[]);
    let mut text = || shown.next().expect("one more");
    let told = next();
    assert!(told.starts_with(text()), "{told}");
    let refused = cell.run(["mkdir", "-p", "/home/anna/a/b/c/d"]);
    assert_eq!((refused.code(), refused.stderr.as_str()), (16, text()));
    let changed = next();
    assert!(changed.contains("/home/anna: changed"), "{changed}");
    assert_eq!(cell.json(&["quota", "/home/anna"])["quotas"][0]["path"], "/home");
    let told = next();
    assert!(told.contains("1 names and 100000 bytes of it are deleted"), "{told}");
    await_until("what is deleted once more counts no more", || used(&cell, "/home") == (2, 0));
    let sums = next();
    let size = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let sizes: Vec<String> = sums.lines().filter_map(size).collect();
    assert_eq!(sizes, ["4.9K", "4.9K"]);
    assert!(blocks.next().is_none(), "each block is judged here");
}

#[test]
fn small_files_fit_one_after_the_other_and_what_is_too_large_is_refused_at_once() {
    let cell = Cell::start(3);
    cell.ok(["mkdir", "/q"]);
    cell.ok(["quota", "set", "--bytes", "1300K", "/q"]);
    for number in 0..10 {
        let stored = run(cell.command(["put", "-", &format!("/q/f{number}")]), &[7; 20_000]);
        assert!(stored.status.success(), "{}", stored.stderr);
        assert_eq!(stored.stderr, "", "it has all its replicas");
    }
    assert_eq!(used(&cell, "/q"), (10, 200_000), "each is charged its length once it is closed");
    let large = vec![9; 3 << 20];
    let large = cell.file("large", &large);
    let refused = cell.run(["put", &large, "/q/large"]);
    assert_eq!(refused.code(), 16, "{}", refused.stderr);
    let limit = 1300 << 10;
    assert!(
        refused.stderr.contains(&format!("/q: its quota is {limit} bytes")),
        "{}",
        refused.stderr
    );
    await_until("what was not whole counts no more", || used(&cell, "/q") == (10, 200_000));
    for number in 0..10 {
        assert_eq!(cell.ok_with(["cat", &format!("/q/f{number}")], b""), [7; 20_000]);
    }
    let walked = cell.json(&["du", "/q"]);
    assert_eq!(cell.json(&["du", "-s", "/q"]), walked, "totals are what a walk finds");
    cell.ok(["mkdir", "/q/d"]);
    cell.ok(["quota", "set", "--names", "1", "/q/d"]);
    let row = |arguments: &[&str], code, says: &[&str]| {
        let done = cell.run(arguments);
        judge(&Row { what: &arguments.join(" "), done, code, says });
    };
    row(&["mkdir", "-p", "/q/d/e/f"], 16, &["/q/d: its quota is 1 names, 0 are in use, 2 more"]);
    row(&["quota", "/q/f2"], 5, &["a file"]);
    row(&["quota", "set", "--names", "3", "/none"], 3, &["/none"]);
    let nothing = cell.run(["quota", "set", "/q"]);
    assert_eq!(nothing.code(), 2);
    assert!(nothing.stderr.contains("neither --names nor --bytes"), "{}", nothing.stderr);
    assert_eq!(cell.run(["quota", "set", "--bytes", "much", "/q"]).code(), 2);
    cell.ok(["mv", "/q/f0", "/q/d"]);
    row(&["mv", "/q/f1", "/q/d"], 16, &["/q/d: its quota is 1 names, 1 are in use, 1 more"]);
}

/// What an appender was told: the records that were acknowledged, and why it ended.
fn append(address: &str, writer: u64) -> (Vec<String>, cairn_client::Error) {
    runtime().block_on(async {
        let cell = Client::connect(address, options()).await.expect("connects");
        let create =
            CreateOptions { content: Content::Records, or_open: true, ..Default::default() };
        let file = cell.create(&path("/q/log"), create).await.expect("opens");
        let records = file.record_writer(&format!("writer-{writer}"));
        let mut acknowledged = Vec::new();
        for number in 0.. {
            let record = format!("{writer} {number} {}", "x".repeat(1000 + number % 3000));
            match records.append(record.as_bytes()).await {
                Ok(_) => acknowledged.push(record),
                Err(error) => return (acknowledged, error),
            }
        }
        unreachable!("a quota ends it")
    })
}

#[test]
fn many_appenders_stop_at_the_quota_and_all_that_was_acknowledged_is_there() {
    const WRITERS: u64 = 24;
    let cell = Cell::start(3);
    let limit = 4 * CHUNK + CHUNK / 2;
    cell.ok(["mkdir", "/q"]);
    cell.ok(["quota", "set", "--bytes", &limit.to_string(), "/q"]);
    let over = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (over, address) = (Arc::clone(&over), cell.address().to_owned());
        std::thread::spawn(move || {
            runtime().block_on(async {
                let cell = Client::connect(&address, options()).await.expect("connects");
                let mut most = 0;
                while !over.load(Ordering::Relaxed) {
                    let told = cell.quota(&path("/q")).await.expect("told");
                    most = most.max(told.quotas[0].bytes);
                }
                most
            })
        })
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let address = cell.address().to_owned();
            std::thread::spawn(move || append(&address, writer))
        })
        .collect();
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        let (records, error) = writer.join().expect("it ends");
        assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error}");
        assert!(error.to_string().contains(&format!("/q: its quota is {limit} bytes")), "{error}");
        acknowledged.extend(records);
    }
    over.store(true, Ordering::Relaxed);
    let most = watcher.join().expect("it ends");
    assert!(most <= limit, "{most} of {limit}");
    assert!(most == 4 * CHUNK, "four chunks fit: {most}");
    let read: BTreeSet<String> = runtime().block_on(async {
        let cell = Client::connect(cell.address(), options()).await.expect("connects");
        let mut records = cell.open(&path("/q/log")).await.expect("opens").records(0);
        let mut read = BTreeSet::new();
        while let Some(found) = records.next().await.expect("reads") {
            read.insert(String::from_utf8(found.payload.to_vec()).expect("text"));
        }
        read
    });
    assert!(acknowledged.is_subset(&read), "{} of {}", read.len(), acknowledged.len());
    let bytes: usize = acknowledged.iter().map(String::len).sum();
    assert!(bytes as u64 > 3 * CHUNK, "{bytes} bytes were acknowledged");
}

#[test]
fn concurrent_creations_never_pass_the_quota_and_a_restarted_master_knows_it() {
    const LIMIT: u64 = 150;
    let mut cell = Cell::start(1);
    cell.ok(["mkdir", "/q"]);
    let change = QuotaChange { names: Some(LIMIT), ..QuotaChange::default() };
    runtime().block_on(async {
        let client = Client::connect(cell.address(), options()).await.expect("connects");
        client.set_quota(&path("/q"), change).await.expect("is set");
    });
    let makers: Vec<_> = (0..8)
        .map(|maker| {
            let address = cell.address().to_owned();
            std::thread::spawn(move || {
                runtime().block_on(async {
                    let cell = Client::connect(&address, options()).await.expect("connects");
                    for number in 0_u64.. {
                        let path = path(&format!("/q/{maker}-{number}"));
                        match cell.create(&path, CreateOptions::default()).await {
                            Ok(_) => {}
                            Err(error) => {
                                assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error}");
                                return number;
                            }
                        }
                    }
                    unreachable!("a quota ends it")
                })
            })
        })
        .collect();
    let made: u64 = makers.into_iter().map(|maker| maker.join().expect("it ends")).sum();
    assert_eq!((made, used(&cell, "/q")), (LIMIT, (LIMIT, 0)));
    cell.kill_all();
    cell.restart_all().expect("starts");
    assert_eq!(used(&cell, "/q"), (LIMIT, 0));
    assert_eq!(cell.run(["mkdir", "/q/more"]).code(), 16);
    cell.ok(["quota", "clear", "/q"]);
    cell.ok(["mkdir", "/q/more"]);
}

#[test]
fn who_may_only_read_a_file_takes_no_lease_from_its_writers_by_closing_it() {
    // It ends by being asked back alone.
    let settings = patient().replace("lease_ms = 1500", "lease_ms = 60000");
    let cell = Cell::start_with(1, &settings, None);
    cell.ok(["mkdir", "/q"]);
    cell.ok(["quota", "set", "--bytes", "1G", "/q"]);
    let reader = Identity { uid: 12_345, gid: 12_345, ..Identity::default() };
    runtime().block_on(async {
        let writes = Client::connect(cell.address(), options()).await.expect("connects");
        let reads = Options { identity: reader, ..options() };
        let reads = Client::connect(cell.address(), reads).await.expect("connects");
        let mode = CreateOptions { mode: Some(0o644), ..CreateOptions::default() };
        let file = writes.create(&path("/q/f"), mode).await.expect("creates");
        file.write_at(0, "x".into()).await.expect("writes");
        let lease = async || {
            let chunk = writes.chunks(&path("/q/f")).await.expect("is there").remove(0);
            (chunk.version, chunk.primary)
        };
        let before = lease().await;
        assert!(before.1.is_some(), "{before:?}");
        for _ in 0..3 {
            let file = reads.open(&path("/q/f")).await.expect("it may read");
            assert_eq!(file.read_at(0, 9).await.expect("reads"), "x");
            file.write_at(1, "y".into()).await.expect_err("it may not write");
            file.close().await.expect("whoever has read it may close it");
            assert_eq!(lease().await, before, "its writer goes on");
        }
        file.close().await.expect("closes");
        assert_eq!(lease().await.1, None, "what it is charged is given back at once");
    });
    assert_eq!(used(&cell, "/q").1, 1);
}
