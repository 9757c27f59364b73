//! What came of a record: computed by `apply`, remembered for a retry, told to who asked.
//!
//! Kept small, because every namespace mutation of the last `retry_window` has one: ids and names
//! from which the answer is built, not the answer (R24).

use cairn_protocol::{BundleAnswer, Failure};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, Epoch, JobId, ProducerId, RecordNumber};

cairn_types::message! {
    /// The last of the directories, made or found.
    pub struct DirectoryMade { 1 => id: EntryId }
}
cairn_types::message! {
    /// The file, made or found.
    pub struct FileMade { 1 => id: EntryId, 2 => created: bool }
}
cairn_types::message! {
    /// Moved; `replaced` is the file that is hidden now, `restored` the path of what was hidden
    /// before.
    pub struct EntryMoved { 1 => replaced: Option<EntryId>, 2 => restored: String }
}
cairn_types::message! {
    /// Hidden, and by what path it can still be read.
    pub struct EntryHidden { 1 => id: EntryId, 2 => hidden: String }
}
cairn_types::message! {
    /// The chunk that stands at the index: the one of the record, or one that was there before.
    pub struct ChunkOpened { 1 => handle: ChunkHandle }
}
cairn_types::message! {
    /// A slice of what was deleted is gone: these chunks, and with `whole` all of it.
    pub struct EntryPurged {
        1 => entry: EntryId,
        2 => whole: bool,
        3 => chunks: Vec<ChunkHandle>,
        /// Names that are gone.
        4 => names: u64,
        /// Chunks that other files have, and that are to have fewer replicas from now on.
        5 => lowered: Vec<ChunkHandle>,
    }
}
cairn_types::message! {
    /// An entry has another policy; `job` is what is left to do for it, none where nothing is.
    pub struct PolicyChanged { 1 => entry: EntryId, 2 => job: JobId }
}
cairn_types::message! {
    /// A slice of a policy's job is done, and with `whole` all of it: these chunks have another
    /// goal.
    pub struct PolicyApplied { 1 => job: JobId, 2 => whole: bool, 3 => chunks: Vec<ChunkHandle> }
}
cairn_types::message! {
    /// A snapshot stands, of so many files and directories; this is its top.
    pub struct SnapshotMade { 1 => id: EntryId, 2 => entries: u64 }
}
cairn_types::message! {
    /// An entry has other attributes.
    pub struct AttributesChanged { 1 => id: EntryId }
}
cairn_types::message! {
    /// A producer has a new epoch.
    pub struct ProducerOpened {
        1 => producer: ProducerId,
        2 => epoch: Epoch,
        3 => cursor_gone: bool,
    }
}
cairn_types::message! {
    /// What became of bundles, up to the first that was not committed.
    pub struct BundlesCommitted {
        1 => bundles: Vec<BundleAnswer>,
        2 => number: RecordNumber,
        /// Chunks that are nobody's any more, since all of them was replaced.
        3 => gone: Vec<ChunkHandle>,
    }
}
cairn_types::message! {
    /// A slice of a stream is copied, and with `whole` all of it; the next one goes on there.
    pub struct StreamCopied { 1 => from: u64, 2 => after: String, 3 => whole: bool }
}
cairn_types::message! {
    /// A chunk that is nobody's any more.
    pub struct ChunkAbandoned { 1 => handle: ChunkHandle }
}
cairn_types::message! {
    /// A range of a stream stands in another chunk: the file has let go of these places, and these
    /// chunks are nobody's any more.
    pub struct RangeReplaced { 1 => chunks: Vec<ChunkHandle>, 2 => places: Vec<ChunkIndex> }
}
cairn_types::message! {
    /// As the record says.
    pub struct Changed { }
}

cairn_types::choice! {
    /// What came of a record.
    pub enum Applied {
        /// Nothing was changed; why.
        1 => Failed(Failure),
        /// Of `AddDirectories`.
        2 => DirectoryMade(DirectoryMade),
        /// Of `AddFile`.
        3 => FileMade(FileMade),
        /// Of `MoveEntry`.
        4 => EntryMoved(EntryMoved),
        /// Of `HideEntry`.
        5 => EntryHidden(EntryHidden),
        /// Of `OpenChunk` and `CopyOnWrite`.
        6 => ChunkOpened(ChunkOpened),
        /// Of any other record.
        7 => Changed(Changed),
        /// Of `Purge`.
        8 => EntryPurged(EntryPurged),
        /// Of `ChangePolicy`.
        9 => PolicyChanged(PolicyChanged),
        /// Of `ApplyPolicy`.
        10 => PolicyApplied(PolicyApplied),
        /// Of `SnapshotTree`.
        40 => SnapshotMade(SnapshotMade),
        /// Of `ChangeAttributes`.
        50 => AttributesChanged(AttributesChanged),
        /// Of `OpenProducer`.
        70 => ProducerOpened(ProducerOpened),
        /// Of `CommitBundles`.
        71 => BundlesCommitted(BundlesCommitted),
        /// Of `AbandonChunk`.
        72 => ChunkAbandoned(ChunkAbandoned),
        /// Of `CopyStream`.
        73 => StreamCopied(StreamCopied),
        /// Of `ReplaceRange`.
        74 => RangeReplaced(RangeReplaced),
    }
}

#[cfg(test)]
mod tests {
    use super::Applied;
    use cairn_types::Random;
    use cairn_types::sample::{check_bytes, check_wire};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn every_outcome_comes_back_and_no_damage_makes_it_panic(seed: u64) {
            let random = &mut Random::new(seed);
            for outcome in Applied::sample_each(random) {
                check_wire(&outcome, random);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..100)) {
            check_bytes::<Applied>(&raw);
        }
    }
}
