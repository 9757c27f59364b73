//! Applying records about chunks: they change the chunk table, and the files that chunks are of.

use super::apply_quota::QuotaCheck;
use super::chunk_table::{ChunkRecord, ChunkTable};
use super::entry_record::EntryRecord;
use super::names::NameTree;
use super::shared_chunks::SharedChunks;
use crate::applied::{Applied, Changed, ChunkOpened};
use crate::chunk_place::end_of_chunk;
use crate::record::{CloseChunk, OpenChunk, SetLength, SetVersion};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, Layout};

fn no_chunk(handle: ChunkHandle) -> Failure {
    Failure::refused(ErrorCode::NoSuchChunk, format!("chunk {}: no such chunk", handle.short()))
}

pub(super) fn handle_taken(handle: ChunkHandle) -> Failure {
    Failure::refused(ErrorCode::Internal, format!("chunk {}: the handle is taken", handle.short()))
}

/// What a record about chunks may change.
pub(super) struct ChunkChanges<'a> {
    pub(super) names: &'a mut NameTree,
    pub(super) chunks: &'a mut ChunkTable,
    pub(super) shared: &'a SharedChunks,
    pub(super) chunk_size: u64,
    /// Whether files are charged what they may grow to (R36).
    pub(super) charges: bool,
}

impl ChunkChanges<'_> {
    pub(super) fn open_chunk(&mut self, record: &OpenChunk) -> Result<Applied, Failure> {
        let file = self.live_file(record.file)?;
        let goal = file.replication;
        // The count of a file's chunks must be a number, too.
        if record.index.get() == u64::MAX {
            let line = format!("file {}: no file has so many chunks", record.file.short());
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        // The first stands in the entry, where it is looked for at no cost: the copy of a file that
        // was being purged has it, and a count of none.
        let there = match record.index.get() < file.chunk_count.max(1) {
            true => self.chunks.of_record(record.file, &file, record.index),
            false => None,
        };
        let taken = || self.chunks.is_taken(record.handle) && !broken(Rule::R1);
        if there.is_none() && taken() {
            return Err(handle_taken(record.handle));
        }
        let mut up_to = None;
        if there.is_none() && record.charges && self.charges {
            let last = ChunkIndex::new(file.chunk_count.saturating_sub(1));
            let end = end_of_chunk(last.max(record.index), self.chunk_size);
            up_to = QuotaCheck(self.names).charge_up_to(record.file, &file, end)?;
        }
        if let Some(closes) = record.closes {
            // Closing k and opening k+1 is one record (R18), and one that fails closes nothing.
            self.close(closes)?;
        }
        // Idempotent by index: of two that open the same one, the first in the log wins.
        if let Some(handle) = there {
            return Ok(Applied::ChunkOpened(ChunkOpened { handle }));
        }
        let chunk = ChunkRecord {
            file: record.file,
            index: record.index,
            version: record.version,
            set_size: record.set_size,
            closed: false,
            goal,
        };
        self.chunks.insert(record.handle, &chunk);
        // Closing may have changed it.
        if let Some(mut file) = self.names.entry(record.file) {
            file.chunk_count = file.chunk_count.max(record.index.get() + 1);
            if record.index == ChunkIndex::default() {
                file.first = Some(record.handle);
            }
            file.modified = record.time;
            self.names.set(record.file, &file);
            if up_to.is_some() {
                charge(self.names, record.file, &file, up_to);
            }
        }
        Ok(Applied::ChunkOpened(ChunkOpened { handle: record.handle }))
    }

    pub(super) fn close_chunk(&mut self, record: &CloseChunk) -> Result<Applied, Failure> {
        self.close(record.handle)?;
        Ok(Applied::Changed(Changed::default()))
    }

    /// A closed chunk is full by definition (R19), and its file at least that long. One that other
    /// files have, too, is closed for none of them: they would grow by what nobody wrote (R32).
    fn close(&mut self, handle: ChunkHandle) -> Result<(), Failure> {
        let mut chunk = self.chunks.get(handle).ok_or_else(|| no_chunk(handle))?;
        if !chunk.closed && self.shared.is_shared(handle) && !broken(Rule::R32) {
            let line = format!("chunk {}: a snapshot has it, too", handle.short());
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        chunk.closed = true;
        self.chunks.set(handle, &chunk);
        let length = end_of_chunk(chunk.index, self.chunk_size);
        if let Some(file) = self.names.entry(chunk.file)
            && length > file.length
            && file.layout != Layout::Stream
        {
            self.names.set(chunk.file, &EntryRecord { length, ..file });
        }
        Ok(())
    }

    pub(super) fn set_version(&mut self, record: &SetVersion) -> Result<Applied, Failure> {
        let mut chunk = self.chunks.get(record.handle).ok_or_else(|| no_chunk(record.handle))?;
        if record.version <= chunk.version && !broken(Rule::R1) {
            let line = format!(
                "chunk {}: version {} is not above the logged {}",
                record.handle.short(),
                record.version.short(),
                chunk.version.short()
            );
            return Err(Failure::refused(ErrorCode::StaleVersion, line));
        }
        if record.charges
            && self.charges
            && let Some(file) = self.names.entry(chunk.file)
            && !self.names.is_hidden(chunk.file)
        {
            let end = end_of_chunk(chunk.index, self.chunk_size);
            let up_to = QuotaCheck(self.names).charge_up_to(chunk.file, &file, end)?;
            if up_to.is_some() {
                charge(self.names, chunk.file, &file, up_to);
            }
        }
        chunk.version = record.version;
        chunk.set_size = record.set_size;
        self.chunks.set(record.handle, &chunk);
        // What was committed is known once some of it was lost (R41).
        let known = self.chunks.lost().get(record.handle).map(|lost| lost.committed);
        if let (Some(held), Some(committed)) = (record.held, known.or(record.committed)) {
            self.chunks.lost_mut().set(record.handle, (held, committed));
        }
        Ok(Applied::Changed(Changed::default()))
    }

    pub(super) fn set_length(&mut self, record: &SetLength) -> Result<Applied, Failure> {
        let file = self.names.entry(record.file).filter(|entry| entry.kind == EntryKind::File);
        let file = file.ok_or_else(|| no_file(record.file))?;
        // How long a stream is, its commits say alone (R38).
        if record.length > file.length && file.layout != Layout::Stream {
            let (length, modified) = (record.length, record.time);
            self.names.set(record.file, &EntryRecord { length, modified, ..file });
        }
        if record.settles
            && self.names.accounts().charged(record.file).is_some()
            && let Some(file) = self.names.entry(record.file)
        {
            charge(self.names, record.file, &file, None);
        }
        Ok(Applied::Changed(Changed::default()))
    }

    /// A file that is there and not hidden: a hidden one gets no chunk (R20).
    fn live_file(&self, id: EntryId) -> Result<EntryRecord, Failure> {
        let file = self.names.entry(id).filter(|entry| entry.kind == EntryKind::File);
        let hidden = self.names.is_hidden(id) && !broken(Rule::R20);
        file.filter(|_| !hidden).ok_or_else(|| no_file(id))
    }
}

/// A file is charged so far, or its recorded length alone (R36).
pub(super) fn charge(names: &mut NameTree, id: EntryId, file: &EntryRecord, up_to: Option<u64>) {
    assert!(up_to.is_none_or(|up_to| up_to > 0), "a charge is of a chunk, or there is none");
    let (accounts, ways) = names.accounts_mut();
    accounts.charge(ways, (id, file), up_to);
}

fn no_file(id: EntryId) -> Failure {
    Failure::refused(ErrorCode::NotFound, format!("file {}: no such file, or deleted", id.short()))
}
