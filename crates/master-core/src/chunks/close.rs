//! A primary closes its chunk: the record did not fit, every replica holds the mark (R18).

use super::jobs::{Waiter, Wish};
use super::leases::LeaseStatus;
use super::{Chunks, Place};
use crate::step::Step;
use cairn_env::Caller;
use cairn_protocol::{ChunkClosed, ChunkClosedAnswer, ErrorCode, Failure, Response};

impl Chunks {
    /// Opens the next chunk, which logs the close, and answers then.
    pub(super) fn on_chunk_closed(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        request: &ChunkClosed,
    ) {
        let (handle, short) = (request.handle, request.handle.short());
        let Some(chunk) = step.state.chunk(handle) else {
            let failure = Failure::refused(ErrorCode::NoSuchChunk, format!("no chunk {short}"));
            return step.out.reply(from, Err(failure));
        };
        if chunk.closed {
            return step.out.reply(from, Ok(Response::ChunkClosed(ChunkClosedAnswer {})));
        }
        let next = (chunk.file, chunk.index.next());
        let lease = self.leases.get_mut(handle).filter(|lease| lease.id == request.lease);
        let Some(lease) = lease else {
            let line = format!("chunk {short}: the master knows of no such lease");
            return step.out.reply(from, Err(Failure::not_done(ErrorCode::NotPrimary, line)));
        };
        // The holder has closed itself to appends, and gives the lease up when it is answered.
        lease.takes_appends = false;
        let id = lease.id;
        self.leases.set_status(handle, id, LeaseStatus::Doubted);
        self.join_job(step, next, Waiter { from, since: step.now.time, wish: Wish::Closed });
    }

    /// The close is logged without a next chunk; whoever wants one waits for servers.
    pub(super) fn on_closed_alone(&mut self, step: &mut Step<'_>, place: Place) {
        self.answer_closed(step, place);
        self.wait(place, "too few chunkservers have room for a chunk".to_owned());
    }
}
