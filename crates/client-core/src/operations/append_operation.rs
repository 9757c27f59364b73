//! An append: what is refused at once, and where in the file it went.

use crate::operation::Output;
use crate::operations::operation_context::OperationContext;
use crate::tasks::chunk_mutation::{AppliedRange, ChunkMutation};
use crate::tasks::task::Task;
use crate::tasks::task_context::Progress;
use bytes::Bytes;
use cairn_protocol::{ErrorCode, Failure, PAYLOAD_SIZE_MAX};
use cairn_types::EntryId;
use std::task::Poll;

/// An append under way.
#[derive(Debug)]
pub(crate) struct AppendOperation {
    file: EntryId,
    sync: bool,
}

impl AppendOperation {
    pub(crate) fn new(file: EntryId, sync: bool) -> Self {
        Self { file, sync }
    }

    pub(crate) fn begin(&self, cx: &mut OperationContext<'_>, bytes: Bytes) -> Progress<Output> {
        let cell = cx.client.cell();
        let size_max = cell.append_size_max().min(u64::from(PAYLOAD_SIZE_MAX));
        if bytes.is_empty() {
            let why = "append: there is nothing to append";
            return Poll::Ready(Err(Failure::refused(ErrorCode::Invalid, why)));
        }
        if bytes.len() as u64 > size_max {
            let why = format!(
                "append of {} bytes: the limit is {size_max}, a quarter of a chunk; write it as \
                 several records",
                bytes.len()
            );
            return Poll::Ready(Err(Failure::refused(ErrorCode::RecordTooLarge, why)));
        }
        let block_size = cell.block_size;
        let mutation = ChunkMutation::append(self.file, bytes, block_size, self.sync);
        cx.start(Task::ChunkMutation(mutation));
        Poll::Pending
    }

    /// It stands in the file.
    pub(crate) fn applied(
        &self,
        cx: &mut OperationContext<'_>,
        range: &AppliedRange,
    ) -> Progress<Output> {
        if !self.sync {
            cx.client.files.file(self.file).written(range.index, range.end, range.life);
        }
        // Saturating: the index is a master's word.
        let before = range.index.get().saturating_mul(cx.client.cell().chunk_size);
        Poll::Ready(Ok(Output::Appended { offset: before.saturating_add(range.offset) }))
    }
}
