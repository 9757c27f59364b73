//! Checking the namespace against the chunkservers: what the master believes of each chunk, what a
//! server holds, and whether that is on its disk as it should be.

use crate::{CloneStatus, LostTail, ReplicaReport, ReportSlice, ServerState, WaitReason};
use cairn_types::{CellPath, ChunkHandle, ChunkIndex, ChunkVersion, ReplicaAt, ServerId};

cairn_types::message! {
    /// Chunks whose handles come after `after`; with `under`, those of that file, or of the files
    /// below that directory. At most `limit`. Of one alone the path is searched whatever that
    /// takes; of more, names within reason.
    pub struct ListChunks { 1 => under: Option<CellPath>, 2 => after: ChunkHandle, 3 => limit: u32 }
}
cairn_types::message! {
    /// A replica as the master knows it.
    #[derive(Copy)]
    pub struct ListedReplica {
        1 => server: ServerId,
        2 => version: ChunkVersion,
        3 => length: u64,
        4 => state: ServerState,
        /// The others have gone on without it, or it lacks what was acknowledged.
        5 => stale: bool,
        6 => suspect: bool,
        7 => damaged: bool,
    }
}
cairn_types::message! {
    /// A server that held a replica when it died, and when it was last heard of.
    pub struct MissingReplica { 1 => at: ReplicaAt, 2 => heard_age_ms: u64 }
}
cairn_types::message! {
    /// What a chunk that lacks replicas waits for.
    #[derive(Copy)]
    pub struct ChunkWait {
        1 => why: WaitReason,
        /// When it is tried again, where that is known.
        2 => left_ms: u64,
    }
}
cairn_types::message! {
    /// A chunk as the master knows it.
    pub struct ListedChunk {
        1 => handle: ChunkHandle,
        2 => index: ChunkIndex,
        /// The file's path, a hidden one for a deleted file.
        3 => path: String,
        4 => version: ChunkVersion,
        5 => goal: u32,
        6 => closed: bool,
        /// Somebody may be writing to it: its replicas tell at different times how long they are.
        7 => leased: bool,
        /// Good replicas on servers that are not dead.
        8 => good: u32,
        9 => replicas: Vec<ListedReplica>,
        10 => missing: Vec<MissingReplica>,
        /// The copy that is being made, without its path.
        11 => clone: Option<CloneStatus>,
        /// None where it lacks nothing, or is being copied.
        12 => waits: Option<ChunkWait>,
        /// Only deleted files have it: what ails it is seen to when it is brought back.
        13 => deleted: bool,
        /// The path ends in the file's number, for its name was not found in time.
        14 => unnamed: bool,
        /// What it has lost of a stream.
        15 => lost: Option<LostTail>,
    }
}
cairn_types::message! {
    /// In order of handles. `resume` is what to ask `after` next; none at the end.
    pub struct ListChunksAnswer { 1 => chunks: Vec<ListedChunk>, 2 => resume: Option<ChunkHandle> }
}

cairn_types::message! {
    /// What the server holds behind a handle, as it knows it without a look at its disks.
    pub struct ListHeld { 1 => after: ChunkHandle, 2 => limit: u32 }
}
cairn_types::message! {
    /// In order of handles. `resume` is what to ask `after` next; none at the end.
    pub struct ListHeldAnswer { 1 => replicas: ReportSlice, 2 => resume: Option<ChunkHandle> }
}

cairn_types::code! {
    /// What is wrong with a replica on its disk.
    #[derive(Default)]
    pub enum ReplicaFault {
        /// Nothing.
        #[default]
        Sound = 1,
        /// Its chunk file is gone.
        NoFile = 2,
        /// Its sidecar is gone.
        NoSidecar = 3,
        /// Its files have fewer bytes than they should.
        Short = 4,
        /// A block does not match its checksum, or cannot be read.
        BadBlock = 5,
        /// What it holds was lost before: nothing of it can be read.
        Lost = 6,
    }
}
cairn_types::message! {
    /// Looks whether a replica is on its disk as the server knows it; with `data` verifies some
    /// blocks from `offset` on. What is found is told to the master with the next heartbeat.
    pub struct CheckReplica { 1 => handle: ChunkHandle, 2 => offset: u64, 3 => data: bool }
}
cairn_types::message! {
    /// How the replica stands, and what is wrong with it.
    pub struct CheckReplicaAnswer {
        1 => replica: ReplicaReport,
        2 => fault: ReplicaFault,
        /// Where the bad block is.
        3 => bad_offset: u64,
        /// Bytes that were verified.
        4 => size: u64,
        /// From where to go on; none: there is no more.
        5 => next: Option<u64>,
        /// The server knew it as damaged before.
        6 => damaged: bool,
        /// Without `data`: its file was made as a clone of another chunk's, on the same disk.
        7 => reflinked: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::{ListedChunk, ListedReplica};
    use cairn_types::wire::Message;

    #[test]
    fn a_chunk_with_the_longest_path_and_many_replicas_has_a_few_kilobytes() {
        let replica = ListedReplica { length: u64::MAX, ..ListedReplica::default() };
        let chunk = ListedChunk {
            path: "p".repeat(cairn_types::PATH_SIZE_MAX),
            replicas: vec![replica; 32],
            ..ListedChunk::default()
        };
        assert!(chunk.to_bytes().len() < 6 << 10);
    }
}
