//! Readers that wait for a stream to be longer: at the master in charge, and at one that is not.
//!
//! ```text
//!   by file   file → (length that is too short, ticket) → who, until when
//!   by time   (until when, ticket) → where
//! ```
//! - PF1: who waits costs nothing until the file grows, or his time is over: nobody is looked at
//!   for whom it is not so.

use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, WaitLength};
use cairn_types::{EntryId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Nobody waits longer.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// So many wait at once.
const FOLLOWERS_MAX: usize = 100_000;

/// What is too short for one, and his ticket.
type Place = (u64, u64);

/// All who wait.
#[derive(Debug, Default)]
pub(crate) struct ParkedFollowers {
    by_file: BTreeMap<EntryId, BTreeMap<Place, (Caller, Time)>>,
    by_time: BTreeMap<(Time, u64), (EntryId, u64)>,
    last: u64,
}

impl ParkedFollowers {
    /// Somebody waits from now on.
    ///
    /// # Errors
    /// Too many wait.
    pub(crate) fn park(
        &mut self,
        now: Time,
        from: Caller,
        wish: &WaitLength,
    ) -> Result<(), Failure> {
        if self.by_time.len() >= FOLLOWERS_MAX {
            let line = "too many followers wait at the master; try again";
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        let until = now + Duration::from_millis(wish.patience_ms).min(PATIENCE_MAX);
        self.last += 1;
        let waiting = self.by_file.entry(wish.file).or_default();
        waiting.insert((wish.length, self.last), (from, until));
        let other = self.by_time.insert((until, self.last), (wish.file, wish.length));
        assert!(other.is_none(), "a ticket is given once");
        Ok(())
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.by_time.len()
    }

    /// A file is so long: those for whom that is enough, who wait no more.
    pub(crate) fn take_longer(&mut self, file: EntryId, length: u64) -> Vec<Caller> {
        let Some(waiting) = self.by_file.get_mut(&file) else { return Vec::new() };
        let others = waiting.split_off(&(length, 0));
        let taken = std::mem::replace(waiting, others);
        if waiting.is_empty() {
            self.by_file.remove(&file);
        }
        for ((_, ticket), (_, until)) in &taken {
            let known = self.by_time.remove(&(*until, *ticket));
            assert!(known.is_some(), "who is told has waited");
        }
        taken.into_values().map(|(from, _)| from).collect()
    }

    /// Those whose time is over, who wait no more; and for which file they did.
    pub(crate) fn take_over(&mut self, now: Time) -> Vec<(EntryId, Caller)> {
        let mut taken = Vec::new();
        while let Some(first) = self.by_time.first_entry() {
            let (until, ticket) = *first.key();
            if until > now {
                break;
            }
            let (file, length) = first.remove();
            let waiting = self.by_file.get_mut(&file).expect("who waits, waits for a file");
            let (from, _) = waiting.remove(&(length, ticket)).expect("under his ticket");
            if waiting.is_empty() {
                self.by_file.remove(&file);
            }
            taken.push((file, from));
        }
        taken
    }

    /// All of them.
    pub(crate) fn take_all(&mut self) -> Vec<Caller> {
        self.by_time.clear();
        let by_file = std::mem::take(&mut self.by_file);
        by_file.into_values().flat_map(BTreeMap::into_values).map(|(from, _)| from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, ParkedFollowers};
    use cairn_protocol::{RequestId, WaitLength};
    use cairn_types::{EntryId, Time};
    use std::time::Duration;

    fn caller(request: u64) -> Caller {
        Caller { request: RequestId(request), ..Caller::default() }
    }

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    fn park(parked: &mut ParkedFollowers, who: u64, (file, length, patience_ms): (u64, u64, u64)) {
        let file = EntryId::new(file);
        let wish = WaitLength { file, length, patience_ms, ..WaitLength::default() };
        parked.park(at(0), caller(who), &wish).expect("there is room");
    }

    #[test]
    fn each_is_told_once_when_his_file_is_longer_or_his_time_is_over() {
        let mut parked = ParkedFollowers::default();
        for (who, wish) in [(1, (7, 10, 900)), (2, (7, 20, 50)), (3, (8, 10, 60)), (4, (7, 10, 40))]
        {
            park(&mut parked, who, wish);
        }
        assert_eq!(parked.take_longer(EntryId::new(7), 10), [], "no longer than it was");
        assert_eq!(parked.take_longer(EntryId::new(9), 10), []);
        assert_eq!(parked.take_over(at(39)), []);
        assert_eq!(parked.take_longer(EntryId::new(7), 11), [caller(1), caller(4)]);
        assert_eq!(parked.count(), 2);
        assert_eq!(parked.take_over(at(55)), [(EntryId::new(7), caller(2))]);
        assert_eq!(parked.take_all(), [caller(3)]);
        assert_eq!((parked.count(), parked.take_over(at(9_000)).len()), (0, 0));
    }

    #[test]
    fn ten_thousand_who_wait_are_told_once_each_and_none_of_them_before_there_is_news_for_him() {
        const COUNT: u64 = 10_000;
        let mut parked = ParkedFollowers::default();
        for who in 0..COUNT {
            park(&mut parked, who, (1 + who % 100, 5, 50_000));
        }
        // A million ticks, and as many commits to other streams: to look at all who wait each time
        // would be 2 * 10^10 looks (PF1).
        for nanos in 0..1_000_000 {
            assert!(parked.take_over(Time::from_nanos(nanos)).is_empty());
            assert!(parked.take_longer(EntryId::new(5_000), 9).is_empty());
        }
        assert_eq!(parked.take_longer(EntryId::new(1), 6).len(), 100);
        assert_eq!(parked.take_over(at(50_000)).len() as u64, COUNT - 100);
    }
}
