//! Closed for ever: once the log says that a chunk is closed, readers go on in the next one. A
//! record acknowledged there afterwards that no replica had by then escapes them (R18).

use super::checker::{Checker, Verdict};
use crate::ledger::Ledger;
use cairn_env_sim::SeenRequest;
use cairn_master_core::Record;
use cairn_protocol::{Failure, Request, Response};
use cairn_types::{ChunkHandle, PushId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct ClosedForEver {
    /// What any replica had applied when the close of its chunk was logged.
    held: BTreeMap<ChunkHandle, BTreeSet<PushId>>,
}

impl Checker for ClosedForEver {
    fn name(&self) -> &'static str {
        "closed_for_ever"
    }

    fn logged(&mut self, record: &Record, ledger: &Ledger) -> Verdict {
        // The copy of what was closed is closed from its first day.
        if let Record::CopyOnWrite(own) = record
            && let Some(held) = self.held.get(&own.shared).cloned()
        {
            self.held.insert(own.handle, held);
        }
        let closed = match record {
            Record::OpenChunk(open) => open.closes,
            Record::CloseChunk(close) => Some(close.handle),
            _ => None,
        };
        if let Some(handle) = closed {
            let applied = ledger.chunks.get(&handle).map(|chunk| chunk.appliers.keys().copied());
            self.held.entry(handle).or_insert_with(|| applied.into_iter().flatten().collect());
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
        match self.held.get(&append.handle) {
            Some(held) if !held.contains(&append.push) => Err(format!(
                "{:?} acknowledges {:?} at {} of chunk {}, which was closed before any replica had \
                 it",
                seen.to,
                append.push,
                done.offset,
                append.handle.short(),
            )),
            _ => Ok(()),
        }
    }
}
