//! The records of the operation log about streams (R38 to R47).

use bytes::Bytes;
use cairn_types::{
    ChunkHandle, ChunkIndex, ChunkVersion, EntryId, Epoch, MutationName, ProducerId, RecordNumber,
    SerialNumber, WallTime,
};

cairn_types::message! {
    /// A producer begins an epoch; it is made where there is none of its name (R38).
    pub struct OpenProducerRecord {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => file: EntryId,
        4 => name: String,
        /// What it becomes where there is none of that name.
        5 => producer: ProducerId,
        6 => epoch: Epoch,
        /// From level 3 on, without a name: the exclusive opening that this one follows, which has
        /// to be the one that is open (R46); none: there is none.
        7 => takes_over: Epoch,
    }
}
cairn_types::message! {
    /// An epoch is over.
    #[derive(Copy)]
    pub struct CloseProducerRecord {
        1 => time: WallTime,
        2 => file: EntryId,
        3 => producer: ProducerId,
        4 => epoch: Epoch,
    }
}
cairn_types::message! {
    /// A person forgets a producer (R47).
    pub struct ForgetProducerRecord {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => file: EntryId,
        4 => name: String,
    }
}
cairn_types::message! {
    /// A chunk for one epoch of a producer, on disks of `set_size` servers (R40).
    #[derive(Copy)]
    pub struct AllocateChunk {
        1 => time: WallTime,
        2 => file: EntryId,
        3 => index: ChunkIndex,
        4 => handle: ChunkHandle,
        5 => version: ChunkVersion,
        6 => set_size: u32,
        /// The lowest handle of its term that may still be opened, this one or below it.
        7 => floor: ChunkHandle,
        8 => producer: ProducerId,
        9 => epoch: Epoch,
    }
}
cairn_types::message! {
    /// A bundle whose holders were believed (R43).
    pub struct CommittedBundle {
        1 => first: RecordNumber,
        2 => count: u64,
        3 => handle: ChunkHandle,
        4 => offset: u64,
        5 => size: u64,
        6 => serial: SerialNumber,
        7 => cursor: Option<Bytes>,
        /// From level 3 on: which bytes of the file it takes the place of (R46).
        8 => replaces: Option<u64>,
    }
}
cairn_types::message! {
    /// Bundles of one producer are put at the end of the file, in their order (R38).
    pub struct CommitBundlesRecord {
        1 => time: WallTime,
        2 => file: EntryId,
        3 => producer: ProducerId,
        4 => epoch: Epoch,
        5 => bundles: Vec<CommittedBundle>,
    }
}
cairn_types::message! {
    /// A stream's chunk is closed, at the version to which those were raised that have what is
    /// committed of it.
    #[derive(Copy)]
    pub struct SealChunk {
        1 => time: WallTime,
        2 => handle: ChunkHandle,
        3 => version: ChunkVersion,
        4 => set_size: u32,
        /// All of the set have applied this at least; none: the best that there is became the set
        /// (R28), and what it lacks is lost (R41).
        5 => serial: Option<SerialNumber>,
        /// As in `SetVersion`.
        6 => keeps_above: Option<SerialNumber>,
        /// Where there is no serial number: how many bytes all of the set have. From level 4 on.
        7 => held: Option<u64>,
    }
}
cairn_types::message! {
    /// A person makes a hole of what the chunk has lost (R41).
    #[derive(Copy)]
    pub struct SkipLostTail { 1 => time: WallTime, 2 => file: EntryId, 3 => handle: ChunkHandle }
}
cairn_types::message! {
    /// A slice of what a stream is, for its copy in a snapshot: at most `count` extents and
    /// producers.
    pub struct CopyStream {
        1 => time: WallTime,
        2 => top: EntryId,
        3 => source: EntryId,
        4 => id: EntryId,
        /// Extents from this byte of the file on; as far as the copy is long.
        5 => from: u64,
        /// Producers behind this name.
        6 => after: String,
        7 => count: u32,
    }
}
cairn_types::message! {
    /// A chunk of which nothing was committed is taken out of its place (R42).
    #[derive(Copy)]
    pub struct AbandonChunk { 1 => time: WallTime, 2 => handle: ChunkHandle }
}
cairn_types::message! {
    /// A range of a chunk, as a stream has it.
    #[derive(Copy)]
    pub struct ReplacedRange { 1 => handle: ChunkHandle, 2 => offset: u64, 3 => size: u64 }
}
cairn_types::message! {
    /// A range of a stream stands in a chunk of its own from now on, where it still stands as it
    /// did when that was made (R45). The chunk is closed, and has these bytes and no others, on
    /// disks of `set_size` servers.
    pub struct ReplaceRange {
        1 => time: WallTime,
        2 => file: EntryId,
        /// Where in the file.
        3 => offset: u64,
        /// What stood there, in its order: ranges of closed chunks.
        4 => replaced: Vec<ReplacedRange>,
        5 => index: ChunkIndex,
        6 => handle: ChunkHandle,
        7 => version: ChunkVersion,
        8 => set_size: u32,
        /// The lowest handle of its term that may still be opened, this one or below it.
        9 => floor: ChunkHandle,
        /// The stream is settled up to there.
        10 => settled_to: Option<u64>,
    }
}
cairn_types::message! {
    /// A stream is settled up to there, without anything being copied; `done`: nothing is to be
    /// done for what is behind either, before more of it is sealed.
    #[derive(Copy)]
    pub struct NoteSettled {
        1 => time: WallTime,
        2 => file: EntryId,
        3 => settled_to: u64,
        4 => done: bool,
        /// How long the stream was when that was found.
        5 => length: u64,
    }
}
