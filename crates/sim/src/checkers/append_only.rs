//! Append only: a record is put behind everything that the replicas of its set store; where one of
//! them holds bytes already, acknowledged or not, a reader would see the two mixed (R16).

use super::checker::{Checker, Verdict};
use crate::ledger::Ledger;
use cairn_env::{ChunkDone, ChunkJob, ChunkResult};
use cairn_env_sim::{NodeId, SeenRequest};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::{ChunkHandle, PushId};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct AppendOnly {
    /// How far each replica's bytes go; unknown once its process has ended.
    lengths: BTreeMap<(NodeId, ChunkHandle), u64>,
    /// How far they went when a mutation came to be applied.
    before: BTreeMap<(ChunkHandle, PushId), BTreeMap<NodeId, u64>>,
}

impl Checker for AppendOnly {
    fn name(&self) -> &'static str {
        "append_only"
    }

    fn chunk_job(
        &mut self,
        node: NodeId,
        job: &ChunkJob,
        result: &ChunkResult,
        _: &Ledger,
    ) -> Verdict {
        match (job, result) {
            (ChunkJob::Apply { handle, mutations, .. }, Ok(ChunkDone::Applied { .. })) => {
                let length = self.lengths.entry((node, *handle)).or_default();
                for mutation in mutations {
                    if let Some(push) = mutation.push {
                        self.before.entry((*handle, push)).or_default().insert(node, *length);
                    }
                    *length = (*length).max(mutation.offset + mutation.size);
                }
            }
            (ChunkJob::Trash { handle, .. }, Ok(_)) => {
                self.lengths.remove(&(node, *handle));
            }
            _ => {}
        }
        Ok(())
    }

    fn answered(
        &mut self,
        seen: &SeenRequest<'_>,
        answer: &Result<Response, Failure>,
        _: &Ledger,
    ) -> Verdict {
        let (Request::Append(append), Ok(Response::Append(done))) = (seen.request, answer) else {
            return Ok(());
        };
        let place = (append.handle, append.push);
        let mut before = self.before.get(&place).into_iter().flatten();
        match before.find(|(_, length)| **length > done.offset) {
            Some((node, length)) => Err(format!(
                "{:?} appends to chunk {} at {}, where {node:?} held {length} bytes already",
                seen.to,
                append.handle.short(),
                done.offset,
            )),
            None => Ok(()),
        }
    }

    fn lives(&mut self, node: NodeId, _: bool) {
        self.lengths.retain(|(of, _), _| *of != node);
    }
}
