//! Batches on their way: whose answers wait for which entries (design §11).
//!
//! ```text
//!   batch ──► entry 0 ──► a single mutation's way ──┐
//!         ──► entry 1 ──► a single mutation's way ──┼─► all there: one answer
//!         ──► entry 2 ──► read, there at once ──────┘
//! ```
//! - BA1: an entry goes the way of a request of its own, and its result is what that request would
//!   be answered (R23, R24, R35). What it may not do is leave before the others are there.
//! - BA2: every entry gets a result once, so a batch is answered once.

use crate::outbox::MasterOutbox;
use cairn_env::Caller;
use cairn_protocol::{BatchAnswer, BatchResult, Failure, Response};
use std::collections::BTreeMap;

/// Names a batch on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchId(u64);

/// Who waits for the answer to a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MutationWaiter {
    /// Who asked for nothing else.
    Caller(Caller),
    /// A batch, in which the mutation is the entry of that index.
    Entry(BatchId, usize),
}

#[derive(Debug)]
struct PendingBatch {
    from: Caller,
    results: Vec<Option<BatchResult>>,
    /// Entries without a result.
    open: usize,
}

/// All batches on their way.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    last: u64,
    pending: BTreeMap<BatchId, PendingBatch>,
}

impl Batches {
    /// Takes up a batch of `count` entries, more than none, that `from` asked.
    pub(crate) fn begin(&mut self, from: Caller, count: usize) -> BatchId {
        assert!(count > 0, "a batch without entries waits for nothing");
        self.last += 1;
        let id = BatchId(self.last);
        self.pending.insert(id, PendingBatch { from, results: vec![None; count], open: count });
        id
    }

    /// Answers whoever waits; a batch only once this was the last of its entries.
    pub(crate) fn answer(
        &mut self,
        out: &mut MasterOutbox,
        waiter: MutationWaiter,
        answer: Result<Response, Failure>,
    ) {
        match waiter {
            MutationWaiter::Caller(caller) => out.reply(caller, answer),
            MutationWaiter::Entry(batch, index) => self.settle(out, batch, index, answer.into()),
        }
    }

    /// One entry has its result.
    pub(crate) fn settle(
        &mut self,
        out: &mut MasterOutbox,
        batch: BatchId,
        index: usize,
        result: BatchResult,
    ) {
        let pending = self.pending.get_mut(&batch).expect("a batch waits for all its entries");
        let before = pending.results[index].replace(result);
        assert_eq!(before, None, "an entry has its result once (BA2)");
        pending.open -= 1;
        if pending.open > 0 {
            return;
        }
        let whole = self.pending.remove(&batch).expect("it was there just now");
        let results = whole.results.into_iter().map(|it| it.expect("none is open")).collect();
        out.reply(whole.from, Ok(Response::Batch(BatchAnswer { results })));
    }
}
