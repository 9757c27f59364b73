//! What a checkpoint costs on this disk: writing it, going on from it, starting from it, and what
//! the flushes of an operation log beside it wait meanwhile.
//!
//! ```sh
//! cargo run --release -p cairn-env-os --example checkpoint_cost -- DIRECTORY [ENTRIES]
//! ```

#![allow(clippy::unwrap_used, reason = "a benchmark that fails has failed")]

use cairn_env::{Disk, OpenMode};
use cairn_env_os::OsDisk;
use cairn_pagetree::{RootRecord, Tree, checkpoint};
use cairn_store::{Checkpoints, MappedPages, PageFileLimits, WrittenCheckpoint, WrittenImage};
use cairn_types::{CellId, LogIndex, Random, Term};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CELL: CellId = CellId::new(1);
/// Bytes of an append to the log.
const APPEND_SIZE: usize = 4096;

fn key(number: u64) -> Vec<u8> {
    let (directory, file) = (number / 1000, number % 1000);
    format!("{directory:08}/part-{file:05}-{directory:032x}-c000.snappy.parquet").into_bytes()
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    println!("{what:<42} {:>10.1} ms", ms(start.elapsed()));
    result
}

fn write(checkpoints: &mut Checkpoints, tree: &Tree, index: u64) -> WrittenCheckpoint {
    let written = checkpoints.write(Term::new(1), LogIndex::new(index), |file, writer| {
        let record = checkpoint(tree, file, writer, index, &[])?.record;
        Ok(WrittenImage { live_bytes: record.live_bytes, root: record.encode() })
    });
    let written = written.unwrap();
    checkpoints.remove_older().unwrap();
    written
}

fn adopt(tree: &mut Tree, pages: Option<MappedPages>) {
    let Some(pages) = pages else { return println!("{:<42} {:>10}", "  (does not pay yet)", "") };
    let before = tree.clone();
    timed("  the live tree reads from the file", || tree.adopt(pages.backing, pages.file).unwrap());
    timed("  its memory is freed", || drop(before));
}

/// Appends and flushes as an operation log does while `work` runs; tells what it waited.
fn beside_a_log<T>(disk: &Arc<dyn Disk>, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let flush = || {
        let file = disk.open("log", OpenMode::Create).unwrap();
        file.allocate(256 << 20).unwrap();
        file.sync().unwrap();
        let (mut waited, mut end) = (Vec::new(), 0);
        while !over.load(Ordering::Relaxed) || waited.len() < 100 {
            let start = Instant::now();
            file.write_at(&[7; APPEND_SIZE], end % (256 << 20)).unwrap();
            file.sync().unwrap();
            waited.push(start.elapsed());
            end += APPEND_SIZE as u64;
        }
        waited.sort_unstable();
        waited
    };
    thread::scope(|scope| {
        let log = scope.spawn(flush);
        let result = work();
        over.store(true, Ordering::Relaxed);
        let waited = log.join().unwrap();
        let at = |permille: usize| ms(waited[(waited.len() - 1) * permille / 1000]);
        println!(
            "  {} flushes of a log beside it: median {:.2} ms, p99 {:.2} ms, most {:.2} ms",
            waited.len(),
            at(500),
            at(990),
            at(1000)
        );
        result
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let count = arguments.next().map_or(1_000_000, |count| count.parse().expect("a number"));
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(&directory).unwrap());
    let mut checkpoints =
        Checkpoints::open(Arc::clone(&disk), CELL, PageFileLimits::standard()).unwrap();
    let random = &mut Random::new(1);
    let mut tree = Tree::new();
    timed(&format!("{count} entries"), || {
        for number in 0..count {
            tree.insert(&key(number), &[1; 18]).unwrap();
        }
    });
    beside_a_log(&disk, || thread::sleep(Duration::from_secs(2)));

    let snapshot = tree.clone();
    let written = beside_a_log(&disk, || {
        timed("a whole checkpoint", || write(&mut checkpoints, &snapshot, 1))
    });
    println!("  {} MB", written.size / 1_000_000);
    drop(snapshot);
    adopt(&mut tree, written.to_adopt);

    for (index, changes) in [(2, 1000), (3, 10_000)] {
        for _ in 0..changes {
            tree.insert(&key(random.below(count)), &random.next_u128().to_le_bytes()).unwrap();
        }
        let snapshot = tree.clone();
        let written = beside_a_log(&disk, || {
            let what = format!("a checkpoint of {changes} scattered changes");
            timed(&what, || write(&mut checkpoints, &snapshot, index))
        });
        println!("  {} KB", written.size / 1000);
        drop(snapshot);
        adopt(&mut tree, written.to_adopt);
    }

    drop((tree, checkpoints));
    let tree = timed("a start: found, mapped, opened", || {
        let checkpoints =
            Checkpoints::open(Arc::clone(&disk), CELL, PageFileLimits::standard()).unwrap();
        let newest = checkpoints.list().unwrap()[0];
        let found = checkpoints.load(newest).unwrap().unwrap();
        let record = RootRecord::decode(&found.root.root).unwrap();
        Tree::open(found.mapped.backing, found.mapped.file, &record).unwrap()
    });
    timed("  the first look-up", || tree.get(&key(count / 2)).unwrap().is_some());
    timed("  10 000 more", || {
        for _ in 0..10_000 {
            assert!(tree.contains(&key(random.below(count))).unwrap());
        }
    });
}
