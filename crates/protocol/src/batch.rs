//! Batches: many namespace operations in one request, each with a result of its own.
//!
//! - B1: a batch is not atomic. Each entry succeeds or fails by itself, as if it had been asked
//!   alone; all of them begin when the batch is asked and end when it is answered.
//! - B2: each entry that changes names has its own mutation name, so that a repeated batch is
//!   answered entry by entry from what is remembered (R24).
//! - B3: a batch within its limits has an answer that fits a message.

use crate::{
    Create, CreateAnswer, Delete, DeleteAnswer, ErrorCode, Failure, MESSAGE_SIZE_MAX,
    MakeDirectory, MakeDirectoryAnswer, Open, OpenAnswer, Rename, RenameAnswer, Stat,
};
use cairn_types::{Entry, MutationName, PATH_SIZE_MAX};

/// Entries that one batch may have.
pub const BATCH_COUNT_MAX: usize = 1024;
/// From the lowest number that a session's mutations of names have on their way to the highest: so
/// many at most. The masters remember twice as many of each session (R24).
pub const SESSION_MUTATIONS_MAX: u64 = 8192;
/// Bytes that all paths of one batch may have together.
pub const BATCH_PATHS_SIZE_MAX: usize = 1 << 20;
/// Bytes of locations that all `Open`s of one batch are answered with together. Where they have
/// more, the ones behind fail with `Busy` and are to be asked again (B3).
pub const BATCH_LOCATIONS_SIZE_MAX: usize = 256 << 10;

/// Bytes of the line that a failed entry carries; the reason of a failure with a longer path is
/// cut off, its code is not (B3).
const FAILURE_LINE_SIZE_MAX: usize = 3 << 10;
/// An answered entry without its failure's line: ids, times, and a name of at most 255 bytes.
const RESULT_SIZE_MAX: usize = 640;

/// Chunks that an `Open` in a batch may ask for.
pub const BATCH_OPEN_COUNT_MAX: u32 = 16;

/// A chunk's numbers, without its replicas; and a replica's, without its texts.
const LOCATION_SIZE_MAX: usize = 64;
const _: () = assert!(
    BATCH_COUNT_MAX * (FAILURE_LINE_SIZE_MAX + RESULT_SIZE_MAX) + BATCH_LOCATIONS_SIZE_MAX
        <= MESSAGE_SIZE_MAX as usize
);
// Any one operation fits a batch, and a batch of everything fits a message.
const _: () = assert!(2 * PATH_SIZE_MAX <= BATCH_PATHS_SIZE_MAX);
const _: () = assert!(2 * BATCH_PATHS_SIZE_MAX <= MESSAGE_SIZE_MAX as usize);

cairn_types::choice! {
    /// One operation of a batch.
    pub enum BatchEntry {
        /// What a path stands for, with the recorded length.
        1 => Stat(Stat),
        /// Makes a directory.
        2 => MakeDirectory(MakeDirectory),
        /// Makes an empty file.
        3 => Create(Create),
        /// Moves a name.
        4 => Rename(Rename),
        /// Hides a name.
        5 => Delete(Delete),
        /// What a path stands for, and where its chunks are.
        6 => Open(Open),
    }
}
cairn_types::choice_field!(BatchEntry, Self::Stat(Stat::default()));

cairn_types::message! {
    /// Operations that are asked together (B1), in any mixture.
    pub struct Batch { 1 => entries: Vec<BatchEntry> }
}

cairn_types::message! {
    /// Of a `Stat` in a batch. `leased`: the last chunk's primary may know of more bytes than the
    /// entry's recorded length; a `Stat` of its own asks it.
    pub struct Looked { 1 => entry: Entry, 2 => leased: bool }
}

cairn_types::choice! {
    /// What came of one operation of a batch.
    pub enum BatchResult {
        /// It failed; its code and outcome are those of a request of its own.
        1 => Failed(Failure),
        /// Of a `Stat`.
        2 => Stat(Looked),
        /// Of a `MakeDirectory`.
        3 => MakeDirectory(MakeDirectoryAnswer),
        /// Of a `Create`.
        4 => Create(CreateAnswer),
        /// Of a `Rename`.
        5 => Rename(RenameAnswer),
        /// Of a `Delete`.
        6 => Delete(DeleteAnswer),
        /// Of an `Open`.
        7 => Open(OpenAnswer),
    }
}
cairn_types::choice_field!(BatchResult, Self::Failed(Failure::default()));

cairn_types::message! {
    /// One result for each entry, in the order of the entries.
    pub struct BatchAnswer { 1 => results: Vec<BatchResult> }
}

impl Batch {
    /// Why the batch is over a limit; none where it is not.
    #[must_use]
    pub fn oversized(&self) -> Option<Failure> {
        let count = self.entries.len();
        let size: usize = self.entries.iter().map(BatchEntry::paths_size).sum();
        let line = if count > BATCH_COUNT_MAX {
            format!("a batch of {count} operations; the limit is {BATCH_COUNT_MAX}")
        } else if size > BATCH_PATHS_SIZE_MAX {
            format!("a batch with {size} bytes of paths; the limit is {BATCH_PATHS_SIZE_MAX}")
        } else {
            return None;
        };
        Some(Failure::refused(ErrorCode::Invalid, line))
    }
}

impl BatchEntry {
    /// Bytes of its paths.
    #[must_use]
    pub fn paths_size(&self) -> usize {
        match self {
            Self::Stat(stat) => stat.path.as_str().len(),
            Self::MakeDirectory(make) => make.path.as_str().len(),
            Self::Create(create) => create.path.as_str().len(),
            Self::Rename(rename) => rename.from.as_str().len() + rename.to.as_str().len(),
            Self::Delete(delete) => delete.path.as_str().len(),
            Self::Open(open) => open.path.as_str().len(),
        }
    }

    /// The `Stat` that it is, if it is one.
    #[must_use]
    pub fn as_stat(&self) -> Option<&Stat> {
        if let Self::Stat(stat) = self { Some(stat) } else { None }
    }

    /// The `Open` that it is, if it is one.
    #[must_use]
    pub fn as_open(&self) -> Option<&Open> {
        if let Self::Open(open) = self { Some(open) } else { None }
    }

    /// How it is called, where it changes names (B2).
    pub fn mutation_mut(&mut self) -> Option<&mut MutationName> {
        match self {
            Self::Stat(_) | Self::Open(_) => None,
            Self::MakeDirectory(make) => Some(&mut make.mutation),
            Self::Create(create) => Some(&mut create.mutation),
            Self::Rename(rename) => Some(&mut rename.mutation),
            Self::Delete(delete) => Some(&mut delete.mutation),
        }
    }

    /// Whether it changes names.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        !matches!(self, Self::Stat(_) | Self::Open(_))
    }
}

impl OpenAnswer {
    /// No fewer bytes than its locations take in a message.
    #[must_use]
    pub fn locations_size(&self) -> usize {
        let texts = self
            .chunks
            .iter()
            .flat_map(|chunk| &chunk.replicas)
            .map(|replica| LOCATION_SIZE_MAX + replica.address.size() + replica.rack.size());
        self.chunks.len() * LOCATION_SIZE_MAX + texts.sum::<usize>()
    }
}

impl BatchResult {
    /// A failure, its line cut to its limit (B3).
    #[must_use]
    pub fn failed(mut failure: Failure) -> Self {
        failure.shorten(FAILURE_LINE_SIZE_MAX);
        Self::Failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BATCH_COUNT_MAX, BATCH_PATHS_SIZE_MAX, Batch, BatchAnswer, BatchEntry, BatchResult,
        RESULT_SIZE_MAX,
    };
    use crate::{CreateAnswer, Delete, ErrorCode, Failure, MESSAGE_SIZE_MAX, Stat};
    use cairn_types::wire::Message;
    use cairn_types::{
        Attributes, CellPath, Content, Entry, EntryId, EntryKind, Layout, NAME_SIZE_MAX,
        PATH_SIZE_MAX, WallTime,
    };

    fn stats(count: usize, path: &str) -> Batch {
        let path = CellPath::parse(path).expect("a path");
        Batch { entries: vec![BatchEntry::Stat(Stat { path }); count] }
    }

    #[test]
    fn a_batch_comes_back_as_it_went() {
        let mut batch = stats(2, "/a");
        batch.entries.push(BatchEntry::Delete(Delete::default()));
        batch.entries.push(BatchEntry::default());
        assert_eq!(Batch::decode(&batch.to_bytes()), Ok(batch));
    }

    #[test]
    fn a_batch_over_a_limit_is_refused_in_one_line() {
        assert_eq!(stats(BATCH_COUNT_MAX, "/a").oversized(), None);
        let long = "/n".repeat(PATH_SIZE_MAX / 2);
        let fits = BATCH_PATHS_SIZE_MAX / long.len();
        assert_eq!(stats(fits, &long).oversized(), None);
        for batch in [stats(BATCH_COUNT_MAX + 1, "/a"), stats(fits + 1, &long)] {
            let failure = batch.oversized().expect("too large");
            assert_eq!(failure.code, ErrorCode::Invalid);
            assert!(failure.message.contains("the limit is") && !failure.message.contains('\n'));
        }
    }

    #[test]
    fn the_largest_answer_fits_a_message() {
        let line = "é".repeat(MESSAGE_SIZE_MAX as usize);
        let failed = BatchResult::from(Err(Failure::refused(ErrorCode::Invalid, line)));
        let answer = BatchAnswer { results: vec![failed; BATCH_COUNT_MAX] };
        assert!(answer.to_bytes().len() <= MESSAGE_SIZE_MAX as usize);
        let entry = Entry {
            id: EntryId::new(u64::MAX),
            kind: EntryKind::Directory,
            content: Content::Records,
            name: "n".repeat(NAME_SIZE_MAX),
            length: u64::MAX,
            chunk_count: u64::MAX,
            replication: u32::MAX,
            modified: WallTime::from_millis(u64::MAX),
            synced: true,
            attributes: Some(
                Attributes { owner: u32::MAX, group: u32::MAX, mode: u32::MAX }.into(),
            ),
            layout: Layout::Stream,
        };
        let made = BatchResult::Create(CreateAnswer { entry, created: true });
        assert!(made.to_bytes().len() < RESULT_SIZE_MAX);
    }
}
