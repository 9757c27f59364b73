//! Streams: files of which each record was put there by one commit, exactly once (TFS §2.4, R38 to
//! R47).

use crate::ChunkLocations;
use bytes::Bytes;
use cairn_types::{
    ChunkHandle, ChunkIndex, ChunkVersion, Entry, EntryId, Epoch, Incarnation, LogIndex,
    MutationName, ProducerId, RecordNumber, ReplicaAt, SerialNumber, ServerId, WallTime,
};

/// The longest name of a producer, in bytes.
pub const PRODUCER_NAME_SIZE_MAX: usize = 255;
/// The longest cursor, in bytes.
pub const CURSOR_SIZE_MAX: usize = 1024;
/// The most bundles of one request, and the most of a producer whose outcomes are kept (R38).
pub const BUNDLES_MAX: usize = 64;
/// The most chunks that a producer may have open.
pub const PRODUCER_CHUNKS_MAX: usize = 8;
/// The most extents of one answer.
pub const EXTENTS_MAX: usize = 4096;
/// The most that an `Open` brings, and of how many chunks.
pub const OPEN_EXTENTS_MAX: usize = 512;
/// The most chunks of one answer about extents.
pub const EXTENTS_CHUNKS_MAX: usize = 256;
/// The same of an `Open`.
pub const OPEN_EXTENTS_CHUNKS_MAX: usize = 64;

const _: () = assert!(OPEN_EXTENTS_MAX <= EXTENTS_MAX);
const _: () = assert!(OPEN_EXTENTS_CHUNKS_MAX <= EXTENTS_CHUNKS_MAX);

cairn_types::message! {
    /// Something of the application's own, stored with a commit, and the number that it belongs to.
    pub struct Cursor { 1 => number: RecordNumber, 2 => text: Bytes }
}

cairn_types::message! {
    /// Opens a producer of a stream, by its name: what it was before is fenced (R38). Made where
    /// there is none.
    pub struct OpenProducer {
        1 => mutation: MutationName,
        2 => file: EntryId,
        3 => name: String,
        /// Not a producer, which has a name, but who alone writes the stream until it is closed, or
        /// its lease is over: to replace ranges (R46).
        4 => exclusive: bool,
        /// The exclusive opening of this epoch goes on; nothing is opened.
        5 => renews: Epoch,
    }
}
cairn_types::message! {
    /// The producer goes on behind `number`. `cursor` is the last that was stored; none: there was
    /// none, or it has gone with its time (R47: `cursor_gone`).
    pub struct OpenProducerAnswer {
        1 => producer: ProducerId,
        2 => epoch: Epoch,
        3 => number: RecordNumber,
        4 => cursor: Option<Cursor>,
        5 => cursor_gone: bool,
        /// Of an exclusive opening: for so long it counts without another word.
        6 => lease_ms: u64,
    }
}

cairn_types::message! {
    /// Asks for chunks for a producer's epoch, so that it has `count` that are open, those with it
    /// already among them; and leaves others for good: sealed, or abandoned where nothing was
    /// committed of them (R40, R42).
    pub struct AllocateChunks {
        1 => file: EntryId,
        2 => producer: ProducerId,
        3 => epoch: Epoch,
        4 => count: u32,
        5 => leaves: Vec<ChunkHandle>,
        /// Servers that the producer cannot reach: not chosen where others are there.
        6 => unreachable: Vec<ServerId>,
    }
}
cairn_types::message! {
    /// A chunk of the producer's own. It is written at this very version.
    pub struct OpenStreamChunk {
        1 => index: ChunkIndex,
        2 => handle: ChunkHandle,
        3 => version: ChunkVersion,
        4 => replicas: Vec<ReplicaAt>,
        /// How much of it is committed; zero for a new one.
        5 => length: u64,
        6 => serial: SerialNumber,
        /// So many have to hold a bundle in it; 0: as the whole answer says.
        7 => commit_replicas: u32,
    }
}
cairn_types::message! {
    /// All that the epoch has open now. `commit_replicas` of each have to hold a bundle, at least.
    pub struct AllocateChunksAnswer {
        1 => chunks: Vec<OpenStreamChunk>,
        2 => commit_replicas: u32,
    }
}

cairn_types::message! {
    /// A server that holds a bundle, and the life of its process that it stored it in (R43).
    #[derive(Copy)]
    pub struct BundleHolder { 1 => server: ServerId, 2 => incarnation: Incarnation }
}
cairn_types::message! {
    /// Consecutive records of one producer, in one chunk, committed as a whole.
    pub struct Bundle {
        /// Of its first record.
        1 => first: RecordNumber,
        /// How many records.
        2 => count: u64,
        3 => handle: ChunkHandle,
        /// Where in the chunk; the chunk's committed bytes end there.
        4 => offset: u64,
        5 => size: u64,
        /// Which bundle of the chunk it is, from 1.
        6 => serial: SerialNumber,
        7 => holders: Vec<BundleHolder>,
        /// Stored with it.
        8 => cursor: Option<Bytes>,
        /// Which bytes of the file it takes the place of, from here on as many as it has: by who
        /// has the stream exclusively, and by nobody else (R46). None: it goes to the end.
        9 => replaces: Option<u64>,
    }
}
cairn_types::message! {
    /// Puts bundles at the end of the file, in their order, each as if it were asked for alone; the
    /// first that is not committed ends it.
    pub struct CommitBundles {
        1 => file: EntryId,
        2 => producer: ProducerId,
        3 => epoch: Epoch,
        4 => bundles: Vec<Bundle>,
    }
}
cairn_types::code! {
    /// What became of a bundle (R38).
    #[derive(Default)]
    pub enum CommitOutcome {
        /// It is in the file.
        #[default]
        Committed = 1,
        /// It is in the file since long ago; where is not known any more.
        DoneBefore = 2,
        /// Another epoch has begun. What this one's committed is told by `number`.
        Fenced = 3,
        /// Its chunk is sealed or abandoned, or too few hold the bytes: it is not in the file and
        /// never will be by this chunk. It may be sent again in another.
        ChunkLost = 4,
        /// It does not follow what is committed; nothing was done.
        NotNext = 5,
    }
}
cairn_types::message! {
    /// What became of one bundle.
    #[derive(Copy)]
    pub struct BundleAnswer {
        1 => outcome: CommitOutcome,
        /// Of `Committed`: where in the file.
        2 => offset: u64,
    }
}
cairn_types::message! {
    /// One for each bundle up to the first that was not committed. `number` is the producer's last
    /// committed one; of a fenced epoch, what it was when that epoch ended.
    pub struct CommitBundlesAnswer { 1 => bundles: Vec<BundleAnswer>, 2 => number: RecordNumber }
}

cairn_types::message! {
    /// The epoch is over: its chunks are sealed or abandoned.
    pub struct CloseProducer { 1 => file: EntryId, 2 => producer: ProducerId, 3 => epoch: Epoch }
}
cairn_types::message! {
    /// It is over.
    pub struct CloseProducerAnswer { }
}

cairn_types::message! {
    /// Producers of a file by name, behind `after`; or one alone.
    pub struct ListProducers {
        1 => file: EntryId,
        2 => after: String,
        3 => limit: u32,
        /// Not empty: this one alone.
        4 => only: String,
    }
}
cairn_types::message! {
    /// An epoch that is over, and the last record that was committed by its end.
    #[derive(Copy)]
    pub struct EndedEpoch { 1 => epoch: Epoch, 2 => number: RecordNumber }
}
cairn_types::message! {
    /// How a producer stands.
    pub struct ProducerStatus {
        1 => name: String,
        2 => producer: ProducerId,
        3 => epoch: Epoch,
        4 => number: RecordNumber,
        5 => cursor: Option<Cursor>,
        /// When it last committed, or was opened.
        6 => changed: WallTime,
        7 => open_chunks: u32,
        /// The epoch is over.
        8 => closed: bool,
        /// The last epochs before it, oldest first, as far as they are kept.
        9 => ended: Vec<EndedEpoch>,
    }
}
cairn_types::message! {
    /// In order of names; `more` tells whether to ask again behind the last.
    pub struct ListProducersAnswer { 1 => producers: Vec<ProducerStatus>, 2 => more: bool }
}
cairn_types::message! {
    /// A person forgets a producer (R47): its name may be used anew, from number 1.
    pub struct ForgetProducer { 1 => mutation: MutationName, 2 => file: EntryId, 3 => name: String }
}
cairn_types::message! {
    /// It is forgotten.
    pub struct ForgetProducerAnswer { }
}

cairn_types::message! {
    /// The extents of a stream from the one that has byte `offset` on, with the places of their
    /// chunks.
    pub struct ReadExtents {
        1 => file: EntryId,
        2 => offset: u64,
        3 => limit: u32,
        /// The reader has seen what the log says up to there: a master that is not in charge, and
        /// is behind that, says so (R44).
        4 => seen: LogIndex,
    }
}
cairn_types::message! {
    /// A range of a chunk, where it stands in the file.
    #[derive(Copy)]
    pub struct StreamExtent {
        1 => offset: u64,
        2 => size: u64,
        3 => handle: ChunkHandle,
        4 => chunk_offset: u64,
    }
}
cairn_types::message! {
    /// The end of what is committed of a stream's chunk, which no server of its set has any more: a
    /// power failure took it from all that had it, or a person went on without who has (R41).
    #[derive(Copy)]
    pub struct LostTail {
        1 => handle: ChunkHandle,
        /// Bytes of the chunk that are left.
        2 => held: u64,
        /// Bytes of it that were committed.
        3 => committed: u64,
        /// A person has made a hole of it: readers pass over it, and are told.
        4 => is_hole: bool,
    }
}

impl LostTail {
    /// How many bytes are lost of so many from there on in the chunk: its last ones.
    #[must_use]
    pub fn lost_of(&self, chunk_offset: u64, size: u64) -> u64 {
        size - self.held.saturating_sub(chunk_offset).min(size)
    }
}

cairn_types::message! {
    /// A person makes a hole of what a chunk of that file has lost (`LostTail`), for all files that
    /// have the chunk. What the file has of it reads as zeros from then on.
    pub struct SkipLost { 1 => file: EntryId, 2 => handle: ChunkHandle }
}
cairn_types::message! {
    /// It is a hole.
    pub struct SkipLostAnswer { }
}
cairn_types::message! {
    /// In order of offsets; each chunk of theirs once. The file is `entry.length` bytes long as of
    /// record `log`.
    pub struct ReadExtentsAnswer {
        1 => entry: Box<Entry>,
        2 => extents: Vec<StreamExtent>,
        3 => chunks: Vec<ChunkLocations>,
        4 => log: LogIndex,
        /// Up to there it is settled: it stands in few extents, and they stay (R45).
        5 => settled: u64,
        /// What is behind that is looked at, and settled in idle time.
        6 => settles: bool,
        /// How many ranges of the file were ever replaced: extents of another count are not to be
        /// mixed with these (R46).
        7 => replaced: RecordNumber,
        /// Of these chunks, those that have lost some of what is committed.
        8 => lost: Vec<LostTail>,
    }
}
cairn_types::message! {
    /// Answered when a stream is longer than `length`, or so much time is over, or when it is gone.
    pub struct WaitLength {
        1 => file: EntryId,
        2 => length: u64,
        3 => patience_ms: u64,
        /// As of `ReadExtents`.
        4 => seen: LogIndex,
    }
}
cairn_types::message! {
    /// Its length now.
    pub struct WaitLengthAnswer { 1 => length: u64, 2 => log: LogIndex }
}
