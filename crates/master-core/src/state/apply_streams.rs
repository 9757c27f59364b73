//! Applying records about streams: all of R38 is decided here, in log order.
//!
//! ```text
//!   CommitBundles ─► each: newest epoch? next number? open chunk, at its end? ─► an extent of the
//!                    file, the chunk's and the producer's numbers, cursor and outcome
//! ```
//! - OM1: a bundle is committed whole or not at all, and one that is not ends its request.
//! - OM2: a number is committed once: whoever asks again is answered by what is kept (R38, R39).
//! - OM3: what is committed of a chunk when it is sealed, all of its set have applied (R41); but
//!   where a decision was made without one that had more (R28).
//!   What these lack is noted (`lost_tails.rs`).
//! - OM4: where a stream is open exclusively, its holder alone commits, and replaces only (R46).

use super::apply_quota::QuotaCheck;
use super::chunk_table::{ChunkRecord, ChunkTable};
use super::entry_record::EntryRecord;
use super::names::NameTree;
use super::streams::{KeptOutcome, OpenStreamChunkRow, ProducerRecord, StreamTables};
use crate::applied::{Applied, BundlesCommitted, Changed, ProducerOpened};
use crate::stream_records::{
    AbandonChunk, AllocateChunk, CloseProducerRecord, CommitBundlesRecord, CommittedBundle,
    ForgetProducerRecord, OpenProducerRecord, SealChunk, SkipLostTail,
};
use cairn_protocol::{
    BundleAnswer, CommitOutcome, Cursor, ErrorCode, Failure, PRODUCER_CHUNKS_MAX,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{
    ChunkHandle, ChunkIndex, Content, EntryId, EntryKind, Epoch, Layout, ProducerId, RecordNumber,
    WallTime,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a record about streams may change.
pub(super) struct StreamChanges<'a> {
    pub(super) names: &'a mut NameTree,
    pub(super) chunks: &'a mut ChunkTable,
    pub(super) streams: &'a mut StreamTables,
    pub(super) chunk_size: u64,
    /// How long a cursor is kept after its producer's last commit (R47).
    pub(super) cursors_kept_ms: u64,
    /// How far streams are settled is kept.
    pub(super) settles: bool,
}

/// A stream while a record's bundles are put to its end.
struct GrowingStream {
    length: u64,
    producer: ProducerRecord,
    /// Bytes that were replaced, by the chunk that had them.
    cut: BTreeMap<ChunkIndex, u64>,
}

impl StreamChanges<'_> {
    pub(super) fn open_producer(
        &mut self,
        record: &OpenProducerRecord,
    ) -> Result<Applied, Failure> {
        let (file, name, epoch) = (record.file, record.name.as_str(), record.epoch);
        self.live_stream(file)?;
        // R47 broken: whoever comes back begins anew.
        let named = self.streams.named(file, name).filter(|_| !broken(Rule::R47));
        let id = named.unwrap_or(record.producer);
        let mut producer = self.streams.producer(file, id).unwrap_or_default();
        if named.is_none() && producer != ProducerRecord::default() {
            let line = format!("producer {}: the id is taken", id.short());
            return Err(Failure::refused(ErrorCode::Internal, line));
        }
        if name.is_empty() {
            self.check_exclusive(record)?;
        }
        if id.is_none() {
            let line = format!("file {}: a producer without an id", file.short());
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        if epoch <= producer.epoch {
            let line = format!("producer {name}: epoch {} is over", epoch.short());
            return Err(Failure::refused(ErrorCode::ProducerFenced, line));
        }
        let age = record.time.as_millis().saturating_sub(producer.changed.as_millis());
        let mut cursor_gone = false;
        if named.is_some() && age > self.cursors_kept_ms {
            cursor_gone = self.streams.forget_kept(file, id);
            producer.outcomes = 0;
        }
        // Who repeats a bundle of an epoch that is over is told that it is fenced (OE3).
        self.streams.finish(file, (id, &mut producer), false);
        producer.begin(epoch, record.time);
        self.streams.set_name(file, name, id);
        self.streams.set_producer(file, id, &producer);
        Ok(Applied::ProducerOpened(ProducerOpened { producer: id, epoch, cursor_gone }))
    }

    /// Whether a stream may be opened exclusively: by whoever has seen who has it now (OM4).
    fn check_exclusive(&self, record: &OpenProducerRecord) -> Result<(), Failure> {
        let file = self.live_stream(record.file)?;
        if file.content == Content::Records {
            return Err(records_stand(record.file));
        }
        let holder = self.streams.exclusive(record.file).filter(|(_, holder)| !holder.closed);
        let epoch = holder.map(|(_, holder)| holder.epoch).unwrap_or_default();
        if epoch == record.takes_over {
            return Ok(());
        }
        Err(locked(record.file, epoch))
    }

    pub(super) fn close_producer(
        &mut self,
        record: &CloseProducerRecord,
    ) -> Result<Applied, Failure> {
        let (file, id) = (record.file, record.producer);
        let mut producer = self.producer(file, id, record.epoch)?;
        producer.closed = true;
        producer.chunks.clear();
        // It was closed behind the answer to its last commit.
        self.streams.finish(file, (id, &mut producer), true);
        self.streams.set_producer(file, id, &producer);
        Ok(Applied::Changed(Changed::default()))
    }

    pub(super) fn forget_producer(
        &mut self,
        record: &ForgetProducerRecord,
    ) -> Result<Applied, Failure> {
        let file = record.file;
        self.live_stream(file)?;
        let Some(id) = self.streams.named(file, &record.name) else {
            let line = format!("producer {}: no such producer", record.name);
            return Err(Failure::refused(ErrorCode::NotFound, line));
        };
        self.streams.forget(file, &record.name, id);
        Ok(Applied::Changed(Changed::default()))
    }

    pub(super) fn allocate(&mut self, record: &AllocateChunk) -> Result<Applied, Failure> {
        let (id, index, handle) = (record.file, record.index, record.handle);
        let file = self.live_stream(id)?;
        let mut producer = self.producer(id, record.producer, record.epoch)?;
        if producer.closed || producer.chunks.len() >= PRODUCER_CHUNKS_MAX {
            let line = format!("chunk {}: its producer takes no more", handle.short());
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        if self.chunks.is_taken(handle) {
            return Err(super::apply_chunks::handle_taken(handle));
        }
        if index.get() == u64::MAX || self.chunks.of_record(id, &file, index).is_some() {
            let line = format!("file {}: chunk {index} is taken", id.short());
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        let chunk = ChunkRecord {
            file: id,
            index,
            version: record.version,
            set_size: record.set_size,
            closed: false,
            goal: file.replication,
        };
        self.chunks.insert(handle, &chunk);
        let mut file = file;
        file.chunk_count = file.chunk_count.max(index.get() + 1);
        if index == ChunkIndex::default() {
            file.first = Some(handle);
        }
        self.names.set(id, &file);
        producer.chunks.push(handle);
        self.streams.set_producer(id, record.producer, &producer);
        let row = OpenStreamChunkRow {
            file: id,
            producer: record.producer,
            epoch: record.epoch,
            length: 0,
            serial: Default::default(),
        };
        self.streams.set_open(handle, &row);
        Ok(Applied::Changed(Changed::default()))
    }

    /// What came of it, and which chunks of the file no extent names any more.
    pub(super) fn commit(
        &mut self,
        record: &CommitBundlesRecord,
    ) -> Result<(BundlesCommitted, BTreeSet<ChunkIndex>), Failure> {
        let (file, id) = (record.file, record.producer);
        let entry = self.live_stream(file)?;
        let producer = self.streams.producer(file, id).ok_or_else(|| no_producer(id))?;
        if let Some(number) = fenced_at(&producer, record.epoch)? {
            let fenced = BundleAnswer { outcome: CommitOutcome::Fenced, offset: 0 };
            let fenced = BundlesCommitted { bundles: vec![fenced], number, gone: Vec::new() };
            return Ok((fenced, BTreeSet::new()));
        }
        let mut bundles = Vec::with_capacity(record.bundles.len());
        let (length, number, cut) = (entry.length, producer.number, BTreeMap::new());
        let mut growing = GrowingStream { length, producer, cut };
        for bundle in &record.bundles {
            let committed = self.commit_one((record, &entry), &mut growing, bundle);
            let answer = match committed {
                Ok(answer) => answer,
                Err(failure) if bundles.is_empty() => return Err(failure),
                // It is told to who asks for it alone (OM1).
                Err(_) => break,
            };
            bundles.push(answer);
            if !matches!(answer.outcome, CommitOutcome::Committed | CommitOutcome::DoneBefore) {
                break;
            }
        }
        let GrowingStream { length, producer, cut } = growing;
        if producer.number > number {
            self.names.set(file, &EntryRecord { length, modified: record.time, ..entry });
            self.streams.set_producer(file, id, &producer);
        }
        let committed = BundlesCommitted { bundles, number: producer.number, gone: Vec::new() };
        Ok((committed, self.without_bytes(file, &cut)))
    }

    /// `entry` is the stream as it was before the record, which its quotas are charged from.
    fn commit_one(
        &mut self,
        (record, entry): (&CommitBundlesRecord, &EntryRecord),
        growing: &mut GrowingStream,
        bundle: &CommittedBundle,
    ) -> Result<BundleAnswer, Failure> {
        let (file, id) = (record.file, record.producer);
        let GrowingStream { length: offset, producer, cut } = growing;
        let answer = |outcome| Ok(BundleAnswer { outcome, offset: 0 });
        if let Some(before) = self.committed_before((file, id), producer, bundle)? {
            return Ok(before);
        }
        if producer.closed {
            return answer(CommitOutcome::Fenced);
        }
        self.check_writer((file, id), bundle)?;
        if bundle.first != producer.number.next() {
            return answer(CommitOutcome::NotNext);
        }
        let row = self.streams.open_chunk(bundle.handle);
        let row = row.filter(|row| {
            (row.file, row.producer, row.epoch) == (file, id, record.epoch)
                && (row.length, row.serial.next()) == (bundle.offset, bundle.serial)
        });
        let chunk = self.chunks.get(bundle.handle).filter(|chunk| !chunk.closed);
        let (Some(mut row), Some(chunk)) = (row, chunk) else {
            return answer(CommitOutcome::ChunkLost);
        };
        let last = bundle.first.get().checked_add(bundle.count.saturating_sub(1));
        let end = row.length.checked_add(bundle.size).filter(|end| *end <= self.chunk_size);
        let (Some(last), Some(end)) = (last.filter(|_| bundle.count > 0 && bundle.size > 0), end)
        else {
            let line = "a bundle without records or bytes, or past its chunk's end";
            return Err(Failure::refused(ErrorCode::Invalid, line));
        };
        let range = (chunk.index, row.length, bundle.size);
        let offset = if let Some(at) = bundle.replaces {
            check_range(file, (at, bundle.size), *offset)?;
            for (index, size) in self.streams.replace_extents(file, at, range) {
                *cut.entry(index).or_default() += size;
            }
            at
        } else {
            let Some(length) = offset.checked_add(bundle.size) else {
                let line = format!("file {}: no file is so long", file.short());
                return Err(Failure::refused(ErrorCode::Invalid, line));
            };
            QuotaCheck(self.names).charge_up_to(file, entry, length)?;
            let offset = std::mem::replace(offset, length);
            self.streams.add_extent(file, offset, range);
            offset
        };
        (row.length, row.serial) = (end, bundle.serial);
        self.streams.set_open(bundle.handle, &row);
        (producer.number, producer.changed) = (RecordNumber::new(last), record.time);
        assert!(producer.number >= bundle.first, "numbers only rise (R38)");
        assert!(row.length <= self.chunk_size, "no chunk is larger than a chunk");
        let outcome = KeptOutcome { first: bundle.first, count: bundle.count, offset };
        self.streams.keep_outcome(file, (id, producer), outcome);
        if let Some(text) = &bundle.cursor {
            let cursor = Cursor { number: producer.number, text: text.clone() };
            self.streams.set_cursor(file, id, &cursor);
        }
        Ok(BundleAnswer { outcome: CommitOutcome::Committed, offset })
    }

    /// Whether it is this producer that writes the stream now (OM4).
    fn check_writer(
        &self,
        (file, id): (EntryId, ProducerId),
        bundle: &CommittedBundle,
    ) -> Result<(), Failure> {
        let exclusive = self.streams.exclusive(file);
        let is_holder = exclusive.as_ref().is_some_and(|(holder, _)| *holder == id);
        if is_holder != bundle.replaces.is_some() {
            let line = format!(
                "file {}: who has it exclusively replaces ranges, and nobody else does",
                file.short()
            );
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        match exclusive {
            Some((_, holder)) if !is_holder && !holder.closed => Err(locked(file, holder.epoch)),
            _ => Ok(()),
        }
    }

    /// Those of the chunks of which bytes were replaced that the file has nothing of any more; of
    /// the others it is counted anew how much it has, where that is counted (R45).
    fn without_bytes(
        &mut self,
        file: EntryId,
        cut: &BTreeMap<ChunkIndex, u64>,
    ) -> BTreeSet<ChunkIndex> {
        let left = self.streams.left_of(file, cut);
        for (index, left) in &left {
            // What is written still is counted when it is sealed.
            if self.streams.settled().left(file, *index).is_some() {
                self.streams.settled_mut().set_left(file, *index, *left);
            }
        }
        left.into_iter().filter(|(_, left)| *left == 0).map(|(index, _)| index).collect()
    }

    /// The producer of a chunk writes it no more, which its file lets go of next.
    pub(super) fn stop_writing(&mut self, handle: ChunkHandle, time: WallTime) {
        if let Some(row) = self.streams.open_chunk(handle) {
            self.take_from_producer(handle, &row, time);
        }
    }

    /// What became of a bundle whose numbers are committed already (OM2); none: they are not.
    fn committed_before(
        &self,
        (file, id): (EntryId, ProducerId),
        producer: &ProducerRecord,
        bundle: &CommittedBundle,
    ) -> Result<Option<BundleAnswer>, Failure> {
        if bundle.first > producer.number {
            return Ok(None);
        }
        let last = bundle.first.get().saturating_add(bundle.count.saturating_sub(1));
        match self.streams.outcome(file, id, bundle.first) {
            // R39 broken: that a number is known is enough.
            Some(kept) if kept.count == bundle.count || broken(Rule::R39) => {
                Ok(Some(BundleAnswer { outcome: CommitOutcome::Committed, offset: kept.offset }))
            }
            None if last <= producer.number.get() && bundle.first.get() > 0 => {
                Ok(Some(BundleAnswer { outcome: CommitOutcome::DoneBefore, offset: 0 }))
            }
            _ => {
                let line = format!(
                    "records {} to {last}: numbers up to {} stand for other records already (R39)",
                    bundle.first, producer.number
                );
                Err(Failure::refused(ErrorCode::Invalid, line))
            }
        }
    }

    pub(super) fn seal(&mut self, record: &SealChunk) -> Result<Applied, Failure> {
        let handle = record.handle;
        let row = self.streams.open_chunk(handle).ok_or_else(|| not_written(handle))?;
        let chunk = self.chunks.get(handle).ok_or_else(|| not_written(handle))?;
        // OM3
        if record.serial.is_some_and(|serial| serial < row.serial) {
            let line = format!("chunk {}: more was committed meanwhile", handle.short());
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        if record.version <= chunk.version {
            let line = format!("chunk {}: that version is over", handle.short());
            return Err(Failure::refused(ErrorCode::StaleVersion, line));
        }
        assert!(row.length > 0 || row.serial.get() == 0, "bundles have bytes");
        let (version, set_size) = (record.version, record.set_size);
        self.chunks.set(handle, &ChunkRecord { version, set_size, closed: true, ..chunk });
        if let Some(held) = record.held {
            self.chunks.lost_mut().set(handle, (held, row.length));
        }
        self.streams.end_open(handle);
        self.take_from_producer(handle, &row, record.time);
        if self.settles && row.length > 0 {
            // Some of it may have been replaced already (R46), or its heir never had all (PU4).
            let is_whole = self.streams.replaced(row.file).get() == 0 && !row.producer.is_none();
            let left = match is_whole {
                true => row.length,
                false => self.streams.bytes_of(row.file, &[chunk.index].into())[&chunk.index],
            };
            let settled = self.streams.settled_mut();
            settled.set_left(row.file, chunk.index, left);
            settled.set_pending(row.file, true);
        }
        Ok(Applied::Changed(Changed::default()))
    }

    /// A person makes a hole of what a chunk of the file has lost (R41).
    pub(super) fn skip_lost(&mut self, record: &SkipLostTail) -> Result<Applied, Failure> {
        let (id, handle) = (record.file, record.handle);
        let file = self.live_stream(id)?;
        let chunk = self.chunks.get(handle);
        let chunk = chunk.filter(|it| self.chunks.of_record(id, &file, it.index) == Some(handle));
        let lost = chunk.and_then(|_| self.chunks.lost().get(handle)).ok_or_else(|| {
            let line = format!(
                "chunk {}: it is no chunk of that stream that has lost some",
                handle.short()
            );
            Failure::refused(ErrorCode::NotFound, line)
        })?;
        self.chunks.lost_mut().make_hole(&lost);
        Ok(Applied::Changed(Changed::default()))
    }

    /// The place of a chunk that is to be taken out of its file.
    pub(super) fn abandon(
        &mut self,
        record: &AbandonChunk,
    ) -> Result<(EntryId, ChunkIndex), Failure> {
        let handle = record.handle;
        let row = self.streams.open_chunk(handle).ok_or_else(|| not_written(handle))?;
        let chunk = self.chunks.get(handle).ok_or_else(|| not_written(handle))?;
        if row.length > 0 {
            let line = format!("chunk {}: some of it is committed", handle.short());
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        self.take_from_producer(handle, &row, record.time);
        Ok((row.file, chunk.index))
    }

    fn take_from_producer(
        &mut self,
        handle: ChunkHandle,
        row: &OpenStreamChunkRow,
        time: WallTime,
    ) {
        let (file, id) = (row.file, row.producer);
        if let Some(mut producer) = self.streams.producer(file, id) {
            producer.chunks.retain(|it| *it != handle);
            // OE3
            if producer.chunks.is_empty() && producer.is_silent(time) {
                self.streams.finish(file, (id, &mut producer), true);
            }
            self.streams.set_producer(file, id, &producer);
        }
    }

    /// A producer in its newest epoch, which is this.
    fn producer(
        &self,
        file: EntryId,
        id: ProducerId,
        epoch: Epoch,
    ) -> Result<ProducerRecord, Failure> {
        let producer = self.streams.producer(file, id).ok_or_else(|| no_producer(id))?;
        if producer.epoch != epoch {
            return Err(fenced(id, epoch));
        }
        Ok(producer)
    }

    /// A stream that is there and not deleted (R20).
    pub(super) fn live_stream(&self, id: EntryId) -> Result<EntryRecord, Failure> {
        let file = self.names.entry(id).filter(|it| it.kind == EntryKind::File);
        let file = file.filter(|_| !self.names.is_hidden(id)).ok_or_else(|| {
            let line = format!("file {}: no such file, or deleted", id.short());
            Failure::refused(ErrorCode::NotFound, line)
        })?;
        if file.layout != Layout::Stream {
            let line = format!("file {}: it is not a stream", id.short());
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        Ok(file)
    }
}

/// What was committed when that epoch ended, where it has (R38); none: it goes on.
fn fenced_at(producer: &ProducerRecord, epoch: Epoch) -> Result<Option<RecordNumber>, Failure> {
    if producer.epoch == epoch || broken(Rule::R38) {
        return Ok(None);
    }
    let ended = producer.ended.iter().find(|(ended, _)| *ended == epoch);
    let number = ended.map(|(_, number)| *number).ok_or_else(|| {
        let line = format!("epoch {} is over since long ago", epoch.short());
        Failure::unknown(ErrorCode::ProducerFenced, line)
    })?;
    Ok(Some(number))
}

/// Somebody has it exclusively.
pub(crate) fn locked(file: EntryId, epoch: Epoch) -> Failure {
    let line = format!("file {}: it is open exclusively (opening {})", file.short(), epoch.short());
    Failure::not_done(ErrorCode::StreamLocked, line)
}

/// A record stands for one content for ever (R39).
pub(crate) fn records_stand(file: EntryId) -> Failure {
    let line = format!(
        "file {}: it is a stream of records, which stand for ever; ranges are replaced in \
         streams of bytes",
        file.short()
    );
    Failure::refused(ErrorCode::Invalid, line)
}

/// Refuses a range that is not all there.
fn check_range(file: EntryId, (at, size): (u64, u64), length: u64) -> Result<(), Failure> {
    if at.checked_add(size).is_some_and(|end| end <= length) {
        return Ok(());
    }
    let line = format!(
        "file {}: {size} bytes at {at} are not there to be replaced; it is {length} bytes long",
        file.short()
    );
    Err(Failure::refused(ErrorCode::Invalid, line))
}

fn fenced(id: ProducerId, epoch: Epoch) -> Failure {
    let line = format!("producer {}: epoch {} is over", id.short(), epoch.short());
    Failure::refused(ErrorCode::ProducerFenced, line)
}

fn no_producer(id: ProducerId) -> Failure {
    let line = format!("producer {}: no such producer of this stream", id.short());
    Failure::refused(ErrorCode::NotFound, line)
}

fn not_written(handle: ChunkHandle) -> Failure {
    let line = format!("chunk {}: no producer writes it (any more)", handle.short());
    Failure::refused(ErrorCode::NoSuchChunk, line)
}
