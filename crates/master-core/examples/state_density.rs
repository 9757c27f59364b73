//! How many bytes a file and a chunk take in the master's state, and what records and look-ups
//! cost.
//!
//! `state_density [count] [style: spark|log|uuid|all]`
//!
//! Applies the records by which files of one chunk come to be (issue 3): directories of a thousand
//! in random order, 64 clients. Times are of this thread on its core.

use cairn_master_core::record::{
    AddDirectories, AddFile, FoundCell, NewDirectory, OpenChunk, SetLength,
};
use cairn_master_core::state::ROOT;
use cairn_master_core::{Applied, Record, State};
use cairn_pagetree::FileId;
use cairn_types::{
    CellConfig, CellId, CellPath, ChunkHandle, ChunkIndex, ChunkVersion, EntryId, LogIndex,
    MutationName, MutationNumber, Random, SessionId, Term, WallTime,
};
use std::sync::Arc;

const DIRECTORY_SIZE: u64 = 1000;
const SESSION_COUNT: u64 = 64;
const TERM: Term = Term::new(1);
/// Files that come to be in a millisecond.
const FILES_PER_MS: u64 = 25;
const START_MS: u64 = 1_795_000_000_000;

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

fn uuid(seed: u64) -> String {
    let mut random = Random::new(seed);
    let digits = format!("{:032x}", random.next_u128());
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// The name of a file, by its directory and its number there.
fn name(style: &str, directory: u64, number: u64) -> String {
    match style {
        "spark" => format!("part-{number:05}-{}-c000.snappy.parquet", uuid(directory)),
        "log" => {
            let (day, hour, host) = (1 + number / 480, number / 20 % 24, number % 20 * 97 % 5000);
            format!("2026-11-{day:02}T{hour:02}-host{host:04}.log.zst")
        }
        _ => uuid(directory << 20 | number),
    }
}

/// A master's history, without the master.
struct History {
    state: State,
    counter: u64,
    files: u64,
}

impl History {
    fn new() -> Self {
        let mut history = Self { state: State::default(), counter: 0, files: 0 };
        let (time, config) = (history.time(), CellConfig::standard());
        history.apply(&FoundCell { time, cell: CellId::new(1), config }.into());
        history
    }

    fn time(&self) -> WallTime {
        WallTime::from_millis(START_MS + self.files / FILES_PER_MS)
    }

    fn fresh(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn mutation(&mut self) -> MutationName {
        let number = self.fresh();
        let session = SessionId::new(u128::from(number % SESSION_COUNT + 1) << 64);
        let number = MutationNumber::new(number / SESSION_COUNT + 1);
        MutationName { session, number }
    }

    fn apply(&mut self, record: &Record) {
        let index = LogIndex::new(self.state.applied().get() + 1);
        let outcome = self.state.apply(index, TERM, record);
        assert!(!matches!(outcome, Applied::Failed(_)), "{outcome:?}");
    }

    fn make_directory(&mut self, parent: EntryId, name: String) -> EntryId {
        let (time, mutation) = (self.time(), self.mutation());
        let id = EntryId::of(TERM, self.fresh());
        let directories = vec![NewDirectory { id, name }];
        let add = AddDirectories { time, mutation, parent, directories, ..Default::default() };
        self.apply(&add.into());
        id
    }

    /// The records of one file.
    fn records(&mut self, parent: EntryId, name: String) -> [Record; 3] {
        let (time, mutation) = (self.time(), self.mutation());
        let id = EntryId::of(TERM, self.fresh());
        let replication = 3;
        let add = AddFile { time, mutation, parent, name, id, replication, ..Default::default() };
        let open = OpenChunk {
            time,
            file: id,
            index: ChunkIndex::default(),
            handle: ChunkHandle::of(TERM, self.fresh()),
            version: ChunkVersion::of(TERM, self.fresh()),
            set_size: 3,
            closes: None,
            floor: ChunkHandle::default(),
            charges: true,
        };
        let length = 1_000_000 + self.files % 60_000_000;
        self.files += 1;
        [add.into(), open.into(), SetLength { time, file: id, length, settles: true }.into()]
    }

    /// Makes files in a directory; answers the seconds of each kind of record.
    fn make_files(&mut self, parent: EntryId, names: Vec<String>) -> [f64; 3] {
        let files: Vec<[Record; 3]> =
            names.into_iter().map(|name| self.records(parent, name)).collect();
        let mut seconds = [0.0; 3];
        for (kind, seconds) in seconds.iter_mut().enumerate() {
            let start = core_seconds();
            files.iter().for_each(|file| self.apply(&file[kind]));
            *seconds = core_seconds() - start;
        }
        seconds
    }
}

fn measure(style: &str, count: u64) {
    let mut random = Random::new(42);
    let mut directories: Vec<u64> = (0..count.div_ceil(DIRECTORY_SIZE)).collect();
    for end in (1..directories.len()).rev() {
        let other = usize::try_from(random.below(end as u64 + 1)).expect("an index");
        directories.swap(end, other);
    }
    let before = resident_bytes();
    let mut history = History::new();
    let data = history.make_directory(ROOT, "data".to_owned());
    let mut seconds = [0.0; 3];
    for directory in &directories {
        let id = history.make_directory(data, format!("d{directory:05}"));
        // Some at a time are under way, as many clients would have them.
        for first in (0..DIRECTORY_SIZE).step_by(64) {
            let numbers = first..DIRECTORY_SIZE.min(first + 64);
            let names = numbers.map(|number| name(style, *directory, number)).collect();
            let of_these = history.make_files(id, names);
            seconds.iter_mut().zip(of_these).for_each(|(sum, one)| *sum += one);
        }
    }
    let resident = resident_bytes().saturating_sub(before);
    let files = history.state.file_count();
    let per_file = |bytes: u64| bytes as f64 / files as f64;
    let [create, open, length] = seconds.map(|seconds| seconds / files as f64 * 1e6);
    println!(
        "{style} {files}: {:.1} B resident a file with its chunk; create {create:.2} µs, open \
         chunk {open:.2} µs, set length {length:.2} µs",
        per_file(resident),
    );
    for (name, entries, usage) in history.state.usage() {
        println!(
            "  {name:9} {entries:9} entries: {:6.2} B a file, leaf fill {:.0} %",
            per_file(usage.memory_bytes()),
            usage.leaf_bytes as f64 / (usage.leaf_pages as f64 * 30.72),
        );
    }
    measure_reads(style, &history.state, &directories);
    measure_image(style, history.state, &directories);
}

fn measure_reads(style: &str, state: &State, directories: &[u64]) {
    let mut random = Random::new(9);
    let paths: Vec<CellPath> = (0..200_000)
        .map(|_| {
            let directory = random.pick(directories).expect("some");
            let name = name(style, *directory, random.below(DIRECTORY_SIZE));
            CellPath::parse(&format!("/data/d{directory:05}/{name}")).expect("a path")
        })
        .collect();
    let start = core_seconds();
    for path in &paths {
        std::hint::black_box(state.resolve(path).expect("there"));
    }
    let resolve = (core_seconds() - start) / paths.len() as f64 * 1e6;
    let start = core_seconds();
    for path in &paths {
        let id = state.resolve(path).expect("there");
        std::hint::black_box(state.describe(id, "").expect("there"));
        let handle = state.chunk_at(id, ChunkIndex::default()).expect("there");
        std::hint::black_box(state.chunk(handle).expect("there"));
    }
    let open = (core_seconds() - start) / paths.len() as f64 * 1e6;
    println!("  resolve {resolve:.2} µs; with entry, place and chunk {open:.2} µs");
}

fn measure_image(style: &str, mut state: State, directories: &[u64]) {
    let (mut bytes, file) = (Vec::new(), FileId::fresh());
    let start = core_seconds();
    let root = state.write_image(file, &mut bytes).expect("memory").root;
    let write = core_seconds() - start;
    let size = bytes.len();
    let start = core_seconds();
    let clone = state.clone();
    let cloned = (core_seconds() - start) * 1e6;
    drop(clone);
    let backing = Arc::new(bytes);
    let start = core_seconds();
    let opened = State::open_image(backing.clone(), FileId::fresh(), &root).expect("just made");
    let open = (core_seconds() - start) * 1e3;
    println!(
        "  image {:.1} B a file in {write:.2} s, opened in {open:.2} ms; a clone {cloned:.1} µs; \
         from the file:",
        size as f64 / state.file_count() as f64
    );
    measure_reads(style, &opened, directories);
    assert!(state.adopt_image(&(backing as _), file).is_some());
}

/// One directory of many names, listed.
fn measure_listing(style: &str, count: u64) {
    let mut history = History::new();
    let directory = history.make_directory(ROOT, "many".to_owned());
    for first in (0..count).step_by(64) {
        let names = (first..count.min(first + 64)).map(|number| name(style, 1, number)).collect();
        history.make_files(directory, names);
    }
    let (mut after, mut listed) = (String::new(), 0);
    let start = core_seconds();
    loop {
        let page: Vec<_> = history.state.list(directory, &after).take(1000).collect();
        let Some(last) = page.last() else { break };
        last.name.clone_into(&mut after);
        listed += page.len() as u64;
    }
    let seconds = core_seconds() - start;
    assert_eq!(listed, count);
    println!(
        "{style} one directory of {count}: listed in {:.3} µs a name",
        seconds / count as f64 * 1e6
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(1_000_000, |count| count.parse().expect("a count"));
    let style = arguments.next().unwrap_or_else(|| "all".to_owned());
    for one in ["spark", "log", "uuid"].into_iter().filter(|one| style == "all" || *one == style) {
        measure(one, count);
        measure_listing(one, count.min(1_000_000));
    }
}
