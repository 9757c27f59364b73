//! What a checker is: it watches the seam and says what is wrong.

use crate::ledger::Ledger;
use cairn_env::{ChunkJob, ChunkResult};
use cairn_env_sim::{NodeId, SeenRequest};
use cairn_master_core::Record;
use cairn_protocol::{Failure, Response};

/// Fine, or what is wrong.
pub(crate) type Verdict = Result<(), String>;

/// Watches the seam.
pub(crate) trait Checker {
    /// As reports name it.
    fn name(&self) -> &'static str;

    /// A record is durable in the operation log; the ledger has it already.
    fn logged(&mut self, _record: &Record, _ledger: &Ledger) -> Verdict {
        Ok(())
    }

    /// A chunkserver's disk job has run; the ledger does not have it yet.
    fn chunk_job(
        &mut self,
        _node: NodeId,
        _job: &ChunkJob,
        _result: &ChunkResult,
        _ledger: &Ledger,
    ) -> Verdict {
        Ok(())
    }

    /// A driver gets a request.
    fn delivered(&mut self, _seen: &SeenRequest<'_>, _ledger: &Ledger) -> Verdict {
        Ok(())
    }

    /// A driver gives an answer; the ledger has it already.
    fn answered(
        &mut self,
        _seen: &SeenRequest<'_>,
        _answer: &Result<Response, Failure>,
        _ledger: &Ledger,
    ) -> Verdict {
        Ok(())
    }

    /// A process starts or ends.
    fn lives(&mut self, _node: NodeId, _alive: bool) {}
}
