//! All of a client's timers behind one `Wake` at a time.
//!
//! A wake cannot be taken back; with one per operation the world would carry a minute's worth of
//! dead ones. So only the earliest is ever asked for.

use cairn_types::Time;
use std::collections::BTreeMap;

/// Names a timer that may be taken back.
pub(crate) type TimerKey = (Time, u64);

/// Timers that mean `T`.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    due: BTreeMap<TimerKey, T>,
    next: u64,
    armed: Option<Time>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), next: 0, armed: None }
    }
}

impl<T> Timers<T> {
    pub(crate) fn set(&mut self, at: Time, what: T) -> TimerKey {
        self.next += 1;
        let same = self.due.insert((at, self.next), what);
        assert!(same.is_none(), "each timer has a number of its own");
        (at, self.next)
    }

    pub(crate) fn cancel(&mut self, key: TimerKey) {
        self.due.remove(&key);
    }

    /// Takes one that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<T> {
        let first = self.due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// A wake came, so none can be relied on.
    pub(crate) fn woken(&mut self) {
        self.armed = None;
    }

    /// When to be woken, if that is sooner than what was asked for already.
    pub(crate) fn arm(&mut self) -> Option<Time> {
        let first = self.due.first_key_value()?.0.0;
        if self.armed.is_some_and(|armed| armed <= first) {
            return None;
        }
        assert!(self.armed.is_none_or(|armed| armed > first), "one wake at a time, the earliest");
        self.armed = Some(first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;
    use cairn_types::Time;

    #[test]
    fn only_an_earlier_timer_asks_for_another_wake() {
        let at = Time::from_nanos;
        let mut timers = Timers::default();
        let early = timers.set(at(5), 'a');
        timers.set(at(9), 'b');
        assert_eq!(timers.arm(), Some(at(5)));
        timers.set(at(7), 'c');
        assert_eq!(timers.arm(), None);
        timers.cancel(early);
        assert_eq!(timers.pop(at(6)), None);
        timers.woken();
        assert_eq!(timers.arm(), Some(at(7)));
        assert_eq!((timers.pop(at(9)), timers.pop(at(9))), (Some('c'), Some('b')));
    }
}
