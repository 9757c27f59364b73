//! When this member stands for election, and when it votes for nobody.
//!
//! - EC1: the library draws its patience from randomness of its own, and one seed would not be one
//!   run: it is told ours instead, drawn anew with each term and role.
//! - EC2: who starts anew has forgotten whose heartbeats it answered: for as long as such an answer
//!   may be relied upon it votes for nobody, and is deaf to who asks (`leadership`, LD1).

use crate::ticks::ELECTION_TICKS;
use cairn_types::Random;
use raft::StateRole;

/// Patience is drawn from `ELECTION_TICKS` up to this many more.
const SPREAD: usize = ELECTION_TICKS / 2;

/// Below this the library's own bound lies.
pub(crate) const PATIENCE_END: usize = ELECTION_TICKS + SPREAD;

/// Draws patience, and counts the first ticks.
#[derive(Debug)]
pub(crate) struct ElectionClock {
    random: Random,
    drawn_for: (u64, StateRole),
    patience: usize,
    deaf_ticks: usize,
}

impl ElectionClock {
    /// Of a member that has just started.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let patience = draw(&mut random);
        let drawn_for = (0, StateRole::Follower);
        Self { random, drawn_for, patience, deaf_ticks: ELECTION_TICKS }
    }

    /// Ticks without a word of a primary until this member, in this term and role, stands (EC1).
    pub(crate) fn patience(&mut self, term: u64, role: StateRole) -> usize {
        if self.drawn_for != (term, role) {
            self.drawn_for = (term, role);
            self.patience = draw(&mut self.random);
        }
        self.patience
    }

    pub(crate) fn tick(&mut self) {
        self.deaf_ticks = self.deaf_ticks.saturating_sub(1);
    }

    /// Whether it votes for nobody yet (EC2).
    pub(crate) fn is_deaf(&self) -> bool {
        self.deaf_ticks > 0
    }
}

fn draw(random: &mut Random) -> usize {
    let more = random.below(SPREAD as u64);
    ELECTION_TICKS + usize::try_from(more).expect("a few ticks")
}

#[cfg(test)]
mod tests {
    use super::{ELECTION_TICKS, ElectionClock, PATIENCE_END};
    use raft::StateRole;

    #[test]
    fn patience_is_drawn_once_for_a_term_and_role_within_its_bounds() {
        let mut clock = ElectionClock::new(4);
        let drawn: Vec<usize> = (1..200)
            .map(|term| {
                let patience = clock.patience(term, StateRole::Follower);
                assert_eq!(clock.patience(term, StateRole::Follower), patience);
                patience
            })
            .collect();
        assert!(drawn.iter().all(|ticks| (ELECTION_TICKS..PATIENCE_END).contains(ticks)));
        assert!(drawn.iter().any(|ticks| *ticks != drawn[0]), "or two could tie for ever");
    }

    #[test]
    fn who_starts_anew_is_deaf_for_as_long_as_its_answers_may_be_relied_upon() {
        let mut clock = ElectionClock::new(4);
        for _ in 0..ELECTION_TICKS {
            assert!(clock.is_deaf(), "EC2");
            clock.tick();
        }
        assert!(!clock.is_deaf());
    }
}
