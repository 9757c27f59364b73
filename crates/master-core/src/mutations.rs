//! Namespace mutations on their way: locks, then ids, then a record, then the answer (§4.1).
//!
//! ```text
//!   request ──► locks asked ──► held: ids resolved, record proposed ──► applied: answered
//!      └─ a retry of what is on its way waits with it; of what is done gets its outcome (R24)
//! ```
//! An entry of a batch goes the same way, and its answer into the batch's.
//!
//! - MU1: ids are resolved once the locks are held, which are held until the record is applied
//!   (R35).
//! - MU2: a refusal that hangs on the names as they are is a record too. The caller may have sent
//!   the request twice; the other copy comes when the names have changed, and must find the answer.
//! - MU3: where the log has no room, what is new is refused; a retry of what was done, or is on its
//!   way, is not told that it was not.

use crate::applied::Applied;
use crate::batches::{Batches, MutationWaiter};
use crate::name_mutation::NameMutation;
use crate::outbox::ProposalId;
use crate::path_locks::{LockSet, PathLocks, Ticket};
use crate::record::{Record, Refuse};
use crate::resolve_names::{Resolved, resolve};
use crate::room::LogSpace;
use crate::snapshot_work::SnapshotPlan;
use crate::state::{Remembered, State};
use crate::step::Step;
use cairn_env::Caller;
use cairn_protocol::{BatchAnswer, BatchResult, ErrorCode, Failure, Response};
use cairn_types::planted::{Rule, broken};
use cairn_types::{Identity, MutationName, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A mutation that waits for its locks, or for its record to be applied.
#[derive(Debug)]
struct PendingMutation {
    mutation: MutationName,
    change: NameMutation,
    /// Whose it is.
    who: Arc<Identity>,
    /// Who asked, and who asked again.
    waiters: Vec<MutationWaiter>,
    /// The locks that it waits for, or holds.
    locked: LockSet,
}

/// An entry of a batch.
#[derive(Debug)]
pub(crate) enum BatchItem {
    /// It changes names.
    Mutation(NameMutation),
    /// It only asked for what is known already.
    Known(BatchResult),
}

impl BatchItem {
    fn known(self) -> Option<BatchResult> {
        match self {
            Self::Mutation(_) => None,
            Self::Known(result) => Some(result),
        }
    }
}

/// All namespace mutations on their way.
#[derive(Debug, Default)]
pub(crate) struct Mutations {
    /// Whether the operation log has room (MU3).
    log_space: LogSpace,
    batches: Batches,
    locks: PathLocks,
    operations: BTreeMap<Ticket, PendingMutation>,
    by_mutation: BTreeMap<MutationName, Ticket>,
    by_proposal: BTreeMap<ProposalId, Ticket>,
    /// Snapshots whose locks have come to be held.
    snapshots: Vec<(Ticket, SnapshotPlan)>,
    /// Until then leases of an earlier term may live (R22).
    former_leases_until: Time,
}

impl Mutations {
    /// Whether the operation log has room.
    pub(crate) fn set_log_space(&mut self, space: LogSpace) {
        self.log_space = space;
    }

    /// A term begins. Where an earlier one had chunks, no tree can be made still for a while.
    pub(crate) fn on_term_begins(&mut self, step: &Step<'_>) {
        let first = step.state.chunks().next();
        if first.is_some_and(|(handle, _)| handle.term() < step.state.term()) {
            self.former_leases_until = step.now.time + step.state.config().longest_lease();
        }
    }

    /// Takes a request that changes names.
    pub(crate) fn on_request(
        &mut self,
        step: &mut Step<'_>,
        (from, who): (Caller, &Arc<Identity>),
        change: NameMutation,
    ) {
        let mut ready = Vec::new();
        self.take(step, (MutationWaiter::Caller(from), who), change, &mut ready);
        self.run(step, ready);
    }

    /// Takes a batch. Everything that can run at once is proposed in this step, and so shares one
    /// flush (§2.6.3).
    pub(crate) fn on_batch(
        &mut self,
        step: &mut Step<'_>,
        (from, who): (Caller, &Arc<Identity>),
        entries: Vec<BatchItem>,
    ) {
        if !entries.iter().any(|entry| matches!(entry, BatchItem::Mutation(_))) {
            let results = entries.into_iter().filter_map(BatchItem::known).collect();
            return step.out.reply(from, Ok(Response::Batch(BatchAnswer { results })));
        }
        let batch = self.batches.begin(from, entries.len());
        let mut ready = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            match entry {
                BatchItem::Known(result) => self.batches.settle(step.out, batch, index, result),
                BatchItem::Mutation(change) => {
                    let waiter = MutationWaiter::Entry(batch, index);
                    self.take(step, (waiter, who), change, &mut ready);
                }
            }
        }
        self.run(step, ready);
    }

    /// Answers what is known already, or asks for locks; what has them joins `ready`.
    fn take(
        &mut self,
        step: &mut Step<'_>,
        (waiter, who): (MutationWaiter, &Arc<Identity>),
        change: NameMutation,
        ready: &mut Vec<Ticket>,
    ) {
        if let Err(failure) = change.check().and_then(|()| change.check_level(step.state)) {
            return self.batches.answer(step.out, waiter, Err(failure));
        }
        let mutation = change.mutation();
        if !broken(Rule::R24) {
            match step.state.remembered(mutation) {
                Remembered::New => {}
                Remembered::Done(applied) => {
                    let answer = change.answer(step.state, &applied);
                    return self.batches.answer(step.out, waiter, answer);
                }
                Remembered::TooOld => {
                    let line = "the mutation is older than what the master remembers";
                    let failure = Failure::unknown(ErrorCode::TooOld, line);
                    return self.batches.answer(step.out, waiter, Err(failure));
                }
            }
            // The first try is on its way: one answer will serve both.
            if let Some(ticket) = self.by_mutation.get(&mutation)
                && let Some(operation) = self.operations.get_mut(ticket)
            {
                return operation.waiters.push(waiter);
            }
        }
        if let Some(refusal) = self.log_space.refusal() {
            return self.batches.answer(step.out, waiter, Err(refusal));
        }
        let is_snapshot = |it: &NameMutation| matches!(it, NameMutation::Snapshot(_));
        if is_snapshot(&change) && step.now.time < self.former_leases_until {
            let line = "a master before this one may have granted leases that live yet";
            let failure = change.at_once(Failure::not_done(ErrorCode::Busy, line));
            return self.batches.answer(step.out, waiter, Err(failure));
        }
        // Whose names are locked for one waits for one at most.
        if is_snapshot(&change) && self.operations.values().any(|it| is_snapshot(&it.change)) {
            let line = "another snapshot is being taken; try again";
            let failure = Failure::not_done(ErrorCode::Busy, line);
            return self.batches.answer(step.out, waiter, Err(failure));
        }
        let (waiters, locked) = (vec![waiter], LockSet::default());
        let who = Arc::clone(who);
        self.lock(step.state, PendingMutation { mutation, change, who, waiters, locked }, ready);
    }

    /// A record is applied: answers, gives the locks back, and lets the next ones run (MU1).
    pub(crate) fn on_applied(&mut self, step: &mut Step<'_>, id: ProposalId, applied: &Applied) {
        // Records of other parts of the master come by here too.
        let Some(ticket) = self.by_proposal.remove(&id) else { return };
        let PendingMutation { change, mut waiters, .. } = self.end(ticket);
        let answer = change.answer(step.state, applied);
        // Mostly the only one.
        let last = waiters.pop().expect("somebody waits for each mutation");
        for waiter in waiters {
            self.batches.answer(step.out, waiter, answer.clone());
        }
        self.batches.answer(step.out, last, answer);
        let mut ready = Vec::new();
        self.locks.release(ticket, &mut ready);
        self.run(step, ready);
    }

    /// Asks for the operation's locks; it joins `ready` where they are free.
    fn lock(&mut self, state: &State, mut operation: PendingMutation, ready: &mut Vec<Ticket>) {
        operation.locked = operation.change.locks(state);
        let (ticket, runs) = self.locks.request(operation.locked.clone());
        let other = self.by_mutation.insert(operation.mutation, ticket);
        assert!(other.is_none() || broken(Rule::R24), "a mutation is on its way once (R24)");
        self.operations.insert(ticket, operation);
        ready.extend(runs.then_some(ticket));
    }

    /// Runs operations whose locks are held, in the order in which they came, and those that they
    /// let run by ending at once.
    fn run(&mut self, step: &mut Step<'_>, mut ready: Vec<Ticket>) {
        let mut next = 0;
        while let Some(&ticket) = ready.get(next) {
            next += 1;
            let operation = self.operations.get(&ticket).expect("who holds locks is here (MU1)");
            let asked = (&operation.who, &operation.change);
            let record = match resolve(step, asked, &operation.locked) {
                Ok(Resolved::Propose(record)) => record,
                // Others see to it, while the locks are held.
                Ok(Resolved::Snapshot(plan)) => {
                    self.snapshots.push((ticket, plan));
                    continue;
                }
                Ok(Resolved::LockAgain) => {
                    let operation = self.end(ticket);
                    self.locks.release(ticket, &mut ready);
                    self.lock(step.state, operation, &mut ready);
                    continue;
                }
                Err(failure) => {
                    let (time, mutation) = (step.now.wall, operation.mutation);
                    Record::from(Refuse { time, mutation, failure })
                }
            };
            self.propose(step, ticket, record);
        }
    }

    fn propose(&mut self, step: &mut Step<'_>, ticket: Ticket, record: Record) -> ProposalId {
        let id = step.out.propose(record);
        let other = self.by_proposal.insert(id, ticket);
        assert!(other.is_none(), "a record is one mutation's");
        id
    }

    /// The snapshots whose locks have come to be held since this was last asked.
    pub(crate) fn take_snapshots(&mut self) -> Vec<(Ticket, SnapshotPlan)> {
        std::mem::take(&mut self.snapshots)
    }

    /// All of a snapshot but its last record is applied, or it came to nothing.
    pub(crate) fn conclude(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        ending: Result<Record, Failure>,
    ) -> ProposalId {
        let operation = self.operations.get(&ticket).expect("who holds locks is here (MU1)");
        let (time, mutation) = (step.now.wall, operation.mutation);
        let refuse = |failure| Record::from(Refuse { time, mutation, failure });
        self.propose(step, ticket, ending.unwrap_or_else(refuse))
    }

    fn end(&mut self, ticket: Ticket) -> PendingMutation {
        let operation = self.operations.remove(&ticket).expect("a mutation ends once (MU1)");
        // With R24 broken, another one of the same name may stand there.
        if self.by_mutation.get(&operation.mutation) == Some(&ticket) {
            self.by_mutation.remove(&operation.mutation);
        }
        operation
    }
}
