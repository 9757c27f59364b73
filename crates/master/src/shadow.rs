//! This member while it is not in charge: whom it answers, and how far behind it says that it is.
//!
//! ```text
//!   a stamp to the primary ──► "I have applied so much", with that stamp ──┐
//!   committed records ──► applied here: as much as that ───────────────────┴─► up to date then
//! ```
//! - SM1: it answers what is asked of a shadow and nothing else; a primary answers none of that
//!   (R21, R23).
//! - SM2: how far behind it may be is counted from when this member sent what a primary had heard
//!   before it said, while no other could be there, how much it had applied: nobody had been
//!   answered by more. A word that was long on its way is as old as it is.

use cairn_env::{Caller, Now};
use cairn_master_core::{ShadowCore, State};
use cairn_protocol::{
    AskShadow, AskShadowAnswer, ErrorCode, Failure, Response, ShadowWord, TellShadow,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{EntryId, Identity, LogIndex, Term, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What a primary says more often than that is not noted.
const NOTED_EVERY: Duration = Duration::from_millis(10);
/// Words of the primary that wait for as much to be applied here.
const NOTED_MAX: usize = 256;

/// How far behind this member is.
#[derive(Debug, Default)]
struct Freshness {
    /// What the primary had applied, and since when for certain, in their order.
    heard: VecDeque<(Time, LogIndex)>,
    /// It was up to date then.
    current: Option<Time>,
}

impl Freshness {
    fn heard(&mut self, (since, applied): (Time, LogIndex), here: LogIndex) {
        // Nobody may ask for hours: what has been caught up with makes room for later words.
        self.catch_up(here);
        // `Time::since` is zero for what lies ahead: an older word says nothing new.
        let is_soon = |(last, _): &(Time, LogIndex)| since.since(*last) < NOTED_EVERY;
        if self.heard.len() < NOTED_MAX && !self.heard.back().is_some_and(is_soon) {
            self.heard.push_back((since, applied));
        }
    }

    fn behind(&mut self, now: Time, here: LogIndex) -> Option<Duration> {
        self.catch_up(here);
        self.current.map(|current| now.since(current))
    }

    fn catch_up(&mut self, here: LogIndex) {
        while let Some((heard, _)) = self.heard.pop_front_if(|(_, index)| *index <= here) {
            self.current = self.current.max(Some(heard));
        }
    }
}

/// A reader who waited, and what he is told.
type ToldReader = (Caller, Result<Response, Failure>);

/// What readers and chunkservers have of this member.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    /// None until somebody asks.
    core: Option<ShadowCore>,
    freshness: Freshness,
}

/// Who is in charge, or belongs to no cell yet, is no shadow (SM1).
fn no_shadow(why: &str) -> Failure {
    Failure::not_done(ErrorCode::Invalid, format!("this master is no shadow: {why}"))
}

impl Shadow {
    /// The member is in charge: what chunkservers told is forgotten, and told the primary anew.
    /// Who waited here is told to ask elsewhere.
    pub(crate) fn end(&mut self) -> Vec<ToldReader> {
        let core = std::mem::take(self).core;
        let waited = core.map(|mut core| core.leave_followers()).unwrap_or_default();
        waited.into_iter().map(|from| (from, Err(no_shadow("it is in charge")))).collect()
    }

    /// A stream is longer: who is told of it.
    pub(crate) fn grown(&mut self, now: Now, state: &State, file: EntryId) -> Vec<ToldReader> {
        let told = self.core.as_mut().map(|core| core.grown(state, file)).unwrap_or_default();
        self.say_all(now, state, told)
    }

    /// Time has passed: who has waited for as long as he would.
    pub(crate) fn over(&mut self, now: Now, state: &State) -> Vec<ToldReader> {
        let told = self.core.as_mut().map(|core| core.over(now, state)).unwrap_or_default();
        self.say_all(now, state, told)
    }

    fn say_all(
        &mut self,
        now: Now,
        state: &State,
        told: Vec<(Caller, ShadowWord)>,
    ) -> Vec<ToldReader> {
        told.into_iter().map(|(from, word)| (from, Ok(self.say(now, state, word)))).collect()
    }

    /// A word, and how old it may be.
    fn say(&mut self, now: Now, state: &State, word: ShadowWord) -> Response {
        let applied = state.applied();
        let mut behind = self.freshness.behind(now.time, applied);
        if broken(Rule::A26) {
            behind = behind.map(|_| Duration::ZERO);
        }
        let behind_ms = behind.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        Response::AskShadow(AskShadowAnswer { word: word.into(), applied, behind_ms })
    }

    /// Who is in charge says how much it has applied, having heard what was sent here then; as much
    /// as `here` is applied by this member.
    pub(crate) fn primary_applied(&mut self, word: (Time, LogIndex), here: LogIndex) {
        self.freshness.heard(word, here);
    }

    fn core(&mut self, now: Now, state: &State) -> Result<&mut ShadowCore, Failure> {
        if state.cell().is_none() {
            return Err(no_shadow("it has nothing of its cell yet"));
        }
        Ok(self.core.get_or_insert_with(|| ShadowCore::new(now, state)))
    }

    /// A chunkserver tells what it holds.
    pub(crate) fn told(
        &mut self,
        now: Now,
        state: Option<&State>,
        tell: &TellShadow,
    ) -> Result<Response, Failure> {
        let state = state.ok_or_else(|| no_shadow("it is in charge"))?;
        self.core(now, state)?.told(now, state, tell).map(Response::TellShadow)
    }

    /// A reader takes what this member has; none: he waits here.
    pub(crate) fn asked(
        &mut self,
        now: Now,
        (state, term): (Option<&State>, Term),
        (who, from, ask): (&Arc<Identity>, Caller, &AskShadow),
    ) -> Result<Option<Response>, Failure> {
        let state = state.ok_or_else(|| no_shadow("it is in charge"))?;
        let asked = (who, from, &ask.question);
        let word = self.core(now, state)?.answer(now, (state, term), asked);
        Ok(word.map(|word| self.say(now, state, word)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Freshness, NOTED_MAX, Shadow};
    use cairn_env::{Caller, Now};
    use cairn_master_core::State;
    use cairn_protocol::{AskShadow, ErrorCode, TellShadow};
    use cairn_types::{LogIndex, Term, Time};
    use std::sync::Arc;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    fn index(raw: u64) -> LogIndex {
        LogIndex::new(raw)
    }

    #[test]
    fn it_is_as_far_behind_as_the_last_word_of_a_primary_that_it_has_caught_up_with() {
        let mut freshness = Freshness::default();
        assert_eq!(freshness.behind(at(50), index(9)), None, "no primary was heard of");
        let before = index(8);
        freshness.heard((at(100), index(9)), before);
        freshness.heard((at(200), index(12)), before);
        let behind = |freshness: &mut Freshness, now, applied| {
            freshness.behind(at(now), index(applied)).map(|it| it.as_millis())
        };
        assert_eq!(behind(&mut freshness, 230, 8), None);
        assert_eq!(behind(&mut freshness, 230, 11), Some(130));
        assert_eq!(behind(&mut freshness, 230, 12), Some(30));
        assert_eq!(behind(&mut freshness, 5_230, 12), Some(5_030), "the primary is gone");
        for word in 0..10 * NOTED_MAX as u64 {
            freshness.heard((at(6_000 + 20 * word), index(100)), index(99));
        }
        assert_eq!(freshness.heard.len(), NOTED_MAX);
        assert_eq!(behind(&mut freshness, 100_000, 99), Some(99_800));
    }

    #[test]
    fn whom_nobody_asked_for_long_is_as_fresh_as_the_last_word_that_it_heard() {
        let mut freshness = Freshness::default();
        let words = 10 * NOTED_MAX as u64;
        for word in 1..=words {
            freshness.heard((at(20 * word), index(word)), index(word));
        }
        let behind = freshness.behind(at(20 * words + 7), index(words));
        assert_eq!(behind, Some(Duration::from_millis(7)));
    }

    #[test]
    fn who_is_in_charge_or_has_nothing_of_its_cell_is_no_shadow() {
        let (mut shadow, now, state) = (Shadow::default(), Now::default(), State::default());
        let ask = AskShadow::default();
        for state in [None, Some(&state)] {
            let asked = shadow.asked(
                now,
                (state, Term::new(1)),
                (&Arc::default(), Caller::default(), &ask),
            );
            let told = shadow.told(now, state, &TellShadow::default());
            for refused in [asked.err(), told.err()] {
                let code = refused.map(|failure| failure.code);
                assert_eq!(code, Some(ErrorCode::Invalid));
            }
        }
    }
}
