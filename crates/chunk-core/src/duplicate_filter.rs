//! What a primary remembers of mutations that it has served, so that a repeat gets the first
//! answer (R15), and which connection speaks for a client session.
//!
//! - P1: a push is applied at most once by one server while it remembers it.
//! - P2: once a session has spoken by a newer connection, an older one is not listened to.

use cairn_env::ConnectionId;
use cairn_types::{PushId, SerialNumber, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// Answers that are kept for each chunk: at tens of thousands of appends a second those of some
/// seconds, which is longer than a client waits before it asks again.
const RESULTS_MAX: usize = 1 << 17;
/// Sessions that are kept for each chunk.
const SESSIONS_MAX: usize = 4096;

/// What a mutation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServedMutation {
    pub(crate) serial: SerialNumber,
    pub(crate) offset: u64,
}

#[derive(Debug, Default)]
pub(crate) struct DuplicateFilter {
    served: BTreeMap<PushId, ServedMutation>,
    order: VecDeque<PushId>,
    speaker: BTreeMap<SessionId, ConnectionId>,
    /// Sessions in the order in which they first spoke.
    sessions: VecDeque<SessionId>,
}

impl DuplicateFilter {
    pub(crate) fn answer(&self, push: PushId) -> Option<ServedMutation> {
        self.served.get(&push).copied()
    }

    pub(crate) fn remember(&mut self, push: PushId, served: ServedMutation) {
        if self.served.insert(push, served).is_none() {
            self.order.push_back(push);
        }
        assert_eq!(self.order.len(), self.served.len(), "each answer has its place in the order");
        if self.order.len() > RESULTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.served.remove(&oldest);
        }
    }

    /// Whether this connection may speak for the session; connections are numbered in the order
    /// in which they were made.
    pub(crate) fn may_speak(&mut self, session: SessionId, connection: ConnectionId) -> bool {
        match self.speaker.get_mut(&session) {
            Some(newest) if connection < *newest => return false,
            Some(newest) => *newest = connection,
            None => {
                self.speaker.insert(session, connection);
                self.sessions.push_back(session);
            }
        }
        assert_eq!(self.sessions.len(), self.speaker.len(), "each session has its place");
        if self.sessions.len() > SESSIONS_MAX
            && let Some(oldest) = self.sessions.pop_front()
        {
            self.speaker.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{DuplicateFilter, RESULTS_MAX, SESSIONS_MAX, ServedMutation};
    use cairn_env::ConnectionId;
    use cairn_types::{MutationNumber, PushId, SerialNumber, SessionId};

    #[test]
    fn an_older_connection_is_not_listened_to_after_a_newer_one() {
        let mut repeats = DuplicateFilter::default();
        let session = SessionId::new(1);
        assert!(repeats.may_speak(session, ConnectionId(4)));
        assert!(repeats.may_speak(session, ConnectionId(7)));
        assert!(!repeats.may_speak(session, ConnectionId(4)));
        assert!(repeats.may_speak(SessionId::new(2), ConnectionId(4)));
    }

    #[test]
    fn of_too_many_sessions_the_one_that_spoke_first_is_forgotten() {
        let mut repeats = DuplicateFilter::default();
        for id in (0..=SESSIONS_MAX as u128).rev() {
            assert!(repeats.may_speak(SessionId::new(id), ConnectionId(9)));
        }
        assert!(!repeats.may_speak(SessionId::new(0), ConnectionId(8)), "it spoke last");
        assert!(repeats.may_speak(SessionId::new(SESSIONS_MAX as u128), ConnectionId(8)));
    }

    #[test]
    fn the_first_answer_is_kept_and_the_oldest_is_forgotten() {
        let mut repeats = DuplicateFilter::default();
        let push = |n| PushId { session: SessionId::new(1), number: MutationNumber::new(n) };
        for n in 0..=RESULTS_MAX as u64 {
            repeats.remember(push(n), ServedMutation { serial: SerialNumber::new(n), offset: n });
        }
        assert_eq!(repeats.answer(push(0)), None);
        assert_eq!(repeats.answer(push(1)).map(|served| served.offset), Some(1));
    }
}
