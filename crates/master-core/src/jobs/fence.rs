//! Fencing: raises a chunk's replicas with the close mark, so that its primary can never
//! acknowledge an append again (R18).
//!
//! ```text
//!   Raise(close) to whoever can be reached ─┬─► one stands at it: fenced, the next chunk is opened
//!                                           └─► none does: its lease runs out
//! ```
//! A chunk that is closed already, by a record for which no replica could be reached, gets its mark
//! in the same way, so that readers are told where it ends.
//!
//! - FE1: fencing changes neither the logged version nor the set. It stops acknowledgements and
//!   nothing else: members that were not reached hold every acknowledged byte, and those that were
//!   stand above the logged version, which is as good (R9).

use super::acts::{Act, Acts};
use super::events::JobEvent;
use super::raise::{RaiseKind, RaiseMember, RaiseRound};
use crate::rules::replica_set::LiveMember;
use crate::view::View;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::ChunkHandle;

/// The chunk before a place is closed to appends.
#[derive(Debug)]
pub(crate) struct FenceJob {
    raise: RaiseRound,
    /// Its close is logged: only the mark was wanting.
    is_closed: bool,
}

impl FenceJob {
    /// Raises those of the set that can be reached: one is enough.
    pub(crate) fn start(
        view: &View<'_>,
        handle: ChunkHandle,
        members: Vec<LiveMember>,
        acts: &mut Acts<'_>,
    ) -> Self {
        let kind = RaiseKind { handle, close: true, syncs: false, keeps_lease: false };
        let members = members.into_iter().map(RaiseMember::standing);
        let is_closed = view.state.chunk(handle).is_some_and(|chunk| chunk.closed);
        Self { raise: RaiseRound::start(view, kind, members, acts), is_closed }
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.raise.handle()
    }

    pub(crate) fn describe(&self) -> String {
        format!("fencing {} replicas", self.raise.size())
    }

    pub(crate) fn on(&mut self, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        let JobEvent::RaiseAnswered(server, result) = event else {
            unreachable!("a fence waits for its raise alone (JB2): {event:?}");
        };
        if !self.raise.on_answer(server, result) {
            return;
        }
        if self.raise.raised().is_empty() {
            return acts.wait("no replica of the chunk before answered");
        }
        if self.is_closed {
            let line = "its replicas have been told that it is closed: look there again";
            return acts.push(Act::Fail(Failure::not_done(ErrorCode::Busy, line)));
        }
        assert!(self.raise.kind().close, "a fence leaves the close mark (R18)");
        acts.push(Act::Fence(self.raise.handle()));
        acts.push(Act::LookAgain("".into()));
    }
}
