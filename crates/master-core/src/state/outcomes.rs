//! Outcomes of namespace mutations, so that a retry is answered and not done again (R24).
//!
//! - H1: an outcome is forgotten by log time alone, so that every replay forgets the
//!   same ones; and a number at or below a forgotten one is refused, never done again.

use crate::outcome::Outcome;
use cairn_types::{MutationName, MutationNumber, SessionId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Forgotten numbers of a session are known for so many retry windows after its last mutation.
/// No packet is on its way for a day.
const FLOOR_WINDOWS: u32 = 144;

/// What is known of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered<'a> {
    /// Never heard of.
    New,
    /// It is in the log already; this came of it.
    Done(&'a Outcome),
    /// Older than what is remembered: it may or may not have been done.
    TooOld,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Session {
    /// Numbers up to this one are forgotten.
    floor: MutationNumber,
    last: Duration,
    outcomes: BTreeMap<MutationNumber, Outcome>,
}

/// All that is remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcomes {
    sessions: BTreeMap<SessionId, Session>,
    /// In order of log time.
    by_time: VecDeque<(Duration, MutationName)>,
    /// Sessions without outcomes, in order of the time at which they may be forgotten.
    floors: VecDeque<(Duration, SessionId)>,
}

impl Outcomes {
    pub(super) fn get(&self, mutation: MutationName) -> Remembered<'_> {
        let Some(session) = self.sessions.get(&mutation.session) else { return Remembered::New };
        match session.outcomes.get(&mutation.number) {
            Some(outcome) => Remembered::Done(outcome),
            None if mutation.number <= session.floor => Remembered::TooOld,
            None => Remembered::New,
        }
    }

    /// Keeps the outcome of a new mutation.
    pub(super) fn keep(&mut self, time: Duration, mutation: MutationName, outcome: Outcome) {
        let session = self.sessions.entry(mutation.session).or_default();
        session.last = time;
        session.outcomes.insert(mutation.number, outcome);
        self.by_time.push_back((time, mutation));
    }

    /// Forgets what is older than `window` before `now`, which is log time.
    pub(super) fn forget(&mut self, now: Duration, window: Duration) {
        let expired = |time: Duration, span: Duration| time.saturating_add(span) < now;
        let floor_kept = window.saturating_mul(FLOOR_WINDOWS);
        while let Some(&(time, mutation)) = self.by_time.front()
            && expired(time, window)
        {
            self.by_time.pop_front();
            let Some(session) = self.sessions.get_mut(&mutation.session) else { continue };
            session.outcomes.remove(&mutation.number);
            session.floor = session.floor.max(mutation.number);
            if session.outcomes.is_empty() {
                self.floors.push_back((now, mutation.session));
            }
        }
        while let Some(&(time, id)) = self.floors.front()
            && expired(time, floor_kept)
        {
            self.floors.pop_front();
            if self.sessions.get(&id).is_some_and(|session| {
                session.outcomes.is_empty() && expired(session.last, floor_kept)
            }) {
                self.sessions.remove(&id);
            }
        }
    }

    /// Every outcome in order of log time, for a checkpoint.
    pub(super) fn kept(&self) -> impl Iterator<Item = (Duration, MutationName, &Outcome)> {
        self.by_time.iter().filter_map(|(time, mutation)| {
            let session = self.sessions.get(&mutation.session)?;
            Some((*time, *mutation, session.outcomes.get(&mutation.number)?))
        })
    }

    /// Every session that has forgotten something, as `(session, floor, last mutation)`.
    pub(super) fn floors(
        &self,
    ) -> impl Iterator<Item = (SessionId, MutationNumber, Duration)> + use<'_> {
        let forgetful = self.sessions.iter().filter(|(_, session)| session.floor.get() > 0);
        forgetful.map(|(id, session)| (*id, session.floor, session.last))
    }

    /// The queue of sessions to forget, for a checkpoint.
    pub(super) fn idle(&self) -> impl Iterator<Item = (Duration, SessionId)> + use<'_> {
        self.floors.iter().copied()
    }

    pub(super) fn load_floor(&mut self, id: SessionId, floor: MutationNumber, last: Duration) {
        let session = self.sessions.entry(id).or_default();
        session.floor = floor;
        session.last = session.last.max(last);
    }

    pub(super) fn load_idle(&mut self, time: Duration, id: SessionId) {
        self.floors.push_back((time, id));
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcomes, Remembered};
    use crate::outcome::{Changed, Outcome};
    use cairn_types::{MutationName, MutationNumber, SessionId};
    use std::time::Duration;

    fn name(number: u64) -> MutationName {
        MutationName { session: SessionId::new(7), number: MutationNumber::new(number) }
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn an_outcome_is_kept_for_the_window_and_its_number_refused_after_it() {
        let mut outcomes = Outcomes::default();
        let outcome = Outcome::Changed(Changed::default());
        outcomes.keep(at(1000), name(1), outcome.clone());
        outcomes.keep(at(1500), name(2), outcome.clone());
        outcomes.forget(at(1100), at(100));
        assert_eq!(outcomes.get(name(1)), Remembered::Done(&outcome));
        outcomes.forget(at(1101), at(100));
        assert_eq!(outcomes.get(name(1)), Remembered::TooOld);
        assert_eq!(outcomes.get(name(2)), Remembered::Done(&outcome));
        assert_eq!(outcomes.get(name(3)), Remembered::New);
    }

    #[test]
    fn a_session_that_is_long_silent_is_forgotten_whole() {
        let mut outcomes = Outcomes::default();
        outcomes.keep(at(0), name(5), Outcome::Changed(Changed::default()));
        outcomes.forget(at(200), at(100));
        assert_eq!(outcomes.get(name(5)), Remembered::TooOld);
        outcomes.forget(at(100_000), at(100));
        assert_eq!(outcomes.get(name(5)), Remembered::New);
        assert_eq!(outcomes, Outcomes::default());
    }
}
