//! Sync and close (design §4, §5): every chunk written since the last sync is made durable on all
//! its replicas, then the master records the length.
//!
//! - S1: a chunk that is written while its sync is under way stays unsynced.

use crate::ask::{Ask, Asked};
use crate::core::{ClientCore, Work};
use crate::mutation::Change;
use crate::operation::Output;
use crate::shared_asks::mismatched;
use crate::task::{Machine, OperationId, TaskId};
use cairn_protocol::{RecordLength, Response};
use cairn_types::{ChunkIndex, EntryId};
use std::collections::BTreeMap;

/// Chunks being synced, each with the count of the acknowledgement that came last before it began.
#[derive(Debug)]
pub(crate) struct SyncWork {
    file: EntryId,
    close: bool,
    under_way: BTreeMap<TaskId, (ChunkIndex, u64)>,
}

impl ClientCore {
    pub(crate) fn begin_sync(&mut self, id: OperationId, file: EntryId, sync: bool, close: bool) {
        let mut under_way = BTreeMap::new();
        if sync {
            for (index, last) in self.cx.file(file).unsynced.clone() {
                let task = self.spawn_mutation(id, file, Change::Sync { index });
                under_way.insert(task, (index, last));
            }
        }
        let all_synced = under_way.is_empty();
        self.set_work(id, Work::Sync(SyncWork { file, close, under_way }));
        if all_synced {
            self.record_length(id, file);
        }
    }

    fn record_length(&mut self, id: OperationId, file: EntryId) {
        self.spawn(id, Machine::Ask(Ask::new(RecordLength { file }.into())));
    }

    pub(crate) fn chunk_synced(&mut self, id: OperationId, task: TaskId) {
        let Some(active) = self.operations.get_mut(&id) else { return };
        let Work::Sync(work) = &mut active.work else { return };
        let Some((index, last)) = work.under_way.remove(&task) else { return };
        let (file, over) = (work.file, work.under_way.is_empty());
        let unsynced = &mut self.cx.file(file).unsynced;
        if unsynced.get(&index) == Some(&last) {
            unsynced.remove(&index);
        }
        if over {
            self.record_length(id, file);
        }
    }

    pub(crate) fn length_recorded(&mut self, id: OperationId, asked: &Asked) {
        let Some(Work::Sync(work)) = self.operations.get(&id).map(|active| &active.work) else {
            return;
        };
        let (file, close) = (work.file, work.close);
        let result = match &asked.response {
            Response::RecordLength(answer) => Ok(Output::Recorded { length: answer.length }),
            other => Err(mismatched(other)),
        };
        if close {
            self.cx.closed(file);
        }
        self.finish(id, result);
    }
}
