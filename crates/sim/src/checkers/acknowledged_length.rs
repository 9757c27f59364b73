//! Acknowledged length: of a chunk that takes appends, nothing is readable that is neither
//! acknowledged nor levelled by a grant (R16, R17); of a stream's, nothing that is not committed,
//! and no zeros (R44).

use super::checker::{Checker, Verdict};
use crate::acknowledged_mutation::acknowledges;
use crate::ledger::Ledger;
use cairn_env_sim::SeenRequest;
use cairn_master_core::Record;
use cairn_protocol::{Failure, Request, Response};
use cairn_types::ChunkHandle;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct AcknowledgedLength {
    /// How far each chunk is acknowledged, or was levelled.
    settled: BTreeMap<ChunkHandle, u64>,
}

impl AcknowledgedLength {
    fn settle(&mut self, handle: ChunkHandle, length: u64) {
        let settled = self.settled.entry(handle).or_default();
        *settled = (*settled).max(length);
    }
}

/// Where an acknowledged mutation ends in its chunk.
fn end_of(request: &Request, answer: &Result<Response, Failure>) -> u64 {
    match (request, answer) {
        (Request::Write(write), _) => write.offset + write.size,
        (Request::Append(append), Ok(Response::Append(done))) => done.offset + append.size,
        _ => 0,
    }
}

impl Checker for AcknowledgedLength {
    fn name(&self) -> &'static str {
        "acknowledged_length"
    }

    fn logged(&mut self, record: &Record, _: &Ledger) -> Verdict {
        if let Record::CopyOnWrite(own) = record
            && let Some(length) = self.settled.get(&own.shared).copied()
        {
            self.settle(own.handle, length);
        }
        Ok(())
    }

    fn answered(
        &mut self,
        seen: &SeenRequest<'_>,
        answer: &Result<Response, Failure>,
        ledger: &Ledger,
    ) -> Verdict {
        if let Some((handle, ..)) = acknowledges(seen.request, answer) {
            self.settle(handle, end_of(seen.request, answer));
            return Ok(());
        }
        match (seen.request, answer) {
            (Request::GrantLease(grant), Ok(_)) => {
                self.settle(grant.handle, grant.length);
                Ok(())
            }
            (Request::Read(read), Ok(Response::Read(given))) if read.committed.is_some() => {
                let committed = ledger.streams.chunk_length(read.handle);
                // Whoever says so of a chunk of another file lies, and is given no more for it.
                let of_others = self.settled.get(&read.handle).copied().unwrap_or(0);
                let no_zeros = given.zeros == 0 || of_others > 0;
                if given.readable <= committed.max(of_others) && no_zeros {
                    return Ok(());
                }
                Err(format!(
                    "{:?} lets chunk {} be read up to {}, with {} zeros; {committed} bytes are \
                     committed",
                    seen.to,
                    read.handle.short(),
                    given.readable,
                    given.zeros
                ))
            }
            (Request::Read(read), Ok(Response::Read(given))) if !given.closed => {
                let settled = self.settled.get(&read.handle).copied().unwrap_or(0);
                if given.readable <= settled {
                    return Ok(());
                }
                Err(format!(
                    "{:?} lets chunk {} be read up to {}; {settled} bytes are acknowledged or \
                     levelled",
                    seen.to,
                    read.handle.short(),
                    given.readable
                ))
            }
            _ => Ok(()),
        }
    }
}
