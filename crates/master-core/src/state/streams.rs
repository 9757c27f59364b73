//! Streams: who produces them, what is committed, and which chunks are being written (R38 to R47).
//!
//! ```text
//!   producers  (file, producer) → epoch, number, …     names    (file, name) → producer
//!   extents    (file, end) → index, place in the chunk, size
//!   kept       (file, producer, 0) → cursor; (file, producer, first) → outcome of a bundle
//!   open       handle → who writes it, and how much of it is committed
//!   settled    how far files are settled, and what they have of each chunk (`settled_streams.rs`)
//! ```
//! - OE1: a file's extents have no gap: each begins where the one before ends, and the last ends
//!   with the file. They are found by their ends, so that one look finds the one that has a byte.
//! - OE2: what is open is a chunk of its file, and written by one epoch (R40).
//! - OE3: outcomes are kept of the last so many bundles of a producer's epoch, and none once it is
//!   over. Of a producer that is done (closed, or silent for long as its last chunk ended) 64 bytes
//!   are kept at most beside its name and cursor: no outcomes, and of the epochs before the last.
//! - OE4: the producer without a name is who has the stream exclusively, while its epoch is not
//!   over; its number is how many ranges of the stream were ever replaced (R46).

use super::map::{DamageMark, Map};
use super::packing::{Packed, put_near, put_number};
use super::settled_streams::SettledStreams;
use crate::applied::StreamCopied;
use bytes::Bytes;
use cairn_protocol::{BUNDLES_MAX, Cursor, PRODUCER_CHUNKS_MAX};
use cairn_types::{
    ChunkHandle, ChunkIndex, EntryId, Epoch, ProducerId, RecordNumber, SerialNumber, WallTime,
};
use std::collections::BTreeMap;

/// A producer that has committed nothing for so long is taken for gone: its chunks are sealed, and
/// the outcomes of its bundles go (R42, OE3).
const PRODUCER_SILENT_MS: u64 = 600_000;
/// Epochs that are over, of which it is told what they had committed.
const ENDED_MAX: usize = 4;
/// The same of a producer that is done (OE3).
const ENDED_OF_DONE_MAX: usize = 1;

/// A producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord {
    /// The newest; it alone may commit.
    pub epoch: Epoch,
    /// The last record that is committed.
    pub number: RecordNumber,
    /// When it last committed, or was opened.
    pub changed: WallTime,
    /// The epoch is over.
    pub closed: bool,
    /// What the last epochs before had committed when they ended.
    pub ended: Vec<(Epoch, RecordNumber)>,
    /// Chunks that it writes, oldest first.
    pub chunks: Vec<ChunkHandle>,
    /// Bundles whose outcomes are kept (OE3).
    pub outcomes: u64,
}

/// A range of a chunk, where it stands in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it ends in the file.
    pub end: u64,
    /// The chunk's place in the file.
    pub index: ChunkIndex,
    /// Where it begins in the chunk.
    pub chunk_offset: u64,
    /// Bytes.
    pub size: u64,
}

impl Extent {
    /// Where it begins in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.end - self.size
    }
}

/// A chunk that a producer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenStreamChunkRow {
    /// The file.
    pub file: EntryId,
    /// Who writes it.
    pub producer: ProducerId,
    /// In which epoch.
    pub epoch: Epoch,
    /// Bytes of it that are committed.
    pub length: u64,
    /// Bundles of it that are committed.
    pub serial: SerialNumber,
}

/// What became of a bundle that is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptOutcome {
    /// Its first record.
    pub first: RecordNumber,
    /// How many.
    pub count: u64,
    /// Where it is in the file.
    pub offset: u64,
}

/// Rows that one record copies at most.
const COPIED_ROWS_MAX: usize = 4096;

/// What of a stream is copied next.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopiedSlice<'a> {
    pub(super) from: u64,
    pub(super) after: &'a str,
    pub(super) count: usize,
    /// How far it is settled is kept (the log's level has that).
    pub(super) settles: bool,
}

/// All streams.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StreamTables {
    producers: Map,
    names: Map,
    extents: Map,
    kept: Map,
    open: Map,
    settled: SettledStreams,
}

impl StreamTables {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self::of(std::array::from_fn(|_| Map::new(mark)))
    }

    /// From what an image has.
    pub(super) fn of([producers, names, extents, kept, open, settled]: [Map; 6]) -> Self {
        let settled = SettledStreams::of(settled);
        Self { producers, names, extents, kept, open, settled }
    }

    pub(super) fn maps(&self) -> [&Map; 6] {
        let Self { producers, names, extents, kept, open, settled } = self;
        [producers, names, extents, kept, open, settled.map()]
    }

    pub(super) fn maps_mut(&mut self) -> [&mut Map; 6] {
        let Self { producers, names, extents, kept, open, settled } = self;
        [producers, names, extents, kept, open, settled.map_mut()]
    }

    /// How far streams are settled.
    pub(crate) fn settled(&self) -> &SettledStreams {
        &self.settled
    }

    pub(super) fn settled_mut(&mut self) -> &mut SettledStreams {
        &mut self.settled
    }

    pub(crate) fn producer(&self, file: EntryId, id: ProducerId) -> Option<ProducerRecord> {
        self.producers.get(&pair(file, id.get()), |packed| ProducerRecord::unpack(id, packed))
    }

    pub(super) fn set_producer(
        &mut self,
        file: EntryId,
        id: ProducerId,
        producer: &ProducerRecord,
    ) {
        assert!(!file.is_none() && !id.is_none(), "a producer is of a file");
        assert!(producer.chunks.len() <= PRODUCER_CHUNKS_MAX, "and writes a few chunks");
        self.producers.set(&pair(file, id.get()), &producer.pack(id));
    }

    pub(crate) fn named(&self, file: EntryId, name: &str) -> Option<ProducerId> {
        self.names.get(&name_key(file, name), unpack_id)
    }

    pub(super) fn set_name(&mut self, file: EntryId, name: &str, id: ProducerId) {
        assert!(!id.is_none(), "a name stands for a producer");
        let mut packed = Vec::new();
        put_number(&mut packed, id.get());
        self.names.set(&name_key(file, name), &packed);
    }

    /// Producers of a file, by name, behind `after`.
    pub(crate) fn producers_after(
        &self,
        file: EntryId,
        after: &str,
    ) -> impl Iterator<Item = (String, ProducerId)> + use<'_> {
        let after = after.to_owned();
        let mut walk = self.names.walk(&name_key(file, &after));
        let next = move || {
            walk.unpack(|key, packed| {
                let mut key = Packed(key);
                if key.key()? != file.get() {
                    return Some(None);
                }
                Some(Some((key.text()?.to_owned(), unpack_id(packed)?)))
            })
        };
        // OE4
        let named = std::iter::from_fn(next).filter(|(name, _)| !name.is_empty());
        named.skip_while(move |(name, _)| *name == after)
    }

    /// Takes out a producer, and all that is kept of it.
    pub(super) fn forget(&mut self, file: EntryId, name: &str, id: ProducerId) {
        self.producers.remove(&pair(file, id.get()));
        self.names.remove(&name_key(file, name));
        self.remove_kept(file, id, 0);
    }

    /// Takes out what is kept of a producer from there on: zero is the cursor, others are bundles.
    fn remove_kept(&mut self, file: EntryId, id: ProducerId, from: u64) {
        let firsts: Vec<u64> = self.kept_from(file, id, from).collect();
        for first in firsts {
            self.kept.remove(&kept_key(file, id, first));
        }
    }

    /// What is kept of a producer from there on: zero is the cursor, others are bundles.
    fn kept_from(
        &self,
        file: EntryId,
        id: ProducerId,
        from: u64,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let mut walk = self.kept.walk(&kept_key(file, id, from));
        std::iter::from_fn(move || {
            walk.unpack(|key, _| {
                let mut key = Packed(key);
                let (of, by, first) = (key.key()?, key.key()?, key.key()?);
                Some(Some(first).filter(|_| (of, by) == (file.get(), id.get())))
            })
        })
    }

    pub(crate) fn cursor(&self, file: EntryId, id: ProducerId) -> Option<Cursor> {
        self.kept.get(&kept_key(file, id, 0), |packed| {
            let mut packed = Packed(packed);
            let number = RecordNumber::new(packed.number()?);
            Some(Cursor { number, text: Bytes::copy_from_slice(packed.0) })
        })
    }

    pub(super) fn set_cursor(&mut self, file: EntryId, id: ProducerId, cursor: &Cursor) {
        let mut packed = Vec::with_capacity(8 + cursor.text.len());
        put_number(&mut packed, cursor.number.get());
        packed.extend_from_slice(&cursor.text);
        self.kept.set(&kept_key(file, id, 0), &packed);
    }

    pub(crate) fn outcome(
        &self,
        file: EntryId,
        id: ProducerId,
        first: RecordNumber,
    ) -> Option<KeptOutcome> {
        if first.get() == 0 {
            return None;
        }
        self.kept.get(&kept_key(file, id, first.get()), |packed| {
            let mut packed = Packed(packed);
            let (count, offset) = (packed.number()?, packed.number()?);
            packed.end(KeptOutcome { first, count, offset })
        })
    }

    /// Keeps the outcome of a producer's bundle, and lets go of the oldest (OE3).
    pub(super) fn keep_outcome(
        &mut self,
        file: EntryId,
        (id, producer): (ProducerId, &mut ProducerRecord),
        outcome: KeptOutcome,
    ) {
        assert!(outcome.first.get() > 0, "records are numbered from 1");
        let mut packed = Vec::new();
        put_number(&mut packed, outcome.count);
        put_number(&mut packed, outcome.offset);
        self.kept.set(&kept_key(file, id, outcome.first.get()), &packed);
        producer.outcomes += 1;
        if producer.outcomes > BUNDLES_MAX as u64 {
            let oldest = self.kept_from(file, id, 1).next();
            if let Some(oldest) = oldest {
                self.kept.remove(&kept_key(file, id, oldest));
            }
            producer.outcomes -= 1;
        }
    }

    /// What is kept of a producer for a time goes: cursor and outcomes (R47). Whether there was a
    /// cursor.
    pub(super) fn forget_kept(&mut self, file: EntryId, id: ProducerId) -> bool {
        let had = self.cursor(file, id).is_some();
        self.remove_kept(file, id, 0);
        had
    }

    /// An epoch is over, or its producer is done: outcomes go, so that a repeat is answered *done
    /// before* or *fenced* (OE3).
    pub(super) fn finish(
        &mut self,
        file: EntryId,
        (id, producer): (ProducerId, &mut ProducerRecord),
        is_done: bool,
    ) {
        if producer.outcomes > 0 {
            self.remove_kept(file, id, 1);
            producer.outcomes = 0;
        }
        producer.keep_ended(if is_done { ENDED_OF_DONE_MAX } else { ENDED_MAX });
    }

    /// The extents of a file, from the one that has byte `offset` on (OE1).
    pub(crate) fn extents_from(
        &self,
        file: EntryId,
        offset: u64,
    ) -> impl Iterator<Item = Extent> + use<'_> {
        let mut walk = self.extents.walk(&pair(file, offset.saturating_add(1)));
        std::iter::from_fn(move || {
            walk.unpack(|key, packed| {
                let mut key = Packed(key);
                let (of, end) = (key.key()?, key.key()?);
                if of != file.get() {
                    return Some(None);
                }
                Some(Some(Extent::unpack(end, packed)?))
            })
        })
    }

    /// Puts bytes of a chunk at the end of a file, which is so long (OE1).
    pub(super) fn add_extent(
        &mut self,
        file: EntryId,
        length: u64,
        (index, chunk_offset, size): (ChunkIndex, u64, u64),
    ) {
        assert!(size > 0, "an extent has bytes (OE1)");
        let end = length + size;
        let last = self.extents.get(&pair(file, length), |packed| Extent::unpack(length, packed));
        let goes_on = last
            .filter(|last| last.index == index && last.chunk_offset + last.size == chunk_offset);
        let added = match goes_on {
            Some(last) => {
                self.extents.remove(&pair(file, length));
                Extent { end, size: last.size + size, ..last }
            }
            None => Extent { end, index, chunk_offset, size },
        };
        self.extents.set(&pair(file, end), &added.pack());
    }

    /// Takes out an extent, as it stands.
    pub(super) fn remove_extent(&mut self, file: EntryId, extent: &Extent) {
        self.extents.remove(&pair(file, extent.end));
    }

    /// Puts an extent where none stands (OE1).
    pub(super) fn set_extent(&mut self, file: EntryId, extent: &Extent) {
        assert!(extent.size > 0, "an extent has bytes (OE1)");
        self.extents.set(&pair(file, extent.end), &extent.pack());
    }

    /// Takes out up to so many rows of a file that goes; how many it were.
    pub(super) fn take_of_file(&mut self, file: EntryId, left: usize) -> usize {
        let mut taken = 0;
        self.settled.set_pending(file, false);
        let Self { producers, names, extents, kept, settled, .. } = self;
        for map in [extents, kept, names, producers, settled.map_mut()] {
            let mut keys = Vec::new();
            let mut walk = map.walk(&file.get().to_be_bytes());
            while taken + keys.len() < left
                && let Some((key, _)) = walk.next()
                && key.starts_with(&file.get().to_be_bytes())
            {
                keys.push(key.to_vec());
            }
            taken += keys.len();
            assert!(taken <= left, "a slice is as small as it is asked to be");
            keys.iter().for_each(|key| map.remove(key));
        }
        taken
    }

    /// Gives a copy of a file what that has, slice by slice: extents as far as the copy is long,
    /// then producers, whose epochs are over in it. Where the next slice goes on.
    pub(super) fn copy(
        &mut self,
        (source, copy): (EntryId, EntryId),
        length: u64,
        slice: CopiedSlice<'_>,
    ) -> StreamCopied {
        let mut copied: BTreeMap<ChunkIndex, u64> = BTreeMap::new();
        let count = slice.count.clamp(1, COPIED_ROWS_MAX);
        let mut next =
            StreamCopied { from: slice.from, after: slice.after.to_owned(), whole: false };
        let extents = self.extents_from(source, slice.from);
        let extents: Vec<Extent> = extents.take_while(|it| it.end <= length).take(count).collect();
        for extent in &extents {
            self.extents.set(&pair(copy, extent.end), &extent.pack());
            next.from = extent.end;
            *copied.entry(extent.index).or_default() += extent.size;
        }
        if slice.settles {
            for (index, size) in copied {
                let before = self.settled.left(copy, index).unwrap_or(0);
                self.settled.set_left(copy, index, before + size);
            }
        }
        let left = count - extents.len();
        let named: Vec<(String, ProducerId)> =
            self.producers_after(source, slice.after).take(left).collect();
        for (name, id) in &named {
            if let Some(producer) = self.producer(source, *id) {
                let (chunks, outcomes) = (Vec::new(), 0);
                let mut over = ProducerRecord { closed: true, chunks, outcomes, ..producer };
                over.keep_ended(ENDED_OF_DONE_MAX);
                self.set_producer(copy, *id, &over);
                self.set_name(copy, name, *id);
            }
            if let Some(cursor) = self.cursor(source, *id) {
                self.set_cursor(copy, *id, &cursor);
            }
            next.after.clone_from(name);
        }
        assert!(next.from <= length.max(slice.from), "no copy is longer than it says");
        next.whole = extents.len() + named.len() < count;
        if next.whole && slice.settles && length > 0 {
            self.settled.set_settled_to(copy, self.settled.settled_to(source).min(length));
            self.settled.set_pending(copy, true);
        }
        next
    }

    pub(crate) fn open_chunk(&self, handle: ChunkHandle) -> Option<OpenStreamChunkRow> {
        if self.open.len() == 0 {
            return None;
        }
        self.open
            .get(&handle.get().to_be_bytes(), |packed| OpenStreamChunkRow::unpack(handle, packed))
    }

    pub(super) fn set_open(&mut self, handle: ChunkHandle, row: &OpenStreamChunkRow) {
        assert!(!handle.is_none() && !row.epoch.is_none(), "one epoch writes a chunk (OE2)");
        self.open.set(&handle.get().to_be_bytes(), &row.pack(handle));
    }

    /// It is written no more.
    pub(super) fn end_open(&mut self, handle: ChunkHandle) {
        if self.open_chunk(handle).is_some() {
            self.open.remove(&handle.get().to_be_bytes());
        }
    }

    /// Chunks that are being written, behind that one.
    pub(crate) fn open_after(
        &self,
        after: ChunkHandle,
    ) -> impl Iterator<Item = (ChunkHandle, OpenStreamChunkRow)> + use<'_> {
        let mut walk = self.open.walk(&after.get().saturating_add(1).to_be_bytes());
        std::iter::from_fn(move || {
            walk.unpack(|key, packed| {
                let handle = ChunkHandle::new(Packed(key).key()?);
                Some(Some((handle, OpenStreamChunkRow::unpack(handle, packed)?)))
            })
        })
    }
}

impl ProducerRecord {
    /// Whether it has committed nothing for so long that it is taken for gone (R42).
    pub(crate) fn is_silent(&self, now: WallTime) -> bool {
        now.as_millis().saturating_sub(self.changed.as_millis()) > PRODUCER_SILENT_MS
    }

    /// It begins another epoch.
    pub(super) fn begin(&mut self, epoch: Epoch, time: WallTime) {
        assert!(epoch > self.epoch, "epochs only rise (R1)");
        if !self.epoch.is_none() {
            self.ended.push((self.epoch, self.number));
        }
        self.keep_ended(ENDED_MAX);
        (self.epoch, self.changed, self.closed) = (epoch, time, false);
        self.chunks.clear();
    }

    /// Of so many epochs before it is told what they had committed.
    fn keep_ended(&mut self, count: usize) {
        let over = self.ended.len().saturating_sub(count);
        self.ended.drain(..over);
    }

    fn pack(&self, id: ProducerId) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        put_near(&mut out, self.epoch.get(), id.get());
        put_number(&mut out, self.number.get());
        put_number(&mut out, self.changed.as_millis());
        put_number(&mut out, self.outcomes << 1 | u64::from(self.closed));
        put_number(&mut out, self.ended.len() as u64);
        for (epoch, number) in &self.ended {
            put_near(&mut out, epoch.get(), self.epoch.get());
            put_near(&mut out, number.get(), self.number.get());
        }
        for handle in &self.chunks {
            put_near(&mut out, handle.get(), self.epoch.get());
        }
        out
    }

    fn unpack(id: ProducerId, packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let epoch = Epoch::new(packed.near(id.get())?);
        let number = RecordNumber::new(packed.number()?);
        let changed = WallTime::from_millis(packed.number()?);
        let flags = packed.number()?;
        let mut producer = Self {
            epoch,
            number,
            changed,
            closed: flags & 1 != 0,
            outcomes: flags >> 1,
            ..Self::default()
        };
        for _ in 0..packed.number()? {
            let ended = Epoch::new(packed.near(epoch.get())?);
            producer.ended.push((ended, RecordNumber::new(packed.near(number.get())?)));
        }
        while !packed.0.is_empty() {
            producer.chunks.push(ChunkHandle::new(packed.near(epoch.get())?));
        }
        Some(producer)
    }
}

impl Extent {
    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        put_number(&mut out, self.index.get());
        put_number(&mut out, self.chunk_offset);
        put_number(&mut out, self.size);
        out
    }

    fn unpack(end: u64, packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let index = ChunkIndex::new(packed.number()?);
        let (chunk_offset, size) = (packed.number()?, packed.number()?);
        packed.end(Self { end, index, chunk_offset, size }).filter(|it| it.size <= end)
    }
}

impl OpenStreamChunkRow {
    fn pack(&self, handle: ChunkHandle) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        put_near(&mut out, self.file.get(), handle.get());
        put_near(&mut out, self.producer.get(), handle.get());
        put_near(&mut out, self.epoch.get(), handle.get());
        put_number(&mut out, self.length);
        put_number(&mut out, self.serial.get());
        out
    }

    fn unpack(handle: ChunkHandle, packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let file = EntryId::new(packed.near(handle.get())?);
        let producer = ProducerId::new(packed.near(handle.get())?);
        let epoch = Epoch::new(packed.near(handle.get())?);
        let (length, serial) = (packed.number()?, SerialNumber::new(packed.number()?));
        packed.end(Self { file, producer, epoch, length, serial })
    }
}

fn unpack_id(packed: &[u8]) -> Option<ProducerId> {
    let mut packed = Packed(packed);
    let id = ProducerId::new(packed.number()?);
    packed.end(id)
}

fn pair(file: EntryId, second: u64) -> [u8; 16] {
    (u128::from(file.get()) << 64 | u128::from(second)).to_be_bytes()
}

fn name_key(file: EntryId, name: &str) -> Vec<u8> {
    let mut key = file.get().to_be_bytes().to_vec();
    key.extend_from_slice(name.as_bytes());
    key
}

fn kept_key(file: EntryId, id: ProducerId, first: u64) -> Vec<u8> {
    let mut key = pair(file, id.get()).to_vec();
    key.extend_from_slice(&first.to_be_bytes());
    key
}
