//! Copying a chunk to a server that has no replica of it (R30): ordered by the master, done by the
//! receiver with `Fetch`. And copying one on its own server, to be another chunk (R32), or making
//! one of ranges of several (R45).
//!
//! ```text
//!   master ──CloneChunk──► receiver ──Fetch──► source        mutations go on
//!   master ──CloneChunk { finish }──► receiver ──Fetch──► source        nobody mutates
//!   master ──Raise { adopt }──► receiver        it is a replica from here on
//! ```

use cairn_types::{ChunkHandle, ChunkVersion, Crc32c, ReplicaAt, SerialNumber, ServerId, Term};

cairn_types::message! {
    /// Orders a copy of a chunk under a temporary name, in no inventory (R30). Asked again, it goes
    /// on with what is there.
    pub struct CloneChunk {
        1 => term: Term,
        2 => handle: ChunkHandle,
        /// At which the source stands.
        3 => version: ChunkVersion,
        /// Who is to receive it.
        4 => server: ServerId,
        5 => source: ReplicaAt,
        /// Bytes a second that all clones of the receiver together may take, from now on; zero: as
        /// fast as it goes.
        6 => rate: u64,
        /// Nobody mutates the chunk any more: what differs is fetched, and all is brought to disk.
        7 => finish: bool,
    }
}
cairn_types::message! {
    /// The clone has what the source had when this was asked; with `finish` it is equal, and on
    /// disk.
    pub struct CloneChunkAnswer {
        /// How the source stands, and the clone with it.
        1 => serial: SerialNumber,
        2 => length: u64,
        /// Bytes that were fetched for this order.
        3 => copied: u64,
        4 => mutated_version: ChunkVersion,
    }
}

cairn_types::message! {
    /// Gives up a clone; its files go.
    pub struct DropClone { 1 => term: Term, 2 => handle: ChunkHandle, 3 => server: ServerId }
}
cairn_types::message! {
    /// There is none now.
    pub struct DropCloneAnswer { }
}

cairn_types::message! {
    /// Orders a copy of a replica on its own server, as a chunk of its own: for a file that is
    /// about to write to a chunk which it shares with others (R32). It is no replica before a raise
    /// adopts it.
    #[derive(Copy)]
    pub struct CopyChunk {
        1 => term: Term,
        /// What is copied.
        2 => handle: ChunkHandle,
        /// At which it stands; nobody mutates it there.
        3 => version: ChunkVersion,
        /// Who is to copy it.
        4 => server: ServerId,
        /// What the copy is called.
        5 => copy: ChunkHandle,
    }
}
cairn_types::message! {
    /// The copy is on disk, and stands as the source does.
    #[derive(Copy)]
    pub struct CopyChunkAnswer {
        1 => serial: SerialNumber,
        2 => length: u64,
        3 => mutated_version: ChunkVersion,
    }
}

/// The most ranges of one [`AssembleChunk`].
pub const ASSEMBLED_RANGES_MAX: usize = 4096;

cairn_types::message! {
    /// A chunk of which ranges are taken, and who has good replicas of it.
    pub struct AssembledSource {
        1 => handle: ChunkHandle,
        /// At which they stand; nobody mutates it: it is closed.
        2 => version: ChunkVersion,
        3 => replicas: Vec<ReplicaAt>,
    }
}
cairn_types::message! {
    /// A range of one of the sources, which is named by its index.
    #[derive(Copy)]
    pub struct AssembledRange { 1 => source: u32, 2 => offset: u64, 3 => size: u64 }
}
cairn_types::message! {
    /// Orders a chunk that is made of ranges of others, in their order (R45): of this server's own
    /// replicas where it has them, else of what others give. It is no replica before a raise adopts
    /// it.
    pub struct AssembleChunk {
        1 => term: Term,
        /// Who is to make it.
        2 => server: ServerId,
        /// What it is called.
        3 => handle: ChunkHandle,
        /// Under which it counts as written.
        4 => mutated_version: ChunkVersion,
        5 => sources: Vec<AssembledSource>,
        6 => ranges: Vec<AssembledRange>,
        /// Bytes a second that all of these of this server together may move; zero: as fast as it
        /// goes.
        7 => rate: u64,
        /// For so long it is kept once it is finished.
        8 => keep_ms: u64,
    }
}
cairn_types::message! {
    /// It is on disk.
    #[derive(Copy)]
    pub struct AssembleChunkAnswer {
        1 => length: u64,
        /// Of the checksums of all its blocks: others that are made of the same ranges have the
        /// same.
        2 => checksum: Crc32c,
        /// Bytes of it that others gave.
        3 => fetched: u64,
    }
}

cairn_types::message! {
    /// How far a clone is, as its receiver's heartbeats tell it.
    #[derive(Copy)]
    pub struct CloneProgress {
        1 => handle: ChunkHandle,
        /// Bytes that are here.
        2 => copied: u64,
        /// Bytes that the source stores, as far as known.
        3 => total: u64,
        /// It rests, or waits for its turn among the receiver's clones: nothing holds it up.
        4 => waits: bool,
    }
}
