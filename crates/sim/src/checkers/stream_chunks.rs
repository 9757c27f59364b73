//! Chunks of streams: one writer, whose bundles stand on each server in one order and are the same
//! everywhere (R40); and what is committed is on all that a seal counts (R41).

use super::checker::{Checker, Verdict};
use crate::ledger::Ledger;
use crate::replica_ledger::ReplicaLedger;
use cairn_env::{ApplyMutation, ChunkJob, ChunkResult};
use cairn_env_sim::NodeId;
use cairn_master_core::Record;
use cairn_types::{BlockChecksums, ChunkHandle, SerialNumber};
use std::collections::{BTreeMap, BTreeSet};

/// Where a bundle stands, and what it is.
type BundlePlace = (u64, u64, BlockChecksums);

#[derive(Default)]
pub(crate) struct StreamChunks {
    bundles: BTreeMap<(ChunkHandle, SerialNumber), (BundlePlace, NodeId)>,
    last: BTreeMap<(NodeId, ChunkHandle), (SerialNumber, u64)>,
}

impl StreamChunks {
    fn take(&mut self, node: NodeId, handle: ChunkHandle, extent: &ApplyMutation) -> Verdict {
        let ApplyMutation { serial, offset, size, ref checksums, .. } = *extent;
        let what = (offset, size, checksums.clone());
        let first = self.bundles.entry((handle, serial)).or_insert((what.clone(), node));
        if first.0 != what {
            return Err(format!(
                "bundle {serial} of chunk {} is {:?} on {:?} and {what:?} on {node:?}",
                handle.short(),
                first.0,
                first.1
            ));
        }
        let last = self.last.entry((node, handle)).or_insert((serial, offset + size));
        if serial > last.0 {
            if serial != last.0.next() || offset != last.1 {
                let short = handle.short();
                return Err(format!("{node:?} has {last:?} of chunk {short}, and adds {extent:?}"));
            }
            *last = (serial, offset + size);
        }
        Ok(())
    }
}

impl Checker for StreamChunks {
    fn name(&self) -> &'static str {
        "stream_chunks"
    }

    fn chunk_job(
        &mut self,
        node: NodeId,
        job: &ChunkJob,
        result: &ChunkResult,
        _: &Ledger,
    ) -> Verdict {
        match (job, result) {
            (ChunkJob::Extend { handle, extent, .. }, Ok(_)) => self.take(node, *handle, extent),
            _ => Ok(()),
        }
    }

    fn logged(&mut self, record: &Record, ledger: &Ledger) -> Verdict {
        // A set that a person, or the policy, has decided on may lack some (R28).
        let Record::SealChunk(seal) = record else { return Ok(()) };
        let (Some(_), Some(chunk)) = (seal.serial, ledger.chunks.get(&seal.handle)) else {
            return Ok(());
        };
        let has_all = |replica: &ReplicaLedger| {
            let mut bundles = chunk.acknowledged.iter().map(|done| &done.push);
            replica.version >= seal.version && bundles.all(|it| replica.applied.contains_key(it))
        };
        // One whose disk was set back since had it when it told (streams 18).
        let replicas = chunk.replicas.iter().chain(&chunk.set_back);
        let whole = replicas.filter(|(_, it)| has_all(it)).map(|(node, _)| *node);
        let whole = whole.collect::<BTreeSet<NodeId>>().len();
        if whole >= seal.set_size as usize {
            return Ok(());
        }
        let (short, size) = (seal.handle.short(), seal.set_size);
        Err(format!("chunk {short} is sealed for a set of {size}; {whole} have all of it (R41)"))
    }

    fn lives(&mut self, node: NodeId, _: bool) {
        // What a restarted replica counts from is its disk's business.
        self.last.retain(|(of, _), _| *of != node);
    }
}
