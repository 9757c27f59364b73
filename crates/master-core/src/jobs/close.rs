//! A chunk that its primary has closed (R18); and logging that alone: there are too few servers for
//! a next chunk, and the primary need not wait for them.

use super::acts::{Act, Acts};
use super::events::JobEvent;
use crate::applied::Applied;
use crate::chunk_place::ChunkPlace;
use crate::leases::GrantedLease;
use crate::record::CloseChunk;
use crate::view::View;
use cairn_protocol::{ChunkClosed, ErrorCode, Failure};
use cairn_types::ChunkHandle;

/// A primary says that its chunk is closed: the record did not fit, every replica holds the mark.
/// The place of the next chunk, whose opening logs the close; none: it is logged.
pub(crate) fn told_by_primary(
    view: &View<'_>,
    request: &ChunkClosed,
) -> Result<Option<ChunkPlace>, Failure> {
    let (handle, short) = (request.handle, request.handle.short());
    let chunk = view
        .state
        .chunk(handle)
        .ok_or_else(|| Failure::refused(ErrorCode::NoSuchChunk, format!("no chunk {short}")))?;
    if chunk.closed {
        return Ok(None);
    }
    let holds = |lease: &GrantedLease| lease.id == request.lease && lease.may_live(view.now.time);
    if !view.leases.get(handle).is_some_and(holds) {
        let line = format!("chunk {short}: the master knows of no such lease");
        return Err(Failure::not_done(ErrorCode::NotPrimary, line));
    }
    Ok(Some(ChunkPlace::new(chunk.file, chunk.index).next()))
}

/// A close on its way into the log.
#[derive(Debug)]
pub(crate) struct CloseJob {
    handle: ChunkHandle,
}

impl CloseJob {
    pub(crate) fn start(view: &View<'_>, handle: ChunkHandle, acts: &mut Acts<'_>) -> Self {
        acts.propose(CloseChunk { time: view.now.wall, handle });
        Self { handle }
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn on(&mut self, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        let JobEvent::Applied(applied) = event else {
            unreachable!("a close waits for its record alone (JB2): {event:?}");
        };
        if let Applied::Failed(failure) = applied {
            return acts.push(Act::Fail(failure.clone()));
        }
        acts.push(Act::AnswerClosed);
        // Whoever wants a next chunk waits for servers.
        acts.wait("too few chunkservers have room for a chunk");
    }
}
