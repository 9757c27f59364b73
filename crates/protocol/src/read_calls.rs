//! Reading a replica (design §7).

use cairn_types::{BlockChecksums, ChunkHandle, ChunkVersion};

cairn_types::message! {
    /// `size` bytes from `offset` of a chunk, as it stands at `version`.
    pub struct Read {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => offset: u64,
        4 => size: u64,
        /// The master says that the chunk is closed. A replica's close mark counts for nobody else:
        /// a fence may have put it on this replica alone, and come to nothing (R19).
        5 => closed: bool,
        /// How long ago the reader asked the master where the chunk lies. A server that may have
        /// been left out since then without hearing of it refuses.
        6 => location_age_ms: u64,
        /// A shadow master said where the chunk lies, and the reader takes what may be behind: who
        /// may have been left out serves it all the same, and what is not known to be acknowledged
        /// is the end.
        7 => takes_behind: bool,
        /// Of a chunk of a stream: how much of it is committed, and readable therefore (R44).
        8 => committed: Option<u64>,
    }
}
cairn_types::message! {
    /// The payload starts at `offset` of the chunk, which may lie before the one asked for: whole
    /// blocks travel with their stored checksums. One checksum per piece.
    pub struct ReadAnswer {
        1 => offset: u64,
        2 => checksums: BlockChecksums,
        /// Readable bytes of this chunk, here and now (R17); the whole chunk where it is closed.
        3 => readable: u64,
        /// The mark stands here too, where the reader named the chunk closed.
        4 => closed: bool,
        /// Bytes after the payload, within the range asked for, that are zeros by definition
        /// (R19).
        5 => zeros: u64,
        /// The replica may have lost synced bytes (R28): read with a warning.
        6 => suspect: bool,
    }
}

cairn_types::message! {
    /// The acknowledged length of a chunk.
    pub struct ChunkLength { 1 => handle: ChunkHandle, 2 => version: ChunkVersion }
}
cairn_types::message! {
    /// Only a lease holder's answer is more than a lower bound.
    pub struct ChunkLengthAnswer { 1 => length: u64, 2 => closed: bool, 3 => primary: bool }
}
