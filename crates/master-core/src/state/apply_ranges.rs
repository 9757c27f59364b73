//! Applying another chunk for a range of a stream (R45), and how far one is settled.
//!
//! ```text
//!   before   |A 0..9|B 0..4|A 9..12|B 4..9|        ReplaceRange of the first three by N
//!   after    |N 0..16              |B 4..9|        A is the file's no more, B still is
//! ```
//! - RG1: the bytes of a file and their offsets stay: the new chunk has what was replaced, in its
//!   order, and the record names each range of it as it stood when it was copied.
//! - RG2: a chunk is let go of when the file's extents have nothing of it any more.
//! - RG3: what is replaced is closed: nothing more of it is committed.

use super::apply_chunks::handle_taken;
use super::apply_streams::StreamChanges;
use super::chunk_table::ChunkRecord;
use super::entry_record::EntryRecord;
use super::streams::Extent;
use crate::applied::{Applied, Changed};
use crate::stream_records::{NoteSettled, ReplaceRange};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId};
use std::collections::BTreeMap;

/// What a range of a file is made of.
struct PresentRange {
    /// The extents that it touches, as they stand.
    extents: Vec<Extent>,
    /// What lies before and behind it in the first and in the last of them.
    rests: Vec<Extent>,
    /// Bytes of it by chunk.
    taken: BTreeMap<ChunkIndex, u64>,
}

impl StreamChanges<'_> {
    /// Puts a chunk in the place of a range; gives the places of the chunks of which the file has
    /// nothing any more: they are the caller's to take out.
    pub(super) fn replace_range(
        &mut self,
        record: &ReplaceRange,
    ) -> Result<Vec<(ChunkIndex, ChunkHandle)>, Failure> {
        let (id, index, handle) = (record.file, record.index, record.handle);
        let file = self.live_stream(id)?;
        if self.chunks.contains(handle) {
            return Err(handle_taken(handle));
        }
        if index.get() == u64::MAX || self.chunks.of_record(id, &file, index).is_some() {
            let line = format!("file {}: chunk {index} is taken", id.short());
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        let size = record.replaced.iter().try_fold(0u64, |sum, it| sum.checked_add(it.size));
        let size = size.filter(|size| (1..=self.chunk_size).contains(size));
        let end = size.and_then(|size| record.offset.checked_add(size));
        let (Some(size), Some(end)) = (size, end) else {
            let line = format!("file {}: no chunk has so many bytes", id.short());
            return Err(Failure::refused(ErrorCode::Invalid, line));
        };
        let present = self.present((id, &file), record, end)?;
        self.chunks.insert(
            handle,
            &ChunkRecord {
                file: id,
                index,
                version: record.version,
                set_size: record.set_size,
                closed: true,
                goal: file.replication,
            },
        );
        let mut changed = file;
        changed.chunk_count = file.chunk_count.max(index.get() + 1);
        if index == ChunkIndex::default() {
            changed.first = Some(handle);
        }
        self.names.set(id, &changed);
        present.extents.iter().for_each(|extent| self.streams.remove_extent(id, extent));
        present.rests.iter().for_each(|rest| self.streams.set_extent(id, rest));
        self.streams.set_extent(id, &Extent { end, index, chunk_offset: 0, size });
        let settled = self.streams.settled_mut();
        settled.set_left(id, index, size);
        if let Some(to) = record.settled_to {
            settled.set_settled_to(id, to.max(settled.settled_to(id)).min(file.length));
        }
        Ok(self.let_go(id, &changed, &present))
    }

    /// What stands there, if that is what was copied (RG1).
    fn present(
        &self,
        (id, file): (EntryId, &EntryRecord),
        record: &ReplaceRange,
        end: u64,
    ) -> Result<PresentRange, Failure> {
        let other = || {
            let line = format!("file {}: another chunk has some of it by now", id.short());
            Failure::not_done(ErrorCode::Busy, line)
        };
        let mut present =
            PresentRange { extents: Vec::new(), rests: Vec::new(), taken: BTreeMap::new() };
        let (mut at, mut named) = (record.offset, record.replaced.iter());
        for extent in self.streams.extents_from(id, record.offset) {
            if at >= end {
                break;
            }
            let handle = self.chunks.of_record(id, file, extent.index).ok_or_else(other)?;
            let chunk = self.chunks.get(handle).ok_or_else(other)?;
            let size = extent.end.min(end) - at;
            let offset = extent.chunk_offset + (at - extent.offset());
            let is_same = named
                .next()
                .is_some_and(|it| (it.handle, it.offset, it.size) == (handle, offset, size));
            // RG3
            let is_written = !chunk.closed || self.streams.open_chunk(handle).is_some();
            if (!is_same && !broken(Rule::R45)) || is_written {
                return Err(other());
            }
            if at > extent.offset() {
                let size = at - extent.offset();
                present.rests.push(Extent { end: at, size, ..extent });
            }
            if end < extent.end {
                let (taken, size) = (offset + size, extent.end - end);
                present.rests.push(Extent { chunk_offset: taken, size, ..extent });
            }
            *present.taken.entry(extent.index).or_default() += size;
            present.extents.push(extent);
            at += size;
        }
        if at != end || named.next().is_some() {
            return Err(other());
        }
        Ok(present)
    }

    /// Counts what the file has left of its chunks; gives those of which that is nothing (RG2).
    fn let_go(
        &mut self,
        id: EntryId,
        file: &EntryRecord,
        present: &PresentRange,
    ) -> Vec<(ChunkIndex, ChunkHandle)> {
        let mut gone = Vec::new();
        for (index, taken) in &present.taken {
            let known = self.streams.settled().left(id, *index);
            let left = match known {
                Some(left) => left.saturating_sub(*taken),
                // It was sealed before that was counted: what stands there now is all.
                None => {
                    let all = self.streams.extents_from(id, 0);
                    all.filter(|it| it.index == *index).map(|it| it.size).sum()
                }
            };
            // R45 broken: a chunk goes while some of it is needed.
            let left = if broken(Rule::R45) { 0 } else { left };
            self.streams.settled_mut().set_left(id, *index, left);
            if let Some(handle) = self.chunks.of_record(id, file, *index).filter(|_| left == 0) {
                gone.push((*index, handle));
            }
        }
        gone
    }

    pub(super) fn note_settled(&mut self, record: &NoteSettled) -> Result<Applied, Failure> {
        let file = self.live_stream(record.file)?;
        let settled = self.streams.settled_mut();
        let to = record.settled_to.max(settled.settled_to(record.file)).min(file.length);
        settled.set_settled_to(record.file, to);
        // More was sealed meanwhile, perhaps: it is looked at once more.
        if record.done && record.length == file.length {
            settled.set_pending(record.file, false);
        }
        Ok(Applied::Changed(Changed::default()))
    }
}
