//! State from disk: the newest good checkpoint, and the log since then (§2.6.3).

use bytes::Bytes;
use cairn_consensus::StoredRecord;
use cairn_env::DiskError;
use cairn_master_core::state::{LoadError, Loader};
use cairn_master_core::{Record, State};
use cairn_store::{Checkpoints, LogOpenError};
use cairn_types::LogIndex;
use cairn_types::wire::Message;

/// Why what is on disk gives no state.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The disk refused.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// The operation log cannot be read.
    #[error("{0}")]
    Log(#[from] LogOpenError),
    /// A checkpoint whose checksums are right makes no sense.
    #[error("checkpoint {index}: {error}; was it written by a newer build?")]
    Checkpoint {
        /// As of which record.
        index: LogIndex,
        /// What is wrong with it.
        error: LoadError,
    },
    /// A record whose checksum is right makes no sense.
    #[error("operation log: record {index} does not decode; was it written by a newer build?")]
    Undecodable {
        /// Which.
        index: LogIndex,
    },
    /// Records between checkpoint and log are missing.
    #[error("operation log: records {from} to {to} are missing; restore a backup of the directory")]
    Gap {
        /// The first that is missing.
        from: LogIndex,
        /// The first that is there again.
        to: LogIndex,
    },
}

/// The state of the newest checkpoint that reads; empty where there is none.
pub(crate) fn load(checkpoints: &Checkpoints) -> Result<State, RecoveryError> {
    let Some(checkpoint) = checkpoints.load_newest()? else { return Ok(State::default()) };
    let index = checkpoint.index;
    let broken = |error| RecoveryError::Checkpoint { index, error };
    let mut loader = Loader::default();
    for item in &checkpoint.items {
        loader.take(item).map_err(broken)?;
    }
    loader.finish().map_err(broken)
}

/// Applies the records that the state does not hold yet.
pub(crate) fn replay(
    state: &mut State,
    records: &[(LogIndex, Bytes)],
) -> Result<(), RecoveryError> {
    for (index, bytes) in records {
        if *index <= state.applied() {
            continue;
        }
        let from = state.applied().next();
        if *index != from {
            return Err(RecoveryError::Gap { from, to: *index });
        }
        let undecodable = |_| RecoveryError::Undecodable { index: *index };
        let stored = StoredRecord::decode(bytes).map_err(undecodable)?;
        if stored.data.is_empty() {
            state.skip_to(*index, stored.term);
        } else {
            let record = Record::decode(&stored.data).map_err(undecodable)?;
            state.apply(*index, stored.term, &record);
        }
    }
    Ok(())
}
