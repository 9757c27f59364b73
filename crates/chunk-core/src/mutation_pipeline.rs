//! Mutations on their way through a primary, in their order.
//!
//! ```text
//!   queue (no number) ──► applying (numbered, to this disk) ──► unacknowledged (at secondaries)
//!         ▲  what the disk refused  │                                 │ applied everywhere
//!         └─────────────────────────┘                                 ▼ answered
//! ```
//! - O2: serial numbers rise by one from the front of `unacknowledged` to the end of `applying`
//!   (R13).
//! - O3: one batch is being applied at a time.

use crate::closing::ChunkClose;
use crate::outbox::{Outbox, failure_of};
use crate::primary_mutation::{MutationKind, PrimaryMutation};
use cairn_env::{Caller, ChunkError, ConnectionId, DiskError};
use cairn_types::{PushId, SerialNumber, SessionId};
use std::collections::VecDeque;

/// Mutations that one batch may hold.
pub(crate) const BATCH_COUNT_MAX: usize = 1024;
/// Bytes that one batch may hold, unless a single mutation is larger.
const BATCH_SIZE_MAX: u64 = 8 << 20;

#[derive(Debug)]
pub(crate) struct MutationPipeline {
    queue: VecDeque<PrimaryMutation>,
    applying: Vec<PrimaryMutation>,
    unacknowledged: VecDeque<PrimaryMutation>,
    /// Where the next record goes.
    end: u64,
}

impl MutationPipeline {
    /// Opens with the levelling, which this server applies first.
    pub(crate) fn opened_by(levelling: PrimaryMutation) -> Self {
        let end = levelling.end();
        let (queue, unacknowledged) = (VecDeque::new(), VecDeque::new());
        Self { queue, applying: vec![levelling], unacknowledged, end }
    }

    pub(crate) fn enqueue(&mut self, mutation: PrimaryMutation) {
        self.queue.push_back(mutation);
    }

    /// Who waits for a push that is here already, if it is.
    pub(crate) fn waiting_for(&mut self, push: PushId) -> Option<&mut Vec<Caller>> {
        let ordered = self.applying.iter_mut().chain(&mut self.unacknowledged);
        let mut all = ordered.chain(&mut self.queue);
        all.find(|mutation| mutation.push() == Some(push)).map(|mutation| &mut mutation.waiting)
    }

    /// What a client session still had queued by an older connection is dropped: nobody hears the
    /// answer, and what comes by the newer one must not be overtaken by it (R15).
    pub(crate) fn forget_older(&mut self, session: SessionId, connection: ConnectionId) {
        self.queue.retain(|queued| {
            let older = queued.waiting.iter().all(|from| from.connection < connection);
            queued.push().is_none_or(|push| push.session != session) || !older
        });
    }

    /// A client's connection is gone: what it had queued is not done any more (R15).
    pub(crate) fn forget_connection(&mut self, connection: ConnectionId) {
        for queued in &mut self.queue {
            queued.waiting.retain(|from| from.connection != connection);
        }
        self.queue.retain(|queued| !queued.waiting.is_empty());
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.applying.is_empty() && self.unacknowledged.is_empty()
    }

    /// Whether every mutation that was ordered is acknowledged, as far as this server applied it.
    pub(crate) fn all_acknowledged(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Numbers what waits, from the one after `last` on; what this server applies next. An append
    /// that finds the chunk full or closed is turned over to the close.
    pub(crate) fn next_batch(
        &mut self,
        mut last: SerialNumber,
        chunk_size: u64,
        close: &mut ChunkClose,
        closed: bool,
    ) -> &[PrimaryMutation] {
        assert!(self.applying.is_empty(), "one batch at a time (O3)");
        let (before, mut size) = (last, 0);
        while let Some(mut next) = self.queue.pop_front() {
            let appends = next.kind == MutationKind::Append;
            if appends && (closed || !close.is_open()) {
                close.turn_away(next.waiting);
                continue;
            }
            if appends && self.end + next.forwarded.size > chunk_size {
                close.want(next.waiting);
                continue;
            }
            let full = size > 0 && size + next.forwarded.size > BATCH_SIZE_MAX;
            if self.applying.len() == BATCH_COUNT_MAX || full {
                self.queue.push_front(next);
                break;
            }
            last = last.next();
            next.forwarded.serial = last;
            if appends {
                next.forwarded.offset = self.end;
            }
            self.end = self.end.max(next.end());
            size += next.forwarded.size;
            self.applying.push(next);
        }
        let count = self.applying.len();
        assert!(count <= BATCH_COUNT_MAX && last.get() - before.get() == count as u64, "O2");
        &self.applying
    }

    /// What this server applies right now.
    pub(crate) fn applying(&self) -> &[PrimaryMutation] {
        &self.applying
    }

    /// This server has applied its batch: the secondaries come next.
    pub(crate) fn batch_applied(&mut self) {
        assert!(!self.applying.is_empty(), "a batch was applied (O3)");
        for mutation in std::mem::take(&mut self.applying) {
            self.push_unacknowledged(mutation);
        }
    }

    /// What is applied here, and perhaps not yet by every secondary.
    pub(crate) fn push_unacknowledged(&mut self, mutation: PrimaryMutation) {
        let before = self.unacknowledged.back().map(PrimaryMutation::serial);
        let follows = before.is_none_or(|before| mutation.serial() == before.next());
        assert!(follows, "{} does not follow {before:?} (O2)", mutation.serial());
        self.unacknowledged.push_back(mutation);
    }

    pub(crate) fn unacknowledged(&self) -> &VecDeque<PrimaryMutation> {
        &self.unacknowledged
    }

    /// The oldest mutation, if every replica has applied it: `lowest` is what the secondaries
    /// have, none where there is no secondary.
    pub(crate) fn take_applied_up_to(
        &mut self,
        lowest: Option<SerialNumber>,
    ) -> Option<PrimaryMutation> {
        let everywhere =
            |first: &mut PrimaryMutation| lowest.is_none_or(|lowest| lowest >= first.serial());
        self.unacknowledged.pop_front_if(everywhere)
    }

    /// The close mark to put behind all that is ordered; `last` is what this server applied last.
    pub(crate) fn close_mark(&self, last: SerialNumber) -> PrimaryMutation {
        assert!(self.applying.is_empty(), "the mark is put on between two batches (O3)");
        let ordered = self.unacknowledged.back().map(PrimaryMutation::serial);
        PrimaryMutation::close_mark(ordered.unwrap_or(last).max(last).next(), self.end)
    }

    /// The next record goes behind all that is stored.
    pub(crate) fn go_on_behind(&mut self, length: u64) {
        self.end = self.end.max(length);
    }

    /// The disk refused the batch before it changed anything: its numbers are given back. What the
    /// error is about is answered; a full disk closes the chunk to appends, unless only writes are
    /// taken; the rest goes back into the queue.
    pub(crate) fn give_back(
        &mut self,
        out: &mut Outbox,
        error: &ChunkError,
        length: u64,
        close: Option<&mut ChunkClose>,
    ) {
        assert!(!self.applying.is_empty(), "a batch was refused (O3)");
        self.end = length;
        let mut close = close.filter(|_| *error == DiskError::NoSpace.into());
        for mutation in std::mem::take(&mut self.applying).into_iter().rev() {
            let is_meant = match error {
                ChunkError::PushMissing { push } | ChunkError::PushDiffers { push } => {
                    mutation.push() == Some(*push)
                }
                _ => true,
            };
            match close.as_deref_mut().filter(|_| mutation.kind == MutationKind::Append) {
                // The next chunk goes to servers that have room.
                Some(close) => close.want(mutation.waiting),
                None if is_meant => {
                    mutation.waiting.iter().for_each(|from| out.refuse(*from, failure_of(error)));
                }
                None => self.queue.push_front(mutation),
            }
        }
    }

    /// Who waits, once the lease is over: for what has no number, and for what has one.
    pub(crate) fn into_waiting(self) -> (Vec<Caller>, Vec<Caller>) {
        let waiting = |mutation: PrimaryMutation| mutation.waiting;
        let ordered = self.applying.into_iter().chain(self.unacknowledged);
        (self.queue.into_iter().flat_map(waiting).collect(), ordered.flat_map(waiting).collect())
    }
}
