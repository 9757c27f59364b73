//! Spent numbers: no replica outside the set ever stands at a logged version. No more replicas
//! take a version than the set that it is logged for has members (R8, R10).

use super::checker::{Checker, Verdict};
use crate::ledger::Ledger;
use cairn_env::{ChunkJob, ChunkResult, JournalEntry};
use cairn_env_sim::NodeId;
use cairn_master_core::Record;
use cairn_types::{ChunkHandle, ChunkVersion};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct SpentNumbers {
    /// Who has ever taken a version.
    taken: BTreeMap<(ChunkHandle, ChunkVersion), BTreeSet<NodeId>>,
}

impl SpentNumbers {
    fn judge(&self, handle: ChunkHandle, version: ChunkVersion, ledger: &Ledger) -> Verdict {
        let size = ledger.chunks.get(&handle).and_then(|chunk| chunk.logged.get(&version));
        let (Some(size), Some(nodes)) = (size, self.taken.get(&(handle, version))) else {
            return Ok(());
        };
        if nodes.len() <= *size as usize {
            return Ok(());
        }
        Err(format!(
            "{nodes:?} have taken version {} of chunk {}, which is logged for a set of {size}",
            version.short(),
            handle.short()
        ))
    }
}

impl Checker for SpentNumbers {
    fn name(&self) -> &'static str {
        "spent_numbers"
    }

    fn chunk_job(
        &mut self,
        node: NodeId,
        job: &ChunkJob,
        result: &ChunkResult,
        ledger: &Ledger,
    ) -> Verdict {
        let (ChunkJob::Journal(entries), Ok(_)) = (job, result) else { return Ok(()) };
        entries.iter().try_for_each(|entry| match entry {
            JournalEntry::Raise { handle, version, .. }
            | JournalEntry::Adopt { handle, version, .. } => {
                self.taken.entry((*handle, *version)).or_default().insert(node);
                self.judge(*handle, *version, ledger)
            }
            _ => Ok(()),
        })
    }

    fn logged(&mut self, record: &Record, ledger: &Ledger) -> Verdict {
        match record {
            Record::OpenChunk(open) => self.judge(open.handle, open.version, ledger),
            Record::CopyOnWrite(own) => {
                self.judge(own.shared, own.shared_version, ledger)?;
                self.judge(own.handle, own.version, ledger)
            }
            Record::ReplaceRange(new) => self.judge(new.handle, new.version, ledger),
            Record::AllocateChunk(new) => self.judge(new.handle, new.version, ledger),
            Record::SealChunk(seal) => self.judge(seal.handle, seal.version, ledger),
            Record::SetVersion(set) => self.judge(set.handle, set.version, ledger),
            _ => Ok(()),
        }
    }
}
