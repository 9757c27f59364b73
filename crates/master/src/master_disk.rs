//! A master's disk work: appends to the operation log, and checkpoints made beside them.
//!
//! ```text
//!   lane LOG         Append · Append · …           one flush for what waited together
//!   lane CHECKPOINT  Checkpoint(snapshot) ──► pages that the file lacks, a root; older ones go
//! ```
//! A snapshot of the state shares its pages with the live one, so taking it copies nothing.

use cairn_env::{Disk, DiskError, DiskLock, Lane, Service};
use cairn_format::CheckpointRoot;
use cairn_master_core::{Checkpointed, LogDone, LogJob, LogResult, State, TakenOver};
use cairn_pagetree::CheckpointError;
use cairn_protocol::FetchCheckpoint;
use cairn_store::{
    Checkpoints, OperationLog, WrittenCheckpoint, WrittenImage, keep_piece, read_pages,
    read_root_file,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Appends run here.
pub(crate) const LOG_LANE: Lane = Lane(0);
/// Pieces of checkpoints are read for other masters here.
pub(crate) const PIECES_LANE: Lane = Lane(2);
/// Checkpoints are made here: background work, which may take long.
pub const CHECKPOINT_LANE: Lane = Lane(1);

/// Bytes of one piece of a checkpoint.
pub(crate) const PIECE_SIZE: usize = 1 << 20;

/// The operation log and the checkpoints of one master.
#[derive(Debug)]
pub struct MasterDisk {
    disk: Arc<dyn Disk>,
    log: Mutex<OperationLog>,
    checkpoints: Mutex<Checkpoints>,
    log_size_max: u64,
    /// Held as long as anything here can write.
    _lock: Box<dyn DiskLock>,
}

impl MasterDisk {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        log: OperationLog,
        checkpoints: Checkpoints,
        log_size_max: u64,
        lock: Box<dyn DiskLock>,
    ) -> Self {
        let (log, checkpoints) = (Mutex::new(log), Mutex::new(checkpoints));
        Self { disk, log, checkpoints, log_size_max, _lock: lock }
    }

    fn checkpoint(&self, state: &State) -> LogResult {
        let mut checkpoints = lock(&self.checkpoints);
        let index = state.applied();
        if lock(&self.log).size() > self.log_size_max {
            checkpoints.begin_afresh();
        }
        let written = match write_checkpoint(&mut checkpoints, state) {
            Ok(written) => written,
            Err(CheckpointError::Damaged(damaged)) => return Ok(LogDone::Damaged(damaged)),
            Err(CheckpointError::Sink(error)) => return Err(error),
        };
        if let Some(oldest) = checkpoints.remove_older()? {
            let mut old = lock(&self.log).take_before(oldest)?;
            // Without the log's lock: whoever waits for it takes this disk for one that hangs.
            let removed = old.remove();
            lock(&self.log).give_back(old);
            removed?;
        }
        let WrittenCheckpoint { size, page_file, to_adopt } = written;
        let to_adopt = to_adopt.map(|mapped| (mapped.backing, mapped.file));
        Ok(LogDone::Checkpointed(Checkpointed { index, size, page_file, to_adopt }))
    }

    /// What has come is a checkpoint from now on, and the state reads from it.
    fn take_over(&self, root: &[u8]) -> LogResult {
        let mut checkpoints = lock(&self.checkpoints);
        let Ok(root) = CheckpointRoot::decode(root) else { return Ok(LogDone::TakenOver(None)) };
        let Some(found) = checkpoints.take_over(&root)? else {
            return Ok(LogDone::TakenOver(None));
        };
        let (backing, file) = (Arc::clone(&found.mapped.backing), found.mapped.file);
        let page_file = found.root.page_file;
        let opened = State::open_image(backing, file, &found.root.root);
        let taken = opened.ok().map(|state| TakenOver { state: state.into(), page_file });
        if taken.is_some() {
            checkpoints.go_on_from(found);
        }
        Ok(LogDone::TakenOver(taken))
    }

    fn run_one(&self, job: LogJob, records: &mut Vec<Record>) -> LogResult {
        match job {
            LogJob::Append(batch) => {
                records.extend(batch);
                Ok(LogDone::Appended { has_room: true })
            }
            LogJob::TakeRoom => Ok(LogDone::Room(lock(&self.log).take_room()?)),
            LogJob::Checkpoint(state) => self.checkpoint(&state),
            LogJob::Free(state) => {
                drop(state);
                Ok(LogDone::Freed)
            }
            LogJob::MarkDamaged { page_file, damaged } => {
                lock(&self.checkpoints).mark_damaged(page_file, &damaged)?;
                Ok(LogDone::MarkedDamaged)
            }
            // Without the checkpoints' lock: one may be in the making for long.
            LogJob::ReadCheckpoint(FetchCheckpoint { index, size: 0, .. }) => {
                Ok(LogDone::Piece(read_root_file(self.disk.as_ref(), index)?))
            }
            LogJob::ReadCheckpoint(FetchCheckpoint { index, offset, size }) => {
                let size = usize::try_from(size).unwrap_or(usize::MAX).min(PIECE_SIZE);
                Ok(LogDone::Piece(read_pages(self.disk.as_ref(), index, (offset, size))?))
            }
            LogJob::KeepPiece { offset, bytes } => {
                keep_piece(self.disk.as_ref(), offset, &bytes)?;
                Ok(LogDone::Kept)
            }
            LogJob::TakeOver(root) => self.take_over(&root),
        }
    }
}

/// Makes a checkpoint of the state, durably.
pub(crate) fn write_checkpoint(
    checkpoints: &mut Checkpoints,
    state: &State,
) -> Result<WrittenCheckpoint, CheckpointError<DiskError>> {
    checkpoints.write(state.applied_term(), state.applied(), |file, writer| {
        let image = state.write_image(file, writer)?;
        Ok(WrittenImage { root: image.root, live_bytes: image.live_bytes })
    })
}

/// What the log takes.
type Record = (cairn_types::LogIndex, bytes::Bytes);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service for MasterDisk {
    type Job = LogJob;
    type JobResult = LogResult;

    fn run(&self, jobs: Vec<LogJob>) -> Vec<LogResult> {
        let mut records = Vec::new();
        let run_one = |job| self.run_one(job, &mut records);
        let mut results: Vec<_> = jobs.into_iter().map(run_one).collect();
        if records.is_empty() {
            return results;
        }
        let mut log = lock(&self.log);
        let appended =
            log.append(&records).map(|()| LogDone::Appended { has_room: log.has_room() });
        for result in &mut results {
            if matches!(result, Ok(LogDone::Appended { .. })) {
                *result = appended.clone();
            }
        }
        results
    }
}
