//! Troubles: who did not do what a grant wanted, so that the next one wants it otherwise (R11).
//!
//! ```text
//!   of a chunk, until a lease on it serves:   late      asked for a raise, and did not take it
//!                                             blamed    by which primaries, who could not level it
//!                                             failed    leases that came to nothing, by primary
//!   of a server, for a while:                 whom it does not reach, and who does not reach it
//! ```
//! - TR1: one is given up who was late for a whole lease, or whom two primaries of the chunk
//!   blamed: of one word alone nobody knows which of the two is cut off. Whether the set can do
//!   without is for others to say (R11).
//! - TR2: all of it is soft: what is forgotten here is found out again.
//! - TR3: what is kept is bounded, and goes when nothing was heard of it for as long as a server
//!   takes to die.

use crate::leases::GrantedLease;
use cairn_types::{CellConfig, ChunkHandle, ServerId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Chunks that are in trouble at once; of more, each is tried as if it were new (TR3).
const CHUNKS_MAX: usize = 65_536;
/// Servers that one is kept apart from (TR3): two would do.
const APART_MAX: usize = 8;
/// A pause is doubled so often at most.
const DOUBLINGS_MAX: u32 = 4;

/// How long a member of a set has let raises wait.
#[derive(Clone, Copy, Debug)]
struct LateMember {
    /// When the first of those raises was sent, and when the last was given up.
    since: Time,
    until: Time,
    /// It has refused one: an earlier one had reached it, and its answer was lost.
    refused: bool,
}

/// What stands in the way of a lease on one chunk.
#[derive(Debug, Default)]
struct ChunkTrouble {
    late: BTreeMap<ServerId, LateMember>,
    /// Who could not be reached, and by whom.
    blamed: BTreeMap<ServerId, Vec<ServerId>>,
    /// How often a lease of each came to nothing.
    failed: BTreeMap<ServerId, u32>,
    /// No raise before.
    rests_until: Time,
    heard: Time,
}

/// All troubles of a term.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    heartbeat: Duration,
    lease: Duration,
    dead: Duration,
    chunks: BTreeMap<ChunkHandle, ChunkTrouble>,
    /// Who did not get on with whom, and when; with itself: it did not do as it was told.
    apart: BTreeMap<ServerId, BTreeMap<ServerId, Time>>,
}

impl Troubles {
    pub(crate) fn begin(&mut self, config: &CellConfig) {
        assert!(self.chunks.is_empty(), "nothing has failed before the term is served");
        self.heartbeat = Duration::from_millis(config.heartbeat_ms);
        self.lease = config.lease();
        self.dead = Duration::from_millis(config.dead_ms);
    }

    fn chunk(&mut self, now: Time, handle: ChunkHandle) -> Option<&mut ChunkTrouble> {
        let full = self.chunks.len() >= CHUNKS_MAX;
        if full && !self.chunks.contains_key(&handle) {
            return None;
        }
        self.chunks.entry(handle).or_default().heard = now;
        assert!(self.chunks.len() <= CHUNKS_MAX, "what is kept is bounded (TR3)");
        self.chunks.get_mut(&handle)
    }

    /// A member has taken a raise.
    pub(crate) fn note_raised(&mut self, handle: ChunkHandle, server: ServerId) {
        if let Some(chunk) = self.chunks.get_mut(&handle) {
            chunk.late.remove(&server);
        }
    }

    /// A member has not taken the raise that was sent at `asked`. The chunk's next one comes after
    /// a heartbeat.
    pub(crate) fn note_late(
        &mut self,
        (asked, now): (Time, Time),
        handle: ChunkHandle,
        server: ServerId,
    ) {
        assert!(asked <= now, "a raise is given up after it was sent");
        let (lease, rests_until) = (self.lease, now + self.heartbeat);
        let Some(chunk) = self.chunk(now, handle) else { return };
        let late = chunk.late.entry(server).or_insert(LateMember {
            since: asked,
            until: now,
            refused: false,
        });
        // Of what was long ago it may have recovered: then this is the first raise that it misses.
        if asked > late.until + lease {
            late.since = asked;
        }
        late.until = now;
        chunk.rests_until = rests_until;
    }

    /// A member stands at another version than the raise named: it is there, and the next one will
    /// fit. Its time begins anew, once.
    pub(crate) fn note_stands_elsewhere(
        &mut self,
        now: Time,
        handle: ChunkHandle,
        server: ServerId,
    ) {
        self.note_late((now, now), handle, server);
        if let Some(chunk) = self.chunks.get_mut(&handle)
            && let Some(late) = chunk.late.get_mut(&server)
            && !late.refused
        {
            *late = LateMember { since: now, until: now, refused: true };
        }
    }

    /// A server did not do as it was told, whatever it was.
    pub(crate) fn note_server(&mut self, now: Time, server: ServerId) {
        self.set_apart(now, server, server);
    }

    /// The holder of a lease could not reach these of its set.
    pub(crate) fn note_blame(
        &mut self,
        now: Time,
        (handle, lease): (ChunkHandle, &GrantedLease),
        whom: &[ServerId],
    ) {
        let secondaries = lease.secondaries.iter().flatten();
        for server in secondaries.map(|at| at.server).filter(|server| whom.contains(server)) {
            self.blame(now, handle, (lease.holder.server, server));
        }
    }

    fn blame(&mut self, now: Time, handle: ChunkHandle, (by, server): (ServerId, ServerId)) {
        self.set_apart(now, by, server);
        self.set_apart(now, server, by);
        if let Some(chunk) = self.chunk(now, handle) {
            let blamers = chunk.blamed.entry(server).or_default();
            if !blamers.contains(&by) {
                blamers.push(by);
            }
        }
    }

    /// A primary's lease came to nothing, for which it blames another one or itself. When each of
    /// the set has had its turn, the next one waits, longer each time.
    pub(crate) fn note_failed(
        &mut self,
        (now, handle): (Time, ChunkHandle),
        (primary, blamed): (ServerId, ServerId),
        set_size: u32,
    ) {
        if primary == blamed {
            self.note_server(now, primary);
        } else {
            self.blame(now, handle, (primary, blamed));
        }
        assert!(set_size > 0, "no set is empty (R11)");
        let (heartbeat, lease) = (self.heartbeat, self.lease);
        let Some(chunk) = self.chunk(now, handle) else { return };
        *chunk.failed.entry(primary).or_default() += 1;
        let count: u32 = chunk.failed.values().sum();
        if let Some(beyond) = count.checked_sub(set_size + 1) {
            let pause = heartbeat * (1 << beyond.min(DOUBLINGS_MAX));
            chunk.rests_until = now + pause.min(lease / 2);
        }
    }

    /// A lease serves: the chunk is out of trouble, and these get on with one another.
    pub(crate) fn note_serving(&mut self, handle: ChunkHandle, lease: &GrantedLease) {
        self.chunks.remove(&handle);
        let (primary, secondaries) = (lease.holder.server, lease.secondaries.iter().flatten());
        for server in secondaries.map(|at| at.server).chain([primary]) {
            for (one, other) in [(primary, server), (server, primary), (server, server)] {
                if let Some(apart) = self.apart.get_mut(&one) {
                    apart.remove(&other);
                }
            }
        }
    }

    fn set_apart(&mut self, now: Time, server: ServerId, from: ServerId) {
        let apart = self.apart.entry(server).or_default();
        if apart.len() < APART_MAX || apart.contains_key(&from) {
            apart.insert(from, now);
        }
    }

    /// Time has passed (TR3).
    pub(crate) fn pass(&mut self, now: Time) {
        let dead = self.dead;
        self.chunks.retain(|_, chunk| now < chunk.heard + dead);
        for apart in self.apart.values_mut() {
            apart.retain(|_, when| now < *when + dead);
        }
        self.apart.retain(|_, apart| !apart.is_empty());
    }

    /// Whether the chunk's set had better do without this member (TR1).
    pub(crate) fn is_given_up(&self, handle: ChunkHandle, server: ServerId) -> bool {
        let Some(chunk) = self.chunks.get(&handle) else { return false };
        let blamed = chunk.blamed.get(&server).is_some_and(|by| by.len() >= 2);
        let late =
            chunk.late.get(&server).is_some_and(|late| late.until >= late.since + self.lease);
        blamed || late
    }

    /// Whether a member that lives has not taken the chunk's last raises.
    pub(crate) fn is_late(&self, handle: ChunkHandle, server: ServerId) -> bool {
        self.chunks.get(&handle).is_some_and(|chunk| chunk.late.contains_key(&server))
    }

    /// How often a lease of this primary came to nothing since the chunk's last one that served.
    pub(crate) fn failures_of(&self, handle: ChunkHandle, primary: ServerId) -> u32 {
        let chunk = self.chunks.get(&handle);
        chunk.and_then(|chunk| chunk.failed.get(&primary)).copied().unwrap_or_default()
    }

    /// Whether a lease came to nothing since the chunk's last one that served.
    pub(crate) fn has_failed(&self, handle: ChunkHandle) -> bool {
        self.chunks.get(&handle).is_some_and(|chunk| !chunk.failed.is_empty())
    }

    /// How long the chunk is left alone.
    pub(crate) fn rest(&self, now: Time, handle: ChunkHandle) -> Option<Duration> {
        let until = self.chunks.get(&handle)?.rests_until;
        (now < until).then(|| until.since(now))
    }

    /// With whom a server did not get on lately; with itself: it did not do as it was told.
    pub(crate) fn apart_from(&self, server: ServerId) -> impl Iterator<Item = ServerId> {
        self.apart.get(&server).into_iter().flat_map(|apart| apart.keys().copied())
    }

    /// How much new replicas had better go elsewhere: with how many it does not get on, where they
    /// are two or more. Who did not do as it was told comes behind all of them.
    pub(crate) fn avoidance(&self, server: ServerId) -> usize {
        let Some(apart) = self.apart.get(&server) else { return 0 };
        match apart.len() {
            _ if apart.contains_key(&server) => APART_MAX + 1,
            0 | 1 => 0,
            count => count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{APART_MAX, CHUNKS_MAX, Troubles};
    use crate::leases::{GrantedLease, LeaseStatus};
    use cairn_types::{
        CellConfig, ChunkHandle, ChunkVersion, Incarnation, LeaseId, ReplicaAt, ServerId, Time,
    };
    use std::time::Duration;

    const CHUNK: ChunkHandle = ChunkHandle::new(7);

    /// With leases of 2 s, heartbeats of 250 ms, death after 4 s.
    fn troubles() -> Troubles {
        let mut troubles = Troubles::default();
        troubles.begin(&CellConfig::tiny());
        troubles
    }

    fn server(id: u64) -> ServerId {
        ServerId::new(id)
    }

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    fn lease(holder: u64, secondary: u64) -> GrantedLease {
        let replica = |id| ReplicaAt { server: server(id), ..ReplicaAt::default() };
        GrantedLease {
            id: LeaseId::default(),
            version: ChunkVersion::default(),
            holder: replica(holder),
            incarnation: Incarnation::default(),
            secondaries: Some(vec![replica(secondary)]),
            granted: at(0),
            until: at(2000),
            status: LeaseStatus::Serving,
            confirmed: true,
            takes_appends: true,
            adopted: false,
            acknowledged: 0,
        }
    }

    #[test]
    fn whom_two_primaries_blame_is_given_up_and_neither_of_two_who_blame_each_other() {
        let mut troubles = troubles();
        troubles.note_blame(at(0), (CHUNK, &lease(1, 2)), &[server(2), server(9)]);
        troubles.note_failed((at(1), CHUNK), (server(2), server(1)), 3);
        troubles.note_failed((at(2), CHUNK), (server(1), server(2)), 3);
        assert!(!troubles.is_given_up(CHUNK, server(1)) && !troubles.is_given_up(CHUNK, server(2)));
        assert!(troubles.avoidance(server(1)) == 0, "of two, nobody knows which is cut off");
        troubles.note_failed((at(3), CHUNK), (server(3), server(2)), 3);
        assert!(troubles.is_given_up(CHUNK, server(2)) && !troubles.is_given_up(CHUNK, server(1)));
        assert_eq!((troubles.avoidance(server(2)), troubles.avoidance(server(1))), (2, 0));
        assert!(!troubles.is_given_up(ChunkHandle::new(8), server(2)), "of this chunk alone");
        assert!(!troubles.is_given_up(CHUNK, server(9)), "of who is of no set nothing is kept");
        troubles.note_serving(CHUNK, &lease(1, 3));
        assert!(!troubles.is_given_up(CHUNK, server(2)) && !troubles.has_failed(CHUNK));
        assert_eq!(troubles.avoidance(server(2)), 2, "nobody has reached it since");
    }

    #[test]
    fn one_is_given_up_that_is_late_for_a_lease_and_none_that_was_late_some_time_ago() {
        let mut troubles = troubles();
        let mut late = |asked, now| {
            troubles.note_late((at(asked), at(now)), CHUNK, server(1));
            troubles.is_given_up(CHUNK, server(1))
        };
        assert!(!late(0, 1000));
        assert!(!late(5000, 6000), "what it missed before is long ago");
        assert!(!late(6250, 6999));
        assert!(late(6999, 7000));
        troubles.note_stands_elsewhere(at(7001), CHUNK, server(1));
        assert!(!troubles.is_given_up(CHUNK, server(1)), "it speaks");
        troubles.note_stands_elsewhere(at(9001), CHUNK, server(1));
        assert!(troubles.is_given_up(CHUNK, server(1)), "and says no again and again");
        troubles.note_raised(CHUNK, server(1));
        assert!(!troubles.is_late(CHUNK, server(1)) && !troubles.is_given_up(CHUNK, server(1)));
    }

    #[test]
    fn when_each_of_a_set_has_failed_the_next_waits_longer_each_time_and_never_too_long() {
        let mut troubles = troubles();
        let mut failed = |primary| {
            troubles.note_failed((at(0), CHUNK), (server(primary), server(primary)), 2);
            troubles.rest(at(0), CHUNK).map_or(0, |rest| rest.as_millis())
        };
        let rests: Vec<u128> = [1, 2, 1, 2, 1, 2, 1].map(&mut failed).to_vec();
        assert_eq!(rests, [0, 0, 250, 500, 1000, 1000, 1000]);
        assert_eq!(troubles.failures_of(CHUNK, server(1)), 4);
        assert_eq!(troubles.rest(at(1000), CHUNK), None);
        assert!(troubles.avoidance(server(1)) > APART_MAX, "it did not do as it was told");
    }

    #[test]
    fn what_is_kept_is_bounded_and_goes_with_time() {
        let mut troubles = troubles();
        for number in 0..=CHUNKS_MAX as u64 {
            let (chunk, other) = (ChunkHandle::new(1 + number), 2 + number % 100);
            troubles.note_failed((at(0), chunk), (server(1), server(other)), 3);
        }
        assert_eq!(troubles.chunks.len(), CHUNKS_MAX);
        assert_eq!(troubles.apart[&server(1)].len(), APART_MAX);
        troubles.pass(at(4000));
        assert!(troubles.chunks.is_empty() && troubles.apart.is_empty());
    }
}
