//! The files that a bench's master knows: how they are called, in which order they came, and what
//! their chunks are. Everything follows from the number of a file, so that no process has to be
//! told a list.
//!
//! ```text
//!   /fill/d000007/<name of file 7·1000 + 42>      file ─ chunk 0 ─ three replicas of sixteen
//! ```
//! - P1: directories come first; files then come directory by directory, the directories in random
//!   order, each from its first name to its last.
//! - P2: handles follow that order, as a master's would; names have nothing to do with it.

use cairn_master::SEED_TERM;
use cairn_master_core::Record;
use cairn_master_core::record::{
    AddDirectories, AddFile, NewDirectory, OpenChunk, RECORD_LEVEL, RaiseLevel, SetLength,
};
use cairn_protocol::ReplicaReport;
use cairn_types::{
    CellPath, ChunkHandle, ChunkIndex, ChunkVersion, Content, EntryId, MutationName,
    MutationNumber, Random, SerialNumber, SessionId, WallTime,
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Chunkservers that hold the chunks of a population.
pub(crate) const SERVERS: u64 = 16;
/// Replicas of each chunk.
pub(crate) const REPLICAS: u64 = 3;
/// When the first file came: 2026-11-21.
pub(crate) const BEGUN: WallTime = WallTime::from_millis(1_795_219_200_000);

/// Numbers that a file takes of its master's counter: its id, its handle, its version, and the
/// lease that it once had.
const NUMBERS: u64 = 4;

/// How files are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Naming {
    /// As Spark writes them: part-00042-UUID-c000.snappy.parquet, one UUID in each directory
    A,
    /// As logs are called: 2026-11-21T10-host0042.log.zst
    B,
    /// Random UUIDs
    C,
}

impl Naming {
    /// The name of file `index` of directory `directory`.
    pub(crate) fn name(self, directory: u64, index: u64) -> String {
        match self {
            Self::A => {
                format!("part-{index:05}-{}-c000.snappy.parquet", uuid(Random::new(directory)))
            }
            Self::B => {
                let (hour, days) = (directory % 24, directory / 24);
                let (day, month, year) = (days % 28 + 1, days / 28 % 12 + 1, 2026 + days / 336);
                format!("{year}-{month:02}-{day:02}T{hour:02}-host{index:04}.log.zst")
            }
            Self::C => uuid(Random::new(directory << 32 | index)),
        }
    }
}

/// A random UUID, as version 4 is written.
fn uuid(mut random: Random) -> String {
    let raw = random.next_u128() & !(0xf << 76 | 3 << 62) | 4 << 76 | 2 << 62;
    let (high, low) = ((raw >> 64) as u64, raw as u64);
    let (time_low, time_mid, time_high) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    let (clock, node) = (low >> 48, low & 0xffff_ffff_ffff);
    format!("{time_low:08x}-{time_mid:04x}-{time_high:04x}-{clock:04x}-{node:012x}")
}

/// So many files in directories of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Population {
    pub(crate) files: u64,
    pub(crate) per_directory: u64,
    pub(crate) naming: Naming,
    /// Each file has a chunk.
    pub(crate) chunks: bool,
}

impl Population {
    fn directories(&self) -> u64 {
        self.files.div_ceil(self.per_directory)
    }

    /// The path of a directory.
    pub(crate) fn directory(&self, directory: u64) -> CellPath {
        CellPath::parse(&format!("/fill/{}", directory_name(directory))).expect("made to be a path")
    }

    /// A directory of the population.
    pub(crate) fn any_directory(&self, random: &mut Random) -> CellPath {
        self.directory(random.below(self.directories()))
    }

    /// The path of a file.
    pub(crate) fn path(&self, file: u64) -> CellPath {
        let (directory, index) = (file / self.per_directory, file % self.per_directory);
        let name = self.naming.name(directory, index);
        self.directory(directory).join(&name).expect("made to be a name")
    }

    /// A file of the population.
    pub(crate) fn any_path(&self, random: &mut Random) -> CellPath {
        self.path(random.below(self.files))
    }

    /// The records that a master's log would have of it (P1).
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> + use<> {
        let (population, directories) = (*self, self.directories());
        let mut order: Vec<u64> = (0..directories).collect();
        let mut random = Random::new(self.files);
        for last in (1..order.len()).rev() {
            let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(last);
            order.swap(last, other);
        }
        let parent = AddDirectories {
            time: BEGUN,
            mutation: mutation(1),
            parent: cairn_master_core::state::ROOT,
            directories: vec![NewDirectory { id: fill_id(), name: "fill".to_owned() }],
            ..AddDirectories::default()
        };
        let made = (0..directories).map(add_directory);
        let filled = order.into_iter().flat_map(move |directory| population.filled(directory));
        let mut rank = 0;
        let filled = filled.flat_map(move |(directory, index)| {
            rank += 1;
            population.file_records(rank - 1, directory, index)
        });
        let last = self.last_record();
        // What this build keeps is kept from the start, as in a cell that it founded.
        let level = RaiseLevel { time: BEGUN, level: RECORD_LEVEL };
        let first = [Record::RaiseLevel(level), Record::AddDirectories(parent)];
        first.into_iter().chain(made).chain(filled).chain(last)
    }

    fn filled(self, directory: u64) -> impl Iterator<Item = (u64, u64)> {
        let rest = self.files - directory * self.per_directory;
        (0..rest.min(self.per_directory)).map(move |index| (directory, index))
    }

    fn file_records(self, rank: u64, directory: u64, index: u64) -> impl Iterator<Item = Record> {
        let (time, file) = (time_of(rank), file_id(rank));
        let add = AddFile {
            time,
            mutation: mutation(2 + self.directories() + rank),
            parent: directory_id(directory),
            name: self.naming.name(directory, index),
            id: file,
            content: Content::Bytes,
            replication: 3,
            ..AddFile::default()
        };
        let chunk = self.chunks.then(|| {
            let open = OpenChunk {
                time,
                file,
                index: ChunkIndex::default(),
                handle: handle(rank),
                version: version(rank),
                set_size: 3,
                closes: None,
                floor: ChunkHandle::default(),
                charges: true,
            };
            let length = SetLength { time, file, length: length(rank), settles: true };
            [Record::OpenChunk(open), Record::SetLength(length)]
        });
        std::iter::once(Record::AddFile(add)).chain(chunk.into_iter().flatten())
    }

    /// Comes so late that no outcome of a mutation is remembered any more: what is measured is
    /// names and chunks.
    fn last_record(self) -> Option<Record> {
        let time = WallTime::from_millis(time_of(self.files).as_millis() + 3_600_000);
        let file = file_id(self.files.checked_sub(1)?);
        Some(Record::SetLength(SetLength { time, file, length: 0, settles: false }))
    }

    /// What server `server` of [`SERVERS`] holds.
    pub(crate) fn replicas(&self, server: u64) -> impl Iterator<Item = ReplicaReport> + use<> {
        let ranks = if self.chunks { 0..self.files } else { 0..0 };
        ranks.filter(move |rank| holders(*rank).any(|holder| holder == server)).map(report)
    }
}

/// The servers that hold the chunk of the file that came `rank`-th.
fn holders(rank: u64) -> impl Iterator<Item = u64> {
    let first = Random::new(rank).below(SERVERS);
    // Steps that are odd and differ from chunk to chunk: any two servers share some chunks.
    let step = rank % (SERVERS / 2) * 2 + 1;
    (0..REPLICAS).map(move |replica| (first + replica * step) % SERVERS)
}

fn report(rank: u64) -> ReplicaReport {
    ReplicaReport {
        handle: handle(rank),
        version: version(rank),
        mutated_version: version(rank),
        serial: SerialNumber::new(1),
        length: length(rank),
        closed: false,
        suspect: false,
        acknowledged: length(rank),
        acknowledged_serial: SerialNumber::new(1),
    }
}

/// From nothing to a whole chunk.
fn length(rank: u64) -> u64 {
    Random::new(rank).next_u64() >> 38
}

fn time_of(rank: u64) -> WallTime {
    WallTime::from_millis(BEGUN.as_millis() + 2 * rank)
}

fn file_id(rank: u64) -> EntryId {
    EntryId::of(SEED_TERM, NUMBERS * (rank + FIRST_FILE))
}

fn handle(rank: u64) -> ChunkHandle {
    ChunkHandle::of(SEED_TERM, NUMBERS * (rank + FIRST_FILE) + 1)
}

fn version(rank: u64) -> ChunkVersion {
    ChunkVersion::of(SEED_TERM, NUMBERS * (rank + FIRST_FILE) + 2)
}

/// Directories, made before any file (P1), have the numbers below.
const FIRST_FILE: u64 = 1 << 24;

fn fill_id() -> EntryId {
    EntryId::of(SEED_TERM, 1)
}

fn directory_id(directory: u64) -> EntryId {
    EntryId::of(SEED_TERM, 2 + directory)
}

fn directory_name(directory: u64) -> String {
    format!("d{directory:06}")
}

fn add_directory(directory: u64) -> Record {
    let id = directory_id(directory);
    Record::AddDirectories(AddDirectories {
        time: BEGUN,
        mutation: mutation(2 + directory),
        parent: fill_id(),
        directories: vec![NewDirectory { id, name: directory_name(directory) }],
        ..AddDirectories::default()
    })
}

/// One client made it all.
fn mutation(number: u64) -> MutationName {
    MutationName { session: SessionId::new(7), number: MutationNumber::new(number) }
}

#[cfg(test)]
mod tests {
    use super::{Naming, Population, REPLICAS, SERVERS, holders};
    use cairn_master::SEED_TERM;
    use cairn_master_core::{Applied, State};
    use cairn_types::LogIndex;
    use std::collections::BTreeSet;

    fn population(naming: Naming) -> Population {
        Population { files: 250, per_directory: 100, naming, chunks: true }
    }

    #[test]
    fn names_are_as_the_issue_writes_them() {
        let shown = |naming: Naming| naming.name(10, 42);
        let spark = shown(Naming::A);
        assert!(spark.starts_with("part-00042-") && spark.ends_with("-c000.snappy.parquet"));
        assert_eq!(spark.len(), 67);
        assert_eq!(shown(Naming::B), "2026-01-01T10-host0042.log.zst");
        let random = shown(Naming::C);
        assert!(random.len() == 36 && random.as_bytes()[14] == b'4', "{random}");
        assert_ne!(Naming::C.name(10, 43), random);
    }

    #[test]
    fn every_record_applies_and_every_file_is_found_with_the_chunk_that_servers_report() {
        for naming in [Naming::A, Naming::B, Naming::C] {
            let population = population(naming);
            let mut state = State::default();
            for (index, record) in (1..).zip(population.records()) {
                let outcome = state.apply(LogIndex::new(index), SEED_TERM, &record);
                assert!(!matches!(outcome, Applied::Failed(_)), "{outcome:?}");
            }
            assert_eq!(state.file_count(), 250);
            let mut found = BTreeSet::new();
            for file in 0..250 {
                let id = state.resolve(&population.path(file)).expect("it is there");
                found.extend(state.last_chunk(id).map(|(_, handle)| handle));
            }
            let reported = (0..SERVERS).flat_map(|server| population.replicas(server));
            let reported: Vec<_> = reported.collect();
            assert_eq!(reported.len() as u64, 250 * REPLICAS);
            for report in reported {
                assert!(found.contains(&report.handle));
                assert_eq!(state.chunk(report.handle).map(|c| c.version), Some(report.version));
            }
        }
    }

    #[test]
    fn no_two_replicas_of_a_chunk_are_on_one_server() {
        for rank in 0..1000 {
            assert_eq!(holders(rank).collect::<BTreeSet<u64>>().len() as u64, REPLICAS);
        }
    }
}
