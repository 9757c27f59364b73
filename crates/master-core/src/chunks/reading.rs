//! Where readers are sent (§2.4, §4.5): up-to-date replicas that stand at one version.
//!
//! A reader names one version, and a replica serves no other (R12). With a lease live that is the
//! lease's. Without one, replicas above the logged version are as good as those at it (R9): the
//! version that most of them stand at is the one to ask for.

use super::Chunks;
use super::leases::Lease;
use super::locations::Replica;
use crate::state::{ChunkRecord, State};
use cairn_env::Now;
use cairn_protocol::{ChunkLocations, ServerState};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt, ServerId, Time};
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl Chunks {
    /// Where a chunk can be read; nowhere, if nobody who has it can be reached.
    pub(crate) fn locations(&self, handle: ChunkHandle, state: &State, now: Now) -> ChunkLocations {
        let Some(chunk) = state.chunk(handle) else { return ChunkLocations::default() };
        let lease = self.leases.serving(handle, now.time);
        let (version, servers) = match lease {
            Some(lease) => (lease.version, self.of_lease(handle, lease, &chunk)),
            None => self.without_lease(now.time, handle, &chunk),
        };
        ChunkLocations {
            index: chunk.index,
            handle,
            version,
            closed: chunk.closed,
            replicas: self.best_first(now.time, handle, &servers),
            primary: lease.map(|lease| lease.holder.server),
        }
    }

    /// Whether a lease is live, whose holder alone knows the acknowledged length.
    pub(crate) fn is_leased(&self, handle: ChunkHandle, now: Now) -> bool {
        self.leases.serving(handle, now.time).is_some()
    }

    /// The holder and its secondaries. One that joined anew since the grant may have been set back
    /// (R29); the next mutation will tell, readers need not find out.
    fn of_lease(&self, handle: ChunkHandle, lease: &Lease, chunk: &ChunkRecord) -> Vec<ServerId> {
        let secondaries = self.secondaries_of(handle, lease, chunk).unwrap_or_default();
        let as_granted = |server: &ServerId| {
            let joined = self.servers.get(*server).map(|server| server.joined);
            lease.adopted
                || broken(Rule::R29)
                || joined.is_some_and(|joined| joined <= lease.granted)
        };
        let set = secondaries.iter().map(|at| at.server).filter(as_granted);
        std::iter::once(lease.holder.server).chain(set).collect()
    }

    fn without_lease(
        &self,
        now: Time,
        handle: ChunkHandle,
        chunk: &ChunkRecord,
    ) -> (ChunkVersion, Vec<ServerId>) {
        let mut left_behind = Vec::new();
        if !self.former_holder_unknown(now, handle, chunk) {
            left_behind = self.locations.left_behind(handle, chunk.version);
        }
        let mut by_version: BTreeMap<ChunkVersion, Vec<(ServerId, Replica)>> = BTreeMap::new();
        for (server, replica) in self.current(handle, chunk) {
            if !left_behind.contains(&server) {
                by_version.entry(replica.version).or_default().push((server, replica));
            }
        }
        let worth = |replicas: &[(ServerId, Replica)]| {
            let live = replicas.iter().filter(|(server, _)| self.servers.is_live(now, *server));
            let sound = live.clone().filter(|(_, replica)| replica.is_sound());
            (sound.count(), live.count())
        };
        let best = by_version.into_iter().max_by_key(|(version, all)| (worth(all), *version));
        match best {
            Some((version, all)) => (version, all.into_iter().map(|(server, _)| server).collect()),
            None => (chunk.version, Vec::new()),
        }
    }

    /// Live servers; a silent, suspect or damaged one only where no other is.
    fn best_first(&self, now: Time, handle: ChunkHandle, servers: &[ServerId]) -> Vec<ReplicaAt> {
        let mut ranked: Vec<(Reverse<bool>, Reverse<bool>, &ReplicaAt)> = Vec::new();
        for server in servers {
            let Some(at) = self.servers.at(*server) else { continue };
            match self.servers.state(now, *server) {
                Some(ServerState::Dead) | None => continue,
                Some(state) => {
                    let replica = self.locations.get(handle, *server);
                    let sound = replica.is_none_or(|replica| replica.is_sound());
                    ranked.push((Reverse(state == ServerState::Live), Reverse(sound), at));
                }
            }
        }
        let any_live = ranked.iter().any(|(live, ..)| live.0);
        ranked.retain(|(live, ..)| live.0 || !any_live);
        // R28: who may have lost bytes is read from only where nobody else can be; readers choose
        // by distance, so it must not even be named.
        let any_sound = ranked.iter().any(|(_, sound, _)| sound.0);
        ranked.retain(|(_, sound, _)| sound.0 || !any_sound);
        ranked.sort_by_key(|(live, sound, at)| (*live, *sound, at.server));
        ranked.into_iter().map(|(_, _, at)| at.clone()).collect()
    }
}
