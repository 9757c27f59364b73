//! What is known of a file or directory, and how it is packed (docs/formats/state-image.md).
//!
//! Most files have one chunk, so the first one stands with its file: who looks a file up wants to
//! know where it is. The others have a tree of their own.
//!
//! A directory's name stands with it, so that the way up from an entry is text without a search. A
//! file's does not: it stands in its directory once, and a second copy would be a third of all
//! memory that a file takes.

use super::attribute_table::AttributesNumber;
use super::packing::{Packed, put_near, put_number};
use cairn_types::{
    Attributes, ChunkHandle, Content, Entry, EntryId, EntryKind, Layout, Policy, PolicyPartNames,
    WallTime,
};
use std::ops::Range;

const DIRECTORY: u8 = 1;
const RECORDS: u8 = 2;
const SYNCED: u8 = 4;
/// Length and count of chunks follow; else both are zero.
const HAS_LENGTH: u8 = 8;
/// The bits above are the replication, or all set where it follows.
const REPLICATION_SHIFT: u32 = 4;
const REPLICATION_FOLLOWS: u8 = 0xf;
/// What follows is smaller than any replication that would have to: it is the replication all the
/// same, or this where the replication follows after all; and then comes the number of the entry's
/// attributes. So an entry with the usual attributes is as it was before there were any.
const BOTH_FOLLOW: u64 = 0xe;
/// Added to the number of a file's attributes, which has 32 bits: it is a stream (R38).
const STREAM: u64 = 1 << 32;
/// Above that: a stream's `commit_replicas`.
const COMMIT_REPLICAS_SHIFT: u32 = 33;

/// A file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    /// The directory it stands in; the roots stand in themselves.
    pub parent: EntryId,
    /// File or directory.
    pub kind: EntryKind,
    /// What a file holds.
    pub content: Content,
    /// Replicas that a file's new chunks get.
    pub replication: u32,
    /// Recorded bytes of a file.
    pub length: u64,
    /// One more than the index of a file's last chunk.
    pub chunk_count: u64,
    /// A file's chunk at index 0; none: a hole, or no chunk yet.
    pub first: Option<ChunkHandle>,
    /// Log time of the last change of the entry itself.
    pub modified: WallTime,
    /// The file's durability policy (design §5).
    pub synced: bool,
    /// Which attributes it has.
    pub attributes: AttributesNumber,
    /// How a file is written.
    pub layout: Layout,
    /// Servers that have to hold what is committed of a stream; zero: nothing is said of it.
    pub commit_replicas: u32,
}

impl EntryRecord {
    /// The entry as clients see it, with its attributes; none: the usual ones.
    pub(super) fn describe(
        &self,
        id: EntryId,
        name: String,
        attributes: Option<Attributes>,
    ) -> Entry {
        Entry {
            id,
            kind: self.kind,
            content: self.content,
            name,
            length: self.length,
            chunk_count: self.chunk_count,
            replication: self.replication,
            modified: self.modified,
            synced: self.synced,
            attributes: attributes.map(Box::new),
            layout: self.layout,
        }
    }

    /// The chunk at index 0, where that is one of these.
    #[must_use]
    pub fn first_within(&self, indexes: &Range<u64>) -> Option<ChunkHandle> {
        self.first.filter(|_| indexes.start == 0 && indexes.end.min(self.chunk_count) > 0)
    }

    /// The file with those parts of a policy that can change of one that is there.
    pub(super) fn brought_to(self, wanted: Policy, parts: PolicyPartNames) -> Self {
        let is_stream = self.layout == Layout::Stream;
        let pick = |is_named, wanted, has| if is_named { wanted } else { has };
        Self {
            replication: pick(parts.replication, wanted.replication, self.replication),
            synced: if parts.durability { wanted.synced } else { self.synced },
            commit_replicas: pick(
                parts.commit_replicas && is_stream,
                wanted.commit_replicas,
                self.commit_replicas,
            ),
            ..self
        }
    }

    pub(super) fn directory(parent: EntryId, modified: WallTime) -> Self {
        Self {
            parent,
            kind: EntryKind::Directory,
            content: Content::default(),
            replication: 0,
            length: 0,
            chunk_count: 0,
            first: None,
            modified,
            synced: false,
            attributes: AttributesNumber::USUAL,
            layout: Layout::default(),
            commit_replicas: 0,
        }
    }

    /// The record of `id`; `name` is kept of a directory alone.
    pub(super) fn pack(&self, id: EntryId, name: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + name.len());
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let has_length = (self.length, self.chunk_count) != (0, 0);
        let is_stream = self.layout == Layout::Stream;
        let is_usual = self.attributes == AttributesNumber::USUAL && !is_stream;
        let short = u8::try_from(self.replication).ok();
        let short = short.filter(|r| is_usual && *r < REPLICATION_FOLLOWS);
        out.push(
            flag(self.kind == EntryKind::Directory, DIRECTORY)
                | flag(self.content == Content::Records, RECORDS)
                | flag(self.synced, SYNCED)
                | flag(has_length, HAS_LENGTH)
                | short.unwrap_or(REPLICATION_FOLLOWS) << REPLICATION_SHIFT,
        );
        let replication = u64::from(self.replication);
        if !is_usual {
            put_number(&mut out, replication.min(BOTH_FOLLOW));
            if replication >= BOTH_FOLLOW {
                put_number(&mut out, replication);
            }
            let commit_replicas = u64::from(self.commit_replicas) << COMMIT_REPLICAS_SHIFT;
            let stream = if is_stream { STREAM | commit_replicas } else { 0 };
            put_number(&mut out, stream | u64::from(self.attributes.get()));
        } else if short.is_none() {
            put_number(&mut out, replication);
        }
        put_near(&mut out, self.parent.get(), id.get());
        put_number(&mut out, self.modified.as_millis());
        if has_length {
            put_number(&mut out, self.chunk_count);
            put_number(&mut out, self.length);
        }
        if self.kind == EntryKind::Directory {
            out.extend_from_slice(name.as_bytes());
        } else if let Some(first) = self.first {
            put_near(&mut out, first.get(), id.get());
        }
        out
    }

    /// The record of `id`, and the name that is kept of a directory.
    pub(super) fn unpack(id: EntryId, packed: &[u8]) -> Option<(Self, &str)> {
        let mut packed = Packed(packed);
        let flags = packed.byte()?;
        let (replication, attributes, stream) = match flags >> REPLICATION_SHIFT {
            REPLICATION_FOLLOWS => unpack_replication(&mut packed)?,
            short => (u32::from(short), AttributesNumber::USUAL, None),
        };
        let parent = EntryId::new(packed.near(id.get())?);
        let modified = WallTime::from_millis(packed.number()?);
        let has_length = flags & HAS_LENGTH != 0;
        let (chunk_count, length) =
            if has_length { (packed.number()?, packed.number()?) } else { (0, 0) };
        let is_directory = flags & DIRECTORY != 0;
        let kind = if is_directory { EntryKind::Directory } else { EntryKind::File };
        let content = if flags & RECORDS == 0 { Content::Bytes } else { Content::Records };
        let synced = flags & SYNCED != 0;
        let layout = if stream.is_none() { Layout::default() } else { Layout::Stream };
        let mut first = None;
        if !is_directory && !packed.0.is_empty() {
            first = Some(ChunkHandle::new(packed.near(id.get())?));
        }
        let record = Self {
            parent,
            kind,
            content,
            replication,
            length,
            chunk_count,
            first,
            modified,
            synced,
            attributes,
            layout,
            commit_replicas: stream.unwrap_or_default(),
        };
        if is_directory { Some((record, packed.text()?)) } else { packed.end((record, "")) }
    }
}

/// The replication, the number of the attributes and, of a stream, its `commit_replicas`, where the
/// flags say that they follow.
fn unpack_replication(packed: &mut Packed<'_>) -> Option<(u32, AttributesNumber, Option<u32>)> {
    let replication = packed.small()?;
    if u64::from(replication) > BOTH_FOLLOW {
        return Some((replication, AttributesNumber::USUAL, None));
    }
    let is_large = u64::from(replication) == BOTH_FOLLOW;
    let replication = if is_large { packed.small()? } else { replication };
    let number = packed.number()?;
    let stream = if number & STREAM == 0 {
        None
    } else {
        Some(u32::try_from(number >> COMMIT_REPLICAS_SHIFT).ok()?)
    };
    let number = if stream.is_some() { number & (STREAM - 1) } else { number };
    let number = AttributesNumber::new(u32::try_from(number).ok()?);
    Some((replication, number, stream))
}

#[cfg(test)]
mod tests {
    use super::{AttributesNumber, EntryRecord};
    use cairn_types::{ChunkHandle, Content, EntryId, EntryKind, Layout, WallTime};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn a_record_comes_back_and_no_bytes_make_it_panic(
            ids: (u64, u64), first: Option<u64>, replication: u32, sizes: (u64, u64), modified: u64,
            flags: (bool, bool, bool, bool), short: bool, attributes: Option<u32>,
            commit_replicas in 0..17_u32,
            raw in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let (id, parent) = (EntryId::new(ids.0), EntryId::new(ids.1));
            let record = EntryRecord {
                parent,
                kind: if flags.0 { EntryKind::Directory } else { EntryKind::File },
                content: if flags.1 { Content::Records } else { Content::Bytes },
                replication: if short { replication % 17 } else { replication },
                length: if short { 0 } else { sizes.0 },
                chunk_count: if short { 0 } else { sizes.1 },
                first: first.filter(|_| !flags.0).map(ChunkHandle::new),
                modified: WallTime::from_millis(modified),
                synced: flags.2,
                attributes: AttributesNumber::new(attributes.unwrap_or_default()),
                layout: if flags.3 { Layout::Stream } else { Layout::Chunks },
                commit_replicas: if flags.3 { commit_replicas } else { 0 },
            };
            let packed = record.pack(id, "name");
            let name = if flags.0 { "name" } else { "" };
            assert_eq!(EntryRecord::unpack(id, &packed), Some((record, name)));
            let _ = EntryRecord::unpack(id, &raw);
        }
    }

    #[test]
    fn a_file_of_one_chunk_takes_few_bytes() {
        let file = EntryRecord {
            parent: EntryId::new(3 << 40 | 9_000_000),
            kind: EntryKind::File,
            content: Content::Bytes,
            replication: 3,
            length: 64 << 20,
            chunk_count: 1,
            first: Some(ChunkHandle::new(3 << 40 | 10_000_001)),
            modified: WallTime::from_millis(1_795_000_000_000),
            synced: false,
            attributes: AttributesNumber::USUAL,
            layout: Layout::Chunks,
            commit_replicas: 0,
        };
        let size = |file: EntryRecord| file.pack(EntryId::new(3 << 40 | 10_000_000), "x").len();
        assert_eq!(size(file), 1 + 3 + 6 + 1 + 4 + 1);
        let owned = EntryRecord { attributes: AttributesNumber::new(1), ..file };
        assert_eq!(size(owned), size(file) + 2, "of a cell that has few users");
        let stream = EntryRecord { layout: Layout::Stream, ..file };
        assert_eq!(size(stream), size(file) + 6, "streams are few and large");
    }
}
