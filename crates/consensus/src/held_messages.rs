//! Messages that say what is not yet durable here, until it is.
//!
//! - HM1: a vote, and an answer to records, leave when term, vote and records are durable.
//! - HM2: an answer to a heartbeat says only that this member follows that term: it waits for term
//!   and vote, and for no records, or a slow disk would cost the primary its leadership.

use cairn_protocol::{ConsensusKind, ConsensusMessage};
use std::collections::VecDeque;

/// Messages, each with the number of what has to be durable first.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    held: VecDeque<(u64, ConsensusMessage)>,
    free: Vec<ConsensusMessage>,
}

impl HeldMessages {
    /// A message that waits for nothing.
    pub(crate) fn put(&mut self, message: ConsensusMessage) {
        self.free.push(message);
    }

    /// A message that waits until this is durable; `votes_wait`: term or vote is part of it.
    pub(crate) fn hold(&mut self, number: u64, votes_wait: bool, message: ConsensusMessage) {
        let follows = message.kind == ConsensusKind::HeartbeatAnswer && !votes_wait;
        if follows {
            self.free.push(message);
        } else {
            self.held.push_back((number, message));
        }
    }

    /// What has this number, and all before it, is durable (HM1).
    pub(crate) fn release(&mut self, number: u64) {
        while self.held.front().is_some_and(|(waits_for, _)| *waits_for <= number) {
            let (_, message) = self.held.pop_front().expect("looked at just now");
            self.free.push(message);
        }
    }

    /// What may leave.
    pub(crate) fn take(&mut self) -> Vec<ConsensusMessage> {
        std::mem::take(&mut self.free)
    }
}

#[cfg(test)]
mod tests {
    use super::HeldMessages;
    use cairn_protocol::{ConsensusKind, ConsensusMessage};

    fn message(kind: ConsensusKind) -> ConsensusMessage {
        ConsensusMessage { kind, ..ConsensusMessage::default() }
    }

    #[test]
    fn votes_and_answers_to_records_wait_for_the_disk_and_answers_to_heartbeats_for_votes_alone() {
        let mut messages = HeldMessages::default();
        messages.hold(3, true, message(ConsensusKind::Vote));
        messages.hold(3, true, message(ConsensusKind::HeartbeatAnswer));
        messages.hold(4, false, message(ConsensusKind::AppendAnswer));
        messages.hold(4, false, message(ConsensusKind::HeartbeatAnswer));
        let kinds = |messages: &mut HeldMessages| -> Vec<ConsensusKind> {
            messages.take().iter().map(|message| message.kind).collect()
        };
        assert_eq!(kinds(&mut messages), [ConsensusKind::HeartbeatAnswer], "HM2");
        messages.release(2);
        assert_eq!(kinds(&mut messages), []);
        messages.release(3);
        assert_eq!(kinds(&mut messages), [ConsensusKind::Vote, ConsensusKind::HeartbeatAnswer]);
        messages.release(4);
        assert_eq!(kinds(&mut messages), [ConsensusKind::AppendAnswer]);
    }
}
