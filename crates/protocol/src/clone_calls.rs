//! Copying a chunk to a server that has no replica of it (R30): ordered by the master, done by the
//! receiver with `Fetch`. And copying one on its own server, to be another chunk (R32).
//!
//! ```text
//!   master ──CloneChunk──► receiver ──Fetch──► source        mutations go on
//!   master ──CloneChunk { finish }──► receiver ──Fetch──► source        nobody mutates
//!   master ──Raise { adopt }──► receiver        it is a replica from here on
//! ```

use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt, SerialNumber, ServerId, Term};

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
