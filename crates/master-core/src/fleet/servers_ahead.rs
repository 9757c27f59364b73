//! Servers that know of changes which this master's log lacks: it was started from an old copy of
//! its directory (R1, R3). They are not taken in, and a person is told which term they know of.
//!
//! - SA1: only servers that the log knows are counted, so what is kept is bounded; and each for as
//!   long as it would count as alive. Nobody is counted for what another says in its name while it
//!   lives here (`chunkservers.rs`): one that lies would otherwise stop the cell, in all names.

use cairn_types::{ServerId, Term, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who said so.
#[derive(Debug, Default)]
pub(crate) struct ServersAhead {
    heard: BTreeMap<ServerId, Time>,
    /// The latest term that any of them knows of.
    term: Term,
}

impl ServersAhead {
    /// A server that the log knows has said that it knows of changes up to that term; whether that
    /// is news to a person.
    pub(super) fn note(&mut self, now: Time, server: ServerId, term: Term) -> bool {
        self.term = self.term.max(term);
        self.heard.insert(server, now).is_none()
    }

    /// It was taken in, or will not come back.
    pub(super) fn forget(&mut self, server: ServerId) {
        self.heard.remove(&server);
    }

    /// How many have said so within that span, and the latest term that any knows of.
    pub(crate) fn within(&self, now: Time, span: Duration) -> (usize, Term) {
        let recent = self.heard.values().filter(|heard| now < **heard + span);
        (recent.count(), self.term)
    }
}

#[cfg(test)]
mod tests {
    use super::ServersAhead;
    use cairn_types::{ServerId, Term, Time};
    use std::time::Duration;

    #[test]
    fn a_server_counts_for_a_while_and_the_latest_term_is_told() {
        let (mut ahead, span) = (ServersAhead::default(), Duration::from_secs(30));
        let at = |seconds| Time::default() + Duration::from_secs(seconds);
        assert!(ahead.note(at(1), ServerId::new(1), Term::new(7)));
        assert!(ahead.note(at(2), ServerId::new(2), Term::new(5)));
        assert!(!ahead.note(at(20), ServerId::new(2), Term::new(5)), "no news");
        assert_eq!(ahead.within(at(21), span), (2, Term::new(7)));
        assert_eq!(ahead.within(at(31), span), (1, Term::new(7)));
        ahead.forget(ServerId::new(2));
        assert_eq!(ahead.within(at(31), span), (0, Term::new(7)));
    }
}
