//! Sync and close (design §4, §5): every chunk written since the last sync is made durable on all
//! its replicas, then the master records the length.
//!
//! - SO1: a chunk that is written while its sync is under way stays unsynced.
//! - SO2: what was acknowledged in an earlier life of the chunk's unsynced bytes than the one that
//!   is on disk now may be lost, as after a power loss of all its replicas; and what now lies
//!   behind the chunk's end is. The sync that finds out fails, once: like `fsync`, it tells of what
//!   is gone.

use crate::file_state::Unsynced;
use crate::ids::TaskId;
use crate::operation::Output;
use crate::operations::operation_context::OperationContext;
use crate::tasks::chunk_mutation::{AppliedRange, ChunkMutation};
use crate::tasks::master_call::{MasterAnswer, MasterCall};
use crate::tasks::task::Task;
use crate::tasks::task_context::Progress;
use cairn_protocol::{ErrorCode, Failure, RecordLength, Rpc};
use cairn_types::{ChunkIndex, EntryId};
use std::collections::BTreeMap;
use std::task::Poll;

/// Chunks being synced, each with what was acknowledged of it before that began.
#[derive(Debug)]
pub(crate) struct SyncOperation {
    file: EntryId,
    closes: bool,
    under_way: BTreeMap<TaskId, (ChunkIndex, Unsynced)>,
}

impl SyncOperation {
    /// With `closes`, the file is forgotten at the end.
    pub(crate) fn new(file: EntryId, closes: bool) -> Self {
        Self { file, closes, under_way: BTreeMap::new() }
    }

    /// Syncs what is not synced yet, if that is wanted; then the length is recorded.
    pub(crate) fn begin(&mut self, cx: &mut OperationContext<'_>, sync: bool) -> Progress<Output> {
        assert!(self.under_way.is_empty(), "a sync begins once");
        if sync {
            for (index, unsynced) in cx.client.files.file(self.file).unsynced.clone() {
                let mutation = ChunkMutation::sync(self.file, index);
                let task = cx.start(Task::ChunkMutation(mutation));
                self.under_way.insert(task, (index, unsynced));
            }
        }
        self.record_length_once_synced(cx)
    }

    fn record_length_once_synced(&self, cx: &mut OperationContext<'_>) -> Progress<Output> {
        if self.under_way.is_empty() {
            let record = RecordLength { file: self.file, closes: self.closes };
            cx.start(Task::MasterCall(MasterCall::new(record)));
        }
        Poll::Pending
    }

    /// A chunk is on disk everywhere.
    pub(crate) fn chunk_synced(
        &mut self,
        cx: &mut OperationContext<'_>,
        task: TaskId,
        range: &AppliedRange,
    ) -> Progress<Output> {
        let synced = self.under_way.remove(&task);
        let (index, before) = synced.expect("a sync is under way until it is done");
        let unsynced = &mut cx.client.files.file(self.file).unsynced;
        if unsynced.get(&index) == Some(&before) {
            unsynced.remove(&index);
        }
        if range.end < before.end || range.life > before.life {
            // SO2
            let why = format!(
                "chunk {index} of the file had {} acknowledged bytes, and what of them was not \
                 synced is lost, or may be, as after a power failure of all its replicas; write it \
                 again",
                before.end
            );
            return Poll::Ready(Err(Failure::refused(ErrorCode::Io, why)));
        }
        self.record_length_once_synced(cx)
    }

    /// The master has recorded the length.
    pub(crate) fn length_recorded(
        &self,
        cx: &mut OperationContext<'_>,
        answer: MasterAnswer,
    ) -> Progress<Output> {
        assert!(self.under_way.is_empty(), "the length is recorded once all is synced");
        if self.closes {
            cx.client.files.closed(self.file);
        }
        let recorded = RecordLength::answer(Ok(answer.response));
        Poll::Ready(recorded.map(|answer| Output::Recorded { length: answer.length }))
    }
}
