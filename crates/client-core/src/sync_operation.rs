//! Sync and close (design §4, §5): every chunk written since the last sync is made durable on all
//! its replicas, then the master records the length.
//!
//! - S1: a chunk that is written while its sync is under way stays unsynced.
//! - S2: a chunk that now ends before what was acknowledged has lost bytes, as after a power loss
//!   of all its replicas. The sync that finds out fails, once: like `fsync`, it tells of what is
//!   gone.

use crate::ask::{Ask, Asked};
use crate::core::{ClientCore, Work};
use crate::file_state::Unsynced;
use crate::mutation::{Change, Mutated};
use crate::operation::Output;
use crate::shared_asks::mismatched;
use crate::task::{Machine, OperationId, TaskId};
use cairn_protocol::{ErrorCode, Failure, RecordLength, Response};
use cairn_types::{ChunkIndex, EntryId};
use std::collections::BTreeMap;

/// Chunks being synced, each with what was acknowledged of it before that began.
#[derive(Debug)]
pub(crate) struct SyncWork {
    file: EntryId,
    close: bool,
    under_way: BTreeMap<TaskId, (ChunkIndex, Unsynced)>,
}

impl ClientCore {
    pub(crate) fn begin_sync(&mut self, id: OperationId, file: EntryId, sync: bool, close: bool) {
        let mut under_way = BTreeMap::new();
        if sync {
            for (index, unsynced) in self.cx.file(file).unsynced.clone() {
                let task = self.spawn_mutation(id, file, Change::Sync { index });
                under_way.insert(task, (index, unsynced));
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

    pub(crate) fn chunk_synced(&mut self, id: OperationId, task: TaskId, done: &Mutated) {
        let Some(active) = self.operations.get_mut(&id) else { return };
        let Work::Sync(work) = &mut active.work else { return };
        let Some((index, before)) = work.under_way.remove(&task) else { return };
        let (file, over) = (work.file, work.under_way.is_empty());
        let unsynced = &mut self.cx.file(file).unsynced;
        if unsynced.get(&index) == Some(&before) {
            unsynced.remove(&index);
        }
        if done.end < before.end {
            // S2
            let why = format!(
                "chunk {index} of the file had {} acknowledged bytes and has {}: what was not \
                 synced is lost, as after a power failure of all its replicas; write it again",
                before.end, done.end
            );
            self.finish(id, Err(Failure::refused(ErrorCode::Io, why)));
        } else if over {
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
