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
use crate::applied::{Applied, Changed};
use crate::stream_records::{NoteSettled, ReplaceRange};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId};
use std::collections::BTreeMap;

impl StreamChanges<'_> {
    /// Puts a chunk in the place of a range; gives the places of the chunks of which the file has
    /// nothing any more: they are the caller's to take out.
    pub(super) fn replace_range(
        &mut self,
        record: &ReplaceRange,
    ) -> Result<Vec<(ChunkIndex, ChunkHandle)>, Failure> {
        let (id, index, handle) = (record.file, record.index, record.handle);
        let file = self.live_stream(id)?;
        if self.chunks.is_taken(handle) {
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
        self.check_copied((id, &file), record, end)?;
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
        let cut = self.streams.replace_extents(id, record.offset, (index, 0, size));
        let settled = self.streams.settled_mut();
        settled.set_left(id, index, size);
        if let Some(to) = record.settled_to {
            settled.set_settled_to(id, to.max(settled.settled_to(id)).min(file.length));
        }
        Ok(self.let_go((id, &changed), &cut))
    }

    /// Refuses a range of which something else stands there by now than was copied (RG1).
    fn check_copied(
        &self,
        (id, file): (EntryId, &EntryRecord),
        record: &ReplaceRange,
        end: u64,
    ) -> Result<(), Failure> {
        let other = || {
            let line = format!("file {}: another chunk has some of it by now", id.short());
            Failure::not_done(ErrorCode::Busy, line)
        };
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
            at += size;
        }
        if at != end || named.next().is_some() {
            return Err(other());
        }
        Ok(())
    }

    /// Counts what the file has left of its chunks; gives those of which that is nothing (RG2).
    fn let_go(
        &mut self,
        (id, file): (EntryId, &EntryRecord),
        cut: &BTreeMap<ChunkIndex, u64>,
    ) -> Vec<(ChunkIndex, ChunkHandle)> {
        let mut gone = Vec::new();
        for (index, left) in self.streams.left_of(id, cut) {
            // R45 broken: a chunk goes while some of it is needed.
            let left = if broken(Rule::R45) { 0 } else { left };
            self.streams.settled_mut().set_left(id, index, left);
            if let Some(handle) = self.chunks.of_record(id, file, index).filter(|_| left == 0) {
                gone.push((index, handle));
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
