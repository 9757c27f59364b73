//! Chunks placed on a server lately (GFS §4.2): each is about to be written to, so a server with
//! many of them is busy for a while.
//!
//! Whoever writes fills a chunk for seconds. So what is placed counts for as long, on all servers
//! alike: were it forgotten sooner, chunks that are made together would lie on few of them.

use cairn_types::Time;
use std::time::Duration;

/// After each such span what was placed before counts half as much.
const HALVED_EVERY: Duration = Duration::from_secs(20);
/// What a chunk counts that was just placed.
pub(crate) const CREATION_WEIGHT: u32 = 16;

/// What was placed on one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentCreations {
    weight: u32,
    /// The span in which it counts so much.
    span: u64,
}

impl RecentCreations {
    /// One more.
    pub(crate) fn add(&mut self, now: Time) {
        let weight = self.weight(now).saturating_add(CREATION_WEIGHT);
        assert!(self.span <= span_of(now), "time goes forward");
        *self = Self { weight, span: span_of(now) };
    }

    /// What they count now.
    pub(crate) fn weight(self, now: Time) -> u32 {
        let halvings = u32::try_from(span_of(now).saturating_sub(self.span)).unwrap_or(u32::MAX);
        self.weight.checked_shr(halvings).unwrap_or_default()
    }
}

/// Which of the spans `now` is in, after each of which weights are halved. They are counted from
/// zero for all servers alike, so that whoever was chosen first is forgotten first.
fn span_of(now: Time) -> u64 {
    let nanos = u64::try_from(HALVED_EVERY.as_nanos()).expect("some seconds");
    now.as_nanos() / nanos
}

#[cfg(test)]
mod tests {
    use super::{CREATION_WEIGHT, HALVED_EVERY, RecentCreations};
    use cairn_types::Time;
    use std::time::Duration;

    #[test]
    fn what_was_placed_counts_half_as_much_after_a_while_and_nothing_in_the_end() {
        let (mut recent, start) = (RecentCreations::default(), Time::from_nanos(7));
        recent.add(start);
        recent.add(start + Duration::from_secs(10));
        assert_eq!(recent.weight(start + Duration::from_secs(10)), 2 * CREATION_WEIGHT);
        recent.add(start + HALVED_EVERY);
        assert_eq!(recent.weight(start + HALVED_EVERY), 2 * CREATION_WEIGHT);
        assert_eq!(recent.weight(start + 3 * HALVED_EVERY), CREATION_WEIGHT / 2);
        assert_eq!(recent.weight(start + 100 * HALVED_EVERY), 0);
    }
}
