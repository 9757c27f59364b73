//! Snapshots' way through the core: with each step, for what they wait for is many things.

use super::MasterCore;
use crate::step::Step;
use cairn_env::Now;

impl MasterCore {
    /// Snapshots begin whose locks are held, and those under way take their next steps.
    pub(super) fn go_on_with_snapshots(&mut self, now: Now) {
        let begun = self.mutations.take_snapshots();
        if begun.is_empty() && self.snapshots.is_empty() {
            return;
        }
        let (state, out) = (&self.state, &mut self.out);
        let (numbers, random) = (&mut self.numbers, &mut self.random);
        let mut step = Step { now, state, numbers, random, out };
        for snapshot in begun {
            self.snapshots.begin(&mut step, &mut self.chunks, snapshot);
        }
        for (ticket, ending) in self.snapshots.go_on(&mut step, &mut self.chunks) {
            let proposal = self.mutations.conclude(&mut step, ticket, ending);
            self.snapshots.ending(ticket, proposal);
        }
    }
}
