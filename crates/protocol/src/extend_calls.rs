//! What the producer of a stream asks of a chunk's servers (R40).

use cairn_types::{
    BlockChecksums, ChunkHandle, ChunkVersion, Incarnation, PushId, SerialNumber, ServerId,
};

cairn_types::message! {
    /// Pushed bytes become the end of a stream's chunk on the server that is asked (R40). What it
    /// has of them already is compared, the rest is appended; a gap or a difference is refused.
    pub struct Extend {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => push: PushId,
        /// Which bundle of the chunk this is, from 1.
        4 => serial: SerialNumber,
        5 => offset: u64,
        6 => size: u64,
        7 => checksums: BlockChecksums,
        /// Answer only once it is on disk.
        8 => sync: bool,
    }
}
cairn_types::message! {
    /// The server holds the chunk up to the bundle's end, at least.
    #[derive(Copy)]
    pub struct ExtendAnswer {
        1 => server: ServerId,
        2 => incarnation: Incarnation,
        /// Stored bytes.
        3 => length: u64,
    }
}
