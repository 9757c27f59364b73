//! What clients ask of a master. No file byte passes here (GFS §2.3).

use crate::{CellNow, ReadExtentsAnswer, ScrubProgress, ServerDuty, TrafficRates};
use cairn_types::{
    CellConfig, CellId, CellPath, ChunkHandle, ChunkIndex, ChunkVersion, Content, Entry, EntryId,
    Layout, LeaseId, MutationName, ReplicaAt, ServerId, Term, WallTime,
};

cairn_types::message! {
    /// Where one chunk of a file lies. No replica: a hole, or none is reachable now.
    pub struct ChunkLocations {
        1 => index: ChunkIndex,
        2 => handle: ChunkHandle,
        3 => version: ChunkVersion,
        4 => closed: bool,
        /// Up-to-date replicas that are not silent.
        5 => replicas: Vec<ReplicaAt>,
        /// The lease holder, where a lease is live; it alone knows the acknowledged length.
        6 => primary: Option<ServerId>,
        /// Where there is no replica, and none will come by itself: the servers that held one when
        /// they died, or have not come back to tell what they hold.
        7 => lost: Vec<ReplicaAt>,
    }
}

cairn_types::message! {
    /// What a path stands for.
    pub struct Stat { 1 => path: CellPath }
}
cairn_types::message! {
    /// `last` is there where the last chunk is leased or open: its primary knows the length.
    pub struct StatAnswer { 1 => entry: Entry, 2 => last: Option<Box<ChunkLocations>> }
}

cairn_types::message! {
    /// Resolves a path and asks for `count` chunks from `first` on, in one request.
    pub struct Open {
        1 => path: CellPath,
        2 => first: ChunkIndex,
        3 => count: u32,
        /// Of a stream, instead of chunks by their indexes: so many extents from its beginning on,
        /// and where their chunks are.
        4 => extents: u32,
    }
}
cairn_types::message! {
    /// The entry and the chunks asked for. From here on the file goes by `entry.id` (R20).
    pub struct OpenAnswer {
        1 => entry: Entry,
        2 => chunks: Vec<ChunkLocations>,
        /// Of a stream, where its extents were asked for, and instead of chunks by their indexes.
        3 => stream: Option<Box<ReadExtentsAnswer>>,
    }
}

/// Chunks that one answer to `Open` or `Locate` tells of, however many are asked for. Who wants
/// more goes on behind these.
pub const LOCATE_COUNT_MAX: u32 = 256;

cairn_types::message! {
    /// Chunks `first..first + count` of an open file, [`LOCATE_COUNT_MAX`] at most.
    pub struct Locate {
        1 => file: EntryId,
        2 => first: ChunkIndex,
        3 => count: u32,
        /// The next `count` chunks that are there, from `first` on, however many holes lie between.
        4 => over_holes: bool,
    }
}
cairn_types::message! {
    /// `entry.length` and `entry.chunk_count` are the master's present ones; holes are left out.
    /// The entry has no name: who asks by id knows it.
    pub struct LocateAnswer {
        1 => entry: Entry,
        2 => chunks: Vec<ChunkLocations>,
        /// To a question over holes: the index of the next chunk, or `entry.chunk_count` where
        /// there is none. Masters of before tell 0, and of the indexes that were asked for alone.
        3 => next: ChunkIndex,
    }
}

cairn_types::message! {
    /// Names of a directory after `after`, at most `limit`; with `skip` (at most 16 000), the page
    /// behind so many of them, which can be asked for before these have come. The directory of
    /// hidden names, which the root shows with `hidden`, is not counted among those skipped.
    pub struct List {
        1 => path: CellPath,
        2 => after: String,
        3 => limit: u32,
        /// Hidden (deleted) names too.
        4 => hidden: bool,
        5 => skip: u32,
    }
}
cairn_types::message! {
    /// In order of names; `more` tells whether to ask again after the last one. The page follows
    /// `skipped`, the last name that was left out; empty, as the page is, where there were fewer.
    pub struct ListAnswer { 1 => entries: Vec<Entry>, 2 => more: bool, 3 => skipped: String }
}

cairn_types::message! {
    /// Paths below `root` whose name matches `pattern` (`*`, `?`, `[a-z]`), in order, after
    /// `after`: the paper's FindMatchingFiles.
    pub struct Find {
        1 => root: CellPath,
        2 => pattern: String,
        3 => after: String,
        4 => limit: u32,
    }
}
cairn_types::message! {
    /// One path found.
    pub struct Found { 1 => path: String, 2 => entry: Entry }
}
cairn_types::message! {
    /// `resume` is what to ask `after` next; empty at the end.
    pub struct FindAnswer { 1 => found: Vec<Found>, 2 => resume: String }
}

cairn_types::message! {
    /// Makes a directory; with `parents` also those above it, and an existing one is no error.
    pub struct MakeDirectory {
        1 => mutation: MutationName,
        2 => path: CellPath,
        3 => parents: bool,
        /// Of what is made; none: 0755.
        4 => mode: Option<u32>,
    }
}
cairn_types::message! {
    /// The directory.
    pub struct MakeDirectoryAnswer { 1 => entry: Entry }
}

cairn_types::message! {
    /// Makes an empty file. With `or_open` an existing file is answered instead of refused.
    pub struct Create {
        1 => mutation: MutationName,
        2 => path: CellPath,
        /// Zero: what its directory's policy says, or else the cell.
        3 => replication: u32,
        4 => content: Content,
        5 => or_open: bool,
        /// Acknowledge mutations only once they are on disk everywhere; else what its directory's
        /// policy says.
        6 => synced: bool,
        /// None: 0644.
        7 => mode: Option<u32>,
        /// None: what its directory's policy says.
        8 => layout: Option<Layout>,
        /// Of a stream; none: what its directory's policy says.
        9 => commit_replicas: Option<u32>,
    }
}
cairn_types::message! {
    /// The file; `created` tells whether it is new.
    pub struct CreateAnswer { 1 => entry: Entry, 2 => created: bool }
}

cairn_types::message! {
    /// Moves a name. With `replace`, an existing file at `to` is hidden in the same record.
    pub struct Rename {
        1 => mutation: MutationName,
        2 => from: CellPath,
        3 => to: CellPath,
        4 => replace: bool,
    }
}
cairn_types::message! {
    /// Nothing more to say.
    pub struct RenameAnswer { }
}

cairn_types::message! {
    /// Hides a file or directory; a directory with entries only if `recursive` (§4.4).
    pub struct Delete { 1 => mutation: MutationName, 2 => path: CellPath, 3 => recursive: bool }
}
cairn_types::message! {
    /// The hidden name, by which it can still be read.
    pub struct DeleteAnswer { 1 => hidden: String }
}

cairn_types::message! {
    /// Brings a deleted file or directory back. `path` is where it was, and means what was deleted
    /// there last; or it is a hidden path. Without `to` it comes back to where it was.
    pub struct Undelete {
        1 => mutation: MutationName,
        2 => path: CellPath,
        3 => to: Option<CellPath>,
    }
}
cairn_types::message! {
    /// The path that it has now.
    pub struct UndeleteAnswer { 1 => path: String }
}

cairn_types::message! {
    /// What is deleted and can be brought back: all of it, or what was deleted from one directory.
    pub struct ListDeleted {
        1 => directory: Option<CellPath>,
        2 => after: Option<DeletedMark>,
        3 => limit: u32,
    }
}
cairn_types::message! {
    /// Where a page ended.
    pub struct DeletedMark { 1 => id: EntryId, 2 => name: String, 3 => deleted: WallTime }
}
cairn_types::message! {
    /// Something deleted; a directory stands for all that is in it.
    pub struct DeletedEntry {
        /// The path by which it is read.
        1 => hidden: String,
        /// The path where it was, as it would be now; empty where its directory is gone.
        2 => path: String,
        3 => entry: Entry,
        4 => deleted: WallTime,
        /// How long it is kept.
        5 => left_ms: u64,
    }
}
cairn_types::message! {
    /// All of it by age of the entries, or of one directory by name, the last to be deleted first.
    /// `resume` is what to ask `after` next; none at the end.
    pub struct ListDeletedAnswer {
        1 => entries: Vec<DeletedEntry>,
        2 => resume: Option<DeletedMark>,
    }
}

cairn_types::message! {
    /// Chunks that servers keep and the master's log does not know, behind a handle.
    pub struct ListLost { 1 => after: ChunkHandle, 2 => limit: u32 }
}
cairn_types::message! {
    /// One of them: the most bytes that a server stores of it, and the servers.
    pub struct LostChunk {
        1 => handle: ChunkHandle,
        2 => length: u64,
        3 => servers: Vec<ReplicaAt>,
    }
}
cairn_types::message! {
    /// In order of handles. `resume` is what to ask `after` next; none at the end.
    pub struct ListLostAnswer { 1 => chunks: Vec<LostChunk>, 2 => resume: Option<ChunkHandle> }
}
cairn_types::message! {
    /// A person lets go of a lost chunk: servers throw it away.
    pub struct LetGoOfLost { 1 => handle: ChunkHandle }
}
cairn_types::message! {
    /// Logged.
    pub struct LetGoOfLostAnswer { }
}
cairn_types::message! {
    /// A person decides which replica chunks go on with that have no set of which the master is
    /// sure (R28): of a path, or one by its handle.
    pub struct Recover {
        1 => subject: String,
        /// Whose replica it is to be, stale or not; none: the best of those up to date.
        2 => server: ServerId,
        /// Of a path, the chunks from this one on.
        3 => from: ChunkIndex,
    }
}
cairn_types::message! {
    /// A chunk that goes on with this replica as soon as it is leased.
    pub struct ChosenReplica {
        1 => handle: ChunkHandle,
        2 => file: EntryId,
        3 => index: ChunkIndex,
        4 => at: ReplicaAt,
        5 => length: u64,
        /// What is known of it: it may have lost bytes; it lacks changes that were acknowledged.
        6 => suspect: bool,
        7 => stale: bool,
    }
}
cairn_types::message! {
    /// What was chosen; of a path, why nothing was chosen for others that have no good replica.
    pub struct RecoverAnswer {
        1 => chosen: Vec<ChosenReplica>,
        2 => refused: Vec<String>,
        /// Chunks from here on have not been looked at.
        3 => resume: Option<ChunkIndex>,
    }
}

cairn_types::code! {
    /// What a lease is wanted for.
    #[derive(Default)]
    pub enum LeasePurpose {
        /// A write at an offset of chunk `index`.
        #[default]
        Write = 1,
        /// An append: the last chunk, or the one after it where that is closed.
        Append = 2,
        /// Nothing but levelled replicas, for a reader past the mark (R17).
        Level = 3,
    }
}
cairn_types::message! {
    /// Asks which replica orders mutations of a chunk, making chunk and lease where needed
    /// (Figure 2, steps 1 and 2).
    pub struct Lease {
        1 => file: EntryId,
        2 => index: ChunkIndex,
        3 => purpose: LeasePurpose,
        /// A primary that the client cannot reach or that refused it; the master probes by itself
        /// before it believes it (R18).
        4 => failed: ServerId,
        /// The version under which that was.
        5 => failed_version: ChunkVersion,
    }
}
cairn_types::message! {
    /// Who orders mutations of the chunk now.
    pub struct ChunkGrant {
        1 => index: ChunkIndex,
        2 => handle: ChunkHandle,
        3 => version: ChunkVersion,
        4 => lease: LeaseId,
        5 => primary: ReplicaAt,
        6 => secondaries: Vec<ReplicaAt>,
    }
}

cairn_types::message! {
    /// Makes the master ask the last chunk's primary for its length and record it (design §4);
    /// done by clients at `sync` and at close.
    pub struct RecordLength {
        1 => file: EntryId,
        /// Who asks has closed the file: what it is charged beyond its length is given back (R36).
        /// Of whoever may not write the file it is not heeded.
        2 => closes: bool,
    }
}
cairn_types::message! {
    /// The recorded length in bytes.
    pub struct RecordLengthAnswer { 1 => length: u64 }
}

cairn_types::message! {
    /// A hint that a replica served bytes that fail their checksum (R31).
    pub struct ReportBadBlock {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => server: ServerId,
        4 => offset: u64,
    }
}
cairn_types::message! {
    /// Heard.
    pub struct ReportBadBlockAnswer { }
}

cairn_types::message! {
    /// Which cell is this.
    pub struct CellInfo { }
}
cairn_types::message! {
    /// The cell, its settings, and the present term.
    pub struct CellInfoAnswer { 1 => cell: CellId, 2 => config: Box<CellConfig>, 3 => term: Term }
}

cairn_types::message! {
    /// All chunkservers.
    pub struct Servers { }
}
cairn_types::code! {
    /// How a server stands (R6).
    #[derive(Default)]
    pub enum ServerState {
        /// Heard of within `silent_ms`.
        #[default]
        Live = 1,
        /// No heartbeat for `silent_ms`: no placement, readers avoid it.
        Silent = 2,
        /// No heartbeat for `dead_ms`.
        Dead = 3,
    }
}
cairn_types::message! {
    /// One chunkserver as the master sees it. Sizes in bytes.
    pub struct ServerStatus {
        1 => at: ReplicaAt,
        2 => state: ServerState,
        3 => capacity: u64,
        4 => used: u64,
        5 => chunk_count: u64,
        6 => lease_count: u64,
        7 => heartbeat_age_ms: u64,
        /// Bytes that it stores of chunks; `used` is what its disks hold of anybody's.
        8 => stored: u64,
        9 => disk_count: u64,
        /// Disks that failed.
        10 => disk_failed_count: u64,
        /// Replicas there that are damaged, or may have lost bytes.
        11 => bad_count: u64,
        /// Nothing while it is silent.
        50 => traffic: TrafficRates,
        51 => scrub: ScrubProgress,
        45 => duty: ServerDuty,
        /// Of its disks none has room for another chunk: it takes no new ones.
        52 => full: bool,
        /// Its heartbeats come, and the master does not reach it at the address that it gives.
        53 => unreached: bool,
    }
}
/// The most chunkservers that a cell may have: all of them fit one answer.
pub const SERVER_COUNT_MAX: usize = 4096;

cairn_types::message! {
    /// In order of address.
    pub struct ServersAnswer { 1 => servers: Vec<ServerStatus> }
}

cairn_types::message! {
    /// A chunkserver will not come back: it is missed no more. Refused while it is there.
    pub struct ForgetServer { 1 => server: ServerId }
}
cairn_types::message! {
    /// It is forgotten.
    pub struct ForgetServerAnswer { }
}

cairn_types::message! {
    /// Chunks with fewer good replicas within reach than their goal, whose handles come after
    /// `after`; at most `limit`.
    pub struct ListDegraded { 1 => after: ChunkHandle, 2 => limit: u32 }
}
cairn_types::message! {
    /// A chunk that lacks replicas.
    pub struct DegradedChunk {
        1 => handle: ChunkHandle,
        2 => index: ChunkIndex,
        /// The file's path, a hidden one for a deleted file.
        3 => path: String,
        /// Up-to-date replicas on live servers that are not known to have lost or bent anything.
        4 => good: u32,
        5 => goal: u32,
        /// Whether anybody can read it now.
        6 => readable: bool,
        /// As of `ListedChunk`.
        7 => unnamed: bool,
    }
}
cairn_types::message! {
    /// In order of handles. `resume` is what to ask `after` next; none at the end.
    pub struct ListDegradedAnswer {
        1 => chunks: Vec<DegradedChunk>,
        2 => resume: Option<ChunkHandle>,
    }
}

cairn_types::message! {
    /// The state of the cell.
    pub struct Status { }
}
cairn_types::message! {
    /// `reasons` is empty when all is well; each is a code, a colon and a line.
    pub struct StatusAnswer {
        1 => cell: CellId,
        2 => term: Term,
        3 => file_count: u64,
        4 => directory_count: u64,
        5 => chunk_count: u64,
        6 => under_replicated: u64,
        7 => unavailable: u64,
        9 => reasons: Vec<String>,
        10 => started: WallTime,
        11 => log_index: u64,
        12 => hidden_count: u64,
        /// Bytes of all file systems under live servers, each counted once, and what is taken of
        /// them by anybody.
        20 => capacity: u64,
        21 => used: u64,
        /// Bytes that chunkservers store of chunks.
        22 => stored: u64,
        50 => now: Box<CellNow>,
    }
}

cairn_types::message! {
    /// Why is this path or chunk handle as it is?
    pub struct Explain { 1 => subject: String }
}
cairn_types::message! {
    /// Lines for a person: what is wrong, what is waited for, since when.
    pub struct ExplainAnswer {
        1 => lines: Vec<String>,
        2 => healthy: bool,
        /// How many good replicas can be reached of the chunk that has the fewest; zero where none
        /// is explained.
        3 => good: u32,
    }
}
