//! The recorded length of a file (design §4): at `sync` and close, and when a lease ends.

use super::leases::Lease;
use super::{Chunks, Pending, Proposed};
use crate::record::SetLength;
use crate::step::Step;
use cairn_env::Caller;
use cairn_protocol::{ChunkLength, Failure, RecordLengthAnswer, Response};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind};
use std::time::Duration;

/// Who waits for a length, and of what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    from: Caller,
    file: EntryId,
    index: ChunkIndex,
}

impl Chunks {
    /// Asks the last chunk's primary, where it has one, and records what it says.
    pub(crate) fn on_record_length(&mut self, step: &mut Step<'_>, from: Caller, file: EntryId) {
        let entry = step.state.entry(file).filter(|entry| entry.kind == EntryKind::File);
        let Some(entry) = entry else {
            let failure = super::jobs::no_file((file, ChunkIndex::default()));
            return step.out.reply(from, Err(failure));
        };
        let Some((index, handle)) = step.state.last_chunk(file) else {
            return answer(step, from, entry.length);
        };
        let asker = Asker { from, file, index };
        let Some(lease) = self.leases.serving(handle, step.now.time) else {
            let known = self.acknowledged(step, handle);
            return self.record(step, asker, known);
        };
        let request = ChunkLength { handle, version: lease.version };
        let deadline = step.now.time + Duration::from_millis(self.config.silent_ms);
        let holder = lease.holder.clone();
        let effect = step.out.call(holder.address, holder.server, request, deadline);
        self.calls.insert(effect, Pending::Length(asker));
    }

    /// What up-to-date replicas have said to be acknowledged.
    fn acknowledged(&self, step: &Step<'_>, handle: ChunkHandle) -> u64 {
        let Some(chunk) = step.state.chunk(handle) else { return 0 };
        self.current(handle, &chunk).map(|(_, replica)| replica.acknowledged).max().unwrap_or(0)
    }

    /// The primary has said how long its chunk is, or cannot be asked.
    pub(super) fn on_length(
        &mut self,
        step: &mut Step<'_>,
        asker: Asker,
        result: Result<Response, Failure>,
    ) {
        match result {
            Ok(Response::ChunkLength(length)) => self.record(step, asker, length.length),
            Ok(_) => {}
            Err(failure) => step.out.reply(asker.from, Err(failure)),
        }
    }

    fn record(&mut self, step: &mut Step<'_>, asker: Asker, acknowledged: u64) {
        let length = self.config.chunk_size * asker.index.get() + acknowledged;
        let recorded = step.state.entry(asker.file).map_or(0, |entry| entry.length);
        if length <= recorded {
            return answer(step, asker.from, recorded);
        }
        let record = SetLength { time: step.now.wall, file: asker.file, length };
        let proposal = step.out.propose(record);
        self.proposals.insert(proposal, Proposed::Length(Some(asker)));
    }

    pub(super) fn on_length_applied(&mut self, step: &mut Step<'_>, asker: &Asker) {
        let length = step.state.entry(asker.file).map_or(0, |entry| entry.length);
        answer(step, asker.from, length);
    }

    /// A lease ran out: what its holder last told is recorded.
    pub(super) fn record_end_of_lease(
        &mut self,
        step: &mut Step<'_>,
        handle: ChunkHandle,
        lease: &Lease,
    ) {
        let Some(chunk) = step.state.chunk(handle) else { return };
        let length = self.config.chunk_size * chunk.index.get() + lease.acknowledged;
        let recorded = step.state.entry(chunk.file).map_or(u64::MAX, |entry| entry.length);
        if lease.acknowledged > 0 && length > recorded {
            let record = SetLength { time: step.now.wall, file: chunk.file, length };
            let proposal = step.out.propose(record);
            self.proposals.insert(proposal, Proposed::Length(None));
        }
    }
}

fn answer(step: &mut Step<'_>, to: Caller, length: u64) {
    step.out.reply(to, Ok(Response::RecordLength(RecordLengthAnswer { length })));
}
