//! The checkers, one file each (design §13). They watch the seam in true time and say what must
//! never be otherwise; none asks the system under test for its opinion.

mod ack_set;
mod acknowledged_length;
mod append_only;
mod closed_for_ever;
pub(crate) mod linearizable_names;
mod no_live_chunk_collected;
mod one_primary;
pub(crate) mod replay_is_state;
mod same_order;
mod spent_numbers;
mod terms_fence;
mod version_first;

use crate::ledger::Ledger;
use cairn_env::{ChunkDone, ChunkJob, DiskError};
use cairn_env_sim::{NodeId, Seen};
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
        _result: &Result<ChunkDone, DiskError>,
        _ledger: &Ledger,
    ) -> Verdict {
        Ok(())
    }

    /// A driver gets a request.
    fn delivered(&mut self, _seen: &Seen<'_>, _ledger: &Ledger) -> Verdict {
        Ok(())
    }

    /// A driver gives an answer; the ledger has it already.
    fn answered(
        &mut self,
        _seen: &Seen<'_>,
        _answer: &Result<Response, Failure>,
        _ledger: &Ledger,
    ) -> Verdict {
        Ok(())
    }

    /// A process starts or ends.
    fn lives(&mut self, _node: NodeId, _alive: bool) {}
}

/// Those that watch every run.
pub(crate) fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(one_primary::OnePrimary::default()),
        Box::new(terms_fence::TermsFence::default()),
        Box::new(version_first::VersionFirst),
        Box::new(ack_set::AckSet),
        Box::new(acknowledged_length::AcknowledgedLength::default()),
        Box::new(append_only::AppendOnly::default()),
        Box::new(closed_for_ever::ClosedForEver::default()),
        Box::new(same_order::SameOrder::default()),
        Box::new(spent_numbers::SpentNumbers::default()),
        Box::new(no_live_chunk_collected::NoLiveChunkCollected::default()),
    ]
}
