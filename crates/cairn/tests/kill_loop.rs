//! kill -9 of any and all processes of a cell under append load, round after round; then every
//! acknowledged record must be there, once, and no record that nobody wrote.

mod cell;

use cairn_client::{Cell as Client, CreateOptions, Options};
use cairn_types::{CellPath, Content};
use cell::{Cell, await_until};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const WRITERS: u64 = 4;
/// Acknowledgements between one round's kills and the next one's.
const PROGRESS: u64 = 200;

/// What one writer knows: numbers below `next` were acknowledged, but for those in
/// `unknown`, whose answer never came.
#[derive(Default)]
struct Written {
    next: u64,
    unknown: Vec<u64>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("starts")
}

fn path() -> CellPath {
    CellPath::parse("/log").expect("a path")
}

fn options() -> Options {
    Options { deadline: Duration::from_secs(50), ..Options::default() }
}

fn record(writer: u64, number: u64) -> String {
    format!("{writer} {number} {}", "x".repeat((number % 700) as usize))
}

fn write(writer: u64, address: String, shared: Arc<Shared>) -> JoinHandle<Written> {
    std::thread::spawn(move || {
        runtime().block_on(async {
            let cell = Client::connect(&address, options()).await.expect("connects");
            let file = cell.open(&path()).await.expect("opens");
            let records = file.record_writer(&format!("writer-{writer}"));
            let mut written = Written::default();
            while !shared.stop.load(Ordering::Relaxed) {
                let record = record(writer, written.next);
                match records.append(record.as_bytes()).await {
                    Ok(_) => drop(shared.acknowledged.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => written.unknown.push(written.next),
                }
                written.next += 1;
            }
            written
        })
    })
}

/// How often each (writer, number) was delivered.
type Counts = BTreeMap<(u64, u64), u64>;

fn count(counts: &mut Counts, payload: &[u8]) {
    let text = str::from_utf8(payload).expect("text");
    let mut words = text.split(' ').map(|word| word.parse::<u64>().ok());
    let id = (words.next().flatten(), words.next().flatten());
    let (Some(writer), Some(number)) = id else { panic!("nobody wrote {text:?}") };
    assert_eq!(text, record(writer, number), "a record that was changed");
    *counts.entry((writer, number)).or_default() += 1;
}

/// Reads the file from its start to its end.
fn delivered(address: &str) -> Counts {
    runtime().block_on(async {
        let cell = Client::connect(address, options()).await.expect("connects");
        let mut records = cell.open(&path()).await.expect("opens").records(0);
        let mut counts = Counts::new();
        while let Some(found) = records.next().await.expect("reads") {
            count(&mut counts, &found.payload);
        }
        counts
    })
}

/// A reader that follows the file while it is written and servers die; ends with the process.
fn follow(address: String) -> Arc<Mutex<Counts>> {
    let counts = Arc::new(Mutex::new(Counts::new()));
    let shared = counts.clone();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let cell = Client::connect(&address, options()).await.expect("connects");
            let mut records = cell.open(&path()).await.expect("opens").records_follow(0);
            while let Some(found) = records.next().await.expect("follows") {
                count(&mut shared.lock().expect("nobody panicked"), &found.payload);
            }
        });
    });
    counts
}

/// Every record that was acknowledged once; every other that was sent, once at most; no other.
fn judge(who: &str, written: &[Written], counts: &Counts) {
    for (writer, written) in (0..).zip(written) {
        for number in 0..written.next {
            let count = counts.get(&(writer, number)).copied().unwrap_or(0);
            let fine = count == 1 || count == 0 && written.unknown.contains(&number);
            assert!(fine, "{who}: writer {writer}'s record {number} came {count} times");
        }
    }
    let wanted = |(writer, number): &(u64, u64)| *number < written[*writer as usize].next;
    assert!(counts.keys().all(wanted), "{who}: a record that nobody wrote");
}

/// Kills what is at these places of the cell, waits for `progress` where it must come without
/// them, and starts them again.
fn round(cell: &mut Cell, servers: &[usize], master: bool, progress: &dyn Fn()) {
    servers.iter().for_each(|number| cell.chunkservers[*number].kill());
    if master {
        cell.masters[0].kill();
        cell.masters[0].restart().expect("starts");
    }
    // Three of four hold a chunk: with two dead, one of the three at least is left.
    if servers.len() <= 1 {
        progress();
    }
    for number in servers {
        cell.chunkservers[*number].restart().expect("starts");
    }
    cell.await_live(cell.chunkservers.len()).expect("live");
    progress();
}

#[test]
fn no_acknowledged_record_is_lost_or_doubled_whatever_is_killed() {
    let settings = cell::SETTINGS.replace("chunk_size = 1048576", "chunk_size = 65536");
    let mut cell = Cell::start_with(4, &settings, None);
    runtime().block_on(async {
        let client = Client::connect(cell.address(), options()).await.expect("connects");
        let create = CreateOptions { content: Content::Records, ..CreateOptions::default() };
        client.create(&path(), create).await.expect("creates");
    });
    let shared = Arc::new(Shared::default());
    let start = |writer| write(writer, cell.address().to_owned(), shared.clone());
    let writers: Vec<_> = (0..WRITERS).map(start).collect();
    let followed = follow(cell.address().to_owned());
    let acknowledged = || shared.acknowledged.load(Ordering::Relaxed);
    let progress = || {
        let wanted = acknowledged() + PROGRESS;
        await_until("acknowledgements", || acknowledged() >= wanted);
    };
    progress();
    // Each server alone: one of them is the primary. Then more at once, and everything.
    let rounds: [(&[usize], bool); 9] = [
        (&[0], false),
        (&[1], false),
        (&[2], false),
        (&[3], false),
        (&[], true),
        (&[1], true),
        (&[0, 2], false),
        (&[0, 1, 2, 3], false),
        (&[0, 1, 2, 3], true),
    ];
    for (servers, master) in rounds {
        round(&mut cell, servers, master, &progress);
    }
    shared.stop.store(true, Ordering::Relaxed);
    let written: Vec<Written> =
        writers.into_iter().map(|writer| writer.join().expect("a writer panicked")).collect();
    judge("a reader afterwards", &written, &delivered(cell.address()));
    let total = acknowledged();
    await_until("the follower to come to the end", || {
        followed.lock().expect("the follower panicked").len() as u64 >= total
    });
    judge("the follower", &written, &followed.lock().expect("the follower panicked"));
}
