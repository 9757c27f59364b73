//! The contract of a chunkserver's disk work: coarse jobs, checksums included.

use bytes::Bytes;
use cairn_protocol::{ReplicaFault, ReplicaReport};
use cairn_types::{
    BlockChecksums, CellId, ChunkHandle, ChunkVersion, PushId, ReignId, SerialNumber, ServerId,
    Term,
};

use crate::{DiskError, LogEvent, Payload, ServerSpace};

/// One mutation to apply, in the order that its primary gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyMutation {
    /// Its place in the order.
    pub serial: SerialNumber,
    /// Where in the chunk.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
    /// The pushed bytes; none: extend with zeros to `offset + size` where the replica is shorter,
    /// and change nothing where it is not (levelling, R16).
    pub push: Option<PushId>,
    /// What the mutation says the pushed bytes' checksums are (R15).
    pub checksums: BlockChecksums,
}

/// One line of a data directory's journal (R7, R18, R27).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalEntry {
    /// A replica stands at `version`; made if `create`; takes the close mark if `close`. A raise
    /// is also the dirty mark: bytes may change from here on (R27).
    Raise {
        /// Which chunk.
        handle: ChunkHandle,
        /// The version it now stands at.
        version: ChunkVersion,
        /// There was nothing before.
        create: bool,
        /// Takes the close mark.
        close: bool,
    },
    /// The finished clone of a chunk becomes its replica, at `version` (R30).
    Adopt {
        /// Which chunk.
        handle: ChunkHandle,
        /// The version it stands at.
        version: ChunkVersion,
        /// Takes the close mark.
        close: bool,
    },
    /// The highest term heard of (R2).
    Term(Term),
    /// Whose term that is (R1).
    Reign(Term, ReignId),
    /// This server belongs to a cell.
    Joined(CellId, ServerId),
    /// A suspect replica became current by a logged decision (R28).
    Cleared(ChunkHandle),
    /// A block of a replica does not match its checksum.
    Damaged(ChunkHandle),
    /// Every block of a damaged replica was verified since.
    Sound(ChunkHandle),
    /// How far the blocks of all replicas were verified.
    Scrubbed {
        /// Wall time in milliseconds at which the round began.
        began_ms: u64,
        /// Up to this one, in the order of handles.
        handle: ChunkHandle,
    },
}

/// A part of a journal; the first one of the first directory by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalPart {
    /// The place of its directory.
    pub directory: usize,
    /// Of the journal that was begun to be looked at.
    pub generation: u64,
    /// Where in it; zero: whichever is there.
    pub offset: u64,
}

impl JournalPart {
    /// The first part of the directory behind its own.
    #[must_use]
    pub fn of_next_directory(self) -> Self {
        Self { directory: self.directory + 1, ..Self::default() }
    }
}

/// What a chunkserver asks of its disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkJob {
    /// Applies mutations to a chunk file, data before checksums before head (R26). All or an
    /// error; after an error the serial number last applied is told by `Inspect`.
    Apply {
        /// Which chunk.
        handle: ChunkHandle,
        /// Under which version.
        version: ChunkVersion,
        /// In serial order.
        mutations: Vec<ApplyMutation>,
        /// Bytes acknowledged so far, kept in the head (R17).
        acknowledged: u64,
        /// The last serial number acknowledged so far, kept in the head too (R29).
        acknowledged_serial: SerialNumber,
        /// Answer only once it is on disk.
        sync: bool,
    },
    /// Makes pushed bytes the end of a stream's chunk (R40). What is there under that serial number
    /// or a later one is compared, byte for byte. Done like `Apply`, and answered like it.
    Extend {
        /// Which chunk.
        handle: ChunkHandle,
        /// Under which version.
        version: ChunkVersion,
        /// The bytes, and where they stand; a push is named.
        extent: ApplyMutation,
        /// Answer only once it is on disk, whether it was there already or not.
        sync: bool,
    },
    /// Appends to the journal and flushes; many at once share the flush.
    Journal(Vec<JournalEntry>),
    /// Reads `size` bytes from `offset`. A whole block comes with its stored checksum; one that is
    /// cut is verified first, and the piece of it comes with a checksum of its own.
    Read {
        /// Which chunk.
        handle: ChunkHandle,
        /// From where.
        offset: u64,
        /// How many bytes; beyond the stored end nothing comes.
        size: u64,
    },
    /// The stored checksums of all blocks, as one who is to be levelled tells them (R16).
    Checksums {
        /// Which chunk.
        handle: ChunkHandle,
    },
    /// Reads, for another server, the first run of whole blocks from `offset` on that differ from
    /// those that it has; each is verified before it goes.
    Fetch {
        /// Which chunk.
        handle: ChunkHandle,
        /// Where a block begins.
        offset: u64,
        /// Bytes that the other server stores.
        length: u64,
        /// The checksums of its blocks from `offset` on.
        known: BlockChecksums,
        /// Bytes that are wanted, where a block is not larger; zero: as many as go at once.
        size_max: u64,
    },
    /// Puts whole blocks of another server's replica in their place, verified; the serial number
    /// stays as it is. Done like `Apply`, and answered like it.
    Install {
        /// Which chunk.
        handle: ChunkHandle,
        /// Under which version.
        version: ChunkVersion,
        /// Where a block begins.
        offset: u64,
        /// One per block.
        checksums: BlockChecksums,
        /// The blocks, as they arrived.
        bytes: Bytes,
    },
    /// Verifies the block at `offset` against its checksum (R31).
    Verify {
        /// Which chunk.
        handle: ChunkHandle,
        /// Anywhere in the block.
        offset: u64,
    },
    /// Verifies some blocks, and what stands beside them, from `offset` on: the next part of a
    /// round over all that is stored.
    Scrub {
        /// Which chunk.
        handle: ChunkHandle,
        /// Where a block begins.
        offset: u64,
    },
    /// Verifies a part of the journal of a data directory, or of the next one that works; one that
    /// is damaged is written anew.
    ScrubJournal(JournalPart),
    /// Recovers a chunk that a start could not read, or whose last change failed half-way, and
    /// brings to disk what it finds.
    Reopen {
        /// Which chunk.
        handle: ChunkHandle,
    },
    /// Looks whether a chunk's files are there and as long as they should be.
    Look {
        /// Which chunk.
        handle: ChunkHandle,
    },
    /// Makes everything applied to a chunk durable, and clears its dirty mark where nothing
    /// changed meanwhile (R27).
    Sync {
        /// Which chunk.
        handle: ChunkHandle,
    },
    /// Keeps a newer acknowledged length and serial number in the head.
    Settle {
        /// Which chunk.
        handle: ChunkHandle,
        /// Bytes acknowledged.
        acknowledged: u64,
        /// The last serial number acknowledged.
        acknowledged_serial: SerialNumber,
    },
    /// Moves a replica to the trash, unless it is newer than `version` (R33); those that come
    /// together go with one flush.
    Trash {
        /// Which chunk.
        handle: ChunkHandle,
        /// The newest version that may go.
        version: ChunkVersion,
    },
    /// Removes what has lain in the trash since before `before_ms` (wall time), or all of it
    /// where space is short; a slice of it for each job.
    EmptyTrash {
        /// Wall time in milliseconds.
        before_ms: u64,
        /// Wall time in milliseconds, for what is thrown away from now on.
        now_ms: u64,
    },
    /// How full the disks are, and what else the process takes; on this occasion it is looked
    /// whether each is still there, and
    /// whether another one has been put in the place of one that failed.
    Space,
    /// Work on a clone: a copy of a chunk under a temporary name, in no inventory (R30).
    Clone {
        /// Of which chunk.
        handle: ChunkHandle,
        /// What is to be done.
        work: CloneWork,
    },
}

/// A range of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatheredRange {
    /// Which chunk.
    pub of: ChunkHandle,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
}

/// What is to be done with a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloneWork {
    /// Makes its files where there are none, or all anew; tells the checksums of what they hold.
    Begin {
        /// What is there goes.
        anew: bool,
    },
    /// Puts whole blocks of the source in their place, verified.
    Install {
        /// Where a block begins, at the clone's end or before.
        offset: u64,
        /// One per block.
        checksums: BlockChecksums,
        /// The blocks, as they arrived.
        bytes: Bytes,
    },
    /// Takes blocks of another chunk of this server, from `offset` on as many as go at once, each
    /// verified; from 0 on all anew.
    Copy {
        /// Which chunk's.
        of: ChunkHandle,
        /// Where a block begins.
        offset: u64,
    },
    /// Adds ranges of other chunks of this server at its end, in their order, each block verified
    /// on its way (R45).
    Gather {
        /// Which.
        ranges: Vec<GatheredRange>,
    },
    /// Adds a range of what another server gave at its end: whole blocks, each verified, of which
    /// the range is a part.
    Add {
        /// Where in their chunk the blocks begin.
        offset: u64,
        /// One per block.
        checksums: BlockChecksums,
        /// The blocks, as they arrived.
        bytes: Bytes,
        /// Where in that chunk the range begins.
        from: u64,
        /// How many bytes.
        size: u64,
    },
    /// Brings it to disk as one that stands as its source does.
    Finish {
        /// How the source stands.
        stands: ReplicaReport,
    },
    /// Removes its files.
    Drop,
}

/// Bytes read, with the checksums of their pieces.
#[derive(Debug, Default, PartialEq)]
pub struct ReadDone {
    /// Where in the chunk the payload starts; may lie before the offset asked for.
    pub offset: u64,
    /// The bytes.
    pub payload: Payload,
    /// One per piece.
    pub checksums: BlockChecksums,
}

/// What came of a [`ChunkJob`].
#[derive(Debug, PartialEq)]
pub enum ChunkDone {
    /// Of `Apply`, `Extend` and `Install`: stored bytes now.
    Applied {
        /// Stored bytes of the chunk.
        length: u64,
        /// The serial number last applied.
        serial: SerialNumber,
    },
    /// Of `Journal`.
    Journaled,
    /// Of `Read` and `Fetch`.
    Read(ReadDone),
    /// Of `Checksums`.
    Checksums {
        /// Stored bytes of the chunk.
        length: u64,
        /// One per block.
        checksums: BlockChecksums,
    },
    /// Of `Verify`.
    Verified {
        /// Whether the block matches its checksum.
        good: bool,
    },
    /// Of `Scrub`.
    Scrubbed {
        /// Bytes that were read.
        size: u64,
        /// Where the next part begins, behind the bad block where there is one; none: at the end.
        next: Option<u64>,
        /// Where the block begins that is not as it was written.
        bad: Option<u64>,
    },
    /// Of `ScrubJournal`.
    JournalScrubbed {
        /// Bytes that were read.
        size: u64,
        /// The next part; none: those of all directories are verified.
        next: Option<JournalPart>,
        /// What a person should know.
        told: Option<LogEvent>,
    },
    /// Of `Reopen`: how the replica stands.
    Reopened(ReplicaReport),
    /// Of `Look`.
    Looked {
        /// What is wrong.
        fault: ReplicaFault,
        /// Its file was made as a clone of another's.
        reflinked: bool,
    },
    /// Of `Sync`.
    Synced,
    /// Of `Settle`.
    Settled,
    /// Of `Trash`: whether nothing of it is left among the replicas.
    Trashed {
        /// False where the replica is newer; true also where there was none.
        gone: bool,
    },
    /// Of `EmptyTrash`: whether more of it waits to be looked at.
    TrashEmptied {
        /// It does.
        more: bool,
    },
    /// Of `Space`.
    Space(ServerSpace),
    /// Of `Clone`, but for its beginning, which is answered like `Checksums`, and for `Copy`.
    Cloned,
    /// Of `Copy`.
    Copied {
        /// Where the next part begins; none: at the end.
        next: Option<u64>,
    },
}

/// Why a [`ChunkJob`] failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// Stored bytes do not match their checksum.
    #[error("the block at offset {offset} does not match its checksum")]
    Corrupt {
        /// Start of the block within the chunk.
        offset: u64,
    },
    /// The buffer no longer, or never, held this push.
    #[error("pushed data {push:?} is not in the buffer")]
    PushMissing {
        /// Which.
        push: PushId,
    },
    /// The buffer holds other bytes under this name than the mutation means (R15).
    #[error("pushed data {push:?} is not what the mutation names")]
    PushDiffers {
        /// Which.
        push: PushId,
    },
    /// Another server's blocks do not match the checksums that came with them.
    #[error("the block at offset {offset} did not arrive as it was sent")]
    FetchedDiffers {
        /// Start of the block within the chunk.
        offset: u64,
    },
    /// A stream's chunk does not end where its next bundle is to begin (R40).
    #[error("serial number {last} is the last here, and the chunk ends at {length}")]
    OutOfOrder {
        /// The serial number last applied.
        last: SerialNumber,
        /// Stored bytes.
        length: u64,
    },
    /// Other bytes stand in a stream's chunk than are said to be there (R40).
    #[error("other bytes stand at offset {offset} than were pushed")]
    BytesDiffer {
        /// Of the first that differs, within the chunk.
        offset: u64,
    },
    /// No such chunk here.
    #[error("no such chunk on this server")]
    NoSuchChunk,
    /// No data directory works any more.
    #[error("every data directory has failed")]
    NoDirectoryLeft,
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl ChunkError {
    /// Whether the disk refused the job before it changed anything.
    #[must_use]
    pub fn changed_nothing(&self) -> bool {
        let is_about_push = matches!(self, Self::PushMissing { .. } | Self::PushDiffers { .. });
        is_about_push || *self == Self::Disk(DiskError::NoSpace)
    }
}

/// What comes of a [`ChunkJob`].
pub type ChunkResult = Result<ChunkDone, ChunkError>;
