//! No live chunk is collected: a replica at or above the logged version is never thrown away, nor
//! one of a chunk that is in the making (R33).

use super::checker::{Checker, Verdict};
use crate::ledger::Ledger;
use cairn_env::{ChunkDone, ChunkJob, ChunkResult};
use cairn_env_sim::NodeId;
use cairn_master_core::Record;
use cairn_types::{ChunkHandle, ChunkVersion};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct NoLiveChunkCollected {
    /// Thrown away before any log record named the chunk, and the version at which.
    unlogged: BTreeMap<ChunkHandle, Vec<(NodeId, ChunkVersion)>>,
}

impl Checker for NoLiveChunkCollected {
    fn name(&self) -> &'static str {
        "no_live_chunk_collected"
    }

    fn chunk_job(
        &mut self,
        node: NodeId,
        job: &ChunkJob,
        result: &ChunkResult,
        ledger: &Ledger,
    ) -> Verdict {
        let (ChunkJob::Trash { handle, .. }, Ok(ChunkDone::Trashed { gone: true })) = (job, result)
        else {
            return Ok(());
        };
        // Nothing of it was there: a deletion that is told twice.
        let Some(chunk) = ledger.chunks.get(handle) else { return Ok(()) };
        let Some(replica) = chunk.replicas.get(&node) else { return Ok(()) };
        match chunk.version() {
            None => {
                self.unlogged.entry(*handle).or_default().push((node, replica.version));
                Ok(())
            }
            Some((version, _))
                if replica.version >= version && !replica.lost && !replica.flipped =>
            {
                Err(format!(
                    "{node:?} throws away chunk {} at version {}; {} is the logged one",
                    handle.short(),
                    replica.version.short(),
                    version.short(),
                ))
            }
            Some(_) => Ok(()),
        }
    }

    fn logged(&mut self, record: &Record, _: &Ledger) -> Verdict {
        let Record::OpenChunk(open) = record else { return Ok(()) };
        let gone = self.unlogged.get(&open.handle).into_iter().flatten();
        match gone.into_iter().find(|(_, version)| *version >= open.version) {
            Some((node, _)) => Err(format!(
                "chunk {} is logged after {node:?} threw its replica away",
                open.handle.short()
            )),
            None => Ok(()),
        }
    }
}
