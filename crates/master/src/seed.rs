//! Making a master's directory out of records, without a master: for benches and for tests that
//! need more names than clients would make in a day.
//!
//! ```text
//!   records ──► State::apply, one by one, as replay does ──► checkpoint
//! ```
//! - E1: the directory is what a master that logged these records in its first term would leave
//!   after a checkpoint: whoever opens it cannot tell the difference.
//!   But the log before the checkpoint is not there: damage in it cannot be mended by replay.
//! - E2: a directory that is somebody's is refused; one that was left half made is no master's
//!   with state: it opens as an empty cell of its own.

use crate::master_disk;
use crate::open::MasterOpenError;
use cairn_env::{Disk, DiskError};
use cairn_format::{Identity, IdentityKind};
use cairn_master_core::record::{Begin, FoundCell};
use cairn_master_core::{Applied, Record, State};
use cairn_pagetree::CheckpointError;
use cairn_protocol::Failure;
use cairn_store::{
    Checkpoints, IdentityError, LogOpenError, OperationLog, PageFileLimits, read_identity,
    write_identity,
};
use cairn_types::{CellConfig, CellId, LogIndex, Random, Term, WallTime};
use std::sync::Arc;

/// The term that the records of a seeded directory belong to; ids in them are of it (R1).
pub const SEED_TERM: Term = Term::new(1);

/// Of the log that is begun, and made anew by the master's start.
const SEGMENT_SIZE: u64 = 4096;

/// Why a directory is not seeded.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// It is in use already (E2).
    #[error("{0}: it belongs to a server already; name an empty directory")]
    Taken(String),
    /// A record does not fit what the ones before it made.
    #[error("record {0} does not apply: {1}")]
    Refused(LogIndex, Failure),
    /// The settings do not fit together, or the disk refused.
    #[error(transparent)]
    Open(#[from] MasterOpenError),
    /// The disk refused.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// Whose directory it is cannot be told.
    #[error("{0}")]
    Identity(#[from] IdentityError),
    /// The log cannot be begun.
    #[error("{0}")]
    Log(#[from] LogOpenError),
}

/// Founds a cell with these settings in an empty directory and fills it with what `records` make;
/// answers how many records there are then. Times in the records are taken as they are, from
/// `begun` on.
///
/// # Errors
/// [`SeedError`].
pub fn seed(
    disk: &Arc<dyn Disk>,
    config: &CellConfig,
    begun: WallTime,
    records: impl IntoIterator<Item = Record>,
) -> Result<LogIndex, SeedError> {
    config.validate().map_err(MasterOpenError::from)?;
    if read_identity(disk.as_ref())?.is_some() {
        return Err(SeedError::Taken(disk.describe()));
    }
    let mut random = Random::new(begun.as_millis());
    let cell = CellId::new(random.next_u128() | 1);
    let id = random.next_u64() | 1;
    let identity = Identity { kind: IdentityKind::Master, cell, id, begun: false };
    write_identity(disk.as_ref(), &identity)?;
    // Where there is a checkpoint and no log, a master takes it for lost.
    OperationLog::open(Arc::clone(disk), cell, SEGMENT_SIZE, LogIndex::default())?;
    let founding = [
        Record::FoundCell(FoundCell { time: begun, cell, config: config.clone() }),
        Record::Begin(Begin { time: begun, term: SEED_TERM, ..Begin::default() }),
    ];
    let mut state = State::default();
    for record in founding.into_iter().chain(records) {
        let index = state.applied().next();
        if let Applied::Failed(failure) = state.apply(index, SEED_TERM, &record) {
            return Err(SeedError::Refused(index, failure));
        }
    }
    write_checkpoint(disk, cell, &state)?;
    Ok(state.applied())
}

fn write_checkpoint(disk: &Arc<dyn Disk>, cell: CellId, state: &State) -> Result<(), DiskError> {
    let mut checkpoints = Checkpoints::open(Arc::clone(disk), cell, PageFileLimits::standard())?;
    match master_disk::write_checkpoint(&mut checkpoints, state) {
        Ok(_) => Ok(()),
        Err(CheckpointError::Sink(error)) => Err(error),
        Err(CheckpointError::Damaged(damaged)) => {
            unreachable!("a state that was never read from a file has no damage: {damaged}")
        }
    }
}
