//! Replicas that nobody changes any more come to disk by themselves (R27).

use crate::outbox::{DiskPurpose, Outbox};
use crate::replica_table::ReplicaTable;
use cairn_env::ChunkJob;
use cairn_types::Time;
use std::time::Duration;

/// How long a replica must have been left alone to be brought to disk. As long as the kernel lets
/// a page be dirty, so that there is little left to write.
const SYNC_AFTER: Duration = Duration::from_secs(30);
/// Replicas brought to disk in one tick.
const SYNC_AT_ONCE: usize = 2;

/// Brings to disk what has not changed for a while, a few at a time: what is on disk is not in
/// doubt after a power loss (R27).
pub(crate) fn sync_idle(table: &mut ReplicaTable, out: &mut Outbox, now: Time) {
    for handle in table.take_unsynced(now, SYNC_AFTER, SYNC_AT_ONCE) {
        out.chunk_job(handle, DiskPurpose::Nobody, ChunkJob::Sync { handle });
    }
}
