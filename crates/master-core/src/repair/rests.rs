//! Chunks whose clone came to nothing: they rest for a while, longer each time, and the servers
//! that it failed on are not chosen again at once.
//!
//! - RS1: what is kept is bounded, and goes with time.

use cairn_types::{ChunkHandle, ServerId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Chunks that rest at once; of more, each is tried as if it were new (RS1).
const RESTS_MAX: usize = 65_536;
/// A rest is doubled so often at most.
const DOUBLINGS_MAX: u32 = 5;
/// Failures after which the servers avoided are tried again.
const AVOIDED_MAX: usize = 3;

/// One chunk's rest.
#[derive(Debug, Default)]
struct ChunkRest {
    until: Time,
    failures: u32,
    avoided: BTreeSet<ServerId>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Rests {
    by_handle: BTreeMap<ChunkHandle, ChunkRest>,
}

impl Rests {
    /// A clone came to nothing, on this server's account.
    pub(crate) fn note(
        &mut self,
        (now, heartbeat): (Time, Duration),
        handle: ChunkHandle,
        failed: Option<ServerId>,
    ) {
        if self.by_handle.len() >= RESTS_MAX && !self.by_handle.contains_key(&handle) {
            return;
        }
        let rest = self.by_handle.entry(handle).or_default();
        rest.until = now + heartbeat * (1 << rest.failures.min(DOUBLINGS_MAX));
        rest.failures += 1;
        if rest.avoided.len() >= AVOIDED_MAX {
            rest.avoided.clear();
        }
        rest.avoided.extend(failed);
        assert!(self.by_handle.len() <= RESTS_MAX, "what is kept is bounded (RS1)");
    }

    pub(crate) fn rests(&self, now: Time, handle: ChunkHandle) -> bool {
        self.by_handle.get(&handle).is_some_and(|rest| now < rest.until)
    }

    /// How much longer a chunk rests.
    pub(super) fn left(&self, now: Time, handle: ChunkHandle) -> Option<Duration> {
        let rest = self.by_handle.get(&handle).filter(|rest| now < rest.until)?;
        Some(rest.until.since(now))
    }

    /// How many rest now.
    pub(crate) fn count(&self, now: Time) -> u64 {
        self.by_handle.values().filter(|rest| now < rest.until).count() as u64
    }

    pub(crate) fn avoided(&self, handle: ChunkHandle) -> BTreeSet<ServerId> {
        self.by_handle.get(&handle).map(|rest| rest.avoided.clone()).unwrap_or_default()
    }

    /// A clone has joined.
    pub(crate) fn forget(&mut self, handle: ChunkHandle) {
        self.by_handle.remove(&handle);
    }

    /// Time has passed (RS1).
    pub(crate) fn pass(&mut self, now: Time, kept: Duration) {
        self.by_handle.retain(|_, rest| now < rest.until + kept);
    }
}

#[cfg(test)]
mod tests {
    use super::Rests;
    use cairn_types::{ChunkHandle, ServerId, Time};
    use std::time::Duration;

    #[test]
    fn a_chunk_rests_longer_each_time_and_avoids_whom_it_failed_on_until_all_were_tried() {
        let (mut rests, handle) = (Rests::default(), ChunkHandle::new(7));
        let at = |millis| Time::default() + Duration::from_millis(millis);
        let mut fail = |server| {
            rests.note((at(0), Duration::from_millis(100)), handle, Some(ServerId::new(server)));
            let until = (0..).step_by(50).find(|millis| !rests.rests(at(*millis), handle));
            (until.expect("it ends"), rests.avoided(handle).len())
        };
        let all: Vec<(u64, usize)> = [1, 2, 3, 4].map(&mut fail).to_vec();
        assert_eq!(all, [(100, 1), (200, 2), (400, 3), (800, 1)]);
        rests.pass(at(2000), Duration::from_secs(1));
        assert!(rests.avoided(handle).is_empty(), "it goes with time");
    }
}
