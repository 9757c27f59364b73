//! What can be asked of a client, and what comes of it.

use crate::masters::shadow_choice::ShadowNotice;
use crate::producers::ProducerKey;
use bytes::Bytes;
use cairn_protocol::{Cursor, Failure, Request, Response};
use cairn_types::{Address, EntryId, Epoch, ProducerId, RecordNumber, ReplicaAt, Time};
use std::fmt;
use std::time::Duration;

/// One thing to do. Offsets and sizes are bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Asks the masters. A namespace mutation gets its name (session, number) here (R24). A `Stat`
    /// of a file is answered with the length that the last chunk's primary knows, but not one in
    /// a batch; a batch over its limits is refused.
    Ask(Request),
    /// The same, of a request that opens files: an `Open`, a `Create`, a batch. What is answered
    /// is open from then on, until it is closed or forgotten as often. Where its chunks lie is
    /// kept here and left out of the answer.
    Open(Request),
    /// Asks one chunkserver, once.
    AskServer {
        /// Which, and where it is.
        at: ReplicaAt,
        /// What.
        request: Request,
    },
    /// Reads up to `size` bytes. Fewer come only where the file ends (R19), or a stream has lost
    /// what is behind (R41). With `fresh`, only at versions that the master has confirmed since
    /// (what a record reader wants to skip).
    Read {
        /// Which file.
        file: EntryId,
        /// From where.
        offset: u64,
        /// How many bytes.
        size: u64,
        /// Trust no cached location.
        fresh: bool,
    },
    /// Writes at an offset, split at chunk boundaries and into pieces of 1 MiB. Not atomic across
    /// pieces (Table 1).
    Write {
        /// Which file.
        file: EntryId,
        /// Where to.
        offset: u64,
        /// What.
        bytes: Bytes,
        /// Done only once it is on disk everywhere.
        sync: bool,
    },
    /// Appends atomically, at least once, where the primary chooses; at most a quarter chunk.
    Append {
        /// Which file.
        file: EntryId,
        /// What.
        bytes: Bytes,
        /// Done only once it is on disk everywhere.
        sync: bool,
    },
    /// Makes what this client wrote since the last sync durable on every replica, and has the
    /// master record the length.
    Sync {
        /// Which file.
        file: EntryId,
    },
    /// Has the master record the length and forgets the file; with `sync` after a sync.
    Close {
        /// Which file.
        file: EntryId,
        /// Sync first.
        sync: bool,
    },
    /// Forgets the file without a word to anyone: a handle was dropped.
    Forget {
        /// Which file.
        file: EntryId,
    },
    /// More of the cell's masters are known: what a name leads to.
    LearnMasters {
        /// Where they are.
        masters: Vec<Address>,
    },
    /// Which master is asked, or was last.
    TellMaster,
    /// What masters that are not in charge have answered so far.
    TellShadows,
    /// What has been tried for longer than that, in vain so far.
    TellTrouble {
        /// How long.
        longer_than: Duration,
    },
    /// The acknowledged length.
    Length {
        /// Which file.
        file: EntryId,
    },
    /// Opens a producer of a stream: what it was before is fenced (R38).
    OpenProducer {
        /// Which stream.
        file: EntryId,
        /// Its name there; none where it is opened exclusively.
        name: String,
        /// How.
        mode: ProducerMode,
    },
    /// Puts a producer's next records into its stream, all or none, each exactly once (R38). Many
    /// may be asked for at once: they are committed in the order of their numbers. Once one has
    /// failed, all behind it fail too, and the producer takes nothing more: opening it anew tells
    /// what is in the stream.
    SendBundle {
        /// Which producer.
        producer: ProducerKey,
        /// The first record's number: the one behind the last of the bundle before.
        first: RecordNumber,
        /// How many records.
        count: u64,
        /// All of them, framed; at most a quarter chunk.
        bytes: Bytes,
        /// Stored with the last record, for the next opening.
        cursor: Option<Bytes>,
        /// Done only once it is on disk everywhere.
        sync: bool,
        /// Which bytes of the stream they take the place of, by who has it exclusively (R46).
        replaces: Option<u64>,
    },
    /// Closes a producer of which nothing is on its way.
    CloseProducer {
        /// Which producer.
        producer: ProducerKey,
    },
    /// Forgets a producer without a word to anyone; what is on its way fails.
    DropProducer {
        /// Which producer.
        producer: ProducerKey,
    },
    /// Waits: the clock of those who have none.
    Pause(Duration),
}

impl Operation {
    /// The file that it is about; none where it is about no single file by its id.
    pub(crate) fn file(&self) -> EntryId {
        match self {
            Self::Read { file, .. }
            | Self::Write { file, .. }
            | Self::Append { file, .. }
            | Self::Sync { file }
            | Self::Close { file, .. }
            | Self::Forget { file }
            | Self::Length { file }
            | Self::OpenProducer { file, .. } => *file,
            Self::Ask(_)
            | Self::Open(_)
            | Self::AskServer { .. }
            | Self::LearnMasters { .. }
            | Self::TellMaster
            | Self::TellShadows
            | Self::TellTrouble { .. }
            | Self::SendBundle { .. }
            | Self::CloseProducer { .. }
            | Self::DropProducer { .. }
            | Self::Pause(_) => EntryId::default(),
        }
    }
}

/// A range of a stream that is lost, and was passed over (R41).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoleRead {
    /// Where in the file it begins.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Of `Ask`, `Open` and `AskServer`.
    Answered(Response),
    /// Of `Read`: the bytes, in order. `end`: the file ends behind them.
    Read {
        /// The bytes, in pieces.
        pieces: Vec<Bytes>,
        /// Whether fewer came than were asked for, because the file ends there.
        end: bool,
        /// A warning: some of them came from a replica that may have lost acknowledged bytes in a
        /// power failure, because no better one was there (R28).
        suspect: bool,
        /// What of them is zeros, because it is lost and a person has made a hole of it (R41).
        holes: Vec<HoleRead>,
    },
    /// Of `Write`.
    Written,
    /// Of `Append`: where it stands in the file.
    Appended {
        /// Offset in the file.
        offset: u64,
    },
    /// Of `Sync` and `Close`: the recorded length.
    Recorded {
        /// In bytes.
        length: u64,
    },
    /// Of `Length`.
    Length(u64),
    /// Of `Forget`, `LearnMasters`, `CloseProducer` and `DropProducer`.
    Forgotten,
    /// Of `OpenProducer`.
    ProducerOpened(OpenedProducer),
    /// Of `SendBundle`.
    BundleCommitted {
        /// Where in the file the first record stands; none where nobody knows any more.
        offset: Option<u64>,
    },
    /// Of `TellMaster`.
    Master(Address),
    /// Of `TellShadows`; none: nothing.
    Shadows(Option<ShadowNotice>),
    /// Of `TellTrouble`; none: nothing has.
    Trouble(Option<TroubleNotice>),
    /// Of `Pause`.
    Paused,
}

/// An operation that is tried again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TroubleNotice {
    /// For how long it has been.
    pub tried: Duration,
    /// How long it will be tried yet.
    pub left: Duration,
    /// What the last try that is over came to.
    pub why: Failure,
}

/// How a producer is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerMode {
    /// To replace ranges of the stream, which nobody else writes meanwhile (R46).
    pub exclusive: bool,
    /// Where another has the stream exclusively, its bundles fail at once and do not wait.
    pub fails_if_locked: bool,
}

/// A producer that is open, and how it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedProducer {
    /// What this client calls it.
    pub producer: ProducerKey,
    /// What the master calls it: the same at each opening, and another once a person had its name
    /// forgotten (R47).
    pub id: ProducerId,
    /// Which opening this is.
    pub epoch: Epoch,
    /// The last record in the stream; the next is the one behind it.
    pub number: RecordNumber,
    /// The last that was stored, and the record that it belongs to.
    pub cursor: Option<Cursor>,
    /// Of an exclusive opening: for how long it counts without another word, in milliseconds.
    pub lease_ms: u64,
    /// There was one, and it has gone with its time (R47).
    pub cursor_gone: bool,
}

/// Where the result goes.
pub type OnDone = Box<dyn FnOnce(Result<Output, Failure>) + Send>;

/// An operation on its way into the core.
pub struct Command {
    /// The caller's own name for it, for traces.
    pub ticket: u64,
    /// What to do.
    pub operation: Operation,
    /// When to give up.
    pub deadline: Time,
    /// Called once (K1).
    pub done: OnDone,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("ticket", &self.ticket)
            .field("operation", &self.operation)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
