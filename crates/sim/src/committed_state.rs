//! What the committed records have made of names, for who watches the log: a record that fails when
//! it is applied is logged, and comes to nothing all the same (R23).

use cairn_master_core::{Applied, Record, State};
use cairn_protocol::ErrorCode;

/// The state of the log as far as it is committed.
#[derive(Default)]
pub(crate) struct CommittedState {
    state: State,
    /// There is no one history any more.
    given_up: bool,
}

impl CommittedState {
    /// A record is committed: why it comes to nothing, if it does.
    pub(crate) fn refuses(&mut self, record: &Record) -> Option<ErrorCode> {
        if self.given_up {
            return None;
        }
        let (index, term) = (self.state.applied().next(), self.state.term());
        match self.state.apply(index, term, record) {
            Applied::Failed(failure) => Some(failure.code),
            _ => None,
        }
    }

    /// From here on nothing is known: the log is not what was written to it.
    pub(crate) fn give_up(&mut self) {
        (self.given_up, self.state) = (true, State::default());
    }
}
