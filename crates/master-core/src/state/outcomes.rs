//! Outcomes of namespace mutations, so that a retry is answered and not done again (R24).
//!
//! - H1: what is forgotten, and when, follows from the log alone, so that every replay forgets the
//!   same; and a number at or below a forgotten one is refused, never done again.
//! - H2: memory is bounded however fast clients go: at most [`OUTCOME_COUNT_MAX`] outcomes, of
//!   [`SESSION_OUTCOME_COUNT_MAX`] in one session, in at most [`SESSION_COUNT_MAX`] sessions. What
//!   comes first goes first, then sooner than `retry_window`: at ten thousand mutations a second
//!   still after half a minute.

use crate::outcome::Outcome;
use cairn_types::{MutationName, MutationNumber, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Forgotten numbers of a session are known for so many retry windows after its last mutation.
/// No packet is on its way for a day.
const FLOOR_WINDOWS: u32 = 144;

/// Outcomes that are remembered in all.
const OUTCOME_COUNT_MAX: usize = 1 << 18;
/// Outcomes that are remembered of one session; a client has no more on their way.
const SESSION_OUTCOME_COUNT_MAX: usize = 1 << 14;
/// Sessions that are remembered, most of them by the last number that they forgot.
const SESSION_COUNT_MAX: usize = 1 << 19;
/// Bytes of a remembered failure's line; the first answer has the whole.
const FAILURE_LINE_SIZE_MAX: usize = 256;

const _: () = assert!(SESSION_OUTCOME_COUNT_MAX <= OUTCOME_COUNT_MAX);
// Where there are too many sessions, some of them are idle.
const _: () = assert!(OUTCOME_COUNT_MAX < SESSION_COUNT_MAX);

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
    /// Since when it has no outcomes.
    idle: Option<Duration>,
    outcomes: BTreeMap<MutationNumber, (Duration, Outcome)>,
}

/// All that is remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcomes {
    sessions: BTreeMap<SessionId, Session>,
    /// In order of log time.
    by_time: BTreeSet<(Duration, MutationName)>,
    /// Sessions without outcomes, each once, in order of the time since when.
    idle: BTreeSet<(Duration, SessionId)>,
}

impl Outcomes {
    pub(super) fn get(&self, mutation: MutationName) -> Remembered<'_> {
        let Some(session) = self.sessions.get(&mutation.session) else { return Remembered::New };
        match session.outcomes.get(&mutation.number) {
            Some((_, outcome)) => Remembered::Done(outcome),
            None if mutation.number <= session.floor => Remembered::TooOld,
            None => Remembered::New,
        }
    }

    /// Keeps the outcome of a new mutation (H2).
    pub(super) fn keep(&mut self, time: Duration, mutation: MutationName, outcome: Outcome) {
        let session = self.sessions.entry(mutation.session).or_default();
        session.last = time;
        if let Some(since) = session.idle.take() {
            self.idle.remove(&(since, mutation.session));
        }
        session.outcomes.insert(mutation.number, (time, short(outcome)));
        self.by_time.insert((time, mutation));
        if session.outcomes.len() > SESSION_OUTCOME_COUNT_MAX
            && let Some((number, (kept, _))) = session.outcomes.first_key_value()
        {
            let lowest = (*kept, MutationName { number: *number, ..mutation });
            self.forget_one(time, lowest);
        }
        if self.by_time.len() > OUTCOME_COUNT_MAX
            && let Some(&oldest) = self.by_time.first()
        {
            self.forget_one(time, oldest);
        }
        if self.sessions.len() > SESSION_COUNT_MAX
            && let Some((_, id)) = self.idle.pop_first()
        {
            self.sessions.remove(&id);
        }
    }

    /// Forgets what is older than `window` before `now`, which is log time.
    pub(super) fn forget(&mut self, now: Duration, window: Duration) {
        let expired = |time: Duration, span: Duration| time.saturating_add(span) < now;
        let floor_kept = window.saturating_mul(FLOOR_WINDOWS);
        while let Some(&(time, mutation)) = self.by_time.first()
            && expired(time, window)
        {
            self.forget_one(now, (time, mutation));
        }
        while let Some(&(since, id)) = self.idle.first()
            && expired(since, floor_kept)
        {
            self.idle.remove(&(since, id));
            self.sessions.remove(&id);
        }
    }

    /// Forgets one outcome, which is remembered; its number and all below are refused from now on.
    fn forget_one(&mut self, now: Duration, (time, mutation): (Duration, MutationName)) {
        self.by_time.remove(&(time, mutation));
        let Some(session) = self.sessions.get_mut(&mutation.session) else { return };
        session.outcomes.remove(&mutation.number);
        session.floor = session.floor.max(mutation.number);
        if session.outcomes.is_empty() {
            session.idle = Some(now);
            self.idle.insert((now, mutation.session));
        }
    }

    /// Every outcome in order of log time, for a checkpoint.
    pub(super) fn kept(&self) -> impl Iterator<Item = (Duration, MutationName, &Outcome)> {
        self.by_time.iter().filter_map(|(time, mutation)| {
            let session = self.sessions.get(&mutation.session)?;
            let (_, outcome) = session.outcomes.get(&mutation.number)?;
            Some((*time, *mutation, outcome))
        })
    }

    /// Every session that has forgotten something, if only number 0, as `(session, floor, last
    /// mutation)`.
    pub(super) fn floors(
        &self,
    ) -> impl Iterator<Item = (SessionId, MutationNumber, Duration)> + use<'_> {
        let forgetful = |(_, session): &(_, &Session)| {
            session.floor > MutationNumber::default() || session.idle.is_some()
        };
        let forgetful = self.sessions.iter().filter(forgetful);
        forgetful.map(|(id, session)| (*id, session.floor, session.last))
    }

    /// The sessions without outcomes, for a checkpoint.
    pub(super) fn idle(&self) -> impl Iterator<Item = (Duration, SessionId)> + use<'_> {
        self.idle.iter().copied()
    }

    pub(super) fn load_floor(&mut self, id: SessionId, floor: MutationNumber, last: Duration) {
        let session = self.sessions.entry(id).or_default();
        session.floor = floor;
        session.last = session.last.max(last);
    }

    pub(super) fn load_idle(&mut self, since: Duration, id: SessionId) {
        self.sessions.entry(id).or_default().idle = Some(since);
        self.idle.insert((since, id));
    }
}

/// An outcome as it is remembered (H2).
fn short(mut outcome: Outcome) -> Outcome {
    if let Outcome::Failed(failure) = &mut outcome {
        failure.shorten(FAILURE_LINE_SIZE_MAX);
        failure.message.shrink_to_fit();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::{
        OUTCOME_COUNT_MAX, Outcomes, Remembered, SESSION_COUNT_MAX, SESSION_OUTCOME_COUNT_MAX,
    };
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

    #[test]
    fn however_fast_clients_go_the_oldest_are_forgotten_and_refused() {
        let outcome = Outcome::Changed(Changed::default());
        let mut outcomes = Outcomes::default();
        let count = 2 * SESSION_OUTCOME_COUNT_MAX as u64;
        for number in 1..=count {
            outcomes.keep(at(number / 1000), name(number), outcome.clone());
        }
        assert_eq!(outcomes.kept().count(), SESSION_OUTCOME_COUNT_MAX);
        assert_eq!(outcomes.by_time.len(), SESSION_OUTCOME_COUNT_MAX);
        assert_eq!(outcomes.get(name(count / 2)), Remembered::TooOld);
        assert_eq!(outcomes.get(name(count / 2 + 1)), Remembered::Done(&outcome));

        let mut outcomes = Outcomes::default();
        let of = |session: u64| MutationName { session: SessionId::new(session.into()), ..name(1) };
        let count = 3 * OUTCOME_COUNT_MAX as u64;
        for session in 1..=count {
            outcomes.keep(at(session), of(session), outcome.clone());
        }
        assert_eq!(outcomes.by_time.len(), OUTCOME_COUNT_MAX);
        assert_eq!(outcomes.sessions.len(), SESSION_COUNT_MAX);
        assert_eq!(outcomes.idle.len(), SESSION_COUNT_MAX - OUTCOME_COUNT_MAX);
        let oldest = count - OUTCOME_COUNT_MAX as u64;
        assert_eq!(outcomes.get(of(oldest)), Remembered::TooOld);
        assert_eq!(outcomes.get(of(oldest + 1)), Remembered::Done(&outcome));
    }

    #[test]
    fn a_session_that_speaks_again_is_not_forgotten_by_its_former_silence() {
        let mut outcomes = Outcomes::default();
        let outcome = Outcome::Changed(Changed::default());
        outcomes.keep(at(0), name(5), outcome.clone());
        outcomes.forget(at(200), at(100));
        outcomes.keep(at(14_000), name(6), outcome.clone());
        outcomes.forget(at(14_700), at(100));
        assert_eq!(outcomes.get(name(6)), Remembered::TooOld);
        outcomes.keep(at(14_700), name(7), outcome);
        assert_eq!(outcomes.idle.len(), 0);
    }
}
