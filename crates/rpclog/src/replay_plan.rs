//! From a log to a plan: what clients did, in their order, as acts that another cell can be asked
//! for (GFS §5.3: "the logs also serve as traces for load testing").
//!
//! - RP1: chunk handles become files and offsets by what masters answered: which file a path is,
//!   which chunk is which part of it. A chunk that no log tells of is a file of its own.
//! - RP2: what clients look up to find chunks and leases is not an act: whoever reads and writes
//!   does it again by himself.
//! - RP3: what was there before the log began is prepared: directories, files, and bytes as far as
//!   they were read.
//!   A name under which something older cannot be made has its bytes under a name of its own.
//! - RP4: reads and mutations of chunks that failed are not acts: what came of them was tried
//!   again. Requests about names that failed are, and are to fail again.
//! - RP5: a chunk that several files have is that one's of which was told last before; where it is
//!   changed, that one's to which it was granted: another may have been made later.

use crate::breakdown::{asks_length, bytes_read};
use crate::entry::{RpcEntry, What};
use crate::nouns::asked_of_shadow;
use crate::older_names::{FileOf, OlderNames, ToldEntry};
use crate::reading::{Merged, ReadError};
use cairn_protocol::{
    BatchResult, ChunkLocations, Failure, Read, Request, Response, StatAnswer, Undelete,
};
use cairn_types::{CellPath, ChunkHandle, ChunkIndex, Entry, EntryId, EntryKind, PushId};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a chunk, where no log tells.
const CHUNK_SIZE_STANDARD: u64 = 64 << 20;

/// A file, as a plan names it: what its id was, or that of its only known chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanFile {
    /// Known by the master's log.
    Known(EntryId),
    /// Only a chunk of it is known.
    Chunk(ChunkHandle),
}

/// What is asked of the other cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayAct {
    /// Make a directory, with those above it or not.
    MakeDirectory(CellPath, bool),
    /// Make a file with so many replicas (zero: as the cell has it), or open it where it is there.
    Create(CellPath, Option<EntryId>, (u32, bool)),
    /// Open a file.
    Open(CellPath, Option<EntryId>),
    /// Ask what a path stands for.
    Stat(CellPath),
    /// List a directory.
    List(CellPath, u32),
    /// Search by a pattern.
    Find(CellPath, String, u32),
    /// Rename, replacing what is there or not.
    Rename(CellPath, CellPath, bool),
    /// Delete, with all below or not.
    Delete(CellPath, bool),
    /// Bring back what was deleted there last, or to another place.
    Undelete(CellPath, Option<CellPath>),
    /// Take a snapshot.
    Snapshot(CellPath, CellPath),
    /// Read bytes.
    Read(PlanFile, u64, u64),
    /// Write bytes.
    Write(PlanFile, u64, u64),
    /// Append bytes.
    Append(PlanFile, u64),
}

impl ReplayAct {
    /// What it is called where it is counted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::MakeDirectory(..) => "mkdir",
            Self::Create(..) => "create",
            Self::Open(..) => "open",
            Self::Stat(..) => "stat",
            Self::List(..) => "list",
            Self::Find(..) => "find",
            Self::Rename(..) => "rename",
            Self::Delete(..) => "delete",
            Self::Undelete(..) => "undelete",
            Self::Snapshot(..) => "snapshot",
            Self::Read(..) => "read",
            Self::Write(..) => "write",
            Self::Append(..) => "append",
        }
    }
}

/// An act with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayStep {
    /// When it was asked for, in microseconds since 1970.
    pub begin_us: u64,
    /// When it was answered.
    pub end_us: u64,
    /// It failed.
    pub failed: bool,
    /// What it was.
    pub act: ReplayAct,
}

/// A file that was there before, where, and how many bytes of it were read. None: nothing is asked
/// of it but by its path.
pub type OlderFile = (Option<PlanFile>, CellPath, u64);

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In the order in which they began.
    pub steps: Vec<ReplayStep>,
    /// Directories that were there before.
    pub directories: Vec<CellPath>,
    /// Files that were there before.
    pub files: Vec<OlderFile>,
    /// Requests that a plan does without (RP2, RP4), by name.
    pub left_out: BTreeMap<String, u64>,
    /// Entries that servers dropped.
    pub dropped: u64,
    /// Parts of the logs that could not be read.
    pub damaged: u64,
}

/// Where in a chunk something was done; of a read, how many bytes it gave.
#[derive(Clone, Copy)]
struct PlaceInChunk {
    handle: ChunkHandle,
    offset: u64,
    read: u64,
}

/// What an answer said of a chunk: several files have one since a snapshot (RP5).
struct ToldPart {
    at_us: u64,
    file: EntryId,
    index: ChunkIndex,
    /// It is who may change the chunk that was told.
    is_grant: bool,
}

/// A step with what its answer says.
struct DraftStep {
    step: ReplayStep,
    place: Option<PlaceInChunk>,
    told: Option<ToldEntry>,
}

/// What is learned on the way through the log.
#[derive(Default)]
struct Draft {
    steps: Vec<DraftStep>,
    /// By life, connection and number on it.
    open: BTreeMap<(usize, u64, u64), (u64, Request)>,
    /// In the order in which it was told.
    chunks: BTreeMap<ChunkHandle, Vec<ToldPart>>,
    /// What was deleted from where, by the path and by the hidden one.
    deleted: BTreeMap<CellPath, CellPath>,
    done: BTreeSet<PushId>,
    /// Reads that gave nothing, and were not asked again yet: life, connection, chunk, range.
    empty_reads: BTreeSet<(usize, u64, ChunkHandle, u64, u64)>,
    left_out: BTreeMap<String, u64>,
    chunk_size: Option<u64>,
}

impl Plan {
    /// Of all that these entries tell of clients.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(mut entries: Merged) -> Result<Self, ReadError> {
        let (mut draft, mut dropped) = (Draft::default(), 0);
        while let Some(entry) = entries.next_entry()? {
            match &entry.what {
                What::Rpc(rpc) if rpc.is_of_client() => {
                    draft.take((entry.life, entry.at_us), rpc);
                }
                What::Dropped(count) => dropped += count,
                What::Rpc(_) | What::Event { .. } => {}
            }
        }
        Ok(Self { dropped, damaged: entries.damaged(), ..draft.finish() })
    }

    /// When its first step began, and how long it took until the last was answered.
    #[must_use]
    pub fn span_us(&self) -> (u64, u64) {
        let first = self.steps.first().map_or(0, |step| step.begin_us);
        let last = self.steps.iter().map(|step| step.end_us).max().unwrap_or(first);
        (first, last.saturating_sub(first))
    }
}

impl Draft {
    fn take(&mut self, (life, at_us): (usize, u64), rpc: &RpcEntry) {
        let key = (life, rpc.link, rpc.request);
        if !rpc.way.is_reply() {
            match rpc.asked() {
                Some(request) => {
                    self.open.insert(key, (at_us, request));
                }
                None => self.leave_out(&rpc.name()),
            }
            return;
        }
        let Some((begin_us, request)) = self.open.remove(&key) else { return };
        let mut failed = rpc.is_failure;
        let (request, answer) = match (request, rpc.answered()) {
            (Request::AskShadow(ask), answer) => {
                let answer = match answer {
                    Some(Response::AskShadow(told)) => Some(Result::from(*told.word)),
                    _ => None,
                };
                failed |= matches!(answer, Some(Err(Failure { .. })));
                (asked_of_shadow(&ask.question), answer.and_then(Result::ok))
            }
            both => both,
        };
        let times = (begin_us, at_us, failed);
        let Request::Batch(batch) = request else {
            return self.answered(times, request, answer.as_ref(), (life, rpc));
        };
        let results = match answer {
            Some(Response::Batch(answer)) => answer.results,
            _ => Vec::new(),
        };
        let mut results = results.into_iter();
        for entry in batch.entries {
            let (failed, answer) = match results.next() {
                Some(BatchResult::Failed(_)) => (true, None),
                Some(result) => (false, answer_of(result)),
                None => (failed, None),
            };
            let times = (begin_us, at_us, failed);
            self.answered(times, Request::from(entry), answer.as_ref(), (life, rpc));
        }
    }

    fn leave_out(&mut self, name: &str) {
        *self.left_out.entry(name.to_owned()).or_default() += 1;
    }

    /// A request and its answer.
    fn answered(
        &mut self,
        times: (u64, u64, bool),
        request: Request,
        answer: Option<&Response>,
        (life, rpc): (usize, &RpcEntry),
    ) {
        self.learn(times.1, &request, answer);
        let is_failure = times.2;
        self.learn_deleted(&request, answer, is_failure);
        let told = told_by(answer);
        let id = told.map(|told| told.id);
        let none = PlanFile::Chunk(ChunkHandle::default());
        let (act, place) = match request {
            Request::MakeDirectory(it) => (ReplayAct::MakeDirectory(it.path, it.parents), None),
            Request::Create(it) => {
                (ReplayAct::Create(it.path, id, (it.replication, it.or_open)), None)
            }
            Request::Open(it) => (ReplayAct::Open(it.path, id), None),
            Request::Stat(it) => (ReplayAct::Stat(it.path), None),
            Request::List(it) => (ReplayAct::List(it.path, it.limit), None),
            Request::Find(it) => (ReplayAct::Find(it.root, it.pattern, it.limit), None),
            Request::Rename(it) => (ReplayAct::Rename(it.from, it.to, it.replace), None),
            Request::Delete(it) => (ReplayAct::Delete(it.path, it.recursive), None),
            Request::Undelete(it) if is_failure || self.deleted.contains_key(&it.path) => {
                (self.undelete(it), None)
            }
            Request::Snapshot(it) => (ReplayAct::Snapshot(it.from, it.to), None),
            Request::Read(it) if !is_failure && self.is_read_itself(&it, rpc, life) => {
                let read = bytes_read(&it, rpc);
                let place = PlaceInChunk { handle: it.handle, offset: it.offset, read };
                (ReplayAct::Read(none, 0, it.size), Some(place))
            }
            Request::Write(it) if !is_failure && self.done.insert(it.push) => {
                let place = PlaceInChunk { handle: it.handle, offset: it.offset, read: 0 };
                (ReplayAct::Write(none, 0, it.size), Some(place))
            }
            Request::Append(it) if !is_failure && self.done.insert(it.push) => {
                let place = PlaceInChunk { handle: it.handle, offset: 0, read: 0 };
                (ReplayAct::Append(none, it.size), Some(place))
            }
            other => return self.leave_out(other.name()),
        };
        let (begin_us, end_us, failed) = times;
        let step = ReplayStep { begin_us, end_us, failed, act };
        self.steps.push(DraftStep { step, place, told });
    }

    /// What was deleted can be brought back, there as here.
    fn learn_deleted(&mut self, request: &Request, answer: Option<&Response>, is_failure: bool) {
        let Request::Delete(it) = request else { return };
        if is_failure {
            return;
        }
        self.deleted.insert(it.path.clone(), it.path.clone());
        if let Some(Response::Delete(told)) = answer
            && let Ok(hidden) = CellPath::parse(&told.hidden)
        {
            self.deleted.insert(hidden, it.path.clone());
        }
    }

    /// A hidden name is another one there: so what is brought back goes by where it was.
    fn undelete(&self, asked: Undelete) -> ReplayAct {
        let from = self.deleted.get(&asked.path).cloned().unwrap_or(asked.path);
        ReplayAct::Undelete(from, asked.to)
    }

    /// Whether a read is one by itself: whoever looks a file up asks for its length, and who is
    /// given nothing asks once more to be sure (R19); both will do so again by themselves (RP2).
    fn is_read_itself(&mut self, read: &Read, reply: &RpcEntry, life: usize) -> bool {
        if asks_length(read, reply) {
            return false;
        }
        let key = (life, reply.link, read.handle, read.offset, read.size);
        bytes_read(read, reply) > 0
            || !self.empty_reads.remove(&key) && self.empty_reads.insert(key)
    }

    /// Which chunk is which part of a file (RP1).
    fn learn(&mut self, at_us: u64, request: &Request, answer: Option<&Response>) {
        let Some(answer) = answer else { return };
        match (request, answer) {
            (_, Response::Open(answer)) => self.learn_chunks(at_us, &answer.entry, &answer.chunks),
            (_, Response::Locate(answer)) => {
                self.learn_chunks(at_us, &answer.entry, &answer.chunks);
            }
            (_, Response::Stat(answer)) => {
                self.learn_chunks(at_us, &answer.entry, answer.last.as_deref());
            }
            (Request::Lease(lease), Response::Lease(grant)) => {
                let (file, index) = (lease.file, grant.index);
                self.learn_part(grant.handle, ToldPart { at_us, file, index, is_grant: true });
            }
            (_, Response::CellInfo(answer)) => self.chunk_size = Some(answer.config.chunk_size),
            _ => {}
        }
    }

    fn learn_chunks<'a>(
        &mut self,
        at_us: u64,
        entry: &Entry,
        chunks: impl IntoIterator<Item = &'a ChunkLocations>,
    ) {
        for chunk in chunks {
            let (file, index) = (entry.id, chunk.index);
            self.learn_part(chunk.handle, ToldPart { at_us, file, index, is_grant: false });
        }
    }

    fn learn_part(&mut self, handle: ChunkHandle, part: ToldPart) {
        let told = self.chunks.entry(handle).or_default();
        let says = |told: &ToldPart| (told.file, told.index, told.is_grant);
        if told.last().is_none_or(|last| says(last) != says(&part)) {
            told.push(part);
        }
    }

    /// Which part of which file a chunk was (RP5).
    fn part_of(&self, handle: ChunkHandle, begin_us: u64, changes: bool) -> Option<&ToldPart> {
        let told = self.chunks.get(&handle)?;
        let before = || told.iter().rev().filter(|part| part.at_us <= begin_us);
        let granted = || before().find(|part| part.is_grant).filter(|_| changes);
        granted().or_else(|| before().next()).or_else(|| told.first())
    }

    fn finish(mut self) -> Plan {
        let unanswered = std::mem::take(&mut self.open);
        for (_, request) in unanswered.into_values() {
            self.leave_out(request.name());
        }
        let mut steps = std::mem::take(&mut self.steps);
        steps.sort_by_key(|draft| draft.step.begin_us);
        let (mut prepared, mut names) = (Prepared::default(), OlderNames::default());
        for DraftStep { step, place, told } in &mut steps {
            if let Some(place) = place {
                self.settle(step, *place, &mut prepared);
            } else if !step.failed {
                names.follow(&step.act, *told);
            }
        }
        let (directories, files) = prepared.finish(&names);
        let steps = steps.into_iter().map(|draft| draft.step).collect();
        Plan { steps, directories, files, left_out: self.left_out, ..Plan::default() }
    }

    /// Puts the file and the offset in it in the place of a chunk and an offset in that.
    fn settle(&self, step: &mut ReplayStep, place: PlaceInChunk, prepared: &mut Prepared) {
        let chunk_size = self.chunk_size.unwrap_or(CHUNK_SIZE_STANDARD);
        let changes = !matches!(step.act, ReplayAct::Read(..));
        let (file, base) = match self.part_of(place.handle, step.begin_us, changes) {
            Some(part) => (PlanFile::Known(part.file), part.index.get().saturating_mul(chunk_size)),
            None => (PlanFile::Chunk(place.handle), 0),
        };
        let at = base.saturating_add(place.offset);
        match &mut step.act {
            ReplayAct::Read(to, offset, _) => {
                (*to, *offset) = (file, at);
                prepared.was_read(file, at, place.read);
            }
            ReplayAct::Write(to, offset, size) => {
                (*to, *offset) = (file, at);
                prepared.was_written(file, at.saturating_add(*size));
            }
            ReplayAct::Append(to, size) => {
                *to = file;
                prepared.was_appended(file, *size);
            }
            _ => {}
        }
    }
}

/// The file or directory that an answer tells of.
fn told_by(answer: Option<&Response>) -> Option<ToldEntry> {
    let told = |entry: &Entry, is_new| Some(ToldEntry { id: entry.id, kind: entry.kind, is_new });
    match answer? {
        Response::Create(it) => told(&it.entry, it.created),
        Response::Open(it) => told(&it.entry, false),
        Response::Stat(it) => told(&it.entry, false),
        Response::Snapshot(it) => told(&it.entry, true),
        _ => None,
    }
}

/// An entry's result in a batch, as the answer to a request of its own.
fn answer_of(result: BatchResult) -> Option<Response> {
    Some(match result {
        BatchResult::Failed(_) => return None,
        BatchResult::Stat(it) => {
            Response::Stat(StatAnswer { entry: it.entry, ..StatAnswer::default() })
        }
        BatchResult::MakeDirectory(it) => Response::MakeDirectory(it),
        BatchResult::Create(it) => Response::Create(it),
        BatchResult::Rename(it) => Response::Rename(it),
        BatchResult::Delete(it) => Response::Delete(it),
        BatchResult::Open(it) => Response::Open(it),
    })
}

/// What has to be there first (RP3).
#[derive(Default)]
struct Prepared {
    /// How far each file had bytes by what the log tells, and how far it must have had them before.
    written: BTreeMap<PlanFile, u64>,
    needed: BTreeMap<PlanFile, u64>,
}

impl Prepared {
    fn was_read(&mut self, file: PlanFile, at: u64, size: u64) {
        let written = self.written.get(&file).copied().unwrap_or(0);
        let needed = self.needed.entry(file).or_default();
        let end = at.saturating_add(size);
        if size > 0 && end > written {
            *needed = (*needed).max(end);
        }
    }

    fn was_written(&mut self, file: PlanFile, end: u64) {
        self.needed.entry(file).or_default();
        let written = self.written.entry(file).or_default();
        *written = (*written).max(end);
    }

    fn was_appended(&mut self, file: PlanFile, size: u64) {
        self.needed.entry(file).or_default();
        let needed = self.needed[&file];
        let written = self.written.entry(file).or_default();
        *written = (*written).max(needed).saturating_add(size);
    }

    /// The directories and files that are to be made.
    fn finish(self, names: &OlderNames) -> (Vec<CellPath>, Vec<OlderFile>) {
        let mut lengths: BTreeMap<&CellPath, u64> = BTreeMap::new();
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        for (file, length) in self.needed {
            let whence = match file {
                PlanFile::Known(id) => names.file(id),
                PlanFile::Chunk(_) => FileOf::Untold,
            };
            match whence {
                FileOf::Made => {}
                FileOf::Older(path) => {
                    let known = lengths.entry(path).or_default();
                    *known = (*known).max(length);
                }
                FileOf::Untold => files.push((Some(file), own_name(file), length)),
            }
        }
        let ids = names.by_name();
        for (path, kind) in names.older() {
            match kind {
                EntryKind::Directory => directories.push(path.clone()),
                EntryKind::File => {
                    let file = ids.get(path).map(|id| PlanFile::Known(*id));
                    let length = lengths.get(path).copied().unwrap_or(0);
                    files.push((file, path.clone(), length));
                }
            }
        }
        (directories, files)
    }
}

/// A file that the log knows no path of.
fn own_name(file: PlanFile) -> CellPath {
    let name = match file {
        PlanFile::Known(id) => format!("file-{id}"),
        PlanFile::Chunk(handle) => format!("chunk-{}", handle.short()),
    };
    CellPath::root().join(&name).expect("letters and digits are a name")
}

#[cfg(test)]
mod tests {
    use super::{Plan, PlanFile, ReplayAct};
    use crate::entry::{ROLE_CHUNKSERVER, ROLE_CLIENT, ROLE_MASTER};
    use crate::reading::Merged;
    use crate::test_log::TestLog;
    use cairn_format::RpcWay;
    use cairn_protocol::{
        Append, AppendAnswer, AskShadow, AskShadowAnswer, Batch, BatchAnswer, BatchEntry,
        BatchResult, ChunkGrant, ChunkLocations, Create, CreateAnswer, Delete, DeleteAnswer,
        ErrorCode, Failure, Lease, Looked, MakeDirectory, MakeDirectoryAnswer, Open, OpenAnswer,
        Read, ReadAnswer, Rename, RenameAnswer, Request, Response, ShadowQuestion, ShadowWord,
        Snapshot, SnapshotAnswer, Stat, StatAnswer, Status, Undelete, UndeleteAnswer, Write,
        WriteAnswer,
    };
    use cairn_types::{
        CellPath, ChunkHandle, ChunkIndex, Entry, EntryId, EntryKind, MutationNumber, PushId,
        SessionId,
    };

    fn path(text: &str) -> CellPath {
        CellPath::parse(text).expect("a path")
    }

    fn entry(id: u64) -> Entry {
        Entry { id: EntryId::new(id), ..Entry::default() }
    }

    fn push(number: u64) -> PushId {
        PushId { session: SessionId::new(1), number: MutationNumber::new(number) }
    }

    /// Of the logs of a master and a chunkserver, the second a while behind the first.
    fn plan(master: TestLog, server: TestLog) -> Plan {
        let merged = Merged::new(vec![master.life(), server.life()]).expect("reads");
        Plan::of(merged).expect("reads")
    }

    #[test]
    fn chunks_become_parts_of_the_files_that_the_master_said_they_are() {
        let mut master = TestLog::new(1, ROLE_MASTER);
        let client = master.link(ROLE_CLIENT);
        let create = Create { path: path("/a/new"), ..Create::default() };
        let answer = CreateAnswer { entry: entry(7), created: true };
        master.exchange(client, &create.into(), Ok((Response::Create(answer), 0)));
        let lease = Lease { file: EntryId::new(7), ..Lease::default() };
        let index = ChunkIndex::new(1);
        let grant = ChunkGrant { index, handle: ChunkHandle::new(70), ..ChunkGrant::default() };
        master.exchange(client, &lease.into(), Ok((Response::Lease(grant), 0)));
        master.exchange(client, &Status::default().into(), Err(Failure::default()));
        let mut server = TestLog::new(2, ROLE_CHUNKSERVER);
        let client = server.link(ROLE_CLIENT);
        server.set_time(2_000_000);
        let handle = ChunkHandle::new(70);
        let write = Write { handle, offset: 5, size: 10, push: push(1), ..Write::default() };
        let done = Ok((Response::Write(WriteAnswer::default()), 0));
        server.exchange(client, &write.clone().into(), done.clone());
        server.exchange(client, &write.into(), done);
        let stranger =
            Append { handle: ChunkHandle::new(9), size: 3, push: push(2), ..Append::default() };
        server.exchange(
            client,
            &stranger.into(),
            Ok((Response::Append(AppendAnswer::default()), 0)),
        );
        let plan = plan(master, server);
        let acts: Vec<_> = plan.steps.iter().map(|step| step.act.clone()).collect();
        let seven = PlanFile::Known(EntryId::new(7));
        let nine = PlanFile::Chunk(ChunkHandle::new(9));
        let expected = [
            ReplayAct::Create(path("/a/new"), Some(EntryId::new(7)), (0, false)),
            ReplayAct::Write(seven, (64 << 20) + 5, 10),
            ReplayAct::Append(nine, 3),
        ];
        assert_eq!(acts, expected);
        assert_eq!(plan.directories, [path("/a")]);
        assert_eq!(plan.files, [(Some(nine), path("/chunk-0-9"), 0)]);
        assert_eq!(plan.left_out["Lease"] + plan.left_out["Status"] + plan.left_out["Write"], 3);
    }

    /// A chunk that a snapshot shares: what was written before its copy was looked up went to the
    /// file that had the lease, and what was read after that is there by then.
    #[test]
    fn a_chunk_of_several_files_is_that_ones_of_which_was_told_before() {
        let handle = ChunkHandle::new(70);
        let mut master = TestLog::new(1, ROLE_MASTER);
        let client = master.link(ROLE_CLIENT);
        let lease = Lease { file: EntryId::new(7), ..Lease::default() };
        let grant = ChunkGrant { handle, ..ChunkGrant::default() };
        master.exchange(client, &lease.into(), Ok((Response::Lease(grant), 0)));
        master.set_time(4_000_000);
        let chunk = ChunkLocations { handle, ..ChunkLocations::default() };
        let answer = OpenAnswer { entry: entry(8), chunks: vec![chunk], ..OpenAnswer::default() };
        let open = Open { path: path("/copy"), ..Open::default() };
        master.exchange(client, &open.into(), Ok((Response::Open(answer), 0)));
        let mut server = TestLog::new(2, ROLE_CHUNKSERVER);
        let client = server.link(ROLE_CLIENT);
        let write =
            |number| Write { handle, size: 10, push: push(number), ..Write::default() }.into();
        let written = || Ok((Response::Write(WriteAnswer::default()), 0));
        server.set_time(2_000_000);
        server.exchange(client, &write(1), written());
        server.set_time(5_000_000);
        let read = Read { handle, size: 10, ..Read::default() };
        server.exchange(client, &read.into(), Ok((Response::Read(ReadAnswer::default()), 10)));
        server.exchange(client, &write(2), written());
        let acts = plan(master, server).steps.into_iter().map(|step| step.act);
        let [seven, eight] = [7, 8].map(|id| PlanFile::Known(EntryId::new(id)));
        let expected = [
            ReplayAct::Write(seven, 0, 10),
            ReplayAct::Open(path("/copy"), Some(EntryId::new(8))),
            ReplayAct::Read(eight, 0, 10),
            ReplayAct::Write(seven, 0, 10),
        ];
        assert_eq!(acts.collect::<Vec<_>>(), expected, "RP5");
    }

    #[test]
    fn what_was_read_and_not_written_before_was_there_and_failures_of_names_fail_again() {
        let mut master = TestLog::new(1, ROLE_MASTER);
        let client = master.link(ROLE_CLIENT);
        let open = |at: &str| Open { path: path(at), ..Open::default() };
        let chunk = ChunkLocations { handle: ChunkHandle::new(70), ..ChunkLocations::default() };
        let answer = OpenAnswer { entry: entry(7), chunks: vec![chunk], ..OpenAnswer::default() };
        master.exchange(client, &open("/old").into(), Ok((Response::Open(answer), 0)));
        let failure = Failure::refused(ErrorCode::NotFound, "no");
        master.exchange(client, &open("/x/none").into(), Err(failure));
        let mut server = TestLog::new(2, ROLE_CHUNKSERVER);
        let client = server.link(ROLE_CLIENT);
        server.set_time(2_000_000);
        let handle = ChunkHandle::new(70);
        let read = |offset, size| Read { handle, offset, size, ..Read::default() };
        let answer = |offset| Response::Read(ReadAnswer { offset, ..ReadAnswer::default() });
        server.exchange(client, &read(100, 50).into(), Ok((answer(100), 50)));
        server.exchange(client, &read(150, 50).into(), Ok((answer(150), 20)));
        server.exchange(client, &read(0, 9).into(), Err(Failure::default()));
        // Twice nothing is once nothing, and making sure of it.
        server.exchange(client, &read(500, 9).into(), Ok((answer(500), 0)));
        server.exchange(client, &read(500, 9).into(), Ok((answer(500), 0)));
        let plan = plan(master, server);
        let seven = PlanFile::Known(EntryId::new(7));
        assert_eq!(plan.files, [(Some(seven), path("/old"), 170)]);
        let failed: Vec<_> = plan.steps.iter().map(|step| step.failed).collect();
        assert_eq!(failed, [false, true, false, false, false]);
        assert_eq!(plan.left_out["Read"], 2);
        assert_eq!(plan.steps[3].act, ReplayAct::Read(seven, 150, 50));
        assert!(plan.directories.is_empty(), "what fails needs nothing: {:?}", plan.directories);
    }

    fn master_log(exchanges: Vec<(Request, Response)>) -> TestLog {
        let mut master = TestLog::new(1, ROLE_MASTER);
        let client = master.link(ROLE_CLIENT);
        for (request, response) in exchanges {
            master.exchange(client, &request, Ok((response, 0)));
        }
        master
    }

    fn open_of(at: &str, entry: Entry) -> (Request, Response) {
        let answer = OpenAnswer { entry, ..OpenAnswer::default() };
        (Open { path: path(at), ..Open::default() }.into(), Response::Open(answer))
    }

    fn moved(from: &str, to: &str) -> (Request, Response) {
        let rename = Rename { from: path(from), to: path(to), ..Rename::default() };
        (rename.into(), Response::Rename(RenameAnswer::default()))
    }

    #[test]
    fn names_that_the_log_only_looks_at_moves_or_removes_are_there_before_it() {
        let stat = Stat { path: path("/in/looked") };
        let directory = Entry { kind: EntryKind::Directory, ..entry(3) };
        let delete = Delete { path: path("/removed"), ..Delete::default() };
        let master = master_log(vec![
            (stat.into(), Response::Stat(StatAnswer { entry: entry(2), last: None })),
            open_of("/directory", directory),
            moved("/from", "/to"),
            (delete.into(), Response::Delete(DeleteAnswer::default())),
        ]);
        let plan = plan(master, TestLog::new(2, ROLE_CHUNKSERVER));
        assert_eq!(plan.directories, [path("/directory"), path("/in")]);
        let two = Some(PlanFile::Known(EntryId::new(2)));
        let expected =
            [(None, path("/from"), 0), (two, path("/in/looked"), 0), (None, path("/removed"), 0)];
        assert_eq!(plan.files, expected);
        assert!(plan.left_out.is_empty(), "{:?}", plan.left_out);
    }

    #[test]
    fn a_file_that_was_moved_into_a_directory_of_the_log_is_made_where_it_was_with_its_bytes() {
        let make = MakeDirectory { path: path("/out"), ..MakeDirectory::default() };
        let chunk = |handle| ChunkLocations {
            handle: ChunkHandle::new(handle),
            ..ChunkLocations::default()
        };
        let opened = |id, handle| OpenAnswer {
            entry: entry(id),
            chunks: vec![chunk(handle)],
            ..OpenAnswer::default()
        };
        let open = |at: &str| Open { path: path(at), ..Open::default() };
        let master = master_log(vec![
            (make.into(), Response::MakeDirectory(MakeDirectoryAnswer::default())),
            moved("/old", "/out/old"),
            (open("/out/old").into(), Response::Open(opened(7, 70))),
            // Nobody told of it: below what the log makes nothing can be made first.
            (open("/out/untold").into(), Response::Open(opened(8, 80))),
        ]);
        let mut server = TestLog::new(2, ROLE_CHUNKSERVER);
        let client = server.link(ROLE_CLIENT);
        server.set_time(2_000_000);
        for handle in [70, 80].map(ChunkHandle::new) {
            let read = Read { handle, offset: 0, size: 9, ..Read::default() };
            server.exchange(client, &read.into(), Ok((Response::Read(ReadAnswer::default()), 9)));
        }
        let plan = plan(master, server);
        assert!(plan.directories.is_empty(), "{:?}", plan.directories);
        let [seven, eight] = [7, 8].map(|id| Some(PlanFile::Known(EntryId::new(id))));
        assert_eq!(plan.files, [(eight, path("/file-8"), 9), (seven, path("/old"), 9)]);
    }

    #[test]
    fn what_shadows_and_batches_answer_is_learned_as_from_the_primary() {
        let question = |at: &str| ShadowQuestion::Open(Open { path: path(at), ..Open::default() });
        let answered = OpenAnswer { entry: entry(5), ..OpenAnswer::default() };
        let failure = Failure::refused(ErrorCode::NotFound, "no");
        let said = |word| {
            let answer = AskShadowAnswer { word: Box::new(word), ..AskShadowAnswer::default() };
            Response::AskShadow(answer)
        };
        let looked =
            Looked { entry: Entry { kind: EntryKind::Directory, ..entry(6) }, leased: false };
        let batch = Batch { entries: vec![BatchEntry::Stat(Stat { path: path("/batched") })] };
        let results = BatchAnswer { results: vec![BatchResult::Stat(looked)] };
        let master = master_log(vec![
            (AskShadow { question: question("/old") }.into(), said(ShadowWord::Open(answered))),
            (AskShadow { question: question("/none") }.into(), said(ShadowWord::Failed(failure))),
            (
                AskShadow { question: ShadowQuestion::Batch(batch) }.into(),
                said(ShadowWord::Batch(results)),
            ),
        ]);
        let plan = plan(master, TestLog::new(2, ROLE_CHUNKSERVER));
        let five = Some(EntryId::new(5));
        assert_eq!(plan.steps[0].act, ReplayAct::Open(path("/old"), five));
        assert_eq!(plan.files, [(five.map(PlanFile::Known), path("/old"), 0)]);
        assert_eq!(plan.directories, [path("/batched")]);
        let failed: Vec<_> = plan.steps.iter().map(|step| step.failed).collect();
        assert_eq!(failed, [false, true, false]);
    }

    #[test]
    fn what_is_brought_back_goes_by_where_it_was_and_snapshots_are_taken_again() {
        let delete = Delete { path: path("/d/f"), ..Delete::default() };
        let hidden = "/.deleted/f-1".to_owned();
        let undelete = |at: &str| Undelete { path: path(at), ..Undelete::default() };
        let snapshot = Snapshot { from: path("/d"), to: path("/copy"), ..Snapshot::default() };
        let undeleted = || Response::Undelete(UndeleteAnswer::default());
        let master = master_log(vec![
            (delete.into(), Response::Delete(DeleteAnswer { hidden: hidden.clone() })),
            (undelete(&hidden).into(), undeleted()),
            (undelete("/before").into(), undeleted()),
            (snapshot.into(), Response::Snapshot(SnapshotAnswer::default())),
        ]);
        let plan = plan(master, TestLog::new(2, ROLE_CHUNKSERVER));
        let acts: Vec<_> = plan.steps.iter().map(|step| step.act.clone()).collect();
        let expected = [
            ReplayAct::Delete(path("/d/f"), false),
            ReplayAct::Undelete(path("/d/f"), None),
            ReplayAct::Snapshot(path("/d"), path("/copy")),
        ];
        assert_eq!(acts, expected);
        assert_eq!(plan.left_out, [("Undelete".to_owned(), 1)].into());
        assert_eq!((plan.directories, plan.files.len()), (vec![path("/d")], 1));
    }

    #[test]
    fn requests_of_servers_that_were_started_together_are_not_taken_for_each_others() {
        // Both write that they are life 1, and number connections and requests alike.
        let (mut master, mut server) =
            (TestLog::new(1, ROLE_MASTER), TestLog::new(1, ROLE_CHUNKSERVER));
        let (at_master, at_server) = (master.link(ROLE_CLIENT), server.link(ROLE_CLIENT));
        let open = Request::from(Open { path: path("/old"), ..Open::default() });
        let handle = ChunkHandle::new(70);
        let read = Request::from(Read { handle, size: 9, ..Read::default() });
        master.request(at_master, 1, RpcWay::RequestReceived, &open);
        server.set_time(1_000_500);
        server.request(at_server, 1, RpcWay::RequestReceived, &read);
        let told = Ok((Response::Open(OpenAnswer { entry: entry(7), ..OpenAnswer::default() }), 0));
        master.reply(at_master, 1, (RpcWay::ReplySent, open.kind()), told);
        let told = Ok((Response::Read(ReadAnswer::default()), 9));
        server.reply(at_server, 1, (RpcWay::ReplySent, read.kind()), told);
        let acts: Vec<_> = plan(master, server).steps.into_iter().map(|step| step.act).collect();
        let expected = [
            ReplayAct::Open(path("/old"), Some(EntryId::new(7))),
            ReplayAct::Read(PlanFile::Chunk(handle), 0, 9),
        ];
        assert_eq!(acts, expected);
    }

    #[test]
    fn what_was_dropped_or_damaged_is_told_with_the_plan() {
        let mut master = TestLog::new(1, ROLE_MASTER);
        master.drop_entries(5);
        let plan = Plan::of(Merged::new(vec![master.torn_life()]).expect("reads")).expect("reads");
        assert_eq!((plan.dropped, plan.damaged), (5, 1));
    }
}
