//! A lease that is asked back: whoever waits for that is answered once its holder has drained.
//!
//! - DR1: each time that it was asked back is answered: a master whose word crossed a heartbeat
//!   takes the lease to go on, and asks again, by which the first time is not forgotten.

use crate::outbox::Outbox;
use crate::stored_replica::StoredReplica;
use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, Response, RevokeLeaseAnswer};

/// Times that are answered when the lease ends; of more, the oldest is refused.
const WAITING_MAX: usize = 4;

/// Who waits for a lease to be given back.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    waiting: Vec<Caller>,
}

impl Draining {
    /// Whether the lease is asked back.
    pub(crate) fn is_asked_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// It is asked back, perhaps again.
    pub(crate) fn ask(&mut self, stored: &StoredReplica, out: &mut Outbox, from: Caller) {
        if self.waiting.len() == WAITING_MAX {
            let oldest = self.waiting.remove(0);
            let why = format!("chunk {}: it was asked back again since", stored.handle().short());
            out.refuse(oldest, Failure::not_done(ErrorCode::Busy, why));
        }
        self.waiting.push(from);
        assert!(self.waiting.len() <= WAITING_MAX, "whoever waits is answered in the end (DR1)");
    }

    /// The lease is over: how the replica stands now.
    pub(crate) fn answer(self, stored: &StoredReplica, out: &mut Outbox) {
        for from in self.waiting {
            let answer = RevokeLeaseAnswer { replica: stored.report() };
            out.reply(from, Response::RevokeLease(answer));
        }
    }
}
