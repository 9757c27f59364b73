//! Logs read back: files found, their batches decoded, one life of a server after the other.
//!
//! - RD1: what is torn or damaged is passed over; what is of another kind or of a later build is
//!   refused by name.
//! - RD2: a life is read file by file, a batch at a time: memory holds one file of each.
//! - RD3: what names a life is the microsecond of its start and the directory of its files: servers
//!   that are started together are told apart, and copies of one log count once.

use crate::entry::{LogWriter, LoggedEntry, LoggedLink, RpcEntry, What};
use bytes::Bytes;
use cairn_format::{
    BatchReader, FormatError, RPC_LOG_DIRECTORY, RPC_LOG_EXTENSION, RpcLogEntry, RpcLogHeader,
};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How deep below a directory that is named logs are looked for: a cell's directory, its servers',
/// their logs.
const DEPTH_MAX: usize = 3;
/// Bytes of a file's beginning by which a copy of it is known.
const BEGINNING_SIZE: u64 = 4 << 10;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing there.
    #[error("no diagnostic log in {0}")]
    NoLog(String),
    /// The system does not let us.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// Which file or directory.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// Not a log of this format.
    #[error("{path}: {error}")]
    Strange {
        /// Which file.
        path: String,
        /// What is wrong.
        error: FormatError,
    },
}

impl ReadError {
    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoLog(_) => {
                "name a server's data directory, or files of the rpclog directory in it; a server \
                 that runs with --rpclog-size none writes none"
            }
            Self::Unreadable { .. } => "name a path that is there and that you may read",
            Self::Strange { error: FormatError::Version { .. }, .. } => {
                "read it with the build that wrote it, or a later one"
            }
            Self::Strange { .. } => "name files of a server's rpclog directory",
        }
    }
}

/// One life of one server: its files, or batches that were in its memory.
#[derive(Debug)]
pub struct ServerLife {
    files: VecDeque<PathBuf>,
    batches: VecDeque<Bytes>,
    entries: VecDeque<LoggedEntry>,
    links: BTreeMap<u64, Arc<LoggedLink>>,
    damaged: u64,
}

/// The lives that the files at these paths tell of, each once.
///
/// # Errors
/// [`ReadError`], for the first path that is none.
pub fn open(paths: &[PathBuf]) -> Result<Vec<ServerLife>, ReadError> {
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        find(path, DEPTH_MAX, &mut files)?;
        if files.len() == before {
            return Err(ReadError::NoLog(path.display().to_string()));
        }
    }
    let mut lives: BTreeMap<(u64, PathBuf), FilesOfLife> = BTreeMap::new();
    let mut damaged = 0;
    for path in files {
        match begin_of(&path)? {
            FileBegin::Log(header, file) => {
                let whole = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                let directory = whole.parent().unwrap_or(&whole).to_owned();
                lives.entry((header.run, directory)).or_default().insert(header.number, file);
            }
            FileBegin::Damaged => damaged += 1,
            FileBegin::Nothing => {}
        }
    }
    let lives = without_copies(lives).into_iter();
    let mut lives: Vec<_> = lives
        .map(|files| ServerLife::of_files(files.into_values().map(|file| file.path).collect()))
        .collect();
    if damaged > 0 {
        lives.push(ServerLife { damaged, ..ServerLife::of_batches(Vec::new()) });
    }
    Ok(lives)
}

/// A file of a log.
struct LogFile {
    path: PathBuf,
    size: u64,
    /// Its first bytes.
    beginning: Vec<u8>,
}

/// A life's files by their numbers.
type FilesOfLife = BTreeMap<u64, LogFile>;

impl LogFile {
    /// Whether one of the two is the other, as it is or as it was when it was shorter.
    fn is_copy_of(&self, other: &Self) -> bool {
        self.beginning.starts_with(&other.beginning) || other.beginning.starts_with(&self.beginning)
    }
}

/// Each life once, whoever copied it (RD3).
fn without_copies(lives: BTreeMap<(u64, PathBuf), FilesOfLife>) -> Vec<FilesOfLife> {
    let mut kept: Vec<(u64, FilesOfLife)> = Vec::new();
    for ((run, _), files) in lives {
        let is_known = |(number, file): (&u64, &LogFile), known: &FilesOfLife| {
            known.get(number).is_some_and(|known| known.is_copy_of(file))
        };
        let same = kept
            .iter_mut()
            .find(|(other, known)| *other == run && files.iter().any(|file| is_known(file, known)));
        let Some((_, known)) = same else {
            kept.push((run, files));
            continue;
        };
        for (number, file) in files {
            if known.get(&number).is_none_or(|known| known.size < file.size) {
                known.insert(number, file);
            }
        }
    }
    kept.into_iter().map(|(_, files)| files).collect()
}

/// All files of logs at a path.
fn find(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ReadError> {
    let unreadable = |error| ReadError::Unreadable { path: path.display().to_string(), error };
    let told = fs::metadata(path).map_err(unreadable)?;
    if !told.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut below = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        below.push(entry.map_err(unreadable)?.path());
    }
    below.sort();
    let is_log = |path: &PathBuf| path.extension().is_some_and(|it| it == RPC_LOG_EXTENSION);
    let mut own = below.iter().filter(|path| is_log(path)).cloned().peekable();
    if own.peek().is_some() {
        files.extend(own);
        return Ok(());
    }
    let log = path.join(RPC_LOG_DIRECTORY);
    if log.is_dir() {
        return find(&log, 0, files);
    }
    for directory in below.iter().filter(|path| depth > 0 && path.is_dir()) {
        // What cannot be looked into on the way is not what was named.
        match find(directory, depth - 1, files) {
            Ok(()) | Err(ReadError::Unreadable { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How a file begins.
enum FileBegin {
    /// As one of a log.
    Log(RpcLogHeader, LogFile),
    /// As one whose header is torn or damaged (RD1).
    Damaged,
    /// With nothing: its writer was ended before it had a header, or it has gone since it was
    /// listed.
    Nothing,
}

fn begin_of(path: &Path) -> Result<FileBegin, ReadError> {
    use std::io::Read;
    let shown = || path.display().to_string();
    let mut beginning = Vec::new();
    let read = fs::File::open(path).and_then(|file| {
        let size = file.metadata()?.len();
        file.take(BEGINNING_SIZE).read_to_end(&mut beginning)?;
        Ok(size)
    });
    let size = match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileBegin::Nothing),
        Err(error) => return Err(ReadError::Unreadable { path: shown(), error }),
        Ok(_) if beginning.is_empty() => return Ok(FileBegin::Nothing),
        Ok(size) => size,
    };
    match RpcLogHeader::decode(&beginning) {
        Ok(header) => {
            Ok(FileBegin::Log(header, LogFile { path: path.to_owned(), size, beginning }))
        }
        Err(FormatError::Checksum) => Ok(FileBegin::Damaged),
        Err(FormatError::Truncated) if RpcLogHeader::may_begin(&beginning) => {
            Ok(FileBegin::Damaged)
        }
        Err(error) => Err(ReadError::Strange { path: shown(), error }),
    }
}

impl ServerLife {
    fn of_files(files: VecDeque<PathBuf>) -> Self {
        Self { files, ..Self::of_batches(Vec::new()) }
    }

    /// Of batches that were told by the server itself, or by a test.
    #[must_use]
    pub fn of_batches(batches: Vec<Bytes>) -> Self {
        let mut life = Self {
            files: VecDeque::new(),
            batches: VecDeque::new(),
            entries: VecDeque::new(),
            links: BTreeMap::new(),
            damaged: 0,
        };
        life.add_batches(batches);
        life
    }

    /// More of them; connections that were told of before are remembered.
    pub fn add_batches(&mut self, batches: Vec<Bytes>) {
        // A connection may be told of behind what went by it: so these first.
        for batch in &batches {
            self.learn_links(batch);
        }
        self.batches.extend(batches);
    }

    /// Batches that could not be read, wholly or in part.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The next entry.
    ///
    /// # Errors
    /// A file that was there cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<LoggedEntry>, ReadError> {
        loop {
            if let Some(entry) = self.entries.pop_front() {
                return Ok(Some(entry));
            }
            if let Some(batch) = self.batches.pop_front() {
                self.decode(&batch);
            } else if let Some(path) = self.files.pop_front() {
                self.load(&path)?;
            } else {
                return Ok(None);
            }
        }
    }

    fn load(&mut self, path: &Path) -> Result<(), ReadError> {
        let raw = match fs::read(path) {
            Ok(raw) => Bytes::from(raw),
            // The oldest may have gone since they were listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                let path = path.display().to_string();
                return Err(ReadError::Unreadable { path, error });
            }
        };
        let Ok(header) = RpcLogHeader::decode(&raw) else {
            self.damaged += 1;
            return Ok(());
        };
        let batches = header.batches(&raw).into_iter().map(|batch| raw.slice_ref(batch));
        self.add_batches(batches.collect());
        Ok(())
    }

    fn learn_links(&mut self, batch: &Bytes) {
        let Ok(reader) = BatchReader::open(batch) else { return };
        for (_, entry) in reader.flatten() {
            if let RpcLogEntry::Link(line) = entry {
                let link = LoggedLink {
                    number: line.link,
                    is_dialled: line.is_dialled,
                    role: line.role,
                    server: line.server,
                    local: line.local.to_owned(),
                    peer: line.peer.to_owned(),
                };
                let known = self.links.get(&line.link);
                if known.is_none_or(|known| **known != link) {
                    self.links.insert(line.link, Arc::new(link));
                }
            }
        }
    }

    fn decode(&mut self, batch: &Bytes) {
        let Ok(reader) = BatchReader::open(batch) else {
            self.damaged += 1;
            return;
        };
        let head = reader.head();
        let writer =
            LogWriter { run: head.run, role: head.role, server: head.server, cell: head.cell };
        for entry in reader {
            let Ok((at_us, entry)) = entry else {
                self.damaged += 1;
                return;
            };
            let what = match entry {
                RpcLogEntry::Link(_) => continue,
                RpcLogEntry::Event { level, text } => What::Event { level, text: text.to_owned() },
                RpcLogEntry::Dropped(count) => What::Dropped(count),
                RpcLogEntry::Rpc(line) => What::Rpc(RpcEntry {
                    way: line.way,
                    link: line.link,
                    other: self.links.get(&line.link).cloned(),
                    request: line.request,
                    rpc: line.rpc,
                    is_failure: line.is_failure,
                    message_size: line.message_size,
                    payload_size: line.payload_size,
                    duration_us: line.duration_us,
                    message: line.message.map(|message| batch.slice_ref(message)),
                }),
            };
            self.entries.push_back(LoggedEntry { at_us, life: 0, writer, what });
        }
    }
}

/// The entries of several lives, in the order of their times.
#[derive(Debug)]
pub struct Merged {
    lives: Vec<(Option<LoggedEntry>, ServerLife)>,
}

impl Merged {
    /// Of these lives.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn new(lives: Vec<ServerLife>) -> Result<Self, ReadError> {
        let mut begun = Vec::new();
        for mut life in lives {
            begun.push((life.next_entry()?, life));
        }
        Ok(Self { lives: begun })
    }

    /// The next entry of all.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<LoggedEntry>, ReadError> {
        let heads = self.lives.iter_mut().enumerate().filter(|(_, (head, _))| head.is_some());
        let next = heads.min_by_key(|(_, (head, _))| head.as_ref().map(|entry| entry.at_us));
        let Some((number, (head, life))) = next else { return Ok(None) };
        let entry = head.take();
        *head = life.next_entry()?;
        Ok(entry.map(|entry| LoggedEntry { life: number, ..entry }))
    }

    /// Batches that could not be read, so far.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.lives.iter().map(|(_, life)| life.damaged()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{FileBegin, Merged, ReadError, begin_of, open};
    use crate::entry::{ROLE_CHUNKSERVER, ROLE_MASTER, What};
    use crate::test_log::TestLog;
    use cairn_format::{FormatError, RpcLogHeader};
    use std::fs;
    use std::path::Path;

    /// Writes the first file of a life to this directory, with this many entries.
    fn write(directory: &Path, run: u64, (server, role): (u64, u8), count: u64) {
        let mut log = TestLog::new(server, role);
        (1..=count).for_each(|number| log.drop_entries(number));
        let header = RpcLogHeader { run, number: 1 };
        let mut raw = header.encode();
        header.put_batch(&log.batch(), &mut raw);
        fs::create_dir_all(directory).expect("makes");
        fs::write(directory.join("1.rpclog"), raw).expect("writes");
    }

    /// How many entries there are at these paths, of how many lives, and what is damaged.
    fn read(paths: &[&Path]) -> (u64, usize, u64) {
        let paths: Vec<_> = paths.iter().map(|path| path.to_path_buf()).collect();
        let mut merged = Merged::new(open(&paths).expect("reads")).expect("reads");
        let (mut count, mut lives) = (0, std::collections::BTreeSet::new());
        while let Some(entry) = merged.next_entry().expect("reads") {
            assert!(matches!(entry.what, What::Dropped(_)));
            count += 1;
            lives.insert(entry.life);
        }
        (count, lives.len(), merged.damaged())
    }

    #[test]
    fn files_whose_headers_are_torn_or_damaged_are_passed_over_and_counted() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = |name: &str| scratch.path().join(name);
        write(scratch.path(), 7, (1, ROLE_MASTER), 3);
        let mut raw = RpcLogHeader { run: 7, number: 2 }.encode();
        fs::write(at("2.rpclog"), &raw[..20]).expect("writes");
        raw[20] ^= 1;
        fs::write(at("3.rpclog"), &raw).expect("writes");
        fs::write(at("4.rpclog"), "").expect("writes");
        assert_eq!(read(&[scratch.path()]), (3, 1, 2));
        fs::write(at("5.rpclog"), "short").expect("writes");
        let error = open(&[scratch.path().to_owned()]).expect_err("of another kind");
        assert!(matches!(error, ReadError::Strange { error: FormatError::Truncated, .. }));
    }

    #[test]
    fn a_file_that_went_since_it_was_listed_is_nothing() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        assert!(matches!(begin_of(&scratch.path().join("gone.rpclog")), Ok(FileBegin::Nothing)));
    }

    #[test]
    fn servers_that_were_started_together_are_told_apart_and_copies_count_once() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let [one, two, copy] = ["one", "two", "copy"].map(|name| scratch.path().join(name));
        write(&one, 7, (1, ROLE_MASTER), 3);
        write(&two, 7, (2, ROLE_CHUNKSERVER), 4);
        assert_eq!(read(&[&one, &two]), (7, 2, 0));
        let raw = fs::read(one.join("1.rpclog")).expect("reads");
        fs::create_dir(&copy).expect("makes");
        fs::write(copy.join("1.rpclog"), &raw).expect("writes");
        assert_eq!(read(&[scratch.path(), &one, &one.join("1.rpclog")]), (7, 2, 0));
        // One that was taken before the batch was there is the same life as well.
        fs::write(copy.join("1.rpclog"), &raw[..80]).expect("writes");
        assert_eq!(read(&[&one, &copy]), (3, 1, 0));
        assert_eq!(read(&[&copy, &one]), (3, 1, 0));
    }
}
