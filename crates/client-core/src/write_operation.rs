//! Writes at an offset and appends: what is refused at once, how a write is cut, what is
//! remembered for the next sync.

use crate::core::{ClientCore, Work};
use crate::mutation::{Change, Mutated};
use crate::operation::Output;
use crate::read_operation::first_piece;
use crate::settings::PIECES_IN_FLIGHT;
use crate::task::OperationId;
use bytes::Bytes;
use cairn_protocol::{ErrorCode, Failure, PAYLOAD_SIZE_MAX};
use cairn_types::EntryId;

/// What of a write is still to be sent.
#[derive(Debug)]
pub(crate) struct WriteWork {
    file: EntryId,
    sync: bool,
    offset: u64,
    rest: Bytes,
}

impl ClientCore {
    pub(crate) fn begin_write(
        &mut self,
        id: OperationId,
        file: EntryId,
        offset: u64,
        bytes: Bytes,
        sync: bool,
    ) {
        if offset.checked_add(bytes.len() as u64).is_none() {
            let why = format!("write at {offset}: no file is that long");
            self.finish(id, Err(Failure::refused(ErrorCode::Invalid, why)));
            return;
        }
        self.set_work(id, Work::Write(WriteWork { file, sync, offset, rest: bytes }));
        self.go_on_writing(id);
    }

    fn go_on_writing(&mut self, id: OperationId) {
        let chunk_size = self.cx.cell().chunk_size;
        loop {
            let Some(active) = self.operations.get_mut(&id) else { return };
            let Work::Write(work) = &mut active.work else { return };
            if work.rest.is_empty() {
                if active.tasks.is_empty() {
                    self.finish(id, Ok(Output::Written));
                }
                return;
            }
            if active.tasks.len() >= PIECES_IN_FLIGHT {
                return;
            }
            let end = work.offset + work.rest.len() as u64;
            let (index, offset, size) = first_piece(work.offset, end, chunk_size);
            let bytes = work.rest.split_to(usize::try_from(size).expect("a piece fits memory"));
            work.offset += size;
            let (file, sync) = (work.file, work.sync);
            self.spawn_mutation(id, file, Change::Write { index, offset, bytes, sync });
        }
    }

    pub(crate) fn piece_written(&mut self, id: OperationId, done: &Mutated) {
        let Some(active) = self.operations.get_mut(&id) else { return };
        active.changed = true;
        let Work::Write(work) = &active.work else { return };
        let (file, sync) = (work.file, work.sync);
        self.remember_unsynced(file, sync, done);
        self.go_on_writing(id);
    }

    pub(crate) fn begin_append(
        &mut self,
        id: OperationId,
        file: EntryId,
        bytes: Bytes,
        sync: bool,
    ) {
        let size_max = self.cx.cell().append_size_max().min(u64::from(PAYLOAD_SIZE_MAX));
        let refusal = if bytes.is_empty() {
            Some(Failure::refused(ErrorCode::Invalid, "append: there is nothing to append"))
        } else if bytes.len() as u64 > size_max {
            let why = format!(
                "append of {} bytes: the limit is {size_max}, a quarter of a chunk; write it as \
                 several records",
                bytes.len()
            );
            Some(Failure::refused(ErrorCode::RecordTooLarge, why))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.finish(id, Err(refusal));
            return;
        }
        self.set_work(id, Work::Append { file, sync });
        self.spawn_mutation(id, file, Change::Append { bytes, sync });
    }

    pub(crate) fn appended(&mut self, id: OperationId, done: &Mutated) {
        let Some(Work::Append { file, sync }) = self.operations.get(&id).map(|a| &a.work) else {
            return;
        };
        let (file, sync) = (*file, *sync);
        self.remember_unsynced(file, sync, done);
        // Saturating: the index is a master's word.
        let before = done.index.get().saturating_mul(self.cx.cell().chunk_size);
        let offset = before.saturating_add(done.offset);
        self.finish(id, Ok(Output::Appended { offset }));
    }

    /// What is not on disk everywhere yet waits for the next sync.
    fn remember_unsynced(&mut self, file: EntryId, sync: bool, done: &Mutated) {
        if !sync {
            self.cx.file(file).written(done.index, done.end);
        }
    }
}
