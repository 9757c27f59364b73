//! What is known of each chunk's replicas: soft, told by the servers that hold them (§2.6.2).
//!
//! - L1: within one life of a server what it told never goes back: a word that was overtaken on
//!   its way changes nothing.
//! - L2: a replica at the logged version or above is up to date (R9).
//! - L3: of those, with no lease live, the ones that lack what was acknowledged are stale (R29).

use cairn_protocol::ReplicaReport;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber, ServerId, Time};
use std::collections::BTreeMap;

/// One replica as last heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) version: ChunkVersion,
    pub(super) mutated_version: ChunkVersion,
    pub(super) serial: SerialNumber,
    pub(super) length: u64,
    pub(super) acknowledged: u64,
    pub(super) acknowledged_serial: SerialNumber,
    pub(super) closed: bool,
    pub(super) suspect: bool,
    /// Blocks of it fail their checksum; its server said so.
    pub(super) damaged: bool,
    pub(super) reported: Time,
}

impl Replica {
    pub(super) fn of(report: &ReplicaReport, now: Time) -> Self {
        Self {
            version: report.version,
            mutated_version: report.mutated_version,
            serial: report.serial,
            length: report.length,
            // Nobody can be asked for more than the one who knows of it has.
            acknowledged: report.acknowledged.min(report.length),
            acknowledged_serial: report.acknowledged_serial.min(report.serial),
            closed: report.closed,
            suspect: report.suspect,
            damaged: false,
            reported: now,
        }
    }

    fn order(&self) -> (ChunkVersion, ChunkVersion, SerialNumber) {
        (self.version, self.mutated_version, self.serial)
    }

    /// May order or apply mutations, and is read without a warning.
    pub(super) fn is_sound(&self) -> bool {
        !self.suspect && !self.damaged
    }

    /// Whether it is up to date where `logged` is the logged version (L2).
    pub(super) fn is_current(&self, logged: ChunkVersion) -> bool {
        if broken(Rule::R9) { self.version == logged } else { self.version >= logged }
    }
}

#[derive(Debug, Default)]
struct Chunk {
    replicas: BTreeMap<ServerId, Replica>,
    /// No lease is known to have been live since then.
    quiet: Time,
}

/// All replicas that are known.
#[derive(Debug, Default)]
pub(super) struct Locations {
    chunks: BTreeMap<ChunkHandle, Chunk>,
}

impl Locations {
    /// Takes in what a server says of a replica (L1).
    pub(super) fn report(&mut self, now: Time, server: ServerId, report: &ReplicaReport) {
        let chunk = self.chunks.entry(report.handle).or_default();
        let mut heard = Replica::of(report, now);
        if let Some(known) = chunk.replicas.get(&server) {
            if heard.order() < known.order() {
                return;
            }
            heard.damaged = known.damaged;
            heard.closed |= known.closed;
        }
        chunk.replicas.insert(server, heard);
    }

    pub(super) fn of(&self, handle: ChunkHandle) -> impl Iterator<Item = (ServerId, &Replica)> {
        let replicas = self.chunks.get(&handle).into_iter().flat_map(|chunk| &chunk.replicas);
        replicas.map(|(server, replica)| (*server, replica))
    }

    pub(super) fn get(&self, handle: ChunkHandle, server: ServerId) -> Option<&Replica> {
        self.chunks.get(&handle)?.replicas.get(&server)
    }

    /// How many replicas each server holds; looks at every chunk.
    pub(super) fn counts(&self) -> BTreeMap<ServerId, u64> {
        let mut counts = BTreeMap::new();
        for server in self.chunks.values().flat_map(|chunk| chunk.replicas.keys()) {
            *counts.entry(*server).or_default() += 1;
        }
        counts
    }

    pub(super) fn mark_damaged(&mut self, handle: ChunkHandle, server: ServerId) {
        if let Some(chunk) = self.chunks.get_mut(&handle)
            && let Some(replica) = chunk.replicas.get_mut(&server)
        {
            replica.damaged = true;
        }
    }

    /// A lease has just ended: what is told from now on is where the bytes stay.
    pub(super) fn quiet_since(&mut self, handle: ChunkHandle, now: Time) {
        self.chunks.entry(handle).or_default().quiet = now;
    }

    /// Since when no lease is known to have been live.
    pub(super) fn quiet(&self, handle: ChunkHandle) -> Time {
        self.chunks.get(&handle).map(|chunk| chunk.quiet).unwrap_or_default()
    }

    pub(super) fn remove(&mut self, handle: ChunkHandle, server: ServerId) {
        if let Some(chunk) = self.chunks.get_mut(&handle) {
            chunk.replicas.remove(&server);
        }
    }

    /// Forgets what a server held: it died, or tells anew.
    pub(super) fn remove_server(&mut self, server: ServerId) {
        for chunk in self.chunks.values_mut() {
            chunk.replicas.remove(&server);
        }
        self.chunks.retain(|_, chunk| !chunk.replicas.is_empty());
    }

    /// Replicas that are up to date by version and lack what was acknowledged, by what each told
    /// last. One may have gone on since and lack nothing; it is read from again when it says so,
    /// with its next heartbeat. One that was set back while a lease was live says no more (R29).
    pub(super) fn left_behind(&self, handle: ChunkHandle, logged: ChunkVersion) -> Vec<ServerId> {
        let current: Vec<(ServerId, Replica)> = self
            .of(handle)
            .filter(|(_, replica)| replica.is_current(logged))
            .map(|(server, replica)| (server, *replica))
            .collect();
        behind(&current)
    }
}

/// Which of these replicas are stale although their version is not (R29): those that have not
/// applied, or do not hold, what any of them knows to be acknowledged.
///
/// A sound one that lacks only what nobody was told of (its primary died half way through a
/// mutation) is as good as the others. A suspect one is not: what it lacks it may have lost, and
/// whoever knew that it was acknowledged may have lost that too (R28).
pub(super) fn behind(replicas: &[(ServerId, Replica)]) -> Vec<ServerId> {
    if broken(Rule::R29) {
        return Vec::new();
    }
    let serial = replicas.iter().map(|(_, replica)| replica.acknowledged_serial).max();
    let length = replicas.iter().map(|(_, replica)| replica.acknowledged).max();
    let furthest = replicas.iter().map(|(_, replica)| replica.serial).max();
    let lacks = |replica: &Replica| {
        let may_have_lost = replica.suspect && Some(replica.serial) < furthest;
        may_have_lost || Some(replica.serial) < serial || Some(replica.length) < length
    };
    replicas.iter().filter(|(_, replica)| lacks(replica)).map(|(server, _)| *server).collect()
}

#[cfg(test)]
mod tests {
    use super::{Locations, Replica, behind};
    use cairn_protocol::ReplicaReport;
    use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber, ServerId, Time};
    use std::time::Duration;

    const HANDLE: ChunkHandle = ChunkHandle::new(7);

    fn server(id: u64) -> ServerId {
        ServerId::new(id)
    }

    fn replica(id: u64, serial: u64, acknowledged: u64) -> (ServerId, Replica) {
        let report = ReplicaReport {
            serial: SerialNumber::new(serial),
            length: 10 * serial,
            acknowledged_serial: SerialNumber::new(acknowledged),
            acknowledged: 10 * acknowledged,
            ..ReplicaReport::default()
        };
        (server(id), Replica::of(&report, Time::default()))
    }

    #[test]
    fn an_old_image_lacks_what_others_know_to_be_acknowledged() {
        assert_eq!(behind(&[replica(1, 9, 9), replica(2, 9, 8), replica(3, 4, 4)]), [server(3)]);
        assert_eq!(behind(&[replica(1, 9, 5), replica(2, 4, 4)]), [server(2)]);
    }

    #[test]
    fn a_suspect_replica_that_has_applied_less_than_another_may_have_lost_the_rest() {
        let suspect = |id, serial| {
            let (server, replica) = replica(id, serial, 3);
            (server, Replica { suspect: true, ..replica })
        };
        assert_eq!(behind(&[suspect(1, 9), suspect(2, 8), suspect(3, 9)]), [server(2)]);
        assert_eq!(behind(&[replica(1, 8, 3), suspect(2, 9)]), []);
    }

    #[test]
    fn a_primary_that_died_half_way_through_a_mutation_leaves_the_others_standing() {
        assert_eq!(behind(&[replica(1, 10, 9), replica(2, 9, 9), replica(3, 9, 8)]), []);
    }

    #[test]
    fn what_the_one_who_knows_of_it_lacks_itself_is_asked_of_nobody() {
        assert_eq!(behind(&[replica(1, 9, 10), replica(2, 9, 9)]), []);
    }

    #[test]
    fn a_word_that_was_overtaken_changes_nothing() {
        let mut locations = Locations::default();
        let report = |version: u64| ReplicaReport {
            handle: HANDLE,
            version: ChunkVersion::new(version),
            ..ReplicaReport::default()
        };
        let at = |millis| Time::default() + Duration::from_millis(millis);
        locations.report(at(2), server(1), &report(6));
        locations.report(at(3), server(1), &report(5));
        let known = locations.get(HANDLE, server(1)).expect("reported");
        assert_eq!((known.version, known.reported), (ChunkVersion::new(6), at(2)));
    }

    #[test]
    fn reads_judge_a_replica_only_by_what_it_told_since_the_lease_ended() {
        let mut locations = Locations::default();
        let report = |serial: u64| ReplicaReport {
            handle: HANDLE,
            serial: SerialNumber::new(serial),
            acknowledged_serial: SerialNumber::new(serial),
            ..ReplicaReport::default()
        };
        let at = |millis| Time::default() + Duration::from_millis(millis);
        locations.report(at(1), server(1), &report(3));
        locations.report(at(2), server(2), &report(9));
        let left = |locations: &Locations| locations.left_behind(HANDLE, ChunkVersion::default());
        assert_eq!(left(&locations), [server(1)], "it may have been set back");
        locations.report(at(3), server(1), &report(4));
        assert_eq!(left(&locations), [server(1)]);
        locations.report(at(4), server(1), &report(9));
        assert_eq!(left(&locations), [], "it had gone on");
    }
}
