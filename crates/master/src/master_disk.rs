//! A master's disk work: appends to the operation log, and checkpoints made beside them.
//!
//! ```text
//!   lane LOG         Append · Append · …      one flush for what waited together
//!   lane CHECKPOINT  newest checkpoint + log since then ──► next checkpoint; older ones go
//! ```
//! A checkpoint is made by replay (decision 8): it needs no copy of the live state, and proves
//! each time that replay is state.

use crate::recovery::{self, RecoveryError};
use cairn_env::{Disk, DiskError, DiskLock, Lane, LogDone, LogJob, Service};
use cairn_store::{Checkpoints, OperationLog};
use cairn_types::{CellId, LogIndex};
use std::sync::{Arc, Mutex, PoisonError};

/// Appends run here.
pub(crate) const LOG_LANE: Lane = Lane(0);
/// Checkpoints are made here.
pub(crate) const CHECKPOINT_LANE: Lane = Lane(1);

/// The operation log and the checkpoints of one master.
#[derive(Debug)]
pub struct MasterDisk {
    disk: Arc<dyn Disk>,
    cell: CellId,
    log: Mutex<OperationLog>,
    checkpoints: Checkpoints,
    /// Held as long as anything here can write.
    _lock: Box<dyn DiskLock>,
}

impl MasterDisk {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        cell: CellId,
        log: OperationLog,
        checkpoints: Checkpoints,
        lock: Box<dyn DiskLock>,
    ) -> Self {
        Self { disk, cell, log: Mutex::new(log), checkpoints, _lock: lock }
    }

    fn checkpoint(&self, up_to: LogIndex) -> Result<LogDone, DiskError> {
        let mut state = recovery::load(&self.checkpoints).map_err(as_disk_error)?;
        let records = OperationLog::read(self.disk.as_ref(), self.cell, state.applied(), up_to)
            .map_err(|error| as_disk_error(error.into()))?;
        recovery::replay(&mut state, &records).map_err(as_disk_error)?;
        let index = state.applied();
        let size = self.checkpoints.write(state.applied_term(), index, |writer| {
            state.items().try_for_each(|item| writer.item(&item))
        })?;
        if let Some(oldest) = self.checkpoints.remove_older()? {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            log.remove_before(oldest)?;
        }
        Ok(LogDone::Checkpointed { index, size })
    }
}

fn as_disk_error(error: RecoveryError) -> DiskError {
    match error {
        RecoveryError::Disk(error) => error,
        other => DiskError::Io(other.to_string()),
    }
}

impl Service for MasterDisk {
    type Job = LogJob;
    type Done = LogDone;

    fn run(&self, jobs: Vec<LogJob>) -> Vec<Result<LogDone, DiskError>> {
        let mut records = Vec::new();
        let mut results = Vec::new();
        for job in jobs {
            match job {
                LogJob::Append(batch) => {
                    records.extend(batch);
                    results.push(Ok(LogDone::Appended));
                }
                LogJob::Checkpoint { index } => results.push(self.checkpoint(index)),
            }
        }
        if records.is_empty() {
            return results;
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = log.append(&records) {
            for result in &mut results {
                if *result == Ok(LogDone::Appended) {
                    *result = Err(error.clone());
                }
            }
        }
        results
    }
}
