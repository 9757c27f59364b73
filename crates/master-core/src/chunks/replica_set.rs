//! Which replicas may make up a chunk's set, and what forbids it (R9, R11, R22, R28).
//!
//! - T1: nobody outside the set may still act under an older lease, known or not.
//! - T2: a set is never smaller than two, where goal and logged size allow two, nor smaller than
//!   the logged one while a missing member may still come; but for one that the master decides on
//!   (`decided_set.rs`).

use super::Chunks;
use super::decided_set::Decision;
use super::locations::Replica;
use super::raise::Member;
use crate::state::ChunkRecord;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ServerId, Time};
use std::time::Duration;

/// What keeps a chunk from being leased.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blocked {
    pub(super) why: String,
    /// The master has just started and servers are still joining: an append waits too.
    pub(super) starting: bool,
}

impl Chunks {
    /// Replicas at the logged version or above (R9).
    pub(super) fn current(
        &self,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
    ) -> impl Iterator<Item = (ServerId, Replica)> {
        let logged = chunk.version;
        self.locations.of(handle).filter(move |(_, replica)| replica.is_current(logged))
    }

    /// Whom to raise for a lease, or what forbids it (T1, T2).
    pub(super) fn plan_raise(
        &self,
        now: Time,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
    ) -> Result<Vec<Member>, Blocked> {
        let decided = match self.decide(now, handle, chunk) {
            _ if broken(Rule::R11) => None,
            Decision::NotNeeded => None,
            Decision::At(at) => return Err(self.undecided(now, at)),
            Decision::Set(set) => Some(set),
        };
        let fits = |server: ServerId, replica: &Replica| match &decided {
            Some(set) => set.contains(&server),
            None => replica.is_sound(),
        };
        let mut usable: Vec<(ServerId, Replica)> =
            self.current(handle, chunk).filter(|(server, r)| fits(*server, r)).collect();
        if usable.is_empty() {
            // R28: with every member heard of and none sound, the suspects are all there is.
            let suspects = self.current(handle, chunk).filter(|(_, replica)| !replica.damaged);
            let suspects: Vec<(ServerId, Replica)> = suspects.collect();
            if suspects.len() >= chunk.set_size as usize {
                usable = suspects;
            }
        }
        let live = usable.into_iter().filter(|(server, _)| self.servers.is_live(now, *server));
        let members: Vec<Member> = live
            .filter_map(|(server, replica)| {
                let at = self.servers.at(server)?.clone();
                Some(Member { at, from: Some(replica.version) })
            })
            .collect();
        let servers: Vec<ServerId> = members.iter().map(|member| member.at.server).collect();
        self.may_be_set(now, handle, chunk, &servers)?;
        Ok(members)
    }

    /// Why a chunk waits for the master's decision.
    fn undecided(&self, now: Time, at: Time) -> Blocked {
        let left = at.since(now).as_millis();
        let why = format!(
            "too few replicas hold for certain all that was acknowledged; in {left} ms the best of \
             them become the set"
        );
        Blocked { why, starting: now < self.grace() }
    }

    /// In the first while of a term servers are still joining.
    fn grace(&self) -> Time {
        self.started + Duration::from_millis(self.config.silent_ms)
    }

    /// Whether these replicas may become the chunk's set under a new lease.
    pub(super) fn may_be_set(
        &self,
        now: Time,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
        servers: &[ServerId],
    ) -> Result<(), Blocked> {
        let blocked = |why: String| Err(Blocked { why, starting: now < self.grace() });
        // T1, R22: nobody else may still act under an older lease.
        if let Some(lease) = self.leases.possible(handle, now)
            && !servers.contains(&lease.holder.server)
        {
            let left = lease.until.since(now).as_millis();
            let holder = &lease.holder.address;
            return blocked(format!("a lease of {holder}, which does not answer, runs {left} ms"));
        }
        let (size, logged) = (servers.len(), chunk.set_size as usize);
        let old_holder_unknown = size < logged && self.former_holder_unknown(now, handle, chunk);
        if old_holder_unknown && !broken(Rule::R22) {
            return blocked("a lease of an earlier term may still run".to_owned());
        }
        if self.decide(now, handle, chunk) == Decision::Set(servers.to_vec()) {
            return Ok(());
        }
        let least = if broken(Rule::R11) { 1 } else { least_set(chunk) };
        if size < least {
            return blocked(format!("{size} usable replicas of {logged}; {least} are needed"));
        }
        let not_waited_for = broken(Rule::R11) || (broken(Rule::R22) && old_holder_unknown);
        if size < logged && !not_waited_for && self.missing_may_come(now, handle, chunk) {
            let missing = logged - size;
            return blocked(format!("{missing} replicas of {logged} are missing, not yet dead"));
        }
        Ok(())
    }

    /// R22: whether a lease that this term does not know may be live.
    pub(super) fn former_holder_unknown(
        &self,
        now: Time,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
    ) -> bool {
        let lease = self.config.lease();
        let longest =
            lease + lease * u32::try_from(self.config.drift_permille).unwrap_or(u32::MAX) / 1000;
        chunk.version.term() < self.term
            && now < self.started + longest
            && self.leases.get(handle).is_none()
    }

    /// R11: whether a member that is not here may still come. Which servers made up the set is
    /// not logged: in the first while of a term anybody may. A suspect one is waited for only
    /// where none is sound: then it may be the one that lost nothing (R28).
    pub(super) fn missing_may_come(
        &self,
        now: Time,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
    ) -> bool {
        let dead = Duration::from_millis(self.config.dead_ms);
        let none_sound = !self.current(handle, chunk).any(|(_, replica)| replica.is_sound());
        let holds = |server| {
            let replica = self.locations.get(handle, server);
            replica.is_some_and(|replica| {
                let wanted = replica.is_sound() || (none_sound && !replica.damaged);
                wanted && replica.is_current(chunk.version)
            })
        };
        now < self.started + dead || self.servers.may_tell_more(now, holds)
    }
}

/// The fewest replicas that a set may have (R11); a chunk that was created smaller stays usable.
pub(super) fn least_set(chunk: &ChunkRecord) -> usize {
    2.min(chunk.goal).min(chunk.set_size).max(1) as usize
}
