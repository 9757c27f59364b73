//! A write at an offset: cut into pieces at chunk boundaries, several under way.

use crate::operation::Output;
use crate::operations::operation_context::OperationContext;
use crate::pieces::{PIECES_IN_FLIGHT, first_piece};
use crate::tasks::chunk_mutation::{AppliedRange, ChunkMutation};
use crate::tasks::task::Task;
use crate::tasks::task_context::Progress;
use bytes::Bytes;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::EntryId;
use std::task::Poll;

/// What of a write is still to be sent.
#[derive(Debug)]
pub(crate) struct WriteOperation {
    file: EntryId,
    sync: bool,
    offset: u64,
    rest: Bytes,
}

impl WriteOperation {
    pub(crate) fn new(file: EntryId, offset: u64, bytes: Bytes, sync: bool) -> Self {
        Self { file, sync, offset, rest: bytes }
    }

    pub(crate) fn begin(&mut self, cx: &mut OperationContext<'_>) -> Progress<Output> {
        if self.offset.checked_add(self.rest.len() as u64).is_none() {
            let why = format!("write at {}: no file is that long", self.offset);
            return Poll::Ready(Err(Failure::refused(ErrorCode::Invalid, why)));
        }
        self.go_on(cx)
    }

    /// Sends as many pieces as may be under way.
    fn go_on(&mut self, cx: &mut OperationContext<'_>) -> Progress<Output> {
        let cell = cx.client.cell();
        let (chunk_size, block_size) = (cell.chunk_size, cell.block_size);
        while !self.rest.is_empty() && cx.tasks_under_way() < PIECES_IN_FLIGHT {
            let end = self.offset + self.rest.len() as u64;
            let (index, offset, size) = first_piece(self.offset, end, chunk_size);
            let bytes = self.rest.split_to(usize::try_from(size).expect("a piece fits memory"));
            self.offset += size;
            let place = (index, offset);
            let mutation = ChunkMutation::write(self.file, place, bytes, block_size, self.sync);
            cx.start(Task::ChunkMutation(mutation));
        }
        if cx.tasks_under_way() > 0 {
            return Poll::Pending;
        }
        Poll::Ready(Ok(Output::Written))
    }

    /// A piece is written.
    pub(crate) fn applied(
        &mut self,
        cx: &mut OperationContext<'_>,
        range: &AppliedRange,
    ) -> Progress<Output> {
        cx.has_changed_the_file();
        if !self.sync {
            cx.client.files.file(self.file).written(range.index, range.end, range.life);
        }
        self.go_on(cx)
    }
}
