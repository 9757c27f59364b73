//! Outcomes of namespace mutations, so that a retry is answered and not done again (R24).
//!
//! ```text
//!   kept      (session, number) → log time, outcome       by_time  (log time, session, number)
//!   sessions  session → floor, highest, count of outcomes, since when it has none
//!   idle      (since when it has no outcomes, session)
//! ```
//! - H1: what is forgotten, and when, follows from the log alone, so that every replay forgets the
//!   same; and a number at or below a forgotten one is refused, never done again.
//! - H2: memory is bounded however fast clients go: at most [`OUTCOME_COUNT_MAX`] outcomes, of
//!   [`SESSION_OUTCOME_COUNT_MAX`] in one session, in at most [`SESSION_COUNT_MAX`] sessions. What
//!   comes first goes first, then sooner than `retry_window`: at ten thousand mutations a second
//!   still after half a minute.

use super::map::{DamageMark, Map};
use super::packing::{Packed, put_near, put_number};
use crate::outcome::Outcome;
use cairn_types::wire::Message;
use cairn_types::{MutationName, MutationNumber, SessionId};
use std::time::Duration;

/// Forgotten numbers of a session are known for so many retry windows after its last mutation.
/// No packet is on its way for a day.
const FLOOR_WINDOWS: u32 = 144;

/// Halvings of the counts below, for this crate's own tests: to fill them must not take minutes.
const FEWER: u32 = if cfg!(test) { 4 } else { 0 };
/// Outcomes that are remembered in all.
const OUTCOME_COUNT_MAX: u64 = 1 << (18 - FEWER);
/// Outcomes that are remembered of one session; a client has no more on their way.
const SESSION_OUTCOME_COUNT_MAX: u64 = 1 << (14 - FEWER);
/// Sessions that are remembered, most of them by the last number that they forgot.
const SESSION_COUNT_MAX: u64 = 1 << (19 - FEWER);
/// Bytes of a remembered failure's line; the first answer has the whole.
const FAILURE_LINE_SIZE_MAX: usize = 256;

const _: () = assert!(SESSION_OUTCOME_COUNT_MAX <= OUTCOME_COUNT_MAX);
// Where there are too many sessions, some of them are idle.
const _: () = assert!(OUTCOME_COUNT_MAX < SESSION_COUNT_MAX);

/// What is known of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// Never heard of.
    New,
    /// It is in the log already; this came of it.
    Done(Outcome),
    /// Older than what is remembered: it may or may not have been done.
    TooOld,
}

/// A session that has outcomes, or had some not too long ago.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Session {
    /// Numbers up to this one are forgotten.
    floor: MutationNumber,
    /// No number above this one was ever heard of.
    highest: MutationNumber,
    /// Outcomes that are remembered.
    count: u64,
    /// Since when it has none.
    idle: Option<Duration>,
}

impl Session {
    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        put_number(&mut out, self.floor.get());
        put_near(&mut out, self.highest.get(), self.floor.get());
        put_number(&mut out, self.count);
        if let Some(since) = self.idle {
            put_number(&mut out, millis(since));
        }
        out
    }

    fn unpack(packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let floor = packed.number()?;
        let (highest, count) = (packed.near(floor)?, packed.number()?);
        let [floor, highest] = [floor, highest].map(MutationNumber::new);
        let idle = match packed.0 {
            [] => None,
            _ => Some(Duration::from_millis(packed.number()?)),
        };
        packed.end(Self { floor, highest, count, idle })
    }
}

/// All that is remembered.
#[derive(Clone, Debug)]
pub(super) struct Outcomes {
    kept: Map,
    by_time: Map,
    sessions: Map,
    idle: Map,
    /// With this window nothing is to be forgotten up to this log time: so that the trees need not
    /// be asked at each record.
    quiet: Option<(Duration, Duration)>,
}

impl PartialEq for Outcomes {
    fn eq(&self, other: &Self) -> bool {
        self.maps() == other.maps()
    }
}

impl Outcomes {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self::of([(); 4].map(|()| Map::new(mark)))
    }

    /// From what an image has.
    pub(super) fn of([kept, by_time, sessions, idle]: [Map; 4]) -> Self {
        Self { kept, by_time, sessions, idle, quiet: None }
    }

    pub(super) fn maps(&self) -> [&Map; 4] {
        [&self.kept, &self.by_time, &self.sessions, &self.idle]
    }

    pub(super) fn maps_mut(&mut self) -> [&mut Map; 4] {
        [&mut self.kept, &mut self.by_time, &mut self.sessions, &mut self.idle]
    }

    pub(super) fn get(&self, mutation: MutationName) -> Remembered {
        let Some(session) = self.session(mutation.session) else { return Remembered::New };
        if mutation.number > session.highest {
            return Remembered::New;
        }
        match self.kept.get(&kept_key(mutation), unpack_kept) {
            Some((_, outcome)) => Remembered::Done(outcome),
            None if mutation.number <= session.floor => Remembered::TooOld,
            None => Remembered::New,
        }
    }

    fn session(&self, id: SessionId) -> Option<Session> {
        self.sessions.get(&session_key(id), Session::unpack)
    }

    /// Keeps the outcome of a new mutation (H2).
    pub(super) fn keep(&mut self, time: Duration, mutation: MutationName, outcome: Outcome) {
        let MutationName { session: id, number } = mutation;
        let mut session = self.session(id).unwrap_or_default();
        if let Some(since) = session.idle.take() {
            self.idle.remove(&idle_key(since, id));
        }
        session.highest = session.highest.max(number);
        session.count += 1;
        if session.count > SESSION_OUTCOME_COUNT_MAX
            && let Some((then, lowest)) = self.lowest(id, &session)
        {
            self.take_out(&mut session, then, lowest);
        }
        self.sessions.set(&session_key(id), &session.pack());
        let mut kept = Vec::with_capacity(32);
        put_number(&mut kept, millis(time));
        short(outcome).encode(&mut kept);
        self.kept.set(&kept_key(mutation), &kept);
        self.by_time.set(&time_key(time, mutation), &[]);
        if self.by_time.len() > OUTCOME_COUNT_MAX
            && let Some(oldest) = self.by_time.first(unpack_time)
        {
            self.forget_one(time, oldest);
        }
        if self.sessions.len() > SESSION_COUNT_MAX
            && let Some((since, id)) = self.idle.first(unpack_idle)
        {
            self.idle.remove(&idle_key(since, id));
            self.sessions.remove(&session_key(id));
        }
    }

    /// The number of a session whose outcome goes first, with its time: the lowest, or the one
    /// after the floor. What is below that still goes by its time.
    fn lowest(&self, id: SessionId, session: &Session) -> Option<(Duration, MutationName)> {
        // A client counts without gaps, so it mostly is the one that comes next.
        let next = MutationName { session: id, number: session.floor.next() };
        if let Some((time, _)) = self.kept.get(&kept_key(next), unpack_kept) {
            return Some((time, next));
        }
        self.kept.walk(&session_key(id)).unpack(|key, packed| {
            let (time, _) = unpack_kept(packed)?;
            Some(Some((time, unpack_name(&mut Packed(key))?)))
        })
    }

    /// Forgets what is older than `window` before `now`, which is log time.
    pub(super) fn forget(&mut self, now: Duration, window: Duration) {
        if self.quiet.is_some_and(|(of, until)| of == window && now <= until) {
            return;
        }
        // What comes later expires later.
        let mut until = now.saturating_add(window);
        while let Some(oldest) = self.by_time.first(unpack_time) {
            let expires = oldest.0.saturating_add(window);
            let left = self.by_time.len();
            if now <= expires {
                until = until.min(expires);
                break;
            }
            self.forget_one(now, oldest);
            // What cannot be taken out is damaged, and was noted.
            if self.by_time.len() == left {
                return;
            }
        }
        let floor_kept = window.saturating_mul(FLOOR_WINDOWS);
        while let Some((since, id)) = self.idle.first(unpack_idle) {
            let expires = since.saturating_add(floor_kept);
            let left = self.idle.len();
            if now <= expires {
                until = until.min(expires);
                break;
            }
            self.idle.remove(&idle_key(since, id));
            self.sessions.remove(&session_key(id));
            if self.idle.len() == left {
                return;
            }
        }
        self.quiet = Some((window, until));
    }

    /// Forgets one outcome, which is remembered; its number and all below are refused from now on.
    fn forget_one(&mut self, now: Duration, (time, mutation): (Duration, MutationName)) {
        let Some(mut session) = self.session(mutation.session) else {
            // Noted as damage; what names it goes all the same.
            return self.by_time.remove(&time_key(time, mutation));
        };
        self.take_out(&mut session, time, mutation);
        if session.count == 0 {
            session.idle = Some(now);
            self.idle.set(&idle_key(now, mutation.session), &[]);
        }
        self.sessions.set(&session_key(mutation.session), &session.pack());
    }

    /// Takes out one outcome of a session, which remains to be set.
    fn take_out(&mut self, session: &mut Session, time: Duration, mutation: MutationName) {
        self.by_time.remove(&time_key(time, mutation));
        self.kept.remove(&kept_key(mutation));
        session.floor = session.floor.max(mutation.number);
        session.count = session.count.saturating_sub(1);
    }
}

/// Log time as it is packed; it is made of whole milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn session_key(id: SessionId) -> [u8; 16] {
    id.get().to_be_bytes()
}

fn kept_key(mutation: MutationName) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&session_key(mutation.session));
    key[16..].copy_from_slice(&mutation.number.get().to_be_bytes());
    key
}

fn time_key(time: Duration, mutation: MutationName) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&millis(time).to_be_bytes());
    key[8..].copy_from_slice(&kept_key(mutation));
    key
}

fn idle_key(since: Duration, id: SessionId) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&millis(since).to_be_bytes());
    key[8..].copy_from_slice(&session_key(id));
    key
}

fn unpack_name(key: &mut Packed<'_>) -> Option<MutationName> {
    let session = SessionId::new(key.wide_key()?);
    Some(MutationName { session, number: MutationNumber::new(key.key()?) })
}

fn unpack_time(key: &[u8]) -> Option<(Duration, MutationName)> {
    let mut key = Packed(key);
    let time = Duration::from_millis(key.key()?);
    let name = unpack_name(&mut key)?;
    key.end((time, name))
}

fn unpack_idle(key: &[u8]) -> Option<(Duration, SessionId)> {
    let mut key = Packed(key);
    let since = Duration::from_millis(key.key()?);
    let id = SessionId::new(key.wide_key()?);
    key.end((since, id))
}

fn unpack_kept(packed: &[u8]) -> Option<(Duration, Outcome)> {
    let mut packed = Packed(packed);
    let time = Duration::from_millis(packed.number()?);
    Some((time, Outcome::decode(packed.0).ok()?))
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
        DamageMark, OUTCOME_COUNT_MAX, Outcomes, Remembered, SESSION_COUNT_MAX,
        SESSION_OUTCOME_COUNT_MAX,
    };
    use crate::outcome::{Changed, Outcome};
    use cairn_types::{MutationName, MutationNumber, SessionId};
    use std::time::Duration;

    fn empty() -> Outcomes {
        Outcomes::new(&DamageMark::default())
    }

    fn name(number: u64) -> MutationName {
        MutationName { session: SessionId::new(7), number: MutationNumber::new(number) }
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn an_outcome_is_kept_for_the_window_and_its_number_refused_after_it() {
        let mut outcomes = empty();
        let outcome = Outcome::Changed(Changed::default());
        outcomes.keep(at(1000), name(1), outcome.clone());
        outcomes.keep(at(1500), name(2), outcome.clone());
        outcomes.forget(at(1100), at(100));
        assert_eq!(outcomes.get(name(1)), Remembered::Done(outcome.clone()));
        outcomes.forget(at(1101), at(100));
        assert_eq!(outcomes.get(name(1)), Remembered::TooOld);
        assert_eq!(outcomes.get(name(2)), Remembered::Done(outcome.clone()));
        assert_eq!(outcomes.get(name(3)), Remembered::New);
    }

    #[test]
    fn a_session_that_is_long_silent_is_forgotten_whole() {
        let mut outcomes = empty();
        outcomes.keep(at(0), name(5), Outcome::Changed(Changed::default()));
        outcomes.forget(at(200), at(100));
        assert_eq!(outcomes.get(name(5)), Remembered::TooOld);
        outcomes.forget(at(100_000), at(100));
        assert_eq!(outcomes.get(name(5)), Remembered::New);
        assert_eq!(outcomes, empty());
    }

    #[test]
    fn however_fast_clients_go_the_oldest_are_forgotten_and_refused() {
        let outcome = Outcome::Changed(Changed::default());
        let mut outcomes = empty();
        let count = 2 * SESSION_OUTCOME_COUNT_MAX;
        for number in 1..=count {
            outcomes.keep(at(number / 1000), name(number), outcome.clone());
        }
        assert_eq!(outcomes.kept.len(), SESSION_OUTCOME_COUNT_MAX);
        assert_eq!(outcomes.by_time.len(), SESSION_OUTCOME_COUNT_MAX);
        assert_eq!(outcomes.get(name(count / 2)), Remembered::TooOld);
        assert_eq!(outcomes.get(name(count / 2 + 1)), Remembered::Done(outcome.clone()));

        let mut outcomes = empty();
        let of = |session: u64| MutationName { session: SessionId::new(session.into()), ..name(1) };
        let count = 3 * OUTCOME_COUNT_MAX;
        for session in 1..=count {
            outcomes.keep(at(session), of(session), outcome.clone());
        }
        assert_eq!(outcomes.by_time.len(), OUTCOME_COUNT_MAX);
        assert_eq!(outcomes.sessions.len(), SESSION_COUNT_MAX);
        assert_eq!(outcomes.idle.len(), SESSION_COUNT_MAX - OUTCOME_COUNT_MAX);
        let oldest = count - OUTCOME_COUNT_MAX;
        assert_eq!(outcomes.get(of(oldest)), Remembered::TooOld);
        assert_eq!(outcomes.get(of(oldest + 1)), Remembered::Done(outcome.clone()));
    }

    #[test]
    fn a_session_that_speaks_again_is_not_forgotten_by_its_former_silence() {
        let mut outcomes = empty();
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
