//! Logging a close alone: there are too few servers for a next chunk, and the primary that closed
//! this one need not wait for them (R18).

use super::acts::{Act, Acts};
use super::events::JobEvent;
use crate::record::CloseChunk;
use crate::view::View;
use cairn_types::ChunkHandle;

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
        let JobEvent::Applied(_) = event else {
            unreachable!("a close waits for its record alone (B2): {event:?}");
        };
        acts.push(Act::AnswerClosed);
        // Whoever wants a next chunk waits for servers.
        acts.wait("too few chunkservers have room for a chunk");
    }
}
