//! What is to happen when: wakes that the driver asked for, and the network's own patience.

use cairn_types::Time;
use std::collections::BTreeMap;

/// Names one alarm, and tells when it rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AlarmId {
    at: Time,
    sequence: u64,
}

/// Alarms in order of time; those of one time in the order in which they were set.
#[derive(Debug)]
pub(crate) struct Timers<A> {
    alarms: BTreeMap<AlarmId, A>,
    sequence: u64,
}

impl<A> Timers<A> {
    pub(crate) fn new() -> Self {
        Self { alarms: BTreeMap::new(), sequence: 0 }
    }

    pub(crate) fn set(&mut self, at: Time, alarm: A) -> AlarmId {
        self.sequence += 1;
        let id = AlarmId { at, sequence: self.sequence };
        self.alarms.insert(id, alarm);
        id
    }

    pub(crate) fn cancel(&mut self, id: AlarmId) {
        self.alarms.remove(&id);
    }

    /// When the next one rings.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.alarms.first_key_value().map(|(id, _)| id.at)
    }

    /// One whose time has come.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<A> {
        let first = self.alarms.first_entry()?;
        (first.key().at <= now).then(|| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;
    use cairn_types::Time;

    #[test]
    fn alarms_ring_in_order_of_time_and_a_cancelled_one_never() {
        let mut timers = Timers::new();
        let at = Time::from_nanos;
        timers.set(at(20), "late");
        timers.set(at(10), "early");
        let gone = timers.set(at(10), "cancelled");
        timers.set(at(10), "early too");
        timers.cancel(gone);
        assert_eq!(timers.next_at(), Some(at(10)));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(10)), Some("early"));
        assert_eq!(timers.pop_due(at(10)), Some("early too"));
        assert_eq!(timers.pop_due(at(10)), None);
        assert_eq!(timers.pop_due(at(20)), Some("late"));
    }
}
