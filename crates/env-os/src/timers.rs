//! What is to happen when: wakes that the driver asked for, and the network's own patience.

use crate::ids::{OutboundId, RelayId};
use cairn_env::{ConnectionId, EffectId};
use cairn_protocol::RequestId;
use cairn_types::Time;
use std::collections::BTreeMap;

/// What an alarm is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoopAlarm {
    /// The driver's wake.
    Wake(EffectId),
    /// A call's deadline.
    CallDeadline(OutboundId, RequestId),
    /// An accepted connection's handshake or farewell takes too long.
    InboundPatience(ConnectionId),
    /// A dialled connection's handshake takes too long.
    OutboundPatience(OutboundId),
    /// A push takes too long.
    RelayPatience(RelayId),
    /// Accepting may be tried again.
    AcceptAgain,
    /// Somebody waits for room in the budget of memory.
    Shortage,
}

/// Names one alarm, and tells when it rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LoopAlarmId {
    at: Time,
    sequence: u64,
}

/// Alarms in order of time; those of one time in the order in which they were set.
#[derive(Debug, Default)]
pub(crate) struct LoopTimers {
    alarms: BTreeMap<LoopAlarmId, LoopAlarm>,
    sequence: u64,
}

impl LoopTimers {
    pub(crate) fn set(&mut self, at: Time, alarm: LoopAlarm) -> LoopAlarmId {
        self.sequence += 1;
        let id = LoopAlarmId { at, sequence: self.sequence };
        self.alarms.insert(id, alarm);
        id
    }

    pub(crate) fn cancel(&mut self, id: LoopAlarmId) {
        self.alarms.remove(&id);
    }

    /// When the next one rings.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.alarms.first_key_value().map(|(id, _)| id.at)
    }

    /// One whose time has come.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<LoopAlarm> {
        let first = self.alarms.first_entry()?;
        (first.key().at <= now).then(|| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::{LoopAlarm, LoopTimers};
    use cairn_env::EffectId;
    use cairn_types::Time;

    #[test]
    fn alarms_ring_in_order_of_time_and_a_cancelled_one_never() {
        let mut timers = LoopTimers::default();
        let at = Time::from_nanos;
        let wake = |number| LoopAlarm::Wake(EffectId(number));
        timers.set(at(20), wake(3));
        timers.set(at(10), wake(1));
        let gone = timers.set(at(10), wake(9));
        timers.set(at(10), wake(2));
        timers.cancel(gone);
        assert_eq!(timers.next_at(), Some(at(10)));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(10)), Some(wake(1)));
        assert_eq!(timers.pop_due(at(10)), Some(wake(2)));
        assert_eq!(timers.pop_due(at(10)), None);
        assert_eq!(timers.pop_due(at(20)), Some(wake(3)));
    }
}
