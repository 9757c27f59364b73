//! Data and control of a mutation (GFS §3.1 to §3.3): push down the chain, then one `Write` or
//! `Append` to the primary, which forwards in serial order.

use crate::{ErrorCode, Failure, ReplicaReport};
use cairn_types::{
    BlockChecksums, ChunkHandle, ChunkVersion, LeaseId, PushId, ReplicaAt, SerialNumber, ServerId,
};

/// A push of so many bytes at most goes among the sender's other requests, for others do not wait
/// long behind it, and may bring an order along.
pub const SHORT_PUSH_MAX: usize = 64 << 10;

cairn_types::message! {
    /// Data for the receiver's buffer and for each server of `chain` after it; the bytes are the
    /// payload. Received, verified, kept and passed on below the seam, while it arrives. Answered
    /// when every server of the chain holds it.
    pub struct Push {
        1 => push: PushId,
        /// The bytes' position within a block, so that pieces end where the chunk's blocks do;
        /// zero for an append, whose offset nobody knows yet.
        2 => block_offset: u32,
        3 => checksums: BlockChecksums,
        /// The servers still to come, nearest first.
        4 => chain: Vec<ReplicaAt>,
        /// The cell's block size, so that the pieces can be told apart below the seam; zero means
        /// the standard one.
        6 => block_size: u32,
        /// What the receiver is to do once all of the chain hold the bytes, if it is the primary:
        /// that is answered then, in this one's place. Only with at most [`SHORT_PUSH_MAX`] bytes,
        /// by the connection of the sender's other requests (R15); never passed on. A server of
        /// before ignores it and answers the push.
        7 => order: Option<Box<AppendOrder>>,
    }
}
cairn_types::message! {
    /// An [`Append`] of the bytes that bring it: what those do not say themselves.
    pub struct AppendOrder {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
    }
}

/// An order whose data has more pieces is not taken along with it: their sums are held for it.
const ORDERED_PIECES_MAX: usize = 1025;

impl Push {
    /// Whether it may bring its order along, where it brings one, with so many bytes.
    ///
    /// # Errors
    /// Why not.
    pub fn check_order(&self, size: usize) -> Result<(), Failure> {
        let pieces = self.checksums.0.len();
        let is_short = size <= SHORT_PUSH_MAX && pieces <= ORDERED_PIECES_MAX;
        if self.order.is_none() || is_short {
            return Ok(());
        }
        let line = format!(
            "{size} pushed bytes in {pieces} pieces bring an order along; the limits for that are \
             {SHORT_PUSH_MAX} and {ORDERED_PIECES_MAX}"
        );
        Err(Failure::refused(ErrorCode::Invalid, line))
    }

    /// Takes out the append that is to follow this push of so many bytes.
    pub fn take_order(&mut self, size: u64) -> Option<Append> {
        let AppendOrder { handle, version, lease } = *self.order.take()?;
        let (push, checksums) = (self.push, self.checksums.clone());
        Some(Append { handle, version, lease, push, size, checksums, sync: false })
    }
}

cairn_types::message! {
    /// All of the chain hold the bytes.
    pub struct PushAnswer { }
}

cairn_types::message! {
    /// Applies pushed bytes at `offset` of the chunk. The primary of `lease` only.
    pub struct Write {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
        4 => push: PushId,
        5 => offset: u64,
        6 => size: u64,
        7 => checksums: BlockChecksums,
        /// Acknowledge only once it is on disk everywhere.
        8 => sync: bool,
    }
}
cairn_types::message! {
    /// Every replica of the set applied it.
    pub struct WriteAnswer { 1 => serial: SerialNumber }
}

cairn_types::message! {
    /// Applies pushed bytes at an offset that the primary chooses.
    pub struct Append {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
        4 => push: PushId,
        5 => size: u64,
        6 => checksums: BlockChecksums,
        7 => sync: bool,
    }
}
cairn_types::message! {
    /// Where it stands in the chunk, on every replica.
    pub struct AppendAnswer { 1 => offset: u64, 2 => serial: SerialNumber }
}

cairn_types::message! {
    /// Whose bytes a levelling spreads, and how that replica stood before it: one that stands
    /// otherwise fetches what it lacks from there (R16).
    pub struct LevelSource {
        1 => at: ReplicaAt,
        /// The version under which its bytes last changed.
        2 => mutated_version: ChunkVersion,
        3 => serial: SerialNumber,
        /// Stored bytes.
        4 => length: u64,
    }
}

cairn_types::message! {
    /// One mutation in its order, as the primary hands it on. `push` none: zeros up to
    /// `offset + size` (levelling, R16).
    pub struct Forwarded {
        1 => serial: SerialNumber,
        2 => offset: u64,
        3 => size: u64,
        4 => push: Option<PushId>,
        5 => checksums: BlockChecksums,
        /// Takes the close mark (R18) with this mutation, durably.
        6 => close: bool,
    }
}
cairn_types::message! {
    /// Mutations for a secondary, in serial order, as one batch.
    pub struct Forward {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
        4 => mutations: Vec<Forwarded>,
        /// Bytes acknowledged so far; readable from now on (R17).
        5 => acknowledged: u64,
        /// The last serial number acknowledged (R29).
        8 => acknowledged_serial: SerialNumber,
        6 => sync: bool,
        /// The levelling that opens a lease: serial numbers go on from here whatever the replica
        /// last applied, and its bytes become those of this one.
        9 => level: Option<Box<LevelSource>>,
    }
}
cairn_types::message! {
    /// All of the batch is applied.
    pub struct ForwardAnswer { 1 => serial: SerialNumber }
}

cairn_types::message! {
    /// Blocks of a chunk, as it stands at `version`, from one server to another that has, or is to
    /// have, a replica of it: the first run from `offset` on that differs from the asker's blocks.
    /// Mutations may go on meanwhile. Who asks again behind each answer has all of them in the end.
    pub struct Fetch {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        /// Where a block begins.
        3 => offset: u64,
        /// Bytes that the asker stores.
        4 => length: u64,
        /// The checksums of the asker's blocks from `offset` on.
        5 => known: BlockChecksums,
        /// Bytes that are wanted, where a block is not larger; zero: as many as go at once.
        60 => size_max: u64,
    }
}
cairn_types::message! {
    /// Whole blocks from `offset` on are the payload, verified where they were stored; none: no
    /// block differs. One checksum per block.
    pub struct FetchAnswer {
        1 => offset: u64,
        2 => checksums: BlockChecksums,
        /// How the replica stood that they were read from.
        3 => replica: ReplicaReport,
        /// Clients are busy there: who copies a chunk gives way to them.
        60 => busy: bool,
    }
}

cairn_types::message! {
    /// The acknowledged length, sent when no batch carries it.
    pub struct Acknowledged {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
        4 => acknowledged: u64,
        5 => acknowledged_serial: SerialNumber,
    }
}
cairn_types::message! {
    /// Noted.
    pub struct AcknowledgedAnswer { }
}

cairn_types::message! {
    /// Makes everything applied so far durable; from a client to the primary, which passes it on
    /// to its secondaries with `lease` and `from_primary`.
    pub struct SyncChunk {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
        4 => from_primary: bool,
    }
}
cairn_types::message! {
    /// On every replica's disk up to this acknowledged length and this mutation, whose number tells
    /// of which life of the chunk's unsynced bytes all is there.
    pub struct SyncChunkAnswer {
        1 => length: u64,
        2 => server: ServerId,
        3 => serial: SerialNumber,
    }
}
