//! A replica as last heard of, and which of a chunk's replicas lack what others have (R29).

use cairn_protocol::ReplicaReport;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber, ServerId, Time};

/// One replica as last heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownReplica {
    pub(crate) version: ChunkVersion,
    pub(crate) mutated_version: ChunkVersion,
    pub(crate) serial: SerialNumber,
    pub(crate) length: u64,
    pub(crate) acknowledged: u64,
    pub(crate) acknowledged_serial: SerialNumber,
    pub(crate) closed: bool,
    pub(crate) suspect: bool,
    /// Blocks of it fail their checksum; its server said so.
    pub(crate) damaged: bool,
    pub(crate) reported: Time,
}

impl KnownReplica {
    pub(crate) fn of(report: &ReplicaReport, now: Time) -> Self {
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

    /// What was told of it, but for whose it is.
    pub(super) fn to_report(self) -> ReplicaReport {
        ReplicaReport {
            handle: ChunkHandle::default(),
            version: self.version,
            mutated_version: self.mutated_version,
            serial: self.serial,
            length: self.length,
            closed: self.closed,
            suspect: self.suspect,
            acknowledged: self.acknowledged,
            acknowledged_serial: self.acknowledged_serial,
        }
    }

    pub(super) fn order(&self) -> (ChunkVersion, ChunkVersion, SerialNumber) {
        (self.version, self.mutated_version, self.serial)
    }

    /// May order or apply mutations, and is read without a warning.
    pub(crate) fn is_sound(&self) -> bool {
        !self.suspect && !self.damaged
    }

    /// Whether it is up to date where `logged` is the logged version (L2).
    pub(crate) fn is_current(&self, logged: ChunkVersion) -> bool {
        if broken(Rule::R9) { self.version == logged } else { self.version >= logged }
    }

    /// Whether it is told of as the other is.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        Self { reported: other.reported, ..*self } == *other
    }
}

/// Which of these replicas are stale although their version is not (R29): those that have not
/// applied, or do not hold, what any of them knows to be acknowledged.
///
/// A sound one that lacks only what nobody was told of (its primary died half way through a
/// mutation) is as good as the others. A suspect one is not: what it lacks it may have lost, and
/// whoever knew that it was acknowledged may have lost that too (R28).
///
/// By what each told last: one may have gone on since and lack nothing; it counts again when it
/// says so, with its next heartbeat. One that was set back while a lease was live says no more.
pub(crate) fn behind(replicas: &[(ServerId, KnownReplica)]) -> Vec<ServerId> {
    if broken(Rule::R29) {
        return Vec::new();
    }
    let serial = replicas.iter().map(|(_, replica)| replica.acknowledged_serial).max();
    let length = replicas.iter().map(|(_, replica)| replica.acknowledged).max();
    let furthest = replicas.iter().map(|(_, replica)| replica.serial).max();
    let lacks = |replica: &KnownReplica| {
        let may_have_lost = replica.suspect && Some(replica.serial) < furthest;
        may_have_lost || Some(replica.serial) < serial || Some(replica.length) < length
    };
    replicas.iter().filter(|(_, replica)| lacks(replica)).map(|(server, _)| *server).collect()
}

#[cfg(test)]
mod tests {
    use super::{KnownReplica, behind};
    use cairn_protocol::ReplicaReport;
    use cairn_types::{SerialNumber, ServerId, Time};

    fn server(id: u64) -> ServerId {
        ServerId::new(id)
    }

    fn replica(id: u64, serial: u64, acknowledged: u64) -> (ServerId, KnownReplica) {
        let report = ReplicaReport {
            serial: SerialNumber::new(serial),
            length: 10 * serial,
            acknowledged_serial: SerialNumber::new(acknowledged),
            acknowledged: 10 * acknowledged,
            ..ReplicaReport::default()
        };
        (server(id), KnownReplica::of(&report, Time::default()))
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
            (server, KnownReplica { suspect: true, ..replica })
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
}
