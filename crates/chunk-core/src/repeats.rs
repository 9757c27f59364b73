//! What a primary remembers of mutations that it has served, so that a repeat gets the first
//! answer (R15), and which connection speaks for a client session.
//!
//! - P1: a push is applied at most once by one server while it remembers it.
//! - P2: once a session has spoken by a newer connection, an older one is not listened to.

use cairn_env::ConnectionId;
use cairn_types::{PushId, SerialNumber, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// Answers that are kept for each chunk.
const RESULTS_MAX: usize = 4096;
/// Sessions that are kept for each chunk.
const SESSIONS_MAX: usize = 4096;

/// What a mutation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) serial: SerialNumber,
    pub(crate) offset: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Repeats {
    served: BTreeMap<PushId, Served>,
    order: VecDeque<PushId>,
    speaker: BTreeMap<SessionId, ConnectionId>,
}

impl Repeats {
    pub(crate) fn answer(&self, push: PushId) -> Option<Served> {
        self.served.get(&push).copied()
    }

    pub(crate) fn remember(&mut self, push: PushId, served: Served) {
        if self.served.insert(push, served).is_none() {
            self.order.push_back(push);
        }
        if self.order.len() > RESULTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.served.remove(&oldest);
        }
    }

    /// Whether this connection may speak for the session; connections are numbered in the order
    /// in which they were made.
    pub(crate) fn may_speak(&mut self, session: SessionId, connection: ConnectionId) -> bool {
        let newest = self.speaker.entry(session).or_insert(connection);
        if connection < *newest {
            return false;
        }
        *newest = connection;
        if self.speaker.len() > SESSIONS_MAX {
            self.speaker.pop_first();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{RESULTS_MAX, Repeats, Served};
    use cairn_env::ConnectionId;
    use cairn_types::{MutationNumber, PushId, SerialNumber, SessionId};

    #[test]
    fn an_older_connection_is_not_listened_to_after_a_newer_one() {
        let mut repeats = Repeats::default();
        let session = SessionId::new(1);
        assert!(repeats.may_speak(session, ConnectionId(4)));
        assert!(repeats.may_speak(session, ConnectionId(7)));
        assert!(!repeats.may_speak(session, ConnectionId(4)));
        assert!(repeats.may_speak(SessionId::new(2), ConnectionId(4)));
    }

    #[test]
    fn the_first_answer_is_kept_and_the_oldest_is_forgotten() {
        let mut repeats = Repeats::default();
        let push = |n| PushId { session: SessionId::new(1), number: MutationNumber::new(n) };
        for n in 0..=RESULTS_MAX as u64 {
            repeats.remember(push(n), Served { serial: SerialNumber::new(n), offset: n });
        }
        assert_eq!(repeats.answer(push(0)), None);
        assert_eq!(repeats.answer(push(1)).map(|served| served.offset), Some(1));
    }
}
