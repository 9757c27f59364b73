//! Between master and chunkservers: joining, inventories, heartbeats, raises, leases.

use crate::{CloneProgress, DiskStatus, LevelSource, ReportSlice, ResourceUse, TrafficTotals};
use cairn_types::{
    CellConfig, CellId, ChunkHandle, ChunkIndex, ChunkVersion, EntryId, Incarnation, JoinId,
    LeaseId, LogIndex, ReignId, ReplicaAt, SerialNumber, ServerId, Term,
};

cairn_types::message! {
    /// What a server holds of one chunk.
    pub struct ReplicaReport {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        /// The version under which its bytes last changed (R29).
        3 => mutated_version: ChunkVersion,
        4 => serial: SerialNumber,
        /// Stored bytes.
        5 => length: u64,
        6 => closed: bool,
        /// May have lost bytes (R27).
        7 => suspect: bool,
        /// Acknowledged bytes, as far as this replica knows.
        8 => acknowledged: u64,
        /// The last serial number known to be acknowledged: a replica that has not applied it is
        /// stale (R29). What was applied beyond it may differ between replicas, and costs nothing.
        9 => acknowledged_serial: SerialNumber,
    }
}

cairn_types::message! {
    /// The master that took a server in last: its term, and which of those that a term may have had
    /// where one of them was started from an old copy of its directory (R1).
    #[derive(Copy)]
    pub struct ServedReign {
        1 => term: Term,
        2 => reign: ReignId,
        /// The last record that it told of as applied, as far as the server's process remembers: a
        /// later master whose log ended before it was started from a copy of that very term (R3).
        3 => log: LogIndex,
    }
}
cairn_types::message! {
    /// A chunkserver's first word to a master.
    pub struct Join {
        1 => at: ReplicaAt,
        2 => incarnation: Incarnation,
        /// None where it has never joined a cell.
        3 => cell: CellId,
        4 => capacity: u64,
        5 => used: u64,
        /// The highest it has ever seen (R1, R3).
        6 => term: Term,
        7 => highest_handle: ChunkHandle,
        8 => highest_version: ChunkVersion,
        9 => served: ServedReign,
    }
}
cairn_types::message! {
    /// Welcome; `term` is persisted by the chunkserver before it obeys anything of it (R2).
    pub struct JoinAnswer {
        1 => term: Term,
        2 => cell: CellId,
        3 => config: Box<CellConfig>,
        /// Names this join: the inventory that follows belongs to it.
        4 => join: JoinId,
        /// Durable at the server before it obeys this master again after a restart.
        5 => reign: ReignId,
    }
}

cairn_types::message! {
    /// A slice of what a server holds: first what is urgent, then the rest in handle order; `last`
    /// ends the inventory. The next slice is sent when this one is answered.
    pub struct Inventory {
        1 => server: ServerId,
        2 => incarnation: Incarnation,
        /// Packed (`report_slice.rs`).
        3 => replicas: ReportSlice,
        4 => last: bool,
        /// Leases that it holds, reported under the new term (R22); in the first and last slice.
        5 => leases: Vec<HeldLease>,
        /// The join that it belongs to.
        6 => join: JoinId,
        /// Its place in the inventory, from 0: a slice that comes late or twice is known for it.
        7 => number: u64,
    }
}
cairn_types::message! {
    /// Taken in. What is wanted is told first in the next slice, as far as it is held: somebody
    /// waits for it. The next slice comes after the pause.
    pub struct InventoryAnswer { 1 => wanted: Vec<ChunkHandle>, 2 => pause_ms: u64 }
}

cairn_types::message! {
    /// A lease in its holder's hands, reported and extended in heartbeats (§3.1).
    pub struct HeldLease {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
        4 => acknowledged: u64,
        /// Mutations came since the last heartbeat: it wants an extension.
        5 => wanted: bool,
    }
}
cairn_types::message! {
    /// A replica to be removed: this handle up to this version, nothing newer (R33).
    #[derive(Copy)]
    pub struct Garbage { 1 => handle: ChunkHandle, 2 => version: ChunkVersion }
}
cairn_types::message! {
    /// A chunk's set stands at this version: a replica below it is none of the set, and serves
    /// nobody.
    #[derive(Copy)]
    pub struct LeftOut { 1 => handle: ChunkHandle, 2 => version: ChunkVersion }
}
cairn_types::message! {
    /// How far a server is with verifying all that it stores.
    #[derive(Copy)]
    pub struct ScrubProgress {
        /// Bytes, in the round that is under way, or was the last.
        1 => verified: u64,
        2 => total: u64,
        /// When it began (wall time); zero: there was none.
        3 => began_ms: u64,
        /// Bad replicas found since the server started.
        4 => bad: u64,
        5 => is_over: bool,
    }
}
cairn_types::message! {
    /// The pulse of a chunkserver.
    pub struct Heartbeat {
        1 => server: ServerId,
        2 => incarnation: Incarnation,
        3 => capacity: u64,
        4 => used: u64,
        5 => leases: Vec<HeldLease>,
        /// Replicas here that were found damaged; where they are too many for one heartbeat, some
        /// in turn. One that is not named is as it was.
        6 => damaged: Vec<ChunkHandle>,
        /// A slice of what it holds, in turn, so that the master can name what is garbage.
        7 => held: Vec<ReplicaReport>,
        8 => term: Term,
        /// The last news by number that an answer of this term told it.
        9 => heeded: u64,
        10 => served: ServedReign,
        /// Clones that are being made here (R30).
        11 => clones: Vec<CloneProgress>,
        /// Replicas that have gone with a disk; told until a heartbeat with them is answered.
        12 => lost: Vec<ChunkHandle>,
        /// No new chunk has room on any of its disks.
        13 => full: bool,
        14 => scrub: Box<ScrubProgress>,
        /// Bytes that it stores of chunks.
        15 => stored: u64,
        16 => disks: Vec<DiskStatus>,
        17 => resources: Box<ResourceUse>,
        50 => traffic: Box<TrafficTotals>,
        /// Replicas that were damaged, and whose every block was verified since; told until a
        /// heartbeat with them is answered.
        51 => sound: Vec<ChunkHandle>,
    }
}
cairn_types::message! {
    /// Leases in `extended` live on for a whole lease time, counted by the holder from when it
    /// sent the heartbeat (R4).
    pub struct HeartbeatAnswer {
        1 => term: Term,
        2 => extended: Vec<LeaseId>,
        3 => garbage: Vec<Garbage>,
        /// The master does not know this incarnation: join again, with an inventory.
        4 => rejoin: bool,
        /// Blocks that a client says are bad; verified here before anyone believes it (R31).
        5 => verify: Vec<DoubtedBlock>,
        /// Sets that go on without their replica here; told until a heartbeat says that it was
        /// heeded.
        6 => left_out: Vec<LeftOut>,
        /// The number of the last news in this answer; zero: there was none.
        7 => news: u64,
        /// The last record that the master has applied; the server tells later masters of it.
        8 => log: LogIndex,
        /// Why the master does not reach the server at the address that it gives; empty: it does.
        9 => unreached: String,
        /// It answered when it was asked last whether it is there.
        10 => reached: bool,
        /// Bytes a second that all clones of the server together may take; zero: as fast as it
        /// goes.
        60 => clone_rate: u64,
    }
}
cairn_types::message! {
    /// A block that a client could not verify.
    #[derive(Copy)]
    pub struct DoubtedBlock { 1 => handle: ChunkHandle, 2 => offset: u64 }
}

cairn_types::message! {
    /// The primary asks for a set without the secondaries that failed (R14).
    pub struct SecondaryFailed {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
        4 => failed: Vec<ServerId>,
    }
}
cairn_types::message! {
    /// The logged version, and who is left; the lease goes on.
    pub struct SecondaryFailedAnswer {
        1 => version: ChunkVersion,
        2 => secondaries: Vec<ReplicaAt>,
    }
}

cairn_types::message! {
    /// The primary says that every replica of the set durably holds the close mark (R18).
    pub struct ChunkClosed {
        1 => handle: ChunkHandle,
        2 => version: ChunkVersion,
        3 => lease: LeaseId,
        4 => file: EntryId,
        5 => index: ChunkIndex,
    }
}
cairn_types::message! {
    /// Logged, with the next chunk.
    pub struct ChunkClosedAnswer { }
}

cairn_types::message! {
    /// Raises a replica from the version that it reported to a fresh one (R7). With `create`
    /// there is nothing yet and `from` is none. With `close` it takes the close mark. With `sync`
    /// everything that it holds is on disk before it answers. With `keeps_lease` its set is being
    /// shrunk, as the holder of the lease asked, and the lease goes on. With `adopt` the finished
    /// clone that is there becomes the replica, and `from` is none (R30).
    pub struct Raise {
        1 => term: Term,
        2 => handle: ChunkHandle,
        3 => from: ChunkVersion,
        4 => to: ChunkVersion,
        5 => create: bool,
        6 => close: bool,
        7 => server: ServerId,
        8 => sync: bool,
        9 => keeps_lease: bool,
        10 => adopt: bool,
        /// Of a stream's chunk: the serial number of the last bundle of it that is committed. Who
        /// has applied that has all that counts, whatever else it may have lost, and is suspect no
        /// more (R28, R41).
        11 => committed: Option<SerialNumber>,
    }
}
cairn_types::message! {
    /// How the replica stands, `to` being durable.
    pub struct RaiseAnswer { 1 => replica: ReplicaReport }
}

cairn_types::message! {
    /// Makes the receiver the primary of a chunk whose version is logged. The holder counts from
    /// when it answered the raise to this version (R4).
    pub struct GrantLease {
        1 => term: Term,
        2 => handle: ChunkHandle,
        3 => version: ChunkVersion,
        4 => lease: LeaseId,
        5 => secondaries: Vec<ReplicaAt>,
        /// The longest length and highest serial number in the set, to level to (R16).
        6 => length: u64,
        7 => serial: SerialNumber,
        8 => file: EntryId,
        9 => index: ChunkIndex,
        /// No append is taken, only writes (a closed chunk, R18).
        10 => writes_only: bool,
        11 => server: ServerId,
        /// Who has gone further than the receiver, which first fetches what it lacks from there.
        12 => source: Option<Box<LevelSource>>,
    }
}
cairn_types::message! {
    /// The replicas are level and the lease is held.
    pub struct GrantLeaseAnswer { 1 => acknowledged: u64 }
}

cairn_types::message! {
    /// The holder stops taking mutations, drains, and gives the lease back.
    pub struct RevokeLease { 1 => term: Term, 2 => handle: ChunkHandle, 3 => lease: LeaseId }
}
cairn_types::message! {
    /// Given back; the replica as it stands.
    pub struct RevokeLeaseAnswer { 1 => replica: ReplicaReport }
}

cairn_types::message! {
    /// Are you there, and do you hold this lease? The master's own probe (R18). Of no chunk: are
    /// you at the address that you give? Any answer says so.
    pub struct Probe { 1 => term: Term, 2 => handle: ChunkHandle, 3 => lease: LeaseId }
}
cairn_types::message! {
    /// How the replica stands.
    pub struct ProbeAnswer { 1 => replica: ReplicaReport, 2 => holds: bool }
}
