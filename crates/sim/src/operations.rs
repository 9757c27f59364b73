//! What a workload asks of a client, and how the answers come back.
//!
//! The simulator runs `ClientCore` itself; this is the thin layer that turns a workload's words
//! into the core's, so that a workload says no more than it means.

use bytes::Bytes;
use cairn_client_core::{HoleRead, OpenedProducer, Operation, Output, ProducerKey, ProducerMode};
use cairn_protocol::{
    Batch, BatchEntry, BatchResult, Create, Delete, ErrorCode, Failure, List, MakeDirectory, Open,
    Rename, Request, Response, SetPolicy, Snapshot, Stat, Undelete, WaitLength,
};
use cairn_types::{
    CellPath, Content, Entry, EntryId, Layout, PolicyPartNames, PolicyParts, RecordNumber,
};
use std::fmt;

/// Names one operation of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpTicket(pub(crate) u64);

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum ClientOp {
    MakeDirectory {
        path: CellPath,
    },
    Create {
        path: CellPath,
        content: Content,
        or_open: bool,
    },
    Rename {
        from: CellPath,
        to: CellPath,
        replace: bool,
    },
    Delete {
        path: CellPath,
        recursive: bool,
    },
    /// Brings back what was deleted there last, or what has this hidden name.
    Undelete {
        path: CellPath,
    },
    /// Has a directory or file say a level, or say none any more.
    SetPolicy {
        path: CellPath,
        level: Option<u32>,
        apply: bool,
    },
    Snapshot {
        from: CellPath,
        to: CellPath,
    },
    /// What a person orders of the master.
    Order {
        order: Box<Request>,
    },
    Stat {
        path: CellPath,
    },
    Open {
        path: CellPath,
    },
    /// Changes of names and looks at them, asked together.
    Batch {
        entries: Vec<ClientOp>,
    },
    List {
        path: CellPath,
    },
    Write {
        file: EntryId,
        offset: u64,
        bytes: Bytes,
        sync: bool,
    },
    Append {
        file: EntryId,
        bytes: Bytes,
        sync: bool,
    },
    Read {
        file: EntryId,
        offset: u64,
        size: u64,
        fresh: bool,
    },
    /// Makes a stream, or finds it.
    CreateStream {
        path: CellPath,
        content: Content,
        /// How many servers have to hold a bundle; none: the usual.
        commit_replicas: Option<u32>,
    },
    /// Without a name: exclusively.
    OpenProducer {
        file: EntryId,
        name: String,
    },
    SendBundle {
        producer: ProducerKey,
        first: u64,
        count: u64,
        bytes: Bytes,
        cursor: Option<Bytes>,
        sync: bool,
        /// By who has the stream exclusively.
        replaces: Option<u64>,
    },
    CloseProducer {
        producer: ProducerKey,
    },
    /// Its process is killed.
    DropProducer {
        producer: ProducerKey,
    },
    /// Waits until a stream is longer.
    WaitLength {
        file: EntryId,
        length: u64,
        patience_ms: u64,
    },
    Sync {
        file: EntryId,
    },
    /// Syncs it, too.
    Close {
        file: EntryId,
    },
}

/// What an operation gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpOutput {
    Nothing,
    Entry(Entry),
    Entries(Vec<Entry>),
    /// Of a deletion: the path by which it can still be read.
    Hidden(String),
    /// Of a batch: one for each entry.
    Many(Vec<OpResult>),
    /// Bytes read, and whether the file ends behind them.
    Bytes(Bytes, bool),
    /// The same of a stream that has lost some of them: these are zeros, where a person has made
    /// a hole of it.
    BytesWithHoles(Bytes, Vec<HoleRead>),
    Offset(u64),
    Length(u64),
    Producer(OpenedProducer),
    /// Where a bundle stands, as far as that is known.
    Committed(Option<u64>),
}

/// How an operation ended.
pub(crate) type OpResult = Result<OpOutput, Failure>;

/// More names than any workload makes.
const LIST_LIMIT: u32 = 10_000;

impl ClientOp {
    /// In the client's words. The client itself names mutations (R24).
    pub(crate) fn into_operation(self) -> Operation {
        let mutation = Default::default();
        Operation::Ask(match self {
            Self::MakeDirectory { path } => {
                Request::MakeDirectory(MakeDirectory { mutation, path, ..MakeDirectory::default() })
            }
            Self::Create { path, content, or_open } => {
                let create = Create { mutation, path, content, or_open, ..Create::default() };
                return Operation::Open(create.into());
            }
            Self::Rename { from, to, replace } => {
                Request::Rename(Rename { mutation, from, to, replace })
            }
            Self::Delete { path, recursive } => {
                Request::Delete(Delete { mutation, path, recursive })
            }
            Self::Undelete { path } => Request::Undelete(Undelete { mutation, path, to: None }),
            Self::SetPolicy { path, level, apply } => {
                let inherit =
                    PolicyPartNames { replication: level.is_none(), ..Default::default() };
                let set = PolicyParts { replication: level, ..PolicyParts::default() };
                Request::SetPolicy(SetPolicy { mutation, path, set, inherit, apply })
            }
            Self::Snapshot { from, to } => {
                Request::Snapshot(Snapshot { mutation, from, to, anew: None })
            }
            Self::Order { order } => *order,
            Self::Stat { path } => Request::Stat(Stat { path }),
            Self::Open { path } => {
                return Operation::Open(Open { path, ..Open::default() }.into());
            }
            Self::Batch { entries } => {
                let entries = entries.into_iter().map(Self::into_entry).collect();
                return Operation::Open(Batch { entries }.into());
            }
            Self::List { path } => {
                Request::List(List { path, limit: LIST_LIMIT, ..List::default() })
            }
            Self::Write { file, offset, bytes, sync } => {
                return Operation::Write { file, offset, bytes, sync };
            }
            Self::Append { file, bytes, sync } => return Operation::Append { file, bytes, sync },
            Self::Read { file, offset, size, fresh } => {
                return Operation::Read { file, offset, size, fresh };
            }
            Self::CreateStream { path, content, commit_replicas } => {
                return create_stream(path, content, commit_replicas);
            }
            Self::OpenProducer { file, name } => return open_producer(file, name),
            Self::SendBundle { producer, first, count, bytes, cursor, sync, replaces } => {
                let first = RecordNumber::new(first);
                return Operation::SendBundle {
                    producer,
                    first,
                    count,
                    bytes,
                    cursor,
                    sync,
                    replaces,
                };
            }
            Self::CloseProducer { producer } => return Operation::CloseProducer { producer },
            Self::DropProducer { producer } => return Operation::DropProducer { producer },
            Self::WaitLength { file, length, patience_ms } => {
                Request::WaitLength(WaitLength { file, length, patience_ms, ..Default::default() })
            }
            Self::Sync { file } => return Operation::Sync { file },
            Self::Close { file } => return Operation::Close { file, sync: true },
        })
    }
}

/// Made, or found.
fn create_stream(path: CellPath, content: Content, commit_replicas: Option<u32>) -> Operation {
    let (layout, or_open) = (Some(Layout::Stream), true);
    let create = Create { path, content, layout, or_open, commit_replicas, ..Create::default() };
    Operation::Open(create.into())
}

fn open_producer(file: EntryId, name: String) -> Operation {
    let mode = ProducerMode { exclusive: name.is_empty(), ..ProducerMode::default() };
    Operation::OpenProducer { file, name, mode }
}

impl ClientOp {
    fn into_entry(self) -> BatchEntry {
        match self.into_operation() {
            Operation::Ask(Request::Stat(asked)) => asked.into(),
            Operation::Ask(Request::MakeDirectory(asked)) => asked.into(),
            Operation::Open(Request::Create(asked)) => asked.into(),
            Operation::Open(Request::Open(asked)) => asked.into(),
            Operation::Ask(Request::Rename(asked)) => asked.into(),
            Operation::Ask(Request::Delete(asked)) => asked.into(),
            other => panic!("no batch holds {other:?}"),
        }
    }
}

/// An operation in one line, without its bytes.
impl fmt::Display for ClientOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { file, offset, bytes, sync } => {
                let (file, size) = (file.short(), bytes.len());
                write!(f, "write {size} bytes at {offset} of {file} (sync {sync})")
            }
            Self::Append { file, bytes, sync } => {
                write!(f, "append {} bytes to {} (sync {sync})", bytes.len(), file.short())
            }
            Self::SendBundle { producer, first, count, bytes, cursor, sync, replaces } => {
                let (size, cursor) = (bytes.len(), cursor.is_some());
                write!(f, "send {count} records from {first} on, {size} bytes, of {producer:?} ")?;
                write!(f, "(cursor {cursor}, sync {sync}, replaces {replaces:?})")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// An end in one line, without bytes.
pub(crate) fn tell(result: &OpResult) -> String {
    match result {
        Ok(OpOutput::Bytes(bytes, end)) => format!("{} bytes, the end: {end}", bytes.len()),
        other => format!("{other:?}"),
    }
}

/// The client's answer in a workload's words.
pub(crate) fn done_of(output: Output) -> OpOutput {
    match output {
        Output::Answered(Response::MakeDirectory(answer)) => OpOutput::Entry(answer.entry),
        Output::Answered(Response::Create(answer)) => OpOutput::Entry(answer.entry),
        Output::Answered(Response::Stat(answer)) => OpOutput::Entry(answer.entry),
        Output::Answered(Response::Open(answer)) => OpOutput::Entry(answer.entry),
        Output::Answered(Response::Snapshot(answer)) => OpOutput::Entry(answer.entry),
        Output::Answered(Response::SetAttributes(answer)) => OpOutput::Entry(answer.entry),
        Output::Answered(Response::Delete(answer)) => OpOutput::Hidden(answer.hidden),
        Output::Answered(Response::List(answer)) => OpOutput::Entries(answer.entries),
        Output::Answered(Response::Batch(answer)) => {
            OpOutput::Many(answer.results.into_iter().map(result_of).collect())
        }
        Output::Read { pieces, holes, .. } if !holes.is_empty() => {
            OpOutput::BytesWithHoles(Bytes::from(pieces.concat()), holes)
        }
        Output::Read { pieces, end, .. } => OpOutput::Bytes(Bytes::from(pieces.concat()), end),
        Output::Appended { offset } => OpOutput::Offset(offset),
        Output::Answered(Response::WaitLength(answer)) => OpOutput::Length(answer.length),
        Output::ProducerOpened(opened) => OpOutput::Producer(opened),
        Output::BundleCommitted { offset } => OpOutput::Committed(offset),
        _ => OpOutput::Nothing,
    }
}

fn result_of(result: BatchResult) -> OpResult {
    Ok(match result {
        BatchResult::Failed(failure) => return Err(failure),
        BatchResult::Stat(looked) => OpOutput::Entry(looked.entry),
        BatchResult::MakeDirectory(answer) => OpOutput::Entry(answer.entry),
        BatchResult::Create(answer) => OpOutput::Entry(answer.entry),
        BatchResult::Open(answer) => OpOutput::Entry(answer.entry),
        BatchResult::Rename(_) | BatchResult::Delete(_) => OpOutput::Nothing,
    })
}

/// Whether a refusal says something about the names.
pub(crate) fn speaks_of_names(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::NotFound
            | ErrorCode::AlreadyExists
            | ErrorCode::NotADirectory
            | ErrorCode::IsADirectory
            | ErrorCode::DirectoryNotEmpty
            | ErrorCode::Invalid
    )
}

/// A path that the simulator itself makes.
pub(crate) fn path(text: &str) -> CellPath {
    CellPath::parse(text).expect("the simulator's paths are well formed")
}
