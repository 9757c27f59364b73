//! Whether this member is still the primary, as far as time can tell (R21, R23).
//!
//! ```text
//!   heartbeats of round n sent ──► a majority answers n ──► confirmed since they were *sent*,
//!        t                                                   and until t + LEADERSHIP
//! ```
//! - LD1: who has answered a heartbeat votes for nobody before `ELECTION_TICKS` ticks of its own
//!   clock have passed since it came, of which the first may be as good as over: not before
//!   `ELECTION_TICKS − 1` ticks. Who was started anew votes for nobody for as long (`group`).
//! - LD2: so for that long, less what two clocks may drift apart (R4), no other member can have
//!   been elected, and what this one has applied is all that was answered to anyone.
//! - LD3: rounds of another term, or of other members, count for nothing. Nor does anything once
//!   leadership has been handed over: then others vote without waiting.
//! - LD4: a step to another group takes nothing while it is on its way. Others may know its end
//!   before this member does; but who can elect as the new group has taken the step from this one,
//!   after the round was sent, and votes for nobody else for as long (LD1).
//! - LD5: whom others hear and who hears nobody keeps them from an election and can do nothing
//!   itself: it leaves charge to one of them. It counts its own rounds, not time: while it stood
//!   still nobody could answer.

use crate::ticks::{ELECTION_TICKS, TICK};
use cairn_types::Time;
use cairn_types::planted::{Rule, broken};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a majority's answer is good for, by clocks that do not drift (LD1).
const LEADERSHIP: Duration = TICK.saturating_mul(ELECTION_TICKS as u32 - 1);

/// The rounds of one term with the same members.
#[derive(Debug, Default)]
pub(crate) struct Leadership {
    /// Counts up for ever: a late answer to an earlier term's round is never taken for another.
    round: u64,
    /// Rounds that nobody has confirmed yet, and when their heartbeats were sent.
    sent: VecDeque<(u64, Time)>,
    confirmed: Option<Time>,
    handed_over: bool,
}

impl Leadership {
    /// Another round of heartbeats goes out; its number.
    pub(crate) fn begin(&mut self, now: Time) -> u64 {
        self.round += 1;
        self.sent.push_back((self.round, now));
        self.round
    }

    /// A majority has answered this round, and with it all before.
    pub(crate) fn confirm(&mut self, round: u64) {
        while let Some((number, at)) = self.sent.front().copied()
            && number <= round
        {
            self.confirmed = self.confirmed.max(Some(at));
            self.sent.pop_front();
        }
    }

    /// Another term, or other members: nothing is confirmed (LD3).
    pub(crate) fn forget(&mut self) {
        *self = Self { round: self.round, handed_over: self.handed_over, ..Self::default() };
    }

    /// Another term begins: what was handed over is of the past.
    pub(crate) fn begin_term(&mut self) {
        self.handed_over = false;
        self.forget();
    }

    /// From here on others may vote at any time (LD3).
    pub(crate) fn hand_over(&mut self) {
        self.handed_over = true;
    }

    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over
    }

    /// Whether no majority has answered for so many rounds that others could be elected, if they
    /// did not hear this member (LD5).
    pub(crate) fn is_unanswered(&self) -> bool {
        self.sent.len() + 1 >= ELECTION_TICKS
    }

    /// Whether no other member can have been elected yet (LD2).
    pub(crate) fn is_confirmed(&self, now: Time, drift_permille: u64) -> bool {
        let drift = u32::try_from(2 * drift_permille).unwrap_or(u32::MAX).min(1000);
        let holds = LEADERSHIP * (1000 - drift) / 1000;
        // R21 broken: who was in charge once relies on it for ever.
        let holds = if broken(Rule::R21) { Duration::MAX / 4 } else { holds };
        !self.handed_over && self.confirmed.is_some_and(|at| now < at + holds)
    }
}

#[cfg(test)]
mod tests {
    use super::{LEADERSHIP, Leadership};
    use cairn_types::Time;
    use std::time::Duration;

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(ms)
    }

    #[test]
    fn leadership_counts_from_when_the_heartbeats_were_sent_and_less_what_clocks_drift() {
        let mut leadership = Leadership::default();
        let first = leadership.begin(at(1000));
        let second = leadership.begin(at(1100));
        assert!(!leadership.is_confirmed(at(1100), 0), "nobody has answered");
        leadership.confirm(first);
        let end = |sent: u64| at(sent) + LEADERSHIP;
        let moment = Duration::from_nanos(1);
        assert!(leadership.is_confirmed(end(1000) - moment, 0));
        assert!(!leadership.is_confirmed(end(1000), 0), "from when they were sent");
        assert!(!leadership.is_confirmed(end(1000) - moment, 10), "less what clocks drift (R4)");
        leadership.confirm(second);
        leadership.confirm(first);
        assert!(leadership.is_confirmed(end(1100) - moment, 0), "an older answer takes nothing");
        assert!(!leadership.is_confirmed(at(1200), 500), "clocks that nothing can be said of");
    }

    #[test]
    fn rounds_before_a_change_of_members_or_a_hand_over_confirm_nothing() {
        let mut leadership = Leadership::default();
        let old = leadership.begin(at(0));
        leadership.forget();
        leadership.confirm(old);
        assert!(!leadership.is_confirmed(at(1), 0));
        let new = leadership.begin(at(1));
        assert!(new > old);
        leadership.confirm(new);
        assert!(leadership.is_confirmed(at(2), 0));
        leadership.hand_over();
        assert!(!leadership.is_confirmed(at(2), 0));
        leadership.forget();
        let third = leadership.begin(at(3));
        leadership.confirm(third);
        assert!(!leadership.is_confirmed(at(4), 0), "handed over for as long as the term lasts");
        leadership.begin_term();
        let fourth = leadership.begin(at(5));
        leadership.confirm(fourth);
        assert!(leadership.is_confirmed(at(6), 0));
    }
}
