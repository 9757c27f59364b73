//! No live chunk is collected: a replica at or above the logged version is never thrown away, but
//! where its file was deleted long enough ago, by what clients asked and saw; nor one of a chunk
//! that is in the making (R3, R33); nor a stale one that alone has what was acknowledged, before a
//! person has let go of it (R28).

use super::checker::{Checker, Verdict};
use super::deletions::Deletions;
use crate::ledger::{ChunkLedger, Ledger};
use crate::replica_ledger::ReplicaLedger;
use cairn_env::{ChunkDone, ChunkJob, ChunkResult};
use cairn_env_sim::{NodeId, SeenRequest, WorldTime};
use cairn_master_core::Record;
use cairn_protocol::{Failure, Response};
use cairn_types::{ChunkHandle, ChunkVersion, EntryId, PushId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Clocks drift, and the time is that of the last request.
const SLACK: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct NoLiveChunkCollected {
    /// What clients asked and saw.
    deletions: Deletions,
    /// How long a cell keeps what is deleted.
    kept: Duration,
    /// Thrown away before any log record named the chunk, and the version at which.
    unlogged: BTreeMap<ChunkHandle, Vec<(NodeId, ChunkVersion)>>,
    /// Names of snapshots, of which some were never seen by anybody: what became of these nobody
    /// was told.
    copies: BTreeSet<EntryId>,
    /// Chunks of which a person has let go.
    let_go: BTreeSet<ChunkHandle>,
}

impl NoLiveChunkCollected {
    /// Whether a node has what was acknowledged of a chunk and no other has, and nobody has let go
    /// of it.
    fn has_alone(
        &self,
        (handle, node): (ChunkHandle, NodeId),
        (chunk, version): (&ChunkLedger, ChunkVersion),
        ledger: &Ledger,
    ) -> bool {
        let now = self.deletions.now();
        let is_late = |at: &WorldTime| at.after(ledger.stopped.dead) < now;
        let untold = || {
            let all = ledger.untold.iter().chain(&ledger.taken_away);
            all.filter(|(_, at)| !is_late(at)).map(|(node, _)| node)
        };
        let this = &chunk.replicas[&node];
        // What a disk that lies has lost nobody can see.
        let lies = !ledger.liars.is_empty();
        let has = |(_, replica): &(&NodeId, &ReplicaLedger), push: &PushId| {
            // Of a file that is lost nobody can tell before its server starts.
            let is_lost = replica.gone.contains(push) && !replica.flipped;
            let is_there = replica.applied.contains_key(push);
            is_there && !replica.levelled_over.contains(push) && (!is_lost || lies)
        };
        let is_here_alone = |push: &PushId| {
            let holders = chunk.replicas.iter().filter(|replica| has(replica, push));
            // Healing seed 198: an old image has what the disk had lost before, and told so.
            let had_lost = |before: &ReplicaLedger| {
                before.gone.contains(push) && !before.applied.contains_key(push)
            };
            let was_lost =
                this.turned_back.is_some() && chunk.set_back.get(&node).is_some_and(had_lost);
            let is_gone = this.gone.contains(push) || this.levelled_over.contains(push) || was_lost;
            // The disk of the only one of the set was set back a moment ago (hard seed 399, healing
            // seed 33).
            let is_told = || !chunk.had_untold(untold(), push, version);
            !is_gone && holders.map(|(other, _)| *other).eq([node]) && is_told()
        };
        let mut acknowledged = chunk.acknowledged.iter().map(|done| &done.push);
        !self.let_go.contains(&handle) && acknowledged.any(is_here_alone)
    }
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
                if !replica.lost
                    && !replica.flipped
                    && (replica.version >= version
                        || self.has_alone((*handle, node), (chunk, version), ledger)) =>
            {
                let is_unseen =
                    |file: &EntryId| self.copies.contains(file) && !self.deletions.has_seen(*file);
                let files = ledger.files_of(*handle).into_iter();
                let mut files = files.filter(|file| !is_unseen(file));
                let may_go = files.try_for_each(|file| self.deletions.may_go(file, self.kept));
                may_go.map_err(|why| {
                    format!(
                        "{node:?} throws away chunk {} at version {}; {} is the logged one: {why}",
                        handle.short(),
                        replica.version.short(),
                        version.short(),
                    )
                })
            }
            Some(_) => Ok(()),
        }
    }

    fn delivered(&mut self, seen: &SeenRequest<'_>, _: &Ledger) -> Verdict {
        self.deletions.delivered(seen);
        Ok(())
    }

    fn answered(
        &mut self,
        seen: &SeenRequest<'_>,
        answer: &Result<Response, Failure>,
        _: &Ledger,
    ) -> Verdict {
        self.deletions.answered(seen, answer);
        Ok(())
    }

    fn logged(&mut self, record: &Record, _: &Ledger) -> Verdict {
        if let Record::FoundCell(found) = record {
            let kept = Duration::from_millis(found.config.keep_deleted_ms);
            self.kept = kept.saturating_sub(SLACK);
        }
        if let Record::LetGo(let_go) = record {
            self.let_go.insert(let_go.handle);
        }
        if let Record::CopyEntries(copied) = record {
            self.copies.extend(copied.entries.iter().map(|entry| entry.id));
        }
        let (handle, made_at) = match record {
            Record::OpenChunk(open) => (open.handle, open.version),
            Record::ReplaceRange(new) => (new.handle, new.version),
            Record::AllocateChunk(new) => (new.handle, new.version),
            Record::CopyOnWrite(own) => (own.handle, own.version),
            _ => return Ok(()),
        };
        let gone = self.unlogged.get(&handle).into_iter().flatten();
        match gone.into_iter().find(|(_, version)| *version >= made_at) {
            Some((node, _)) => Err(format!(
                "chunk {} is logged after {node:?} threw its replica away",
                handle.short()
            )),
            None => Ok(()),
        }
    }
}
