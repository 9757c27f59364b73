//! The records of the operation log: every durable change of the master's state (GFS §2.6.3).
//!
//! ```text
//!   decide (locks held, ids resolved) ──► Record ──► durable ──► committed ──► State::apply
//! ```
//! - RC1: a record carries the time and every choice made, so that applying it decides nothing.
//! - RC2: a record names entries by id and states what its proposer saw; `apply` checks that again,
//!   and a record that no longer fits changes nothing but the remembered outcome (R23).

use crate::stream_records::{
    AbandonChunk, AllocateChunk, CloseProducerRecord, CommitBundlesRecord, CopyStream,
    ForgetProducerRecord, NoteSettled, OpenProducerRecord, ReplaceRange, SealChunk, SkipLostTail,
};
use cairn_protocol::Failure;
use cairn_types::wire::Message;
use cairn_types::{
    Attributes, CellConfig, CellId, ChunkHandle, ChunkIndex, ChunkVersion, Content, EntryId, JobId,
    Layout, MutationName, PolicyPartNames, PolicyParts, ReignId, ReplicaAt, SerialNumber, ServerId,
    Term, WallTime,
};

/// The highest record level that this build can apply (docs/formats/operation-log.md).
///
/// A build that does not know a kind of record stops at it, and one that does not know a field goes
/// on without it and has another state: so neither goes into the log of a group before all of its
/// members have said that they know it.
pub const RECORD_LEVEL: u32 = 4;
/// From this level on there are snapshots.
pub(crate) const SNAPSHOT_LEVEL: u32 = 1;

/// From here on there are quotas, and files are charged what they may grow to (R36).
pub(crate) const QUOTA_LEVEL: u32 = 1;
/// From this level on, what is there has attributes of its own.
pub const ATTRIBUTES_LEVEL: u32 = 1;
/// From this level on there are streams.
pub const STREAM_LEVEL: u32 = 2;
/// From this level on streams say how many servers have to hold what is committed.
pub(crate) const COMMIT_REPLICAS_LEVEL: u32 = 3;
/// From this level on streams are opened exclusively, and ranges of them replaced.
pub(crate) const EXCLUSIVE_LEVEL: u32 = 3;
/// From this level on ranges of streams are put into other chunks (R45, R46).
pub const RANGE_LEVEL: u32 = 3;
/// From this level on it is a setting how long cursors of producers are kept (R47).
pub(crate) const CURSORS_KEPT_LEVEL: u32 = 3;
/// From this level on the log knows what streams have lost (R41).
pub(crate) const LOST_LEVEL: u32 = 4;
/// From this level on a chunk that a producer writes is sealed also where a file lets go of it that
/// is not the last to have it (R42).
pub(crate) const HEIR_LEVEL: u32 = 4;
/// From this level on a chunk that a file leaves to others has the replicas that these ask for.
pub(crate) const SHARED_GOAL_LEVEL: u32 = 3;

cairn_types::message! {
    /// The first record of a term; requests are taken once it is applied (R23).
    pub struct Begin {
        1 => time: WallTime,
        2 => term: Term,
        3 => reign: ReignId,
        /// It begins a history: what earlier terms logged may lack here (R3).
        4 => new_history: bool,
    }
}
cairn_types::message! {
    /// The cell's founding, once, at the first start of all.
    pub struct FoundCell { 1 => time: WallTime, 2 => cell: CellId, 3 => config: CellConfig }
}
cairn_types::message! {
    /// One directory to be made, with the id that it gets.
    pub struct NewDirectory { 1 => id: EntryId, 2 => name: String }
}
cairn_types::message! {
    /// Makes directories, each in the one before it, the first in `parent`. With
    /// `existing_is_fine` a directory that is there already is walked through.
    pub struct AddDirectories {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => parent: EntryId,
        4 => directories: Vec<NewDirectory>,
        5 => existing_is_fine: bool,
        /// Of those that are made; none: the usual ones.
        6 => attributes: Option<Attributes>,
    }
}
cairn_types::message! {
    /// Makes an empty file; with `or_open` an existing file is the answer.
    pub struct AddFile {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => parent: EntryId,
        4 => name: String,
        5 => id: EntryId,
        6 => content: Content,
        7 => replication: u32,
        8 => synced: bool,
        9 => or_open: bool,
        /// None: the usual ones.
        10 => attributes: Option<Attributes>,
        /// From level 2 on.
        11 => layout: Layout,
        /// From level 3 on.
        12 => commit_replicas: u32,
    }
}
cairn_types::message! {
    /// Moves an entry to another name. With `replace`, a file that has that name is hidden by
    /// this very record.
    pub struct MoveEntry {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => entry: EntryId,
        4 => from_parent: EntryId,
        5 => from_name: String,
        6 => to_parent: EntryId,
        7 => to_name: String,
        8 => replace: bool,
        /// How long the file that is hidden can be brought back.
        9 => keeps_ms: u64,
    }
}
cairn_types::message! {
    /// Deletes: the entry, with all below it, gets a hidden name (§3.1.1, §4.4).
    pub struct HideEntry {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => entry: EntryId,
        4 => parent: EntryId,
        5 => name: String,
        6 => recursive: bool,
        /// How long it can be brought back.
        7 => keeps_ms: u64,
    }
}
cairn_types::message! {
    /// Chunk `index` of `file` is `handle`, at `version` on `set_size` replicas. Idempotent by
    /// index: where one is there already, that one stays. `closes` gets the close mark in the same
    /// breath (R18); its being closed already is no obstacle.
    pub struct OpenChunk {
        1 => time: WallTime,
        2 => file: EntryId,
        3 => index: ChunkIndex,
        4 => handle: ChunkHandle,
        5 => version: ChunkVersion,
        6 => set_size: u32,
        7 => closes: Option<ChunkHandle>,
        /// The lowest handle of its term that may still be opened, this one or below it.
        8 => floor: ChunkHandle,
        /// The file is charged the whole of its last chunk from now on (R36).
        9 => charges: bool,
    }
}
cairn_types::message! {
    /// The chunk takes no append any more; no next one is opened yet.
    pub struct CloseChunk { 1 => time: WallTime, 2 => handle: ChunkHandle }
}
cairn_types::message! {
    /// A raise is complete: all `set_size` replicas that were asked stand at `version` (R8).
    pub struct SetVersion {
        1 => time: WallTime,
        2 => handle: ChunkHandle,
        3 => version: ChunkVersion,
        4 => set_size: u32,
        /// The master decided on the set while a member was away: one that has applied more than
        /// this is stale, and kept for a person (R28).
        5 => keeps_above: Option<SerialNumber>,
        /// The chunk is about to be written, and its file charged the whole of it (R36).
        6 => charges: bool,
        /// Of a chunk of a stream that is closed, and has lost some, or may have: how many bytes of
        /// it all of the set have, and how many were committed. From level 4 on.
        7 => held: Option<u64>,
        8 => committed: Option<u64>,
    }
}
cairn_types::message! {
    /// The file is at least this long; a recorded length never shrinks.
    pub struct SetLength {
        1 => time: WallTime,
        2 => file: EntryId,
        3 => length: u64,
        /// Nobody may write it any more: it is charged its length alone (R36).
        4 => settles: bool,
    }
}
cairn_types::message! {
    /// A namespace mutation that was refused changes nothing, and is remembered all the same: a
    /// copy of it that was long under way must not be done after its caller was told no (R24).
    pub struct Refuse { 1 => time: WallTime, 2 => mutation: MutationName, 3 => failure: Failure }
}

cairn_types::message! {
    /// A chunkserver has joined, here: from now on it is missed when it is away. What it holds of
    /// terms before `since` may be of another history of the cell (R3).
    pub struct KnowServer { 1 => time: WallTime, 2 => at: ReplicaAt, 3 => since: Term }
}
cairn_types::message! {
    /// A chunkserver will not come back: a person says so.
    pub struct ForgetServer { 1 => time: WallTime, 2 => server: ServerId }
}

cairn_types::message! {
    /// Deletes once more: what is deleted, and called so, is kept no longer.
    pub struct Expedite {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => entry: EntryId,
        4 => name: String,
    }
}
cairn_types::message! {
    /// Takes away a slice of what is deleted and kept no longer: at most `count` names and chunks.
    pub struct Purge {
        1 => time: WallTime,
        2 => entry: EntryId,
        3 => count: u32,
        /// The lowest handle of this term that may still be opened.
        4 => floor: ChunkHandle,
    }
}
cairn_types::message! {
    /// A person lets go of a chunk that is on servers and that the log does not know.
    pub struct LetGo { 1 => time: WallTime, 2 => handle: ChunkHandle }
}

cairn_types::message! {
    /// A directory or file says something else of how files are kept.
    pub struct ChangePolicy {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => entry: EntryId,
        4 => set: PolicyParts,
        /// What it says no more.
        5 => inherit: PolicyPartNames,
        /// What exists below gets what it would get, were it made now.
        6 => apply: bool,
        /// The job that this begins, where it cannot be done at once.
        7 => job: JobId,
    }
}
cairn_types::message! {
    /// Brings a slice of what exists to what the policies say: at most `count` names and chunks.
    pub struct ApplyPolicy { 1 => time: WallTime, 2 => job: JobId, 3 => count: u32 }
}
cairn_types::message! {
    /// Such a job is given up; what it has done stays.
    pub struct EndPolicyJob { 1 => time: WallTime, 2 => job: JobId }
}
cairn_types::message! {
    /// A person changes settings of the cell that may be changed while it runs.
    pub struct SetCellSettings {
        1 => time: WallTime,
        2 => clone_rate: Option<u64>,
        3 => clones_per_server: Option<u32>,
        4 => clones_per_cell: Option<u32>,
        /// From level 3 on, as the next two.
        5 => settle_rate: Option<u64>,
        6 => settle_after_ms: Option<u64>,
        7 => cursors_kept_ms: Option<u64>,
    }
}
cairn_types::message! {
    /// A server is to be emptied, or is not any more: a person says so.
    #[derive(Copy)]
    pub struct SetDrain { 1 => time: WallTime, 2 => server: ServerId, 3 => drains: bool }
}
cairn_types::message! {
    /// Chunks are moved until all servers are equally full but for so many thousandths, or are not
    /// moved any more.
    #[derive(Copy)]
    pub struct SetBalance { 1 => time: WallTime, 2 => balances: bool, 3 => threshold_permille: u32 }
}

cairn_types::message! {
    /// From here on the log may have records of this level, which all members can apply.
    #[derive(Copy)]
    pub struct RaiseLevel { 1 => time: WallTime, 2 => level: u32 }
}

cairn_types::message! {
    /// A directory has another quota.
    pub struct ChangeQuota {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => entry: EntryId,
        /// Names that may lie below it; none: as before.
        4 => names: Option<u64>,
        /// Bytes that these may be charged; none: as before.
        5 => bytes: Option<u64>,
        /// What it had before is dropped.
        6 => clears: bool,
    }
}

cairn_types::message! {
    /// A name of a tree, and the one that it becomes in a snapshot of that tree.
    pub struct CopiedEntry {
        1 => source: EntryId,
        2 => id: EntryId,
        /// The directory of the copy.
        3 => parent: EntryId,
        4 => name: String,
        /// Of a file: the first of the places that it gets in this record. With a later one than
        /// index 0 the file has been made by a record before.
        5 => first: ChunkIndex,
        /// How many places, holes too.
        6 => count: u64,
        /// Of a file, where it is made: none, and it is as its source is.
        7 => anew: Option<CopiedAnew>,
    }
}
cairn_types::message! {
    /// A file that has the bytes of its source, and everything else as if it had been made anew.
    pub struct CopiedAnew {
        /// None: the usual ones.
        1 => attributes: Option<Attributes>,
    }
}
cairn_types::message! {
    /// A slice of a snapshot: what is copied here stands in the hidden directory until all of it
    /// does. The first entry of the first slice is the top; all others lie below it.
    pub struct CopyEntries {
        1 => time: WallTime,
        2 => top: EntryId,
        3 => entries: Vec<CopiedEntry>,
    }
}
cairn_types::message! {
    /// The end of a snapshot: the copy gets its name, and is a tree like any other. `entries` of
    /// `CopyEntries` have gone into it.
    pub struct SnapshotTree {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => top: EntryId,
        4 => entries: u64,
        5 => to_parent: EntryId,
        6 => to_name: String,
    }
}
cairn_types::message! {
    /// A snapshot that was begun is given up.
    pub struct DiscardSnapshot { 1 => time: WallTime, 2 => top: EntryId }
}
cairn_types::message! {
    /// The file shares chunk `shared` no more, of which it is about to change bytes: it has
    /// `handle` from now on, a copy that is on disks of `set_size` servers (R32). The chunk that
    /// was copied stands at another version, so that who read it as this file's asks anew.
    pub struct CopyOnWrite {
        1 => time: WallTime,
        2 => file: EntryId,
        3 => index: ChunkIndex,
        4 => shared: ChunkHandle,
        5 => shared_version: ChunkVersion,
        6 => shared_set_size: u32,
        7 => handle: ChunkHandle,
        8 => version: ChunkVersion,
        9 => set_size: u32,
        /// The lowest handle of its term that may still be opened, this one or below it.
        10 => floor: ChunkHandle,
        /// The file is charged up to the chunk's end (R36).
        11 => charges: bool,
    }
}

cairn_types::message! {
    /// Gives an entry other attributes, and sets when it was changed last.
    #[derive(Copy)]
    pub struct ChangeAttributes {
        1 => time: WallTime,
        2 => mutation: MutationName,
        3 => entry: EntryId,
        /// All of them, as they are from now on.
        4 => attributes: Option<Attributes>,
        5 => modified: Option<WallTime>,
    }
}

/// The tags of slices.
const COPY_ENTRIES: u32 = 40;
const COPY_STREAM: u32 = 77;

cairn_types::choice! {
    /// Any record.
    pub enum Record {
        /// A term begins.
        1 => Begin(Begin),
        /// The cell is founded.
        2 => FoundCell(FoundCell),
        /// Directories.
        3 => AddDirectories(AddDirectories),
        /// A file.
        4 => AddFile(AddFile),
        /// A rename.
        5 => MoveEntry(MoveEntry),
        /// A deletion.
        6 => HideEntry(HideEntry),
        /// A chunk, and the end of appends to the one before.
        7 => OpenChunk(OpenChunk),
        /// The end of appends alone.
        8 => CloseChunk(CloseChunk),
        /// A raise.
        9 => SetVersion(SetVersion),
        /// A length.
        10 => SetLength(SetLength),
        /// A refusal.
        11 => Refuse(Refuse),
        /// A chunkserver that is to be missed.
        12 => KnowServer(KnowServer),
        /// A chunkserver that is not.
        13 => ForgetServer(ForgetServer),
        /// A deletion of what is deleted.
        14 => Expedite(Expedite),
        /// A slice of what is deleted.
        15 => Purge(Purge),
        /// A chunk of another log.
        16 => LetGo(LetGo),
        /// Another policy.
        17 => ChangePolicy(ChangePolicy),
        /// A slice of what it means for what exists.
        18 => ApplyPolicy(ApplyPolicy),
        /// The end of that before it is done.
        19 => EndPolicyJob(EndPolicyJob),
        /// A server to be emptied, or not.
        20 => SetDrain(SetDrain),
        /// Chunks to be moved, or not.
        21 => SetBalance(SetBalance),
        /// Settings.
        30 => SetCellSettings(SetCellSettings),
        /// More kinds of records.
        31 => RaiseLevel(RaiseLevel),
        /// A quota.
        60 => ChangeQuota(ChangeQuota),
        /// A slice of a snapshot.
        40 => CopyEntries(CopyEntries),
        /// The end of a snapshot.
        41 => SnapshotTree(SnapshotTree),
        /// One that came to nothing.
        42 => DiscardSnapshot(DiscardSnapshot),
        /// A chunk that is shared no more.
        43 => CopyOnWrite(CopyOnWrite),
        /// Attributes.
        50 => ChangeAttributes(ChangeAttributes),
        /// A producer of a stream.
        70 => OpenProducer(OpenProducerRecord),
        /// The end of its epoch.
        71 => CloseProducer(CloseProducerRecord),
        /// A name that is free again.
        72 => ForgetProducer(ForgetProducerRecord),
        /// A chunk for a producer.
        73 => AllocateChunk(AllocateChunk),
        /// What is in a stream.
        74 => CommitBundles(CommitBundlesRecord),
        /// The end of such a chunk.
        75 => SealChunk(SealChunk),
        /// One of which nothing was committed.
        76 => AbandonChunk(AbandonChunk),
        /// A slice of a stream in a snapshot.
        77 => CopyStream(CopyStream),
        /// A range of a stream in another chunk.
        78 => ReplaceRange(ReplaceRange),
        /// How much of a stream is settled.
        79 => NoteSettled(NoteSettled),
        /// A hole in the place of what is lost.
        80 => SkipLost(SkipLostTail),
    }
}

impl Record {
    /// Whether these bytes are a slice of what is being copied: to apply one takes as long as many
    /// other records, however few bytes it has.
    #[must_use]
    pub fn is_slice(bytes: &[u8]) -> bool {
        let key = cairn_types::wire::next_key(&mut &*bytes);
        matches!(key, Ok(Some((COPY_ENTRIES | COPY_STREAM, _))))
    }

    /// When it was proposed.
    #[must_use]
    pub fn time(&self) -> WallTime {
        match self {
            Self::Begin(record) => record.time,
            Self::FoundCell(record) => record.time,
            Self::AddDirectories(record) => record.time,
            Self::AddFile(record) => record.time,
            Self::MoveEntry(record) => record.time,
            Self::HideEntry(record) => record.time,
            Self::OpenChunk(record) => record.time,
            Self::CloseChunk(record) => record.time,
            Self::SetVersion(record) => record.time,
            Self::SetLength(record) => record.time,
            Self::Refuse(record) => record.time,
            Self::KnowServer(record) => record.time,
            Self::ForgetServer(record) => record.time,
            Self::Expedite(record) => record.time,
            Self::Purge(record) => record.time,
            Self::LetGo(record) => record.time,
            Self::ChangePolicy(record) => record.time,
            Self::ApplyPolicy(record) => record.time,
            Self::EndPolicyJob(record) => record.time,
            Self::SetCellSettings(record) => record.time,
            Self::RaiseLevel(record) => record.time,
            Self::ChangeAttributes(record) => record.time,
            Self::SetDrain(record) => record.time,
            Self::SetBalance(record) => record.time,
            Self::ChangeQuota(record) => record.time,
            Self::CopyEntries(record) => record.time,
            Self::SnapshotTree(record) => record.time,
            Self::DiscardSnapshot(record) => record.time,
            Self::CopyOnWrite(record) => record.time,
            Self::OpenProducer(record) => record.time,
            Self::CloseProducer(record) => record.time,
            Self::ForgetProducer(record) => record.time,
            Self::AllocateChunk(record) => record.time,
            Self::CommitBundles(record) => record.time,
            Self::SealChunk(record) => record.time,
            Self::AbandonChunk(record) => record.time,
            Self::CopyStream(record) => record.time,
            Self::ReplaceRange(record) => record.time,
            Self::NoteSettled(record) => record.time,
            Self::SkipLost(record) => record.time,
        }
    }

    /// The client's name for it, where a client asked for it (R24).
    #[must_use]
    pub fn mutation(&self) -> Option<MutationName> {
        match self {
            Self::AddDirectories(record) => Some(record.mutation),
            Self::AddFile(record) => Some(record.mutation),
            Self::MoveEntry(record) => Some(record.mutation),
            Self::HideEntry(record) => Some(record.mutation),
            Self::Refuse(record) => Some(record.mutation),
            Self::Expedite(record) => Some(record.mutation),
            Self::ChangePolicy(record) => Some(record.mutation),
            Self::ChangeQuota(record) => Some(record.mutation),
            Self::SnapshotTree(record) => Some(record.mutation),
            Self::ChangeAttributes(record) => Some(record.mutation),
            Self::OpenProducer(record) => Some(record.mutation),
            Self::ForgetProducer(record) => Some(record.mutation),
            _ => None,
        }
    }

    /// The bytes of the record.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Message::to_bytes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{CopyEntries, CopyStream, Record};
    use cairn_types::Random;
    use cairn_types::sample::{check_bytes, check_wire, crossed};
    use cairn_types::wire::Message;
    use proptest::prelude::{ProptestConfig, any, proptest};

    #[test]
    fn slices_of_what_is_copied_are_known_by_their_first_bytes() {
        assert!(Record::is_slice(&Record::from(CopyEntries::default()).to_bytes()));
        assert!(Record::is_slice(&Record::from(CopyStream::default()).to_bytes()));
        let others = [Record::Begin(Default::default()), Record::Purge(Default::default())];
        assert!(others.iter().all(|record| !Record::is_slice(&record.to_bytes())));
        assert!(!Record::is_slice(&[]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_record_comes_back_and_no_damage_makes_it_panic(seed: u64) {
            let random = &mut Random::new(seed);
            let others = Record::sample_each(random);
            for (one, other) in Record::sample_each(random).into_iter().zip(others) {
                check_wire(&one, random);
                assert_eq!(Message::decode(&one.to_bytes()).as_ref(), Ok(&one));
                let both = crossed(&one.to_bytes(), &other.to_bytes(), random);
                check_bytes::<Record>(&both.expect("of one kind"));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            check_bytes::<Record>(&raw);
        }
    }
}
