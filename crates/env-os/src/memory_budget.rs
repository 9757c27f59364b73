//! How much all peers of a process together may make it hold: one budget for all connections.
//!
//! ```text
//!   what a connection holds = requests without an answer, each with the most that it may be
//!                             answered · answers that wait to be taken · a frame half arrived
//!   held = of each connection, what is above MEMORY_ALLOWANCE      free = max − held
//! ```
//! - T1: each connection has a small allowance of its own, so that heartbeats, leases and look-ups
//!   go on whatever others hold.
//! - T2: above it, a connection gets more only where as much is free afterwards as it then holds:
//!   one that takes much leaves room for the next.
//! - T3: room is taken before what needs it begins; what is begun can always go on. So all of them
//!   together hold at most the budget and their allowances, and a little for what was being read.
//! - T4: while somebody waits for room, whoever holds some and has moved nothing for
//!   [`STALLED_TIME`] is closed, the one that holds the most first.
//! - T5: of what is above allowances no more begins in one turn of the loop than
//!   [`TURN_SIZE_MAX`], so that nobody waits long behind the large answers of others.

use std::time::Duration;

/// Bytes that a connection may make us hold beside the budget (T1).
pub(crate) const MEMORY_ALLOWANCE: usize = 16 << 10;
/// How long whoever holds room may move nothing while others wait for it (T4).
pub(crate) const STALLED_TIME: Duration = Duration::from_secs(3);

/// Bytes of answers that are made in one turn of the loop (T5).
const TURN_SIZE_MAX: usize = 8 << 20;

/// The budget.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    max: usize,
    held: usize,
    /// What was begun in this turn of the loop.
    begun: usize,
    has_freed: bool,
}

impl MemoryBudget {
    /// Nothing is held yet.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, held: 0, begun: 0, has_freed: false }
    }

    /// What is held, beside allowances.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The budget itself.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// What may still be held.
    pub(crate) fn free(&self) -> usize {
        self.max.saturating_sub(self.held)
    }

    /// Whether a connection that holds `own` may hold `more` now (T1, T2, T5).
    pub(crate) fn allows(&self, own: usize, more: usize) -> bool {
        let after = beyond(own.saturating_add(more));
        let taken = after - beyond(own);
        let is_too_much = self.begun > 0 && self.begun.saturating_add(taken) > TURN_SIZE_MAX;
        let has_room = self.free().checked_sub(taken).is_some_and(|left| after <= left);
        taken == 0 || (has_room && !is_too_much)
    }

    /// A request begins whose answer may have so many bytes.
    pub(crate) fn begin(&mut self, size: usize) {
        self.begun = self.begun.saturating_add(size);
    }

    /// The next turn of the loop: whoever waits only for that may go on.
    pub(crate) fn end_turn(&mut self) {
        self.has_freed |= std::mem::take(&mut self.begun) > 0;
    }

    /// A connection that was charged `before` holds `now`.
    pub(crate) fn settle(&mut self, before: usize, now: usize) {
        let (before, now) = (beyond(before), beyond(now));
        self.has_freed |= now < before;
        assert!(self.held >= before, "what is given back was taken");
        self.held = self.held - before + now;
    }

    /// Whether something was given back since it was last taken notice of.
    pub(crate) fn has_freed(&self) -> bool {
        self.has_freed
    }

    /// The same, and takes notice of it.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.has_freed)
    }
}

/// What counts against the budget.
fn beyond(held: usize) -> usize {
    held.saturating_sub(MEMORY_ALLOWANCE)
}

#[cfg(test)]
mod tests {
    use super::{MEMORY_ALLOWANCE, MemoryBudget};

    const MIB: usize = 1 << 20;

    #[test]
    fn however_many_are_greedy_the_budget_is_kept_and_each_has_its_allowance() {
        let mut budget = MemoryBudget::new(64 * MIB);
        let mut held = [0; 1000];
        for _ in 0..100 {
            for own in &mut held {
                let more = 300_000;
                if budget.allows(*own, more) {
                    budget.settle(*own, *own + more);
                    *own += more;
                }
            }
        }
        assert!(budget.held() <= budget.max());
        assert!(held.iter().filter(|own| **own == 0).count() > 500, "there was not enough");
        assert!(held.iter().all(|own| budget.allows(0, MEMORY_ALLOWANCE) || *own > 0));
        assert!(!budget.take_freed());
        for own in &mut held {
            budget.settle(*own, 0);
        }
        assert!(budget.take_freed() && !budget.take_freed());
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn large_answers_are_spread_over_turns_and_small_ones_are_not() {
        let mut budget = MemoryBudget::new(256 * MIB);
        assert!(budget.allows(0, 16 * MIB), "the first, however large");
        budget.begin(16 * MIB);
        assert!(!budget.allows(0, MIB) && budget.allows(0, 1000));
        budget.end_turn();
        assert!(budget.take_freed() && budget.allows(0, MIB));
    }

    #[test]
    fn one_that_holds_much_gets_no_more_where_little_is_left() {
        let mut budget = MemoryBudget::new(64 * MIB);
        budget.settle(0, 30 * MIB);
        assert!(budget.allows(0, MIB), "a newcomer does");
        assert!(!budget.allows(30 * MIB, 8 * MIB));
        assert!(budget.allows(30 * MIB, MIB));
        assert!(!budget.allows(0, usize::MAX), "nobody gets everything");
    }
}
