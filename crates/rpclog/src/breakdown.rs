//! The paper's tables of a cell's own workload (GFS §6.3): operations by size (Table 4), bytes by
//! the size of operations (Table 5), requests to the master by type (Table 6).
//!
//! - BD1: only what clients asked for counts, not what servers ask each other for it (§6.3.1).
//! - BD2: an operation is one request to a chunkserver that succeeded: a `Read`, a `Write`, an
//!   `Append`. A mutation that was asked again under its own name counts once.
//! - BD3: the size of a read is what was read, not what was asked for.
//! - BD4: a read of the last byte that a chunk can have, which is not there, is a question for the
//!   length of a file that is being written: clients ask for it in this way. It counts apart.
//! - BD5: an entry of a batch counts as the request that it would be alone, a question to a shadow
//!   master as the question.

use crate::entry::{ROLE_MASTER, RpcEntry, What};
use crate::nouns::asked_of_shadow;
use crate::reading::{ReadError, ServerLife};
use cairn_protocol::{Read, Request, Response};
use cairn_types::PushId;
use std::collections::{BTreeMap, BTreeSet};

/// The paper's size classes: a name, and the first size that is too large for it.
pub const SIZE_CLASSES: [(&str, u64); 9] = [
    ("0K", 1),
    ("1B..1K", 1 << 10),
    ("1K..8K", 8 << 10),
    ("8K..64K", 64 << 10),
    ("64K..128K", 128 << 10),
    ("128K..256K", 256 << 10),
    ("256K..512K", 512 << 10),
    ("512K..1M", 1 << 20),
    ("1M..inf", u64::MAX),
];

/// What a client does with the bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Read at an offset.
    Read,
    /// Write at an offset.
    Write,
    /// Record append.
    Append,
}

/// Operations of one kind, by size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeTally {
    /// How many.
    pub operations: [u64; SIZE_CLASSES.len()],
    /// Their bytes.
    pub bytes: [u64; SIZE_CLASSES.len()],
}

impl SizeTally {
    fn add(&mut self, size: u64) {
        let class = SIZE_CLASSES.iter().position(|(_, above)| size < *above);
        let class = class.unwrap_or(SIZE_CLASSES.len() - 1);
        self.operations[class] += 1;
        self.bytes[class] += size;
    }

    /// All of them.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.operations.iter().sum()
    }

    /// All their bytes.
    #[must_use]
    pub fn byte_count(&self) -> u64 {
        self.bytes.iter().sum()
    }
}

/// The paper's types of requests to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestClass {
    /// A file is opened or made.
    Open,
    /// A name is removed.
    Delete,
    /// Where chunks are.
    FindLocation,
    /// Who holds a chunk's lease.
    FindLeaseHolder,
    /// Names of a directory, or by a pattern.
    FindMatchingFiles,
    /// Everything else.
    Other,
}

impl RequestClass {
    /// All, in the paper's order.
    pub const ALL: [Self; 6] = [
        Self::Open,
        Self::Delete,
        Self::FindLocation,
        Self::FindLeaseHolder,
        Self::FindMatchingFiles,
        Self::Other,
    ];

    /// The paper's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Delete => "Delete",
            Self::FindLocation => "FindLocation",
            Self::FindLeaseHolder => "FindLeaseHolder",
            Self::FindMatchingFiles => "FindMatchingFiles",
            Self::Other => "All other combined",
        }
    }

    /// Of the rpc of this name.
    #[must_use]
    pub fn of(rpc: &str) -> Self {
        match rpc {
            "Open" | "Create" => Self::Open,
            "Delete" => Self::Delete,
            "Locate" => Self::FindLocation,
            "Lease" => Self::FindLeaseHolder,
            "Find" | "List" => Self::FindMatchingFiles,
            _ => Self::Other,
        }
    }
}

/// A workload, broken down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Reads.
    pub reads: SizeTally,
    /// Writes at an offset.
    pub writes: SizeTally,
    /// Record appends.
    pub appends: SizeTally,
    /// Clients' requests to masters, by the rpc's name.
    pub requests: BTreeMap<String, u64>,
    /// Reads, writes and appends that failed, whatever was tried after them.
    pub failed: u64,
    /// Questions for the length of a file (BD4).
    pub lengths: u64,
    /// Mutations that were asked again under their own names, and had been done.
    pub repeated: u64,
    /// Entries that the servers dropped because they could not be written: missing from all this.
    pub dropped: u64,
    /// Batches of the log that could not be read.
    pub damaged: u64,
    /// The first and the last entry, in microseconds since 1970.
    pub span_us: Option<(u64, u64)>,
}

/// A request whose reply tells what it was.
enum BegunOperation {
    Read(Read),
    Write(PushId, u64),
    Append(PushId, u64),
}

/// Requests on their way, by connection and number.
type OnTheirWay = BTreeMap<(u64, u64), BegunOperation>;

impl Breakdown {
    /// Of all that these lives tell.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(lives: Vec<ServerLife>) -> Result<Self, ReadError> {
        let mut all = Self::default();
        let mut done = BTreeSet::new();
        for mut life in lives {
            let mut begun = OnTheirWay::new();
            while let Some(entry) = life.next_entry()? {
                let (first, last) = all.span_us.unwrap_or((entry.at_us, entry.at_us));
                all.span_us = Some((first.min(entry.at_us), last.max(entry.at_us)));
                match &entry.what {
                    What::Rpc(rpc) if rpc.is_of_client() => {
                        if entry.writer.role == ROLE_MASTER {
                            all.add_request(rpc);
                        } else {
                            all.add_operation(rpc, &mut begun, &mut done);
                        }
                    }
                    What::Dropped(count) => all.dropped += count,
                    What::Rpc(_) | What::Event { .. } => {}
                }
            }
            all.damaged += life.damaged();
        }
        Ok(all)
    }

    /// Operations of one kind.
    #[must_use]
    pub fn tally(&self, kind: OperationKind) -> &SizeTally {
        match kind {
            OperationKind::Read => &self.reads,
            OperationKind::Write => &self.writes,
            OperationKind::Append => &self.appends,
        }
    }

    /// Clients' requests to masters.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.requests.values().sum()
    }

    /// Clients' requests to masters, of one of the paper's types.
    #[must_use]
    pub fn request_count_of(&self, class: RequestClass) -> u64 {
        let of_class = self.requests.iter().filter(|(rpc, _)| RequestClass::of(rpc) == class);
        of_class.map(|(_, count)| *count).sum()
    }

    fn add_request(&mut self, rpc: &RpcEntry) {
        if rpc.way.is_reply() {
            return;
        }
        match rpc.asked() {
            Some(Request::Batch(batch)) => {
                for entry in batch.entries {
                    self.count(Request::from(entry).name());
                }
            }
            Some(Request::AskShadow(ask)) => self.count(asked_of_shadow(&ask.question).name()),
            // Who looks at the log is no workload.
            Some(Request::RecentRpcs(_)) => {}
            Some(request) => self.count(request.name()),
            None => self.count(&rpc.name()),
        }
    }

    fn count(&mut self, name: &str) {
        *self.requests.entry(name.to_owned()).or_default() += 1;
    }

    fn add_operation(
        &mut self,
        rpc: &RpcEntry,
        begun: &mut OnTheirWay,
        done: &mut BTreeSet<(u128, u64)>,
    ) {
        let key = (rpc.link, rpc.request);
        if !rpc.way.is_reply() {
            let what = match rpc.asked() {
                Some(Request::Read(read)) => BegunOperation::Read(read),
                Some(Request::Write(write)) => BegunOperation::Write(write.push, write.size),
                Some(Request::Append(append)) => BegunOperation::Append(append.push, append.size),
                _ => return,
            };
            begun.insert(key, what);
            return;
        }
        let Some(asked) = begun.remove(&key) else { return };
        if rpc.is_failure {
            self.failed += 1;
            return;
        }
        let mut is_first = |push: PushId| done.insert((push.session.get(), push.number.get()));
        match asked {
            BegunOperation::Read(read) if asks_length(&read, rpc) => self.lengths += 1,
            BegunOperation::Read(read) => self.reads.add(bytes_read(&read, rpc)),
            BegunOperation::Write(push, size) if is_first(push) => self.writes.add(size),
            BegunOperation::Append(push, size) if is_first(push) => self.appends.add(size),
            BegunOperation::Write(..) | BegunOperation::Append(..) => self.repeated += 1,
        }
    }
}

/// What of the range asked for came with the answer: earlier builds sent whole blocks, and a file
/// may end in the middle of what was asked for (BD3).
pub(crate) fn bytes_read(read: &Read, reply: &RpcEntry) -> u64 {
    let offset = match reply.answered() {
        Some(Response::Read(answer)) => answer.offset,
        // Too many checksums to be kept: it began where it was asked to, or up to a block before.
        _ => read.offset,
    };
    let end = offset.saturating_add(reply.payload_size);
    end.min(read.offset.saturating_add(read.size)).saturating_sub(read.offset.max(offset))
}

/// The smallest chunks that any cell has.
const CHUNK_SIZE_MIN: u64 = 4096;

/// Whether a read was a question for a file's length (BD4). Chunks have a power of two of bytes in
/// every cell that anybody runs; what else reads one byte there, at an end, is not told from it.
pub(crate) fn asks_length(read: &Read, reply: &RpcEntry) -> bool {
    let chunk_size = read.offset.saturating_add(1);
    let is_last = chunk_size >= CHUNK_SIZE_MIN && chunk_size.is_power_of_two();
    is_last && read.size == 1 && bytes_read(read, reply) == 0
}

#[cfg(test)]
mod tests {
    use super::{Breakdown, OperationKind, RequestClass, SIZE_CLASSES};
    use crate::entry::{ROLE_CHUNKSERVER, ROLE_CLIENT, ROLE_MASTER};
    use crate::test_log::TestLog;
    use cairn_protocol::{
        Append, AppendAnswer, Batch, BatchEntry, Delete, ErrorCode, Failure, Find, Heartbeat,
        Lease, Locate, Open, Read, ReadAnswer, Request, Response, Stat, Write, WriteAnswer,
    };
    use cairn_types::{MutationNumber, PushId, SessionId};

    fn push(number: u64) -> PushId {
        PushId { session: SessionId::new(5), number: MutationNumber::new(number) }
    }

    fn class_of(size: u64) -> &'static str {
        SIZE_CLASSES.iter().find(|(_, above)| size < *above).map_or("none", |(name, _)| *name)
    }

    #[test]
    fn sizes_fall_into_the_papers_classes_at_their_bounds() {
        let classes = [
            (0, "0K"),
            (1, "1B..1K"),
            (1023, "1B..1K"),
            (1024, "1K..8K"),
            (8 << 10, "8K..64K"),
            ((64 << 10) - 1, "8K..64K"),
            (1 << 20, "1M..inf"),
        ];
        classes.iter().for_each(|(size, name)| assert_eq!(class_of(*size), *name, "{size}"));
    }

    #[test]
    fn what_clients_did_with_chunks_is_counted_once_and_by_what_was_read() {
        let mut log = TestLog::new(1, ROLE_CHUNKSERVER);
        let client = log.link(ROLE_CLIENT);
        let server = log.link(ROLE_CHUNKSERVER);
        // Whole blocks travelled: 100 bytes of the middle of one, in 4096 of payload.
        let read = |offset, size| Read { offset, size, ..Read::default() };
        let at = |offset| ReadAnswer { offset, ..ReadAnswer::default() };
        log.exchange(client, &read(5000, 100).into(), Ok((Response::Read(at(4096)), 4096)));
        // Past the end: nothing.
        log.exchange(client, &read(9000, 100).into(), Ok((Response::Read(at(9000)), 0)));
        // The length of a file, asked for at the end of a chunk.
        log.exchange(client, &read((1 << 20) - 1, 1).into(), Ok((Response::Read(at(0)), 0)));
        // Another server's, and one that failed.
        log.exchange(server, &read(0, 10).into(), Ok((Response::Read(at(0)), 10)));
        let failure = Failure::not_done(ErrorCode::StaleVersion, "old");
        log.exchange(client, &read(0, 10).into(), Err(failure));
        let write = Write { push: push(1), size: 3000, ..Write::default() };
        log.exchange(
            client,
            &write.clone().into(),
            Ok((Response::Write(WriteAnswer::default()), 0)),
        );
        log.exchange(client, &write.into(), Ok((Response::Write(WriteAnswer::default()), 0)));
        let append = Append { push: push(2), size: 70_000, ..Append::default() };
        log.exchange(client, &append.into(), Ok((Response::Append(AppendAnswer::default()), 0)));
        let told = Breakdown::of(vec![log.life()]).expect("reads");
        let reads = told.tally(OperationKind::Read);
        assert_eq!((reads.operations[0], reads.operations[1]), (1, 1));
        assert_eq!((reads.operation_count(), reads.byte_count()), (2, 100));
        assert_eq!(told.writes.operations[2], 1);
        assert_eq!((told.writes.operation_count(), told.writes.byte_count()), (1, 3000));
        assert_eq!(told.appends.bytes[4], 70_000);
        assert_eq!((told.failed, told.repeated, told.request_count()), (1, 1, 0));
        assert_eq!(told.lengths, 1);
    }

    #[test]
    fn requests_to_masters_are_counted_by_type_and_those_of_a_batch_one_by_one() {
        let mut log = TestLog::new(1, ROLE_MASTER);
        let client = log.link(ROLE_CLIENT);
        let server = log.link(ROLE_CHUNKSERVER);
        let stat = BatchEntry::Stat(Stat::default());
        let open = BatchEntry::Open(Open::default());
        let requests: [Request; 6] = [
            Open::default().into(),
            Delete::default().into(),
            Locate::default().into(),
            Lease::default().into(),
            Find::default().into(),
            Batch { entries: vec![stat, open] }.into(),
        ];
        for request in &requests {
            log.exchange(client, request, Err(Failure::not_done(ErrorCode::Busy, "")));
        }
        log.exchange(server, &Heartbeat::default().into(), Err(Failure::default()));
        log.drop_entries(7);
        let told = Breakdown::of(vec![log.life()]).expect("reads");
        let counts = RequestClass::ALL.map(|class| told.request_count_of(class));
        assert_eq!(counts, [2, 1, 1, 1, 1, 1]);
        assert_eq!((told.request_count(), told.dropped), (7, 7));
        assert_eq!(told.requests["Stat"], 1);
    }
}
