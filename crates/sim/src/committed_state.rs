//! What the committed records have made of names, for who watches the log: a record that fails when
//! it is applied is logged, and comes to nothing all the same (R23).

use cairn_master_core::{Applied, Record, State};

/// The state of the log as far as it is committed.
#[derive(Default)]
pub(crate) struct CommittedState {
    state: State,
    /// There is no one history any more.
    given_up: bool,
}

impl CommittedState {
    /// A record is committed: what it comes to, as far as that is known.
    pub(crate) fn apply(&mut self, record: &Record) -> Option<Applied> {
        if self.given_up {
            return None;
        }
        let (index, term) = (self.state.applied().next(), self.state.term());
        Some(self.state.apply(index, term, record))
    }

    /// From here on nothing is known: the log is not what was written to it.
    pub(crate) fn give_up(&mut self) {
        (self.given_up, self.state) = (true, State::default());
    }
}
