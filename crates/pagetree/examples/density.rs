//! How many bytes an entry takes, and how fast entries go in and are found.
//!
//! `density [count] [style: spark|log|uuid|ids|all] [order: directories|mixed|sorted]`
//!
//! Directories of a thousand. `directories`: one after the other in random order of directories,
//! each from its first name to its last; `mixed`: all names in random order; `sorted`: all names
//! in order.

use cairn_pagetree::{FileId, LEAF_SIZE_MAX, Tree, checkpoint, multi_get, rewrite};
use std::sync::Arc;

const DIRECTORY_COUNT: u64 = 1000;
/// Keys that are looked up together.
const TOGETHER: usize = 8;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = usize::try_from(self.next() % (end as u64 + 1)).expect("an index");
            items.swap(end, other);
        }
    }
}

fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn put_uuid(seed: u64, out: &mut Vec<u8>) {
    let (high, low) = (mixed(seed), mixed(seed ^ 0x5555_5555));
    let digits = format!("{high:016x}{low:016x}");
    for (at, digit) in digits.bytes().enumerate() {
        if [8, 12, 16, 20].contains(&at) {
            out.push(b'-');
        }
        out.push(digit);
    }
}

/// The key of a file: its directory and its name.
fn put_key(style: &str, file: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    let (directory, number) = (file / DIRECTORY_COUNT, file % DIRECTORY_COUNT);
    out.clear();
    if style == "ids" {
        return out.extend_from_slice(&(3 << 40 | file).to_be_bytes());
    }
    out.extend_from_slice(&(directory * 7 + 3).to_be_bytes());
    let written = match style {
        "spark" => {
            let written = write!(out, "part-{number:05}-");
            put_uuid(directory, out);
            out.extend_from_slice(b"-c000.snappy.parquet");
            written
        }
        "log" => {
            let (day, hour, host) = (1 + number / 480, number / 20 % 24, number % 20 * 97 % 5000);
            write!(out, "2026-11-{day:02}T{hour:02}-host{host:04}.log.zst")
        }
        _ => {
            put_uuid(file ^ 0xabcd_0000_0000, out);
            Ok(())
        }
    };
    written.expect("a vector takes all");
}

/// A value as the namespace packs it: file id, time, length, owner and mode.
fn value(style: &str, file: u64) -> Vec<u8> {
    let [one, other] = [mixed(file), mixed(!file)].map(u64::to_le_bytes);
    match style {
        // Of a chunk: a few flags, and numbers near its own.
        "ids" => one[..5].to_vec(),
        _ => [&one[..], &other, &[0; 2]].concat(),
    }
}

/// Seconds that this thread has been on a core: others may have the machine too.
fn core_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
    nanoseconds.unwrap_or(0) as f64 / 1e9
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn order(style: &str, count: u64, order: &str) -> Vec<u32> {
    let files = u32::try_from(count).expect("fewer than 2^32 files");
    let mut order_of_files: Vec<u32> = (0..files).collect();
    let mut random = Random(42);
    if order == "mixed" {
        random.shuffle(&mut order_of_files);
    } else if order == "directories" {
        let mut directories: Vec<&[u32]> = order_of_files.chunks(1000).collect();
        random.shuffle(&mut directories);
        order_of_files = directories.concat();
    } else if order == "sorted" {
        order_of_files.sort_by_cached_key(|file| {
            let mut key = Vec::new();
            put_key(style, u64::from(*file), &mut key);
            key
        });
    }
    order_of_files
}

fn build(style: &str, files: &[u32]) -> Tree {
    let (mut tree, mut key) = (Tree::new(), Vec::new());
    for file in files {
        put_key(style, u64::from(*file), &mut key);
        tree.insert(&key, &value(style, u64::from(*file))).expect("nothing is stored");
    }
    tree
}

/// A function of its own, so that its instructions can be counted
/// (`valgrind --tool=callgrind --toggle-collect='*look_up*'`).
#[inline(never)]
fn look_up<'a>(tree: &'a Tree, key: &[u8]) -> Option<&'a [u8]> {
    tree.get(key).expect("nothing is stored")
}

/// How long it takes to look up files, so many at a time.
fn look_up_together(tree: &Tree, style: &str, files: &[u32]) -> f64 {
    let mut keys = vec![Vec::new(); TOGETHER];
    let start = core_seconds();
    for files in files.chunks_exact(TOGETHER) {
        for (key, file) in keys.iter_mut().zip(files) {
            put_key(style, u64::from(*file), key);
        }
        for (file, found) in files.iter().zip(multi_get(tree, &keys)) {
            assert_eq!(found, Ok(Some(&value(style, u64::from(*file))[..])));
        }
    }
    core_seconds() - start
}

fn measure(style: &str, order_name: &str, count: u64) {
    let mut files = order(style, count, order_name);
    let before = resident_bytes();
    let start = core_seconds();
    let tree = build(style, &files);
    let insert_seconds = core_seconds() - start;
    let resident = resident_bytes().saturating_sub(before);
    assert_eq!(tree.len(), count);

    let looked_up = count.min(2_000_000);
    Random(7).shuffle(&mut files);
    let mut key = Vec::new();
    let start = core_seconds();
    for file in files.iter().cycle().take(2_000_000) {
        put_key(style, u64::from(*file), &mut key);
        std::hint::black_box(&key);
    }
    let key_seconds = (core_seconds() - start) / 2_000_000.0;
    let start = core_seconds();
    for file in &files[..usize::try_from(looked_up).expect("an index")] {
        put_key(style, u64::from(*file), &mut key);
        assert_eq!(look_up(&tree, &key), Some(&value(style, u64::from(*file))[..]));
    }
    let look_up_seconds = (core_seconds() - start) - key_seconds * looked_up as f64;
    let insert_seconds = insert_seconds - key_seconds * count as f64;
    let together_seconds =
        look_up_together(&tree, style, &files[..usize::try_from(looked_up).expect("an index")]);
    let together_seconds = together_seconds - key_seconds * looked_up as f64;

    let start = core_seconds();
    let mut range = tree.range(&[]);
    let mut walked = 0;
    while let Some((key, _)) = range.advance().expect("nothing is stored") {
        walked += u64::from(!key.is_empty());
    }
    let walk_seconds = core_seconds() - start;
    assert_eq!(walked, count);

    let usage = tree.usage();
    let per_entry = |bytes: u64| bytes as f64 / count as f64;
    let fill = usage.leaf_bytes as f64 / (usage.leaf_pages * LEAF_SIZE_MAX as u64) as f64;
    println!(
        "{style:5} {order_name:11} {count}: leaves {:.1} inner {:.2} memory {:.1} VmRSS {:.1} \
         B/entry, leaf fill {:.0} %, insert {:.0}/s, look-up {:.2} M/s, {TOGETHER} together {:.2} \
         M/s, walk {:.1} M/s",
        per_entry(usage.leaf_bytes),
        per_entry(usage.inner_bytes),
        per_entry(usage.memory_bytes()),
        per_entry(resident),
        fill * 100.0,
        count as f64 / insert_seconds,
        looked_up as f64 / look_up_seconds / 1e6,
        looked_up as f64 / together_seconds / 1e6,
        count as f64 / walk_seconds / 1e6,
    );
    measure_stored(style, tree, &files);
}

/// Inserts under snapshots, checkpoints, and look-ups in a file just opened.
fn measure_stored(style: &str, mut tree: Tree, files: &[u32]) {
    let mut key = Vec::new();
    let mut replace = |tree: &mut Tree, snapshot_every: usize| {
        let start = core_seconds();
        let mut snapshot = tree.clone();
        for (at, file) in files.iter().take(100_000).enumerate() {
            if at % snapshot_every == 0 {
                snapshot = tree.clone();
            }
            put_key(style, u64::from(*file), &mut key);
            tree.insert(&key, &value(style, u64::from(!*file))).expect("nothing is stored");
        }
        drop(snapshot);
        100_000.0_f64.min(files.len() as f64) / (core_seconds() - start)
    };
    let rates = [1, 100].map(|every| replace(&mut tree, every));
    let mut bytes = Vec::new();
    let start = core_seconds();
    let (file, made) = rewrite(&tree, &mut bytes, 1, &[]).expect("memory");
    let rewrite_seconds = core_seconds() - start;
    replace(&mut tree, usize::MAX);
    let again = checkpoint(&tree, file, &mut bytes, 2, &[]).expect("memory");
    let stored_bytes = made.bytes_written as f64 / tree.len() as f64;
    drop(tree);
    let opened = Tree::open(Arc::new(bytes), FileId::fresh(), &again.record).expect("just made");
    let mut rates_stored = [0.0; 2];
    for rate in &mut rates_stored {
        let start = core_seconds();
        for file in files {
            put_key(style, u64::from(*file), &mut key);
            assert!(opened.get(&key).expect("just made").is_some());
        }
        *rate = files.len() as f64 / (core_seconds() - start) / 1e6;
    }
    println!(
        "      snapshot at each insert {:.0}/s, at each 100th {:.0}/s; rewrite {:.1} B/entry in \
         {rewrite_seconds:.2} s, after 100000 changes {:.1} MB more; opened, first look-ups \
         {:.2} M/s, then {:.2} M/s (with making names)",
        rates[0],
        rates[1],
        stored_bytes,
        again.bytes_written as f64 / 1e6,
        rates_stored[0],
        rates_stored[1],
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(1_000_000, |count| count.parse().expect("a count"));
    let style = arguments.next().unwrap_or_else(|| "all".to_owned());
    let order = arguments.next();
    let orders = ["directories", "mixed", "sorted"];
    for one in
        ["spark", "log", "uuid", "ids"].into_iter().filter(|one| style == "all" || *one == style)
    {
        for order in orders.into_iter().filter(|one| order.as_ref().is_none_or(|o| o == one)) {
            measure(one, order, count);
        }
    }
}
