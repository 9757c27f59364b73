//! Servers that did not answer: after a few times each they are asked no more, so that a check of
//! many chunks does not wait for the same silence at every one.

use cairn_client::Error;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::ServerId;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// So many times in a row.
const TRIES: u32 = 3;

/// How often each did not answer, since it did.
#[derive(Debug, Default)]
pub(super) struct SilentServers(Mutex<BTreeMap<ServerId, u32>>);

impl SilentServers {
    /// A server has answered, or not.
    pub(super) fn note(&self, server: ServerId, answered: bool) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answered {
            counts.remove(&server);
        } else {
            *counts.entry(server).or_default() += 1;
        }
    }

    /// Why a server is not asked, if it is not.
    pub(super) fn why_not(&self, server: ServerId) -> Option<Error> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let given_up = counts.get(&server).is_some_and(|count| *count >= TRIES);
        let why = format!("it did not answer {TRIES} times, and is not asked any more");
        given_up.then(|| Error::from(Failure::not_done(ErrorCode::Unreachable, why)))
    }

    /// All are asked again.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Whether a server's failure is an answer of its own.
pub(super) fn is_answer(error: &Error) -> bool {
    !matches!(error.code(), ErrorCode::Unreachable | ErrorCode::DeadlineExceeded)
}

#[cfg(test)]
mod tests {
    use super::{SilentServers, TRIES};
    use cairn_types::ServerId;

    #[test]
    fn who_does_not_answer_a_few_times_in_a_row_is_not_asked_any_more() {
        let (silent, server) = (SilentServers::default(), ServerId::new(7));
        for _ in 1..TRIES {
            silent.note(server, false);
        }
        assert!(silent.why_not(server).is_none());
        silent.note(server, true);
        for at in 1..=TRIES {
            assert!(silent.why_not(server).is_none(), "{at}");
            silent.note(server, false);
        }
        assert!(silent.why_not(server).is_some() && silent.why_not(ServerId::new(8)).is_none());
        silent.forget();
        assert!(silent.why_not(server).is_none());
    }
}
