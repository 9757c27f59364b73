//! How fast clones are made: what this server takes from others for all its clones together, and
//! how that gives way to clients (GFS §4.3).
//!
//! ```text
//!   a piece is asked for ─► it lasts for its size at the rate
//!   it is here           ─► clients are busy, here or there: it rests so many times as long as
//!                           that took
//! ```
//! - PC1: of what is asked for, no more comes in a while than the rate gives in that while and in
//!   `BEHIND_MAX`, and one piece.
//! - PC2: while clients are busy here, one piece is on its way at a time, and all rest between two.
//!   What a piece takes is measured, not its size: so clones have whatever is narrowest, a link or
//!   a disk, for one part in `1 + RESTS` of the time, and what clients leave over goes to clones.
//!   A piece that takes longer than `REST_MAX / RESTS` has more: no rest is longer than that.

use crate::client_load::time_at;
use cairn_types::Time;
use std::time::Duration;

/// Pieces in a second at the rate.
const PIECES_A_SECOND: u64 = 8;
/// The largest piece, where the rate has a limit.
const PIECE_SIZE_MAX: u64 = 1 << 20;
/// The largest piece while clients are busy.
const BUSY_PIECE_SIZE_MAX: u64 = 512 << 10;
/// While clients are busy, a rest is so many times as long as the piece before it took.
const RESTS: u32 = 11;
/// No rest is longer. Where many take turns, each waits for longer, and its master is told that it
/// does: what gets on is not given up.
const REST_MAX: Duration = Duration::from_secs(1);
/// What clones that come to their turn late make up for.
const BEHIND_MAX: Duration = Duration::from_millis(250);

/// A piece on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedPiece {
    since: Time,
    /// Bytes that the rate was charged with.
    charged: u64,
    /// Bytes that are asked for; zero: as many as come.
    pub(crate) size_max: u64,
}

/// When clones may ask for more.
#[derive(Debug, Default)]
pub(crate) struct ClonePace {
    /// Bytes a second; zero: there is no limit, and nobody gives way.
    rate: u64,
    /// Until then what was asked for lasts.
    due: Time,
    /// Until then all rest: clients are busy here.
    rests_until: Time,
}

impl ClonePace {
    /// What the master allows.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    /// Whether a piece may be asked for, while others are under way or not.
    pub(crate) fn may_ask(&self, now: Time, clients_busy: bool, others: bool) -> bool {
        if self.rate == 0 {
            return true;
        }
        // PC2
        let waits = clients_busy && (others || now < self.rests_until);
        now >= self.due && !waits
    }

    /// A piece is asked for, of which so many bytes may come at the most.
    pub(crate) fn ask(&mut self, now: Time, clients_busy: bool, left: u64) -> AskedPiece {
        if self.rate == 0 {
            return AskedPiece::unpaced(now);
        }
        let most = if clients_busy { BUSY_PIECE_SIZE_MAX } else { PIECE_SIZE_MAX };
        let size_max = (self.rate / PIECES_A_SECOND).clamp(1, most);
        let charged = size_max.min(left);
        // PC1
        self.due = self.due.max(now - BEHIND_MAX) + time_at(charged, self.rate);
        AskedPiece { since: now, charged, size_max }
    }

    /// It is here, or will not come; says until when its clone rests.
    pub(crate) fn answered(
        &mut self,
        now: Time,
        piece: AskedPiece,
        size: u64,
        (busy_here, busy_there): (bool, bool),
    ) -> Time {
        if self.rate == 0 || piece.size_max == 0 {
            return now;
        }
        // A block may be larger than the piece that was asked for.
        self.due = (self.due + time_at(size, self.rate)) - time_at(piece.charged, self.rate);
        let rest = (RESTS * now.since(piece.since)).min(REST_MAX);
        if busy_here {
            self.rests_until = self.rests_until.max(now + rest);
        }
        assert!(self.rests_until <= now + REST_MAX, "nothing rests for long");
        if busy_there { now + rest } else { now }
    }
}

impl AskedPiece {
    /// One that somebody waits for: it is charged to nobody.
    pub(crate) fn unpaced(now: Time) -> Self {
        Self { since: now, charged: 0, size_max: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::{AskedPiece, ClonePace, PIECE_SIZE_MAX, REST_MAX};
    use cairn_types::Time;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(10_000 + millis)
    }

    fn pace(rate: u64) -> ClonePace {
        let mut pace = ClonePace::default();
        pace.set_rate(rate);
        pace
    }

    /// Bytes that come in ten seconds, each piece after `takes` ms, looked at every `step` ms.
    fn taken(pace: &mut ClonePace, (step, takes): (u64, u64), busy: bool) -> u64 {
        let (mut sum, mut under_way) = (0, None::<(AskedPiece, u64)>);
        for now in (0..10_000).step_by(usize::try_from(step).expect("small")) {
            if let Some((piece, _)) = under_way.filter(|(_, here)| now >= *here) {
                sum += piece.size_max;
                pace.answered(at(now), piece, piece.size_max, (busy, false));
                under_way = None;
            }
            if under_way.is_none() && pace.may_ask(at(now), busy, false) {
                under_way = Some((pace.ask(at(now), busy, u64::MAX), now + takes));
            }
        }
        sum
    }

    #[test]
    fn what_comes_is_what_the_rate_allows_though_clones_come_to_their_turn_late() {
        for rate in [64 << 10, 1 << 20, 6_000_000] {
            for step in [1, 50, 130] {
                let sum = taken(&mut pace(rate), (step, 1), false);
                let most = rate * 10 + rate / 4 + rate / 8;
                assert!((rate * 95 / 10..=most).contains(&sum), "{rate} {step}: {sum}");
            }
        }
    }

    #[test]
    fn beside_busy_clients_clones_have_a_twelfth_of_the_time_of_what_is_narrowest() {
        // 512 KiB take 50 ms: 10 MiB a second, of which a twelfth goes to clones.
        let sum = taken(&mut pace(64 << 20), (1, 50), true);
        let twelfth = 10 * (10 << 20) / 12;
        assert!((twelfth * 97 / 100..=twelfth * 103 / 100).contains(&sum), "{sum}");
    }

    #[test]
    fn beside_busy_clients_one_piece_at_a_time_is_on_its_way() {
        let mut pace = pace(6_000_000);
        assert!(pace.may_ask(at(0), true, false));
        assert!(!pace.may_ask(at(0), true, true));
        assert!(pace.may_ask(at(0), false, true));
        let piece = pace.ask(at(0), true, u64::MAX);
        pace.answered(at(5_000), piece, 1, (true, false));
        let rests = u64::try_from(REST_MAX.as_millis()).expect("small");
        assert!(!pace.may_ask(at(4_999 + rests), true, false), "all rest");
        assert!(pace.may_ask(at(5_000 + rests), true, false), "and not for long");
        assert!(pace.may_ask(at(5_000), false, false), "clients have gone");
    }

    #[test]
    fn a_clone_rests_by_itself_whose_source_has_busy_clients() {
        let mut pace = pace(64 << 20);
        let piece = pace.ask(at(0), false, u64::MAX);
        assert_eq!(pace.answered(at(20), piece, PIECE_SIZE_MAX, (false, true)), at(240));
        assert!(pace.may_ask(at(20), false, false), "others of its server do not");
    }

    #[test]
    fn without_a_limit_nothing_waits_and_what_did_not_come_is_not_charged() {
        let mut free = pace(0);
        let piece = free.ask(at(0), true, u64::MAX);
        assert_eq!((piece.size_max, free.answered(at(9), piece, 99, (true, true))), (0, at(9)));
        assert!(free.may_ask(at(9), true, true));
        let mut slow = pace(800);
        let piece = slow.ask(at(0), false, u64::MAX);
        assert_eq!(piece.size_max, 100);
        for millis in [100, 200, 300] {
            assert_eq!(slow.answered(at(millis), piece, 0, (false, false)), at(millis));
            let again = slow.ask(at(millis), false, u64::MAX);
            assert_eq!(again.size_max, piece.size_max);
        }
        assert!(slow.may_ask(at(300), false, false), "nothing came");
    }
}
